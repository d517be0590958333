"""Taking cells and sessions back: their facts, placements and derived rows go in the same transaction.

Used when a session grows past a half-full cell and when `replace=True` overwrites one.
"""

from __future__ import annotations

from memforest.config import Config
from memforest.store import derived, meta, sessions
from memforest.store import facts as fact_rows
from memforest.store.db import Tx
from memforest.systems.memforest.grow import ForestWriter

__all__ = ["retract_cell", "retract_session"]


def retract_session(tx: Tx, config: Config, session: int) -> None:
    """Delete a session with everything that only it supports."""
    writer = ForestWriter(tx, config)
    for cell in sessions.cells(tx, session):
        retract_cell(tx, writer, cell.row)
    writer.close()
    for row, _ in sessions.turns(tx, session):
        derived.clear_words(tx, "turn", row)
        derived.drop_vectors(tx, "turn", (row,))
    sessions.delete_session(tx, session)
    meta.bump(tx)


def retract_cell(tx: Tx, writer: ForestWriter, cell: int) -> None:
    """Delete a cell, its occurrences, and the facts that nothing else supports; its turns stay."""
    facts = fact_rows.facts_of_cell(tx, cell)
    writer.remove_cell(cell)
    sessions.delete_cell(tx, cell)
    left = fact_rows.occurrences(tx, facts)
    stored = fact_rows.facts_with_ids(tx, facts)
    named: set[int] = set()
    for fact in facts:
        entities = {entity for entity, _ in fact_rows.mentions_of(tx, fact)}
        named |= entities
        if not left[fact]:
            writer.remove_fact(fact)
            derived.clear_words(tx, "fact", fact)
            derived.drop_vectors(tx, "fact", (fact,))
            fact_rows.delete_fact(tx, fact)
        elif (left[fact][0].said_ms, left[fact][0].tie) != (stored[fact].said_ms, stored[fact].tie):
            first = left[fact][0]
            fact_rows.set_said(tx, fact, first.said_ms, first.tie)
            writer.move_fact(fact_rows.facts_with_ids(tx, (fact,))[fact])
    writer.reconsider(named)
    fact_rows.drop_unnamed(tx, named)
