"""Names of entities as they are compared, and by which rule two names may be one.

A `Form` is a name's words without titles, and what sets it apart from like ones. `apart` says what keeps two entities apart
whatever else speaks for them.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from memforest.reading.canonical import MIN_DROPPED, MIN_SHORT_FORM
from memforest.reading.tokens import load_word_lists
from memforest.records import EntityKind
from memforest.text import UNSPACED, entity_key, fold, strip_accents, word_set


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """An entity with the names that it is called by.

    Args:
        id: row of the entity. Nothing but the ids of the result depends on it.
        key: its key (`memforest.text.entity_key`), which no other entity has.
        kind: what it is.
        label: its name as it was first spelled.
        names: further spellings.
        aliases: keys of short names that stand for it somewhere.
        supports: how many facts name it.
        neighbours: entities that are named in the same facts.
        beside: entities that are named in one statement with it as somebody else, and so are not it.
    """

    id: int
    key: str
    kind: EntityKind = "unknown"
    label: str = ""
    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    supports: int = 0
    neighbours: frozenset[int] = frozenset()
    beside: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """Why an entity is one with another: the rule that compared their names, and how alike they are (0 to 1).

    The other (`into`) is the one it was compared with; which entity stands for them all is in `Resolution.into`.
    """

    entity: int
    into: int
    rule: str
    score: float


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which entities are one.

    Args:
        into: entity that is joined -> entity that stands for its group; who stands for a group is not in it.
        decisions: one for each joined entity, in the order of the keys.
        overlaps: pairs of groups whose names begin or end alike and that stayed apart, as (short name's, other's,
            ``"prefix"`` or ``"suffix"``); a way for a search, never a name of either.
    """

    into: Mapping[int, int] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    overlaps: tuple[tuple[int, int, str], ...] = ()

    def of(self, entity: int) -> int:
        """Return the entity that stands for an entity: itself unless it is joined."""
        return self.into.get(entity, entity)


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_TOKENS = 8
"""A name of more words is a phrase: it meets equal ones only."""
_SPELLED_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_UNSPACED_NAME = re.compile(f"[{UNSPACED}\uac00-\ud7a3]+")
_DIGIT = re.compile(r"\d")

_THINGS = frozenset({"event", "product", "work"})


class Form(NamedTuple):
    """A name as it is compared.

    Args:
        tokens: its words, folded, without titles and without what says team or firm.
        full: its words with all of these, without blanks, in the spellings that count as equal.
        family: its kind; a participant is a person.
        sex: what a title tells, ``"m"`` or ``"f"``.
        kin: the word of kinship in front of it.
        marks: what must be equal in equal names: numbers and generations, in order.
        short: the letters of an abbreviation written in capitals.
        cut: what of it was left out: ``"title"``, ``"kin"``, ``"group"``, or nothing.
        unspaced: whether it is written without blanks between its words.
    """

    tokens: tuple[str, ...]
    full: tuple[str, ...]
    family: str
    sex: str = ""
    kin: str = ""
    marks: tuple[str, ...] = ()
    short: str = ""
    cut: str = ""
    unspaced: bool = False


@dataclass(frozen=True, slots=True)
class _Words:
    male: frozenset[str]
    female: frozenset[str]
    titles: frozenset[str]
    kin: frozenset[str]
    generations: frozenset[str]
    behind: frozenset[str]
    before: frozenset[str]
    small: frozenset[str]
    endings: Mapping[str, tuple[str, ...]]
    """Of names that are written without blanks: ``"persons"``, ``"places"``, ``"groups"`` -> theirs, the longest first."""


@cache
def _words() -> _Words:
    """Return the lists of `names.toml`, folded."""
    raw = tomllib.loads(files("memforest.data").joinpath("names.toml").read_text(encoding="utf-8"))
    titles, groups = raw["titles"], raw["groups"]

    def folded(text: str) -> frozenset[str]:
        return word_set(strip_accents(fold(text)))

    return _Words(
        male=folded(titles["male"]),
        female=folded(titles["female"]),
        titles=folded(" ".join((titles["male"], titles["female"], titles["any"]))),
        kin=folded(titles["kin"]),
        generations=folded(raw["generations"]["words"]),
        behind=folded(groups["behind"]),
        before=folded(groups["before"]),
        small=folded(groups["small"]),
        endings={
            of: tuple(sorted(text.split(), key=lambda one: (-len(one), one)))
            for of, text in raw["unspaced"].items()
        },
    )


