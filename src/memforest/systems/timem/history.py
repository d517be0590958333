"""What a memory is written after: the texts of earlier ones, and which memories had one of them before them.

Source: TiMem (arXiv 2601.02845) eq. 3: the last w memories of the level. Here they end before the window begins, so that a
window that is written late is not told what came after it, which the released code does.
"""

from __future__ import annotations

from collections.abc import Iterable

from memforest.store import meta
from memforest.store.tx import Tx
from memforest.systems.timem import rows
from memforest.systems.timem.levels import LEVELS, MONTH, SEGMENT
from memforest.systems.timem.rows import Row
from memforest.systems.timem.settings import TiMemSettings

__all__ = ["WRITER", "by_rules", "followers", "history_of", "reopened"]

WRITER = "ix_timem_writer"
"""Entry of `meta`: what memories are written by, ``"rules"`` or ``"model"``."""
_ALL = 1 << 30
_MORE = 4
"""Nodes looked at behind one for each that it may be the history of: sessions that overlap are none of each other's."""


def by_rules(tx: Tx) -> bool:
    """Return whether memories are written without a model. A month then holds which states are in force, since whenever."""
    return meta.get(tx, WRITER) != "model"


def history_of(tx: Tx, settings: TiMemSettings, row: Row) -> list[int]:
    """Return the nodes whose texts stand before a memory when it is written, in order.

    Of a segment they are always segments: with ``history_of="children"`` their turns are shown, not what was written of them.
    """
    if LEVELS[row.level] not in settings.levels:
        return []
    many = settings.history_at(row.level)
    if not many:
        return []
    if row.level == SEGMENT:
        return rows.parts_before(tx, row.session or 0, row.part or 0, many)
    if settings.history_of == "memories":
        return rows.before(tx, row, many)
    return rows.children_before(tx, row, many)


def followers(tx: Tx, settings: TiMemSettings, row: Row) -> set[int]:
    """Return the nodes behind one on its level that have it, or something right below it, in their history.

    Of months without a model, all behind it: they hold which states are in force, since whenever.
    """
    if LEVELS[row.level] not in settings.levels:
        return set()
    if row.level >= MONTH and by_rules(tx):
        return {one.node for one in rows.following(tx, row, _ALL)}
    behind = rows.following(tx, row, _MORE * settings.history_at(row.level))
    if not behind:
        return set()
    shown = {row.node, *(one.node for one in rows.below(tx, row.node))}
    return {one.node for one in behind if not shown.isdisjoint(history_of(tx, settings, one))}


def reopened(tx: Tx, settings: TiMemSettings, nodes: Iterable[int], *, closure: bool) -> set[int]:
    """Return the nodes whose texts are out of date when some nodes change: what is above them, and had one of them as history.

    Args:
        tx: a transaction.
        settings: of the index.
        nodes: those that change; they are among what is returned.
        closure: also what had one of those as history, and so on, as where a text must be told nowhere any more.
    """
    found: set[int] = set()
    fresh = set(nodes)
    first = True
    while fresh:
        fresh |= {row.node for row in rows.above(tx, fresh)}
        fresh -= found
        found |= fresh
        if not (first or closure):
            break
        first = False
        known = rows.by_node(tx, fresh)
        fresh = {one for row in known.values() for one in followers(tx, settings, row)} - found
    return found
