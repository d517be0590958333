"""Words of change and the things behind them: "dropped the *oolong* for the *sencha*", "plays the *flute*".

This reading looks at one sentence and asks nobody whom it is about: it finds out which of a memory's phrases
are things that are begun, ended or had at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memforest.language.aspect import Stance, rules
from memforest.language.contrast import linked_order
from memforest.language.phrases import Phrase, Sentence

_REACH = 48
"""Characters in front of a phrase in which the word that governs it stands."""


@dataclass(frozen=True, slots=True)
class Place:
    """The phrases that start at one place of a sentence, and what the words before them say."""

    phrases: tuple[Phrase, ...]
    before: int
    """Where the text before them ends, without articles and owners."""
    stance: Stance | None
    """``end``, ``start`` or ``back`` behind a word of change."""
    held: bool
    """Behind a verb in the present, or owned."""


def places(sentence: Sentence) -> tuple[Place, ...]:
    """Return the places of a sentence from left to right; they depend on its text alone."""
    at: dict[int, list[Phrase]] = {}
    for phrase in sentence.phrases:
        at.setdefault(phrase.start, []).append(phrase)
    found = []
    for start, phrases in sorted(at.items()):
        text = sentence.text[:start]
        before = _DETERMINERS.sub("", text)
        found.append(Place(tuple(phrases), len(before), _governor(before), _HOLDER.search(text) is not None))
    return tuple(found)


def turning_points(text: str, places: Sequence[Place], uses: Mapping[str, int]) -> list[tuple[str, Stance]]:
    """Return the phrases right behind a word of change: (term, ``end`` | ``start`` | ``back``), in order.

    Of the phrases that overlap, the one that the memory uses most, for its length, counts.

    Args:
        text: of a sentence.
        places: of it.
        uses: how often the memory uses each term; phrases of others do not count.
    """
    found: list[tuple[int, str, Stance]] = []
    left = -1
    for place in places:
        stance = place.stance
        if stance is None and left < 0:
            continue
        best = _most_used(place, uses)
        if best is None:
            continue
        if stance is None and _ONWARD.search(text[left : place.before]):
            stance = "start"
        if stance is None or (found and found[-1][0] >= best.start):
            continue
        left = best.end if stance == "end" else left
        found.append((best.end, best.term, stance))
    return [(term, stance) for _, term, stance in found]


def exchanged(text: str, places: Sequence[Place], uses: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (old, new) terms of which a sentence tells by the words between that one took the other's place."""
    found = [best for place in places if (best := _most_used(place, uses)) is not None]
    orders = (linked_order(text, one, other) for one, other in pairwise(found) if one.end <= other.start)
    return [(old.term, new.term) for old, new in filter(None, orders) if old.term != new.term]


def held_phrases(places: Sequence[Place], uses: Mapping[str, int]) -> Iterator[str]:
    """Yield the phrases that are the object of a verb in the present or a possession: "plays the *flute*"."""
    for place in places:
        if place.held and (best := _most_used(place, uses)) is not None:
            yield best.term


def _most_used(place: Place, uses: Mapping[str, int]) -> Phrase | None:
    """Return the phrase of a place that the memory uses most, for its length; None if it uses none of them."""
    best = most_used([phrase.term for phrase in place.phrases], uses)
    return next((phrase for phrase in place.phrases if phrase.term == best), None)


def most_used(terms: Sequence[str], uses: Mapping[str, int]) -> str | None:
    """Return the term that the memory uses most, for its length, of those that begin at one place."""
    known = [term for term in terms if term in uses]
    return max(known, key=lambda term: (uses[term] * len(term.split()), len(term)), default=None)


_HOLDER = re.compile(
    r"(?:\w(?:s|ing)|\b(?:has|have|had|been|is|am|are))(?: (?:still|now|also|currently|already|just))?(?: (?:at|in|on|with|to|for|by|as|of|after))?"
    r"(?:\s+(?:an?|the|that|his|her|their|my|[\w']+'s))?\s+$"
)


_DETERMINERS = re.compile(
    r"(?<!\s)(?:\s+(?:a|an|the|his|her|their|my|its|some|new|old|another|that|this|[\w']{1,40}'s)){0,8}\s*$",
    re.IGNORECASE,
)


_ONWARD = re.compile(r"\b(?:to|for|with|onto|into)$", re.IGNORECASE)


def _governor(before: str) -> Stance | None:
    """Return the change told by the word of change that ends a text, if one does."""
    wording = rules()
    tail = before[-_REACH:]
    for name, stance in _TURNS:
        if any(match.end() == len(tail) for match in wording[name].finditer(tail)):
            return stance
    return None


_TURNS: tuple[tuple[str, Stance], ...] = (("again", "back"), ("leave", "end"), ("enter", "start"))
