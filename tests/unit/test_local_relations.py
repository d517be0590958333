"""What a statement says of two entities that it names, read without a model."""

from __future__ import annotations

import string
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.entities import with_kinds
from memforest.reading.extract_local import LocalExtractor
from memforest.reading.relations import LANGUAGES, MAX_LABEL_CHARS, MAX_RELATIONS, find_relations, load_words
from memforest.reading.states import find_states
from memforest.records import Chunk, Mention, State, Turn

NAMES = (
    "Ada",
    "Noor",
    "Tom",
    "Zoë",
    "Łukasz",
    "Inés",
    "Ada Fry",
    "Max",
    "Porto",
    "Lille",
    "Globex",
    "The Quay",
)

English = [
    ("Ada visited Porto.", ["Ada visited Porto"]),
    ("Ada has visited Porto twice.", ["Ada visited Porto"]),
    ("Ada is visiting Porto.", ["Ada visiting Porto"]),
    ("Last week Ada went to Porto with Tom.", ["Ada went to Porto", "Ada went with Tom"]),
    ("Ada went out with Tom.", ["Ada went out with Tom"]),
    ("Ada took a long walk with Tom.", ["Ada took a long walk with Tom"]),
    ("Ada met Tom in Porto.", ["Ada met Tom", "Ada met in Porto"]),
    ("Ada is married to Tom.", ["Ada married to Tom"]),
    ("Ada was invited by Tom.", ["Ada invited by Tom"]),
    ("Ada is a member of Globex.", ["Ada member of Globex"]),
    ("Ada is from Porto.", ["Ada is from Porto"]),
    ("Ada loves visiting Porto.", ["Ada loves visiting Porto"]),
    ("Ada gave Tom the key.", ["Ada gave Tom"]),
    ("Ada read “The Quay” again.", ["Ada read The Quay"]),
    ("Ada and Tom moved to Porto.", ["Ada moved to Porto", "Tom moved to Porto"]),
    ("Ada knows Tom, Noor and Max.", ["Ada knows Tom", "Ada knows Noor", "Ada knows Max"]),
    ("Ada and others went to Porto.", ["Ada went to Porto"]),
    ("Ada and others also watch “The Quay” then.", ["Ada watch The Quay"]),
    ("Ada is so proud of Tom.", ["Ada proud of Tom"]),
    ("Good news - Ada met Tom afterwards.", ["Ada met Tom"]),
    ("Ada was late, so she called Tom.", []),
    ("Ada visited Porto and Tom stayed in Lille.", ["Ada visited Porto", "Tom stayed in Lille"]),
    ("Ada visited Porto and then flew to Lille.", ["Ada visited Porto", "Ada flew to Lille"]),
    ("Noor said that Ada visited Porto.", ["Ada visited Porto"]),
    ("Ada's aunt Noor called Tom.", ["Ada aunt Noor", "Noor called Tom"]),
    ("Ada's new best friend Tom is here.", ["Ada best friend Tom"]),
    ("Ada and her aunt Noor met Tom.", ["Ada met Tom", "Noor met Tom"]),
    ("Ada met Noor and her brother Tom.", ["Ada met Noor", "Ada met Tom"]),
    (
        "Ada went to Porto with her brother Tom.",
        ["Ada went to Porto", "Ada went with Tom"],
    ),
    ("Ada Fry visited Porto.", ["Ada Fry visited Porto"]),
    ("Zoë met Łukasz.", ["Zoë met Łukasz"]),
]
Spanish = [
    ("Inés visitó a Tom.", ["Inés visitó a Tom"]),
    ("Inés se casó con Tom en Porto.", ["Inés se casó con Tom"]),
    ("Inés está casada con Tom.", ["Inés casada con Tom"]),
    ("Inés fue a Porto con su hermana Noor.", ["Inés fue a Porto", "Inés fue con Noor"]),
    ("Inés y Tom viajaron a Porto.", ["Inés viajaron a Porto", "Tom viajaron a Porto"]),
    ("Inés ha visitado Porto.", ["Inés visitado Porto"]),
    ("Inés vivió en Lille y trabajó con Tom.", ["Inés vivió en Lille", "Inés trabajó con Tom"]),
]
NOTHING = [
    ("Ada visited Porto?", "en"),
    ("Ada didn't visit Porto.", "en"),
    ("Ada has never been to Porto.", "en"),
    ("Ada hardly knows Tom.", "en"),
    ("Ada almost met Tom.", "en"),
    ("Ada wants to visit Porto.", "en"),
    ("Ada would visit Porto with Tom.", "en"),
    ("Ada is going to Porto.", "en"),
    ("Ada plans a trip to Porto.", "en"),
    ("If Ada visits Porto, Tom meets Noor.", "en"),
    ("Tom stays unless Ada visits Porto.", "en"),
    ("Ada thinks Tom loves Noor.", "en"),
    ("Ada said the food in Porto was great.", "en"),
    ("Ada met Tom's brother.", "en"),
    ("Tom saw his trainer and Ada.", "en"),
    ("Ada's brother met Tom.", "en"),
    ("Ada joined the Porto team.", "en"),
    ("Ada came to see Tom.", "en"),
    ("The teacher met Tom and visited Porto.", "en"),
    ("Ada met Tom Weiss.", "en"),
    ("Ada, Tom: Porto.", "en"),
    ("Ada met Ada.", "en"),
    ("Ada swims and it's Porto.", "en"),
    ('Tom said: "Ada went to Porto with Noor."', "en"),
    ("Ada besucht Porto.", "en"),
    ("Ada visited Porto.", "other"),
    ("¿Inés visitó Porto?", "es"),
    ("Inés no fue a Porto.", "es"),
    ("Inés quiere visitar Porto.", "es"),
    ("Inés visitará Porto.", "es"),
    ("Inés visitaría Porto.", "es"),
    ("Si Inés fue a Porto, Tom fue a Lille.", "es"),
]


