"""Reading sessions again whose chunks were cut or extracted otherwise than they would be now.

Each session is one transaction: until it is committed, what was extracted before is served; a session that a model cannot
read whole stays as it is. What is the same as before keeps the time at which it was first stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from memforest.concurrency import all_of, to_thread
from memforest.errors import BudgetError, StepError
from memforest.interval import to_ms
from memforest.memory.ingest.commit import CommittedSession, commit
from memforest.memory.ingest.extract import ExtractedSession, extract
from memforest.memory.ingest.judge import find_same
from memforest.memory.ingest.retract import retract_cell
from memforest.memory.ingest.stored_session import StoredSession, load
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.progress import Progress, Report
from memforest.memory.vectors import check_own
from memforest.store import meta, sessions, stale
from memforest.store.sessions import CellRow
from memforest.store.tx import Tx
from memforest.systems.attached import Placings
from memforest.text import cut

TURNS_AT_ONCE = 1_024
"""Turns whose chunks go to a model together; what is made of them is written before the next are begun."""


@dataclass(slots=True)
class _Left:
    """Sessions that could not be read, and why; how many chunks the budget did not reach."""

    reasons: dict[str, str] = field(default_factory=dict)
    over_budget: int = 0


async def reextract(writer: SessionWriter, report: Report) -> int:
    """Read the stale sessions again, and return how many were written.

    Args:
        writer: of the memory, with the configured chunk size.
        report: told how many sessions are done.

    Raises:
        BudgetError: if the budget is used up; what was written stays.
        StepError: if chunks of some sessions could not be read; all others are written.
        ModelError: if a model cannot be used at all.
        StoreError: if the memory cannot be written.
    """
    rows = await to_thread(_stale, writer)
    progress, left, done = Progress("sessions", len(rows), report), _Left(), 0
    for group in await to_thread(lambda: list(_groups(writer, rows))):
        for work in await _read(writer, group):
            done += await to_thread(_replace, writer, work, left)
            progress.add()
        if left.over_budget:
            break
    _raise_left(left, done, len(rows))
    return done


def _raise_left(left: _Left, done: int, total: int) -> None:
    if left.over_budget:
        raise BudgetError(
            f"the budget is used up: {done} of {total} sessions were read again, the others are as they were; the same call "
            "goes on"
        )
    if left.reasons:
        name, why = next(iter(left.reasons.items()))
        raise StepError(
            f"{len(left.reasons)} of {total} sessions were left as they were, the first {cut(repr(name), 60)}: {why}; the "
            "same call tries them again"
        )


def _stale(writer: SessionWriter) -> list[int]:
    with writer.db.read() as tx:
        return stale.stale_sessions(tx, writer.steps.extractor.name, writer.config.cell_turns)


def _groups(writer: SessionWriter, rows: Sequence[int]) -> Iterator[list[int]]:
    """Yield sessions that are read together: several for a model, else each by itself."""
    group: list[int] = []
    turns = 0
    with writer.db.read() as tx:
        sizes = {row: sessions.session_with_row(tx, row).turns for row in rows}
    for row in rows:
        group.append(row)
        turns += sizes[row]
        if turns >= TURNS_AT_ONCE or not writer.steps.extracts_apart:
            yield group
            group, turns = [], 0
    if group:
        yield group


async def _read(writer: SessionWriter, rows: Sequence[int]) -> list[tuple[ExtractedSession, list[CellRow]]]:
    """Extract the stale chunks of sessions; return each with the cells that it replaces, as they were read."""
    found = await to_thread(_load, writer, rows)
    made = await all_of(extract(one, writer.steps, writer.vectors, writer.threshold) for one, _ in found)
    if writer.steps.judge is not None:
        model = None if writer.vectors is None else writer.vectors.embedder.model_id
        same = await find_same(writer.steps.judge, writer.db, writer.cache, made, model)
        made = [replace(one, same=same) for one in made]
    return [(one, old) for one, (_, old) in zip(made, found, strict=True)]


def _load(writer: SessionWriter, rows: Sequence[int]) -> list[tuple[StoredSession, list[CellRow]]]:
    """Return sessions with the cells that they are to have in the place of others, and those; gone ones are left out."""
    found = []
    with writer.db.read() as tx:
        for row in rows:
            try:
                session = sessions.session_with_row(tx, row)
            except KeyError:
                continue
            stored = load(tx, writer.config, StoredSession(row, session.session_id))
            if not stored.turns:
                continue
            old, new = _recut(writer, session.infer, sessions.cells(tx, row), sorted(stored.turns))
            found.append((replace(stored, cells=new), old))
    return found


def _recut(
    writer: SessionWriter, infer: bool, cells: Sequence[CellRow], ordinals: Sequence[int]
) -> tuple[list[CellRow], list[CellRow]]:
    """Return the cells that are to go, and those that are to come, which have no row yet."""
    turns, extractor = writer.config.cell_turns, writer.steps.extractor.name
    parts = groupby(ordinals, key=lambda ordinal: ordinal // turns)
    spans = {(at, there[0], there[-1]) for at, part in parts for there in [list(part)]}
    kept = {
        (cell.ordinal, cell.first, cell.last)
        for cell in cells
        if (cell.status != "extracted" or not infer or cell.maker == extractor)
    } & spans
    old = [cell for cell in cells if (cell.ordinal, cell.first, cell.last) not in kept]
    session = cells[0].session
    new = [
        CellRow(-1 - at, session, at, first, last, "pending", None, None, ())
        for at, first, last in sorted(spans - kept)
    ]
    return old, new


def _replace(writer: SessionWriter, work: tuple[ExtractedSession, list[CellRow]], left: _Left) -> int:
    """Write what was extracted in the place of what was there; return 1, or 0 if the session was left as it is."""
    made, old = work
    name = made.stored.session_id
    over = sum(outcome.left for _, outcome in made.outcomes)
    failures = [outcome.failure for _, outcome in made.outcomes if outcome.failure is not None]
    if over:
        left.over_budget += over
        return 0
    if failures or made.stored.damaged:
        left.reasons[name] = failures[0] or "" if failures else "turns of it are damaged; `verify` names them"
        return 0
    with writer.db.write() as tx:
        if made.model is not None:
            check_own(tx, writer.db.path, made.model)
        if sessions.cells(tx, made.stored.row) and _unchanged(tx, made, old):
            _write(tx, writer, made, old)
            return 1
    left.reasons[name] = "another writer has changed it meanwhile"
    return 0


def _unchanged(tx: Tx, made: ExtractedSession, old: Sequence[CellRow]) -> bool:
    now = {cell.row: cell for cell in sessions.cells(tx, made.stored.row)}
    turns = {turn.ordinal: (row, turn) for row, turn in sessions.turns(tx, made.stored.row)}
    return turns == made.stored.turns and all(now.get(cell.row) == cell for cell in old)


def _write(tx: Tx, writer: SessionWriter, made: ExtractedSession, old: Sequence[CellRow]) -> None:
    """Retract the old cells, add the new ones and commit their statements.

    Raises:
        SessionConflictError: never, as the turns were compared in this transaction.
    """
    placings = Placings(tx, writer.attached)
    known = stale.facts_stored(tx, [cell.row for cell in old])
    for cell in old:
        retract_cell(tx, placings, cell.row)
    wanted = [(cell.ordinal, cell.first, cell.last) for cell, _ in made.outcomes]
    sessions.add_cells(tx, made.stored.row, wanted)
    rows = {cell.ordinal: cell for cell in sessions.cells(tx, made.stored.row)}
    outcomes = [(rows[cell.ordinal], outcome) for cell, outcome in made.outcomes]
    done = CommittedSession()
    if outcomes:
        commit(tx, placings, replace(made, outcomes=outcomes), to_ms(writer.config.clock()), done)
    else:
        placings.close()
    stale.keep_stored(tx, known)
    meta.bump(tx)
