"""From the feed to the tree: the segments of turns that are new, changed or gone, and all that stands above them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memforest.store import feed, indexes, meta
from memforest.store.tx import Tx
from memforest.systems.base import STEP, Placed
from memforest.systems.timem import rows, turn_rows
from memforest.systems.timem.grow import OWNER, CalendarTree
from memforest.systems.timem.history import by_rules
from memforest.systems.timem.schedule import schedule
from memforest.systems.timem.settings import TiMemSettings
from memforest.systems.zone import memory_zone

_OCCURRENCE = "ix_timem_occurrence"
"""Entry of `meta`: the last occurrence of a statement that was looked at."""


def forget_place(tx: Tx) -> None:
    """Have all occurrences looked at again."""
    meta.put(tx, _OCCURRENCE, "0")


def receive(tx: Tx, settings: TiMemSettings, until: int) -> bool:
    """Place the next notes of the feed, and return whether more are left.

    If the index is not behind any more, another process was quicker, and nothing is done.
    """
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor >= until:
        return False
    items, upto = feed.read(tx, row.cursor, STEP, until)
    turns, facts = items.get("turn", ()), items.get("fact", ())
    groups, stored = turn_rows.groups_of(tx, turns, 2 * settings.segment)
    if stored < len(set(turns)):  # what went while nobody told the index
        for one in rows.stale(tx):
            groups.setdefault(one.session or 0, set()).add(one.part or 0)
    edit(tx, settings, groups, _retold(tx, settings, facts, turns))
    indexes.move(tx, OWNER, upto)
    return upto < until


def _retold(tx: Tx, settings: TiMemSettings, facts: Collection[int], new: Collection[int]) -> list[int]:
    """Return the segments of turns that have come to support a statement and are not new themselves.

    What is forgotten or worded otherwise was announced to `leave`. A model is not shown statements.
    """
    if not facts or not by_rules(tx):
        return []
    turns = turn_rows.supporting(tx, facts, int(meta.get(tx, _OCCURRENCE) or 0))
    meta.put(tx, _OCCURRENCE, str(turn_rows.last_occurrence(tx)))
    known = set(new)
    return [
        one.node
        for one in rows.holding(tx, [turn for turn in turns if turn not in known], 2 * settings.segment)
    ]


def edit(
    tx: Tx, settings: TiMemSettings, groups: Mapping[int, Collection[int]], retold: Collection[int] = ()
) -> Placed:
    """Cut segments anew, note which are told otherwise, and have what is out of date written.

    Args:
        tx: the write transaction.
        settings: of the index.
        groups: session -> the numbers of its segments.
        retold: segments of which something else is known now.
    """
    zone = memory_zone(tx)
    tree = CalendarTree(tx, settings, zone)
    for session, parts in groups.items():
        tree.cut(session, parts)
    tree.reopen(rows.by_node(tx, retold))
    placed, marked = tree.close()
    schedule(tx, settings, zone, marked)
    return placed
