"""The local answerer: it cites or abstains, and words dates, durations and numbers in the question's language."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest.interval import EARLIEST
from memforest.steps.base import Answer, Answerer, AnswerEvidence
from memforest.steps.local.answer import MAX_ITEMS, LocalAnswerer
from memforest.steps.local.answer_wording import load_wording
from memforest.types import QuestionPlan


def day(year: int, month: int = 1, date: int = 1) -> datetime:
    """Return a UTC midnight."""
    return datetime(year, month, date, tzinfo=timezone.utc)


def said(
    text: str,
    on: datetime,
    quote: str = "",
    start: datetime | None = None,
    end: datetime | None = None,
) -> AnswerEvidence:
    """Return one piece of evidence."""
    return AnswerEvidence(text, quote, on, start, end)


MOVE = said(
    "Ana moved from Lugo to Porto in May 2023.",
    day(2023, 6, 10),
    "I finally moved to Porto last month! It is so sunny.",
    day(2023, 5),
    day(2023, 6),
)
BIKE = said("Ana bought a blue bike.", day(2024, 3, 3), "", day(2024, 3, 2), day(2024, 3, 3))
KIDS = said("Tom has three children and two dogs.", day(2023, 5, 7))
MEAT = said("Tom does not eat meat, but he loves fish.", day(2023, 5, 7))
ROME = said("Ana plans to visit Rome.", day(2024, 5, 5))
FARO = said("Ana stayed in Faro.", day(2024, 7), "", day(2024, 6), day(2024, 6, 20))
RUN1 = said("Ana ran a marathon in Madrid.", day(2023, 9))
RUN2 = said("Ana ran a marathon in Lisbon.", day(2024, 4))
NURSE = said("Ana has worked as a nurse for four years.", day(2024, 1))
SISTER = said("Ana lent Eva a tent.", day(2023, 5, 7))
PIANO = said("Tom plays the piano.", day(2023, 5, 7), "I play the piano most evenings")
ALL = (MOVE, BIKE, KIDS, MEAT, ROME, FARO, RUN1, RUN2, NURSE, SISTER)

MUDANZA = said(
    "Ana se mudó de Lugo a Oporto en mayo de 2023.",
    day(2023, 6, 10),
    "Me mudé a Oporto el mes pasado.",
    day(2023, 5),
    day(2023, 6),
)
CARNE = said("Ana no come carne.", day(2023, 6, 10))
HERMANAS = said("Ana tiene dos hermanas.", day(2023, 6, 10))
SPANISH = (MUDANZA, CARNE, HERMANAS)

ANA, TOM = ("Ana",), ("Tom",)
REFERENCE = day(2025, 3, 1)


def ask(question: str, plan: QuestionPlan, *evidence: AnswerEvidence) -> Answer:
    """Return the answer as of 1 March 2025."""
    return LocalAnswerer().answer_one(question, plan, REFERENCE, evidence)


@pytest.mark.parametrize(
    ("question", "plan", "expected", "cited"),
    [
        ("Where did Ana move?", QuestionPlan(entities=ANA), "Ana moved from Lugo to Porto", (0,)),
        ("Where did Ana move?", QuestionPlan(entities=ANA), "(said 10 June 2023: “I finally moved", (0,)),
        ("What did Ana buy?", QuestionPlan(entities=ANA), "2 March 2024; said 3 March 2024", (1,)),
        ("What colour is Ana's bike?", QuestionPlan(entities=ANA), "blue bike", (1,)),
        ("Where does Ana live now?", QuestionPlan("current", ANA, "residence"), "Porto", (0,)),
        (
            "Where did Ana live before Porto?",
            QuestionPlan("predecessor", ANA, "residence", "Porto"),
            "Lugo",
            (0,),
        ),
        ("When did Ana move to Porto?", QuestionPlan("when", ANA), "May 2023: Ana moved", (0,)),
        ("When did Ana buy a bike?", QuestionPlan(entities=ANA), "2 March 2024: Ana bought", (1,)),
        (
            "When did Ana lend Eva a tent?",
            QuestionPlan("when", ANA),
            "On or before 7 May 2023 (said then)",
            (9,),
        ),
        ("When did Ana visit Rome?", QuestionPlan("when", ANA), "No date given (said 5 May 2024)", (4,)),
        (
            "Since when has Ana lived in Porto?",
            QuestionPlan("since", ANA, "residence"),
            "Since May 2023",
            (0,),
        ),
        (
            "How long has Ana lived in Porto?",
            QuestionPlan("since", ANA, "residence"),
            "About 1 year and 10 months",
            (0,),
        ),
        (
            "How long ago did Ana buy a bike?",
            QuestionPlan(entities=ANA),
            "11 months ago (2 March 2024)",
            (1,),
        ),
        (
            "How long did Ana stay in Faro?",
            QuestionPlan(entities=ANA),
            "19 days (1 June 2024 to 19 June 2024)",
            (5,),
        ),
        (
            "How long has Ana worked as a nurse?",
            QuestionPlan(entities=ANA),
            "4 years, as of 1 January 2024",
            (8,),
        ),
        ("How many children does Tom have?", QuestionPlan(entities=TOM), "Three: Tom has three", (2,)),
        ("How many dogs does Tom have?", QuestionPlan(entities=TOM), "Two: Tom has", (2,)),
        ("How many times did Ana run a marathon?", QuestionPlan(entities=ANA), "2 on record", (6, 7)),
        (
            "Which marathons did Ana run?",
            QuestionPlan("list", ANA),
            "Madrid (1 September 2023); Ana ran",
            (6, 7),
        ),
        ("Does Tom eat meat?", QuestionPlan(entities=TOM), "No: Tom does not eat meat", (3,)),
        ("Does Tom love fish?", QuestionPlan(entities=TOM), "Yes: Tom does not eat meat, but", (3,)),
        ("Did Ana buy a blue bike?", QuestionPlan(entities=ANA), "Yes: Ana bought", (1,)),
        ("Does Ana plan to visit Rome?", QuestionPlan(entities=ANA), "Yes: Ana plans", (4,)),
        ("Did Ana lend Eva a tent?", QuestionPlan(entities=("Ana", "Eva")), "Yes: Ana lent Eva", (9,)),
    ],
)
def test_answers_in_the_words_of_the_evidence(
    question: str, plan: QuestionPlan, expected: str, cited: tuple[int, ...]
) -> None:
    """A question gets the form of answer it asks for, with the evidence it rests on."""
    answer = ask(question, plan, *ALL)
    assert expected in (answer.text or answer.reason)
    assert answer.cited == cited


@pytest.mark.parametrize(
    ("question", "plan", "reason"),
    [
        ("Where does Zoe live?", QuestionPlan(), "nothing known about zoe"),
        ("What did Ana cook?", QuestionPlan(entities=ANA), "too few words"),
        ("When did Ana buy a car?", QuestionPlan("when", ANA), "too few words"),
        ("Where does Tom live?", QuestionPlan("current", TOM, "residence"), "too few words"),
        ("How many cars does Tom have?", QuestionPlan(entities=TOM), "too few words"),
        ("How many bikes did Ana buy?", QuestionPlan(entities=ANA), "states no number"),
        ("Did Ana visit Rome?", QuestionPlan(entities=ANA), "uncertain"),
        ("Did Eva lend Ana a tent?", QuestionPlan(entities=("Ana", "Eva")), "all of what is asked"),
        ("How long did Ana run a marathon?", QuestionPlan(entities=ANA), "since when or how long"),
    ],
)
def test_abstains_rather_than_guess(question: str, plan: QuestionPlan, reason: str) -> None:
    """A name, a word or a fact that the evidence lacks gives no answer, no citation and the reason."""
    answer = ask(question, plan, *ALL)
    assert answer.text is None, answer.text
    assert answer.cited == ()
    assert reason in answer.reason


def test_abstains_without_evidence() -> None:
    """No evidence, no answer."""
    assert ask("Where does Ana live?", QuestionPlan(entities=ANA)) == Answer(None, (), "no evidence")


def test_swapped_person_is_not_answered() -> None:
    """What one person did is no answer about another who is also known."""
    answer = ask("What instrument does Ana play?", QuestionPlan(entities=ANA), PIANO, MOVE)
    assert answer.text is None
    assert ask("What instrument does Tom play?", QuestionPlan(entities=TOM), PIANO, MOVE).cited == (0,)


@pytest.mark.parametrize(
    ("question", "plan", "expected", "cited"),
    [
        ("¿Cuándo se mudó Ana a Oporto?", QuestionPlan("when", ANA), "Mayo de 2023: Ana", (0,)),
        ("¿Dónde vive Ana?", QuestionPlan("current", ANA, "residence"), "dicho el 10 de junio de 2023", (0,)),
        ("¿Come carne Ana?", QuestionPlan(entities=ANA), "No: Ana no come carne", (1,)),
        ("¿Cuántas hermanas tiene Ana?", QuestionPlan(entities=ANA), "Dos: Ana tiene", (2,)),
        ("¿Tiene Ana dos hermanas?", QuestionPlan(entities=ANA), "Sí: Ana tiene", (2,)),
        (
            "¿Desde cuándo vive Ana en Oporto?",
            QuestionPlan("since", ANA, "residence"),
            "Desde mayo de 2023",
            (0,),
        ),
        ("¿Cuánto tiempo lleva Ana en Oporto?", QuestionPlan(entities=ANA), "1 año y 10 meses", (0,)),
    ],
)
def test_spanish_questions_get_spanish_wording(
    question: str, plan: QuestionPlan, expected: str, cited: tuple[int, ...]
) -> None:
    """Dates, durations and yes or no are worded in Spanish for a Spanish question."""
    answer = ask(question, plan, *SPANISH)
    assert expected in (answer.text or answer.reason)
    assert answer.cited == cited


@pytest.mark.parametrize(
    ("question", "name", "text"),
    [
        ("Wann ist Anna nach Hamburg gezogen?", "Anna", "Anna ist im Mai 2023 nach Hamburg gezogen."),
        ("太郎はどこに住んでいますか", "太郎", "太郎は東京に住んでいます。"),
        ("Где живёт Мария?", "Мария", "Мария живёт в Казани."),
    ],
)
def test_other_languages_get_the_statement_itself(question: str, name: str, text: str) -> None:
    """Without word lists for a language, the best statement is the answer, unchanged."""
    answer = ask(question, QuestionPlan(entities=(name,)), said(text, day(2023, 6)))
    assert answer == Answer(text, (0,))


def test_no_longer_denies_the_present_only() -> None:
    """A state that ended is denied for now and affirmed for the past."""
    evidence = said("Ana no longer lives with Tom.", day(2023, 6))
    now = ask("Does Ana live with Tom?", QuestionPlan(entities=("Ana", "Tom")), evidence)
    then = ask("Did Ana live with Tom?", QuestionPlan(entities=("Ana", "Tom")), evidence)
    assert (now.text or "").startswith("No:")
    assert (then.text or "").startswith("Yes:")


def test_latest_statement_decides_yes_or_no() -> None:
    """Of two full matches that differ, the one said last counts."""
    older = said("Tom eats meat.", day(2023, 1))
    assert (ask("Does Tom eat meat?", QuestionPlan(entities=TOM), older, MEAT).text or "").startswith("No:")


def test_time_operator_keeps_the_order_of_the_evidence() -> None:
    """For "first" and the like the first fitting piece answers, although a later one shares as many words."""
    for first, second in ((RUN1, RUN2), (RUN2, RUN1)):
        answer = ask("What was the first marathon Ana ran?", QuestionPlan("first", ANA), first, second)
        assert first.text.rstrip(".") in (answer.text or "")


def test_list_is_bounded_and_without_repeats() -> None:
    """At most `MAX_ITEMS` different statements are joined, each cited once."""
    many = [said(f"Ana visited museum number {at % 7}.", day(2024, 1, at + 1)) for at in range(10)]
    answer = ask("Which museums did Ana visit?", QuestionPlan("list", ANA), *many)
    assert answer.cited == tuple(range(MAX_ITEMS))


def test_ongoing_state_without_start_counts_from_when_it_was_said() -> None:
    """How long something has lasted is at least since it was said."""
    evidence = said("Ana sings in a choir.", day(2024, 3, 1))
    answer = ask("How long has Ana sung in a choir?", QuestionPlan(entities=ANA), evidence)
    assert (answer.text or "").startswith("At least 1 year (said 1 March 2024)")


@pytest.mark.parametrize(
    ("start", "end", "english", "spanish"),
    [
        (day(2023, 5, 7), day(2023, 5, 8), "7 May 2023", "7 de mayo de 2023"),
        (day(2023, 5, 7), None, "7 May 2023", "7 de mayo de 2023"),
        (day(2023, 5, 8), day(2023, 5, 15), "the week of 8 May 2023", "la semana del 8 de mayo de 2023"),
        (day(2024, 2), day(2024, 3), "February 2024", "febrero de 2024"),
        (day(2024), day(2025), "2024", "2024"),
        (day(2023, 3), day(2023, 6), "March 2023 to May 2023", "marzo de 2023 a mayo de 2023"),
        (
            day(2023, 5, 7),
            day(2023, 5, 10),
            "7 May 2023 to 9 May 2023",
            "7 de mayo de 2023 a 9 de mayo de 2023",
        ),
        (EARLIEST, day(2023, 5, 7), "before 7 May 2023", "antes de 7 de mayo de 2023"),
    ],
)
def test_dates_are_as_exact_as_their_bounds(
    start: datetime, end: datetime | None, english: str, spanish: str
) -> None:
    """A day, week, month or year is named as such; other intervals by their first and last day."""
    assert load_wording("en").date(start, end) == english
    assert load_wording("es").date(start, end) == spanish


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0, "less than a day"),
        (1, "1 day"),
        (13, "13 days"),
        (21, "3 weeks"),
        (22, "22 days"),
        (31, "1 month"),
        (62, "2 months"),
        (366, "1 year"),
        (500, "1 year and 4 months"),
    ],
)
def test_durations_in_at_most_two_units(days: int, expected: str) -> None:
    """A stretch of time from 1 January 2024 is worded in the units people use for it."""
    assert load_wording("en").duration(day(2024), day(2024) + timedelta(days=days)) == expected


def test_implements_the_port_and_is_deterministic() -> None:
    """The async port gives what the synchronous call gives, every time."""
    port: Answerer = LocalAnswerer()
    plan = QuestionPlan("when", ANA)
    runs = [
        asyncio.run(port.answer("When did Ana move to Porto?", plan=plan, reference=REFERENCE, evidence=ALL))
        for _ in range(3)
    ]
    assert runs == [ask("When did Ana move to Porto?", plan, *ALL)] * 3


moments = st.datetimes(timezones=st.just(timezone.utc))
texts = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            """
            How long many did does Ana Tom live in Porto for four 4 years ago not no when since ¿Cuándo lleva ? ,
            no longer plans marathon times 北京 ya a de
            """.split()  # noqa: SIM905
        ),
        max_size=12,
    ).map(" ".join),
)
kinds = st.sampled_from(
    [
        "simple",
        "current",
        "as_of",
        "predecessor",
        "successor",
        "first",
        "last",
        "since",
        "changed_back",
        "when",
        "list",
    ]
)
plans = st.builds(
    QuestionPlan,
    kind=kinds,
    entities=st.lists(st.one_of(st.just("Ana"), st.text(max_size=8)), max_size=2).map(tuple),
    attribute=st.one_of(st.none(), st.just("residence"), st.text(max_size=8)),
    anchor=st.one_of(st.none(), texts),
    as_of=st.one_of(st.none(), moments),
)
pieces = st.builds(
    AnswerEvidence,
    text=texts,
    quote=texts,
    said=moments,
    start=st.one_of(st.none(), moments),
    end=st.one_of(st.none(), moments),
)


@given(question=texts, plan=plans, reference=moments, evidence=st.lists(pieces, max_size=4))
def test_never_raises_and_cites_or_abstains(
    question: str, plan: QuestionPlan, reference: datetime, evidence: list[AnswerEvidence]
) -> None:
    """Any input gives an answer with valid citations, or none with a reason."""
    answer = LocalAnswerer().answer_one(question, plan, reference, evidence)
    if answer.text is None:
        assert answer.reason
        assert answer.cited == ()
    else:
        assert answer.text
        assert answer.cited
        assert set(answer.cited) <= set(range(len(evidence)))


def test_hostile_sizes_are_bounded() -> None:
    """A megabyte of question and evidence is read in part, and the answer stays short of it."""
    evidence = said("Ana lives in Porto " * 50_000, day(2024), "x" * 1_000_000)
    answer = ask("Where does Ana live? " * 50_000, QuestionPlan(entities=ANA), evidence)
    assert len(answer.text or answer.reason) < 10_000


# --- what does not answer --------------------------------------------------------------------------------


def test_who_asks_has_not_answered() -> None:
    """A question in the quoted turn is no evidence; a short one in front names what follows."""
    plan = QuestionPlan(entities=("Rex",), kind="current", attribute="age")
    asked = said('Tom: "Rex the hound!"', day(2024, 5), "Rex the hound! How old is he?")
    assert ask("How old is Rex?", plan, asked).text is None
    told = said("Tom is at the theatre.", day(2024, 5), "And work? I'm at the theatre.")
    answer = ask("Where does Tom work?", QuestionPlan(entities=("Tom",), kind="current"), told)
    assert answer.cited == (0,)


def test_a_dog_is_a_pet_and_no_cat() -> None:
    """What states an attribute answers for the attribute, not for another thing of its kind."""
    dog = said("Tom has a dog called Rex.", day(2024, 5), "", day(2024, 5))
    plan = QuestionPlan(entities=("Tom",), attribute="pet")
    assert ask("What pet does Tom have?", plan, dog).cited == (0,)
    assert (
        ask("What is the name of Tom's cat?", QuestionPlan(entities=("Tom",), attribute="pet name"), dog).text
        is None
    )
    assert ask("Since when has Tom had a cat?", QuestionPlan("since", ("Tom",), "pet"), dog).text is None
    kitten = said("Tom named his kitten Io.", day(2024, 5))
    assert ask(
        "What is the name of Tom's cat?", QuestionPlan(entities=("Tom",), attribute="pet name"), kitten
    ).cited


def test_a_statement_with_its_own_date_says_since_when() -> None:
    """What was only said at a time gives way to what says since when; alone it says "or earlier"."""
    plan = QuestionPlan("since", ("Tom",), "pet")
    bare = said("Tom has a dog.", day(2024, 5, 7), "", day(2024, 5, 7))
    dated = said(
        'Tom, asked "Since when?" about "I have a dog": since Sunday.', day(2024, 5, 7), "", day(2024, 5, 5)
    )
    assert ask("Since when has Tom had a dog?", plan, bare, dated).cited == (1,)
    assert "or earlier" in str(ask("Since when has Tom had a dog?", plan, bare).text)


def test_a_statement_dated_within_the_time_asked_about_is_preferred() -> None:
    """One that is dated outside of the time does not answer for it."""
    plan = QuestionPlan(entities=("Tom",), start=day(2024, 6, 3), end=day(2024, 6, 10))
    outside = said("Tom gave up judo.", day(2024, 7), "", day(2024, 6, 20), day(2024, 6, 21))
    inside = said("Tom kept the week free.", day(2024, 6, 2), "", day(2024, 6, 3), day(2024, 6, 10))
    assert ask("What did Tom do in that week?", plan, outside, inside).cited == (1,)


def test_evidence_without_a_visible_word_is_no_answer() -> None:
    """Marks that nobody sees are not handed out as an answer."""
    said = datetime(2024, 1, 1, tzinfo=timezone.utc)
    plan = QuestionPlan(
        kind="simple", entities=(), attribute=None, anchor=None, start=None, end=None, as_of=None
    )
    answer = LocalAnswerer().answer_one(
        "", plan, said, [AnswerEvidence(text="\u200b", quote="\u202e", said=said)]
    )
    assert (answer.text, answer.cited) == (None, ())
    assert "no words" in answer.reason


def test_summaries_are_passed_over() -> None:
    """Nobody said them: the statement behind eleven summaries is the answer, and summaries alone give none."""
    summary = replace(MOVE, text="Ana moved from Lugo to Rome in May 2023.", quote="", turns=9)
    found = LocalAnswerer().answer_one(
        "Where did Ana move?", QuestionPlan(), day(2024), [*[summary] * 11, MOVE]
    )
    assert found.cited == (11,)
    assert "Rome" not in (found.text or "")
    alone = LocalAnswerer().answer_one("Where did Ana move?", QuestionPlan(), day(2024), [summary])
    assert alone.text is None
    assert "summaries" in alone.reason
