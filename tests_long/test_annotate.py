"""What the house offers to an index that reads summaries while it grows: texts in one wave, vectors, and none made twice."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.dummy_index.index import Dummy
from tests_long.worlds import fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import ModelError, StepError
from memforest.interval import from_ms
from memforest.refresh.requests import stale_nodes
from memforest.search.texts import digest, turn_text
from memforest.store import derived, trees
from memforest.store.packing import as_stored, unpack_text
from memforest.store.tx import Tx
from memforest.systems import registry
from memforest.systems.base import NodeWork
from memforest.systems.host import Host
from memforest.tree import Node
from memforest.types import SummaryRequest

Act = Callable[[Host], Awaitable[None]]


class Counting:
    """Says how many texts it was given; notes its calls, and fails on what it is told to."""

    name = "counting"
    remote = False

    def __init__(self) -> None:
        self.calls: list[list[SummaryRequest]] = []
        self.fails_at = -1
        self.meanwhile: Callable[[], None] | None = None

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Tell of each request."""
        self.calls.append(list(requests))
        if self.meanwhile is not None:
            doing, self.meanwhile = self.meanwhile, None
            doing()
        return [
            StepError("the model refused")
            if one.level == self.fails_at
            else f"{len(one.inputs)} from {one.inputs[0][:20] if one.inputs else 'nothing'}"
            for one in requests
        ]


class Reading(Dummy):
    """A deferred index that does what a test tells it to when it has placed everything."""

    deferred = True
    act: Act | None = None

    async def advance(self, host: Host, until: int) -> None:
        """Place, and then do it once."""
        await super().advance(host, until)
        if (act := Reading.act) is not None:
            Reading.act = None
            await act(host)


@pytest.fixture(autouse=True)
def reading() -> Iterator[None]:
    """The index is known."""
    registry.register(Reading)
    Reading.act = None
    yield
    registry.unregister("dummy")


@pytest.fixture
def counting() -> Counting:
    """A summariser that counts."""
    return Counting()


@pytest.fixture
def forest(folder: Path, counting: Counting) -> Iterator[MemForest]:
    """A forest with one index whose summaries wait."""
    with MemForest(folder, fast_config(indexes=("dummy",), summariser=counting)) as forest:
        yield forest


def path_of(tx: Tx) -> list[Node]:
    """Return the nodes above the last leaf, from the root down."""
    head = trees.find_head(tx, "dummy", "all", 0)
    assert head is not None
    assert head.root is not None
    found = list(trees.nodes_with_ids(tx, [head.root]).values())
    while (child := trees.nodes_with_ids(tx, [found[-1].children[-1]])[found[-1].children[-1]]).level:
        found.append(child)
    return found


def work_of(node: Node, *inputs: str, **how: bool) -> NodeWork:
    """Return a request to summarise texts."""
    span = from_ms(node.start_ms), from_ms(node.end_ms)
    request = SummaryRequest("all", "all", *span, tuple(inputs), level=node.level)
    return NodeWork(node.id, request, **how)


def told(folder: Path) -> dict[int, list[tuple[str, str | None, int, int | None]]]:
    """Return level -> text, digest of its request, dirty mark and vector of the nodes that have a summary."""
    found: dict[int, list[Any]] = {}
    for level, text, *rest in rows(
        file_of(folder),
        """SELECT n.level, d.text, d.inputs, n.dirty, length(v.vector) FROM node n
           JOIN derived_summary d ON d.node = n.id LEFT JOIN derived_node_vector v ON v.item = n.id ORDER BY n.id""",
    ):
        found.setdefault(level, []).append((unpack_text(text), *rest))
    return found


def ingest(forest: MemForest, count: int, act: Act | None = None, day: int = 1) -> Any:
    """Store a session of facts, and let the index act behind it."""
    Reading.act = act
    texts = [f"I bought {i + 2} tents of kind {day}{i} in Oslo." for i in range(count)]
    return forest.ingest_session("u", f"s{day}", said(*texts, day=day), refresh=False)


def sql(folder: Path, statement: str) -> None:
    """Change the file behind the memory's back."""
    with closing(sqlite3.connect(file_of(folder))) as conn, conn:
        conn.execute(statement)


def test_a_path_is_made_in_one_wave(forest: MemForest, folder: Path, counting: Counting) -> None:
    """With one call; a node is clean if no child was dirty, and has its vector; what it costs is counted."""
    failures: list[str] = []

    async def act(host: Host) -> None:
        failures.extend(await host.annotate(lambda tx: [work_of(node, "a", "b") for node in path_of(tx)]))

    result = ingest(forest, 20, act)
    assert failures == []
    assert [[one.level for one in call] for call in counting.calls] == [[2, 1]]
    assert counting.calls[0][0].max_words == 60
    found = told(folder)
    assert {level: [(text, mark) for text, _, mark, _ in some] for level, some in found.items()} == {
        1: [("2 from a", 0)],
        2: [("2 from a", 1)],  # the text of its child is newer than what it was made of
    }
    assert all(size and known for some in found.values() for _, known, _, size in some)
    assert result.usage.embeds["node"] == 1  # both say the same
    forest.flush()
    assert forest.user("u").verify().ok


