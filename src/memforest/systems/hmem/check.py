"""What must hold of the trees beyond their contract: windows, likenesses, states, and that each event is in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memforest.calendar import window_of
from memforest.interval import from_ms
from memforest.store import feed, indexes
from memforest.store.tx import Tx
from memforest.systems.base import IndexProblem
from memforest.systems.hmem import rows
from memforest.systems.hmem.event_rows import KINDS, Event, events, items_of
from memforest.systems.hmem.grow import OWNER
from memforest.systems.hmem.levels import EVENT, LEVELS, ROOT, WITHIN, YEAR
from memforest.systems.hmem.made import Made, made_by
from memforest.systems.hmem.rows import Row
from memforest.systems.hmem.settings import HMemSettings
from memforest.systems.zone import memory_zone


def problems(tx: Tx, settings: HMemSettings) -> list[IndexProblem]:
    """Return what is wrong with the table of the index, and with what it says of the trees.

    What has not been placed yet is passed over.
    """
    made = made_by(tx)
    if made is None:
        stray = sum(rows.level_sizes(tx).values())
        return [IndexProblem("tree", f"{stray} nodes that nothing says how they were made")] if stray else []
    row = indexes.find(tx, OWNER)
    waiting: set[int] = set()
    if row is not None:
        waiting = set(feed.read(tx, row.cursor)[0].get(KINDS[settings.events], ()))
    told = events(tx, KINDS[settings.events], items_of(tx, KINDS[settings.events]))
    found = rows.everything(tx)
    by_node = {one.node: one for one in found}
    return [
        IndexProblem("tree", message)
        for message in (
            *_events(found, told, waiting),
            *_windows(tx, found),
            *_parents(found, by_node, made),
            *_states(found),
        )
    ]


def _name(row: Row) -> str:
    return f"{LEVELS[row.level]} node {row.node}"


def _events(found: Sequence[Row], told: dict[int, Event], waiting: set[int]) -> Iterator[str]:
    """Yield events that are not where they were told, or are in no tree, or in one without being there."""
    placed = {row.founder: row for row in found if row.level == EVENT and row.founder is not None}
    for item in told.keys() - placed.keys() - waiting:
        yield f"event {item} is in no tree"
    for item, row in placed.items():
        event = told.get(item)
        if item in waiting:
            continue
        if event is None:
            yield f"{_name(row)}: its event {item} is not there"
        elif (event.said_ms, event.tie) != row.place or (event.r_ms, event.n) != (row.r_ms, row.n):
            yield f"{_name(row)}: does not say when and how often its event {item} was told"


def _windows(tx: Tx, found: Sequence[Row]) -> Iterator[str]:
    """Yield nodes that are not in the window in which they were begun."""
    zone = memory_zone(tx)
    for row in found:
        if row.level > YEAR:
            continue
        key = window_of(from_ms(row.said_ms), WITHIN.get(row.level, "year"), zone).key
        if key != row.within:
            yield f"{_name(row)}: is in the window {row.within}, and was begun in {key}"


def _parents(found: Sequence[Row], by_node: dict[int, Row], made: Made) -> Iterator[str]:
    """Yield nodes that are not below one of the next level that was begun in their window by one like them, or by themselves."""
    for row in found:
        if row.level == ROOT:
            continue
        parent = by_node.get(row.parent or 0)
        level = row.level + 1 if row.level < made.top else ROOT
        if parent is None or parent.level != level:
            yield f"{_name(row)}: is not below a {LEVELS[level]} node"
        elif level == ROOT:
            if parent.within != row.within[:4]:
                yield f"{_name(row)}: is below the year {parent.within}"
        elif (row.founder == parent.founder) != (row.likeness is None):
            yield f"{_name(row)}: says that it {'joined' if row.likeness is not None else 'began'} what it is below"
        elif row.likeness is not None and row.likeness < made.alphas[row.level]:
            yield f"{_name(row)}: joined with a likeness of {row.likeness}, less than {made.alphas[row.level]}"
        elif row.place < parent.place:
            yield f"{_name(row)}: was begun before what it is below"


def _states(found: Sequence[Row]) -> Iterator[str]:
    """Yield nodes that do not say when and how often what is below them was consolidated."""
    below: dict[int, list[Row]] = {}
    for row in found:
        if row.parent is not None:
            below.setdefault(row.parent, []).append(row)
    for row in found:
        if row.level == EVENT:
            continue
        kids = below.get(row.node, [])
        if not kids:
            yield f"{_name(row)}: has nothing below it"
        elif (row.r_ms, row.n) != (max(kid.r_ms for kid in kids), sum(kid.n + 1 for kid in kids) - 1):
            yield f"{_name(row)}: does not say when and how often it was consolidated"
