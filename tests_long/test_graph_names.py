"""Names as they are compared, and by which rule two may be one."""

from __future__ import annotations

from tests.table import each

from memforest.graph.names import (
    MOST_TOKENS,
    TIERS,
    Form,
    NamedEntity,
    apart,
    compare,
    form_of,
    kinds_fit,
    least,
    other_keys,
)
from memforest.records import EntityKind
from memforest.text import entity_key


def form(text: str) -> Form:
    """Return the form of a "kind: name"."""
    kind, _, label = text.partition(": ")
    return form_of(NamedEntity(1, entity_key(label) or label, kind, label))  # type: ignore[arg-type]


def rule(one: str, other: str) -> str | None:
    """Return the rule of two names, which is the same both ways."""
    found, back = compare(form(one), form(other)), compare(form(other), form(one))
    assert found == back
    return found.rule if found else None


@each(
    ("one", "other", "expected"),
    [
        ("person: Jürgen Köhler", "person: Juergen Koehler", "form"),
        ("person: Søren", "person: Soeren", "form"),
        ("person: MARY-ANN HOLT", "person: Maryann Holt", "form"),
        ("person: Елкин", "person: Ёлкин", "form"),
        ("person: Ann Alee", "person: Anna Lee", None),
        ("person: Captain Reyes", "person: Reyes", "title"),
        ("person: профессор Лемешев", "person: Лемешев", "title"),
        ("person: 森川さん", "person: 森川", "title"),
        ("person: Aunt Winifred", "person: Winifred", "kin"),
        ("organisation: the Otters team", "organisation: Otters", "group"),
        ("organisation: el equipo de los Linces", "organisation: Linces", "group"),
        ("organisation: 银狐队", "unknown: 银狐", "group"),
        ("place: 青岛市", "place: 青岛", "group"),
        ("person: Ingrid Solberg", "person: Ingrid", "part"),
        ("person: Ingrid Solberg", "unknown: Solberg", "part"),
        ("unknown: Camden Lock", "unknown: Camden", None),
        ("person: Esteban Luis Carrasco", "person: Esteban Carrasco", "part"),
        ("person: Esteban Luis Carrasco", "person: Luis", None),
        ("person: 陈晓雯", "person: 晓雯", "part"),
        ("person: 陈晓雯", "person: 雯", None),
        ("person: 박서준", "person: 서준", "part"),
        ("person: O. Bramwell", "person: Otto Bramwell", "initials"),
        ("person: P. M. Ashdown", "person: Prudence Mabel Ashdown", "initials"),
        ("person: P. Ashdown", "person: Prudence Mabel Ashdown", "initials"),
        ("person: O. B.", "person: Otto Bramwell", None),
        ("person: Nakagawa Reiko", "person: Reiko Nakagawa", "order"),
        ("organisation: Northern Coast Rowing Union", "organisation: NCRU", "letters"),
        ("organisation: Northern Coast Rowing Union", "organisation: Ncru", None),
        ("person: Theodora", "person: Theo", "short"),
        ("person: Theodora Marsh", "person: Theo", "short"),
        ("person: Theodora Marsh", "person: Theo Marsh", "short_full"),
        ("person: Theodora", "person: Th", None),
        ("person: Theodora", "person: Theodor", None),
        ("person: Evangeline", "person: Evangelline", "typo"),
        ("person: Evangeline", "person: Evnageline", "typo"),
        ("person: Roslaind Tarver", "person: Rosalind Tarver", "typo"),
        ("person: Idris Castellan", "person: Idris Castelan", "typo_full"),
        ("person: Bartholomew", "person: Bartholmew", "spelling"),
        ("place: Wetherby Commons", "place: Weatherby Commons", "spelling_full"),
        ("person: Marina", "person: Martina", None),
        ("person: Anna", "person: Hanna", None),
        ("person: Ella", "person: Elle", None),
        ("person: Adrian", "person: Adriana", None),
        ("person: Lydia Gonzales", "person: Lydia Gonzalez", None),
        ("person: Lydia Marsh", "person: Theodora Marsh", None),
    ],
)
def test_the_rule_of_two_names(one: str, other: str, expected: str | None) -> None:
    """Two names are compared by the surest rule that fits, whichever comes first."""
    assert rule(one, other) == expected


