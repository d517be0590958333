"""Whose words a question asks for, who "I" and "you" are, and which words of a question are content."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from tests.table import each

from memforest.reading.plan_local import plan_question
from memforest.records import QuestionPlan

NOW = datetime(2025, 6, 1, tzinfo=timezone.utc)
CHAT = {
    "i": "Nadia",
    "you": "helper",
    "the user": "Nadia",
    "the customer": "Nadia",
    "the assistant": "helper",
    "nadia": "Nadia",
    "helper": "helper",
    "porto": "Porto",
}
PEERS = {name.casefold(): name for name in ("Ida", "Otto", "Lena Voss", "Lena Kraft", "Porto")} | {
    "lena": "Lena Voss",
}


def plan(question: str, names: dict[str, str] = CHAT) -> QuestionPlan:
    """Return the plan of a question."""
    return plan_question(question, reference=NOW, names=names)


@each(
    "question",
    [
        "What did you recommend to me?",
        "Which laptop did you suggest for video editing?",
        "What was I advised to do about the warranty?",
        "When were we told that the parcel would come?",
        "What was recommended to me against back pain?",
        "How many sets did you tell me to do?",
        "What was your advice on stretching?",
        "Have you ever mentioned a discount?",
        "Do you remember which tea you proposed?",
        "Can you tell me what you promised about the refund?",
        "What did the assistant say about the deadline?",
        "¿Qué me recomendaste para la espalda?",
        "¿Qué me has sugerido para el viaje?",
        "你推荐给我什么茶?",
        "你给我推荐了哪本书?",
    ],
)
def test_what_you_said_is_looked_for_among_your_words(question: str) -> None:
    """I or you and an act of speech say whose turns are wanted, in the active, the passive, and behind "tell me"."""
    assert plan(question).speakers == ("helper",)


@each(
    "question",
    [
        "What did I tell you about my shoulder?",
        "Where did I ask you to send the parcel?",
        "Which budget did I mention?",
        "What was my question about the lease?",
        "What was promised to you?",
        "What did the customer complain about, and what did the customer ask?",
        "¿Qué te dije sobre mi hombro?",
        "我告诉过你什么?",
    ],
)
def test_what_i_said_is_looked_for_among_my_words(question: str) -> None:
    """The same acts with the asker as who speaks."""
    assert plan(question).speakers == ("Nadia",)


@each(
    "question",
    [
        "Which openings are good choices for me?",
        "How much is the voucher that you gave me?",
        "How often should I water it?",
        "What can I do about the noise?",
        "What did we settle on?",
    ],
)
def test_both_named_and_no_act_of_speech_favours_nobody(question: str) -> None:
    """What one side could have told the other may be in the words of either."""
    assert plan(question).speakers == ()


@each(
    ("question", "entities"),
    [
        ("Where do I live now?", ("Nadia",)),
        ("Do you remember where I live?", ("Nadia",)),
        ("Can you remind me when my lease ends?", ("Nadia",)),
        ("What are your opening hours?", ("helper",)),
        ("What does the user drink?", ("Nadia",)),
        ("What did the doctor recommend for my back?", ("Nadia",)),
        ("What did my sister tell us in Porto?", ("Nadia", "Porto")),
        ("What did you recommend to me?", ()),
        ("Which openings are good choices for me?", ()),
    ],
)
def test_who_only_asks_or_is_told_is_not_what_it_is_about(question: str, entities: tuple[str, ...]) -> None:
    """Who asks and who is asked are entities of a question about them, and the asker is known in every case."""
    found = plan(question)
    assert found.entities == entities
    assert found.asker == "Nadia"


def test_without_an_act_the_one_participant_counts() -> None:
    """The rules leave it open then; somebody else's act of speech is none of the dialogue's."""
    assert plan("Where do I live now?").speakers is None
    assert plan("What did the doctor recommend for my back?").speakers is None
    assert plan("What should I tell my doctor?").speakers == ()


def test_between_people_the_subject_of_the_act_speaks() -> None:
    """Both are named, and the grammar says who told whom; a place that is named tells nothing."""
    assert plan("What did Ida tell Otto about Porto?", PEERS).speakers == ("Ida",)
    assert plan("What did Otto suggest?", PEERS).speakers == ("Otto",)
    assert plan("Where did Ida meet Otto?", PEERS).speakers is None
    assert plan("What did Ida tell Otto?", PEERS).asker is None


def test_a_shared_first_name_means_both() -> None:
    """Two people of one first name stay two: a question that says no more is about either."""
    both = ("Lena Voss", "Lena Kraft")
    assert plan("Where does Lena work?", PEERS).entities == both
    assert plan("What did Lena promise?", PEERS).speakers == both
    assert plan("Where does Lena Kraft work?", PEERS).entities == ("Lena Kraft",)


@pytest.mark.parametrize("question", ["What did Ida bake on 4 March?", "What did Ida bake on March 4th?"])
def test_what_the_calendar_has_read_is_no_content(question: str) -> None:
    """A date in any wording leaves neither keywords nor a topic nor a name behind."""
    found = plan(question, PEERS)
    assert (found.keywords, found.topic, found.mentions) == (("bake",), ("bake",), ("Ida",))


def test_acts_of_speech_are_no_content() -> None:
    """Nobody who recommends a tea says "recommend"."""
    assert plan("Which tea did you recommend?").keywords == ("tea",)
    assert plan("Can you remind me which tea I drank?").keywords == ("tea", "drank")


def test_a_word_that_begins_a_sentence_is_no_name() -> None:
    """Every word has a capital there; a possessive shows that it is one."""
    assert plan("I have a chess club. How many people are in it? Members pay.").mentions == ("Nadia",)
    assert plan("Who is Zorka? Mirko's cat?").mentions == ("Zorka", "Mirko")