def test_a_summary_of_the_whole_is_clean_and_not_stale(
    forest: MemForest, folder: Path, counting: Counting
) -> None:
    """It was made of the node's own earlier text: nobody would make that request again, so it has no digest."""
    ingest(forest, 20)
    forest.flush()
    counting.calls.clear()

    async def act(host: Host) -> None:
        def choose(tx: Tx) -> list[NodeWork]:
            path = path_of(tx)
            before = derived.summaries(tx, [node.id for node in path])
            return [work_of(node, before[node.id], "new", whole=True) for node in path]

        assert await host.annotate(choose) == []

    ingest(forest, 1, act, day=2)
    assert [[one.level for one in call] for call in counting.calls] == [[2, 1]]
    whole = [one for some in told(folder).values() for one in some if one[1] is None]
    assert [one[0].startswith("2 from ") for one in whole] == [True, True]
    assert not any(mark for some in told(folder).values() for _, _, mark, _ in some)
    stale: list[int] = []

    async def look(host: Host) -> None:
        describe = lambda tx, nodes, inputs: ([work_of(one, *inputs[one.id]) for one in nodes], ())  # noqa: E731
        stale.extend(await host.read(lambda tx, _: stale_nodes(tx, describe, counting)))

    Reading.act = look
    forest.user("u").advance()
    after = {
        node for (node,) in rows(file_of(folder), "SELECT node FROM derived_summary WHERE inputs IS NULL")
    }
    assert after.isdisjoint(stale)
    assert forest.user("u").verify().ok


def test_above_a_node_that_failed_all_stays_dirty(
    forest: MemForest, folder: Path, counting: Counting
) -> None:
    """Else nobody would find it; the text above it is written all the same, and the failure is told."""
    failures: list[str] = []
    counting.fails_at = 1

    async def act(host: Host) -> None:
        failures.extend(
            await host.annotate(lambda tx: [work_of(node, "a", whole=True) for node in path_of(tx)])
        )

    ingest(forest, 20, act)
    assert failures == ["all all: the model refused"]
    assert {level: [one[2] for one in some] for level, some in told(folder).items()} == {2: [1]}
    assert forest.user("u").verify().ok
    counting.fails_at = -1
    forest.flush()
    assert forest.user("u").stats().dirty_nodes == 0


def test_what_was_written_meanwhile_wins(forest: MemForest, folder: Path, counting: Counting) -> None:
    """A node of another version than was read gets no text; nor one that somebody else has brought up to date."""

    async def act(host: Host) -> None:
        assert await host.annotate(lambda tx: [work_of(node, "a") for node in path_of(tx)]) == []

    counting.meanwhile = lambda: sql(folder, "UPDATE node SET version = version + 1 WHERE level = 1")
    ingest(forest, 20, act)
    assert told(folder).keys() == {2}
    counting.meanwhile = lambda: sql(folder, "UPDATE node SET dirty = 0")
    ingest(forest, 1, act, day=2)
    assert told(folder).keys() == {2}
    assert counting.meanwhile is None


def test_a_remote_summariser_gets_each_by_itself(forest: MemForest, counting: Counting) -> None:
    """Side by side, as a model behind an endpoint is asked; a node that is kept is not asked for."""
    counting.remote = True

    async def act(host: Host) -> None:
        def choose(tx: Tx) -> list[NodeWork]:
            root, node = path_of(tx)
            more = trees.nodes_with_ids(tx, root.children).values()
            return [work_of(root, "a"), *(work_of(one, "b", kept=one.id == node.id) for one in more)]

        await host.annotate(choose)

    ingest(forest, 20, act)
    assert sorted(len(call) for call in counting.calls) == [1] * len(counting.calls)
    assert len(counting.calls) >= 2


def test_texts_are_embedded_as_stored_ones(forest: MemForest) -> None:
    """Once each, with the vectors of the file where a text has one, in order; the others are counted."""
    texts = ["one", "two", "one", turn_text("Ana", "I bought 2 tents of kind 10 in Oslo.")]
    found: list[Any] = []

    async def act(host: Host) -> None:
        found.append(await host.embed_texts(texts))
        found.append(await host.embed_texts([]))
        stored = await host.read(lambda tx, _: derived.vectors_by_digest(tx, [digest(texts[3])]))
        found.append(stored[digest(texts[3])])

    result = ingest(forest, 3, act)
    made, none, stored = found
    assert (made.shape, made.dtype, none.shape) == ((4, 32), np.float32, (0, 32))
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-3)
    assert np.array_equal(made, as_stored(made))
    assert np.array_equal(made[0], made[2])
    assert np.array_equal(made[3], stored)
    assert result.usage.embeds["text"] == 2


