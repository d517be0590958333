"""Waves of a paced index: only what can be made is, each by itself, and what could not be says why."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.paced import Diary, Prompted, dirty_nodes, make_all, works
from tests_long.worlds import fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import BudgetError, ModelError, ModelRefusedError, StepError
from memforest.ports import UnchangedText
from memforest.reading.steps import LOCAL_SUMMARY_WORDS
from memforest.records import SummaryRequest
from memforest.search.vectors import VectorMaker
from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.derived import unpack_text, unpack_vectors
from memforest.trees import attached
from memforest.trees.annotate import OVER_BUDGET, WAITS
from memforest.trees.index import Host
from memforest.trees.refresh import NodeWork

TEXTS = [
    "I bought two tents in Oslo.",
    "The rain came at noon.",
    "We slept on the shore.",
    "A goose woke us.",
]


@pytest.fixture(autouse=True)
def diary() -> Iterator[None]:
    """The index is known."""
    attached.INDEXES[Diary.name] = Diary
    Diary.act = None
    Diary.reopened.clear()
    Diary.occasions.clear()
    yield
    attached.INDEXES.pop("diary", None)


@pytest.fixture
def prompted() -> Prompted:
    """A summariser whose makers are by prompt."""
    return Prompted()


@pytest.fixture
def forest(folder: Path, prompted: Prompted) -> Iterator[MemForest]:
    """A forest with the paced index alone."""
    with MemForest(folder, fast_config(indexes=("diary",), summariser=prompted)) as forest:
        yield forest


def ingest(forest: MemForest, day: int = 1, texts: Sequence[str] = TEXTS, **options: Any) -> Any:
    """Store a session."""
    return forest.ingest_session("u", f"s{day}", said(*texts, day=day), **options)


def act(forest: MemForest, doing: Any) -> Any:
    """Let the index do something, and return what that returned."""
    found: list[Any] = []

    async def once(host: Host) -> None:
        found.append(await doing(host))

    Diary.act = once
    forest.user("u").advance()
    [one] = found
    return one


def told(folder: Path) -> list[tuple[int, str, str, int, str]]:
    """Return level, text, maker, dirty mark and vector of the nodes that have a text, from the leaves up."""
    found = rows(
        file_of(folder),
        """SELECT n.level, d.text, d.maker, n.dirty, d.vector FROM derived_summary d
           JOIN node n ON n.id = d.node ORDER BY n.level, n.id""",
    )
    return [(level, unpack_text(text), *rest) for level, text, *rest in found]


async def nothing(host: Host) -> None:
    """Make nothing."""


def test_a_wave_makes_what_can_be_made(forest: MemForest, folder: Path, prompted: Prompted) -> None:
    """Leaves first, then what is above; a node over one that is out of date waits, and says so. The own words hold."""
    Diary.act = nothing
    ingest(forest)
    first = act(forest, lambda host: host.consolidate(works))
    assert set(first.values()) == {WAITS}
    assert {one.prompt for one in prompted.asked} == {"segment"}
    assert {one.max_words for one in prompted.asked} == {30}
    assert act(forest, make_all) == {}
    assert [one.prompt for one in prompted.asked] == ["segment"] * 4 + ["session"] * 2 + ["day"]
    assert [one.max_words for one in prompted.asked][-1] == 90
    assert [(level, maker, dirty) for level, _, maker, dirty, _ in told(folder)] == [
        *[(0, "segment@1:prompted", 0)] * 4,
        *[(1, "session@1:prompted", 0)] * 2,
        (2, "day@1:prompted", 0),
    ]
    assert forest.user("u").verify().ok


def test_the_same_request_is_not_made_twice(forest: MemForest, prompted: Prompted, folder: Path) -> None:
    """A node that is marked, with the text of just this request, is marked clean; no call, and the text stays."""
    ingest(forest)
    before = told(folder)
    prompted.asked.clear()

    async def again(host: Host) -> Any:
        ids = await host.look(
            lambda tx: [row[0] for row in tx.execute("SELECT id FROM node WHERE level = 0")]
        )
        await host.write(lambda tx: tree_rows.mark_dirty(tx, ids))
        return await make_all(host)

    assert act(forest, again) == {}
    assert prompted.asked == []
    assert told(folder) == before


def test_what_fails_says_why_and_nothing_else_does(
    forest: MemForest, folder: Path, prompted: Prompted
) -> None:
    """The node of a failed reply, or of a budget that is used up, has its reason; its parents wait; others are made."""
    prompted.fails = {"goose": StepError("it told of geese"), "rain": BudgetError("no more calls")}
    Diary.act = nothing
    ingest(forest)
    reasons = act(forest, lambda host: host.consolidate(lambda tx: works(tx, (0,))))
    assert sorted(reasons.values()) == ["it told of geese", OVER_BUDGET]
    assert {text.partition(": ")[2][5:] for _, text, *_ in told(folder)} == {TEXTS[0], TEXTS[2]}
    assert set(act(forest, lambda host: host.consolidate(lambda tx: works(tx, (1, 2)))).values()) == {WAITS}
    prompted.fails = {}
    assert act(forest, make_all) == {}, "a failure is no reason not to try again"
    assert [dirty for *_, dirty, _ in told(folder)] == [0] * 7


class Slow(Prompted):
    """Asked one by one, as behind an endpoint; the first that tells of a word is kept waiting until another has come."""

    remote = True

    def __init__(self) -> None:
        super().__init__()
        self.waits_for = asyncio.Event()
        self.seen: list[int] = []
        self.folder = Path()

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Answer; of the first turn when all others are in the file."""
        assert len(requests) == 1
        if "tents" in requests[0].inputs[0] and requests[0].prompt == "segment":
            for _ in range(400):
                if (made := len(told(self.folder))) == 3:
                    break
                await asyncio.sleep(0.005)
            self.seen.append(made)
        if "refuse" in self.fails and requests[0].prompt == "session":
            raise self.fails["refuse"]
        return await super().summarise(requests)


