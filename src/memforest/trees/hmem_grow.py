"""The trees of the hmem index, edited inside a write transaction: events, and the memories of weeks, months and years.

There is one tree a year. Which nodes it has follows from the events that are stored, their times and vectors, the memory's
zone and the settings, and from nothing else: in each window nodes are placed in the order in which they were begun
(`memforest.trees.hmem_rows`), by the vectors of the events that began them. So what comes in order is added and moves
nothing, and what comes late, or goes, has only what is behind it in its own windows placed anew. A node that is begun by the
same event keeps its id and text. With the setting ``compare="text"`` memories are placed by what they said then, and the trees
depend on the order in which events came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memforest.nodes import Node, TreeHead
from memforest.reading.periods import CalendarWindow, Unit, window_of
from memforest.search.filters import memory_zone
from memforest.store import derived, indexes
from memforest.store import trees as trees_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Items
from memforest.store.trees import SqliteArena, drop_leaves
from memforest.times import from_ms, to_ms
from memforest.trees import hmem_rows
from memforest.trees.hmem_rows import (
    EVENT,
    KINDS,
    LEVELS,
    ROOT,
    WEEK,
    WITHIN,
    YEAR,
    Event,
    HMemMade,
    HMemNode,
    HMemSettings,
    WindowNode,
    events,
    items_of,
    made_by,
    note,
    now,
    top_level,
)
from memforest.trees.index import STEP, Host, IndexProblem, Placed, Placing, is_behind, place_notes

OWNER, KIND = "hmem", "year"

_Place = tuple[int, str]
_FIRST: _Place = (-(2**63), "")
_UNIT: Mapping[int, Unit] = {level + 1: unit for level, unit in WITHIN.items()}


class EventTrees:
    """The trees, while they are edited; `close` writes everything back.

    Args:
        tx: the write transaction.
        settings: of the index.
        zone: the memory's.
        alphas: the least likenesses of events, weeks and months.
        now_ms: the present, by which the age of the memory says how many levels it has.
        top: the highest level that the trees have.

    Attributes:
        top: the highest level that they have now.
    """

    def __init__(
        self,
        tx: Tx,
        settings: HMemSettings,
        zone: tzinfo,
        alphas: Sequence[float],
        now_ms: int | None,
        top: int,
    ) -> None:
        self._tx, self._settings, self._zone, self._alphas = tx, settings, zone, alphas
        self._now_ms, self.top = now_ms, top
        self._kind = KINDS[settings.events]
        self._arena = SqliteArena(tx)
        self._changed: dict[int, dict[str, _Place]] = {level: {} for level in range(ROOT)}
        """Level -> window -> the first place from which on nodes are to be placed anew."""
        self._come: Counter[tuple[int, str]] = Counter()
        """Level and window -> how many nodes have come."""
        self._gone: dict[tuple[int, str], list[int]] = {}
        """Level and window -> what the nodes that have gone were below."""
        self._touched: set[int] = set()
        """Nodes whose children, or what these tell, are others now; some may be gone."""
        self._heads: dict[str, TreeHead] = {}
        self._trees: set[int] = set()
        self._windows: dict[Unit, CalendarWindow] = {}

    def put(self, items: Collection[int]) -> None:
        """Give items the places that they have now: those that are no events any more have none."""
        wanted, have = events(self._tx, self._kind, items), hmem_rows.by_founder(self._tx, EVENT, items)
        for item in items:
            event, row = wanted.get(item), have.get(item)
            if event is not None and row is not None and row.place == (event.said_ms, event.tie):
                hmem_rows.put_event(self._tx, row.node, event)
                self._touch(row.parent)
                continue
            if row is not None:
                self._drop(row)
            if event is not None:
                self._add_event(event)

    def take(self, items: Collection[int]) -> None:
        """Take items out; they may be gone already."""
        for row in hmem_rows.by_founder(self._tx, EVENT, items).values():
            self._drop(row)

    def _add_event(self, event: Event) -> None:
        within = self._within(EVENT, event.said_ms)
        row = HMemNode(
            self._arena.new_id(),
            EVENT,
            event.item,
            None,
            within,
            *event[1:3],
            None,
            *event[3:5],
            1,
            *event[5:],
        )
        hmem_rows.add(self._tx, row)
        self._arena.put(self._node(row))
        self._change(row)
        self._come[EVENT, within] += 1

    def _within(self, level: int, said_ms: int) -> str:
        """Return the key of the window, of the size of the parent's, in which an event was told."""
        return self._window(WITHIN.get(level, "year"), said_ms)

    def _window(self, unit: Unit, said_ms: int) -> str:
        """Return the key of a window; what is told in one session mostly lies in one."""
        instant, last = from_ms(said_ms), self._windows.get(unit)
        if last is None or not last.contains(instant):
            last = self._windows[unit] = window_of(instant, unit, self._zone)
        return last.key

    def _node(self, row: HMemNode) -> Node:
        leaf = row.level == EVENT
        unit = _UNIT.get(row.level)
        kind, item = (self._kind, row.founder) if leaf else (None, None)
        interval = (row.start_ms, row.end_ms, row.leaves, (), kind, item, 1, not leaf)
        window = None if unit is None else self._window(unit, row.said_ms)
        tree = self._head(row.within[:4]).tree
        return Node(row.node, tree, row.level, (row.start_ms, row.tie), *interval, window=window)

    def _head(self, year: str) -> TreeHead:
        if year not in self._heads:
            found = trees_rows.find_head(self._tx, OWNER, KIND, int(year))
            if found is None:
                found = trees_rows.put_head(self._tx, OWNER, KIND, int(year), TreeHead(0, 0))
            self._heads[year] = found
        return self._heads[year]

    def _change(self, row: HMemNode) -> None:
        """Have the nodes of a window placed anew from a node on."""
        first = self._changed[row.level].get(row.within)
        if first is None or row.place < first:
            self._changed[row.level][row.within] = row.place

    def _touch(self, node: int | None) -> None:
        if node is not None:
            self._touched.add(node)

    def _drop(self, row: HMemNode) -> None:
        """Take a node out with the memories that it began; their other children come later, and are placed anew."""
        begun = hmem_rows.by_founder(self._tx, row.level + 1, [row.founder or 0]) if row.level < YEAR else {}
        if row.level == EVENT:
            drop_leaves(self._tx, [row.node])
        else:
            self._arena.drop(row.node)
        hmem_rows.delete(self._tx, [row.node])
        self._change(row)
        self._gone.setdefault((row.level, row.within), []).append(row.parent or 0)
        self._touch(row.parent)
        self._head(row.within[:4])
        for above in begun.values():
            self._drop(above)

    def _cluster(self, level: int, within: str, place: _Place, *, whole: bool = False) -> None:
        """Place the nodes of a window anew, from a place on, that others which have come or gone may move.

        Those that come may move what stands right behind them. What goes or moves may move all of the rest.
        """
        cap = self._settings.cap
        come, gone = self._come[level, within], self._gone.get((level, within), ())
        by_text = self._settings.compare == "text" and level > EVENT  # texts change with what is below
        whole = whole or bool(gone) or place == _FIRST or by_text
        most = None if whole else come + cap
        found, first = hmem_rows.window_around(self._tx, level, within, place, cap + come, most)
        if first == len(found):
            return
        vectors = self._vectors(level, found)
        alpha = self._alphas[level]
        joined = hmem_rows.assign_anew(found, first, vectors, alpha, cap=cap, come=come, gone=gone)
        moved = [at for at, (founder, _) in joined.items() if found[at].begun_by not in (None, founder)]
        if not whole and (moved or any(row.begun_by for row in found[first : first + come])):
            self._cluster(level, within, place, whole=True)
            return
        rows = hmem_rows.by_node(self._tx, [found[at].node for at in joined])
        behind = [rows[found[at].node] for at in joined]
        wanted = {row.founder or 0 for row in behind} | {founder for founder, _ in joined.values()}
        above = hmem_rows.by_founder(self._tx, level + 1, wanted)
        for row, (_, likeness) in zip(behind, joined.values(), strict=True):
            if likeness is not None and row.founder in above:
                self._drop(above.pop(row.founder))
            elif likeness is None and row.founder is not None and row.founder not in above:
                above[row.founder] = self._begin(level + 1, row)
        parents = [above[founder].node for founder, _ in joined.values()]
        self._join(behind, parents, [likeness for _, likeness in joined.values()])

    def _vectors(self, level: int, found: Sequence[WindowNode]) -> NDArray[np.float32]:
        """Return the vectors that nodes of a level are compared by: of the events that began them, or of what they say."""
        founders = [row.founder for row in found]
        items, vectors = zip(*derived.vector_blocks(self._tx, self._kind, founders), strict=True)
        given: NDArray[np.float32] = np.concatenate(vectors)[np.searchsorted(np.concatenate(items), founders)]
        if self._settings.compare == "text" and level > EVENT:
            # A node that was begun just now says what the event says, and has no text of its own yet.
            said = derived.vectors_of_items(self._tx, "node", [row.node for row in found])
            for at, row in enumerate(found):
                given[at] = said.get(row.node, given[at])
        return given

    def _begin(self, level: int, child: HMemNode) -> HMemNode:
        """Begin the memory of a window, or the root of a year, with a node below it."""
        row = child._replace(node=self._arena.new_id(), level=level, parent=None, likeness=None)
        if level == ROOT:
            row = row._replace(founder=None, within=child.within[:4], said_ms=0, tie="")
        else:
            row = row._replace(within=self._within(level, child.said_ms))
        hmem_rows.add(self._tx, row)
        self._arena.put(self._node(row))
        if level != ROOT:
            self._change(row)
            self._come[level, row.within] += 1
        return row

    def _join(
        self, found: Sequence[HMemNode], parents: Sequence[int], likenesses: Sequence[float | None]
    ) -> None:
        """Put nodes under others."""
        joins = []
        for row, parent, likeness in zip(found, parents, likenesses, strict=True):
            if row.parent != parent:
                self._touch(row.parent)
            if (row.parent, row.likeness) != (parent, likeness):
                joins.append((parent, likeness, row.node))
                self._touch(parent)
        hmem_rows.join(self._tx, joins)

    def _attach(self, within: str) -> None:
        """Put the highest nodes of a window under the root of their year."""
        root = hmem_rows.root_of(self._tx, within[:4])
        found = hmem_rows.not_under(self._tx, self.top, within, None if root is None else root.node)
        if not found:
            return
        root = root or self._begin(ROOT, found[0])
        self._join(found, [root.node] * len(found), [None] * len(found))

    def close(self) -> Placed:
        """Place what is to be placed, bring what is above up to date, write everything back, and return the counts."""
        first_ms = hmem_rows.first_said(self._tx)
        if first_ms is not None and self._now_ms is not None:
            # Levels come as the memory grows old enough for them; none is ever taken away.
            top = top_level(first_ms, self._now_ms)
            if top > self.top:
                changed = self._changed[self.top]
                changed.update(dict.fromkeys(hmem_rows.windows_of(self._tx, self.top), _FIRST))
                self.top = top
        for level in range(EVENT, self.top):
            for within, place in self._changed[level].items():
                self._cluster(level, within, place)
        for within in self._changed[self.top]:
            self._attach(within)
        self._renew_all()
        self._arena.flush()
        for year, head in self._heads.items():
            root = hmem_rows.root_of(self._tx, year)
            if root is None:
                trees_rows.drop_tree(self._tx, head)
                continue
            now = replace(head, root=root.node, height=ROOT, count=self._arena.get(root.node).count)
            if now != head:
                trees_rows.put_head(self._tx, OWNER, KIND, int(year), now)
        return Placed(self._arena.written, frozenset(self._trees))

    def _renew_all(self) -> None:
        """Bring nodes up to date, and what is above them, the lowest level first."""
        waiting: dict[int, dict[int, HMemNode]] = {level: {} for level in range(WEEK, ROOT + 1)}
        for level in range(WEEK, ROOT + 1):
            for row in hmem_rows.by_node(self._tx, self._touched).values():
                waiting[row.level][row.node] = row
            self._touched.clear()
            for _, row in sorted(waiting[level].items()):
                self._renew(row)

    def _renew(self, row: HMemNode) -> None:
        """Bring a node up to date with its children, and mark its parent as touched."""
        node = row.node
        self._head(row.within[:4])
        self._touch(row.parent)
        made = hmem_rows.hull(self._tx, node)
        if made is None:
            self._arena.drop(node)
            hmem_rows.delete(self._tx, [node])
            return
        stored = self._arena.get(node)
        stored.children, stored.start_ms, stored.end_ms, stored.count = made[:4]
        stored.key = stored.start_ms, row.tie
        stored.version, stored.dirty = stored.version + 1, True
        self._arena.put(stored)
        self._trees.add(stored.tree)


