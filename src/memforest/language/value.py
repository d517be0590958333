"""Cuts a value out of the text behind a verb, and checks that it is of the type its pattern wants.

Trailing clauses and dates go ("last May", "because …", "(7 May 2023)"), articles and "new" in front go; the
value is always a piece of the text, never rewritten.
"""

from __future__ import annotations

import re
from itertools import pairwise

from memforest.language.lexicon import Lexicon

__all__ = ["MAX_VALUE_WORDS", "Span", "accept_value"]

Span = tuple[int, int]
"""A half-open piece of a sentence, in characters."""

MAX_VALUE_WORDS = 7
"""A longer piece of text is a clause, not a value."""

_FIRST_WORD = re.compile(r"\s*[^\W_][\w'.&+-]*")
_REGION = re.compile(r",\s+[A-Z][\w.]*(?:\s[A-Z]\w*)?(?=\s*(?:$|[,.(;]))")
_JOINED = re.compile(r",(?!\d)|[;\x00]|\s(?:and|but|who|which|y|pero|que)(?:\s|$)", re.IGNORECASE)
_HEAD_END = re.compile(
    r"(?<!\s)\s+(?:at|for|in|from|with|on|under|by|about|named|called|like|to|en|para|con|llamad[oa])\s",
    re.IGNORECASE,
)
_CLOSING = {'"': '"', "“": "”", "«": "»", "'": "'", "‘": "’"}
_NUMBER = re.compile(
    r"(?:about |around |roughly |almost |nearly |over |only |~)?[$€£¥₹+(#]?\s?\d", re.IGNORECASE
)
_MARKS = "\"'“”«»‘’*_ \t\n\r\f\v"
_MARKS_BEHIND = _MARKS + ".,;:!-"
_VERBAL = ("ing", "ed")
_NOT_A_ROLE = frozenset(
    ("good", "great", "excellent", "amazing", "wonderful", "terrible", "big", "better", "talented", "own")
)


def accept_value(text: str, span: Span, kind: str, lexicon: Lexicon, *, last: bool) -> Span | None:
    """Return the value inside `span`, trimmed, or None if there is none of type `kind`.

    Args:
        text: the sentence.
        span: where the value stands, perhaps with a tail behind it.
        kind: a type (place, org, workplace, name, np, title, solid, num, date) or a list of the lexicon.
        lexicon: the language.
        last: whether the value runs to the end of the match, so that its tail has to be cut; a value
            in the middle must not contain a conjunction instead.
    """
    if not last and _JOINED.search(text, *span):
        return None
    start, end, had_article = trim_value(text, span, lexicon, region=kind == "place")
    cut = _HEAD_END.search(text, start, end) if kind in lexicon.kinds or kind == "title" else None
    if cut and kind in ("role", "subject", "title"):
        end, cut = cut.start(), None
    value = text[start:end]
    words = value.lower().split()
    if not words or len(words) > MAX_VALUE_WORDS or words[0] in lexicon.words["empty"]:
        return None
    if cut:  # a dog named Max is no streaming service
        words = text[start : cut.start()].lower().split()
    return (start, end) if _fits(value, words, kind, lexicon, article=had_article) else None


def trim_value(text: str, span: Span, lexicon: Lexicon, *, region: bool) -> tuple[int, int, bool]:
    """Return where the value inside `span` starts and ends, and whether an article or the like was cut off.

    Args:
        text: the sentence.
        span: where the value stands, perhaps with a tail behind it.
        lexicon: the language.
        region: whether "Austin, Texas" is one value.
    """
    end = _cut_tail(text, *span, lexicon, region=region)
    start = _strip_front(text, span[0], end, lexicon)
    had_article = text[span[0] : start].strip() != ""
    closing = text.find(_CLOSING.get(text[start : start + 1], "\0"), start + 1, span[1])
    if closing > 0:
        return start + 1, closing, False
    while end > start and (text[end - 1].isspace() or text[end - 1] in _MARKS_BEHIND):
        end -= 1
    while start < end and text[start] in _MARKS:
        start += 1
    return start, end, had_article


def _cut_tail(text: str, start: int, end: int, lexicon: Lexicon, *, region: bool) -> int:
    """Return where the value ends: at punctuation or the first word that begins a tail."""
    stop = lexicon.stops.search(text, start, end)
    if stop is None:
        return end
    named = _REGION.match(text, stop.start(), end) if region and stop.group() == "," else None
    if named is not None:
        return named.end()
    return stop.start()


def _strip_front(text: str, start: int, end: int, lexicon: Lexicon) -> int:
    """Return where the value begins behind white space, articles and qualifiers in lower case."""
    skip = lexicon.words["front"]
    while True:
        word = _FIRST_WORD.match(text, start, end)
        if word is None or word.end() >= end or word.group().strip() not in skip:
            break
        start = word.end()
    while start < end and text[start].isspace():
        start += 1
    return start


def _is_capital(text: str) -> bool:
    """Return whether a text can be a name: a capital, or a letter of a script without capitals."""
    first = text[:1]
    return first.isupper() or (first.isalpha() and not first.islower())


def _fits(value: str, words: list[str], kind: str, lexicon: Lexicon, *, article: bool) -> bool:
    """Return whether a trimmed value is of type `kind`."""
    capital = _is_capital(value)
    if kind in ("np", "title", "solid"):
        return kind != "solid" or capital or _NUMBER.match(value) is not None
    if kind == "place":
        listed = len(words) <= 5 and not lexicon.words["place"].isdisjoint(words)
        return (capital or listed) and lexicon.words["not_place"].isdisjoint(words[:1])
    if kind in ("org", "workplace"):
        named = capital or value[:1].isdecimal() or (kind == "workplace" and article)
        return named and lexicon.words["not_org"].isdisjoint(words)
    if kind == "name":
        return capital and len(words) <= 4
    if kind in ("num", "date"):
        return _NUMBER.match(value) is not None or (kind == "date" and capital)
    if not words or (words[0].endswith(_VERBAL) and not article and words[0] not in lexicon.kinds[kind]):
        return False  # "is hoping a producer …", "has liked turtles": a verb that the lexicon does not know
    return _is_of_kind(words, kind, lexicon)


def _is_of_kind(words: list[str], kind: str, lexicon: Lexicon) -> bool:
    """Return whether a noun phrase is of a listed kind: its last word for a role, any word otherwise."""
    listed = lexicon.kinds[kind]
    if not lexicon.words["not_kind"].isdisjoint(words):
        return False
    if kind == "role":
        if words[0] in _NOT_A_ROLE or any(word.endswith("'s") for word in words):
            return False
        at = words.index("of") if "of" in words else len(words)
        words = words[max(0, at - 2) : at]
        return bool(words) and (words[-1] in listed or " ".join(words) in listed)
    pairs = map(" ".join, pairwise(words))
    return any(word in listed or (word.endswith("s") and word[:-1] in listed) for word in (*words, *pairs))