def test_each_text_is_written_when_it_has_come(folder: Path) -> None:
    """Of a model behind an endpoint: what was paid for survives what comes after it."""
    slow = Slow()
    slow.folder = folder
    with MemForest(folder, fast_config(indexes=("diary",), summariser=slow)) as forest:
        ingest(forest, refresh=False)
        assert slow.seen == [3]


def test_a_refusal_ends_the_wave_and_is_raised(folder: Path) -> None:
    """No call can succeed: the index learns of it, and what was made before is written."""
    slow = Slow()
    slow.folder, slow.fails = folder, {"refuse": ModelRefusedError("the key is refused")}
    with MemForest(folder, fast_config(indexes=("diary",), summariser=slow)) as forest:
        [view] = [ingest(forest, refresh=False)] and forest.user("u").advance()
        assert "the key is refused" in str(view.reason)
        assert [(level, dirty) for level, _, _, dirty, _ in told(folder)] == [(0, 0)] * 4


def test_what_has_changed_meanwhile_is_not_written(
    forest: MemForest, folder: Path, prompted: Prompted
) -> None:
    """A node of another version, or over a child of another version, keeps its mark; nothing is said of it."""
    Diary.act = nothing
    ingest(forest)
    act(forest, lambda host: host.consolidate(lambda tx: works(tx, (0,))))
    summarise = prompted.summarise

    async def meanwhile(host: Host) -> Any:
        changed: list[int] = []

        async def slower(requests: Sequence[SummaryRequest]) -> Any:
            def touch(tx: Tx) -> None:
                first = next(node for node in dirty_nodes(tx) if node.level == 1)
                changed.append(first.children[0])
                tx.execute("UPDATE node SET version = version + 1 WHERE id = ?", (first.children[0],))

            await host.write(touch)
            return await summarise(requests)

        prompted.summarise = slower  # type: ignore[method-assign]
        return await host.consolidate(lambda tx: works(tx, (1,)))

    assert act(forest, meanwhile) == {}
    prompted.summarise = summarise  # type: ignore[method-assign]
    assert [dirty for level, _, _, dirty, _ in told(folder) if level == 1] == [0], "one of two"


