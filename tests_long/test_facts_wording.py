"""The wording of a statement: what may differ between two statements of one fact, and what never may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.canonical import same_wording, signature, wording, wording_rules
from memforest.records import ExtractedFact


def clauses(text: str) -> str:
    """Return the words of a statement that count, clauses parted by "/" and marked commas as ","."""
    return " / ".join(" ".join("," if word == "\0" else word for word in one) for one in wording(text)[0])


@each(
    ("text", "expected"),
    [
        ("", ""),
        ("...", ""),
        ("Ann left. Bob stayed!", "ann left / bob stayed"),
        ("Ann said: Bob left; Eve stayed…", "ann said / bob left / eve stayed"),
        ('Ann likes "Dune" (the book).', "ann likes / dune / book"),
        ("Ann works at example.com", "ann works at example com"),
        ("Ann paid 3.5 at 5:30.", "ann paid 3.5 at 5 30"),
        ("Ann, Bob and Eve left.", "ann , bob and eve left"),
        ("Ann left, , on Monday,", "ann left , on monday"),
        (", Ann left", "ann left"),
        ("Ann has 1,500 books", "ann has 1500 books"),
        ("Ann – who left – came back", "ann , who left , came back"),
        ("Ann's state-of-the-art car", "ann 's state of art car"),
        ("Ann has few friends", "ann has few friends"),
        ("Ann has a few friends and a cat", "ann has some few friends and cat"),
        ("He's Bob's friend, Bob's not here", "he is bob 's friend , bob is not here"),
        ("Ann's in room 3b, the 3rd", "ann is in room 3b , 3rd"),
        ("Ann totally left", "ann left"),
        ("The café is totally new", "café is new"),
        ("Zoë totally left", "zoë totally left"),  # nothing tells the language
    ],
)
def test_a_statement_is_its_clauses_and_their_words(text: str, expected: str) -> None:
    """Clauses end at their signs, a comma between two words stands for itself, one at an end for nothing."""
    assert clauses(text) == expected


@each(
    ("one", "other"),
    [
        ("Ann can't swim.", "Ann cannot swim."),
        ("Ann won't come.", "Ann will not come."),
        ("Ann hasn't left.", "Ann has not left."),
        ("They're here.", "They are here."),
        ("She's left the house.", "She has left the house."),
        ("She's moved.", "She has moved."),
        ("She's happy.", "She is happy."),
        ("I'd moved.", "I had moved."),
        ("I'd move.", "I would move."),
        ("ANN LEFT", "ann left."),
        ("Ann ʼs dog", "Ann 's dog"),
        ("Ann’s dog", "Ann's dog"),
        ("Ann has two cats", "Ann has 2 cats"),
        ("Ann & Bob left", "Ann and Bob left"),
        ("Ann gave 5%", "Ann gave five percent"),
        ("Ann is @ home", "Ann is at home"),
        ("Ann was #3", "Ann was number 3"),
        ("Ann ﬁnished", "Ann finished"),
        ("Ann left?", "Ann left？"),
        ("“Ann left.”", "Ann left."),
    ],
)
def test_spellings_of_one_statement_have_one_wording(one: str, other: str) -> None:
    """Contractions, signs for words, number words, letters of other widths; and whatever merges is found by its digest."""
    assert same_wording(wording(one), wording(other))
    assert (
        signature(ExtractedFact(one, (0,), "Ann", one)).digest
        == signature(ExtractedFact(other, (0,), "Ann", other)).digest
    )


@each(
    ("one", "other"),
    [
        ("Ann's dog left.", "Ann has dog left."),
        ("Ann won her first race.", "Ann won her one race."),
        ("Ann has few friends.", "Ann has a few friends."),
        ("Ann has little money.", "Ann has a little money."),
        ("Ann paid €5.", "Ann paid $5."),
        ("Ann paid €5.", "Ann paid 5."),
        ("It is -5 outside.", "It is 5 outside."),
        ("Ann weighs >60.", "Ann weighs <60."),
        ("Ann came twice.", "Ann came 2."),
        ("Ann left 👍", "Ann left 👎"),
        ("Ann left ✅", "Ann left"),
        ("Ann left?", "Ann left!"),
        ("¿Ann se fue?", "Ann se fue."),
        ("Ann is able.", "Ann is not able."),
        ("Ann swims.", "Ann swam."),
        ("Ann has a cat.", "Ann has cats."),
        ("Ann may go.", "Ann must go."),
        ("Ann saw him.", "Ann saw her."),
        ("Ann went to Bob.", "Ann went from Bob."),
        ("esta", "está"),
    ],
)
def test_what_decides_keeps_two_statements_apart(one: str, other: str) -> None:
    """Possession, order of numbers, amount, currency, sign, mood, tense, number, modality, person, direction, accent."""
    assert not same_wording(wording(one), wording(other))
    assert not same_wording(wording(other), wording(one))


def test_a_hyphen_is_a_minus_only_before_a_number_and_behind_no_word() -> None:
    """A range, a compound and a dash are none."""
    assert clauses("It is -5") == "it is minus 5"
    assert clauses("-5 outside") == "minus 5 outside"
    assert clauses("2-5 days, COVID-19, well-known - yes") == "2 5 days , covid 19 , well known , yes"


@each(
    ("one", "other", "same"),
    [
        ("On Monday Ann left.", "Ann left on Monday.", True),
        ("On Monday, Ann left.", "Ann left on Monday.", True),
        ("Yesterday Ann left.", "Ann left yesterday.", True),
        ("Ann left, on Monday.", "On Monday Ann left.", True),
        ("In Rome on Monday Ann left.", "Ann left in Rome on Monday.", True),
        ("On Monday Ann left in Rome.", "In Rome Ann left on Monday.", False),
        ("Ann, on Monday, left.", "Ann left on Monday.", False),
        ("Ann left Bob.", "Bob Ann left.", False),
        ("Bob left Ann.", "Ann left Bob.", False),
        ("On Monday Ann and Bob left.", "Ann and Bob left on Monday.", False),
        ("On Monday Ann said Bob left.", "Ann said Bob left on Monday.", False),
        ("On Monday Ann did not leave.", "Ann did not leave on Monday.", False),
        ("On Monday only Ann left.", "Only Ann left on Monday.", False),
        ("Ann, Bob left on Monday.", "On Monday Ann Bob left.", False),
        ("Ann left. On Monday.", "On Monday. Ann left.", False),
    ],
)
def test_a_circumstance_moves_from_one_end_to_the_other(one: str, other: str, same: bool) -> None:
    """Whole, within its clause, and where no other word decides what it belongs to; a comma only where it turns."""
    assert same_wording(wording(one), wording(other)) is same
    assert same_wording(wording(other), wording(one)) is same


WORDS = st.lists(
    st.sampled_from(["Ann", "left", "on", "Monday", ",", "in", "Rome", "and", "two", "2", "the", "not", "."]),
    max_size=9,
).map(" ".join)


@given(WORDS, WORDS)
def test_whatever_is_worded_the_same_shares_a_bucket(one: str, other: str) -> None:
    """Or a merge would be missed; and it is the same in both directions."""
    a, b = wording(one), wording(other)
    assert same_wording(a, a)
    assert same_wording(a, b) == same_wording(b, a)
    first, second = (signature(ExtractedFact(text, (0,), "Ann", text)).digest for text in (one, other))
    assert not same_wording(a, b) or first == second


@given(WORDS)
def test_a_wording_is_its_own(text: str) -> None:
    """The words of a wording, read again, are those words: nothing is taken out twice."""
    found = wording(text)
    again = wording(". ".join(" ".join(w for w in one if w != "\0") for one in found[0]))
    assert [[w for w in one if w != "\0"] for one in found[0]] == [list(one) for one in again[0]]


@each(
    ("one", "other", "same"),
    [
        ("Mateo vive con el perro.", "Mateo vive con perro.", True),
        ("Mateo vive en la casa.", "Mateo vive en casa.", False),  # "la" is a pronoun too
        ("A Lucía llamó Mateo.", "Lucía llamó Mateo.", False),  # "a" says who was called
        ("Der Hund ist da.", "Hund ist da.", False),  # no list: every word counts
        ("Der HUND ist da!", "der hund ist da", True),
        ("她真的很忙。", "她很忙！", True),
        ("她很忙？", "她很忙。", False),
        ("彼は行った。", "彼は行かない。", False),
    ],
)
def test_fillers_are_left_out_only_in_their_language(one: str, other: str, same: bool) -> None:
    """An article of one language is a word that decides in another; without a list only case and signs are free."""
    assert same_wording(wording(one), wording(other)) is same


def test_the_rules_have_a_digest() -> None:
    """Sixteen bytes, the same each time: stored digests of wordings are of these rules."""
    assert wording_rules() == wording_rules()
    assert len(wording_rules()) == 16
