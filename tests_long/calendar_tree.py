"""The timem index with texts that are given, so that recall is tested apart from what writes memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tests_long.worlds import fast_config

from memforest import Config
from memforest.config import Recall
from memforest.search.cache import digests_of, forest_of
from memforest.search.filters import Prepared, Search
from memforest.search.forest import as_keys
from memforest.search.snapshot import Snapshot
from memforest.store import artifacts
from memforest.store.artifacts import Artifact
from memforest.store.connections import Tx
from memforest.store.sessions import turns_with_ids
from memforest.trees import timem_recall
from memforest.trees.index import Host
from memforest.trees.timem import TiMemIndex
from memforest.trees.timem_grow import TiMemSettings, turn_rows

__all__ = ["CalendarTree", "Written", "configured"]


@dataclass(frozen=True)
class Written:
    """A node of the tree: its level, the key of its window or the id of its session, and the turns below it."""

    level: int
    key: str
    turns: Sequence[str]


def every(node: Written) -> str | None:
    """Return a text of each memory from the session to the month."""
    return f"Level {node.level} of {node.key}: {node.turns[0]}" if node.level >= 1 else None


class CalendarTree(TiMemIndex):
    """The index, whose texts are put into the file before a question is answered."""

    texts: ClassVar[Callable[[Written], str | None]] = staticmethod(every)
    """What each node says; None for nothing."""

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Put the texts there, and plan the recall."""
        told = await host.read(self._told)
        vectors = await host.embed_questions(list(told.values())) if told and host.embeds else ()

        def work(tx: Tx) -> None:
            artifacts.put(
                tx, "summary", [Artifact(key, "by hand", text, "own") for key, text in told.items()]
            )
            artifacts.put_vectors(tx, zip(told, vectors, strict=False))

        await host.write(work)
        return await timem_recall.prepare(host, request, self.settings.recall)

    def _told(self, tx: Tx, snapshot: Snapshot) -> dict[bytes, str]:
        """Return what nodes say, by the digests of their texts."""
        forest, found = forest_of(tx, snapshot, self), {}
        keys = as_keys(digests_of(tx, snapshot, self)[forest.told]) if len(forest) else []
        sessions = {span.id: span.session_id for span in snapshot.sessions}
        for row, key in zip(forest.told.tolist(), keys, strict=True):
            turns = turn_rows(forest, row)
            said = turns_with_ids(tx, snapshot.turns.ids[turns].tolist())
            name = forest.window_of(row) or sessions[int(snapshot.turns.session[turns[0]])]
            node = Written(
                int(forest.level[row]), name, [said[one].text for one in snapshot.turns.ids[turns].tolist()]
            )
            if (text := type(self).texts(node)) is not None:
                found[key] = text
        return found


def configured(own: Recall | None = None, **more: object) -> Config:
    """Return the configuration of a memory with this index."""
    settings = {"timem": TiMemSettings(recall=own or Recall())}
    return fast_config(**{"indexes": ("timem",), "index_settings": settings, **more})
