"""Refresh: what was touched and nothing else, failures that stay where they are, and writes that come in between."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions, rows, said, transaction

from memforest import AsyncMemForest, MemForest
from memforest.errors import ModelError, StepError
from memforest.models import HashEmbedder
from memforest.ports import UnchangedText
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.search.cache import digests_of, embedded_forest, forest_of
from memforest.search.forest import as_keys
from memforest.search.snapshot import load_snapshot
from memforest.store import artifacts
from memforest.store.connections import connect
from memforest.trees.memforest import MemForestIndex


class Watched:
    """The local summariser, which notes what it is asked for and fails where it is told to."""

    def __init__(self) -> None:
        self._local = LocalSummariser()
        self.name = self._local.name
        self.asked: list[SummaryRequest] = []
        self.batches = 0
        self.fails_on = "nothing"
        self.meanwhile: Any = None

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Summarise what is not of the scope that fails."""
        self.batches += 1
        self.asked += requests
        if self.meanwhile is not None:
            doing, self.meanwhile = self.meanwhile, None
            await doing()
        made = await self._local.summarise(requests)
        return [
            StepError("the model refused") if request.label == self.fails_on else text
            for request, text in zip(requests, made, strict=True)
        ]


def dirty(folder: Path) -> set[str]:
    """Return the scopes of trees that lack summaries."""
    index, found = MemForestIndex(), set[str]()
    with transaction(file_of(folder)) as tx:
        snapshot, stored = load_snapshot(tx), artifacts.known(tx)
        forest = forest_of(tx, snapshot, index)
        names = index.names(snapshot, forest)
        for row, key in zip(
            forest.told.tolist(), as_keys(digests_of(tx, snapshot, index)[forest.told]), strict=True
        ):
            tree = int(forest.tree[row])
            if key not in stored:
                found.add("scene" if forest.tree_kind[tree] == "scene" else names[tree])
    return found


def changed(folder: Path, sql: str) -> int:
    """Run a statement on the file behind memforest's back, and return how many rows it changed."""
    with closing(connect(file_of(folder), 5.0)) as conn:
        count = conn.execute(sql).rowcount
        conn.commit()
        return int(count)


def many(n: int, word: str) -> list[str]:
    """Return sentences that become facts of their own."""
    return [f"I bought {i + 2} {word}s in Oslo." for i in range(n)]


def test_only_touched_paths_are_refreshed(folder: Path) -> None:
    """A new session refreshes its own tree and one path of its speaker's, not the rest of the forest."""
    watched = Watched()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        forest.ingest_session("u", "s1", said(*many(80, "tent")), refresh=True)
        before = forest.user("u").stats()
        watched.asked.clear()
        result = forest.ingest_session(
            "u", "s2", said("I bought a red car.", "I sold it.", "I bought a boat.", day=9), refresh=True
        )
        after = forest.user("u").stats()
    touched = {(request.kind, request.label) for request in watched.asked}
    assert ("session", "s1") not in touched
    assert {("session", "s2"), ("entity", "Ana")} <= touched
    assert result.nodes_refreshed == len(watched.asked)
    assert len(watched.asked) <= 16 < before.nodes - before.sessions
    assert (before.dirty_nodes, after.dirty_nodes, result.nodes_dirty) == (0, 0, 0)


def test_a_level_of_all_trees_is_one_batch(folder: Path) -> None:
    """Levels are refreshed over all trees together: as many batches as the tallest tree has levels."""
    watched = Watched()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        forest.ingest_session("u", "s1", said(*many(40, "tent")))
        assert watched.batches == 0
        heights = [view.level for view in forest.user("u").tree(depth=0)]
    assert watched.batches == max(heights)


