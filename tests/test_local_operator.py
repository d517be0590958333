"""Reading of a question's time operator, without knowing what it asks about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest.language.operator import asks_for_state, asks_how, gap_of, read_operator
from memforest.types import TimeOperator


@pytest.mark.parametrize(
    ("question", "kind", "anchor"),
    [
        ("What does Noor drive these days?", "current", ""),
        ("Which gym does Noor go to today?", "current", ""),
        ("Where is Noor living at the moment?", "current", ""),
        ("Does Noor still drive the Corvid?", "current", ""),
        ("Which gym did Noor go to before Kinetik?", "predecessor", "Kinetik"),
        ("What did Noor’s team use before Slate?", "predecessor", "Slate"),
        ("What did the Osprey replace?", "predecessor", "the Osprey"),
        ("Which car was replaced by the Osprey?", "predecessor", "the Osprey"),
        ("What did Noor give up for the bassoon?", "predecessor", "the bassoon"),
        ("Who was Noor's previous dentist?", "predecessor", ""),
        ("Which gym did Noor go to after Kinetik?", "successor", "Kinetik"),
        ("What does Noor use instead of the Corvid?", "successor", "the Corvid"),
        ("What did Noor swap the Corvid for?", "successor", "the Corvid"),
        ("Once Noor left Acme, where did she work?", "successor", "Noor left Acme"),
        ("What was Noor's first gym?", "first", ""),
        ("What did Noor originally play?", "first", ""),
        ("When did Noor last change gyms?", "last", ""),
        ("When was the most recent time Noor switched gyms?", "last", ""),
        ("When did Noor go back to Kinetik?", "changed_back", "Kinetik"),
        ("Did Noor ever return to Kinetik?", "changed_back", "Kinetik"),
        ("Is Noor at Kinetik again?", "changed_back", "Noor at Kinetik"),
    ],
)
def test_the_operator_and_its_anchor(question: str, kind: str, anchor: str) -> None:
    """Words of time and change tell the operator, and what it is relative to."""
    assert read_operator(question, dated=False) == TimeOperator(kind, anchor)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "question",
    [
        "Since when has Noor trained at Kinetik?",
        "When did Noor start training at Kinetik?",
        "For how long has Noor trained at Kinetik?",
        "In which month did Noor join Kinetik?",
    ],
)
def test_since_keeps_what_it_asks_about(question: str) -> None:
    """A question about a beginning has the thing that began in its anchor."""
    found = read_operator(question, dated=False)
    assert found is not None
    assert found.kind == "since"
    assert found.anchor.endswith("Kinetik")


def test_what_takes_somethings_place_is_its_successor() -> None:
    """To replace X with Y asks for what came after X, not before it."""
    found = read_operator("What did Noor replace the Corvid with?", dated=False)
    assert found is not None
    assert found.kind == "successor"
    assert "Corvid" in found.anchor
    assert "Noor" not in found.anchor


@pytest.mark.parametrize(
    "question",
    [
        "What did Noor eat at the fair?",
        "Why did Noor leave Acme?",
        "Did Noor like rye bread?",
        "¿Dónde vive Noor ahora?",
        "Noor 现在住在哪里？",
        "",
        "?",
    ],
)
def test_no_sign_of_time_no_operator(question: str) -> None:
    """An event, a reason and another language show no operator."""
    assert read_operator(question, dated=False) is None


@pytest.mark.parametrize(
    "question",
    ["Where did Noor live in May?", "What did Noor do before May?", "What did Noor play until May?"],
)
def test_a_date_makes_it_as_of(question: str) -> None:
    """A stated date is what the question is relative to, not the words before or after it."""
    assert read_operator(question, dated=True) == TimeOperator("as_of", "")


def test_a_date_leaves_the_other_operators() -> None:
    """The last change and a beginning keep their meaning when a date is named beside them."""
    assert read_operator("When did Noor last change gyms before May?", dated=True) == TimeOperator("last", "")
    found = read_operator("When did Noor start at Kinetik, in May or June?", dated=True)
    assert found is not None
    assert found.kind == "since"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Where did Noor live in May?", "as_of"),
        ("What is Noor's gym now?", "current"),
        ("Which gym does Noor train at?", "current"),
        ("Who is Noor seeing these days?", "current"),
        ("Which team was Noor with in June?", "as_of"),
        ("Which dentist did Noor first see?", "first"),
        ("What is the gym of Noor?", "current"),
        ("Which editor was Noor’s in May?", "as_of"),
        ("When did Noor last change gyms?", "last"),
    ],
)
def test_a_state_is_asked_for(question: str, kind: str) -> None:
    """What somebody has, is, or does as a rule is a state."""
    assert asks_for_state(question, "Noor", kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What did Noor bring to the fair in May?", "as_of"),
        ("What did Noor buy in May?", "as_of"),
        ("What did Noor say before lunch?", "predecessor"),
        ("What happened to Noor in May?", "as_of"),
        ("What kind of car does Noor drive?", "current"),
        ("Did Noor live in Fernwood?", "as_of"),
        ("Whose car did Noor borrow?", "as_of"),
        ("When did Noor last laugh?", "last"),
        ("Which club did Noora train at?", "as_of"),  # somebody else
    ],
)
def test_no_state_is_asked_for(question: str, kind: str) -> None:
    """What somebody did once, a yes or no, and another person are none."""
    assert not asks_for_state(question, "Noor", kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "how"),
    [
        ("How did Bob feel after the move?", True),
        ("Why did Noor leave?", True),
        ("In what way did it change?", True),
        ("How come?", True),
        ("How long has Noor lived here?", False),
        ("However, where is Noor?", False),
        ("Where is Noor, and how?", False),
    ],
)
def test_how_and_why(question: str, how: bool) -> None:
    """Questions of manner and reason are told by their first word; "how long" is one of time."""
    assert asks_how(question) is how


@pytest.mark.parametrize(
    ("question", "gap"),
    [
        ("What does Noor work on these days?", {"on"}),
        ("Which gym does Noor train at?", {"at"}),
        ("What does she work as right now?", {"as"}),
        ("Who did Noor go to before Dr Sun?", {"to"}),
        ("What did Noor drive in May?", set()),
        ("Wherever does this lead", set()),
    ],
)
def test_the_gap_is_a_stranded_preposition(question: str, gap: set[str]) -> None:
    """A preposition with nothing behind it is where the answer would stand."""
    assert gap_of(question) == gap


def test_where_has_the_gap_of_places() -> None:
    """A "where" asks for what stands behind a preposition of place."""
    assert {"in", "at"} <= gap_of("Where did Noor live in May?")


@given(st.text(max_size=120), st.booleans())
def test_any_question_is_read(text: str, dated: bool) -> None:
    """No text is an error, a dated question always has an operator, and an anchor is part of the question."""
    found = read_operator(text, dated=dated)
    assert found is not None or not dated
    if found is not None:
        assert found.anchor in text.replace("’", "'")
    assert isinstance(asks_for_state(text, "Noor", "current"), bool)
    assert isinstance(gap_of(text), frozenset)
