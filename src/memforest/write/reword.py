"""Restating facts: deriving wording, speaker and time of a fact from its occurrences whenever one comes or goes.

A fact is worded and attributed by the first of its occurrences that has its identity, dated by the first
of all, and stands in the trees of whom they name. So the order in which sessions arrive changes nothing,
and an occurrence that is taken back leaves nothing of its wording or its speaker behind.


Writing whom an occurrence of a fact names, by which names, and the states and relations it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from memforest.reading.canonical import (
    EntityBook,
    Signature,
    fact_identity,
    spelling,
    stated_days,
    wording,
    wording_rules,
)
from memforest.records import EntityKind, ExtractedFact
from memforest.search.as_of import restated
from memforest.search.vectors import index_tokens
from memforest.store import corrections, derived, indexes, sessions
from memforest.store import entities as entities_rows
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.entities import resolve_aliases
from memforest.store.erase import move_occurrence
from memforest.store.facts import FactRow, OccurrenceRef, OccurrenceRow, add_facts
from memforest.text import entity_key
from memforest.times import from_ms
from memforest.trees.attached import Placings


def without_occurrences(
    tx: Tx, placings: Placings, facts: Collection[int], called: Collection[str], delete: Callable[[], None]
) -> Lessened:
    """Delete occurrences of facts, and whatever nothing else supports: facts, entities, aliases.

    Args:
        tx: the open write transaction.
        placings: the indexes, which are told what goes.
        facts: rows of the facts that lose an occurrence.
        called: the aliases that those use.
        delete: deletes the occurrences.

    Returns:
        What became of the facts.
    """
    named = {entity for fact in facts for entity, _ in facts_rows.mentions_of(tx, fact)}
    delete()
    lessened = lessen_facts(tx, placings, facts)
    drop_unnamed(tx, placings, named)
    resolve_aliases(tx, called)
    return lessened


@dataclass(frozen=True, slots=True)
class Lessened:
    """Facts that have lost occurrences, as they were: those that are gone, and those that changed.

    `left` are the rows of those that stay, and of those that others were joined to; `reworded` is whether one of them is
    worded otherwise now, so that it needs a new vector.
    """

    gone: tuple[FactRow, ...] = ()
    changed: tuple[FactRow, ...] = ()
    left: frozenset[int] = frozenset()
    reworded: bool = False


def lessen_facts(tx: Tx, placings: Placings, facts: Collection[int]) -> Lessened:
    """Delete those facts of which no occurrence is left, and derive the others from what they have left.

    One that has left only what another fact says is joined to that.
    """
    left, stored = facts_rows.occurrences(tx, facts), facts_rows.facts_with_ids(tx, facts)
    gone, changed, joined, reworded = [], [], set(), False
    for row, fact in sorted(stored.items()):
        other = _same_said(tx, fact, left[row]) if left[row] else None
        if other is not None:
            joined.add(other.row)
            placings.leave("fact", (row, other.row))
            for one in left[row]:
                move_occurrence(tx, one, other.row)
            changed += [other] if restate_fact(tx, placings, other) != other else []
            indexes.note(tx, "fact", [other.row])
        if left[row] and other is None:
            now = restate_fact(tx, placings, fact)
            changed += [fact] if now != fact else []
            reworded |= now.text != fact.text
            continue
        placings.leave("fact", (row,))
        derived.clear_words(tx, "fact", row)
        derived.drop_vectors(tx, "fact", (row,))
        facts_rows.delete_fact(tx, row)
        gone.append(fact)
    kept = frozenset(joined.union(stored).difference(one.row for one in gone))
    return Lessened(tuple(gone), tuple(changed), kept, reworded)


def _same_said(tx: Tx, fact: FactRow, left: Sequence[OccurrenceRow]) -> FactRow | None:
    """Return the other fact that has the identity of what is left of a fact, which has lost its own; None when there is none."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    identities = [fact_identity(one.text, times[0], times[1], one.dates) for one in left]
    if fact.fact_id in identities:
        return None
    found = facts_rows.fact_by_id(tx, identities[0])
    return None if found is None or found.row == fact.row else found


def drop_unnamed(tx: Tx, placings: Placings, entities: Collection[int]) -> None:
    """Delete those entities that no fact names any more; participants stay.

    One about which somebody has decided something stays as well, as what is read again may name it: see `drop_chosen`.
    """
    gone = facts_rows.unnamed(tx, entities)
    placings.leave("entity", gone)
    facts_rows.drop_entities(tx, set(gone) - corrections.entities(tx) if gone else ())


def drop_chosen(tx: Tx, placings: Placings, *, at_once: bool = False) -> None:
    """Delete entities that were decided about and that no fact names any more, with the choices.

    To be called where a write has come to its end. While a session is still to be read nothing is deleted, as that may
    name them, unless it is to go `at_once`.
    """
    gone = facts_rows.unnamed(tx, chosen) if (chosen := corrections.entities(tx)) else []
    if gone and (at_once or not sessions.waiting(tx)):
        placings.leave("entity", gone)
        facts_rows.drop_entities(tx, gone)


