"""Which time operator a question applies, whatever it asks about: "What does Bob open with these days?".

The planner (`memforest.steps.local.plan`) takes an operator for the kind of a question only when it also knows the
attribute, because "before" and "first" are part of many questions about events. This reading knows no attributes and is
surer of nothing: it is for an index that looks whether its memory has a timeline that fits.
"""

from __future__ import annotations

import re

from memforest.types import OperatorKind, TimeOperator

__all__ = ["OPERATOR_WORDS", "asks_for_state", "asks_how", "asks_since", "gap_of", "read_operator"]


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


_BACK = re.compile(
    r"\b(?:return(?:ed|ing)?|revert(?:ed)?)\b(?: to| from)?(?P<a>.*)"
    r"|\bback (?:to|at|in|into|on|onto|with|together with)\b(?P<b>.*)|\bback\b\W*$"
    r"|\b(?:re-?start|re-?join|re-?subscribe|resume)\w*\b(?P<c>.*)"
    r"|^(?:did|has|is|does|was)\b(?P<d>.*)\bagain\b|\bagain\W*$",
    re.IGNORECASE,
)
_WHEN_LAST = re.compile(r"^\W*when (?:did|has|have|was|were) .{1,60}? last [a-z]", re.IGNORECASE)
_LATEST = re.compile(r"\b(?:last|(?:most|how) recent(?:ly)?|latest)\b", re.IGNORECASE)
_TURN = re.compile(r"\b(?:chang|switch|mov|swap|replac)\w*\b", re.IGNORECASE)
_TURN_OR_NEW = re.compile(
    r"\b(?:chang|switch|mov|swap|replac|trad|new|differ|another|updat|upgrad|quit|leav|left|turn)",
    re.IGNORECASE,
)
_SINCE = re.compile(
    r"^\W*(?:since when|(?:for )?how long|from when|as of when)\b(?P<a>.*)"
    r"|^\W*(?:when|what (?:day|date|month|year)|in (?:what|which) (?:month|year)|on (?:what|which) (?:day|date)) "
    r"(?P<b>.*\b(?:start|started|begin|began|become|became|get|got|join|joined|take up|took up|move|moved|switch|switched|change to|changed to|"
    r"adopt|adopted|buy|bought|come|came|arrive|arrived|settle|settled|sign|signed|register|registered|enrol\w*|subscribe\w*|turn|turned|"
    r"pick|picked|marry|married|promoted|hired|acquire|acquired|discover|discovered|put on|assigned)\b.*)",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"\b(?:before|prior to|until|till|up to)\b(?P<a>.+)|\breplaced by\b(?P<b>.+)"
    r"|\b(?:what|which .{1,30}|who) (?:did|has) (?P<c>.{1,60}?) (?:replace|succeed|follow)\b(?! .{1,80} with$)|\b(?:give up|gave up|given up|leave|left|drop|dropped|swap|swapped|trade|traded)\b.{0,30}? (?:for|to join)\b(?P<d>.+)"
    r"|\bpreceded\b(?P<e>.+)|\b(?:previous|former|preceding)(?:ly)?\b",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\b(?:after|following|since leaving|since giving up|once)\b(?P<a>.+)"
    r"|\b(?:replaced|replace|followed|succeeded|superseded)\b(?P<b>.+)|\b(?:instead|(?:took|take) the place) of\b(?P<c>.+)|\b(?:move|go|switch|change)d? (?:on |over )?(?:to )?from\b(?P<e>.+)"
    r"|\b(?:swap|swapped|trade|traded|exchange|exchanged|switch|switched|change|changed)\b(?: from)?(?P<d>.{1,80}?) (?:for|to|with)\W*$",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:first|original(?:ly)?|initial(?:ly)?|earliest|to begin with|to start with|start(?:ed)? (?:out|off)|beg[ai]n with|before any(?:thing)? (?:other|else)|in the beginning|at the (?:start|beginning|outset))\b",
    re.IGNORECASE,
)
_NOW = re.compile(
    r"\b(?:now|nowadays|current(?:ly)?|at present|present(?:ly)?|these days|at the moment|right now|today|still|as of (?:now|today)|at this point)\b",
    re.IGNORECASE,
)

_PRESENT = re.compile(
    r"^\W*(?:[\w, ]+, )?(?:in |at |on |to |with |by |for )?(?:what|which|who|whose|where)(?:'s|\b(?!.*\b(?:did|was|were|had|will|would|should|could|might)\b))",
    re.IGNORECASE,
)
"""A question for a thing, place or person that is not in the past or the future is one about now."""


