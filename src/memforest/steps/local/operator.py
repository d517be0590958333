"""Which time operator a question applies, whatever it asks about: "What does Bob open with these days?".

The planner (`memforest.steps.local.plan`) names an operator only when it also knows the attribute, because
"before" and "first" are part of many questions about events. This reading knows no attributes and is surer of
nothing: it is for callers who check the memory for a timeline that fits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["OPERATOR_WORDS", "Operator", "read_operator"]

Kind = Literal["current", "as_of", "predecessor", "successor", "first", "last", "since", "changed_back"]


OPERATOR_WORDS = frozenset(
    [
        "change",
        "changed",
        "changes",
        "changing",
        "switch",
        "switched",
        "switching",
        "swap",
        "swapped",
        "replace",
        "replaced",
        "move",
        "moved",
        "moving",
        "last",
        "latest",
        "recent",
        "recently",
        "most",
        "first",
        "original",
        "originally",
        "initial",
        "initially",
        "current",
        "currently",
        "now",
        "nowadays",
        "present",
        "presently",
        "moment",
        "day",
        "days",
        "today",
        "earlier",
        "former",
        "formerly",
        "previous",
        "previously",
        "old",
        "new",
        "next",
        "right",
        "just",
        "before",
        "after",
        "since",
        "until",
        "when",
        "long",
        "back",
        "return",
        "returned",
        "go",
        "went",
        "going",
        "again",
        "begin",
        "began",
        "beginning",
        "start",
        "started",
        "come",
        "came",
        "get",
        "got",
        "take",
        "took",
        "ever",
        "follow",
        "followed",
        "different",
        "another",
        "use",
        "used",
        "have",
        "had",
        "be",
        "been",
    ]
)
"""Words by which a question asks for a time, lower case; they say nothing of what it asks about."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A time operator and the text that it is relative to ("before *the Pirc*"), empty if there is none."""

    kind: Kind
    anchor: str


_BACK = re.compile(
    r"\b(?:return(?:ed|ing)?|revert(?:ed)?)\b(?: to| from)?(?P<a>.*)"
    r"|\bback (?:to|at|in|into|on|onto|with|together with)\b(?P<b>.*)|\bback\b\W*$"
    r"|\b(?:re-?start|re-?join|re-?subscribe|resume)\w*\b(?P<c>.*)"
    r"|^(?:did|has|is|does|was)\b(?P<d>.*)\bagain\b",
    re.IGNORECASE,
)
_LAST = re.compile(
    r"\b(?:last|most recent(?:ly)?|latest)\b.*\b(?:chang|switch|mov|swap|replac|trad|new|differ|another|updat|upgrad|quit|leav|left|turn)"
    r"|\b(?:chang|switch|mov|swap|replac)\w*\b.*\b(?:last|most recent(?:ly)?|latest)\b|\b(?:last|latest|most recent) time\b.*\b(?:chang|switch|mov|swap|replac)",
    re.IGNORECASE,
)
_SINCE = re.compile(
    r"^\W*(?:since when|(?:for )?how long|from when|as of when)\b(?P<a>.*)"
    r"|^\W*(?:when|what (?:day|date|month|year)|in (?:what|which) (?:month|year)|on (?:what|which) (?:day|date)) "
    r"(?P<b>.*\b(?:start|started|begin|began|become|became|get|got|join|joined|take up|took up|move|moved|switch|switched|change to|changed to|"
    r"adopt|adopted|buy|bought|come|came|arrive|arrived|settle|settled|sign|signed|register|registered|enrol\w*|subscribe\w*|turn|turned|go|went|"
    r"pick|picked|meet|met|marry|married|promoted|hired|acquire|acquired|discover|discovered|put on|assigned)\b.*)",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"\b(?:before|prior to|until|till|up to)\b(?P<a>.+)|\breplaced by\b(?P<b>.+)"
    r"|\b(?:what|which .{1,30}|who) (?:did|has) (?P<c>.{1,60}?) (?:replace|succeed|follow)\b|\b(?:give up|gave up|given up|leave|left|drop|dropped|swap|swapped|trade|traded)\b.{0,30}? (?:for|to join)\b(?P<d>.+)"
    r"|\b(?:previous|former|preceding)(?:ly)?\b",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\b(?:after|following|since leaving|since giving up|once)\b(?P<a>.+)"
    r"|\b(?:replaced|replace|followed|succeeded|superseded)\b(?P<b>.+)|\binstead of\b(?P<c>.+)"
    r"|\b(?:swap|swapped|trade|traded|exchange|exchanged|switch|switched|change|changed)\b(?: from)?(?P<d>.+?) (?:for|to|with)\W*$",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:first|original(?:ly)?|initial(?:ly)?|earliest|to begin with|to start with|in the beginning|at the (?:start|beginning|outset))\b",
    re.IGNORECASE,
)
_NOW = re.compile(
    r"\b(?:now|nowadays|current(?:ly)?|at present|present(?:ly)?|these days|at the moment|right now|today|still|as of (?:now|today)|at this point)\b",
    re.IGNORECASE,
)


def read_operator(question: str, *, dated: bool) -> Operator | None:
    """Return the time operator of an English question, or None if it shows no sign of one.

    Args:
        question: as it was typed.
        dated: whether it states a date or a stretch of time.

    Example:
        >>> read_operator("Which podcast did Zoë listen to before Gravel?", dated=False)
        Operator(kind='predecessor', anchor='Gravel')
    """
    text = question.replace("’", "'").strip().rstrip("?！？ ")
    if _LAST.search(text):
        return Operator("last", "")
    for kind, pattern in _ANCHORED:
        found = pattern.search(text)
        if found is not None:
            anchor = next((group for group in found.groups() if group), "")
            anchor = _AS.split(anchor)[0]
            if dated and kind in ("predecessor", "successor"):
                return Operator("as_of", "")
            return Operator(kind, anchor.strip(" .,"))
    if dated:
        return Operator("as_of", "")
    if _FIRST.search(text):
        return Operator("first", "")
    return Operator("current", "") if _NOW.search(text) else None


_AS = re.compile(r" as (?=[\w']+ )| for (?=[A-Z])")

_ANCHORED: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("changed_back", _BACK),
    ("predecessor", _BEFORE),
    ("successor", _AFTER),
    ("since", _SINCE),
)
