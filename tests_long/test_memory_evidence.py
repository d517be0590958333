"""From a question to evidence and an answer: every piece held against what was said, every cut against the whole."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from heapq import merge
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import CLOCK, fast_config, fast_folder

from memforest import Evidence, MemForest, QueryResult, Ranking
from memforest.errors import BudgetError, ModelRefusedError, ModelUnavailableError, StepError
from memforest.ports import Answer, AnswerEvidence
from memforest.read.answer import without_questions
from memforest.read.evidence import falling_score
from memforest.read.rerank import BEFORE_CHARS, rerank_text, reranked
from memforest.read.stored import Source
from memforest.records import QuestionPlan, SpokenText
from memforest.search.filters import NodeHit, TurnHit
from memforest.text import count_tokens

QUESTIONS = [
    "Where does Ana live now?",
    "When did Bob go to Rome?",
    "Who works at Globex?",
    "What did Ana say about the tent in May 2023?",
    "zeppelin",
]


def at(day: int, hour: int = 10) -> datetime:
    """Return a time in May 2023."""
    return datetime(2023, 5, day, hour, tzinfo=timezone.utc)


def turn(speaker: str, text: str, when: datetime, **more: Any) -> dict[str, Any]:
    """Return a turn."""
    return {"speaker": speaker, "content": text, "timestamp": when, **more}


SAID = {
    "one": [
        turn("Ana", "I live in Oslo.", at(1), n=1),
        turn("Bob", "What is it, a tent?", at(1, 11)),
        turn("Ana", "Well, hello there!", at(1, 12), n=3),
        turn("Bob", "I went to Rome on 3 March 2023.", at(1, 13), place="Rome"),
    ],
    "two": [
        turn("Bob", "I work at Globex. What about you, Ana?", at(9)),
        turn("Ana", "I moved to Lisbon. I bought a green tent.", at(9, 11), n=6),
        turn("Bob", "I work at Globex.", at(9, 12), n=7),
    ],
    "three": [turn("Ana", f"My tent number {i} is green.", at(12 + i // 6, i)) for i in range(12)],
}


@pytest.fixture(scope="module")
def forest() -> Iterator[MemForest]:
    """The sessions above as the memory of "u", who is Ana, and as that of "zoe", who takes no part."""
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as folder,
        MemForest(folder, fast_config()) as made,
    ):
        made.register_user("u", display_name="Ana")
        made.register_user("empty")
        for name, turns in SAID.items():
            made.ingest_session("u", name, turns)
            made.ingest_session("zoe", name, turns)
        yield made


def asked(forest: MemForest, question: str = QUESTIONS[0], **options: Any) -> QueryResult:
    """Return what a question of "u" finds."""
    return forest.query("u", question, **options)


def said_in(source: Source, place: int = 0) -> dict[str, Any]:
    """Return a turn among the sources of evidence as it came in."""
    return SAID[source.session_id][int(source.turn_ids[place])]


@pytest.mark.parametrize("question", QUESTIONS)
def test_evidence_quotes_the_first_of_its_sources(forest: MemForest, question: str) -> None:
    """Quote, speaker, time and metadata are those of one turn; no turn without a statement claims one."""
    found = asked(forest, question, top_k=100).evidence
    assert {one.kind for one in found} == {"fact", "turn"}
    for one in found:
        spoken = said_in(one.sources[0])
        assert (one.quote, one.speaker, one.said) == (
            spoken["content"],
            spoken["speaker"],
            spoken["timestamp"],
        )
        assert one.metadata == {key: value for key, value in spoken.items() if key in ("n", "place")}
        assert one.score == pytest.approx(sum(one.scores.values()))
        if one.kind == "turn":
            assert (one.text, one.fact_id, one.start, one.end) == (one.quote, None, one.said, None)
            assert sum(len(source.turn_ids) for source in one.sources) == 1


@pytest.mark.parametrize("question", QUESTIONS)
def test_evidence_tells_of_a_fact_what_the_list_tells(forest: MemForest, question: str) -> None:
    """Text, valid time and all sources; a fact comes once, and with the turns every turn of the memory is there."""
    found = asked(forest, question, top_k=100).evidence
    facts = [one for one in found if one.kind == "fact"]
    stored = {one.fact_id: one for one in forest.user("u").list(limit=1000)}
    assert sorted(one.fact_id or "" for one in facts) == sorted(stored)
    for one in facts:
        known = stored[one.fact_id or ""]
        assert (one.text, one.start, one.end) == (known.text, known.start, known.end)
        assert turns_of([one]) == {(s.session_id, id) for s in known.sources for id in s.turn_ids}
    everything = {(name, str(place)) for name, turns in SAID.items() for place in range(len(turns))}
    assert turns_of(found) == everything


def turns_of(found: Sequence[Evidence]) -> set[tuple[str, str]]:
    """Return the turns among the sources of evidence."""
    return {(source.session_id, id) for one in found for source in one.sources for id in source.turn_ids}


def test_a_stated_time_is_not_the_time_of_saying(forest: MemForest) -> None:
    """What happened in March was said in May; it began in March."""
    best = asked(forest, "When did Bob go to Rome?").evidence[0]
    assert (best.start, best.end) == (
        datetime(2023, 3, 3, tzinfo=timezone.utc),
        datetime(2023, 3, 4, tzinfo=timezone.utc),
    )
    assert best.said == at(1, 13)


@pytest.mark.parametrize(
    ("ranking", "turn_ids"), [(Ranking(length=20.0), ("0", "2")), (Ranking(length=-20.0), ("2", "0"))]
)
def test_a_statement_made_twice_shows_the_better_turn(
    forest: MemForest, ranking: Ranking, turn_ids: tuple[str, ...]
) -> None:
    """The turn that stands for the fact, here the longer or the shorter one, leads its sources; the other one follows."""
    found = asked(forest, "Which green tent?", top_k=100, ranking=ranking)
    (one,) = [e for e in found if e.kind == "fact" and "Globex" in e.text]
    assert one.sources == (Source("two", turn_ids),)
    assert said_in(one.sources[0])["content"] == one.quote


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_path_leads_down_the_tree_of_the_session(forest: MemForest, question: str) -> None:
    """The session's name, then days that hold one another, down to those of the turn."""
    for one in asked(forest, question, top_k=100).evidence:
        title, *days = one.path
        assert title == f"session {one.sources[0].session_id}"
        spans = [tuple(span.split("..")) for span in days]
        assert spans
        assert all(first <= one.said.date().isoformat() <= last for first, last in spans)
        assert all(a[0] <= b[0] <= b[1] <= a[1] for a, b in pairwise(spans))


