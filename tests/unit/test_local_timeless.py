"""The core of a question: what it asks for, without its time."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.table import each

from memforest.reading.plan_local import plan_question
from memforest.reading.question_parts import core_of
from memforest.records import OperatorKind

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
NAMES = {"noor": "Noor"}


def core(question: str) -> str | None:
    """Return the core in a question's plan."""
    return plan_question(question, reference=NOW, names=NAMES).core


@each(
    ("question", "expected"),
    [
        ("Where does Noor live now?", "Where does Noor live?"),
        ("Which car does Noor drive these days?", "Which car does Noor drive?"),
        ("What is Noor's current job?", "What is Noor's job?"),
        ("Does Noor still drive the Corvid?", "Does Noor drive the Corvid?"),
        ("Which gym did Noor go to before Kinetik?", "Which gym did Noor go to?"),
        ("Before joining Kinetik, which gym did Noor go to?", "which gym did Noor go to?"),
        ("Which gym did Noor go to right after leaving Kinetik?", "Which gym did Noor go to?"),
        ("What came right after the oboe as Noor's instrument?", "What came as Noor's instrument?"),
        ("What was Noor's first job?", "What was Noor's job?"),
        ("When did Noor last change gyms?", "When did Noor change gyms?"),
        ("Since when has Noor lived in Oslo?", "has Noor lived in Oslo?"),
        ("Did Noor ever go back to Kinetik?", "Did Noor ever go to Kinetik?"),
        ("Where did Noor work in May 2023?", "Where did Noor work?"),
        ("On 3 May 2023, where did Noor work?", "where did Noor work?"),
        ("Which car did Noor have as of 3 June 2023?", "Which car did Noor have?"),
        ("¿Dónde vive Noor ahora?", "¿Dónde vive Noor?"),
        ("¿Dónde vivía Noor antes de Oslo?", "¿Dónde vivía Noor?"),
    ],
)
def test_the_words_for_the_time_are_left_out(question: str, expected: str) -> None:
    """With the event or the date that they are about, and the comma behind them."""
    assert core(question) == expected


@each(
    "question",
    [
        "Where does Noor live?",  # a time in the tense alone
        "What did Noor paint?",
        "What was Noor's previous gym?",  # previous to what, nobody says
        "When did Noor start at Kinetik?",
        "What is now?",  # about nobody
        "Before Kinetik?",  # nothing else
        "",
    ],
)
def test_a_question_without_such_words_has_no_core(question: str) -> None:
    """Then nothing is chosen by its time."""
    assert core(question) is None


@each("kind", ["predecessor", "current", "as_of"])
@each("piece", ["before ", ", ", " ", "right ", "before as "])
def test_long_questions_take_time_in_proportion(kind: OperatorKind, piece: str) -> None:
    """Repeated signs and words are read once: a quadratic pattern would not come to an end here."""
    core = core_of(kind, f"Where {piece * 20_000}did Noor live?")
    assert core is None or core.startswith("Where")
