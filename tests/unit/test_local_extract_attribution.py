"""memforest.reading.attribution, spanish and pieces: who is meant, and what is no statement."""

from __future__ import annotations

from tests.table import each

from memforest.reading.attribution import Voices, attribute, supply_subject
from memforest.reading.clauses import is_question, skip_reason, statement_before_question, strip_address
from memforest.reading.extract_local import attribute_spanish

ANA = Voices("Ana", "Benedict", (("Ben", "Benedict"),))
NAMES = frozenset(("ana", "benedict", "ben"))


@each(
    ("said", "statement"),
    [
        ("I went home.", "Ana went home."),
        ("I live in Rome and work at a bank.", "Ana lives in Rome and works at a bank."),
        ("I'm tired.", "Ana is tired."),
        ("I've never been there.", "Ana has never been there."),
        ("I’ll call.", "Ana will call."),
        ("I'd love to go.", "Ana would love to go."),
        ("I'd been ill.", "Ana had been ill."),
        ("I don't eat meat.", "Ana doesn't eat meat."),
        ("I really need sleep.", "Ana really needs sleep."),
        ("I have two cats.", "Ana has two cats."),
        ("I own a boat and do it on my own.", "Ana owns a boat and does it on Ana's own."),
        ("My sister and I are close.", "Ana's sister and Ana are close."),
        ("He gave me a book of mine.", "He gave Ana a book of Ana's."),
        ("We won.", "Ana and others won."),
        ("Since we last talked, I've moved.", "Since Ana and Benedict last talked, Ana has moved."),
        ("I think you are right about your house.", "Ana thinks Benedict is right about Benedict's house."),
        ("I'm proud of you for taking part.", "Ana is proud of Benedict for taking part."),
        ("I told Ben.", "Ana told Benedict."),
        ('She said "I love you" to me.', 'She said "I love you" to Ana.'),
        ("World War I ended.", "World War I ended."),
        ("I carve out some me-time.", "Ana carves out some me-time."),
        ("I like https://me.example/my.", "Ana likes https://me.example/my."),
        ("My brother Tom moved.", "Ana's brother Tom moved."),
    ],
)
def test_first_and_second_person_become_names(said: str, statement: str) -> None:
    """Pronouns become names and the verb behind them agrees; quotations and addresses stay."""
    assert attribute(said, ANA)[0] == statement


def test_you_stays_without_a_single_listener() -> None:
    """With three people in the room nobody knows whom "you" means."""
    assert attribute("I like your hat.", Voices("Ana", None))[0] == "Ana likes your hat."


def test_general_you_is_left_alone() -> None:
    """A saying is not turned into a fact about the listener."""
    said = "When you paint you feel free."
    assert attribute(said, ANA) == (said, False, False)


@each(
    ("said", "full"),
    [
        ("Just went to Rome.", "I just went to Rome."),
        ("Been busy lately.", "I've been busy lately."),
        ("Researching agencies - it's a dream.", "I'm researching agencies - it's a dream."),
        ("Can't wait to go.", "I can't wait to go."),
        ("Winning the game was fun.", "Winning the game was fun."),
        ("Seeing growth, trust and care is great.", "Seeing growth, trust and care is great."),
        ("Mixed emotions are hard.", "Mixed emotions are hard."),
        ("Inspired by art.", "Inspired by art."),
    ],
)
def test_left_out_subject_is_supplied(said: str, full: str) -> None:
    """A sentence that leaves "I" out gets it back; a gerund subject does not."""
    assert supply_subject(said) == full


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
    ("said", "statement"),
    [
        ("Vivo en Madrid.", "Lucía vive en Madrid."),
        ("Me mudé a Oslo con mi hermana.", "Lucía se mudó a Oslo con su hermana."),
        ("Ya no trabajo en un banco.", "Lucía ya no trabaja en un banco."),
        ("Me gusta el té.", "A Lucía le gusta el té."),
        ("Mi hermana vive en Lima.", None),
    ],
)
def test_simple_spanish_is_rewritten(said: str, statement: str | None) -> None:
    """A known verb at the start becomes third person; anything else is left to be quoted."""
    assert attribute_spanish(said, "Lucía") == statement