def test_only_refreshed_nodes_are_embedded(folder: Path) -> None:
    """What the model is asked for, per kind, is what is new."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s1", said(*many(40, "tent")), refresh=True)
        result = forest.ingest_session(
            "u", "s2", said("I bought a red car.", "I sold the boat.", "It rains.", day=9), refresh=True
        )
    assert result.usage.embeds.get("node", 0) <= result.nodes_refreshed
    assert result.usage.embeds["turn"] == 3


def test_a_failing_summary_leaves_only_its_own_tree_dirty(folder: Path) -> None:
    """Its node and all above stay dirty and are reported; other trees are finished; the next refresh completes."""
    watched = Watched()
    watched.fails_on = "s1"
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        result = forest.ingest_session("u", "s1", said(*many(20, "tent")), refresh=True)
        assert dirty(folder) == {"s1"}
        assert result.nodes_dirty == forest.user("u").stats().dirty_nodes > 1
        assert result.warnings
        assert all("s1" in warning and "refused" in warning for warning in result.warnings)
        assert forest.query("u", "What did Ana buy?").evidence
        assert forest.user("u").verify().ok
        watched.fails_on = "nothing"
        assert forest.ingest_session("u", "s2", said("It rains.", day=2), refresh=True).nodes_dirty == 0
        assert dirty(folder) == set()


class FailingLater(HashEmbedder):
    """The hashing embedder, out of order while `broken`."""

    broken = False

    async def embed(self, texts: Sequence[str]) -> Any:
        """Embed, or fail."""
        if self.broken:
            raise ModelError("the embedder is out of order")
        return await super().embed(texts)


def test_a_failing_embedder_leaves_nodes_dirty_and_data_whole(folder: Path) -> None:
    """Facts are stored, the refresh is reported as unfinished, and `resume` completes it."""
    embedder = FailingLater(32)
    with MemForest(folder, fast_config(embedder=embedder)) as forest:
        forest.ingest_session("u", "s1", said(*many(9, "tent")), refresh=False)
        embedder.broken = True
        with pytest.raises(ModelError):
            forest.ingest_session("u", "s2", said("I live in Oslo.", "I work at Acme.", day=2))
        assert {s.session_id: s.turns for s in forest.user("u").sessions()} == {"s1": 9, "s2": 2}
        embedder.broken = False
        forest.resume()
        stats = forest.user("u").stats()
        assert (stats.dirty_nodes, stats.vectors["turn"]) == (0, 11)
        assert forest.user("u").verify().ok


def test_a_write_in_between_leaves_no_summary_of_before(folder: Path) -> None:
    """A summary made of what a node no longer says is not taken for the node's, and not stored."""
    watched = Watched()

    async def run() -> None:
        config = fast_config(summariser=watched)
        async with AsyncMemForest(folder, config) as forest, AsyncMemForest(folder, fast_config()) as other:
            await forest.ingest_session("u", "s1", said(*many(6, "tent")), refresh=True)

            async def write() -> None:
                await other.ingest_session("u", "s3", said("I bought a red car.", day=3), refresh=False)

            watched.meanwhile = write
            result = await forest.ingest_session("u", "s2", said("I bought a boat.", day=2), refresh=True)
            assert result.nodes_dirty == 0  # it has looked again at what the memory asks for
            assert dirty(folder) == set()
            (summary,) = [view.summary for view in await forest.user("u").tree("Ana", depth=0)]
            assert summary
            assert (await forest.user("u").verify()).ok

    asyncio.run(run())


def test_refresh_can_wait(folder: Path) -> None:
    """With `refresh=False` nothing is summarised until the next ingest or `resume`; queries work meanwhile."""
    watched = Watched()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        for session_id, turns in make_sessions(3):
            forest.ingest_session("u", session_id, turns, refresh=False)
        assert not watched.asked
        assert forest.query("u", "Where does Ana live?").evidence
        forest.resume()
        assert watched.asked
        assert dirty(folder) == set()


def test_words_only_memory_drops_vectors_of_old_summaries(folder: Path) -> None:
    """A memory used for a while without its embedder has no vector of a text it no longer holds, and gets them back."""
    first, second = make_sessions(4, sessions=2)
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", *first)
    with MemForest(folder, fast_config(embedder="none")) as forest:
        forest.ingest_session("u", *second)
        assert forest.user("u").verify().ok
    with MemForest(folder, fast_config()) as forest:
        forest.resume()
        stats = forest.user("u").stats()
        assert forest.user("u").verify().ok
        assert stats.vectors == {
            "turn": stats.turns,
            "fact": stats.facts,
            "node": rows(file_of(folder), "SELECT count(*) FROM artifact WHERE vector_of = 'own'")[0][0],
        }


class Keeping:
    """Keeps what is short, as a summariser that pays for every call does; else the local one."""

    name = "keeping"

    def __init__(self) -> None:
        self._local = LocalSummariser()

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the children's texts where they have few words, else a summary of a few words."""
        return [
            UnchangedText("\n".join(one.inputs))
            if sum(len(text.split()) for text in one.inputs) <= 40
            else (await self._local.summarise([replace(one, max_words=30)]))[0]
            for one in requests
        ]


