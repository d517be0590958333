"""Whether a statement gives to one participant what another one says of themselves. English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from memforest.language.language import Code, load_word_lists
from memforest.steps.llm.clauses import Clause, forms_of
from memforest.steps.llm.source import Source, SourceTurn, folded, people_forms, stands_in

_MYSELF = re.compile(r"\b(?:i|my|mine|me|myself)\b", re.IGNORECASE)
_OTHERS = re.compile(r"\b(?:you|yours?|yourself|we|us|ours?|let['’]?s)\b", re.IGNORECASE)
_THIRD = re.compile(r"\b(?:he|she|they|him|hers?|his|them|theirs?)\b", re.IGNORECASE)
_POSSESSED = re.compile(r"[^']{1,80}'s (\w+)")
# What the speaker says of somebody else: "I hope the party was fun".
_SUPPOSES = re.compile(
    r"\bi(?:['’]m| am|['’]d)? (?:hope|think|thought|hear|heard|guess|bet|see|suppose|know|sure|glad|sorry|happy|suggest|recommend)\b",
    re.IGNORECASE,
)


def misattributed(text: str, language: Code, supports: Sequence[SourceTurn], source: Source) -> bool:
    """Return whether the participant who is the subject of a statement is not the one who says "I" in what it rests on.

    Only where nothing else may explain it: the clauses nearest to the statement are somebody else's, who speaks of
    themselves there and of nobody who could be the subject, and whom the statement does not name.

    Args:
        text: the statement.
        language: of the statement.
        supports: the turns that it rests on.
        source: the chunk.
    """
    subject = None if language != "en" else _subject(text, source)
    if subject is None:
        return False
    whole = folded(text)
    theirs = _POSSESSED.match(whole)
    kin = forms_of(theirs[1]) if theirs is not None and theirs[1] in _kin() else frozenset[str]()
    best = _nearest(text, people_forms(source), supports)
    return bool(best) and not any(
        one.turn.speaker == subject
        or one.language != "en"
        or one.by_assistant
        or _names(one.turn.speaker, whole)
        or kin - clause.forms  # "Ana's mother" may be who speaks
        or _may_be_about(clause, subject, source)
        for clause, one in best
    )


def _subject(text: str, source: Source) -> str | None:
    """Return the participant with whose name a statement begins; None if it is none."""
    start = folded(text).removeprefix("the ")
    found = [
        name
        for name in source.participants.values()
        if any(stands_in(call, start[: len(call) + 1]) for call in _calls(name))
    ]
    return max(found, key=len, default=None)


@lru_cache(maxsize=1)
def _kin() -> frozenset[str]:
    lists = load_word_lists("en").lists
    return lists["kinship_male"] | lists["kinship_female"] | lists["kinship_other"]


def _calls(name: str) -> tuple[str, ...]:
    """Return what somebody is called: the name, and its first word."""
    whole = folded(name).removeprefix("the ")
    return whole, whole.split(" ")[0]


def _names(name: str, whole: str) -> bool:
    return any(stands_in(call, whole) for call in _calls(name))


def _nearest(
    text: str, people: frozenset[str], supports: Sequence[SourceTurn]
) -> list[tuple[Clause, SourceTurn]]:
    """Return the clauses that share most words with a statement, with their turns; none when it is less than half of its words."""
    mine = forms_of(text) - people
    shared = [(len(mine & clause.forms), clause, one) for one in supports for clause in one.clauses]
    most = max((count for count, _, _ in shared), default=0)
    return [(clause, one) for count, clause, one in shared if count == most and 2 * most >= len(mine)]


def _may_be_about(clause: Clause, subject: str, source: Source) -> bool:
    """Return whether a clause may be about somebody else than its speaker."""
    if _MYSELF.search(clause.sentence) is None or _OTHERS.search(clause.text):
        return True
    if len(source.participants) > 2 and _THIRD.search(clause.text):
        return True
    return _SUPPOSES.search(clause.sentence) is not None or _names(subject, folded(clause.sentence))
