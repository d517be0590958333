"""Makes text comparable without moving a character: accents and typographic quotes are levelled.

Case is left to the regular expressions, because lower-casing may change a text's length.
"""

from __future__ import annotations

import unicodedata

_LAST_LATIN = 0x2100
_QUOTES = {0x2018: 0x27, 0x2019: 0x27, 0x201B: 0x27, 0x02BC: 0x27, 0xFF07: 0x27}


class _Levels(dict[int, int]):
    """Code point -> the one it is read as, worked out on first use."""

    def __missing__(self, code: int) -> int:
        if code >= _LAST_LATIN:
            return code
        parts = unicodedata.normalize("NFD", chr(code))
        marked = len(parts) > 1 and all(map(unicodedata.combining, parts[1:]))
        level = ord(parts[0]) if marked else code
        self[code] = level
        return level


_LEVELS = _Levels(_QUOTES)


def fold_word(text: str, *, lower: bool = True) -> str:
    """Return `text` composed, without accents, with single spaces and in lower case unless told not to.

    Example:
        >>> fold_word("Miércoles  próximo")
        'miercoles proximo'
    """
    folded = unicodedata.normalize("NFC", text).translate(_LEVELS)
    return " ".join(folded.lower().split()) if lower else folded


def fold_text(text: str) -> tuple[str, list[int] | None]:
    """Return `text` without accents, and where each of its characters came from.

    The positions are None when they are those of `text`, which is so for all composed (NFC) text. They
    have one entry more than the folded text, for its end.
    """
    if text.isascii():
        return text, None
    if unicodedata.is_normalized("NFC", text):
        return text.translate(_LEVELS), None
    kept: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        if unicodedata.combining(character) and kept:
            continue  # the mark belongs to the letter before, which is what stays
        kept.append(character)
        positions.append(position)
    positions.append(len(text))
    return "".join(kept).translate(_LEVELS), positions


def level_quotes(text: str) -> str:
    """Return `text` with straight apostrophes; no character moves, and accents stay."""
    return text if text.isascii() else text.translate(_QUOTES)
