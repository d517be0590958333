"""Merging what people have decided of statements: corrections of the other memory, and what follows of them here.

A correction holds here from the merge on, and of several the one that was made last counts, whichever memory it was made in.
What it is about of sessions that are here already is settled at once, the rest when its session is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memforest.facts.canonical import fact_identity
from memforest.interval import from_ms
from memforest.memory.ingest.corrections import Settled, cells_about, settle_cells, settle_verdicts
from memforest.memory.merge.match import read_facts
from memforest.memory.merge.names import Names
from memforest.memory.merge.plan import Plan
from memforest.store import copying
from memforest.store import corrections as rows
from memforest.store.corrections import Correction
from memforest.store.tx import Tx
from memforest.systems.attached import Placings

__all__ = ["CorrectionsMerged", "merge_corrections", "new_corrections"]


@dataclass(frozen=True, slots=True)
class CorrectionsMerged:
    """Rows of corrections there -> here, how many of them are new here, and the outcome of applying those that changed."""

    rows: dict[int, int]
    new: int
    settled: Settled


def merge_corrections(
    tx: Tx, source: Tx, placings: Placings, plan: Plan, stored_ms: int
) -> CorrectionsMerged:
    """Store what people have decided of statements there, and apply it to what is here already.

    Args:
        tx: the write transaction.
        source: a read transaction of the other memory.
        placings: the indexes, which are told what changes.
        plan: who is who, and which session becomes what.
        stored_ms: the present, UTC ms.

    Raises:
        CorruptStoreError: if a statement is not what its identity was made of.
    """
    ids = {one.there.session_id: one.session_id for one in plan.sessions}
    places = rows.named_places(source)
    found: dict[int, int] = {}
    changed: list[Correction] = []
    new = 0
    for one in _renamed(source, rows.all_corrections(source), plan.names):
        stored = rows.correction_with_key(tx, one.key)
        undone_ms = None if one.undone_ms is None else stored_ms
        if stored is None:
            made = replace(one, stored_ms=stored_ms, undone_ms=undone_ms)
            stored = replace(made, row=rows.add_correction(tx, made))
            new += 1
            changed.append(stored)
        elif undone_ms is not None and stored.undone_ms is None:
            rows.undo_correction(tx, stored.row, undone_ms)
            changed.append(stored)
        found[one.row] = stored.row
        known = [place for place in places.get(one.row, ()) if place.session_id in ids]
        rows.add_places(tx, stored.row, (place._replace(session_id=ids[place.session_id]) for place in known))
    return CorrectionsMerged(found, new, _settle(tx, placings, changed))


def _settle(tx: Tx, placings: Placings, changed: list[Correction]) -> Settled:
    """Apply corrections that are new here or undone to what was said here before."""
    if not changed:
        return Settled()
    settled = settle_cells(tx, placings, sorted(cells_about(tx, changed)))
    told = {one.fact_id for one in changed}
    settle_verdicts(tx, placings, copying.facts_with_identities(tx, told).values())
    return settled


def _renamed(source: Tx, found: list[Correction], names: Names) -> list[Correction]:
    """Return corrections with the identities and texts that their statements have here."""
    if not names or not found:
        return found
    wanted = {fact_id for one in found for fact_id in (one.fact_id, one.made) if fact_id is not None}
    stored = copying.facts_with_identities(source, wanted)
    reading = read_facts(source, stored.values(), names, vectors=False)
    renamed = []
    for one in found:
        about = [stored[fact_id] for fact_id in (one.fact_id, one.made) if fact_id in stored]
        called = [pair for row in about for pair in reading.called.get(row, ())]
        fact = reading.facts.get(stored.get(one.fact_id, 0))
        text = None if one.text is None else names.text(one.text, called)
        renamed.append(
            replace(
                one,
                fact_id=one.fact_id if fact is None else fact.fact_id,
                said=names.text(one.said, called),
                text=text,
                made=None if text is None else _identity(one, text),
            )
        )
    return renamed


def _identity(one: Correction, text: str) -> str:
    times = [None if ms is None else from_ms(ms) for ms in (one.start_ms, one.end_ms)]
    return fact_identity(text, times[0], times[1])


def new_corrections(tx: Tx, source: Tx) -> int:
    """Return how many corrections there are that are not here."""
    known = {one.key for one in rows.all_corrections(tx)}
    return sum(one.key not in known for one in rows.all_corrections(source))
