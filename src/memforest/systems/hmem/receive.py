"""From the feed to the trees: events that are new, changed or gone, and all that stands above them."""

from __future__ import annotations

from dataclasses import replace

from memforest.store import feed, indexes
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import STEP
from memforest.systems.hmem import rows
from memforest.systems.hmem.event_rows import KINDS
from memforest.systems.hmem.grow import OWNER, EventTrees
from memforest.systems.hmem.levels import top_level
from memforest.systems.hmem.made import Made, forget, made_by, note, now
from memforest.systems.hmem.settings import HMemSettings
from memforest.systems.zone import memory_zone


def trees(tx: Tx, settings: HMemSettings, made: Made, now_ms: int | None) -> EventTrees:
    """Return the trees to edit, as they were made."""
    return EventTrees(tx, settings, memory_zone(tx), made.alphas, now_ms, made.top)


def receive(tx: Tx, settings: HMemSettings, until: int, now_ms: int, step: int = STEP) -> bool:
    """Place the next notes of the feed, and return whether more are left.

    If the index is not behind any more, another process was quicker, and nothing is done.
    """
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor >= until:
        return False
    items, upto = feed.read(tx, row.cursor, step, until)
    made = made_by(tx) or now(tx, settings)
    noted = items.get(KINDS[settings.events], ())
    if noted and made is not None:
        edited = trees(tx, settings, made, now_ms)
        edited.put(noted)
        edited.close()
        note(tx, replace(made, top=edited.top))
    indexes.move(tx, OWNER, upto)
    return upto < until


def grown(tx: Tx, now_ms: int) -> bool:
    """Return whether the memory has grown old enough for more levels than its trees have."""
    made, first_ms = made_by(tx), rows.first_said(tx)
    return made is not None and first_ms is not None and top_level(first_ms, now_ms) > made.top


def raise_levels(tx: Tx, settings: HMemSettings, now_ms: int) -> None:
    """Build the levels that have become active, of everything that there is, in order."""
    made = made_by(tx)
    if made is not None:
        edited = trees(tx, settings, made, now_ms)
        edited.close()
        note(tx, replace(made, top=edited.top))


def empty(tx: Tx) -> None:
    """Delete the trees and the rows of the table."""
    tree_rows.drop_trees(tx, OWNER)
    indexes.empty_tables(tx, OWNER)
    forget(tx)