def means(folder: Path) -> list[bytes]:
    """Return the vectors of the nodes that keep their children's texts, by node."""
    with transaction(file_of(folder)) as tx:
        trees = embedded_forest(tx, load_snapshot(tx), MemForestIndex())
        made = artifacts.found(tx, as_keys(trees.digests))
        kept = [
            at for at, key in enumerate(as_keys(trees.digests)) if key in made and made[key].vector == "mean"
        ]
        sessions = [
            at for at in kept if trees.forest.tree_kind[trees.forest.tree[trees.forest.told[at]]] == "session"
        ]
        return [trees.vectors[at : at + 1].tobytes() for at in sessions]


def test_a_node_that_keeps_its_childrens_texts_has_their_mean(folder: Path) -> None:
    """It costs no embedding, its vector is of unit length, and it is the same when it is made anew."""
    with MemForest(folder, fast_config(summariser=Keeping())) as forest:
        last = [
            forest.ingest_session("u", f"s{i}", said(*many(7, f"tent{i}")), refresh=True) for i in range(4)
        ][-1]
        kept = means(folder)
        assert len(kept) >= 4
        assert all(abs(np.linalg.norm(np.frombuffer(one, np.float32)) - 1) < 1e-3 for one in kept)
        assert last.usage.embeds["node"] < last.nodes_refreshed
        assert changed(folder, "DELETE FROM artifact") > 0
        forest.resume("u")
        assert means(folder) == kept
        forest.rebuild("u")
        assert means(folder) == kept
        assert forest.user("u").verify().ok


def test_a_mean_waits_for_its_children(folder: Path) -> None:
    """Without the turns' vectors there is no mean, and nothing stands in its place until they are there."""
    with MemForest(folder, fast_config(summariser=Keeping(), embedder="none")) as forest:
        forest.ingest_session("u", "s", said(*many(7, "tent")), refresh=True)
        assert not any(means(folder))
    with MemForest(folder, fast_config(summariser=Keeping())) as forest:
        forest.resume("u")
        assert means(folder)
        assert all(any(one) for one in means(folder))
        assert forest.user("u").verify().ok


def test_a_digest_is_of_what_is_below_a_node_and_of_nothing_else(folder: Path) -> None:
    """Two memories that differ in one sentence differ in the nodes above it alone; another setting asks for all anew."""
    made = []
    for name, last in (("a", "I like tea."), ("b", "I like tea."), ("c", "I hate tea.")):
        with MemForest(folder / name, fast_config()) as forest:
            forest.ingest_session(
                "u", "s", said(*(f"Note {n}." for n in range(11)), "Well.", last, *["Hm."] * 8)
            )
            forest.ingest_session("u", "t", said(*(f"Other {n}." for n in range(11)), day=2))
        with transaction(file_of(folder / name)) as tx:
            index, snapshot = MemForestIndex(), load_snapshot(tx)
            forest_, digests = forest_of(tx, snapshot, index), as_keys(digests_of(tx, snapshot, index))
            other = MemForestIndex(index.Settings(summarise="every"))
            assert set(as_keys(digests_of(tx, snapshot, other))).isdisjoint(digests)
            session = [
                row for row in range(len(forest_)) if forest_.tree_kind[forest_.tree[row]] == "session"
            ]
            made.append({digests[row]: forest_.path(row) for row in session})
    assert made[0].keys() == made[1].keys()
    paths = [path for key, path in made[2].items() if key not in made[0]]
    assert len(paths) >= 3
    assert max(paths, key=len) == sorted({path[-1] for path in paths}, reverse=True)


def test_what_would_be_made_otherwise_now_is_stale(folder: Path) -> None:
    """Other summaries stay: with another length all are made anew, with the same nothing is."""
    watched = Watched()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
        watched.asked.clear()
        forest.rebuild("u", stale=True)
        assert watched.asked == []
    with MemForest(folder, fast_config(summariser=watched, summary_words=20)) as forest:
        forest.rebuild("u", stale=True)
        assert len(watched.asked) == rows(file_of(folder), "SELECT count(*) FROM artifact")[0][0] > 0
        assert forest.user("u").stats().dirty_nodes == 0


def test_one_summary_of_another_maker_is_made_anew(folder: Path) -> None:
    """It alone: what stands above it is asked for as it was."""
    watched = Watched()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
    assert (
        changed(folder, "UPDATE artifact SET maker = 'other' WHERE id = (SELECT min(id) FROM artifact)") == 1
    )
    watched.asked.clear()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        assert forest.user("u").stale().summaries == 1
        forest.rebuild("u", stale=True)
        assert not forest.user("u").stale()
    assert len(watched.asked) == 1
