"""memforest.reading.entities: mentions with kind and role, topics."""

from __future__ import annotations

from tests.table import each

from memforest.reading.entities import MAX_MENTIONS, find_mentions, find_topics, merge_mentions, names_inside
from memforest.records import Mention

PEOPLE = {"ana": "Ana", "lucia": "Lucía", "小明": "小明"}


def test_roles_tell_lender_from_borrower() -> None:
    """The same two names in another order play other parts."""
    one = find_mentions("Tom lent Ana a book.", participants=PEOPLE)
    other = find_mentions("Ana lent Tom a book.", participants=PEOPLE)
    assert {m.name: m.role for m in one} == {"Tom": "subject", "Ana": "object"}
    assert {m.name: m.role for m in other} == {"Tom": "object", "Ana": "subject"}


@each(
    ("sentence", "name", "kind"),
    [
        ("Ana met Tom.", "Tom", "person"),
        ("Ana's cousin Zorka moved.", "Zorka", "person"),
        ("Ana moved to Oslo.", "Oslo", "place"),
        ("Ana works at Equinor.", "Equinor", "organisation"),
        ("Ana studied at the University of Bergen.", "University of Bergen", "organisation"),
        ('Ana read "Blue Nights".', "Blue Nights", "thing"),
        ("Ana posted #hike2024.", "#hike2024", "thing"),
        ("小明在读《三体》。", "三体", "thing"),
        ("Ana spoke with Lucia.", "Lucía", "participant"),
        ("Ana visited Москва.", "Москва", "place"),
    ],
)
def test_kinds(sentence: str, name: str, kind: str) -> None:
    """A name's kind comes from its own words and those before it."""
    assert {m.name: m.kind for m in find_mentions(sentence, participants=PEOPLE)}[name] == kind


@each(
    "sentence",
    [
        "Books can help.",
        "Yesterday was fun.",
        "It rained on Monday in May.",
        'She said "I miss you all".',
        "They're fine.",
    ],
)
def test_ordinary_words_are_no_names(sentence: str) -> None:
    """A capital at the start, a weekday and quoted speech name nobody."""
    assert find_mentions(sentence, participants=PEOPLE) == ()


def test_a_name_seen_before_may_open_a_sentence() -> None:
    """What was a name inside a sentence is one at the start of another."""
    known = names_inside("I adopted a dog called Zuzu. Great.")
    assert known == {"zuzu"}
    assert [m.name for m in find_mentions("Zuzu barks.", participants=PEOPLE, known=known)] == ["Zuzu"]


def test_participant_in_a_script_without_spaces() -> None:
    """A participant is found wherever their name stands."""
    assert find_mentions("小明住在北京。", participants=PEOPLE) == (
        Mention("小明", "participant", "subject"),
    )


def test_mentions_are_bounded() -> None:
    """A page of names does not become a page of mentions."""
    crowd = ", ".join(f"Zed{i} Quux{i}" for i in range(100))
    assert len(find_mentions(f"Ana met {crowd}.", participants=PEOPLE)) <= MAX_MENTIONS + len(PEOPLE)


def test_merging_keeps_the_strongest_role_and_a_known_kind() -> None:
    """Surface forms of one entity become one mention."""
    merged = merge_mentions([Mention("José", "unknown", "other"), Mention("Jose", "person", "subject")])
    assert merged == (Mention("José", "person", "subject"),)


def test_topics_are_content_words() -> None:
    """Topics are nouns by position, no names and no function words."""
    topics = find_topics("Ana joined a support group in the old library.", names={"ana"})
    assert "support group" in topics
    assert len(topics) <= 3
    assert find_topics("It is so very much.") == ()


@each(
    ("sentence", "names"),
    [
        ("I work Thursdays and the first of May.", []),
        ("Merry Christmas everyone!", []),
        ("I love Christmas in York.", ["Christmas", "York"]),
        ("I met Dr Sun and Mr. Will today.", ["Dr Sun", "Will"]),
        ("We took the Great Western Railway.", ["Great Western Railway"]),
        ("Great Expectations is long.", ["Expectations"]),
        ("Kershaw & Sons fixed it.", ["Kershaw & Sons"]),
        ("He is in year III already.", []),
        ("Nikhil is late.", ["Nikhil"]),
        ("Hopefully it rains.", []),
        ("Someone rang.", []),
    ],
)
def test_names_are_what_a_person_would_call_so(sentence: str, names: list[str]) -> None:
    """No days, wishes and numbers; titles, and words that are ordinary elsewhere, where they belong to a name."""
    assert [one.name for one in find_mentions(sentence, participants=PEOPLE)] == names
