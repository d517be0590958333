"""Long words of the calendar, misspelt: "tommorow", "thrusday", "febuary".

Double letters count once, and one letter may be missing, added, another one or in its neighbour's place. Only words of
seven letters or more are mended, as shorter ones are too near to others ("sundae"). A plural is no misspelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

_LEAST = 7
_DOUBLE = re.compile(r"(.)\1+")


class Spelling:
    """The long ones among some folded words, and what they look like misspelt."""

    def __init__(self, words: Iterable[str]) -> None:
        long = sorted({word for word in words if len(word) >= _LEAST and word.isalpha()})
        known: dict[str, str] = {}
        for word in long:
            for near in _near(_DOUBLE.sub(r"\1", word)):
                known.setdefault(near, word)
        known |= {_DOUBLE.sub(r"\1", word): word for word in long}
        first = "".join(sorted({word[0] for word in long})) or "-"
        self.like = re.compile(rf"(?<!\w)[{first}][^\W\d_]{{5,10}}(?!\w)", re.IGNORECASE)
        """Every word that may be one of them."""
        self.meant = lru_cache(maxsize=4096)(lambda word: _meant(word, known))
        """Return the word that a folded one is a misspelling of, or None."""


def mended(
    text: str, positions: Sequence[int] | None, spellings: Sequence[Spelling]
) -> tuple[str, Sequence[int] | None]:
    """Return a folded text with such words spelt right, and where each of its characters came from.

    Args:
        text: folded; see `memforest.calendar.fold`.
        positions: of its characters and its end in the original; None if they are those of `text`.
        spellings: of the languages in use.
    """
    for spelling in spellings:
        found = [
            (match, word)
            for match in spelling.like.finditer(text)
            if (word := spelling.meant(match[0].lower())) is not None
        ]
        if found:
            text, positions = _replaced(text, range(len(text) + 1) if positions is None else positions, found)
    return text, positions


def _replaced(
    text: str, positions: Sequence[int], found: Sequence[tuple[re.Match[str], str]]
) -> tuple[str, Sequence[int]]:
    pieces: list[str] = []
    places: list[int] = []
    done = 0
    for match, word in found:
        start, end = match.span()
        pieces += text[done:start], word.capitalize() if match[0][0].isupper() else word
        places += positions[done:start]
        places += (positions[min(start + at, end - 1)] for at in range(len(word)))
        done = end
    return "".join([*pieces, text[done:]]), [*places, *positions[done:]]


def _meant(word: str, known: Mapping[str, str]) -> str | None:
    """Return the word that is misspelt so; None if it is none, or spelt right, or in the plural."""
    for near in _near(_DOUBLE.sub(r"\1", word)):
        meant = known.get(near)
        if meant and meant[0] == word[0] and abs(len(meant) - len(word)) < 3:
            return None if word.startswith(meant) else meant
    return None


def _near(word: str) -> Iterator[str]:
    """Yield a word, and it with each letter but the first left out."""
    yield word
    for at in range(1, len(word)):
        yield word[:at] + word[at + 1 :]
