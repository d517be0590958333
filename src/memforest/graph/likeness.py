"""By which rule two names may be one, and what keeps two entities apart whatever else speaks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from memforest.facts.entities import MIN_DROPPED, MIN_SHORT_FORM
from memforest.graph.names import Form, kinds_fit
from memforest.language.language import load_word_lists

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


@cache
def _given_names() -> frozenset[str]:
    return load_word_lists("en").lists["given_names"]


def is_full(form: Form) -> bool:
    """Return whether a name is that of a person with first name and surname, or may be."""
    return len(form.tokens) > 1 and form.family in ("person", "unknown")


def apart(one: Form, other: Form) -> bool:
    """Return whether two entities are two by what is known of their names: kind, numbers, generation, sex or kinship.

    Example:
        >>> from memforest.graph.named import Named
        >>> from memforest.graph.names import form_of
        >>> old, young = (form_of(Named(0, f"john smith {end}", "person")) for end in ("sr", "jr"))
        >>> apart(old, young)
        True
    """
    if one.family != other.family and not kinds_fit(one.family, other.family):
        return True
    if one.marks != other.marks:
        return True
    if one.sex and other.sex and one.sex != other.sex:
        return True
    return bool(one.kin and other.kin and one.kin != other.kin)


def compare(one: Form, other: Form) -> Likeness | None:
    """Return by which rule two names may be one, or None. Which comes first does not matter."""
    alike = one.full[0] in other.full or one.full[-1] in other.full
    if alike and not _cut_elsewhere(one.tokens, other.tokens):
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
    return _letters(short, long)


def _cut_elsewhere(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two names of as many words, equal without blanks, are cut in other places: Ann Alee, Anna Lee."""
    return len(one) == len(other) > 1 and "".join(one) == "".join(other) and one != other


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


def _letters(short: Form, long: Form) -> Likeness | None:
    """Compare an abbreviation in capitals with the first letters of a longer name that is no person's."""
    if len(short.short) > 1 and short.short == "".join(word[0] for word in long.tokens):
        return Likeness("letters", 1.0)
    return None


def _spelled(a: str, b: str, full: str) -> Likeness | None:
    """Compare two words of which one may be the other misspelled: one letter inside, and not two names that there are.

    A letter too many beside its like and two that changed places are slips; another letter may be another name. The
    first letter and the last one make names: Daniel and Daniela, Gonzales and Gonzalez.
    """
    if len(a) < LEAST_SPELLED or a[0] != b[0] or a[-1] != b[-1] or not (a.isalpha() and b.isalpha()):
        return None
    if a in _given_names() and b in _given_names():
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
