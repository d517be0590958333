"""Words of a text in any script: how many there are, and the first so many of them."""

from __future__ import annotations

import re
import unicodedata

from memforest.text import UNSPACED

WORD = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\s…。{UNSPACED}]{{1,24}}")


def count_words(text: str) -> int:
    """Return the number of words of a text in any script.

    A word is a run of up to 24 non-space characters (a longer run counts once per 24 begun), or two
    characters of a script without spaces. An ellipsis counts nothing.

    >>> count_words("Bob moved to Miami."), count_words("我住在北京"), count_words("")
    (4, 3, 0)
    """
    if text.isascii():
        parts = text.split()
        if max(map(len, parts), default=0) <= 24:
            return len(parts)  # what the expression counts, five times faster
    return len(WORD.findall(text))


def cut_words(text: str, limit: int) -> str:
    """Return the first `limit` words of a text, with an ellipsis if there are more; a shorter text as it is.

    >>> cut_words("Bob moved from Miami to Lima.", 4)
    'Bob moved from Miami…'
    """
    if count_words(text) <= limit:
        return text
    end = 0
    for _, word in zip(range(limit), WORD.finditer(text), strict=False):
        end = word.end()
    while end and end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end -= 1  # never part a letter from its mark
    kept = text[:end].rstrip(" ,;:—–，、；،")
    return f"{kept}…" if kept else ""
