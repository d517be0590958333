"""Checks what a model says that a statement tells of its entities: their states, and the relations between two of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from memforest.language.relations import MAX_LABEL_CHARS, MAX_RELATIONS
from memforest.steps.llm import replies
from memforest.steps.llm.clauses import forms_of
from memforest.steps.llm.replies import Statement
from memforest.steps.llm.source import folded, stands_in
from memforest.text import cut, entity_key, fold, negated
from memforest.types import Mention, Relation, State

Refused: TypeAlias = tuple[tuple[str, str], ...]
"""What was left out, and why."""

_MAX_ATTRIBUTE_CHARS = 40
_MAX_VALUE_CHARS = 80
_MAX_END_CHARS = 80
_WORDS = re.compile(r"[^\W\d_]+(?:['’.-]?[^\W\d_]+)*(?: [^\W\d_]+(?:['’-][^\W\d_]+)*)*")


def check_states(statement: Statement, text: str, mentions: Sequence[Mention]) -> tuple[State, ...]:
    """Return the states that the model listed and the text supports; of a plan or a denial none."""
    if statement.kind == "plan" or statement.negated:
        return ()
    names = _names(mentions)
    listed = (one for one in statement.relations if one.attribute or not one.verb)
    found = (_state(one, text, names) for one in listed)
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _names(mentions: Sequence[Mention]) -> dict[str, str]:
    return {key: one.name for one in mentions if (key := entity_key(one.name)) is not None}


def _state(relation: replies.Relation, text: str, names: Mapping[str, str]) -> State | None:
    """Return a listed state whose entity is mentioned and whose value stands in the text."""
    entity = names.get(entity_key(relation.entity) or "")
    attribute = " ".join(fold(relation.attribute).replace("_", " ").split())
    value, whole = " ".join(relation.value.split()), folded(text)
    if entity is None or not attribute or len(attribute) > _MAX_ATTRIBUTE_CHARS:
        return None
    if (
        len(value) > _MAX_VALUE_CHARS
        or not stands_in(folded(value), whole)
        or entity_key(value) == entity_key(entity)
    ):
        return None
    before = relation.previous
    previous = before if before is not None and stands_in(folded(before), whole) else None
    return State(entity, attribute, value, previous, relation.change)


def check_relations(
    statement: Statement, text: str, mentions: Sequence[Mention], states: Sequence[State]
) -> tuple[tuple[Relation, ...], Refused]:
    """Return the relations that the model listed and the text supports, and the others with the reason.

    Both ends are names that stand in the text, and so does the verb, in some form. Those of a plan or a denial are left out
    without a word, as its states are, and so are two that a state joins.
    """
    listed = [one for one in statement.relations if one.verb and not one.attribute]
    if not listed or statement.kind == "plan" or statement.negated or negated(text):
        return (), ()
    names, whole = _names(mentions), folded(text)
    told = {frozenset((entity_key(one.entity), entity_key(one.value))) for one in states}
    found: dict[Relation, None] = {}
    refused: list[tuple[str, str]] = []
    for one in listed:
        source, target = (_end(end, names, whole) for end in (one.entity, one.value))
        label = " ".join(one.verb.replace("_", " ").split())
        shown = cut(f"{one.entity} / {one.verb} / {one.value}", 3 * _MAX_END_CHARS)
        if source is None or target is None:
            refused.append((shown, "a relation of what the statement does not name was left out"))
        elif entity_key(source) == entity_key(target):
            refused.append((shown, "a relation of something to itself was left out"))
        elif not _is_label(label) or not _is_told(label, text):
            refused.append((shown, "a relation that the statement does not tell was left out"))
        elif len(found) == MAX_RELATIONS:
            refused.append((shown, "over the limit"))
        elif frozenset((entity_key(source), entity_key(target))) not in told:
            found[Relation(source, label.lower(), target)] = None
    return tuple(found), tuple(refused)


def _end(name: str, names: Mapping[str, str], whole: str) -> str | None:
    """Return the mention that an end of a relation is, if it stands in the text."""
    known = names.get(entity_key(name) or "")
    return known if known is not None and stands_in(folded(known), whole) else None


def _is_label(label: str) -> bool:
    """Return whether a text is a few words, and nothing else."""
    return len(label) <= MAX_LABEL_CHARS and _WORDS.fullmatch(label) is not None


def _is_told(label: str, text: str) -> bool:
    """Return whether a text has a verb in some form; one of small words alone has to stand there."""
    forms = forms_of(label)
    return not forms.isdisjoint(forms_of(text)) if forms else stands_in(folded(label), folded(text))
