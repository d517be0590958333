"""Whether a statement denies what the turns assert, or asserts what they deny, clause by clause.

A clause of a statement is held against the clauses of its turns that share a content word with it; a bare "No" answers
for what was asked. Where it cannot be told, nothing is wrong: "refused to" and "gave up" may be put with a "not" or without,
a question denies nothing, and "not the forty" is a contrast. English and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memforest.language.language import Code
from memforest.steps.llm.source import SourceTurn, forms_of
from memforest.text import negated

__all__ = ["contradicts"]

_BETWEEN = re.compile(
    r"[,;:.!?…—–]+(?=\s|$)|\s-\s|\b(?:but|because|so|and|or|which|that|who|whom|when|where|while|though|although|until|till|"
    r"than|as|pero|porque|y|o|aunque|cuando|donde|hasta)\b",
    re.IGNORECASE,
)
# What may be said with a negation or without one.
_SOFT = re.compile(
    r"\b(?:stop|quit|gave|giv|refus|hat|dislik|avoid|los[est]|fail|miss|cancel|lack|forg[eo]t|hardly|bare|rare|seldom|too|instead|"
    r"rather|used|former|left|leav|allerg|skip|broke|out|only|wish|against|den[iy]|declin|reject|clos|sold|died|dead|vegan|"
    r"vegetarian|first|last|if|unless|without|except|sin|un(?!der|til|ion|iver|iq|it)\w{4}|dej|odi|perd|evit|apenas|rechaz|cancel|solo|si)\w*",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r"\s*not ", re.IGNORECASE)
_NOPE = re.compile(r"\s*(?:nope|nah)\b", re.IGNORECASE)
_SHORT_WORDS = 3
"""A clause of so few words goes on with the one before it: "no meat, fish or eggs"."""


@dataclass(frozen=True, slots=True)
class _Clause:
    forms: frozenset[str]
    denies: bool
    open: bool
    """Whether a denial of the same may be true, too."""


def contradicts(text: str, language: Code, supports: Sequence[SourceTurn]) -> bool:
    """Return whether a statement differs from its turns in what is denied.

    Args:
        text: the statement.
        language: of the statement.
        supports: the turns that it rests on.
    """
    if language == "other" or any(one.language == "other" for one in supports):
        return False
    said = [list(_clauses(one.sentences)) for one in supports]
    bare = [clauses[0] for clauses in said if clauses and clauses[0].denies and len(clauses[0].forms) < 2]
    whole = [clause for clauses in said for clause in clauses]
    return any(
        _opposed(clause, [one for one in whole if one.forms & clause.forms], bare, whole)
        for clause in _clauses([(text, frozenset())])
    )


def _opposed(
    clause: _Clause, related: Sequence[_Clause], bare: Sequence[_Clause], whole: Sequence[_Clause]
) -> bool:
    """Return whether a clause of a statement is denied by all that is said of it, or denies it alone.

    Args:
        clause: of the statement.
        related: the clauses of the turns that share a word with it.
        bare: those with which a turn begins and that say no more than "No".
        whole: all clauses of the turns.
    """
    if clause.denies:
        return not any(one.denies or one.open for one in (*(related or whole), *bare))
    if clause.open or not clause.forms:
        return False
    opposed = related or bare
    return bool(opposed) and all(one.denies and not one.open for one in opposed)


def _clauses(sentences: Sequence[tuple[str, frozenset[str]]]) -> Iterator[_Clause]:
    """Yield the clauses of sentences, without those of questions."""
    for sentence, _ in sentences:
        if sentence.rstrip(" \"'”’»)").endswith("?"):
            continue
        before: _Clause | None = None
        for text in _BETWEEN.split(sentence):
            if not any(ch.isalnum() for ch in text):
                continue
            denies = negated(text) or _NOPE.match(text) is not None
            goes_on = before is not None and len(text.split()) <= _SHORT_WORDS
            soft = _SOFT.search(text) is not None or (
                goes_on and before is not None and (before.denies or before.open)
            )
            contrast = before is not None and _CONTRAST.match(text) is not None
            before = _Clause(forms_of(text), denies, soft or contrast)
            yield before