def kinds_fit(one: str, other: str) -> bool:
    """Return whether entities of two families may be one; see `Form.family`.

    Example:
        >>> kinds_fit("person", "unknown"), kinds_fit("thing", "work"), kinds_fit("person", "organisation")
        (True, True, False)
    """
    if one == other or "unknown" in (one, other):
        return True
    return (one == "thing" and other in _THINGS) or (other == "thing" and one in _THINGS)


def other_keys(named: NamedEntity) -> frozenset[str]:
    """Return the keys by which an entity is called beside its own."""
    if not named.names and not named.aliases:
        return frozenset()
    found = {key for name in named.names if (key := entity_key(name)) is not None}
    return frozenset(found.union(named.aliases)) - {named.key, ""}


def form_of(named: NamedEntity) -> Form:
    """Return the name of an entity as it is compared. Linear in its length; the label is read as far as keys are."""
    lists = _words()
    key, label = named.key, named.label[:200]
    family = "person" if named.kind == "participant" else named.kind
    tokens = tuple(key.split())
    marks = () if key.isalpha() else _marks(tokens, lists)
    if len(tokens) > MOST_TOKENS:
        return Form((), ("".join(tokens),), family, marks=marks)
    if marks:
        tokens = tuple(token for token in tokens if token not in marks or _DIGIT.search(token))
    full = _spellings(tokens, label)
    first = tokens[0] if tokens else ""
    if not label.lower().startswith(first):
        first = strip_accents(fold(label.split(" ", 1)[0])).rstrip(".")
    sex = "m" if first in lists.male else "f" if first in lists.female else ""
    tokens, cut, kin = _named_only(tokens, family, lists)
    if len(tokens) == 1 and not tokens[0].isascii() and _UNSPACED_NAME.fullmatch(tokens[0]):
        shorter = (_without_ending(tokens[0], family, lists),)
        if shorter != tokens:
            cut = "title" if family == "person" else "group"
        return Form(shorter, full, family, sex, kin, marks, cut=cut, unspaced=True)
    return Form(tokens, full, family, sex, kin, marks, _abbreviation(label) if len(tokens) == 1 else "", cut)


def _named_only(tokens: tuple[str, ...], family: str, lists: _Words) -> tuple[tuple[str, ...], str, str]:
    """Return a name without titles and without what says team or firm, what was cut, and the word of kinship."""
    kin = cut = ""
    if len(tokens) < 2:
        return tokens, cut, kin
    if family in ("person", "unknown"):
        if tokens[0] in lists.kin:
            kin, tokens, cut = tokens[0], tokens[1:], "kin"
        while len(tokens) > 1 and tokens[0] in lists.titles:
            tokens, cut = tokens[1:], "title"
    if family not in ("person", "place"):
        shorter = _without_group(tokens, lists)
        if shorter != tokens:
            tokens, cut = shorter, "group"
    return tokens, cut, kin


def _marks(tokens: tuple[str, ...], lists: _Words) -> tuple[str, ...]:
    """Return the words that hold digits, and the generation behind a name."""
    found = [token for token in tokens if not token.isalpha() and _DIGIT.search(token)]
    if len(tokens) > 1 and tokens[-1] in lists.generations:
        found.append(tokens[-1])
    return tuple(sorted(found))


def _spellings(tokens: tuple[str, ...], label: str) -> tuple[str, ...]:
    """Return a name without blanks, and with the umlauts of its label spelled out."""
    plain = "".join(tokens)
    if label.isascii():
        return (plain,)
    spelled = unicodedata.normalize("NFC", label).casefold().translate(_SPELLED_OUT)
    other = (entity_key(spelled) or "").replace(" ", "")
    return (plain, other) if other and other != plain else (plain,)


def _without_group(tokens: tuple[str, ...], lists: _Words) -> tuple[str, ...]:
    """Return the words of a name without those that say team or firm; a name of only such words stays."""
    last = len(tokens)
    while last > 1 and tokens[last - 1] in lists.behind:
        last -= 1
    first = 0
    if tokens and tokens[0] in lists.before:
        first = 1
        while first < last and tokens[first] in lists.small:
            first += 1
    return tokens[first:last] if first < last else tokens


