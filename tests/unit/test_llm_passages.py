"""Whose a sentence is: speakers, names, sentences that go on, and sections of a profile."""

from __future__ import annotations

from tests.table import each

from memforest.ports import join_sections
from memforest.reading.summarise_llm import named_in, participant_named, passages

PEOPLE = ("Ana Lima", "Bo", "東京子")


def owners(*texts: str) -> list[tuple[str, set[str]]]:
    """Return each sentence with the participants whom it is of."""
    return [(text, set(owners)) for text, _, owners in passages(texts, PEOPLE)]


def test_a_line_of_a_transcript_is_of_who_speaks_and_of_whom_it_names() -> None:
    """Every sentence of it; the next line is another speaker's."""
    assert owners("Ana Lima: I sing. Bo plays the drums.\nBo: I do.") == [
        ("Ana Lima: I sing.", {"Ana Lima"}),
        ("Bo plays the drums.", {"Ana Lima", "Bo"}),
        ("Bo: I do.", {"Bo"}),
    ]


def test_a_sentence_without_a_name_goes_on_from_the_one_before() -> None:
    """As "she" does; at the beginning of a text it may be anybody's, and nothing goes on from one text to the next."""
    assert owners("It rained. Ana sang. She was good. Bo left.", "He came back.") == [
        ("It rained.", set()),
        ("Ana sang.", {"Ana Lima"}),
        ("She was good.", {"Ana Lima"}),
        ("Bo left.", {"Bo"}),
        ("He came back.", set()),
    ]


def test_a_line_of_a_section_is_of_whose_section_it_is() -> None:
    """Whomever it names; a section of somebody who does not take part is of nobody in particular."""
    text = join_sections([("Bo", ["Met Ana.", "Sings."]), ("Eva", ["Rows."])])
    assert owners(text) == [("Met Ana.", {"Bo"}), ("Sings.", {"Bo"}), ("Rows.", set())]


def test_a_colon_is_no_speaker() -> None:
    """Only a participant's name in front of one is."""
    assert owners("One thing: it works.") == [("One thing: it works.", set())]


@each(
    ("text", "named"),
    [
        ("ANA sang", {"Ana Lima"}),
        ("Ana Lima's song", {"Ana Lima"}),
        ("Anatol and Bob sang", set()),
        ("昨日東京子が来た", {"東京子"}),
        ("", set()),
    ],
)
def test_names_are_whole_words_where_the_script_has_them(text: str, named: set[str]) -> None:
    """In any case, in full or by the first name."""
    assert named_in(text, PEOPLE) == named


def test_a_first_name_of_two_tells_neither() -> None:
    """Only the full name does."""
    people = ("Ana Lima", "Ana Silva")
    assert named_in("Ana sang.", people) == set()
    assert named_in("Ana Silva sang.", people) == {"Ana Silva"}


def test_a_participant_is_found_however_the_name_is_spelt() -> None:
    """Without a part of the name it is somebody else, and what has no letters is nobody."""
    assert participant_named("ANA  LIMA", PEOPLE) == "Ana Lima"
    assert [participant_named(name, PEOPLE) for name in ("Ana", "", "—", "Bob")] == [None] * 4