def read_operator(question: str, *, dated: bool) -> TimeOperator | None:
    """Return the kind and anchor of an English question's time operator, or None if it shows no sign of one.

    Args:
        question: as it was typed.
        dated: whether it states a date or a stretch of time.

    Example:
        >>> found = read_operator("Which newspaper did Zoë read before Kurier?", dated=False)
        >>> found.kind, found.anchor
        ('predecessor', 'Kurier')
    """
    text = question.replace("’", "'").strip().rstrip("?！？ ")
    if _asks_for_last(text):
        return TimeOperator("last", "")
    for kind, pattern in _ANCHORED:
        found = pattern.search(text)
        if found is not None:
            anchor = next((group for group in found.groups() if group), "")
            anchor = _AS.split(anchor)[0]
            if dated and kind in ("predecessor", "successor"):
                return TimeOperator("as_of", "")
            return TimeOperator(kind, anchor.strip(" .,"))
    if dated:
        return TimeOperator("as_of", "")
    if _FIRST.search(text):
        return TimeOperator("first", "")
    return TimeOperator("current", "") if _NOW.search(text) or _PRESENT.search(text) else None


def _asks_for_last(text: str) -> bool:
    """Return whether a question asks for the latest change: "When did Bob last move?", "the last time it changed"."""
    return (
        _WHEN_LAST.search(text) is not None
        or _stand_in_order(_LATEST, _TURN_OR_NEW, text)
        or _stand_in_order(_TURN, _LATEST, text)
    )


def _stand_in_order(first: re.Pattern[str], second: re.Pattern[str], text: str) -> bool:
    """Return whether a match of one pattern stands before a match of another; one pattern for both is quadratic."""
    found = first.search(text)
    return found is not None and second.search(text, found.end()) is not None


_AS = re.compile(r", (?=(?:what|who|which|where|whose|how)\b)| as (?=[\w']+ )| for (?=[A-Z])")

_ANCHORED: tuple[tuple[OperatorKind, re.Pattern[str]], ...] = (
    ("changed_back", _BACK),
    ("predecessor", _BEFORE),
    ("successor", _AFTER),
    ("since", _SINCE),
)


_NO_STATE = re.compile(r"^\W*(?:what (?:kind|type|sort)s? of\b|did\b|does\b|was\b|is\b)", re.IGNORECASE)
_HAS = re.compile(
    r"\b(?:is|was|are|were|been|'s) §'s\b|\b(?:of|for) §\W*$|^\W*(?:what|which|who|whose)\b[^§]*§'s\b",
    re.IGNORECASE,
)
_DOING = re.compile(
    r"\b(?:is|was|'s) § (?:[a-z]+ly |still |now |then )?(?:[a-z]+ing|at|in|on|with|a|an|the|based|enrolled|registered|married|engaged|subscribed|signed)\b",
    re.IGNORECASE,
)
_STATIVE = re.compile(
    r"\b(?:did|does|do|has|have|had) § (?:[a-z]+ly |still |first |also )?(?:live|lived|work|worked|train|trained|study|studied|reside|stay|rent|own|owned|have|had|hold|keep|drive|drove|"
    r"ride|use|used|play|played|learn|speak|date|dated|see|go|open|attend|belong|listen|prefer|like|love|practi[sc]e|follow|support|teach|eat|bake|wear|subscribe|foster|run|watch|drink|call|be|been)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(r"\b(?:chang|switch|swap|replac|mov|differ|new)\w*", re.IGNORECASE)


_HOW = re.compile(
    r"\W*(?:how(?! (?:long|recently)\b)(?: (?:come|many|much|often|old|far|big)|.* (?:feel|felt|react|go|went)\b)|how come|why|in (?:what|which) way)\b",
    re.IGNORECASE,
)


def asks_how(question: str) -> bool:
    """Return whether a question asks how or why something was, which no state answers."""
    return _HOW.match(question) is not None


_SPAN = re.compile(r"\W*(?:since|how long|for how long)\b", re.IGNORECASE)


def asks_since(question: str) -> bool:
    """Return whether a question asks since when or how long something has been so: "Since when", "How long"."""
    return _SPAN.match(question) is not None


def asks_for_state(question: str, name: str, kind: OperatorKind) -> bool:
    """Return whether a question asks what was so of a person, not what they did: "Where did § live", "§'s gym".

    Args:
        question: as it was typed.
        name: of the person.
        kind: of the operator that was read from it.
    """
    text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "§", question.replace("’", "'"))
    if kind == "last":
        return _CHANGED.search(text) is not None
    if _NO_STATE.search(text):
        return False
    return any(form.search(text) for form in (_HAS, _DOING, _STATIVE))


_STRANDED = re.compile(
    r"\b(on|with|as|to|at|for|in)(?= (?:in|on|at|by|now|right now|these days|when|before|after|until|during|first|last|originally|currently|today)\b| *\W*$)",
    re.IGNORECASE,
)


def gap_of(question: str) -> frozenset[str]:
    """Return the prepositions behind which the thing asked for stands: "What does she work *on*", "*Where*"."""
    found = frozenset(m.lower() for m in _STRANDED.findall(question))
    if re.match(r"\W*where\b", question, re.IGNORECASE):
        return frozenset(("at", "in", "to", "from", "for"))
    return found