def test_long_sessions_have_longer_paths(forest: MemForest) -> None:
    """The session of twelve turns is deeper than that of three; its root has the days of all its turns."""
    paths = {one.path[0]: one.path for one in asked(forest, top_k=100)}
    assert len(paths["session three"]) > len(paths["session two"]) >= 2
    assert paths["session three"][1] == "2023-05-12..2023-05-13"
    assert paths["session two"][1] == "2023-05-09..2023-05-09"


@pytest.mark.parametrize("top_k", [1, 2, 5, 19, 100])
def test_fewer_are_the_first_of_more(forest: MemForest, top_k: int) -> None:
    """`top_k` cuts the ranking and changes nothing of it; `top_facts` are those of the evidence."""
    whole = asked(forest, top_k=1000)
    found = asked(forest, top_k=top_k)
    assert found.evidence == whole.evidence[:top_k]
    assert found.top_facts == tuple(one for one in found.evidence if one.kind == "fact")


def test_the_budget_of_tokens_is_kept_to_the_token(forest: MemForest) -> None:
    """The longest prefix that fits: a piece is there from the very budget on that holds all up to it."""
    whole = asked(forest, top_k=6)
    lines = whole.context(10_000).split("\n")
    needed = [sum(count_tokens(line) + 1 for line in lines[: n + 1]) for n in range(len(lines))]
    for n, tokens in enumerate(needed):
        assert asked(forest, top_k=6, max_tokens=tokens).evidence == whole.evidence[: n + 1]
        assert asked(forest, top_k=6, max_tokens=tokens - 1).evidence == whole.evidence[:n]
        assert whole.context(tokens).split("\n") == lines[: n + 1]


