"""Recall by how much a question needs: levels, budgets, what stays, times, and who plans."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.calendar_tree import CalendarTree, Written, configured, every
from tests_long.worlds import said

from memforest import Evidence, MemForest, QueryResult, Ranking
from memforest.config import Recall
from memforest.errors import ConfigError, ModelUnavailableError
from memforest.read.rerank import by_level
from memforest.testing import FunctionChat
from memforest.trees import attached

THINGS = ("canoe", "lamp", "kettle", "violin", "tent", "map", "clock", "rug")
DAYS = (2, 3, 11, 12, 23, 33, 34, 61)
"""Of the sessions, counted from 1 May 2023: three months, six weeks of them, and days next to each other."""


class Tree(CalendarTree):
    """A tree of which a test says what is written."""

    blank: ClassVar[frozenset[tuple[int, str]]] = frozenset()

    @staticmethod
    def texts(node: Written) -> str | None:  # type: ignore[override]
        """Return no text of a node that is named blank."""
        return None if (node.level, node.key) in Tree.blank else every(node)


def day_of(n: int) -> datetime:
    """Return when a session begins."""
    return datetime(2023, 5, 1, 10, tzinfo=timezone.utc) + timedelta(days=DAYS[n] - 1)


def fill(forest: MemForest) -> None:
    """Ingest eight sessions, of which each speaks of all things, and most of one of its own."""
    for n, thing in enumerate(THINGS):
        texts = [f"I bought a {one} in Porto, number {n}." for one in THINGS]
        texts[0] = f"My {thing} is the best {thing}, and a {thing} is what I want."
        turns = [
            {"speaker": "Ana", "content": text, "timestamp": (day_of(n) + timedelta(minutes=at)).isoformat()}
            for at, text in enumerate(texts)
        ]
        forest.ingest_session("u", f"s{n}", turns)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemForest]:
    """A memory that is only asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attached.INDEXES, "timem", Tree)
        with MemForest(tmp_path_factory.mktemp("shared"), configured()) as made:
            fill(made)
            yield made


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemForest]:
    """A memory to write to."""
    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    with MemForest(folder, configured()) as made:
        fill(made)
        yield made


def ask(
    forest: MemForest, question: str = "Where is the best canoe?", recall: Recall | None = None, **how: Any
) -> QueryResult:
    """Recall, without a gate if nothing else is said."""
    recall = recall or Recall(gate="off")
    return forest.query("u", question, **{"top_k": 99, "ranking": Ranking(recall=recall), **how})


def levels(result: Sequence[Evidence]) -> Counter[int]:
    """Return how many pieces there are of each level, of what was said none."""
    return Counter(one.level for one in result if one.level is not None)


def keys(result: Sequence[Evidence], level: int) -> list[str]:
    """Return the sessions or windows of the memories of a level."""
    return [one.window or one.sources[0].session_id for one in result if one.level == level]


@pytest.mark.parametrize(
    ("complexity", "counts"),
    [(0, {1: 4, 4: 1}), (1, {1: 4, 2: 2, 4: 1}), (2, {1: 4, 2: 4, 3: 2, 4: 1})],
)
def test_a_question_brings_what_its_budgets_allow(
    shared: MemForest, complexity: int, counts: dict[int, int]
) -> None:
    """At most so many memories of a level, and the turns of twenty leaves."""
    result = ask(shared, recall=Recall(gate="off", complexity=complexity))
    assert levels(result.evidence) == counts
    assert sum(one.level is None for one in result) == 40
    assert result.trace["recall"]["complexity"] == ("simple", "hybrid", "complex")[complexity]
    assert result.trace["recall"]["planner"] == "rules"


