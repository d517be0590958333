"""Whether a statement denies what its turns assert, or asserts what they deny, clause by clause. English and Spanish.

A clause of a statement is held against those of its turns that share words with it; the nearest decides. Where it cannot
be told, nothing is wrong: "gave up" may be put with a "not" or without, and a question denies nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from memforest.language.language import Code
from memforest.steps.llm.clauses import Clause, is_question, split_clauses
from memforest.steps.llm.source import Source, SourceTurn, people_forms

_MOST_CLAUSES = 12
"""Clauses of a statement that are compared."""
_POINTS_BACK = re.compile(r"\b(?:it|one|any|that|them|those|this|so)\b", re.IGNORECASE)


def contradicts(text: str, language: Code, supports: Sequence[SourceTurn], source: Source) -> bool:
    """Return whether a statement differs from its turns in what is denied.

    Args:
        text: the statement.
        language: of the statement.
        supports: the turns that it rests on.
        source: the chunk.
    """
    if language == "other" or any(one.language == "other" for one in supports):
        return False
    people = people_forms(source)
    said = [clause for one in supports for clause in _answering(one, source, people)]
    clauses = islice(split_clauses(text, relative=False), _MOST_CLAUSES)
    mine = (replace(one, forms=one.forms - people) for one in clauses)
    return any(one.forms and _opposed(one, said) for one in mine)


def _opposed(clause: Clause, said: Sequence[Clause]) -> bool:
    """Return whether what is said of the same as a clause denies what it asserts, or the other way round."""
    if clause.denies and "" in clause.soft:
        return False  # a contrast, whose other side says what is so: "the small one, not the big one"
    related = [one for one in said if one.forms & clause.forms]
    if not clause.denies and clause.soft - {word for one in related for word in one.soft}:
        return False
    agree = [one for one in related if _agrees(clause, one)]
    if clause.denies:
        # In other words the same may be meant: "mornings are useless" is "cannot work in the morning".
        most = max((len(one.forms & clause.forms) for one in related), default=0)
        return not agree and 3 * most >= 2 * len(clause.forms)
    against = [one for one in related if not _agrees(clause, one) and _is_same(clause, one)]
    return _nearest(clause, against) > _nearest(clause, agree)


def _agrees(clause: Clause, said: Clause) -> bool:
    return said.denies == clause.denies or bool(said.soft - clause.soft)


def _is_same(clause: Clause, said: Clause) -> bool:
    """Return whether two clauses share more than half of the words of the shorter one."""
    return 2 * len(clause.forms & said.forms) > min(len(clause.forms), len(said.forms))


def _nearest(clause: Clause, said: Sequence[Clause]) -> float:
    """Return the greatest part of a clause that is said that is in the statement's, 0 without one."""
    return max((len(one.forms & clause.forms) / len(one.forms) for one in said), default=0.0)


def _answering(turn: SourceTurn, source: Source, people: frozenset[str]) -> Iterator[Clause]:
    """Yield the clauses of a turn, each with the words of what it answers or goes on with.

    The first has those of the question before it, or of what was said before if it is short ("I can't", "Tried that");
    a later one of hardly a word that points back has those of the clause before it: "We don't even have one".
    """
    previous = source.before(turn)
    before = frozenset[str]()
    if previous is not None:
        before = frozenset(form for _, said in previous.sentences[-1:] for form in said) - people
    asked = previous is not None and bool(previous.sentences) and is_question(previous.sentences[-1][0])
    for at, clause in enumerate(turn.clauses):
        few = len(clause.forms)
        back = few == 0 or (few == 1 and _POINTS_BACK.search(clause.text) is not None)
        joined = asked or few <= 2 if at == 0 else back
        yield replace(clause, forms=clause.forms | before if joined else clause.forms)
        before = clause.forms | (before if few <= 1 else frozenset())