def shown(text: str, language: str = "en", names: tuple[str, ...] = NAMES) -> list[str]:
    """Return the relations of a text, each in a line."""
    found = find_relations(text, names=names, language=language)  # type: ignore[arg-type]
    return [f"{one.source} {one.label} {one.target}" for one in found]


@each(("text", "relations"), English)
def test_english_relations(text: str, relations: list[str]) -> None:
    """A clause that begins with a name is read, up to the name that its verb or preposition governs."""
    assert shown(text) == relations


@each(("text", "relations"), Spanish)
def test_spanish_relations(text: str, relations: list[str]) -> None:
    """Spanish clauses are read as English ones are."""
    assert shown(text, "es") == relations


@pytest.mark.parametrize(("text", "language"), NOTHING)
def test_what_is_not_so_is_no_relation(text: str, language: str) -> None:
    """What is asked, denied, wished, supposed or reported yields nothing, and neither does what is unclear."""
    assert shown(text, language) == []


@each("text", [text for text, found in English if len(found) == 1 and "'s" not in text])
@each("around", ["Is it so that {}?", "If {}, all is well.", "I wish {}."])
def test_a_frame_that_makes_it_unreal_takes_the_relation_away(text: str, around: str) -> None:
    """The same clause says nothing when it is asked, supposed or wished for."""
    assert shown(around.format(text[:-1])) == []


def test_a_state_is_not_given_again() -> None:
    """Whom a state joins is not joined by a relation, too."""
    text = "Ada moved to Porto with Tom."
    states = find_states(text, subjects=["Ada", "Tom", "Porto"])
    assert [(one.entity, one.value) for one in states] == [("Ada", "Porto")]
    found = find_relations(text, names=["Ada", "Tom", "Porto"], states=states)
    assert [(one.source, one.label, one.target) for one in found] == [("Ada", "moved with", "Tom")]
    other_way = State("Porto", "visitor", "Ada")
    assert find_relations("Ada visited Porto.", names=["Ada", "Porto"], states=[other_way]) == ()


@each(
    ("text", "value"),
    [
        ("Ada's sister is Noor.", "Noor"),
        ("Ada's sister is called Noor Blom.", "Noor Blom"),
        ("Noor is Ada's sister.", "Noor"),
        ("Ada's wife is Noor and they live in Lille.", "Noor"),
        ("La hermana de Ada se llama Noor Blom.", "Noor Blom"),
    ],
)
def test_who_somebody_is_to_somebody_is_a_name_alone(text: str, value: str) -> None:
    """So that the value of a state is found among the entities."""
    assert find_states(text, subjects=["Ada", "Noor"])[0].value == value


@each(
    "name",
    [
        "I",
        "",
        " ",
        "A" * 500,
        "<b>x</b>",
        "[a](b)",
        "🦊",
        "מרים",
        "x.*",
        "O'Neil",
        "\u202eAda",
        "C++",
        "a\nb",
    ],
)
def test_hostile_names(name: str) -> None:
    """A name is never a pattern, a label never more than words."""
    text = f"Ada met {name} in Porto. {name} visited Ada."
    for one in find_relations(text, names=["Ada", "Porto", name]):
        assert {one.source, one.target} <= {"Ada", "Porto", name}
        assert one.source != one.target
        assert len(one.label) <= MAX_LABEL_CHARS
        assert one.label.replace(" ", "").replace("-", "").isalpha()


def test_an_apostrophe_is_either_one() -> None:
    """A curly apostrophe in a name or a text is a straight one."""
    assert shown("Ada met O’Neil.", names=("Ada", "O’Neil")) == ["Ada met O’Neil"]
    assert shown("Ada met O'Neil.", names=("Ada", "O’Neil")) == ["Ada met O’Neil"]


