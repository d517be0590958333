"""Snapshots and forests of a moment: smaller, sound, shared, and with nothing of what came later."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.worlds import PAPER, eager_config, fast_config, file_of, make_sessions, said

from memforest import MemForest
from memforest.read.corrections import verdicts_at
from memforest.read.results import QueryResult
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome
from memforest.search.as_of import Moment, MomentCache, snapshot_at
from memforest.search.cache import MOMENTS, SnapshotCache, forest_of
from memforest.search.forest import FACT, INNER
from memforest.search.snapshot import Snapshot
from memforest.search.timeline import timelines, valid_until
from memforest.search.vocabulary import vocabulary
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.testing import FrozenClock, FunctionChat
from memforest.times import to_ms
from memforest.trees.attached import make_index

INDEXES = ("memforest", "segtree")
FEW = {"active_min_facts": 2, "active_min_sessions": 1}


def grown(
    folder: Path, seed: int = 1, sessions: int = 8, told: int | None = None, **settings: Any
) -> tuple[MemForest, list[datetime]]:
    """Return a forest with sessions, or the first that are `told`, one stored an hour, and the time after each."""
    clock = FrozenClock("2024-06-01T00:00:00Z")
    settings.setdefault("index_settings", {"memforest": FEW})
    settings.setdefault("indexes", INDEXES)
    forest = MemForest(folder, eager_config(clock=clock, **settings))
    times = []
    for name, turns in make_sessions(seed, sessions=sessions)[:told]:
        forest.ingest_session("u", name, turns)
        times.append(clock())
        clock.advance(hours=1)
    return forest, times


def shapes(tx: Tx, snapshot: Snapshot, name: str) -> list[Any]:
    """Return the trees of an index as nested lists of what leaves stand for."""
    index = make_index(name, FEW if name == "memforest" else None)
    forest = forest_of(tx, snapshot, index)

    def shape(row: int) -> Any:
        item, end = int(forest.item[row]), int(forest.item_end[row])
        if forest.kind[row] == INNER:
            return [int(forest.level[row]), *map(shape, forest.children[row])]
        if forest.kind[row] == FACT:
            return int(snapshot.facts.key[item])
        return snapshot.turns.said_ms[item:end].tolist()

    names = [
        "" if kind == "scene" else name
        for kind, name in zip(forest.tree_kind, index.names(snapshot, forest), strict=True)
    ]
    roots = forest.tree_root.tolist()
    return sorted(
        ([*of, shape(row)] for *of, row in zip(forest.tree_kind, names, roots, strict=True)), key=repr
    )


@pytest.mark.parametrize("index", ["memforest", "segtree", "timem", "hmem"])
@pytest.mark.parametrize("seed", range(2))
def test_the_forest_of_a_moment_is_that_of_a_memory_which_ends_there(
    tmp_path: Path, index: str, seed: int
) -> None:
    """The trees are those that the sessions held then would make, and those of who is known to speak by now."""
    forest, times = grown(tmp_path / "whole", seed, indexes=(index,))
    forest.close()
    db, cache = Database(file_of(tmp_path / "whole")), SnapshotCache()
    with db.read() as tx:
        base = cache.get(tx)
        assert shapes(tx, base, index)
        for count in (1, 4, 7):
            grown(tmp_path / f"{count}", seed, sessions=8, told=count, indexes=(index,))[0].close()
            snapshot = snapshot_at(tx, base, Moment(known_ms=to_ms(times[count - 1])))
            assert snapshot.base is base
            other = Database(file_of(tmp_path / f"{count}"))
            with other.read() as own:
                found, alone = shapes(tx, snapshot, index), shapes(own, SnapshotCache().get(own), index)
            spoke = {
                name
                for _, turns in make_sessions(seed, sessions=8)[count:]
                for name in [one["speaker"] for one in turns]
            }
            assert [one for one in alone if one not in found] == []
            assert {
                name for kind, name, _ in found if [kind, name] not in [one[:2] for one in alone]
            } <= spoke
            assert index == "memforest" or found == alone
            other.close()
    db.close()


def test_timelines_that_are_carried_over_are_those_that_are_read(tmp_path: Path) -> None:
    """Made from the whole memory's by what is not held, or from nothing: the same."""
    forest, times = grown(tmp_path, 5, sessions=10)
    forest.close()
    db = Database(file_of(tmp_path))
    with db.read() as tx:
        for at in times:
            moment = Moment(known_ms=to_ms(at))
            warm, cold = SnapshotCache().get(tx), SnapshotCache().get(tx)
            timelines(warm)
            carried, read = snapshot_at(tx, warm, moment), snapshot_at(tx, cold, moment)
            assert timelines(carried) == timelines(read)
            assert valid_until(carried).tolist() == valid_until(read).tolist()
    db.close()


def test_nothing_is_made_where_nothing_came_later(tmp_path: Path) -> None:
    """The snapshot of the present is that of the memory."""
    forest, times = grown(tmp_path)
    forest.close()
    db, cache = Database(file_of(tmp_path)), SnapshotCache()
    with db.read() as tx:
        assert MomentCache(cache, Moment(known_ms=to_ms(times[-1])), verdicts_at).get(tx) is cache.get(tx)
        assert MomentCache(cache, Moment(), verdicts_at).get(tx) is cache.get(tx)
    db.close()