def test_a_leaf_that_keeps_its_turns_has_their_mean(folder: Path, prompted: Prompted) -> None:
    """Kept by the index, or by who summarises: no text is embedded, and the mean of the turns is the vector."""

    async def keep(host: Host) -> Any:
        def choose(tx: Tx) -> list[NodeWork]:
            return [replace(one, kept=True) for one in works(tx, (0,))]

        return await host.consolidate(choose)

    prompted.kind = UnchangedText
    with MemForest(folder, fast_config(indexes=("diary",), summariser=prompted)) as forest:
        Diary.act = keep
        ingest(forest)
        assert prompted.asked == []
        ingest(forest, day=2)
        assert {one.prompt for one in prompted.asked} == {"segment", "session", "day"}
        assert {(level, vector) for level, *_, vector in told(folder)} == {
            (0, "mean"),
            (1, "mean"),
            (2, "mean"),
        }
        assert "Ana: " + TEXTS[0] in {text for _, text, *_ in told(folder)}
        own = rows(
            file_of(folder),
            """SELECT v.vector, w.vector FROM leaf l JOIN derived_node_vector v ON v.item = l.id
               JOIN derived_turn_vector w ON w.item = l.turn""",
        )
        assert len(own) == 8
        for leaf, turn in own:
            np.testing.assert_allclose(unpack_vectors(leaf), unpack_vectors(turn), atol=1e-3)
        assert forest.user("u").verify().ok


def test_the_memorys_bound_holds_where_the_request_has_none_of_its_own(
    forest: MemForest, prompted: Prompted
) -> None:
    """As in a refresh, so that the same request is known again."""

    async def bound(host: Host) -> Any:
        return await host.consolidate(lambda tx: [replace(one, words=False) for one in works(tx, (0,))])

    Diary.act = nothing
    ingest(forest)
    assert act(forest, bound) == {}
    assert {one.max_words for one in prompted.asked} == {LOCAL_SUMMARY_WORDS}


def test_clean_nodes_and_those_that_are_gone_are_passed_over(forest: MemForest, prompted: Prompted) -> None:
    """The choice may be older than the memory."""
    ingest(forest)
    prompted.asked.clear()
    Diary.act = nothing
    ingest(forest, day=2, texts=TEXTS[:1])

    async def old(host: Host) -> Any:
        def choose(tx: Tx) -> list[NodeWork]:
            [one] = works(tx, (0,))
            clean = next(iter(derived.summary_makers(tx)))
            return [one, replace(one, node=clean), replace(one, node=10**6)]

        return await host.consolidate(choose)

    assert act(forest, old) == {}
    assert len(prompted.asked) == 1


def test_waves_may_be_made_at_once(folder: Path) -> None:
    """A slow reply of one holds no other up: chains of sessions go on side by side."""

    class Meeting(Prompted):
        """Answers when both sessions have asked."""

        remote = True

        def __init__(self) -> None:
            super().__init__()
            self.both = asyncio.Event()

        async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
            """Wait for the other wave."""
            days = {one.start.day for one in (*self.asked, *requests)}
            if len(days) == 2:
                self.both.set()
            found = await super().summarise(requests)
            await asyncio.wait_for(self.both.wait(), 5)
            return found

    async def side_by_side(host: Host) -> Any:
        def of(day: int) -> Any:
            return lambda tx: [one for one in works(tx, (0,)) if one.request.start.day == day]

        return await asyncio.gather(*(host.consolidate(of(day)) for day in (1, 2)))

    with MemForest(folder, fast_config(indexes=("diary",), summariser=Meeting())) as forest:
        for day in (1, 2):
            Diary.act = nothing
            ingest(forest, day)
        assert act(forest, side_by_side) == [{}, {}]
        assert len(told(folder)) == 8


def test_a_text_without_its_vector_is_made_and_the_vector_is_left(
    folder: Path, prompted: Prompted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid for is kept; a warning says so, and `resume` makes the vector."""
    config = fast_config(indexes=("diary",), summariser=prompted)
    with MemForest(folder, config) as forest:
        Diary.act = nothing
        ingest(forest)
        whole = VectorMaker.embed

        async def away(self: VectorMaker, texts: Sequence[str], kind: str) -> Any:
            if kind == "node":
                raise ModelError("the embedder is away")
            return await whole(self, texts, kind)

        monkeypatch.setattr(VectorMaker, "embed", away)
        result = ingest(forest, 2, TEXTS[:1])
        assert any("the embedder is away" in warning for warning in result.warnings)
        assert {dirty for *_, dirty, _ in told(folder)} == {0}
        count = "SELECT count(*) FROM derived_node_vector"
        assert rows(file_of(folder), count) == [(0,)]
        monkeypatch.setattr(VectorMaker, "embed", whole)
        prompted.asked.clear()
        forest.resume("u")
        assert (rows(file_of(folder), count), prompted.asked) == ([(8,)], [])
