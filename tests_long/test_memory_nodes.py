"""Evidence that is an inner node: a summary with the turns beneath it, from an index that hands nodes back."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests.table import each
from tests_long.hand_made import DAY, Fact, Said, Tree, hand_made, planted, searching
from tests_long.worlds import fast_config, file_of, said

from memforest import Config, Evidence, MemForest, QueryResult
from memforest.cli.asking import draw_answer, draw_evidence
from memforest.cli.screen import Screen
from memforest.read.evidence import SOURCE_TURNS
from memforest.search.cache import forest_of
from memforest.search.filters import IndexResult, NodeHit, Prepared, Search
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.testing import FunctionChat
from memforest.trees import attached
from memforest.trees.flat import FlatIndex
from memforest.trees.index import Host, allowed_nodes, turns_beneath
from memforest.trees.memforest import MemForestIndex

THINGS = ("canoe", "lamp", "kettle", "violin", "tent", "map", "clock")


class Summaries(MemForestIndex):
    """An index that finds turns as `flat` does, and in front of them the inner nodes of session trees, the latest first."""

    name = "summaries"
    kinds: tuple[str, ...] = ("session",)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Make no summary."""
        return Prepared(request)

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every turn and every such node."""
        forest = forest_of(tx, snapshot, self)
        rows = [row for row in forest.inner.tolist() if forest.tree_kind[forest.tree[row]] in self.kinds]
        rows.sort(key=lambda row: (-forest.level[row], -row))
        nodes = [
            NodeHit(row, 100.0 - n, {"own": 100.0 - n}, "2023-05", "it is first" * (not n))
            for n, row in enumerate(rows)
        ]
        found = FlatIndex().search(tx, snapshot, request)
        # The first one twice.
        return IndexResult(found.hits, notes=found.notes, nodes=nodes[:1] + nodes, forest=forest)


class Everything(Summaries):
    """One that finds the nodes of entities' trees too."""

    name = "everything"
    kinds = ("session", "entity")


class Last(Summaries):
    """One that finds them behind all turns."""

    name = "last"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every turn, then every node."""
        found = super().search(tx, snapshot, request)
        return replace(found, nodes=[replace(node, score=node.score - 1000) for node in found.nodes])


class Wrong(Summaries):
    """One that hands back a leaf."""

    name = "wrong"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return a leaf as if it were an inner node."""
        forest = forest_of(tx, snapshot, self)
        return IndexResult((), nodes=[NodeHit(int(np.flatnonzero(forest.kind)[0]), 1.0)], forest=forest)


OURS = (Summaries, Everything, Last, Wrong)


def config_of(**settings: Any) -> Config:
    """Return a configuration with the indexes from here, whose nodes are filled from the left."""
    names = [one.name for one in OURS]
    few = {"packing": "paper", "active_min_facts": 1, "active_min_sessions": 1}
    return fast_config(indexes=("memforest", *names), index_settings=dict.fromkeys(names, few), **settings)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in OURS:
        monkeypatch.setitem(attached.INDEXES, one.name, one)


def fill(forest: MemForest, sessions: int = 3, *, refresh: bool = True) -> None:
    """Ingest sessions ten days apart, each of a purchase of every thing."""
    for n in range(sessions):
        turns = said(*[f"I bought a {thing} in Porto, number {n}." for thing in THINGS], day=10 * n + 1)
        forest.ingest_session("u", f"s{n}", turns, refresh=refresh)


@pytest.fixture
def forest(folder: Path) -> Iterator[MemForest]:
    """A forest with three sessions; the tree of each has a root over two nodes."""
    with MemForest(folder, config_of()) as made:
        fill(made)
        yield made


def ask(forest: MemForest, **options: Any) -> QueryResult:
    """Query by the index that hands nodes back."""
    return forest.query("u", "Where did I buy the canoe?", **{"index": "summaries", "top_k": 40, **options})