CHUNKS = st.builds(
    Recall,
    gate=st.just("off"),
    complexity=st.integers(0, 2),
    levels=st.none() | st.sampled_from([(1,), (2, 3, 4, 5), (1, 5), (1, 2)]),
    flat=st.booleans(),
    leaves=st.sampled_from(["fused", "paper"]),
    prune=st.sampled_from(["best", "own"]),
    order=st.sampled_from(["score", "level"]),
    budgets=st.sampled_from(["timem", "locomo", {"complex": (3, 1, 1, 1, 1)}]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recall=CHUNKS, thing=st.sampled_from(THINGS))
def test_every_chunk_keeps_to_its_caps_and_its_order(shared: MemForest, recall: Recall, thing: str) -> None:
    """No level has more than its budget (one pool no more than all together), and the order is the one that is asked for."""
    result = ask(shared, f"Where is the best {thing}?", recall)
    budgets = recall.budgets_of(("simple", "hybrid", "complex")[recall.complexity or 0])
    counted = levels(result.evidence)
    shown = {one.sources[0].turn_ids[0] for one in result if one.level is None}
    assert {level + 1 for level in counted} <= set(budgets)
    assert bool(shown) <= (1 in budgets)
    if recall.flat:
        leaves = {
            (one.sources[0].session_id, int(one.sources[0].turn_ids[0]) // 2)
            for one in result
            if one.level is None
        }
        assert len(leaves) + sum(counted.values()) <= sum(budgets.values())
    else:
        assert all(counted[level] <= budgets[level + 1] for level in counted)
        assert sum(one.level is None for one in result) <= 2 * budgets.get(1, 0)
    for one in result:
        assert sum(one.scores.values()) == pytest.approx(one.score)
    places = [one.level or 0 for one in result]
    starts = [one.start for one in result]
    if recall.order == "score":
        assert [one.score for one in result] == sorted((one.score for one in result), reverse=True)
        return
    assert places == sorted(places)
    for level in set(places):
        own = [start for start, place in zip(starts, places, strict=True) if place == level]
        assert own == sorted(own, reverse=recall.order == "level")


def test_leaves_of_levels_that_are_not_shown_lead_to_what_is_above_them(shared: MemForest) -> None:
    """L2 to L5 alone begin at the leaves all the same."""
    result = ask(shared, recall=Recall(gate="off", levels=(2, 5), complexity=0))
    assert levels(result.evidence) == {1: 4, 4: 1}
    assert len(result.evidence) == 5
    assert "s0" in keys(result.evidence, 1)


def test_over_a_budget_the_best_stay_and_not_the_earliest(shared: MemForest) -> None:
    """The best leaf is in the last session."""
    one_each: Any = dict.fromkeys(("simple", "hybrid", "complex"), (20, 1, 1, 1, 1))
    for leaves in ("fused", "paper"):
        for prune, session, month in (
            ("best", "s7", "2023-06"),
            ("own", "s7", None),
        ):
            recall = Recall(gate="off", prune=prune, leaves=leaves, budgets=one_each)  # type: ignore[arg-type]
            found = ask(shared, "What is the best rug?", recall).evidence
            assert keys(found, 1) == [session], (prune, leaves)
            assert month is None or keys(found, 4) == [month]


def test_one_pool_is_all_levels_by_their_own_scores(shared: MemForest) -> None:
    """As many as all budgets together; nothing above a leaf comes because of it."""
    flat = ask(shared, recall=Recall(gate="off", flat=True, complexity=2, levels=(2, 3, 4, 5)))
    assert sum(levels(flat.evidence).values()) == len(flat.evidence) == 11
    assert flat.evidence[0].text.startswith("Level")
    assert "canoe" in flat.evidence[0].text
    assert flat.trace["recall"]["one_pool"] is True


def test_a_memory_without_a_text_takes_no_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next best comes instead, and no warning speaks of what nobody asked for."""
    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    monkeypatch.setattr(Tree, "blank", frozenset({(1, "s0"), (1, "s1"), (4, "2023-05")}))
    with MemForest(folder, configured()) as forest:
        fill(forest)
        result = ask(forest, recall=Recall(gate="off", complexity=0))
    assert not {"s0", "s1"} & set(keys(result.evidence, 1))
    assert len(keys(result.evidence, 1)) == 4
    assert keys(result.evidence, 4) == ["2023-06"]
    assert not [one for one in result.warnings if "summar" in one]


def test_a_leaf_is_shown_by_its_text_where_it_has_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a memory of level 0 with its turns as sources; leaves without one are shown by their turns."""

    def texts(node: Written) -> str | None:
        return (
            f"They spoke of: {node.turns[0]}" if node.level == 0 and "number" not in node.turns[0] else None
        )

    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    monkeypatch.setattr(Tree, "texts", staticmethod(texts))
    with MemForest(folder, configured()) as forest:
        fill(forest)
        for leaves in ("fused", "paper"):
            recall = Recall(gate="off", show="texts", leaves=leaves)
            result = ask(forest, recall=recall)
            first = result.evidence[0]
            assert (first.kind, first.level, first.turns) == ("memory", 0, 2)
            assert first.text.startswith("They spoke of: My canoe")
            assert first.sources[0].turn_ids == ("0", "1")
            told = {
                (one.sources[0].session_id, turn)
                for one in result
                if one.level == 0
                for turn in one.sources[0].turn_ids
            }
            spoken = {
                (one.sources[0].session_id, one.sources[0].turn_ids[0]) for one in result if one.level is None
            }
            assert spoken
            assert not told & spoken
        earlier = ask(forest, recall=Recall(gate="off", show="texts"), as_of="2023-05-02T10:00:30Z")
        assert [one.kind == "memory" for one in earlier] == [False]
        assert {one.level for one in ask(forest, recall=Recall(gate="off"))} == {None}


def test_no_memory_tells_what_came_after_the_moment_asked_about(shared: MemForest) -> None:
    """`as_of` within May: neither the profile of May nor a later week; sessions that were over are told."""
    recall = Recall(gate="off", complexity=2)
    found = ask(shared, recall=recall, as_of="2023-05-12T23:00:00Z").evidence
    assert set(keys(found, 1)) == {"s0", "s1", "s2", "s3"}
    assert keys(found, 4) == []
    assert all(one.said < datetime(2023, 5, 13, tzinfo=timezone.utc) for one in found)
    whole = ask(shared, recall=recall, as_of="2023-05-31T23:00:00Z").evidence
    assert keys(whole, 4) == ["2023-05"]


def test_a_profile_of_june_is_not_used_for_a_question_about_may(shared: MemForest) -> None:
    """Whether a filter says when, or the question itself does; sessions count by what is below them alone."""
    recall = Recall(gate="off", complexity=2, budgets={"complex": (64, 8, 8, 8, 3)})
    assert sorted(keys(ask(shared, "What is the best rug?", recall).evidence, 4)) == ["2023-05", "2023-06"]
    filtered = ask(shared, "What is the best rug?", recall, during=("2023-05-01", "2023-06-01")).evidence
    assert keys(filtered, 4) == ["2023-05"]
    assert set(keys(filtered, 2)) == {f"2023-05-{day:02}" for day in DAYS[:5]}
    asked = ask(shared, "What was the best rug in May 2023?", recall, reference_date="2024-01-01").evidence
    assert keys(asked, 4) == ["2023-05"]
    assert all(key < "2023-06" for key in keys(asked, 2))
    assert "s7" in keys(asked, 1)


def test_rules_tell_how_much_a_question_needs(shared: MemForest) -> None:
    """By its words; a question of which they cannot tell asks for one fact, and with nobody to plan it is between."""
    for question, complexity in (
        ("What colour is the canoe?", "simple"),
        ("How many canoes did Ana buy?", "hybrid"),
        ("Would Ana enjoy a canoe?", "complex"),
    ):
        trace = ask(shared, question).trace["recall"]
        assert (trace["planner"], trace["complexity"]) == ("rules", complexity)
    trace = ask(shared, "Would Ana enjoy a canoe?", Recall(planner="off")).trace["recall"]
    assert (trace["planner"], trace["complexity"]) == ("off", "hybrid")
    assert trace["budgets"] == {"L1": 20, "L2": 4, "L3": 2, "L5": 1}


def test_a_question_that_recalls_nothing_says_what_would(shared: MemForest) -> None:
    """Levels that have no budget for it are a warning with what to write, and no error."""
    result = ask(shared, "What colour is the canoe?", Recall(levels=(3, 4)))
    assert not result.evidence
    (warning,) = [one for one in result.warnings if "budget" in one]
    assert "a question that is simple; give Recall(budgets=...) or levels one" in warning


@pytest.mark.parametrize(("name", "step"), [("planner", "plan"), ("gate", "sift")])
def test_a_model_that_is_asked_for_must_be_there(shared: MemForest, name: str, step: str) -> None:
    """Before anything is searched, with what to configure; also where it does other steps."""
    recall = Recall(**{name: "model"})  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=rf"Recall\({name}='model'\) needs a chat model: .*'{step}' in chat_steps"
    ):
        ask(shared, recall=recall)


def test_a_way_to_browse_is_not_taken(shared: MemForest) -> None:
    """A mode that is asked for by name is said to be none of this index's."""
    assert [one for one in ask(shared, mode="emb").warnings if "mode" in one] == []
    with pytest.raises(ConfigError):
        ask(shared, mode="llm")


def test_the_index_s_own_settings_hold_where_the_ranking_has_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ranking's recall takes their place, for one question."""
    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    with MemForest(folder, configured(Recall(levels=(2,), gate="off"))) as forest:
        fill(forest)
        assert {one.level for one in forest.query("u", "the best canoe", top_k=50)} == {1}
        assert {one.level for one in ask(forest, recall=Recall(gate="off", levels=(5,)))} == {4}


def test_other_indexes_read_nothing_of_it(own: MemForest) -> None:
    """A recall in a ranking changes no ranking of another index."""
    plain = own.query("u", "the best canoe", index="flat", top_k=20)
    given_ = own.query(
        "u", "the best canoe", index="flat", top_k=20, ranking=Ranking(recall=Recall(levels=(5,)))
    )
    assert plain.evidence == given_.evidence


def test_an_empty_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found in nothing, whatever was there before."""
    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    monkeypatch.setattr(Tree, "texts", staticmethod(lambda node: None))
    with MemForest(folder, configured()) as forest:
        forest.ingest_session("u", "s", said("I bought a canoe.", "A lamp, too."))
        for recall in (
            Recall(),
            Recall(flat=True),
            Recall(leaves="paper"),
            Recall(show="texts", prune="own"),
        ):
            assert ask(forest, "Who has a canoe?", recall).evidence[0].text == "I bought a canoe."
        forest.delete_session("u", "s")
        assert not ask(forest, "Who has a canoe?").evidence


def test_a_model_plans_and_only_that_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call for how much is needed; with a complexity that is given, none; what fails is told by rules, with a warning."""
    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    asked: list[str] = []
    broken = False

    def reply(request: Any) -> Any:
        asked.append("asked")
        if broken:
            raise ModelUnavailableError("down")
        return local_reply(request)

    config = configured(Recall(gate="off"), chat=FunctionChat(reply), chat_steps=["plan"])
    with MemForest(folder, config) as forest:
        fill(forest)
        asked.clear()
        result = forest.query("u", "Would Ana enjoy a canoe?", mode="emb")
        assert result.trace["recall"]["planner"] == "model"
        assert len(asked) == 1
        forest.query(
            "u",
            "Would Ana enjoy a canoe?",
            mode="emb",
            ranking=Ranking(recall=Recall(gate="off", complexity=0)),
        )
        assert len(asked) == 1
        broken = True
        failed = forest.query("u", "Would Ana enjoy a canoe?", mode="emb")
        assert failed.trace["recall"]["planner"] == "rules"
        assert failed.trace["recall"]["complexity"] == "complex"
        assert any("told by rules" in one for one in failed.warnings)
        assert failed.evidence


def piece(level: int | None, day: int, score: float = 0.0, days: int = 1) -> Evidence:
    """Return evidence of a level about some days of May 2023."""
    start = datetime(2023, 5, day, tzinfo=timezone.utc)
    return Evidence(
        text=f"{level} {day}", quote="", speaker="", kind="turn" if level is None else "memory", score=score,
        scores={}, said=start, start=start, end=start + timedelta(days=days), sources=(), level=level,
    )  # fmt: skip


def test_the_order_of_a_reader_is_by_level_then_by_time() -> None:
    """Eq. 11; an interval around the question is nearest, and equal ones keep their order."""
    pieces = [piece(4, 1, days=31), piece(1, 3), piece(None, 9), piece(1, 20), piece(None, 25), piece(1, 14)]
    asked = datetime(2023, 5, 15, tzinfo=timezone.utc)

    assert [one.text for one in by_level(pieces, asked)] == [
        "None 9",
        "None 25",
        "1 14",
        "1 20",
        "1 3",
        "4 1",
    ]
    twins = [piece(1, 10, 0.9), piece(1, 20, 0.8), piece(1, 10, 0.7)]
    ordered = by_level(twins, datetime(2023, 5, 15, 12, tzinfo=timezone.utc))
    assert [one.score for one in ordered] == [0.9, 0.8, 0.7]


def test_a_reranker_reads_what_was_recalled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the gate, memories and turns; the order for a reader comes last."""
    monkeypatch.setitem(attached.INDEXES, "timem", Tree)
    read: list[str] = []

    def backwards(_question: str, texts: list[str]) -> list[int]:
        read.extend(texts)
        return list(range(len(texts)))

    with MemForest(
        folder, configured(Recall(order="level"), reranker=backwards, rerank_top=6, rerank_tokens=9999)
    ) as forest:
        fill(forest)
        result = forest.query("u", "Where is the best canoe?", top_k=8)
    assert len(read) == 6
    assert len(result.evidence) == 8
    assert [one.level or 0 for one in result] == sorted(one.level or 0 for one in result)
