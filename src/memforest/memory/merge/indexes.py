"""Bringing the indexes of a memory up to date after a merge: trees are taken over first, the rest is placed."""

from __future__ import annotations

from collections.abc import Mapping

from memforest.memory.merge.plan import Merging
from memforest.store import copying, feed, indexes, meta
from memforest.store import facts as fact_rows
from memforest.store.db import Database
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.base import Copied, Index


def current_indexes(tx: Tx) -> dict[str, int]:
    """Return the cursors of the indexes that have placed everything that is here now."""
    end = feed.position(tx)
    return {row.name: row.cursor for row in indexes.rows(tx) if row.cursor == end}


def take_over(
    db: Database,
    attached: Attached,
    other: Database,
    merging: Merging,
    cursors: Mapping[str, int],
) -> int:
    """Let indexes take over trees of the same indexes of another memory, and return how many.

    An index that somebody has moved on meanwhile takes over nothing more: its notes were placed one by one.

    Args:
        db: the memory that is merged into.
        attached: its indexes.
        other: the memory that is merged.
        merging: what was copied.
        cursors: of the indexes that were up to date before the merge.
    """
    taken = 0
    with other.read() as source:
        with db.read() as tx:
            copied = copied_as_it_is(tx, source, merging)
            found = [
                index
                for row in indexes.rows(tx)
                if row.name in cursors
                and not (index := attached.open(row)).deferred
                and _is_alike(source, row)
            ]
        for index in found:
            taken += _run(db, index, cursors[index.name], copied)
    return taken


def _is_alike(source: Tx, row: indexes.IndexRow) -> bool:
    """Return whether the other memory has the same index, of the same shape, and up to date."""
    there = indexes.find(source, row.name)
    return there is not None and there.settings == row.settings and there.cursor == feed.position(source)


def _run(db: Database, index: Index, cursor: int, copied: Copied) -> int:
    trees = 0
    for piece in index.merge(copied):
        with db.write() as tx:
            row = indexes.find(tx, index.name)
            if row is None or row.cursor != cursor:
                break
            trees += piece(tx)
            meta.bump(tx)
    return trees


def copied_as_it_is(tx: Tx, source: Tx, merging: Merging) -> Copied:
    """Return what is here just as it is there; what is called otherwise here is not."""
    new = {row: merging.facts[row] for row in merging.new_facts}
    there, here = copying.fact_places(source, new), copying.fact_places(tx, new.values())
    facts = {row: own for row, own in new.items() if there.get(row) == here.get(own)}
    sessions = dict(merging.sessions)
    entities = {row: merging.entities[row] for row in merging.new_entities}
    if merging.names:
        labels = {one.row: one.key for one in fact_rows.entities(source)}
        entities = {row: own for row, own in entities.items() if labels.get(row) not in merging.names.here}
        sessions = {row: own for row, own in sessions.items() if not _speaks_otherwise(source, row, merging)}
    for session in copying.sessions_of_facts(source, _judged_otherwise(tx, source, merging)):
        sessions.pop(session, None)  # its summaries may tell what is hidden here, or not tell what is shown
    return Copied(source, sessions, merging.turns, merging.cells, facts, entities, merging.session_ids)


def _judged_otherwise(tx: Tx, source: Tx, merging: Merging) -> list[int]:
    """Return the rows there of the facts that have another verdict here."""
    there = copying.verdicts(source, merging.facts)
    here = copying.verdicts(tx, merging.facts.values())
    return [row for row, verdict in there.items() if here.get(merging.facts[row], 0) != verdict]


def _speaks_otherwise(source: Tx, session: int, merging: Merging) -> bool:
    return any(merging.names.speaker(name) != name for name in copying.speakers_of(source, session))
