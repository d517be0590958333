"""Words of change and the things behind them: "dropped the *oolong* for the *sencha*", "plays the *flute*".

This reading looks at one sentence and asks nobody whom it is about: it finds out which of a memory's phrases
are things that are begun, ended or had at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from memforest.steps.local.aspect import rules
from memforest.steps.local.phrases import Phrase, Sentence
from memforest.steps.local.stance import Stance

__all__ = ["held_phrases", "turning_points"]

_REACH = 48
"""Characters in front of a phrase in which the word that governs it stands."""


def turning_points(sentence: Sentence, uses: Mapping[str, int]) -> list[tuple[str, Stance]]:
    """Return the phrases right behind a word of change: (term, ``end`` | ``start`` | ``back``), in order.

    Of the phrases that overlap, the one that the memory uses most, for its length, counts.
    """
    found: list[tuple[int, str, Stance]] = []
    left = -1
    for start, phrases in _by_place(sentence, uses):
        before = _DETERMINERS.sub("", sentence.text[:start])
        stance = _governor(before)
        if stance is None and left >= 0 and _ONWARD.search(sentence.text[left : len(before)]):
            stance = "start"
        if stance is None:
            continue
        best = max(phrases, key=lambda p: (uses.get(p.term, 0) * len(p.term.split()), len(p.term)))
        if found and found[-1][0] >= best.start:
            continue
        left = best.end if stance == "end" else left
        found.append((best.end, best.term, stance))
    return [(term, stance) for _, term, stance in found]


def held_phrases(sentence: Sentence, uses: Mapping[str, int]) -> Iterator[str]:
    """Yield the phrases that are the object of a verb in the present or a possession: "plays the *flute*"."""
    for start, phrases in _by_place(sentence, uses):
        if _HOLDER.search(sentence.text[:start]):
            yield max(phrases, key=lambda p: (uses.get(p.term, 0) * len(p.term.split()), len(p.term))).term


_HOLDER = re.compile(
    r"(?:\w(?:s|ing)|\b(?:has|have|had|been|is|am|are))(?: (?:still|now|also|currently|already|just))?(?: (?:at|in|on|with|to|for|by|as|of|after))?"
    r"(?:\s+(?:an?|the|that|his|her|their|my|[\w']+'s))?\s+$"
)


_DETERMINERS = re.compile(
    r"(?<!\s)(?:\s+(?:a|an|the|his|her|their|my|its|some|new|old|another|that|this|[\w']{1,40}'s)){0,8}\s*$",
    re.IGNORECASE,
)


_ONWARD = re.compile(r"\b(?:to|for|with|onto|into)$", re.IGNORECASE)


def _by_place(sentence: Sentence, uses: Mapping[str, int]) -> Iterator[tuple[int, list[Phrase]]]:
    """Yield the phrases that start at the same place, from left to right; only what the memory uses."""
    places: dict[int, list[Phrase]] = {}
    for phrase in sentence.phrases:
        if phrase.term in uses:
            places.setdefault(phrase.start, []).append(phrase)
    yield from sorted(places.items())


def _governor(before: str) -> Stance | None:
    """Return the change told by the word of change that ends a text, if one does."""
    wording = rules()
    tail = before[-_REACH:]
    for name, stance in _TURNS:
        if any(match.end() == len(tail) for match in wording[name].finditer(tail)):
            return stance
    return None


_TURNS: tuple[tuple[str, Stance], ...] = (("again", "back"), ("leave", "end"), ("enter", "start"))