def test_filters_are_told_as_times(forest: MemForest) -> None:
    """`explain` repeats the window and the instant that were asked for, in UTC; None where none was."""
    told = asked(forest, as_of="2023-05-09T12:00:00+02:00", during=("2023-05-01", "2023-06-01"), explain=True)
    filters = told.trace["explain"]["filters"]
    assert filters["as_of"] == at(9)
    assert filters["during"] == (at(1, 0), datetime(2023, 6, 1, tzinfo=timezone.utc))
    none = asked(forest, explain=True).trace["explain"]["filters"]
    assert (none["as_of"], none["during"]) == (None, None)


def test_an_explanation_is_of_each_piece_in_its_place(forest: MemForest) -> None:
    """Counted from 1, in order, with its turn, statement, path and parts, the weightiest first."""
    found = asked(forest, top_k=9, explain=True)
    told = found.trace["explain"]["evidence"]
    assert [one["place"] for one in told] == list(range(1, 10))
    for one, e in zip(told, found.evidence, strict=True):
        assert one["place_before_rerank"] == one["place"]
        assert (one["session_id"], one["turn_id"]) == (e.sources[0].session_id, e.sources[0].turn_ids[0])
        assert (one["fact_id"], one["score"], one["path"], one["node_id"]) == (
            e.fact_id,
            e.score,
            e.path,
            None,
        )
        assert one["parts"] == e.scores
        sizes = [abs(part) for part in one["parts"].values()]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("word", ["I", "me", "my", "mine"])
def test_the_user_who_takes_part_may_say_i(forest: MemForest, word: str) -> None:
    """The word "I" is the display name where the user speaks in the memory, and nobody where not.

    Who is only given something ("me") asks, and the question is about something else.
    """
    question = f"What is it that {word} tent has?"
    plan = asked(forest, question).plan
    assert (plan.asker, plan.entities) == ("Ana", () if word == "me" else ("Ana",))
    other = forest.query("zoe", question).plan
    assert (other.asker, other.entities) == (None, ())


def test_the_same_question_finds_the_same(forest: MemForest) -> None:
    """Twice, side by side, and by another user's memory that holds the same."""
    again = forest.query_parallel([{"user_id": "u", "question": QUESTIONS[0]}] * 3)
    first = asked(forest)
    assert all(isinstance(one, QueryResult) and one.evidence == first.evidence for one in again)
    other = forest.query("zoe", QUESTIONS[0])
    assert [(one.text, one.score) for one in other] == [(one.text, one.score) for one in first]


def test_a_result_says_how_it_came_about(forest: MemForest) -> None:
    """The question, its reference, the index, the models, and a time for each step."""
    found = asked(forest, "Where does Ana live?", reference_date="2024-02-03")
    assert (found.question, found.index, found.warnings) == ("Where does Ana live?", "memforest", ())
    assert found.reference_date == datetime(2024, 2, 3, tzinfo=timezone.utc)
    assert asked(forest).reference_date == CLOCK
    assert {"open", "embed", "plan", "search"} <= found.usage.ms.keys()
    assert (found.trace["embedder"], found.trace["planner"]) == ("hash-words-1@32", "rule-planner-1")
    assert found.trace["reranker"] is None
    assert found.trace["generation"] == forest.user("u").stats().generation
    assert (found.usage.model_calls, found.question_type) == (0, found.plan.kind)


