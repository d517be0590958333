"""Tests of the rule planner."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.plan_local import plan_question
from memforest.reading.question_parts import read_mentions
from memforest.records import QuestionPlan, TimeOperator

REFERENCE = datetime(2025, 6, 1, tzinfo=timezone.utc)
NAMES = {
    name.casefold(): name
    for name in (
        "Ada",
        "Noor",
        "Tom",
        "Sam",
        "Zoë",
        "Łukasz",
        "Inés",
        "李雷",
        "Will",
        "Acme",
        "Porto",
        "Ada Fry",
    )
}

# question, kind, entities, attribute, anchor
TRANSITIONS = [
    ("Where did Ada live before moving to Porto?", "predecessor", ("Ada",), "residence", "moving to Porto"),
    ("Where did Ada live prior to Porto?", "predecessor", ("Ada",), "residence", "Porto"),
    ("Before moving to Porto, where did Ada live?", "predecessor", ("Ada",), "residence", "moving to Porto"),
    ("What was Ada's previous employer?", "predecessor", ("Ada",), "employer", None),
    ("Where did Ada use to work?", "predecessor", ("Ada",), "employer", None),
    ("Where did Ada work before moving to Porto?", "predecessor", ("Ada",), "employer", "moving to Porto"),
    ("Who was Noor dating before Sam?", "predecessor", ("Noor",), "partner", "Sam"),
    ("What was Noor's salary before the raise?", "predecessor", ("Noor",), "salary", "the raise"),
    ("Where did Ada work after leaving Acme?", "successor", ("Ada",), "employer", "leaving Acme"),
    ("After Acme, where did Ada work?", "successor", ("Ada",), "employer", "Acme"),
    ("Which city did Ada live in after Porto?", "successor", ("Ada",), "residence", "Porto"),
    ("What was Tom's first job?", "first", ("Tom",), "job", None),
    ("Where did Tom originally live?", "first", ("Tom",), "residence", None),
    ("Since when has Tom lived in Porto?", "since", ("Tom", "Porto"), "residence", "has Tom lived in Porto"),
    (
        "How long has Tom been working at Acme?",
        "since",
        ("Tom", "Acme"),
        "employer",
        "Tom been working at Acme",
    ),
    (
        "When did Tom start working at Globex?",
        "since",
        ("Tom",),
        "employer",
        "did Tom start working at Globex",
    ),
    ("When did Tom move to Porto?", "since", ("Tom", "Porto"), "residence", "did Tom move to Porto"),
    ("Has Ada moved back to Lille?", "changed_back", ("Ada",), "residence", "Lille"),
    ("Does Ada live in Lille again?", "changed_back", ("Ada",), "residence", "Ada live in Lille"),
    (
        "¿Dónde vivía Inés antes de mudarse a Bilbao?",
        "predecessor",
        ("Inés",),
        "residence",
        "mudarse a Bilbao",
    ),
    ("¿Dónde trabajó Inés después de dejar Globex?", "successor", ("Inés",), "employer", "dejar Globex"),
    ("¿Cuándo se mudó Inés a Bilbao?", "since", ("Inés",), "residence", "se mudó Inés a Bilbao"),
    ("¿Desde cuándo trabaja Inés en Globex?", "since", ("Inés",), "employer", "trabaja Inés en Globex"),
]

# Of no state that the rules know: the operator is there, for an index that knows more.
OPERATORS = [
    ("What car did Tom drive before the Tesla?", "simple", "predecessor", "the Tesla"),
    ("What did Tom use before Notion?", "simple", "predecessor", "Notion"),
    ("Who did Noor report to before Sam?", "simple", "predecessor", "Sam"),
    ("What replaced Tom's Honda?", "simple", "successor", "Tom's Honda"),
    ("What did Tom do right after the race?", "simple", "successor", "the race"),
    ("When was the first time Tom went hiking?", "when", "first", ""),
    ("When was the last time Tom went hiking?", "last", "last", ""),
    ("What is Tom's latest project?", "current", "current", ""),
    ("When did Tom switch to VS Code?", "when", "since", "did Tom switch to VS Code"),
    ("When did Noor adopt a cat?", "when", "since", "did Noor adopt a cat"),
    ("Did Ada ever go back to Lille?", "simple", "changed_back", "Lille"),
    ("Did Ada switch back to Notion?", "simple", "changed_back", "Notion"),
    ("¿Volvió Inés a Vigo?", "simple", "changed_back", "Vigo"),
]

CURRENT = [
    ("Where does Ada live now?", "residence"),
    ("Where does Ada live?", "residence"),
    ("Which city is Ada living in?", "residence"),
    ("What is Ada's current job?", "job"),
    ("What does Ada do for a living?", "job"),
    ("Who is Ada's manager now?", "manager"),
    ("Who is Ada dating?", "partner"),
    ("What is Ada's favorite coffee shop?", "favourite coffee shop"),
    ("What is Ada's favourite coffee shop?", "favourite coffee shop"),
    ("What is the name of Ada's dog?", "dog"),
    ("Where does Ada's brother live?", "brother.residence"),
    ("What is Ada's shoe brand now?", "shoe brand"),
]

# Conversational questions about events: no operator on states.
HARMLESS = [
    ("What did Ada research?", "simple"),
    ("What does Ada do before bed?", "simple"),
    ("What did Ada do after the race?", "simple"),
    ("How did Ada feel after the accident?", "simple"),
    ("What did Ada see last summer?", "simple"),
    ("What did Ada's team win first prize for?", "simple"),
    ("Why did Ada decide to run for office again?", "simple"),
    ("What did Ada make for her home last week?", "simple"),
    ("What did Ada give Tom for his first-time visit?", "simple"),
    ('What did Ada think of "The Last Before First"?', "simple"),
    ("When did Ada run a charity race?", "when"),
    ("When did Ada finish her first novel?", "when"),
    ("When did Ada meet Tom after the race?", "when"),
    ("What activities does Ada partake in?", "list"),
    ("How many concerts did Ada go to?", "list"),
    ("What are Ada's hobbies?", "list"),
    ("Where has Ada been camping?", "list"),
    ("What happened before the race?", "simple"),
    ("Tell me something.", "simple"),
]


def plan(question: str) -> QuestionPlan:
    """Return the plan of a question at the reference date."""
    return plan_question(question, reference=REFERENCE, names=NAMES)


@each(("question", "kind", "entities", "attribute", "anchor"), TRANSITIONS)
def test_transition_questions(
    question: str, kind: str, entities: tuple[str, ...], attribute: str | None, anchor: str | None
) -> None:
    """A question about a change names its operator, entity, attribute and anchor."""
    found = plan(question)
    assert (found.kind, found.entities, found.attribute, found.anchor) == (kind, entities, attribute, anchor)


@each(("question", "kind", "operator", "anchor"), OPERATORS)
def test_a_change_of_no_known_state_keeps_its_operator(
    question: str, kind: str, operator: str, anchor: str
) -> None:
    """What it asks about may be known to the memory; the plan says only how it asks."""
    found = plan(question)
    assert found.operator is not None
    assert (found.kind, found.attribute) == (kind, None if kind != "current" else found.attribute)
    assert (found.operator.kind, found.operator.anchor) == (operator, anchor)


@each(("question", "attribute"), CURRENT)
def test_present_questions_ask_for_the_current_state(question: str, attribute: str) -> None:
    """A question in the present about an attribute asks what is so now."""
    found = plan(question)
    assert (found.kind, found.entities, found.attribute) == ("current", ("Ada",), attribute)


@each(("question", "kind"), HARMLESS)
def test_questions_about_events_have_no_state_operator(question: str, kind: str) -> None:
    """In a question about an event "before", "first" and "last" make no transition."""
    assert plan(question).kind == kind


@each(
    ("question", "kind"),
    [
        ("Where did Ada live in March 2024?", "as_of"),
        ("Where was Ada living as of 3 May 2024?", "as_of"),
        ("Where did Ada live before 2023?", "as_of"),
        ("What was Ada's job in 2020?", "as_of"),
        ("What did Ada bake in 2020?", "simple"),
        ("What did Ada bake as of 3 May 2024?", "as_of"),
    ],
)
def test_a_dated_question_for_a_state_asks_what_was_so_then(question: str, kind: str) -> None:
    """Its window is in the plan; one that asks for no state keeps its kind, unless it names an instant."""
    found = plan(question)
    assert found.kind == kind
    assert found.operator == TimeOperator("as_of")
    assert found.start is not None or found.as_of is not None


def test_an_event_dates_no_state() -> None:
    """A state at the time of an event is no current state."""
    assert plan("Where did Ada live at the time of the wedding?").kind == "simple"


@each(
    ("question", "entities"),
    [
        ("Where does Ada Fry live?", ("Ada Fry",)),
        ("Where does Zoë live?", ("Zoë",)),
        ("Where does Zoe\u0308 live?", ("Zoë",)),
        ("WHERE DOES ŁUKASZ LIVE?", ("Łukasz",)),
        ("Where do Ada and Noor live?", ("Ada", "Noor")),
        ("Where does Noor’s brother Tom live?", ("Tom",)),
        ("Where does Adamo live?", ()),
        ("李雷现在住在哪里？", ("李雷",)),
        ("Will Ada move?", ("Ada",)),
        ("Where does Will live?", ("Will",)),
        ("Where will Ada live?", ("Ada",)),
    ],
)
def test_entities_are_found_by_name(question: str, entities: tuple[str, ...]) -> None:
    """Names are found whole, in any case and script; a function word is no name."""
    assert plan(question).entities == entities


def test_first_person_is_the_user() -> None:
    """With a name for the user, "I" is the user; without one it is nobody."""
    assert plan_question("Where do I live now?", reference=REFERENCE, names={"user": "Dana"}).entities == (
        "Dana",
    )
    assert plan("Where do I live now?").entities == ()


def test_unknown_language_keeps_entities() -> None:
    """A language without states gets a simple plan, with the operator that its words show."""
    found = plan("Wo wohnte Ada vor Porto?")
    assert (found.kind, found.entities, found.attribute) == ("simple", ("Ada",), None)
    assert found.operator == TimeOperator("predecessor", "Porto")


def test_masked_positions_lead_back_to_the_question() -> None:
    """Every piece of a masked question maps to the piece of the question it stands for."""
    asked = read_mentions("Straße: did ADA FRY move?", NAMES, ())
    at = asked.masked.index("move")
    assert asked.text[asked.origin[at] : asked.origin[at + 4]] == "move"
    assert asked.entities == (("Ada Fry", 12),)


WORDS = st.sampled_from(
    ["where", "did", "Ada", "Tom's", "live", "before", "moving to", "Porto", "after", "first", "last", "since when",
     "when", "job", "in 2020", "again", "back to", "?", "her brother", "is", "¿dónde", "antes de", "ever", "§", "“"]
)  # fmt: skip


@given(st.text())
def test_arbitrary_text_never_raises(text: str) -> None:
    """Any text is planned without an error."""
    plan(text)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_plans_hold_together(question: str) -> None:
    """Entities come from the catalogue, anchors from the question, and a transition has a subject."""
    found = plan(question)
    assert set(found.entities) <= set(NAMES.values())
    folded = " ".join(question.replace("§", " ").split())
    assert found.anchor is None or found.anchor in folded
    if found.kind in ("predecessor", "successor", "first", "last", "since", "changed_back"):
        assert found.entities or found.attribute


@each("filler", ["before ", "where did Ada live ", "'s ", "§", "in 2020 "])
def test_long_questions_are_planned_in_bounded_time(filler: str) -> None:
    """A hundred thousand characters are planned within the suite's time limit."""
    assert isinstance(plan(filler * (100_000 // len(filler))), QuestionPlan)