def trees(tx: Tx, settings: HMemSettings, made: HMemMade, now_ms: int | None) -> EventTrees:
    """Return the trees to edit, as they were made."""
    return EventTrees(tx, settings, memory_zone(tx), made.alphas, now_ms, made.top)


def place(tx: Tx, settings: HMemSettings, items: Collection[int], now_ms: int) -> None:
    """Place items in the trees, and build the levels that have become active."""
    made = made_by(tx) or (now(tx, settings) if items else None)
    if made is not None:
        edited = trees(tx, settings, made, now_ms)
        edited.put(items)
        edited.close()
        note(tx, replace(made, top=edited.top))


def receive(tx: Tx, settings: HMemSettings, until: int, now_ms: int, step: int = STEP) -> bool:
    """Place the next notes of the feed, and return whether more are left."""

    def placed(items: Items) -> None:
        if noted := items.get(KINDS[settings.events], ()):
            place(tx, settings, noted, now_ms)

    return place_notes(tx, OWNER, until, placed, step)


async def advance(host: Host, settings: HMemSettings, until: int) -> None:
    """Place the notes of the feed up to a number; with `eager`, consolidate everything above an event before the next one.

    Raises:
        ConfigError: if the zone of the memory is not known here.
    """
    now_ms = to_ms(host.now)
    behind, older = await host.look(partial(_state, until=until, now_ms=now_ms))
    step = 1 if settings.eager else STEP
    while behind:
        behind = await host.write(partial(receive, settings=settings, until=until, now_ms=now_ms, step=step))
        if settings.eager:
            await host.ensure_fresh(lambda tx: trees_rows.dirty_children(tx, owner=OWNER))
    if older:
        await host.write(partial(place, settings=settings, items=(), now_ms=now_ms))