def _without_ending(name: str, family: str, lists: _Words) -> str:
    """Return a name that is written without blanks without its ending; two characters stay, of a person one."""
    endings = lists.endings[{"person": "persons", "place": "places"}.get(family, "groups")]
    least = 1 if family == "person" else 2
    for ending in endings:
        if name.endswith(ending) and len(name) - len(ending) >= least:
            return name[: -len(ending)]
    return name


def _abbreviation(label: str) -> str:
    """Return the letters of a label in capitals."""
    plain = label.replace(".", "").strip() if label[:2].isupper() or "." in label else ""
    return plain.casefold() if plain.isalpha() and plain.isupper() else ""


LEAST_SPELLED = 5
"""Fewest letters of a word that may be misspelled: a letter of four makes another name (Anna, Hanna)."""
LEAST_OTHER = 9
"""Fewest letters of a word, alone or a first name, of which one may be another or be left out: shorter ones make names."""
TIERS: Mapping[str, int] = {
    "form": 0,
    **dict.fromkeys(("alias", "title", "kin", "group", "part", "initials", "order"), 1),
    **dict.fromkeys(("letters", "short", "short_full"), 2),
    **dict.fromkeys(("typo", "typo_full", "spelling", "spelling_full"), 3),
}
"""The rules by how sure they are: where one of a lower number fits an entity, those of higher numbers are not asked."""


class Likeness(NamedTuple):
    """The rule by which two names may be one, and how much of them is alike, 0 to 1."""

    rule: str
    score: float


class Least(NamedTuple):
    """What a rule asks for: how alike two names are, and how much else speaks for it.

    Kinds that are known and equal count 1 of `evidence`, each shared neighbour 1, and no more than two of these.
    """

    evidence: int
    likeness: float


@cache
def least() -> Mapping[str, Least]:
    """Return what each rule asks for, as `scripts/calibrate_names.py` found it; equal forms need nothing else."""
    text = files("memforest.data").joinpath("name_thresholds.json").read_text(encoding="utf-8")
    rules = {
        rule: Least(int(one["least_evidence"]), float(one["least_likeness"]))
        for rule, one in json.loads(text)["rules"].items()
    }
    return MappingProxyType({"form": Least(0, 0.0), **rules})


def apart(one: Form, other: Form) -> bool:
    """Return whether two entities are two by what is known of their names: kind, numbers, generation, sex or kinship.

    Example:
        >>> from memforest.graph.names import NamedEntity
        >>> from memforest.graph.names import form_of
        >>> old, young = (form_of(NamedEntity(0, f"john smith {end}", "person")) for end in ("sr", "jr"))
        >>> apart(old, young)
        True
    """
    if one.marks != other.marks or not kinds_fit(one.family, other.family):
        return True
    told = ((one.sex, other.sex), (one.kin, other.kin))
    return any(mine and theirs and mine != theirs for mine, theirs in told)


def compare(one: Form, other: Form) -> Likeness | None:
    """Return by which rule two names may be one, or None. Which comes first does not matter."""
    alike = one.full[0] in other.full or one.full[-1] in other.full
    # Of as many words, equal without blanks, and cut in other places: Ann Alee, Anna Lee.
    cut_elsewhere = len(one.tokens) == len(other.tokens) > 1 and one.tokens != other.tokens
    if alike and not (cut_elsewhere and "".join(one.tokens) == "".join(other.tokens)):
        return Likeness("form", 1.0)
    if not one.tokens or not other.tokens:
        return None
    if one.tokens == other.tokens:
        cuts = {one.cut, other.cut}
        return Likeness("kin" if "kin" in cuts else "group" if "group" in cuts else "title", 1.0)
    people = "person" in (one.family, other.family)
    if one.unspaced or other.unspaced:
        return _unspaced(one, other) if people and one.unspaced and other.unspaced else None
    if len(one.tokens) == len(other.tokens):
        return _same_length(one.tokens, other.tokens, people)
    short, long = (one, other) if len(one.tokens) < len(other.tokens) else (other, one)
    if people:
        return _part(short.tokens, long.tokens)
    # An abbreviation in capitals of a longer name that is no person's.
    letters = len(short.short) > 1 and short.short == "".join(word[0] for word in long.tokens)
    return Likeness("letters", 1.0) if letters else None


