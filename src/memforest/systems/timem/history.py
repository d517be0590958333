"""What a memory is written after: the texts of earlier ones, and which memories had one of them before them.

Source: TiMem (arXiv 2601.02845) eq. 3: the last w memories of the level. Here they end before the window begins, so that a
window that is written late is not told what came after it, which the released code does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memforest.store import meta
from memforest.store.tx import Tx
from memforest.systems.timem import rows
from memforest.systems.timem.levels import LEVELS, MONTH, SEGMENT
from memforest.systems.timem.rows import Row
from memforest.systems.timem.settings import TiMemSettings

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


def followers(tx: Tx, settings: TiMemSettings, row: Row, *, said: bool = True) -> set[int]:
    """Return the nodes that have one in their history.

    Args:
        tx: a transaction.
        settings: of the index.
        row: the node.
        said: the turns of a segment are others now, and not only its text.
    """
    by_children = settings.history_of == "children"
    segments = row.level == SEGMENT and (said or not by_children)
    found = _those_after(tx, settings, row, row) if segments or not by_children else set()
    if by_children and row.parent is not None:
        parent = rows.by_node(tx, [row.parent]).get(row.parent)
        if parent is not None:
            found |= _those_after(tx, settings, parent, row)
    if row.level >= MONTH and by_rules(tx):
        found |= {one.node for one in rows.following(tx, row, _ALL)}
    return found


def _those_after(tx: Tx, settings: TiMemSettings, place: Row, row: Row) -> set[int]:
    """Return the nodes behind a place on its level that have a node in their history."""
    if LEVELS[place.level] not in settings.levels:
        return set()
    behind = rows.following(tx, place, _MORE * settings.history_at(place.level))
    return {one.node for one in behind if row.node in history_of(tx, settings, one)}


def _all_behind(tx: Tx, found: Iterable[Row]) -> set[int]:
    """Return all nodes behind the first of some on each level; of segments those of the same session."""
    first: dict[tuple[int, int | None], Row] = {}
    for row in sorted(found, key=lambda row: (row.begin_ms, row.tie)):
        first.setdefault((row.level, row.session if row.level == SEGMENT else None), row)
    return {one.node for row in first.values() for one in rows.following(tx, row, _ALL)}


def reopened(tx: Tx, settings: TiMemSettings, nodes: Iterable[int], *, gone: bool = False) -> set[int]:
    """Return the nodes whose texts are out of date when some nodes change: what is above them, and had one of them as history.

    Also what had one of those as history, and so on, because their texts will be others. Not so where a model writes after
    memories: each would be written anew because of the one before it.

    Args:
        tx: a transaction.
        settings: of the index.
        nodes: those that change; they are among what is returned.
        gone: what they tell must be told nowhere any more. After memories, it may have come into any that is behind them,
            also by one that is not its history now.
    """
    found: set[int] = set()
    fresh = set(nodes)
    spreads, first = gone or _spreads(tx, settings), True
    while fresh:
        fresh |= {row.node for row in rows.above(tx, fresh)}
        fresh -= found
        found |= fresh
        if not (first or spreads):
            break
        known = rows.by_node(tx, fresh).values()
        if gone and settings.history_of == "memories":
            fresh = _all_behind(tx, known) - found
        else:
            fresh = {one for row in known for one in followers(tx, settings, row, said=first)} - found
        first = False
    return found


def without(tx: Tx, settings: TiMemSettings, nodes: Collection[int]) -> set[int]:
    """Return the nodes whose texts are out of date when some nodes lose a part of their history: these, and what follows of it."""
    if not nodes:
        return set()
    if _spreads(tx, settings):
        return reopened(tx, settings, nodes)
    return set(nodes) | {row.node for row in rows.above(tx, nodes)}


def _spreads(tx: Tx, settings: TiMemSettings) -> bool:
    """Return whether a text that is another has those written anew that had it as history.

    After children it goes from one level to the next alone, and so comes to its end.
    """
    return settings.history_of == "children" or by_rules(tx)
