"""Writing whom an occurrence of a fact names, and the states it asserts."""

from __future__ import annotations

from dataclasses import replace

from memforest.facts.entities import EntityBook
from memforest.store import facts as fact_rows
from memforest.store.facts import OccurrenceRef
from memforest.store.tx import Tx
from memforest.text import entity_key
from memforest.types import Candidate, EntityKind

__all__ = ["write_mentions"]


def write_mentions(
    tx: Tx, book: EntityBook, candidate: Candidate, occurrence: OccurrenceRef, *, ends: bool = False
) -> list[int]:
    """Record whom an occurrence of a fact names, who said it, and the states it asserts; return the rows of these.

    With `ends` each state ends where the stated time of the fact does.
    """
    entities = set()
    speaker = book.participant(candidate.speaker)
    if speaker is not None:
        entities.add(speaker)
        fact_rows.add_mention(tx, occurrence, speaker, "speaker")
    kinds: dict[str, EntityKind] = {}
    for mention in candidate.mentions:
        kinds[entity_key(mention.name) or ""] = mention.kind
        entity = book.entity(mention.name, mention.kind, occurrence[1])
        if entity is not None:
            entities.add(entity)
            fact_rows.add_mention(tx, occurrence, entity, mention.role)
    states = []
    for state in candidate.states:
        kind = kinds.get(entity_key(state.entity) or "", "unknown")
        entity = book.entity(state.entity, kind, occurrence[1])
        if entity is not None:
            if entity not in entities:
                entities.add(entity)
                fact_rows.add_mention(tx, occurrence, entity, "other")
            states.append(fact_rows.add_state(tx, occurrence, entity, state))
            if ends and state.change != "end":
                over = replace(state, previous=None, change="end")
                states.append(fact_rows.add_state(tx, occurrence, entity, over, ends=True))
    return states