def _unspaced(one: Form, other: Form) -> Likeness | None:
    """Compare names that are written without blanks: a given name or a surname of two characters in the whole."""
    short, long = sorted((one.tokens[0], other.tokens[0]), key=len)
    if 2 <= len(short) < len(long) and (long.endswith(short) or long.startswith(short)):
        return Likeness("part", len(short) / len(long))
    return None


def _same_length(one: tuple[str, ...], other: tuple[str, ...], people: bool) -> Likeness | None:
    """Compare names of as many words."""
    differ = [index for index, word in enumerate(one) if word != other[index]]
    if people and len(differ) > 1:
        if sorted(one) == sorted(other):
            return Likeness("order", 1.0)
        return _initials(one, other, differ)
    if len(differ) > 1:
        return None
    index = differ[0]
    a, b = sorted((one[index], other[index]), key=lambda word: (len(word), word))
    several = len(one) > 1
    if people:
        if several and len(a) == 1:
            return _initials(one, other, differ)
        if index == 0 and _is_short(a, b):
            return Likeness("short_full" if several else "short", len(a) / len(b))
    # Brothers and sisters share their surname: a first name is one word though a surname stands behind it.
    return _spelled(a, b, "_full" if several and (index > 0 or not people) else "")


def _initials(one: tuple[str, ...], other: tuple[str, ...], differ: list[int]) -> Likeness | None:
    """Compare names of which one has letters where the other has words; a whole word must be in both."""
    if not any(word == other[index] and len(word) > 1 for index, word in enumerate(one)):
        return None
    for index in differ:
        a, b = one[index], other[index]
        if min(len(a), len(b)) != 1 or a[0] != b[0]:
            return None
    return Likeness("initials", 1 - len(differ) / len(one))


def _is_short(short: str, long: str) -> bool:
    return MIN_SHORT_FORM <= len(short) <= len(long) - MIN_DROPPED and long.startswith(short)


def _part(short: tuple[str, ...], long: tuple[str, ...]) -> Likeness | None:
    """Compare a person's name with a longer one: first name or surname of it, both, or initials and surname."""
    if short[0] == long[0] or short[-1] == long[-1]:
        words = iter(long)
        if all(word in words for word in short):
            return Likeness("part", len(short) / len(long))
        words = iter(long)
        if len(short[-1]) > 1 and short[-1] == long[-1] and all(_stands_for(word, words) for word in short):
            return Likeness("initials", 1 / len(long))
    if len(short) == 1 and _is_short(short[0], long[0]):
        return Likeness("short", len(short[0]) / len(long[0]))
    return None


def _stands_for(word: str, words: object) -> bool:
    """Return whether one of the words to come is the word or begins with it, a letter; what comes before it is passed."""
    return any(word == one or (len(word) == 1 and one[0] == word) for one in words)  # type: ignore[attr-defined]


def _spelled(a: str, b: str, full: str) -> Likeness | None:
    """Compare two words of which one may be the other misspelled: one letter inside, and not two names that there are.

    A letter too many beside its like and two that changed places are slips; another letter may be another name. The
    first letter and the last one make names: Daniel and Daniela, Gonzales and Gonzalez.
    """
    if len(a) < LEAST_SPELLED or a[0] != b[0] or a[-1] != b[-1] or not (a.isalpha() and b.isalpha()):
        return None
    if {a, b} <= load_word_lists("en")["given_names"]:
        return None
    from rapidfuzz.distance import OSA

    if OSA.distance(a, b, score_cutoff=1) != 1:
        return None
    at = next((index for index, letter in enumerate(a) if letter != b[index]), len(a))
    turned = len(a) == len(b) and a[at : at + 2] == b[at : at + 2][::-1]
    doubled = len(a) < len(b) and b[at] == b[at - 1]
    rule = "typo" if turned or doubled else "spelling"
    if rule == "spelling" and not full and len(b) < LEAST_OTHER:
        return None
    return Likeness(rule + full, float(OSA.normalized_similarity(a, b)))
