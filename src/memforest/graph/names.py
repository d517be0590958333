"""The name of an entity as it is compared: its words without titles, and what sets it apart from like ones."""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from memforest.graph.named import Named
from memforest.text import UNSPACED, entity_key, fold, strip_accents, word_set

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
    persons: tuple[str, ...]
    places: tuple[str, ...]
    groups: tuple[str, ...]


@cache
def _words() -> _Words:
    """Return the lists of `names.toml`, folded."""
    raw = tomllib.loads(files("memforest.data").joinpath("names.toml").read_text(encoding="utf-8"))
    titles, groups, endings = raw["titles"], raw["groups"], raw["unspaced"]

    def folded(text: str) -> frozenset[str]:
        return word_set(strip_accents(fold(text)))

    def longest_first(text: str) -> tuple[str, ...]:
        return tuple(sorted(text.split(), key=lambda one: (-len(one), one)))

    return _Words(
        male=folded(titles["male"]),
        female=folded(titles["female"]),
        titles=folded(" ".join((titles["male"], titles["female"], titles["any"]))),
        kin=folded(titles["kin"]),
        generations=folded(raw["generations"]["words"]),
        behind=folded(groups["behind"]),
        before=folded(groups["before"]),
        small=folded(groups["small"]),
        persons=longest_first(endings["persons"]),
        places=longest_first(endings["places"]),
        groups=longest_first(endings["groups"]),
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


def other_keys(named: Named) -> frozenset[str]:
    """Return the keys by which an entity is called beside its own."""
    if not named.names and not named.aliases:
        return frozenset()
    found = {key for name in named.names if (key := entity_key(name)) is not None}
    return frozenset(found.union(named.aliases)) - {named.key, ""}


def form_of(named: Named) -> Form:
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
        first = _first_word(label)
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


def _first_word(label: str) -> str:
    return (strip_accents(fold(label.split(" ", 1)[0]))).rstrip(".")


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
    endings = {"person": lists.persons, "place": lists.places}.get(family, lists.groups)
    least = 1 if family == "person" else 2
    for ending in endings:
        if name.endswith(ending) and len(name) - len(ending) >= least:
            return name[: -len(ending)]
    return name


def _abbreviation(label: str) -> str:
    """Return the letters of a label in capitals."""
    plain = label.replace(".", "").strip() if label[:2].isupper() or "." in label else ""
    return plain.casefold() if plain.isalpha() and plain.isupper() else ""
