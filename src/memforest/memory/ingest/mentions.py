"""Writing whom an occurrence of a fact names, by which names, and the states and relations it tells."""

from __future__ import annotations

from dataclasses import replace

from memforest.facts.entities import EntityBook, spelling
from memforest.store import facts as fact_rows
from memforest.store import names, relations
from memforest.store.facts import OccurrenceRef
from memforest.store.tx import Tx
from memforest.text import entity_key
from memforest.types import Candidate, EntityKind


def write_mentions(
    tx: Tx, book: EntityBook, candidate: Candidate, occurrence: OccurrenceRef, *, ends: bool = False
) -> list[int]:
    """Record whom an occurrence of a fact names, who said it, and what it tells of them; return the rows of the states.

    With `ends` each state ends where the stated time of the fact does.
    """
    naming = _Naming(tx, book, candidate, occurrence)
    states = []
    for state in candidate.states:
        entity = naming.end(state.entity)
        if entity is not None:
            states.append(fact_rows.add_state(tx, occurrence, entity, state))
            if ends and state.change != "end":
                over = replace(state, previous=None, change="end")
                states.append(fact_rows.add_state(tx, occurrence, entity, over, ends=True))
    for one in candidate.relations:
        label = " ".join(one.label.split())
        if label and naming.means(one.source) and naming.means(one.target):
            source, target = naming.end(one.source), naming.end(one.target)
            if source is not None and target is not None:
                relations.add(tx, occurrence, source, label, target)
    naming.write_names()
    return states


class _Naming:
    """The entities that one occurrence names, each mentioned once it is met."""

    def __init__(self, tx: Tx, book: EntityBook, candidate: Candidate, occurrence: OccurrenceRef) -> None:
        self._tx = tx
        self._book = book
        self._occurrence = occurrence
        self._kinds: dict[str, EntityKind] = {}
        self._spelled: dict[int, set[str]] = {}
        speaker = book.participant(candidate.speaker)
        if speaker is not None:
            self._spelled[speaker] = set()
            fact_rows.add_mention(tx, occurrence, speaker, "speaker")
        for mention in candidate.mentions:
            self._kinds[entity_key(mention.name) or ""] = mention.kind
            entity = self._meet(mention.name, mention.kind)
            if entity is not None:
                fact_rows.add_mention(tx, occurrence, entity, mention.role)

    def means(self, name: str) -> bool:
        """Return whether a name can be that of an entity; nothing is written."""
        return entity_key(name) is not None

    def end(self, name: str) -> int | None:
        """Return the entity that a state or relation is of; one that is not mentioned yet is mentioned with it."""
        mentioned = len(self._spelled)
        entity = self._meet(name, self._kinds.get(entity_key(name) or "", "unknown"))
        if entity is not None and len(self._spelled) > mentioned:
            fact_rows.add_mention(self._tx, self._occurrence, entity, "other")
        return entity

    def _meet(self, name: str, kind: EntityKind) -> int | None:
        entity = self._book.entity(name, kind, self._occurrence[1])
        if entity is not None:
            label, spelled = self._book.label(entity), spelling(name)
            own = self._spelled.setdefault(entity, set())
            own.add(label if spelled == spelling(label) else spelled)
        return entity

    def write_names(self) -> None:
        """Record by which names the entities are called, where these are not their labels."""
        for entity, spelled in self._spelled.items():
            names.add(self._tx, self._occurrence[1], entity, spelled, self._book.label(entity))