def restate_fact(tx: Tx, placings: Placings, fact: FactRow) -> FactRow:
    """Derive a fact from its occurrences, and write it with its word rows.

    A vector of another wording is dropped; the caller, or `fill_vectors`, makes the new one.

    Args:
        tx: the open write transaction.
        placings: the indexes, which are told before the fact changes.
        fact: as stored; it has at least one occurrence.

    Returns:
        The fact as it is stored now.
    """
    found = facts_rows.occurrences(tx, (fact.row,))[fact.row]
    now = restated(tx, fact, found)
    if now != fact:
        placings.leave("fact", (fact.row,))
        if now.text != fact.text:
            derived.drop_vectors(tx, "fact", (fact.row,))
        facts_rows.restate(tx, now)
        facts_rows.put_wording(tx, fact.row, fact_signature(now).digest)
        derived.put_words(tx, "fact", fact.row, index_tokens(now.speaker, now.text, from_ms(now.said_ms)))
    return now


def fact_signature(fact: FactRow, parts: frozenset[tuple[str, str]] = frozenset()) -> Signature:
    """Return the merge signature of a stored fact; `parts` are its mentions, which its digest does without."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    return Signature(
        wording(fact.text),
        fact.negated,
        fact.start_ms,
        fact.end_ms,
        stated_days(times[0], times[1], fact.dates),
        parts,
    )


def ensure_wordings(tx: Tx) -> None:
    """Rebuild the wording digests of all facts if they are missing or were made by another version's rules."""
    if facts_rows.wording_rules(tx) == wording_rules():
        return
    facts_rows.drop_wordings(tx, wording_rules())
    for fact in facts_rows.iter_facts(tx):
        facts_rows.put_wording(tx, fact.row, fact_signature(fact).digest)


def insert_fact(tx: Tx, fact: FactRow) -> FactRow:
    """Insert a fact (its `row` is ignored) with its wording digest and word rows, and return it as it is stored."""
    (row,) = add_facts(tx, [fact])
    facts_rows.put_wording(tx, row, fact_signature(fact).digest)
    derived.put_words(tx, "fact", row, index_tokens(fact.speaker, fact.text, from_ms(fact.said_ms)))
    return facts_rows.facts_with_ids(tx, (row,))[row]


def write_mentions(
    tx: Tx, book: EntityBook, candidate: ExtractedFact, occurrence: OccurrenceRef, *, ends: bool = False
) -> list[int]:
    """Record whom an occurrence of a fact names, who said it, and what it tells of them; return the rows of the states.

    With `ends` each state ends where the stated time of the fact does.
    """
    naming = _Naming(tx, book, candidate, occurrence)
    states = []
    for state in candidate.states:
        entity = naming.end(state.entity)
        if entity is not None:
            states.append(facts_rows.add_state(tx, occurrence, entity, state))
            if ends and state.change != "end":
                over = replace(state, previous=None, change="end")
                states.append(facts_rows.add_state(tx, occurrence, entity, over, ends=True))
    for one in candidate.relations:
        label = " ".join(one.label.split())
        if label and naming.means(one.source) and naming.means(one.target):
            source, target = naming.end(one.source), naming.end(one.target)
            if source is not None and target is not None:
                entities_rows.add_relation(tx, occurrence, source, label, target)
    naming.write_names()
    return states


class _Naming:
    """The entities that one occurrence names, each mentioned once it is met."""

    def __init__(self, tx: Tx, book: EntityBook, candidate: ExtractedFact, occurrence: OccurrenceRef) -> None:
        self._tx = tx
        self._book = book
        self._occurrence = occurrence
        self._kinds: dict[str, EntityKind] = {}
        self._spelled: dict[int, set[str]] = {}
        speaker = book.participant(candidate.speaker)
        if speaker is not None:
            self._spelled[speaker] = set()
            facts_rows.add_mention(tx, occurrence, speaker, "speaker")
        for mention in candidate.mentions:
            self._kinds[entity_key(mention.name) or ""] = mention.kind
            entity = self._meet(mention.name, mention.kind)
            if entity is not None:
                facts_rows.add_mention(tx, occurrence, entity, mention.role)

    def means(self, name: str) -> bool:
        """Return whether a name can be that of an entity; nothing is written."""
        return entity_key(name) is not None

    def end(self, name: str) -> int | None:
        """Return the entity that a state or relation is of; one that is not mentioned yet is mentioned with it."""
        mentioned = len(self._spelled)
        entity = self._meet(name, self._kinds.get(entity_key(name) or "", "unknown"))
        if entity is not None and len(self._spelled) > mentioned:
            facts_rows.add_mention(self._tx, self._occurrence, entity, "other")
        return entity

    def _meet(self, name: str, kind: EntityKind) -> int | None:
        entity = self._book.entity(name, kind, self._occurrence[1])
        if entity is not None:
            label, spelled = self._book.labels[entity], spelling(name)
            own = self._spelled.setdefault(entity, set())
            own.add(label if spelled == spelling(label) else spelled)
        return entity

    def write_names(self) -> None:
        """Record by which names the entities are called, where these are not their labels."""
        for entity, spelled in self._spelled.items():
            entities_rows.add_name(self._tx, self._occurrence[1], entity, spelled, self._book.labels[entity])
