"""What measures say, by hand: rankings, overlap of answers, pass@k, stale values, key spans, and intervals."""

from __future__ import annotations

import math

import pytest

from memforest.evaluation.cases import Case, Question
from memforest.evaluation.measures import (
    abstains,
    contains,
    fama,
    key_span,
    mean_of,
    pass_at,
    ranking,
    rouge_l,
    token_f1,
)
from memforest.importers import FileSession

SESSIONS = {"a/1": "a", "a/2": "a", "b/1": "b", "c/1": "c"}


def test_a_ranking_by_hand() -> None:
    """Two of three turns at places 2 and 3, the last of them behind 600 tokens; two sessions of two among the first five."""
    question = Question("q", "?", "x", "t", frozenset({"a/2", "b/1", "z/9"}), frozenset({"a", "b"}))
    found = ranking([("c/1", 100), ("a/2", 300), ("b/1", 600), ("a/1", 700)], question, SESSIONS)
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert found["R@1"] == found["first"] == 0
    assert found["R@5"] == pytest.approx(2 / 3)
    assert (found["all@5"], found["MRR"], found["SR@1"], found["SR@5"], found["Sall@5"]) == (0, 0.5, 0, 1, 1)
    assert found["nDCG@10"] == pytest.approx((1 / math.log2(3) + 1 / 2) / ideal)
    within = [found[f"R@{n}t"] for n in (256, 512, 1024)]
    assert within == pytest.approx([0, 1 / 3, 2 / 3])
    assert "stale" not in found


def test_nothing_found_and_nothing_to_find() -> None:
    """An empty ranking is worth nothing; a question without turns has no measures of turns."""
    question = Question("q", "?", "x", "t", frozenset({"a/1"}), frozenset({"a"}))
    assert set(ranking([], question, SESSIONS).values()) == {0.0}
    assert ranking([("a/1", 5)], Question("q", "?", "x", "t"), SESSIONS) == {}
    assert set(ranking([("a/1", 5)], Question("q", "?", "", "t", sessions=frozenset({"a"})), SESSIONS)) == {
        "SR@1", "SR@5", "SR@10", "Sall@5", "Sall@10",
    }  # fmt: skip


@pytest.mark.parametrize(("ranked", "stale"), [(["a/1", "b/1"], 1.0), (["b/1", "a/1"], 0.0), (["c/1"], 0.0)])
def test_a_stale_turn_before_every_current_one(ranked: list[str], stale: float) -> None:
    """What was overtaken counts where it stands before what holds."""
    question = Question("q", "?", "x", "t", frozenset({"b/1"}), stale_turns=frozenset({"a/1"}))
    assert ranking([(key, 1) for key in ranked], question, SESSIONS)["stale"] == stale


def test_overlap_of_answers() -> None:
    """F1 and ROUGE-L forget articles, case and punctuation; F1 counts repeats, ROUGE-L the order."""
    assert token_f1("The cat, the CAT!", "a cat") == pytest.approx(2 / 3)
    assert token_f1("", "") == 1.0
    assert token_f1("yes", "") == rouge_l("", "yes") == 0.0
    assert token_f1("b a", "a b") == token_f1("Davis in May", "in may davis")
    assert rouge_l("in May, Davis", "Davis in May") == pytest.approx(2 / 3)
    assert rouge_l("Davis in May", "davis in may") == 1.0


def test_grades_over_runs() -> None:
    """pass@k is the largest of the first k grades that are there."""
    assert (pass_at([0.0, 1.0], 1), pass_at([0.0, 1.0], 2), pass_at([None, 0.0], 2)) == (0.0, 1.0, 0.0)
    assert math.isnan(pass_at([None], 1))


def test_values_abstentions_and_what_is_forgotten() -> None:
    """A value is found word by word; what is obsolete and used is taken off what is right, never below 0."""
    assert contains("moved to New York, in May", "new york")
    assert not contains("New Yorkers", "New York")
    assert not contains("anything", "")
    assert all(
        map(abstains, ("", None, "Not known.", "The evidence does not say.", "No information on that"))
    )
    assert not any(map(abstains, ("Kiel", "Nobody.", "She knows it.")))
    assert fama(1.0, "Kiel, before that Bonn", ("Bonn", "Ulm")) == 0.5
    assert (fama(1.0, "Kiel", ("Bonn",)), fama(0.0, "Bonn", ("Bonn",)), fama(1.0, "Bonn", ())) == (
        1.0,
        0.0,
        1.0,
    )


def test_the_key_span_is_what_the_turns_told() -> None:
    """Names and numbers of the answer that are in its turns; its words where it has none; nothing that nobody said."""
    turns = ({"id": "1", "speaker": "Bo", "text": "We met Zoe in 2019, by the red boat."},)
    case = Case("c", (FileSession("s", turns, "2024-01-01"),))

    def span(answer: str) -> frozenset[str]:
        return key_span(Question("q", "?", answer, "t", frozenset({"s/1"})), case)

    assert span("She met Zoe in 2019") == {"zoe", "2019"}
    assert span("a red boat") == {"red", "boat"}
    assert span("Paris") == frozenset()


def test_intervals_are_seeded_and_wider_over_conversations() -> None:
    """The same draws give the same interval; conversations that differ as wholes make it wide; NaN is left out."""
    values, talks = [1.0] * 30 + [0.0] * 30 + [math.nan], ["a"] * 30 + ["b"] * 31
    found = mean_of(values, talks, 3)
    assert found == mean_of(values, talks, 3)
    assert (found.value, found.n) == (0.5, 60)
    assert 0.35 < found.questions[0] < 0.5 < found.questions[1] < 0.65
    assert found.conversations == (0.0, 1.0)
    assert mean_of([math.nan], ["a"], 1).n == 0