def _state(tx: Tx, until: int, now_ms: int) -> tuple[bool, bool]:
    """Return whether notes wait, and whether the memory is old enough for more levels than its trees have."""
    made, first_ms = made_by(tx), hmem_rows.first_said(tx)
    older = made is not None and first_ms is not None and top_level(first_ms, now_ms) > made.top
    return is_behind(tx, OWNER, until), older


class HMemPlacing(Placing):
    """Takes events out of the trees in a transaction that changes them; see `memforest.trees.index.Placing`.

    Nothing is placed here: the index is deferred.
    """

    def __init__(self, tx: Tx, settings: HMemSettings) -> None:
        self._tx, self._settings = tx, settings
        self._left: set[int] = set()

    def leave(self, items: Items) -> None:
        """Drop the summaries above events, and those that are out of date: these may tell of events that stood elsewhere."""
        found = hmem_rows.by_founder(self._tx, EVENT, items.get(KINDS[self._settings.events], ()))
        if not found:
            return
        told = {row.node for row in hmem_rows.above(self._tx, [row.node for row in found.values()])}
        told |= trees_rows.dirty_children(self._tx, owner=OWNER).keys()
        derived.drop_summaries(self._tx, sorted(told))
        self._left |= found.keys()

    def close(self) -> Placed:
        """Take out the events that have gone; later nodes of their windows are placed anew."""
        made = made_by(self._tx)
        if not self._left or made is None:
            return Placed()
        edited = trees(self._tx, self._settings, made, None)
        edited.take(self._left)
        return edited.close()