def test_few_moments_are_kept_and_a_write_forgets_them(tmp_path: Path) -> None:
    """The last few, counted with the cache's bytes."""
    forest, times = grown(tmp_path)
    forest.close()
    db, cache = Database(file_of(tmp_path)), SnapshotCache()
    with db.read() as tx:
        alone = cache.get(tx).nbytes
        made = [MomentCache(cache, Moment(known_ms=to_ms(at)), verdicts_at) for at in times[:-1]]
        first = [one.get(tx) for one in made]
        assert all(one.get(tx) is was for one, was in zip(made[-MOMENTS:], first[-MOMENTS:], strict=True))
        assert made[0].get(tx) is not first[0]
        assert cache.nbytes > alone
    with MemForest(tmp_path, fast_config(index_settings={"memforest": FEW})) as again:
        again.ingest_session("u", "new", said("I live in Oslo."))
    with db.read() as tx:
        assert made[-1].get(tx) is not first[-1]
        assert made[-1].get(tx).base is cache.get(tx)
        assert len(cache._earlier) == 1
    cache.drop()
    assert cache.nbytes == 0
    db.close()


def sources_of(found: QueryResult) -> set[tuple[str, str]]:
    """Return the turns that evidence names."""
    return {(one.session_id, turn) for piece in found for one in piece.sources for turn in one.turn_ids}


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({}, {"explain": True}),
        ({}, {"index": "flat"}),
        ({}, {"index": "facts"}),
        ({}, {"index": "segtree"}),
        ({"index_settings": {"segtree": {"scorer": "cosine", "admissible": "all"}}}, {"index": "segtree"}),
        ({"index_settings": {"segtree": {"leaf_vector": "text", "expand": True}}}, {"index": "segtree"}),
        ({"indexes": ("segtree",), "embedder": "none"}, {"index": "segtree"}),
        ({"index_settings": {"memforest": {**PAPER["memforest"], **FEW, "evidence": "roots"}}}, {}),
        ({"index_settings": {"memforest": {**PAPER["memforest"], **FEW, "evidence": "reached"}}}, {}),
        ({"embedder": "none"}, {}),
        ({"chat": True}, {"mode": "llm+planner"}),
        ({"chat": True}, {"mode": "emb+planner"}),
    ],
)
def test_no_way_of_searching_finds_what_came_later(
    tmp_path: Path, settings: dict[str, Any], how: dict[str, Any]
) -> None:
    """Neither as a turn, nor a fact, nor beneath a summary; before the first turn there is nothing."""
    if settings.pop("chat", False):
        settings["chat"] = FunctionChat(local_reply)
    forest, times = grown(tmp_path, 3, **settings)
    with forest:
        memory = forest.user("u")
        stored = {name for name, _ in make_sessions(3, sessions=8)}
        for question in ("Where does Ana live?", "Where did Bob live before Oslo?", "a red car"):
            everything = memory.search(question, top_k=1000, **how)
            assert {name for name, _ in sources_of(everything)} == stored
            for number in (0, 4):
                found = memory.search(question, top_k=1000, known_at=times[number], **how)
                held = [name for name, _ in make_sessions(3, sessions=8)][: number + 1]
                assert {name for name, _ in sources_of(found)} <= set(held)
                assert found or how.get("mode") or settings
                last = (
                    memory.search(question, top_k=1000, said_by=found.evidence[0].said, **how)
                    if found
                    else found
                )
                assert all(one.said <= found.evidence[0].said for one in last)
            before = datetime(2020, 1, 1, tzinfo=timezone.utc)
            assert not memory.search(question, known_at=before, **how)
            assert memory.ask(question, said_by=before, **how).answer is None


class FailsOn:
    """The local extractor, which fails on the chunks of one session until it is mended."""

    name = "local-1"

    def __init__(self, session_id: str) -> None:
        self.session_id, self.inner = session_id, LocalExtractor()

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Fail on that session."""
        done = await self.inner.extract(chunks)
        return [
            ChunkOutcome(failure="not now") if chunk.session_id == self.session_id else one
            for chunk, one in zip(chunks, done, strict=True)
        ]


def test_what_was_extracted_late_is_known_from_then_on(tmp_path: Path) -> None:
    """Its turns are known from when they were stored; a fact that was heard elsewhere before has only those sources."""
    clock, failing = FrozenClock("2024-06-01T00:00:00Z"), FailsOn("b")
    with MemForest(tmp_path, fast_config(clock=clock, extractor=failing)) as forest:
        forest.ingest_session("u", "a", said("I live in Davis."))
        clock.advance(days=1)
        forest.ingest_session("u", "b", said("I live in Davis.", "I work at Acme.", day=2))
        clock.advance(days=1)
        failing.session_id = ""
        forest.resume("u")
        memory = forest.user("u")

        def told(at: str) -> list[tuple[str, list[str]]]:
            return [(one.text, [s.session_id for s in one.sources]) for one in memory.list(known_at=at)]

        assert told("2024-06-02") == [("I live in Davis.", ["a"])]
        assert told("2024-06-03") == [("I live in Davis.", ["a", "b"]), ("I work at Acme.", ["b"])]
        found = memory.search("Who works at Acme?", known_at="2024-06-02")
        assert [one.kind for one in found if "Acme" in one.text] == ["turn"]


def test_how_often_something_was_said_is_counted_by_then(tmp_path: Path) -> None:
    """Also for timelines of things that nobody listed, whether the vocabulary is carried over or read."""
    with MemForest(tmp_path, fast_config()) as forest:
        for day in (1, 2, 3):
            forest.ingest_session("u", f"s{day}", said("I live in Davis.", day=day))
    db = Database(file_of(tmp_path))
    with db.read() as tx:
        for warm in (False, True):
            base = SnapshotCache().get(tx)
            if warm:
                vocabulary(tx, base)
            moment = Moment(said_ms=to_ms(datetime(2023, 5, 2, 12, tzinfo=timezone.utc)))
            [times] = vocabulary(tx, snapshot_at(tx, base, moment)).said.values()
            assert [datetime.fromtimestamp(ms / 1000, timezone.utc).day for ms in times] == [1, 2]
    db.close()