def memories(result: QueryResult) -> list[Evidence]:
    """Return the evidence that is a node."""
    return [one for one in result if one.kind == "memory"]


def test_a_node_is_evidence_with_its_turns_as_sources(forest: MemForest) -> None:
    """Its summary, level, window, interval and score; nobody said it; the turns beneath are its sources, in order."""
    first = ask(forest, explain=True).evidence[0]
    assert (first.kind, first.level, first.window, first.turns) == ("memory", 2, "2023-05", 7)
    assert (first.quote, first.speaker, first.fact_id) == ("", "", None)
    assert (first.score, first.scores, first.why) == (100.0, {"own": 100.0}, "it is first")
    assert "number 2" in first.text
    assert [(one.session_id, len(one.turn_ids)) for one in first.sources] == [("s2", 7)]
    assert first.sources[0].turn_ids == tuple(str(n) for n in range(7))
    assert first.start.isoformat() == "2023-05-21T10:00:00+00:00"
    assert first.said.isoformat() == "2023-05-21T10:06:00+00:00"
    assert first.end is not None
    assert first.said < first.end
    assert first.path[0] == "session s2"
    assert json.loads(json.dumps(first.to_dict()))["window"] == "2023-05"


def test_nodes_and_turns_are_one_ranking(forest: MemForest) -> None:
    """`top_k` cuts both together, best first, each once; `top_facts` has no node; the other indexes show none."""
    whole = ask(forest)
    assert [one.kind == "memory" for one in whole] == [True] * 9 + [False] * (len(whole) - 9)
    assert [one.score for one in whole] == sorted((one.score for one in whole), reverse=True)
    assert ask(forest, top_k=4).evidence == whole.evidence[:4]
    assert ask(forest, top_k=11).evidence == whole.evidence[:11]
    assert whole.top_facts
    assert {one.kind for one in whole.top_facts} == {"fact"}
    assert len({one.fact_id for one in whole if one.fact_id}) == sum(one.kind == "fact" for one in whole)
    for index in ("memforest", "flat"):
        assert not memories(forest.query("u", "canoe", index=index, top_k=40))


def test_many_turns_are_counted_and_the_first_are_listed(folder: Path) -> None:
    """A summary of more turns than are listed says how many they are."""
    count = SOURCE_TURNS + 20
    with MemForest(folder, config_of()) as forest:
        forest.ingest_session("u", "s", said(*[f"I bought lamp number {n}." for n in range(count)]))
        forest.flush("u")
        (root,) = (one for one in memories(ask(forest, top_k=99)) if one.turns == count)
        assert root.sources[0].turn_ids == tuple(str(n) for n in range(SOURCE_TURNS))
        assert f"summary of {count} turns: " in ask(forest, top_k=1).context(10_000)


