"""The wording by which English tells whether something is so, begins, ends or is only thought of.

Patterns and word lists of ``data/stance/en.toml``, compiled once. They name classes of wording, no attributes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from memforest.language.language import load_word_lists

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Stance = Literal["is", "event", "start", "back", "end", "over", "unreal"]
"""``is``: so at the time of speaking. ``event``: something happened with it once, which may or may not be a
habit. ``start`` and ``back``: it began, or began again. ``end``: it ended. ``over``: it is told as long past.
``unreal``: a wish, a plan, a near miss, a denial, a loan or a visit."""


def word_list(name: str) -> frozenset[str]:
    """Return one of the word lists of English; they are read at the first use, as importing should cost nothing."""
    return load_word_lists("en").lists[name]


@lru_cache(maxsize=4_096)
def is_person(word: str) -> bool:
    """Return whether a common noun names somebody, by its form or its class: "dentist", "aunt", "guest".

    Who does something is called by the verb ("trainer", "driver") or by a suffix that things seldom have. What is
    written with a capital may be the name of anything, so that only its class counts: "Friends", but not "Meridian".
    """
    low = word.lower()
    one = low.removesuffix("s")
    if low in _persons() or one in _persons():
        return True
    if word != low:
        return False
    if len(one) > LONGEST_SUFFIX and one.endswith(_OF_PERSONS):
        return True
    verbs = word_list("common_verbs")
    return one.endswith("er") and (
        one[:-1] in verbs or one[:-2] in verbs or (one[:-3] in verbs and one[-3] == one[-4])
    )


@lru_cache(maxsize=1)
def _persons() -> frozenset[str]:
    return listed("persons").union(*(word_list(f"kinship_{one}") for one in ("male", "female", "other")))


_OF_PERSONS = ("man", "woman", "person", "ist", "ian", "eer", "yer", "grapher", "dresser", "keeper", "giver")
LONGEST_SUFFIX = 5
"""Letters of the longest suffix that is common; a word that is no longer names nobody by it."""


@lru_cache(maxsize=1)
def past_forms() -> frozenset[str]:
    """Return past forms that do not end in -ed."""
    return word_list("irregular_past") | frozenset(("was", "were", "had", "did"))


@lru_cache(maxsize=1)
def _raw() -> Mapping[str, Any]:
    path = resources.files("memforest") / "data" / "stance" / "en.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def rules() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of every class of wording."""
    found = {}
    for name, sources in _raw().items():
        if isinstance(sources, str) or name == "clause":
            continue
        joined = "|".join(f"(?:{_with_forms(source)})" for source in sources)
        found[name] = re.compile(rf"(?<![\w-])(?:{joined})(?![\w-])", re.IGNORECASE)
    clauses = "|".join(re.escape(mark) for mark in _raw()["clause"])
    found["clause"] = re.compile(clauses)
    return found


_VERBS = re.compile(r"~(?:\(\?:([a-z|]+)\)|([a-z]+))")


def _with_forms(source: str) -> str:
    """Return a pattern with the forms of each verb behind "~" spelt out."""
    return _VERBS.sub(
        lambda found: f"(?:{'|'.join(_forms(verb) for verb in (found[1] or found[2]).split('|'))})", source
    )


def _forms(verb: str) -> str:
    """Return a pattern for all forms of a verb; regular ones by rule, a doubled consonant where there may be one."""
    own = "".join(f"|{form}" for form in _irregular().get(verb, ()))
    if verb.endswith("e"):
        return f"{verb[:-1]}(?:es?|ed|ing){own}"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}(?:y|ies|ied|ying){own}"
    return f"{verb}(?:e?s|{verb[-1]}?(?:ed|ing))?{own}"


@lru_cache(maxsize=1)
def _irregular() -> Mapping[str, Sequence[str]]:
    found = (entry.split() for entry in _raw()["irregular"].split(","))
    return {verb: forms for verb, *forms in found}


@lru_cache(maxsize=8)
def listed(name: str) -> frozenset[str]:
    """Return one of the plain word lists of the file."""
    return frozenset(_raw()[name].split())
