"""Refresh: what was touched and nothing else, failures that stay where they are, and writes that come in between."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import CLOCK, fast_config, file_of, make_sessions, rows, said

from memforest import AsyncMemForest, MemForest
from memforest.errors import ModelError, StepError
from memforest.models import HashEmbedder
from memforest.ports import UnchangedText
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.trees.refresh import fingerprint
from memforest.trees.scenes import YOUNG


class Watched:
    """The local summariser, which notes what it is asked for and fails where it is told to."""

    def __init__(self) -> None:
        self._local = LocalSummariser()
        self.name = self._local.name
        self.asked: list[SummaryRequest] = []
        self.batches = 0
        self.fails_on = ""
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


EMBEDDED = """SELECT node FROM derived_summary d JOIN node n ON n.id = d.node JOIN tree t ON t.id = n.tree
    WHERE t.kind != 'scene'"""
"""The summaries that have vectors: a scene's nodes are the means of their facts."""


def dirty(folder: Path) -> set[str]:
    """Return the scopes of trees that have dirty nodes."""
    return {
        row[0]
        for row in rows(
            file_of(folder),
            """SELECT DISTINCT coalesce(s.session_id, e.label, t.kind) FROM node n JOIN tree t ON t.id = n.tree
               LEFT JOIN session s ON t.kind = 'session' AND s.id = t.scope
               LEFT JOIN entity e ON t.kind = 'entity' AND e.id = t.scope WHERE n.dirty AND n.level > 0""",
        )
    }


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
    assert before.facts > YOUNG  # a younger memory derives all of its scenes anew
    assert len(watched.asked) <= 12 < before.nodes - before.sessions
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
        watched.fails_on = ""
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


def test_a_write_in_between_leaves_the_node_dirty(folder: Path) -> None:
    """A summary made of what a node no longer says is not taken for the node's; the next refresh makes it."""
    watched = Watched()

    async def run() -> None:
        config = fast_config(summariser=watched)
        async with AsyncMemForest(folder, config) as forest, AsyncMemForest(folder, fast_config()) as other:
            await forest.ingest_session("u", "s1", said(*many(6, "tent")), refresh=True)

            async def write() -> None:
                await other.ingest_session("u", "s3", said("I bought a red car.", day=3), refresh=False)

            watched.meanwhile = write
            result = await forest.ingest_session("u", "s2", said("I bought a boat.", day=2), refresh=True)
            assert result.nodes_dirty > 0
            assert dirty(folder) == {"Ana", "scene"}
            await forest.resume()
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
            "node": len(rows(file_of(folder), EMBEDDED)),
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


KEPT_VECTORS = """SELECT d.node, hex(v.vector) FROM derived_summary d JOIN node n ON n.id = d.node
    JOIN tree t ON t.id = n.tree AND t.kind != 'scene' LEFT JOIN derived_node_vector v ON v.item = d.node
    WHERE d.maker = 'keeping' AND d.vector = 'mean'"""


def test_a_node_that_keeps_its_childrens_texts_has_their_mean(folder: Path) -> None:
    """It costs no embedding, its vector is of unit length, and it is the same when it is made anew."""
    with MemForest(folder, fast_config(summariser=Keeping())) as forest:
        last = [
            forest.ingest_session("u", f"s{i}", said(*many(7, f"tent{i}")), refresh=True) for i in range(4)
        ][-1]
        kept = rows(file_of(folder), KEPT_VECTORS)
        assert len(kept) > 5
        assert all(vector for _, vector in kept)
        assert last.usage.embeds["node"] < last.nodes_refreshed
        assert forest.user("u").verify().ok
        with sqlite3.connect(file_of(folder)) as conn:
            conn.execute("DELETE FROM derived_node_vector")
        conn.close()
        forest.resume("u")
        assert rows(file_of(folder), KEPT_VECTORS) == kept
        forest.rebuild("u")
        assert rows(file_of(folder), KEPT_VECTORS) == kept
        assert forest.user("u").verify().ok


def test_a_mean_waits_for_its_children(folder: Path) -> None:
    """Without the turns' vectors there is no mean, and nothing is stored in its place until they are there."""
    with MemForest(folder, fast_config(summariser=Keeping(), embedder="none")) as forest:
        forest.ingest_session("u", "s", said(*many(7, "tent")))
        assert not any(vector for _, vector in rows(file_of(folder), KEPT_VECTORS))
    with MemForest(folder, fast_config(summariser=Keeping())) as forest:
        forest.resume("u")
        assert all(vector for _, vector in rows(file_of(folder), KEPT_VECTORS))
        assert forest.user("u").verify().ok


def test_a_stored_fingerprint_is_still_that_of_its_request() -> None:
    """A field that is added to requests changes none of those that do not use it: else all summaries would be stale."""
    moment = datetime(2024, 1, 1, tzinfo=timezone.utc)
    request = SummaryRequest("session", "s", moment, moment, ("a", "b"))
    assert fingerprint(request, "m").hex() == "159a7dddc8889066"
    assert fingerprint(replace(request, prompt="day"), "m") != fingerprint(request, "m")
    assert fingerprint(replace(request, statements=("c",)), "m") != fingerprint(request, "m")


def test_a_fingerprint_is_of_all_that_is_asked() -> None:
    """Whatever of the request differs, or who made it, makes another one."""
    request = SummaryRequest("entity", "Ana", CLOCK, CLOCK, ("a", "b"))
    other = (
        {"kind": "scene"},
        {"label": "Ben"},
        {"start": CLOCK - timedelta(days=1)},
        {"end": CLOCK + timedelta(days=1)},
        {"inputs": ("ab",)},
        {"max_words": 61},
        {"level": 2},
        {"root": True},
        {"history": ("x",)},
        {"instruction": "x"},
        {"window": "x"},
        {"participants": ("x",)},
        {"summarise": "every"},
        {"prompt": "day"},
        {"statements": ("x",)},
    )
    assert {name for one in other for name in one} == {one.name for one in fields(SummaryRequest)}
    found = {fingerprint(replace(request, **one), "maker") for one in other}
    found |= {fingerprint(request, "maker"), fingerprint(request, "another")}
    assert len(found) == len(other) + 2


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
        assert len(watched.asked) == len(rows(file_of(folder), "SELECT node FROM derived_summary")) > 0
        assert forest.user("u").stats().dirty_nodes == 0


def test_one_summary_of_another_request_is_found_with_what_stands_above(folder: Path) -> None:
    """By the digest in its row; one stored without a digest is judged by its maker alone."""
    watched = Watched()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
    with sqlite3.connect(file_of(folder)) as conn:
        [node] = conn.execute("SELECT min(id) FROM node WHERE level = 1").fetchone()
        conn.execute("UPDATE derived_summary SET inputs = NULL WHERE node <> ?", (node,))
        conn.execute("UPDATE derived_summary SET inputs = x'00' WHERE node = ?", (node,))
    conn.close()
    watched.asked.clear()
    with MemForest(folder, fast_config(summariser=watched)) as forest:
        forest.rebuild("u", stale=True)
    levels = sorted(one.level for one in watched.asked)
    assert levels == list(range(1, len(levels) + 1))