def test_every_rule_has_a_tier_and_a_threshold() -> None:
    """What the set measured is for the rules that there are."""
    assert set(least()) == set(TIERS)
    assert {rule for rule, wants in least().items() if not (0 <= wants.likeness <= 1)} == set()


@each(
    ("one", "other"),
    [
        ("person: Hartwell", "organisation: Hartwell Inc."),
        ("place: Paris", "person: Paris Dune"),
        ("event: Lantern Fair 2019", "event: Lantern Fair 2020"),
        ("product: Tracer 7", "product: Tracer"),
        ("person: Cornelius Wade Sr.", "person: Cornelius Wade Jr."),
        ("person: Cornelius Wade III", "person: Cornelius Wade"),
        ("person: Herr Wieland", "person: Frau Wieland"),
        ("person: Mr. Crane", "person: Mrs. Crane"),
        ("person: Aunt Winifred", "person: Grandma Winifred"),
    ],
)
def test_what_sets_two_apart(one: str, other: str) -> None:
    """Kind, numbers, generation, sex and kinship tell two of like names apart, and none from itself."""
    assert apart(form(one), form(other))
    assert apart(form(other), form(one))
    assert not apart(form(one), form(one))


@each(
    ("one", "other", "fit"),
    [
        ("person", "unknown", True),
        ("unknown", "place", True),
        ("thing", "product", True),
        ("work", "thing", True),
        ("work", "product", False),
        ("person", "place", False),
        ("place", "organisation", False),
        ("thing", "person", False),
    ],
)
def test_kinds_that_fit(one: str, other: str, fit: bool) -> None:
    """An unknown kind is any; a thing may be a product, a work or an event."""
    assert kinds_fit(one, other) is fit
    assert kinds_fit(other, one) is fit


def test_a_participant_is_a_person() -> None:
    """Who speaks is compared as a person."""
    assert form("participant: Imre").family == "person"


@each("kind", ["person", "organisation", "unknown", "place", "work"])
@each(
    "label",
    [
        "",
        "I",
        "—",
        "🙂",
        "👩‍👩‍👧 Team",
        "<b>Ana</b>",
        "a" * 500,
        "ab " * 170,
        "שרה כהן",
        "\u202eana\u202c",
        "mr",
        "team inc",
    ],
)
def test_no_name_is_too_odd(kind: EntityKind, label: str) -> None:
    """Every name has a form that is like itself; one of only titles keeps a word."""
    key = entity_key(label) or label
    made = form_of(NamedEntity(1, key, kind, label, (label,), (key,)))
    assert made.full
    assert len(made.tokens) <= MOST_TOKENS
    assert not apart(made, made)
    likeness = compare(made, made)
    assert likeness is not None
    assert likeness.rule == "form"
    assert bool(made.tokens) is bool(0 < len(key.split()) <= MOST_TOKENS)


def test_a_long_phrase_is_equal_to_itself_only() -> None:
    """A name of many words has no first name and no surname."""
    phrase = "person: " + " ".join(["Ana", "Ruiz"] * MOST_TOKENS)
    assert rule(phrase, "person: Ana") is None
    assert rule(phrase, phrase) == "form"


def test_keys_beside_its_own() -> None:
    """Spellings and aliases are keyed; its own key is none of them."""
    one = NamedEntity(1, "ana ruiz", "person", "Ana Ruiz", ("ANA RUIZ", "Anita"), ("ani",))
    assert other_keys(one) == {"anita", "ani"}
    assert other_keys(NamedEntity(2, "bea")) == frozenset()