def test_bounds() -> None:
    """Names by the thousand and words without end yield what is bounded."""
    many = [f"Kid{number}" for number in range(10_000)]
    found = find_relations(f"Ada met {', '.join(many)}.", names=["Ada", *many])
    assert len(found) <= MAX_RELATIONS
    word = "x" * 60
    assert shown(f"Ada {word}ed Tom.") == []


_TOKENS = st.sampled_from(
    sorted(
        {word for code in LANGUAGES for part in load_words(code).parts.values() for word in part}
        | {
            *NAMES,
            *(f"{name}'s" for name in NAMES),
            ",",
            ".",
            "?",
            '"',
            "(",
            ":",
            "visited",
            "met",
            "42",
            "—",
            "ó",
            "n't",
        }
    )
)


@given(st.lists(_TOKENS, max_size=24), st.sampled_from(["en", "es", "other"]))
def test_random_words(tokens: list[str], language: str) -> None:
    """Ends are two of the names and differ, labels are bounded common words; the order of the names matters nothing."""
    text = " ".join(tokens)
    found = find_relations(text, names=NAMES, language=language)  # type: ignore[arg-type]
    assert len(set(found)) == len(found) <= MAX_RELATIONS
    for one in found:
        assert one.source in NAMES
        assert one.target in NAMES
        assert one.source != one.target
        assert one.label == " ".join(one.label.split())
        assert 0 < len(one.label) <= MAX_LABEL_CHARS
        assert one.label == one.label.lower()
    backwards = find_relations(text, names=NAMES[::-1], language=language)  # type: ignore[arg-type]
    assert backwards == found


@given(st.text(string.printable + "ñó“”’«»¿漢字🦊", max_size=120))
def test_any_text(text: str) -> None:
    """Nothing raises, and a text without two of the names says nothing of them."""
    found = find_relations(text, names=NAMES)
    assert not found or sum(name in text for name in NAMES) >= 2


def extracted(*said: tuple[str, str]) -> list[tuple[str, str, str]]:
    """Return the relations of a chunk."""
    at = datetime(2031, 3, 4, tzinfo=timezone.utc)
    turns = tuple(Turn(str(number), who, text, at, number) for number, (who, text) in enumerate(said))
    people = tuple(dict.fromkeys(who for who, _ in said))
    made = LocalExtractor().extract_chunk(Chunk("s", 0, turns, (), people))
    return [(r.source, r.label, r.target) for one in made.candidates for r in one.relations]


def test_the_extractor_gives_them_with_a_statement() -> None:
    """Candidates have relations, of what is told only."""
    assert extracted(("Ada", "I met Tom in Lisbon yesterday.")) == [
        ("Ada", "met", "Tom"),
        ("Ada", "met in", "Lisbon"),
    ]
    assert extracted(("Ada", "Have you met Tom in Lisbon?")) == []
    assert extracted(("Ada", "I never met Tom in Lisbon.")) == []
    assert extracted(("Inés", "Ayer fui a Lisboa con mi hermana Marta.")) == [
        ("Inés", "fue a", "Lisboa"),
        ("Inés", "fue con", "Marta"),
    ]


def test_a_speaker_without_a_name_keeps_the_id() -> None:
    """An end is the id that the statement's mention is known by."""
    assert extracted(
        ("user_123", "I met Tom in Lisbon yesterday."), ("user_123", "And the weather was good there.")
    )[0] == ("user_123", "met", "Tom")


@each(
    ("text", "name", "language", "kind"),
    [
        ("Ada read the novel Quayside.", "Quayside", "en", "work"),
        ("Ada watched a movie called Quayside.", "Quayside", "en", "work"),
        ('Ada is reading "Quayside".', "Quayside", "en", "work"),
        ("Ada is reading Quayside.", "Quayside", "en", "unknown"),
        ("Ada ran the Lille Marathon.", "Lille Marathon", "en", "event"),
        ("Ada met Tom at Marathon Sports.", "Marathon Sports", "en", "unknown"),
        ("Ada came home for Easter.", "Easter", "en", "event"),
        ("Inés fue a la Feria del Libro.", "Feria del Libro", "es", "event"),
        ("Inés leyó la novela Muelles.", "Muelles", "es", "work"),
        ("Ada read the novel Quayside.", "Quayside", "other", "unknown"),
    ],
)
def test_kinds_that_are_plain(text: str, name: str, language: str, kind: str) -> None:
    """Events and works are told where their words tell them."""
    (found,) = with_kinds(text, [Mention(name)], language)  # type: ignore[arg-type]
    assert (found.kind, found.name) == (kind, name)


def test_a_kind_that_is_known_stays() -> None:
    """What is known to be a place is not taken for a work."""
    known = Mention("Quayside", "place", "object")
    assert with_kinds("Ada read the novel Quayside.", [known], "en") == (known,)