def problems(tx: Tx, settings: HMemSettings) -> list[IndexProblem]:
    """Check the index's table against the events and the trees.

    What has not been placed yet is passed over.
    """
    made = made_by(tx)
    if made is None:
        stray = sum(hmem_rows.level_sizes(tx).values())
        return [IndexProblem("tree", f"{stray} nodes that nothing says how they were made")] if stray else []
    row = indexes.find(tx, OWNER)
    waiting: set[int] = set()
    if row is not None:
        waiting = set(indexes.read(tx, row.cursor)[0].get(KINDS[settings.events], ()))
    told = events(tx, KINDS[settings.events], items_of(tx, KINDS[settings.events]))
    found = hmem_rows.everything(tx)
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


def _name(row: HMemNode) -> str:
    return f"{LEVELS[row.level]} node {row.node}"


def _events(found: Sequence[HMemNode], told: dict[int, Event], waiting: set[int]) -> Iterator[str]:
    """Yield events at a wrong place, events without a leaf, and leaves without an event."""
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


def _windows(tx: Tx, found: Sequence[HMemNode]) -> Iterator[str]:
    """Yield nodes that are outside of the window in which they began."""
    zone = memory_zone(tx)
    for row in found:
        if row.level > YEAR:
            continue
        key = window_of(from_ms(row.said_ms), WITHIN.get(row.level, "year"), zone).key
        if key != row.within:
            yield f"{_name(row)}: is in the window {row.within}, and was begun in {key}"


def _parents(found: Sequence[HMemNode], by_node: dict[int, HMemNode], made: HMemMade) -> Iterator[str]:
    """Yield nodes below a wrong parent, or that joined it without being like it."""
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


def _states(found: Sequence[HMemNode]) -> Iterator[str]:
    """Yield nodes whose consolidation time or count is not that of their children."""
    below: dict[int, list[HMemNode]] = {}
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