@pytest.mark.parametrize("index", ["memforest", "segtree", "flat", "facts"])
def test_an_empty_memory_finds_nothing(folder: Path, index: str) -> None:
    """No evidence and an abstention, whatever is asked of whichever index it has."""
    with MemForest(folder, fast_config(indexes=[index])) as forest:
        forest.register_user("u")
        found = forest.query("u", "Where does Ana live?", explain=True)
        assert (found.evidence, found.top_facts, found.context(), bool(found)) == ((), (), "", False)
        answer = forest.ask("u", "Where does Ana live?")
        assert (answer.answer, answer.citations, bool(answer)) == (None, (), False)
        assert answer.reason


@dataclass
class Quoting:
    """An answerer that cites some pieces by their place, or fails, and keeps what it was shown."""

    cites: tuple[int, ...] = (0,)
    error: Exception | None = None
    shown: list[AnswerEvidence] = field(default_factory=list)
    name: str = "quoting-1"

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Answer with the question."""
        self.shown = list(evidence)
        if self.error is not None:
            raise self.error
        return Answer(f"{question} {plan.kind} {reference:%Y}", self.cites, "so it is")


def answering(answerer: Quoting, folder: str, question: str = "tent", **options: Any) -> Any:
    """Return what `ask` of a memory of the first two sessions returns."""
    with MemForest(folder, fast_config(answerer=answerer)) as forest:
        if not forest.has_user("u"):
            for name in ("one", "two"):
                forest.ingest_session("u", name, SAID[name])
        return forest.ask("u", question, **options)


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """A directory whose memory is made once."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        yield made


def test_an_answerer_sees_the_evidence_but_for_bare_questions(place: str) -> None:
    """In order, with times, speaker and score; what was said, and the statement that it is found by."""
    answerer = Quoting(cites=(2, 0))
    made = answering(answerer, place, reference_date="2025-01-01", top_k=100)
    told = [one for one in made.result.evidence if one.text != "What is it, a tent?"]
    assert len(told) == len(made.result.evidence) - 1 == len(answerer.shown) > 3
    for shown, one in zip(answerer.shown, told, strict=True):
        assert (shown.text, shown.quote, shown.speaker) == (one.text, one.quote, one.speaker)
        assert (shown.statement, shown.spoken) == (one.statement, one.spoken)
        assert (shown.said, shown.start, shown.end) == (one.said, one.start, one.end)
        assert (shown.score, shown.turns) == (one.score, None)
    assert made.citations == (told[2], told[0])
    assert made.answer == "tent simple 2025"
    assert (made.reason, made.result.trace["answerer"], made.result.warnings) == ("so it is", "quoting-1", ())
    assert {"open", "search", "answer"} <= made.usage.ms.keys()
    assert "answer" not in made.result.usage.ms


def test_only_turns_are_left_out_for_asking() -> None:
    """A statement or a summary that ends like a question tells something all the same."""
    asks = [replace(piece(0, 1.0), text="A tent?")]
    asks += [replace(asks[0], kind="fact"), replace(asks[0], kind="memory")]
    tells = piece(4, 0.5)
    assert without_questions([*asks, tells]) == [*asks[1:], tells]
    assert without_questions([]) == []


@pytest.mark.parametrize("error", [StepError, ModelUnavailableError, BudgetError, ModelRefusedError])
def test_a_model_that_fails_costs_no_answer(place: str, error: type[Exception]) -> None:
    """The local answerer answers from the same evidence; the warning is said once, and a long reason is cut."""
    question = "Where did Bob go on 3 March 2023?"
    local = answering(Quoting(error=error("x" * 900)), place, question)
    assert local.result.trace["answerer"] == "local-quote-1"
    (warning,) = local.result.warnings
    assert warning.startswith("x" * 250)
    assert warning.endswith(": the local answerer answered")
    assert len(warning) < 350
    with MemForest(place, fast_config()) as forest:
        assert (local.answer, local.citations) == (
            forest.ask("u", question).answer,
            forest.ask("u", question).citations,
        )


