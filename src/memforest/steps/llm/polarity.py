"""Whether a statement denies what its turns assert, or asserts what they deny, clause by clause. English and Spanish.

A clause of a statement is held against those of its turns that have most of its words, or most of theirs in it. Where it cannot
be told, nothing is wrong: "gave up" may be put with a "not" or without, and a question denies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from memforest.language.language import Code
from memforest.steps.llm.clauses import Clause, is_question, split_clauses
from memforest.steps.llm.source import Source, SourceTurn, people_forms

__all__ = ["contradicts"]


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
    said = [clause for one in supports for clause in _answering(one, source)]
    people = people_forms(source)
    mine = (replace(one, forms=one.forms - people) for one in split_clauses(text, relative=False))
    return any(one.forms and _opposed(one, said) for one in mine)


def _opposed(clause: Clause, said: Sequence[Clause]) -> bool:
    """Return whether what is said of the same as a clause denies what it asserts, or the other way round."""
    related = [one for one in said if one.forms & clause.forms]
    if not clause.denies and clause.soft - {word for one in related for word in one.soft}:
        return False
    agree = [one for one in related if one.denies == clause.denies or one.soft - clause.soft]
    against = [one for one in related if one not in agree and _is_same(clause, one)]
    return _nearest(clause, against) > _nearest(clause, agree)


def _is_same(clause: Clause, said: Clause) -> bool:
    """Return whether two clauses share more than half of the words of the shorter one."""
    return 2 * len(clause.forms & said.forms) > min(len(clause.forms), len(said.forms))


def _nearest(clause: Clause, said: Sequence[Clause]) -> float:
    """Return the greatest part of a clause that is said that is in the statement's, 0 without one."""
    return max((len(one.forms & clause.forms) / len(one.forms) for one in said), default=0.0)


def _answering(turn: SourceTurn, source: Source) -> Iterator[Clause]:
    """Yield the clauses of a turn; one that begins it has the words of the question before it, and a bare "I can't" of what was said."""
    previous = source.before(turn)
    before = () if previous is None else previous.sentences[-1:]
    for clause in turn.clauses:
        forms = {
            form for sentence, said in before if is_question(sentence) or not clause.forms for form in said
        }
        yield replace(clause, forms=clause.forms | forms - people_forms(source))
        before = ()