def test_without_an_embedder_no_text_is_embedded(folder: Path) -> None:
    """It is an error of the model, as with questions."""
    raised: list[str] = []

    async def act(host: Host) -> None:
        with pytest.raises(ModelError):
            await host.embed_texts(["one"])
        raised.append("yes")

    with MemForest(folder, fast_config(indexes=("dummy",), embedder="none")) as forest:
        ingest(forest, 2, act)
    assert raised == ["yes"]


# -- what need not be made ------------------------------------------------------------------------


def test_the_same_request_is_not_made_again(forest: MemForest, folder: Path, counting: Counting) -> None:
    """A node that is dirty but would get the summary that it has is clean without a call; without its vector it is made."""
    ingest(forest, 20)
    forest.flush()
    before = told(folder)
    counting.calls.clear()
    sql(folder, "UPDATE node SET dirty = 1, version = version + 1")
    assert forest.flush().nodes_dirty == 0
    assert (counting.calls, told(folder)) == ([], before)
    sql(folder, "UPDATE node SET dirty = 1, version = version + 1")
    sql(folder, "DELETE FROM derived_node_vector WHERE item = (SELECT max(id) FROM node WHERE level = 1)")
    forest.flush()
    assert sum(map(len, counting.calls)) == 1
    assert told(folder) == before
    counting.calls.clear()
    forest.user("u").rebuild()
    assert sum(map(len, counting.calls)) == sum(map(len, before.values()))


def test_what_says_the_same_as_before_costs_nothing_above_it(
    forest: MemForest, folder: Path, counting: Counting
) -> None:
    """One summary whose request is unknown is made; the root above it reads the same texts, and is not."""
    ingest(forest, 20)
    forest.flush()
    counting.calls.clear()
    sql(
        folder,
        "UPDATE derived_summary SET inputs = x'00' WHERE node = (SELECT min(id) FROM node WHERE level = 1)",
    )
    forest.user("u").rebuild(stale=True)
    assert [[one.level for one in call] for call in counting.calls] == [[1]]
    assert forest.user("u").stats().dirty_nodes == 0


def test_a_node_that_keeps_its_inputs_asks_nobody(folder: Path, counting: Counting) -> None:
    """Its text is theirs, a line each, and its vector their mean, also of a root; that it was kept is part of its request."""

    class Keeping(Reading):
        def work(self, tx: Tx, nodes: Sequence[Node], inputs: Any) -> list[NodeWork]:
            return [work_of(node, *inputs[node.id], kept=node.level == 1) for node in nodes]

    registry.unregister("dummy")
    registry.register(Keeping)
    with MemForest(folder, fast_config(indexes=("dummy",), summariser=counting)) as forest:
        kept = "SELECT vector FROM derived_summary d JOIN node ON id = d.node WHERE level = 1"
        ingest(forest, 2)
        forest.flush()
        assert (counting.calls, rows(file_of(folder), kept)) == ([], [("mean",)])
        [(text, *_)] = told(folder)[1]
        assert text == "Ana: I bought 2 tents of kind 10 in Oslo.\nAna: I bought 3 tents of kind 11 in Oslo."
        ingest(forest, 20, day=2)
        forest.flush()
        assert [[one.level for one in call] for call in counting.calls] == [[2]]
        assert set(rows(file_of(folder), kept)) == {("mean",)}
        assert all(size for some in told(folder).values() for _, _, _, size in some)
        assert forest.user("u").verify().ok
        before = told(folder)
        sql(folder, "UPDATE node SET dirty = 1, version = version + 1")
        forest.flush()
        assert (len(counting.calls), told(folder)) == (1, before)
        Keeping.work = Reading.work  # type: ignore[method-assign]
        sql(folder, "UPDATE node SET dirty = 1, version = version + 1")
        forest.flush()
        assert [len(call) for call in counting.calls[1:]] == [len(before[1]), 1]


def test_nothing_of_a_deleted_turn_is_taken_for_up_to_date(
    forest: MemForest, folder: Path, counting: Counting
) -> None:
    """What is above it has no summary behind the deletion, so there is nothing that could pass for the new one."""
    ingest(forest, 20)
    forest.flush()
    counting.calls.clear()
    forest.user("u").delete(turn=("s1", "3"))
    assert rows(
        file_of(folder), "SELECT count(*) FROM node JOIN derived_summary ON node = id WHERE dirty"
    ) == [(0,)]
    dirty = rows(file_of(folder), "SELECT count(*) FROM node WHERE dirty")[0][0]
    forest.flush()
    assert sum(map(len, counting.calls)) == dirty > 0
