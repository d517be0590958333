"""Reading of a question's time operator, without knowing what it asks about."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.question_parts import (
    LANGUAGES,
    asks,
    operator_words,
    read_operator,
)
from memforest.records import TimeOperator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

QUESTIONS = Path(__file__).parent / "operators"


@each(
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


@each(
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


@each(
    "question",
    [
        "What did Noor eat at the fair?",
        "Why did Noor leave Acme?",
        "Did Noor like rye bread?",
        "Noor 现在住在哪里？",
        "Dove abita Noor adesso?",
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


@each(
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
    assert asks("manner", question) is how


def _questions() -> Iterator[tuple[str, str, str, str]]:
    """Yield (language, kind, anchor, question) for every line of tests/data/operators."""
    for code in LANGUAGES:
        parts = tomllib.loads((QUESTIONS / f"{code}.toml").read_text(encoding="utf-8"))
        for kinds in parts.values():
            for kind, lines in kinds.items():
                for line in lines:
                    question, _, anchor = line.partition(" | ")
                    yield code, kind, anchor, question


@each("code", LANGUAGES)
def test_every_wording_is_read(code: str) -> None:
    """In each language: the kind, and an anchor that has what is named, for "before" and "after" nothing else."""
    wrong = []
    for _, kind, anchor, question in (one for one in _questions() if one[0] == code):
        found = read_operator(question, dated=kind == "as_of")
        read = found.anchor if found else ""
        fits = read == anchor if kind in ("predecessor", "successor") else anchor in read
        if (found.kind if found else "none") != kind or not fits:
            wrong.append((kind, question, found))
    assert not wrong


def test_the_wordings_are_many() -> None:
    """At least 25 of an operator in English, 8 in the other languages."""
    counted = Counter((code, kind) for code, kind, _, _ in _questions())
    assert len(counted) == 9 * len(LANGUAGES)
    assert all(n >= (25 if code == "en" else 8) for (code, _), n in counted.items())


@each(
    "question",
    [
        "When did Noor visit Leeds?",
        "When was the concert?",
        "When did Noor buy the vase?",
        "When did the roof collapse?",
        "What will Noor drive after the Corvid?",
        "Which gym would Noor go to now?",
        "Who taught Noor?",
        "Wann wurde Noor geboren?",
        "Quelle école Noor a-t-elle choisie ?",
        "¿Qué coche conducía Noor?",
        "Combien de temps dure le film ?",
        "What did Noor use to cut the bread?",
        "Which knife was used to cut the bread?",
        "What did Noor plan for next week?",
        "What was Noor doing today?",
    ],
)
def test_events_and_what_is_not_so_have_none(question: str) -> None:
    """An event is no beginning; the future and what is only thought of are on no timeline; the past is not the present."""
    assert read_operator(question, dated=False) is None


def test_a_year_that_no_calendar_read_is_no_value() -> None:
    """What is "before 2022" is no predecessor of a value, though the question's dates were not understood."""
    assert read_operator("Welche Bank hatte Noor vor 2022?", dated=False) is None
    assert read_operator("Welche Bank hatte Noor vor 2022?", dated=True) == TimeOperator("as_of")


def test_a_name_is_no_auxiliary() -> None:
    """Somebody called Will is not in the future."""
    assert read_operator("Which gym does Will go to now?", dated=False) == TimeOperator("current")
    assert read_operator("Which gym did Will go to before Kinetik?", dated=False) == TimeOperator(
        "predecessor", "Kinetik"
    )
    assert read_operator("Which gym will Noor go to after Kinetik?", dated=False) is None


def test_last_week_is_no_last_change() -> None:
    """What happened to be new "last week" is dated, in each language."""
    for question in (
        "What new car did Noor buy last week?",
        "¿Qué coche nuevo compró Noor la última semana?",
        "Quelle nouvelle voiture Noor a-t-elle achetée la semaine dernière ?",
        "Welches neue Auto hat Noor letzte Woche gekauft?",
    ):
        assert read_operator(question, dated=True) == TimeOperator("as_of")


def test_an_idiom_is_no_operator() -> None:
    """To look after, before bed and a first name say nothing of time order."""
    for question in (
        "Who did Noor look after?",
        "What did Noor read before bed?",
        "Who knew Noor's first name?",
    ):
        assert read_operator(question, dated=False) is None


def test_a_stretch_of_time_is_no_beginning() -> None:
    """A "how long" asks for a stretch, "how long ago" and "when" for a day."""
    assert asks("span", "How long has Noor lived here?")
    assert asks("span", "Seit wann wohnt Noor hier?")
    assert not asks("span", "How long ago did Noor move?")
    assert not asks("span", "When did Noor move?")


def test_words_of_time_are_those_of_the_language() -> None:
    """What says when and in which order is no topic; words of another language are."""
    assert {"switch", "again", "first"} <= operator_words("What did Noor use before?")
    assert {"ant", "cambio"} <= operator_words("¿Qué usaba Noor antes?")
    assert "antes" not in operator_words("What did Noor use before?")
    assert not operator_words("Noor 现在住在哪里？")


@given(st.text(max_size=120), st.booleans())
def test_any_question_is_read(text: str, dated: bool) -> None:
    """No text is an error, and an anchor is part of the question."""
    found = read_operator(text, dated=dated)
    if found is not None:
        assert found.anchor in " ".join(text.replace("’", "'").split())


@each(
    ("question", "kind"),
    [
        ("Could you tell me who Noor lives with now?", "current"),
        ("Remind me, which bank did Noor return to?", "changed_back"),
        ("Do you know what kind of bread Noor bakes now?", "current"),
        ("How does Noor get to work?", "current"),
        ("From which tin does Noor take her tea?", "current"),
        ("Which gym did Noor rejoin?", "changed_back"),
        ("What has Noor taken up again?", "changed_back"),
        ("Which way did Noor take after the old bridge?", "successor"),
        ("What did Noor bake each week before spelt loaf?", "predecessor"),
        ("From what month has Noor been with Kinetik?", "since"),
        ("Was hat Noor jetzt gekauft?", None),
        ("Qu'est-ce que Noor a acheté maintenant ?", None),
    ],
)
def test_what_stands_around_a_question_does_not_hide_its_operator(question: str, kind: str | None) -> None:
    """A lead in front of it, any preposition, a word that asks for a kind; but "now" beside a past is no present."""
    found = read_operator(question, dated=False)
    assert (found.kind if found else None) == kind