def test_an_abstention_names_the_nearest_evidence_and_a_setting_decides(place: str) -> None:
    """The result has reason, score and the evidence itself; at a threshold of 0 it is the answer."""
    question = "Which violin did Bob paint?"
    with MemForest(place, fast_config()) as forest:
        none = forest.ask("u", question)
        answered = forest.ask("u", "Where did Bob go on 3 March 2023?")
    assert none.abstained
    assert not none
    assert (none.answer, none.citations) == (None, ())
    assert none.nearest in none.result.evidence
    assert none.reason
    assert (answered.abstained, answered.nearest is None) == (
        answered.answer is None,
        answered.answer is not None,
    )
    with MemForest(place, fast_config(answer_threshold=0)) as forest:
        low = forest.ask("u", question)
    assert low.abstained == (none.score is None)
    assert low.score == none.score


def test_an_answerer_sees_the_turn_before_and_what_leads(tmp_path: Path) -> None:
    """The first turn of a session has none before it; a timeline's value is that of its reason."""
    answerer = Quoting()
    with MemForest(tmp_path, fast_config(answerer=answerer)) as forest:
        forest.ingest_session(
            "u", "a", [{"speaker": "Bob", "text": "I live in Davis."}], timestamp="2023-03-10"
        )
        talk = [("Ann", "Any news of you, Bob?"), ("Bob", "I moved to Miami last week.")]
        turns = [{"speaker": who, "text": text} for who, text in talk]
        forest.ingest_session("u", "b", turns, timestamp="2024-02-02")
        forest.ask("u", "Where does Bob live now?")
    moved = answerer.shown[0]
    assert (moved.leads, moved.value.casefold()) == (True, "miami")
    assert moved.before == talk[0]
    (first,) = [one for one in answerer.shown if "Davis" in one.quote]
    assert first.before == ("", "")


def test_a_defect_of_an_answerer_comes_out_as_it_is(place: str) -> None:
    """It is no failure of a model, and nothing answers in its place."""
    with pytest.raises(ZeroDivisionError):
        answering(Quoting(error=ZeroDivisionError()), place)


def piece(n: int, score: float, **more: Any) -> Evidence:
    """Return evidence of a turn."""
    said = at(1) + timedelta(minutes=n)
    return Evidence(
        f"text {n}",
        f"quote {n}",
        "Ana",
        "turn",
        score,
        {"turn": score},
        said,
        said,
        None,
        (Source("s", (str(n),)),),
        **more,
    )


SCORES = st.lists(st.tuples(st.integers(-5, 5), st.integers(-50, 50)), min_size=1, max_size=8)


@settings(max_examples=40)
@given(SCORES, st.integers(1, 9), st.integers(-100, 100), st.floats(0.1, 5))
def test_a_reranker_adds_its_distance_to_the_worst(
    pairs: list[tuple[int, int]], scale: int, shift: int, weight: float
) -> None:
    """In standard deviations, so its scale and zero do not count; it takes nothing away, and ties keep their order."""
    first = [piece(n, score) for n, (score, _) in enumerate(sorted(pairs, key=lambda pair: -pair[0]))]
    told = np.array([float(said) for _, said in pairs])
    found = reranked(first, told, weight)
    other = reranked(first, told * scale + shift, weight)
    assert [one.text for one in found] == [one.text for one in other]
    if len(set(told)) == 1:
        assert found == first
        return
    gains = weight * (told - min(told)) / float(np.sqrt(np.mean((told - np.mean(told)) ** 2)))
    expected = sorted(range(len(first)), key=lambda n: (-round(first[n].score + gains[n], 9), n))
    assert [one.text for one in found] == [first[n].text for n in expected]
    for one, n in zip(found, expected, strict=True):
        assert one.scores == {"turn": first[n].score, "rerank": pytest.approx(gains[n])}
        assert one.score == pytest.approx(sum(one.scores.values()))


