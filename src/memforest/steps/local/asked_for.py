"""What a question asks for (a number, a time, a person, a place, a reason), and whether a text has such a thing.

Only the form is looked at: any number answers "How many?" here. A table per language (`memforest/data/asked_for.toml`)
has the words by which a question asks; what a text holds is told by digits and number words, the words that dates are
made of, the names it mentions and a few words of the table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from memforest.calendar.language import load_language
from memforest.language.entities import find_mentions, names_inside
from memforest.language.language import Code, detect_language, load_word_lists
from memforest.text import fold, lexical_tokens, numbers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Wanted = Literal["amount", "duration", "time", "person", "place", "reason"]

_WORD = re.compile(r"[^\W\d_]+")
_SINCE = ("since", "desde", "depuis", "seit")

Tables = Mapping[str, Mapping[str, re.Pattern[str]]]


@cache
def _tables(code: str) -> Tables:
    """Return the patterns of a language, by table and kind; empty if it has none."""
    text = files("memforest.data").joinpath("asked_for.toml").read_text(encoding="utf-8")
    return {
        table: {kind: re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) for kind, words in rows.items()}
        for table, rows in tomllib.loads(text).get(code, {}).items()
    }


@cache
def date_words(code: str) -> frozenset[str]:
    """Return the words that dates of a language are made of, folded; none of a language without a calendar."""
    found = load_language(code)
    if found is None:
        return frozenset()
    return frozenset((*found.months, *found.weekdays, *found.units, *found.seasons))


@cache
def _units(code: str) -> frozenset[str]:
    found = load_language(code)
    return frozenset(() if found is None else found.units)


def asked_for(question: str) -> frozenset[Wanted]:
    """Return what a question asks for; nothing where its words do not tell, or its language has no table.

    >>> sorted(asked_for("Where and when did you meet?"))
    ['place']
    >>> sorted(asked_for("How old is she?"))
    ['amount']
    """
    text = " ".join(question.replace("’", "'").split())
    for code in ("en", "es", "fr", "de"):
        asks = _tables(code).get("asks", {})
        found = frozenset(kind for kind in get_args(Wanted) if kind in asks and asks[kind].search(text))
        if found:
            return found - {"amount"} if "duration" in found else found
    return frozenset()


def holds(
    kind: Wanted, text: str, *, besides: Collection[str] = (), names: Collection[str] = frozenset()
) -> bool:
    """Return whether a text has something of a kind.

    Args:
        kind: of what is asked for.
        text: without questions.
        besides: stems; a name that is made of them does not count, as those of the question.
        names: lower-case words that are names although they begin a sentence; see `names_inside`.

    Example:
        >>> holds("person", "I went with Greta."), holds("person", "I went with Greta.", besides={"greta"})
        (True, False)
        >>> holds("duration", "It took three weeks."), holds("duration", "It took three friends.")
        (True, False)
    """
    code = detect_language(text)
    code = "en" if code == "other" and text.isascii() else code
    told = _tables(code).get("holds", {})
    if _has(told, kind, text):
        return True
    if kind in ("person", "place"):
        return _names(kind, text, code, frozenset(besides), names)
    counted = any(one != "1" for one in numbers(text)) or _has(told, "amount", text)
    if kind in ("amount", "reason"):
        return kind == "amount" and counted
    said = frozenset(_WORD.findall(fold(text)))
    if kind == "time":
        return not said.isdisjoint(date_words(code)) or re.search(r"\d", text) is not None
    return not said.isdisjoint(_units(code) if counted else _SINCE)


def _has(told: Mapping[str, re.Pattern[str]], kind: str, text: str) -> bool:
    return kind in told and told[kind].search(text) is not None


def _names(kind: Wanted, text: str, code: Code, besides: frozenset[str], names: Collection[str]) -> bool:
    """Return whether a text names a person, or a place: what stands behind a word of place is taken for one."""
    near = _tables(code).get("holds", {}).get("near")
    known = names_inside(text).union(names)
    for mention in find_mentions(text, participants={}, known=known, language=code):
        if not besides.issuperset(lexical_tokens(mention.name)):
            front = text[: max(text.find(mention.name), 0)].split()[-2:]
            placed = near is not None and any(near.fullmatch(word) for word in front)
            if (mention.kind == "place" or (placed and mention.kind != "person")) == (kind == "place"):
                return True
    return kind == "person" and not _kin(code).isdisjoint(_WORD.findall(text.lower()))


@cache
def _kin(code: str) -> frozenset[str]:
    """Return the words of a language for relatives and other people close to somebody."""
    if code == "other":
        return frozenset()
    lists = load_word_lists(code).lists
    return lists["kinship_male"] | lists["kinship_female"] | lists["kinship_other"]
