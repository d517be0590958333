"""Which time operator a question applies, whatever it asks about: "What does Bob open with these days?".

A table per language (`memforest/data/operators/*.toml`) says how it asks for what was so before, after, first and so on, whatever
that is. So a reading is sure of nothing: it is for an index that looks whether its memory has a timeline that fits. The
language is told by a question's own words; of one without a table only a date is heard.

A table has `words`, lists by name (``_`` is a space inside an entry), `macros`, and `patterns`: regular expressions in which
``..`` is up to eight words, ``{name}`` a list or macro, ``<X>`` an anchor up to the end and ``<x>`` one of
at most 80 characters; each begins and ends with a word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from memforest.text import lexical_tokens
from memforest.types import OperatorKind, TimeOperator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = ("en", "es", "fr", "de")
"""Languages with a table, in the order in which they are preferred."""
LEAST_SHARE = 5
"""A question is of a language if at least one in so many of its words is in that language's table."""
_RELATIVE: tuple[OperatorKind, ...] = ("last", "changed_back", "since", "predecessor", "successor")
_NO_SIGNS = ("language", "view", "places", "prepositions", "past")
_WORD = re.compile(r"[^\W\d_]{2,}")
_YEAR = re.compile(r"(?<!\d)(?:1[89]|20)\d\d(?!\d)")
_ENDS = " .,¿"

Patterns = Mapping[str, tuple[re.Pattern[str], ...]]
"""Those of one language, by name."""


@lru_cache(maxsize=len(LANGUAGES))
def _table(code: str) -> Mapping[str, Mapping[str, Any]]:
    path = resources.files("memforest") / "data" / "operators" / f"{code}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=len(LANGUAGES))
def _patterns_of(code: str) -> Patterns:
    """Return the patterns of one of `LANGUAGES`, read once per process from the package's data."""
    table = _table(code)
    parts = {name: f"(?:{'|'.join(text.split())})".replace("_", " ") for name, text in table["words"].items()}
    parts |= table["macros"]
    return {name: tuple(_compiled(one, parts) for one in texts) for name, texts in table["patterns"].items()}


def _compiled(text: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    """Return a pattern of a table as a regular expression."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    text = re.sub(r"\((?!\?)", "(?:", text).replace(" .. ", r"(?: [^\s,;?!]+){0,8}? ")
    text = text.replace("<X>", "(?P<anchor>.+)").replace("<x>", "(?P<anchor>[^,;?!]{1,80}?)")
    start, text = (r"^\W*", text[1:]) if text.startswith("^") else (r"(?<![\w-])", text)
    return re.compile(rf"{start}(?:{text})(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=len(LANGUAGES))
def _words(code: str) -> frozenset[str]:
    """Return the words by which a language asks for a time."""
    table = _table(code)
    texts = [text for name in (*_RELATIVE, "first", "now") for text in table["patterns"][name]]
    texts += [text for name, text in table["words"].items() if name not in _NO_SIGNS]
    return frozenset(word for text in texts for word in _WORD.findall(re.sub(r"\{\w+\}|\\\w", " ", text)))


@lru_cache(maxsize=64)
def language_of(question: str) -> str | None:
    """Return the language with a table that most words of a question are of; None if few are of any."""
    words = _WORD.findall(question.lower())
    signs = {code: _words(code).union(_table(code)["words"]["language"].split()) for code in LANGUAGES}
    votes = {code: sum(word in signs[code] for word in words) for code in LANGUAGES}
    best = max(LANGUAGES, key=votes.__getitem__)
    return best if votes[best] * LEAST_SHARE >= len(words) > 0 else None


def _plain(question: str) -> str:
    """Return a question in one line, with straight apostrophes and without the mark at its end."""
    return " ".join(question.replace("’", "'").split()).rstrip("?！？. ")


def _find(name: str, text: str, patterns: Patterns) -> re.Match[str] | None:
    """Return the match of the first pattern of a name that is in a text."""
    return next((found for one in patterns[name] if (found := one.search(text))), None)


def read_operator(question: str, *, dated: bool) -> TimeOperator | None:
    """Return the kind and anchor of a question's time operator, or None if it shows no sign of one.

    Args:
        question: as it was typed.
        dated: whether it states a date or a stretch of time.

    Example:
        >>> found = read_operator("Which newspaper did Zoë read before Kurier?", dated=False)
        >>> found.kind, found.anchor
        ('predecessor', 'Kurier')
    """
    whole = text = _plain(question)
    code = language_of(whole)
    if code is None:
        return TimeOperator("as_of") if dated else None
    patterns = _patterns_of(code)
    for idiom in patterns["idioms"]:
        text = idiom.sub(lambda found: "\0" * len(found.group()), text)
    if _find("unreal", text, patterns):
        return None
    for kind in _RELATIVE:
        if found := _find(kind, text, patterns):
            span = found.span("anchor") if "anchor" in found.re.groupindex else (0, 0)
            if kind in ("predecessor", "successor"):
                return _neighbour(kind, _cut(whole, *span, patterns), dated)
            return TimeOperator(kind, whole[slice(*span)].strip(_ENDS))
    if _find("now", text, patterns) and not _find("past", whole, patterns):
        return TimeOperator("current")
    if dated:
        return TimeOperator("as_of")
    if _find("first", text, patterns):
        return TimeOperator("first")
    present = not _find("past", whole, patterns) and not _find("not_present", whole, patterns)
    return TimeOperator("current") if present and _find("present", text, patterns) else None


def _cut(whole: str, start: int, end: int, patterns: Patterns) -> str:
    """Return the text that "before" or "after" is relative to, without what follows it."""
    for cut in patterns["cut"]:
        behind = cut.search(whole, start + 1, end)
        end = behind.start() if behind else end
    return whole[start:end].strip(_ENDS)


def _neighbour(kind: OperatorKind, anchor: str, dated: bool) -> TimeOperator | None:
    """Return an operator relative to an anchor, or to the date in it; None if that date was not understood."""
    if dated:
        return TimeOperator("as_of")
    return None if _YEAR.search(anchor) else TimeOperator(kind, anchor)


def _asks(name: str, question: str) -> bool:
    text = _plain(question)
    code = language_of(text)
    return code is not None and _find(name, text, _patterns_of(code)) is not None


def asks_how(question: str) -> bool:
    """Return whether a question asks how or why something was, which no state answers."""
    return _asks("manner", question)


def asks_when(question: str) -> bool:
    """Return whether a question asks for a time: "When", "In which year"."""
    return _asks("asks_when", question)


def asks_for_list(question: str) -> bool:
    """Return whether a question asks for several things: "How many", "What are", "Which books has she"."""
    return _asks("asks_list", question)


def asks_since(question: str) -> bool:
    """Return whether a question asks since when or how long something has been so: "Since when", "How long"."""
    return _asks("span", question)


def operator_words(question: str) -> frozenset[str]:
    """Return the words by which a question's language asks for a time, as search tokens: none is its topic."""
    code = language_of(_plain(question))
    return frozenset() if code is None else frozenset(lexical_tokens(" ".join(_words(code))))


def gap_of(question: str) -> frozenset[str]:
    """Return the prepositions behind which the thing asked for stands: "What does she work *on*", "*Where*"."""
    text = _plain(question)
    code = language_of(text)
    if code is None:
        return frozenset()
    if _asks("where", question):
        return frozenset(_table(code)["words"]["places"].split())
    found = (match for one in _patterns_of(code)["gap"] for match in one.finditer(text))
    return frozenset(match.group().lower() for match in found)