def test_a_reranker_reads_the_end_of_the_turn_before() -> None:
    """A long one is cut at its beginning, behind its speaker; a first turn stands alone; a statement stands behind it; a summary is read as it is."""
    one = piece(1, 0.0, spoken=(SpokenText("Ana", "quote 1"),))
    assert rerank_text(replace(one, spoken=())) == "Ana: quote 1 text 1"
    assert rerank_text(one) == "Ana: quote 1"
    assert rerank_text(one, ("Bob", "Really?")) == "Bob: Really? Ana: quote 1"
    assert rerank_text(one, ("x", "z" + "y" * BEFORE_CHARS)) == f"x: {'y' * BEFORE_CHARS} Ana: quote 1"
    summary = Evidence("In May.", "", "", "memory", 0.0, {}, at(1), at(1), at(2), ())
    assert rerank_text(summary, ("Bob", "Really?")) == "In May."


def test_a_turn_stands_before_a_summary_of_its_score() -> None:
    """Two rankings become one; scores that agree to nine decimals are the same."""
    hits = [TurnHit(0, -1, 3.0, {}), TurnHit(1, -1, 2.0, {}), TurnHit(2, -1, 1.0, {})]
    nodes = [NodeHit(7, 2.5, {}), NodeHit(8, 2.0 + 1e-12, {}), NodeHit(9, 0.5, {})]
    rankings: list[list[TurnHit | NodeHit]] = [[*hits], [*nodes]]
    assert list(merge(*rankings, key=falling_score)) == [
        hits[0],
        nodes[0],
        hits[1],
        nodes[1],
        hits[2],
        nodes[2],
    ]
    assert list(merge([], nodes, key=falling_score)) == nodes
    assert list(merge(hits, [], key=falling_score)) == hits


READ: list[str] = []
"""What the reranker below was given."""


def by_length(question: str, given: list[str]) -> list[float]:
    """Return the lengths of texts as their scores."""
    READ[:] = given
    return [float(len(text)) for text in given]


@pytest.mark.parametrize(("top_k", "reads"), [(2, 5), (8, 5), (100, 5), (3, 100)])
def test_a_reranker_reads_its_pool_whatever_is_shown(place: str, top_k: int, reads: int) -> None:
    """The first candidates, each after the turn before it; those behind the pool follow as they were."""
    plain = fast_config(top_k=100)
    with MemForest(place, plain) as forest:
        if not forest.has_user("u"):
            for name in ("one", "two"):
                forest.ingest_session("u", name, SAID[name])
        whole = forest.query("u", "tent").evidence
    with MemForest(
        place, fast_config(reranker=by_length, rerank_top=reads, ranking=Ranking(rerank=50.0))
    ) as forest:
        found = forest.query("u", "tent", top_k=top_k, explain=True)
    assert sorted(READ) == sorted(after_the_one_before(one) for one in whole[:reads])
    assert len(found.evidence) == min(top_k, len(whole))
    if top_k > reads:
        assert {one.text for one in found.evidence[:reads]} == {one.text for one in whole[:reads]}
        assert found.evidence[reads:] == whole[reads:top_k]
    lengths = [len(after_the_one_before(one)) for one in found.evidence[: min(top_k, reads)]]
    assert lengths == sorted(lengths, reverse=True)
    places = {one.text: n for n, one in enumerate(whole, 1)}
    for told, one in zip(found.trace["explain"]["evidence"], found.evidence, strict=True):
        assert told["place_before_rerank"] == places[one.text]


def after_the_one_before(one: Evidence) -> str:
    """Return the turn of evidence behind the turn before it, both with who speaks."""
    session, n = one.sources[0].session_id, int(one.sources[0].turn_ids[0])
    return " ".join(f"{t['speaker']}: {t['content']}" for t in SAID[session][max(0, n - 1) : n + 1])
