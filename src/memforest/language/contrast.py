"""Two things that a sentence sets against each other: "from *A* to *B*", "*B* instead of *A*", "*A* is history, *B* it is".

Which of the two is the new one shows in the words between them and in front of them, whatever the verb is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from memforest.language.aspect import Stance, rules
from memforest.language.phrases import Phrase


def contrasted(text: str, phrases: Sequence[Phrase], found: Mapping[Phrase, Stance]) -> dict[Phrase, Stance]:
    """Return the changed stances of those phrases that a sentence sets against each other; empty if it sets none.

    Args:
        text: of a sentence.
        phrases: of it, things of one kind, from left to right.
        found: how the sentence stands to each of them alone.
    """
    turned: dict[Phrase, Stance] = {}
    for one, other in pairwise(phrases):
        if one.term == other.term or _BESIDE.fullmatch(text[one.end : other.start]):
            continue
        order = _order(text, one, other, found)
        if order is None:
            continue
        old, new = order
        turned[old] = "end"
        if found[new] != "back" and (new is other or found[new] != "is"):
            turned[new] = "start"
        else:
            turned[new] = found[new]
    return turned


def _order(
    text: str, one: Phrase, other: Phrase, found: Mapping[Phrase, Stance]
) -> tuple[Phrase, Phrase] | None:
    """Return the old and the new one of two things, or None if a sentence does not tell."""
    linked = linked_order(text, one, other)
    if linked is not None:
        taken_back = linked[0] is other and (found[one] == "unreal" or found[other] == "back")
        return None if taken_back else linked
    between, behind = text[one.end : other.start], text[other.end :]
    if found[other] in ("unreal", "over", "end") or not _NEXT.search(between):
        return None
    gone = found[one] in ("end", "over") or rules()["gone"].match(text[one.end :].lstrip())
    not_it = found[one] in ("event", "unreal") and (
        found[other] in ("start", "back") or _LATELY.search(between + behind) is not None
    )
    return (one, other) if gone or not_it else None


def linked_order(text: str, one: Phrase, other: Phrase) -> tuple[Phrase, Phrase] | None:
    """Return the old and the new one of two things by the words that link them alone, or None if none do."""
    before, between = text[: one.start], text[one.end : other.start]
    if len(between) > LONGEST_LINK:
        return None
    handed = _FROM.search(before) or _CHANGED.search(before) or "over to" in between
    if handed and _ONTO.fullmatch(between):
        return one, other
    wording = rules()
    if wording["for_old"].search(between) or wording["of_new"].fullmatch(between.strip()):
        return other, one
    return None


LONGEST_LINK = 60
"""Characters between two things that a sentence may still set against each other by a word or two."""


_BESIDE = re.compile(
    r"(?:,| and| or| &|,? as well as)(?: (?:the|an?|her|his|their|my|our))?\s*", re.IGNORECASE
)
"""What stands between two things of which neither takes the other's place."""
_FROM = re.compile(r"\bfrom(?: (?:the|an?|her|his|their|my|our|old|\w+'s)){0,3}\s+$", re.IGNORECASE)
_CHANGED = re.compile(r"\bchang\w+(?: (?:the|an?|her|his|their|my|our|old|\w+'s)){0,3}\s+$", re.IGNORECASE)
_ONTO = re.compile(
    r".*(?<!\w)(?:to|into|onto|for|with)(?: (?:the|an?|her|his|their|my|our|new|\w+'s)){0,3}\s+$",
    re.IGNORECASE,
)
_NEXT = re.compile(r"[,;:]|\b(?:and|so|but|then|now)\b", re.IGNORECASE)
"""What leads from what was to what is."""
_LATELY = re.compile(r"\b(?:now|these days|nowadays|instead|since)\b", re.IGNORECASE)
