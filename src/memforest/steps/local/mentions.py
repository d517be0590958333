"""Finds the entities that a question names, by looking its words up in the memory's own names.

The longest name wins; a possessive 's does not hide it. Scripts without spaces are searched at every
character. A lower-case "will" or "may" is no name, and neither is one at the start of a question.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

MASK = "§"
"""Stands for a name in a masked question."""

MAX_NAME_WORDS = 6
MAX_UNSPACED_CHARS = 16


@dataclass(frozen=True, slots=True)
class MaskedQuestion:
    """A question with its names found.

    `text` is the question in NFC with straight apostrophes, `masked` the same in lower case with `MASK` for
    each name, `origin` the index in `text` of every character of `masked` (and of its end). `entities`
    are (display name, start in `text`) in order of appearance.
    """

    text: str
    masked: str
    origin: tuple[int, ...]
    entities: tuple[tuple[str, int], ...]

    def original(self, start: int, end: int) -> str:
        """Return the piece of `text` that ``masked[start:end]`` stands for."""
        return self.text[self.origin[start] : self.origin[end]]

    @property
    def named(self) -> frozenset[int]:
        """The places of `text` that belong to a name."""
        ends = self.origin[1:]
        return frozenset(
            at
            for ch, start, end in zip(self.masked, self.origin, ends, strict=False)
            if ch == MASK
            for at in range(start, end)
        )

    def without(self, spans: Sequence[tuple[int, int]], words: Collection[str] = ()) -> MaskedQuestion:
        """Return the question with the given spans of `text`, and all of some words (lower case), blanked."""
        text, masked = list(self.text), list(self.masked)
        places = [(at, at + len(word)) for word in words for at in _places(word, self.text.casefold())]
        for start, end in (*spans, *places):
            text[start:end] = " " * (end - start)
        for at, origin in enumerate(self.origin[:-1]):
            if text[origin] == " ":
                masked[at] = " "
        return MaskedQuestion("".join(text), "".join(masked), self.origin, self.entities)


def _places(word: str, text: str) -> list[int]:
    """Return where a word stands."""
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def read_mentions(question: str, names: Mapping[str, str], common: Collection[str]) -> MaskedQuestion:
    """Return a question with the names it mentions.

    Args:
        question: as it was typed.
        names: case-folded surface form -> display name.
        common: lower-case words that are a name only with a capital inside the question ("will").
    """
    text = unicodedata.normalize("NFC", question).replace("’", "'").replace(MASK, " ")
    folded, origin = _fold(text)
    masked: list[str] = []
    back: list[int] = []
    entities: list[tuple[str, int]] = []
    at = 0
    while at < len(folded):
        end = _name_end(folded, at, names)
        name = folded[at:end]
        if end > at and not (name in common and not _is_inner_capital(text, origin[at])):
            entities.append((names[name], origin[at]))
            masked.append(MASK)
            back.append(origin[at])
            at = end
        else:
            masked.append(folded[at])
            back.append(origin[at])
            at += 1
    return MaskedQuestion(text, "".join(masked), (*back, len(text)), tuple(entities))


def _fold(text: str) -> tuple[str, list[int]]:
    """Return `text` case-folded, and for each of its characters the index in `text`."""
    pieces: list[str] = []
    origin: list[int] = []
    for i, ch in enumerate(text):
        folded = ch.casefold()
        pieces.append(folded)
        origin.extend([i] * len(folded))
    return "".join(pieces), origin


def _is_word(ch: str) -> bool:
    """Return whether a character belongs to a word; combining marks do."""
    return ch.isalnum() or unicodedata.category(ch).startswith("M")


def _is_unspaced(ch: str) -> bool:
    """Return whether a character is of a script that is written without spaces."""
    return (
        "\u2e80" <= ch <= "\u9fff"
        or "\u3040" <= ch <= "\u30ff"
        or "\uac00" <= ch <= "\ud7af"
        or "\u0e00" <= ch <= "\u0eff"
    )


def _name_end(folded: str, at: int, names: Mapping[str, str]) -> int:
    """Return where the longest name that starts at `at` ends, or `at` if none does."""
    unspaced = _is_unspaced(folded[at])
    if not unspaced and (not _is_word(folded[at]) or (at > 0 and _is_word(folded[at - 1]))):
        return at
    found = at
    if unspaced:
        for end in range(at + 1, min(len(folded), at + MAX_UNSPACED_CHARS) + 1):
            if folded[at:end] in names:
                found = end
        return found
    words = 0
    for end in range(at + 1, len(folded) + 1):
        if not _is_word(folded[end - 1]) or (
            end < len(folded) and _is_word(folded[end]) and not _is_unspaced(folded[end])
        ):
            continue
        words += 1
        if folded[at:end] in names:
            found = end
        if words == MAX_NAME_WORDS or end - at > 120:
            break
    return found


def _is_inner_capital(text: str, at: int) -> bool:
    """Return whether a word is capitalised although it does not begin the question."""
    return at > 0 and text[at].isupper() and any(ch.isalnum() for ch in text[:at])