def test_a_context_shows_what_a_summary_is(forest: MemForest) -> None:
    """Days, level, window and count in front, no quotation marks; `max_tokens` counts the line as it is."""
    result = ask(forest, top_k=3)
    lines = result.context(10_000).splitlines()
    assert lines[0].startswith("[1] 21 May 2023, level 2, 2023-05, summary of 7 turns: ")
    assert '"' not in lines[0]
    assert " said" not in lines[0]
    short = result.context(sum(len(line) for line in lines[:2]) // 4 + 3)
    assert short.splitlines() == lines[:2]
    assert len(ask(forest, top_k=3, max_tokens=40).evidence) < 3


def test_explain_and_rerank_know_nodes(folder: Path) -> None:
    """Each node has its own place, parts and number; a reranker reads the summary as it is."""
    read: list[str] = []

    def backwards(_question: str, texts: list[str]) -> list[int]:
        read.extend(texts)
        return list(range(len(texts)))

    with MemForest(folder, config_of(reranker=backwards, rerank_top=12)) as forest:
        fill(forest)
        result = ask(forest, explain=True)
        nodes = memories(result)
        why = result.trace["explain"]["evidence"]
        assert [one["node_id"] for one in why] == [one.node_id for one in result]
        assert len({one.node_id for one in nodes}) == len(nodes) == 9
        assert sorted(one["place_before_rerank"] for one in why) == list(range(1, len(why) + 1))
        for one in why:
            assert sum(one["parts"].values()) == pytest.approx(one["score"])
        before = [one for _, one in sorted(zip([one["place_before_rerank"] for one in why], result, strict=True),
                                           key=lambda pair: pair[0])]  # fmt: skip
        assert read[:9] == [one.text for one in before[:9]]


def test_the_screen_shows_a_summary_without_a_speaker(
    folder: Path, forest: MemForest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Laid out and as records; as evidence, and as a citation, which has no quotation marks."""
    result = ask(forest, top_k=1)
    for laid_out in (True, False):
        draw_evidence(Screen(laid_out=laid_out), result.evidence, explain=True)
        shown = " ".join(capsys.readouterr().out.split())
        assert "summary of 7 turns, level 2, 2023-05, 2023-05-21" in shown
        assert "s2 #0" in shown
    with MemForest(folder, config_of(chat=FunctionChat(local_reply), chat_steps=["answer"])) as other:
        answer = other.ask("u", "Where did I buy the clock?", index="summaries", top_k=1)
    assert [one.kind for one in answer.citations] == ["memory"]
    draw_answer(Screen(laid_out=True), answer)
    shown = capsys.readouterr().out
    assert "summary of 7 turns" in shown
    draw_answer(Screen(laid_out=False), answer)
    assert answer.citations[0].text[:40] in capsys.readouterr().out.splitlines()[1]


def test_no_summary_tells_the_future(forest: MemForest) -> None:
    """Under `as_of` a node is shown only if all beneath it was so; its text is not read by halves."""
    found = memories(ask(forest, as_of="2023-05-11T10:03:30Z"))
    assert {one.sources[0].session_id for one in found} == {"s0"}
    assert len(found) == 3
    later = ask(forest, as_of="2023-05-11T10:03:30Z").context(10_000)
    assert "clock in Porto, number 0" in later
    assert "clock in Porto, number 1" not in later
    assert not memories(ask(forest, as_of="2023-05-01T10:00:30Z"))


def test_a_window_keeps_the_nodes_that_reach_into_it(forest: MemForest) -> None:
    """Under `during` one leaf in the window is enough."""
    found = memories(ask(forest, during=("2023-05-11T10:05:30Z", "2023-05-12")))
    assert [(one.level, one.turns) for one in found] == [(2, 7), (1, 1)]
    assert {one.sources[0].session_id for one in found} == {"s1"}


def test_damaged_turns_are_no_sources(folder: Path) -> None:
    """They are named, and no summary tells of them; a node with no sound turn among those listed is left out."""
    with MemForest(folder, config_of()) as forest:
        fill(forest, 2)
    with closing(sqlite3.connect(file_of(folder), isolation_level=None)) as conn:
        conn.execute("UPDATE turn SET text = 'I sold it.' WHERE ordinal = 2 AND session = 1")
        conn.execute("UPDATE turn SET text = 'I sold it.' WHERE ordinal = 6 AND session = 1")
    with MemForest(folder, config_of()) as forest:
        assert {one.sources[0].session_id for one in memories(ask(forest))} == {
            "s1"
        }  # what is damaged is another text
        forest.resume("u")
        result = ask(forest)
    assert sum(" is damaged " in one for one in result.warnings) == 2
    found = {(one.sources[0].session_id, one.level, one.turns): one for one in memories(result)}
    assert found["s0", 2, 7].sources[0].turn_ids == ("0", "1", "3", "4", "5")
    assert not any("sold" in one.text for one in found.values())
    assert ("s0", 1, 1) not in found
    assert ("s1", 1, 1) in found


def test_a_summary_that_is_not_current_is_left_out(folder: Path) -> None:
    """One that is not made yet, and one that may still tell what was replaced; the warning says how to mend it."""
    with MemForest(folder, config_of()) as forest:
        fill(forest, 1, refresh=False)
        result = ask(forest)
        assert not memories(result)
        assert any(one.startswith("3 summaries are not made yet or out of date") for one in result.warnings)
        assert result.evidence
        forest.resume("u")
        assert len(memories(ask(forest))) == 3
        turns = said(*[f"I bought a {thing} in Porto, number 0." for thing in (*THINGS, "boat")])
        forest.ingest_session("u", "s0", turns, refresh=False)
        assert {one.turns for one in memories(ask(forest))} == {6}  # the root and the last node wait


def test_a_summary_of_a_part_of_its_leaves_is_left_out(folder: Path) -> None:
    """A node that got leaves since its summary was made would have sources that it does not tell of."""
    with MemForest(folder, config_of()) as forest:
        fill(forest, 2)
        ask(forest, index="everything", top_k=99)
        forest.ingest_session("u", "s9", said("I bought a boat in Porto.", day=28), refresh=False)
        found = memories(ask(forest, index="everything", top_k=99))
    assert found
    assert not [one for one in found if "s9" in {source.session_id for source in one.sources}]


def test_what_has_no_summary_of_its_own_is_refused(forest: MemForest) -> None:
    """A leaf without one stands for turns, and an index hands those back."""
    with pytest.raises(ValueError, match="no summary of its own"):
        forest.query("u", "canoe", index="wrong")


WORLD = hand_made(
    turns=[Said("Ana", day) for day in (0, 1, 2, 10, 11)],
    facts=[Fact((0, 3)), Fact((1,), start=20, end=21), Fact((4,), start=0, end=5)],
    trees=[
        Tree("session", 1, ((("turns", 0, 2), ("turns", 2, 3)), ("turns", 3, 5))),
        Tree("entity", 1, (("fact", 0), ("fact", 2))),
    ],
)


def test_turns_beneath() -> None:
    """Of chunks their turns, of facts all that support them, each once and in order; of a leaf its own."""
    forest = planted(WORLD).forest
    beneath = {row: turns_beneath(WORLD, forest, row).tolist() for row in range(len(forest.ids))}
    root, left = forest.tree_root[0], forest.children[int(forest.tree_root[0])][0]
    assert beneath[int(root)] == [0, 1, 2, 3, 4]
    assert beneath[left] == [0, 1, 2]
    assert beneath[int(forest.tree_root[1])] == [0, 3, 4]
    assert sorted(map(tuple, beneath.values())).count((0, 1)) == 1


@each(
    ("as_of", "during", "kept"),
    [
        (None, None, {"root", "left", "facts"}),
        (30, None, {"root", "left", "facts"}),
        (15, None, {"facts"}),  # turn 1 tells of day 20
        (5, None, {"facts"}),  # said later, and so by then
        (-1, None, set()),
        (None, (2, 3), {"root", "left", "facts"}),
        (None, (20, 21), {"root", "left"}),
        (None, (50, 60), set()),
        (5, (2, 3), {"facts"}),
    ],
)
def test_filters_act_by_leaves(as_of: int | None, during: tuple[int, int] | None, kept: set[str]) -> None:
    """All leaves for an instant, one for a window; a turn that tells of later is later."""
    request = replace(
        searching(),
        as_of_ms=None if as_of is None else as_of * DAY,
        during_ms=None if during is None else (during[0] * DAY, during[1] * DAY),
    )
    forest = planted(WORLD).forest
    named = {"root": int(forest.tree_root[0]), "facts": int(forest.tree_root[1])}
    named["left"] = forest.children[named["root"]][0]
    passes = allowed_nodes(WORLD, forest, request)
    assert {name for name, row in named.items() if passes[row]} == kept
