"""memforest.reading.drafts and clauses: who is meant, and what is no statement."""

from __future__ import annotations

from tests.table import each

from memforest.reading.clauses import is_question, skip_reason, statement_before_question, strip_address
from memforest.reading.drafts import Voices, with_names
from memforest.reading.tokens import Code

ANA = Voices("Ana", "Benedict", (("Ben", "Benedict"),))
NAMES = frozenset(("ana", "benedict", "ben"))


@each(
    ("said", "named"),
    [
        ("I went home.", "Ana went home."),
        ("I live in Rome and work at a bank.", "Ana live in Rome and work at a bank."),
        ("I'm tired.", "Ana is tired."),
        ("I've never been there.", "Ana has never been there."),
        ("I’ll call.", "Ana will call."),
        ("I'd love to go.", "Ana would love to go."),
        ("I own a boat and do it on my own.", "Ana own a boat and do it on Ana's own."),
        ("My sister and I are close.", "Ana's sister and Ana are close."),
        ("He gave me a book of mine.", "He gave Ana a book of Ana's."),
        ("We sold our house.", "Ana sold Ana's house."),
        ("I think you're right about your house.", "Ana think Benedict is right about Benedict's house."),
        ("I'm proud of you for taking part.", "Ana is proud of Benedict for taking part."),
        ("I told Ben.", "Ana told Benedict."),
        ("My brother Tom moved.", "Ana's brother Tom moved."),
        ("He joined us in the US.", "He joined Ana in the US."),
    ],
)
def test_first_and_second_person_become_names(said: str, named: str) -> None:
    """Pronouns, their possessives and short forms become names; no verb agrees, as nobody is shown it."""
    assert with_names(said, ANA, "en") == named


@each(
    "said",
    [
        "World War I ended.",
        "The I-5 is closed.",
        "The US won.",
        "Some me-time helps.",
        "See https://me.example/my or write to me@me.example.",
        "Write to @me.",
        'She said "I love you" and left.',
        "She said “my dog is ill” and left.",
    ],
)
def test_what_only_looks_like_a_pronoun_stays(said: str) -> None:
    """Numbers, abbreviations, addresses and the words of somebody else name nobody."""
    assert with_names(said, ANA, "en") == said


def test_you_stays_without_a_single_listener() -> None:
    """With three people in the room nobody knows whom "you" means."""
    assert with_names("I like your hat.", Voices("Ana", None), "en") == "Ana like your hat."


@each("language", ["en", "es", "other"])
def test_without_voices_nobody_is_named(language: Code) -> None:
    """Where a sentence cannot name its speaker it stays as it is, and so it does in a language without rules."""
    assert with_names("I live in my van.", None, language) == "I live in my van."
    assert with_names("I live in my van.", ANA, "other") == "I live in my van."


@each(
    ("said", "named"),
    [
        ("Just went to Rome.", "Ana just went to Rome."),
        ("Moved to Oslo with my dog.", "Ana moved to Oslo with Ana's dog."),
        ("Researching agencies - it's a dream.", "Ana is researching agencies - it's a dream."),
        ("Inspired by art.", "Inspired by art."),
    ],
)
def test_left_out_subject_is_supplied(said: str, named: str) -> None:
    """A sentence that leaves "I" out in front of a verb gets the speaker."""
    assert with_names(said, ANA, "en") == named


@each(
    ("said", "rest"),
    [
        ("Hey Ben! Great day.", "Great day."),
        ("So I moved, Ben!", "I moved!"),
        ("So much happened.", "So much happened."),
        ("By the way, I moved.", "I moved."),
        ("Well I went home.", "I went home."),
    ],
)
def test_address_is_stripped(said: str, rest: str) -> None:
    """Interjections and the listener's name go; words that carry meaning stay."""
    assert strip_address(said, NAMES) == rest


@each(
    ("said", "reason"),
    [
        ("That's so awesome, Ben!", "pleasantry"),
        ("Thanks for the tip!", "pleasantry"),
        ("Keep trying hard!", "encouragement"),
        ("Your new kitchen looks lovely.", "evaluation"),
        ("I moved to Oslo.", None),
        ("Try the soup at Mario's.", None),
    ],
)
def test_skip_reason(said: str, reason: str | None) -> None:
    """Small talk is told from statements, and says why."""
    assert skip_reason(said, NAMES, assistant=False) == reason


def test_assistant_keeps_only_what_is_concrete() -> None:
    """An assistant's advice without a name or number is chatter, with one it is content."""
    assert skip_reason("Packing light helps on long trips.", NAMES, assistant=True) == "assistant chatter"
    assert skip_reason("Let me know if you need more!", NAMES, assistant=True) == "offer of help"
    assert skip_reason("The hotel Granvia costs $150.", NAMES, assistant=True) is None


def test_questions() -> None:
    """A question is known by its mark or its words; a tag does not make one."""
    assert is_question("Any plans?")
    assert is_question("How are you")
    assert is_question("你好吗？")
    assert not is_question("You moved, right?")
    assert not is_question("When I was young, I swam.")


def test_statement_in_front_of_a_question_is_kept() -> None:
    """The fact that introduces a request survives the request."""
    assert (
        statement_before_question("I'm flying to Rome in May, can you help?") == "I'm flying to Rome in May"
    )
    assert statement_before_question("Can you help?") is None


@each(
    ("said", "named"),
    [
        ("Vivo en Madrid.", "Lucía vive en Madrid."),
        ("Me mudé a Oslo con mi hermana.", "Lucía se mudó a Oslo con su hermana."),
        ("Ya no trabajo en un banco.", "Lucía ya no trabaja en un banco."),
        ("Me gusta el té.", "A Lucía le gusta el té."),
        ("Mi hermana vive en Lima.", "Mi hermana vive en Lima."),
    ],
)
def test_simple_spanish_gets_the_name(said: str, named: str) -> None:
    """A known verb at the start becomes third person; anything else is left as it is."""
    assert with_names(said, Voices("Lucía", None), "es") == named


def test_a_name_of_signs_does_not_grow_a_text_without_bound() -> None:
    """What a short form becomes is not replaced again: each sign becomes one name at most, however many short forms there are."""
    name, text = "👍" * 40, "👍" * 60
    shorts = tuple(("👍" * size, name) for size in range(3, 40))
    told = with_names(text, Voices("Ana", None, shorts), "en")
    assert len(told) <= len(text) * len(name)
    assert with_names(
        "Mel met Ben.", Voices("Ana", None, (("Mel", "Melanie"), ("Mela", "Melanie"))), "en"
    ) == ("Melanie met Ben.")
