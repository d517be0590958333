"""Cuts a turn into sentences, by rule and in linear time.

A sentence ends at ``. ! ? …`` followed by white space, at ``。！？`` anywhere, and at a line break. Abbreviations,
initials, decimals, clock times ("3 p.m.") and addresses of the web stay whole. Works for every script that
uses one of these marks; a text without any is one sentence. Clauses are not split: a statement keeps its
"because".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memforest.text import word_set

MAX_PIECE_CHARS = 600
"""Longest piece in characters. What is longer is cut at white space, or hard where there is none."""

# One candidate for an end of sentence: marks and closing quotes, then white space or the end of the text.
_END = re.compile(
    r"""(?P<cjk>[。！？｡]+[」』”’）)"']*)|(?P<mark>[.!?…؟।]{1,32}["'”’»)\]*_]{0,4})(?=\s|$)|(?P<line>\n\s*)"""
)
# "am 5. März 2024": many languages write the number of a day so.
_DATE_GOES_ON = re.compile(r" [^\W\d_]{3,12}\.? \d{4}(?!\w)")
_LAST_WORD = re.compile(r"[\w.]+$")
# Never end a sentence, whatever follows.
_TITLES = word_set(
    "mr mrs ms dr prof st vs sr sra jr vol fig approx ca etc e.g i.e cf col gen lt sgt rev hon"
)
# End a sentence only before a capital letter.
_MAYBE_END = word_set(
    "p.m a.m pm am inc ltd co corp u.s u.k ee.uu etc jan feb mar apr jun jul aug sep sept oct nov dec"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence of a turn: ``text == turn[start:end]``, trimmed."""

    start: int
    end: int
    text: str


def split_sentences(text: str) -> list[Piece]:
    """Return the sentences of `text` in order, trimmed, none empty, none longer than `MAX_PIECE_CHARS`.

    A piece without any letter or digit (an emoji, a row of dashes) joins the piece before it.

    >>> [p.text for p in split_sentences("Dr. Wu came at 3 p.m. today. It cost 3.50! 好。行")]
    ['Dr. Wu came at 3 p.m. today.', 'It cost 3.50!', '好。', '行']
    """
    pieces: list[Piece] = []
    begin = 0
    for match in _END.finditer(text):
        if match.lastgroup == "mark" and _is_inside(text, begin, match):
            continue
        end = match.start() if match.lastgroup == "line" else match.end()
        _append(pieces, text, begin, end)
        begin = match.end()
    _append(pieces, text, begin, len(text))
    return pieces


def _is_inside(text: str, begin: int, match: re.Match[str]) -> bool:
    """Return whether the mark found belongs to an abbreviation or an initial, not to an end of sentence."""
    if match.group() != ".":
        return False
    before = _LAST_WORD.search(text, max(begin, match.start() - 12), match.start())
    if before is None:
        return False
    word = before.group()
    lowered = word.lower()
    after = text[match.end() : match.end() + 40].lstrip()[:1]
    if lowered in _TITLES:
        return True
    if lowered == "no":
        return after.isdecimal()
    if lowered in _MAYBE_END:
        return bool(after) and not after.isupper()
    if len(word) == 1 and word.isupper() and word != "I":
        return after.isupper()
    if lowered.isdecimal() and _DATE_GOES_ON.match(text, match.end()):
        return True
    return lowered.isdecimal() and before.start() == begin + _blank(text, begin)


def _blank(text: str, begin: int) -> int:
    """Return how many blanks follow `begin`, at most 8: "1." at the start of a line is a list number."""
    return len(text[begin : begin + 8]) - len(text[begin : begin + 8].lstrip())


def _append(pieces: list[Piece], text: str, begin: int, end: int) -> None:
    """Add ``text[begin:end]``, trimmed, in parts of bounded length; without a letter it joins the piece before."""
    while begin < end and text[begin].isspace():
        begin += 1
    while end > begin and text[end - 1].isspace():
        end -= 1
    if begin == end:
        return
    if end - begin <= 64 and pieces and not any(ch.isalnum() for ch in text[begin:end]):
        last = pieces[-1]
        if end - last.start <= MAX_PIECE_CHARS:
            pieces[-1] = Piece(last.start, end, text[last.start : end])
            return
    while end - begin > MAX_PIECE_CHARS:
        at = text.rfind(" ", begin + MAX_PIECE_CHARS // 2, begin + MAX_PIECE_CHARS)
        at = at if at > 0 else begin + MAX_PIECE_CHARS
        pieces.append(Piece(begin, at, text[begin:at]))
        begin = at + (text[at] == " ")
    pieces.append(Piece(begin, end, text[begin:end]))
