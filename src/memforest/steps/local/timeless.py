"""The core of a question: what it asks for, without its time.

"Where did Ana live before Porto?" asks where Ana lived; that it is about the time before Porto says which of the answers is
meant. Every operator has a few words, in English and Spanish. A time that is only in the tense of a verb is none.
"""

from __future__ import annotations

import re

from memforest.text import lexical_tokens
from memforest.types import OperatorKind

_WORDS: dict[OperatorKind, str] = {
    "current": "(?:right )?now|nowadays|current(?:ly)?|present(?:ly)?|at present|these days|at the moment|today|still|"
    "as of (?:now|today)|at this point|ahora(?: mismo)?|actualmente|hoy(?: en día)?|en este momento|todavía",
    "first": "(?:at )?first|original(?:ly)?|initial(?:ly)?|earliest|(?:to|in the) (?:begin|start|beginning)(?: with)?|"
    "primer[oa]?|al principio|originalmente",
    "last": "last|latest|most recent(?:ly)?|por última vez|últim[oa]",
    "since": "since when|as of when|from when|(?:for )?how long|desde cuándo|(?:desde )?hace cuánto",
    "changed_back": "back|again|de nuevo|otra vez",
    "predecessor": "before|prior to|until|till|antes del?|hasta",
    "successor": "after|following|después del?|tras",
}
_SHADES = "(?:(?:right|just|shortly|immediately|directly|justo) )?"
_OUT = {
    kind: re.compile(
        rf"^\W*{_SHADES}(?:{found})\b[^,?]+,|\b{_SHADES}(?:{found})\s[^?？.;]+?(?=[?？.;]|$|\sas\s)"
        if kind in ("predecessor", "successor")
        else rf"\b(?:{found})\b,?",
        re.IGNORECASE,
    )
    for kind, found in _WORDS.items()
}
_DATE = re.compile(
    r"(?:\b(?:as of|back in|in|on|at|by|during|of|around|en|el|durante) )? {3,},?", re.IGNORECASE
)
"""Where a date was blanked, with the preposition in front of it."""


def core_of(kind: OperatorKind, question: str) -> str | None:
    """Return a question without the words for its time, or None if it has none or nothing else.

    Args:
        kind: of the question's time operator.
        question: with its dates blanked.

    Example:
        >>> core_of("predecessor", "Where did Ana live right before Porto?")
        'Where did Ana live?'
        >>> core_of("current", "Which car does Ana drive?")
    """
    pattern = _DATE if kind == "as_of" else _OUT[kind]
    core, times = pattern.subn(" ", question)
    core = re.sub(r"[ ,]{1,4}(?=[?？.]|$)", "", " ".join(core.split()))
    return core if times and lexical_tokens(core) else None
