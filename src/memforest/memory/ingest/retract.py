"""Deleting cells and sessions: their facts, leaves and derived rows are deleted in the same transaction.

Used when a session grows past a half-full cell and when `replace=True` overwrites one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memforest.facts.canonical import fact_identity
from memforest.facts.entities import speaker_key
from memforest.interval import from_ms
from memforest.memory.ingest.restate import restate_fact
from memforest.store import derived, erase, feed, meta, sessions
from memforest.store import facts as fact_rows
from memforest.store.aliases import aliases_of_cell, resolve_aliases
from memforest.store.facts import FactRow, OccurrenceRow
from memforest.store.snapshot import states_of_cell
from memforest.store.tx import Tx
from memforest.systems.attached import Placings
from memforest.systems.states import superseded_facts

__all__ = [
    "Settled",
    "Told",
    "demote_silent",
    "drop_unnamed",
    "retract_cell",
    "retract_session",
    "settle_facts",
    "told_by",
]


@dataclass(frozen=True, slots=True)
class Told:
    """What results have told of a cell that is cut anew: identities of its statements; identity and attribute of what they superseded."""

    facts: frozenset[str] = frozenset()
    superseded: frozenset[tuple[str, str]] = frozenset()


def told_by(tx: Tx, cell: int) -> Told:
    """Return what the statements of a cell have brought, before it is deleted."""
    stored = fact_rows.facts_with_ids(tx, fact_rows.facts_of_cell(tx, cell))
    said = fact_rows.occurrences(tx, stored)
    ended = superseded_facts(tx, states_of_cell(tx, cell))
    facts_ended = fact_rows.facts_with_ids(tx, {row for row, _ in ended})
    facts = set()
    for row, fact in stored.items():
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        facts |= {fact_identity(one.text, times[0], times[1]) for one in said[row] if one.cell == cell}
    return Told(
        frozenset(facts), frozenset((facts_ended[row].fact_id, attribute) for row, attribute in ended)
    )


def retract_session(tx: Tx, placings: Placings, session: int) -> bool:
    """Delete a session with everything that only it supports; return whether that reworded a fact."""
    reworded = [retract_cell(tx, placings, cell.row) for cell in sessions.cells(tx, session)]
    turns = sessions.turns(tx, session)
    placings.leave("turn", [row for row, _ in turns])
    for row, _ in turns:
        derived.clear_words(tx, "turn", row)
        derived.drop_vectors(tx, "turn", (row,))
    sessions.delete_session(tx, session)
    demote_silent(tx, placings, {turn.speaker for _, turn in turns})
    derived.purge_words(tx)
    meta.bump(tx)
    return any(reworded)


def retract_cell(tx: Tx, placings: Placings, cell: int) -> bool:
    """Delete a cell, its occurrences, and the facts that nothing else supports; its turns stay.

    Returns:
        Whether a fact that stays is worded otherwise now, so that it needs a new vector.
    """
    facts = fact_rows.facts_of_cell(tx, cell)
    named = {entity for fact in facts for entity, _ in fact_rows.mentions_of(tx, fact)}
    called = aliases_of_cell(tx, cell)
    placings.leave("cell", (cell,))
    sessions.delete_cell(tx, cell)
    settled = settle_facts(tx, placings, facts)
    drop_unnamed(tx, placings, named)
    resolve_aliases(tx, called)
    return settled.reworded


@dataclass(frozen=True, slots=True)
class Settled:
    """Facts that have lost occurrences, as they were: those that are gone, and those that changed; whether one is worded otherwise now."""

    gone: tuple[FactRow, ...] = ()
    changed: tuple[FactRow, ...] = ()
    reworded: bool = False


def settle_facts(tx: Tx, placings: Placings, facts: Collection[int]) -> Settled:
    """Delete those facts of which no occurrence is left, and derive the others from what they have left.

    One that has left only what another fact says is joined to that.
    """
    left, stored = fact_rows.occurrences(tx, facts), fact_rows.facts_with_ids(tx, facts)
    gone, changed, reworded = [], [], False
    for row, fact in sorted(stored.items()):
        other = _same_said(tx, fact, left[row]) if left[row] else None
        if other is not None:
            placings.leave("fact", (row, other.row))
            for one in left[row]:
                erase.move_occurrence(tx, one, other.row)
            changed += [other] if restate_fact(tx, placings, other) != other else []
            feed.note(tx, "fact", other.row)
        if left[row] and other is None:
            now = restate_fact(tx, placings, fact)
            changed += [fact] if now != fact else []
            reworded |= now.text != fact.text
            continue
        placings.leave("fact", (row,))
        derived.clear_words(tx, "fact", row)
        derived.drop_vectors(tx, "fact", (row,))
        fact_rows.delete_fact(tx, row)
        gone.append(fact)
    return Settled(tuple(gone), tuple(changed), reworded)


def _same_said(tx: Tx, fact: FactRow, left: Sequence[OccurrenceRow]) -> FactRow | None:
    """Return the other fact that has the identity of what is left of a fact, which has lost its own; None when there is none."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    identities = [fact_identity(one.text, times[0], times[1], one.dates) for one in left]
    if fact.fact_id in identities:
        return None
    found = fact_rows.fact_by_id(tx, identities[0])
    return None if found is None or found.row == fact.row else found


def drop_unnamed(tx: Tx, placings: Placings, entities: Collection[int]) -> None:
    """Delete those entities that no fact names any more; participants stay."""
    gone = fact_rows.unnamed(tx, entities)
    placings.leave("entity", gone)
    fact_rows.drop_entities(tx, gone)


def demote_silent(tx: Tx, placings: Placings, speakers: set[str]) -> None:
    """Demote entities that no longer speak in any session, and delete those that no fact names."""
    heard = {speaker_key(name) for name in sessions.speakers(tx)}
    keys = {key for name in speakers if (key := speaker_key(name)) is not None} - heard
    silent = [found.row for key in sorted(keys) if (found := fact_rows.entity_by_key(tx, key)) is not None]
    placings.leave("entity", silent)
    for entity in silent:
        fact_rows.demote(tx, entity)
    drop_unnamed(tx, placings, silent)
