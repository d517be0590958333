"""Deleting cells and sessions: their facts, leaves and derived rows are deleted in the same transaction.

Used when a session grows past a half-full cell and when `replace=True` overwrites one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memforest.facts.canonical import fact_identity
from memforest.facts.entities import speaker_key
from memforest.interval import from_ms
from memforest.memory.ingest.corrections import settle_verdicts
from memforest.memory.ingest.restate import drop_unnamed, without_occurrences
from memforest.store import derived, meta, sessions
from memforest.store import facts as fact_rows
from memforest.store.aliases import aliases_of_cell
from memforest.store.snapshot import states_of_cell
from memforest.store.tx import Tx
from memforest.systems.attached import Placings
from memforest.systems.states import superseded_facts


@dataclass(frozen=True, slots=True)
class Told:
    """What results have told of a cell that is cut anew: identities of its statements; identity and attribute of what they superseded.

    `stored` is when each statement was stored there, UTC ms: it was held from then on, if it is read again.
    """

    facts: frozenset[str] = frozenset()
    superseded: frozenset[tuple[str, str]] = frozenset()
    stored: Mapping[str, int] = field(default_factory=dict)


def told_by(tx: Tx, cells: Sequence[int]) -> Told:
    """Return what the statements of cells have brought, before they are deleted."""
    told = [_told_by(tx, cell) for cell in cells]
    stored: dict[str, int] = {}
    for one in told:
        stored.update({fact: min(ms, stored.get(fact, ms)) for fact, ms in one.stored.items()})
    return Told(
        frozenset(stored), frozenset[tuple[str, str]]().union(*(one.superseded for one in told)), stored
    )


def _told_by(tx: Tx, cell: int) -> Told:
    stored = fact_rows.facts_with_ids(tx, fact_rows.facts_of_cell(tx, cell))
    said = fact_rows.occurrences(tx, stored)
    ended = superseded_facts(tx, states_of_cell(tx, cell))
    facts_ended = fact_rows.facts_with_ids(tx, {row for row, _ in ended})
    facts: dict[str, int] = {}
    for row, fact in stored.items():
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        for one in said[row]:
            if one.cell == cell:
                facts[fact_identity(one.text, times[0], times[1], one.dates)] = one.stored_ms
    return Told(
        frozenset(facts), frozenset((facts_ended[row].fact_id, attribute) for row, attribute in ended), facts
    )


def retract_session(tx: Tx, placings: Placings, session: int) -> bool:
    """Delete a session with everything that only it supports; return whether that reworded a fact."""
    reworded = [retract_cell(tx, placings, cell.row) for cell in sessions.cells(tx, session)]
    turns = sessions.turns(tx, session)
    take_out(tx, placings, [row for row, _ in turns])
    sessions.delete_session(tx, session)
    demote_silent(tx, placings, {turn.speaker for _, turn in turns})
    derived.purge_words(tx)
    meta.bump(tx)
    return any(reworded)


def take_out(tx: Tx, placings: Placings, turns: Sequence[int]) -> None:
    """Delete what was made of turns by themselves, whose chunks are retracted: their places, words and vectors."""
    placings.leave("turn", turns)
    for row in turns:
        derived.clear_words(tx, "turn", row)
        derived.drop_vectors(tx, "turn", (row,))


def retract_cell(tx: Tx, placings: Placings, cell: int) -> bool:
    """Delete a cell, its occurrences, and the facts that nothing else supports; its turns stay.

    Returns:
        Whether a fact that stays is worded otherwise now, so that it needs a new vector.
    """
    facts = fact_rows.facts_of_cell(tx, cell)

    def delete() -> None:
        placings.leave("cell", (cell,))
        sessions.delete_cell(tx, cell)

    lessened = without_occurrences(tx, placings, facts, aliases_of_cell(tx, cell), delete)
    settle_verdicts(tx, placings, lessened.left)
    return lessened.reworded


def demote_silent(tx: Tx, placings: Placings, speakers: set[str]) -> None:
    """Demote entities that no longer speak in any session, and delete those that no fact names."""
    heard = {speaker_key(name) for name in sessions.speakers(tx)}
    keys = {key for name in speakers if (key := speaker_key(name)) is not None} - heard
    silent = [found.row for key in sorted(keys) if (found := fact_rows.entity_by_key(tx, key)) is not None]
    placings.leave("entity", silent)
    for entity in silent:
        fact_rows.demote(tx, entity)
    drop_unnamed(tx, placings, silent)
