"""Bringing the indexes of a memory up to date after a merge: trees are taken over first, the rest is placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memforest.memory.merge.plan import Merging
from memforest.store import copying, feed, indexes, meta
from memforest.store import facts as fact_rows
from memforest.store.db import Database
from memforest.store.savepoint import attempt, described
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.base import Copied, MemoryIndex


@dataclass(slots=True)
class Taken:
    """How many trees were taken over, and which indexes could take over none, and why."""

    trees: int = 0
    problems: tuple[str, ...] = ()


def current_indexes(tx: Tx) -> dict[str, int]:
    """Return the cursors of the indexes that have placed everything that is here now."""
    end = feed.position(tx)
    return {row.name: row.cursor for row in indexes.rows(tx) if row.cursor == end}


def take_over(
    db: Database,
    attached: Attached,
    other: Database,
    others: Attached,
    merging: Merging,
    cursors: Mapping[str, int],
) -> Taken:
    """Let indexes take over trees of the same indexes of another memory.

    An index that somebody has moved on meanwhile takes over nothing more: its notes were placed one by one.

    Args:
        db: the memory that is merged into.
        attached: its indexes.
        other: the memory that is merged.
        others: its indexes.
        merging: what was copied.
        cursors: of the indexes that were up to date before the merge.
    """
    taken = Taken()
    with other.read() as source:
        with db.read() as tx:
            copied = copied_as_it_is(tx, source, merging)
            found = [
                index
                for row in indexes.rows(tx)
                if row.name in cursors
                and (index := attached.usable(row)) is not None
                and not index.deferred
                and _is_alike(source, others, row)
            ]
        for index in found:
            _run(db, source, index, cursors[index.name], copied, taken)
    return taken


def _is_alike(source: Tx, others: Attached, row: indexes.IndexRow) -> bool:
    """Return whether the other memory has the same index, of the same shape, and up to date."""
    there = indexes.find(source, row.name)
    return (
        there is not None
        and (there.version, there.settings) == (row.version, row.settings)
        and there.cursor == feed.position(source)
        and others.usable(there) is not None
    )


def _run(db: Database, source: Tx, index: MemoryIndex, cursor: int, copied: Copied, taken: Taken) -> None:
    pieces: list[Callable[[Tx], int]] = []
    error = attempt(source, lambda: pieces.extend(index.merge(copied)))
    for piece in pieces:
        with db.write() as tx:
            row = indexes.find(tx, index.name)
            if row is None or row.cursor != cursor:
                return
            done: list[int] = []
            error = attempt(tx, lambda piece=piece, tx=tx, done=done: done.append(piece(tx)))  # type: ignore[misc]
            meta.bump(tx)
        taken.trees += sum(done)
        if error is not None:
            break
    if error is not None:
        why = (
            f"the index {index.name!r} {described(error)} when it was to take over trees; they were made anew"
        )
        taken.problems = (*taken.problems, why)


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
