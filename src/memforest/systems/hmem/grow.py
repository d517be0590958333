"""The trees of the index, edited inside a write transaction: events, and the memories of weeks, months and years above them.

There is one tree a year. Which nodes it has follows from the events that are stored, their times and vectors, the memory's
zone and the settings, and from nothing else: in each window nodes are placed in the order in which they were begun
(`memforest.systems.hmem.cluster`), by the vectors of the events that began them. So what comes in order is added and moves
nothing, and what comes late, or goes, has only what is behind it in its own windows placed anew. A node that is begun by the
same event keeps its id and text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from memforest.calendar import CalendarWindow, Unit, window_of
from memforest.interval import from_ms
from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.leaves import drop_leaves
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.base import Placed
from memforest.systems.hmem import edit_rows, rows
from memforest.systems.hmem.cluster import assign
from memforest.systems.hmem.event_rows import KINDS, Event, events
from memforest.systems.hmem.levels import EVENT, ROOT, WEEK, WITHIN, YEAR, top_level
from memforest.systems.hmem.rows import Row
from memforest.systems.hmem.settings import HMemSettings
from memforest.tree import Node, TreeHead

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
        self._touched: set[int] = set()
        """Nodes whose children, or what these tell, are others now; some may be gone."""
        self._heads: dict[str, TreeHead] = {}
        self._trees: set[int] = set()
        self._windows: dict[Unit, CalendarWindow] = {}

    # -- events -----------------------------------------------------------------------------------

    def put(self, items: Collection[int]) -> None:
        """Give items the places that they have now: those that are no events any more have none."""
        wanted, have = events(self._tx, self._kind, items), rows.by_founder(self._tx, EVENT, items)
        for item in items:
            event, row = wanted.get(item), have.get(item)
            if event is not None and row is not None and row.place == (event.said_ms, event.tie):
                edit_rows.put_event(self._tx, row.node, event)
                self._touch(row.parent)
                continue
            if row is not None:
                self._drop(row)
            if event is not None:
                self._add_event(event)

    def take(self, items: Collection[int]) -> None:
        """Take items out; they may be gone already."""
        for row in rows.by_founder(self._tx, EVENT, items).values():
            self._drop(row)

    def _add_event(self, event: Event) -> None:
        within = self._within(EVENT, event.said_ms)
        row = Row(
            self._arena.new_id(),
            EVENT,
            event.item,
            None,
            within,
            event.said_ms,
            event.tie,
            None,
            event.start_ms,
            event.end_ms,
            1,
            event.r_ms,
            event.n,
        )
        edit_rows.add(self._tx, row)
        self._arena.put(self._node(row))
        self._change(row)

    def _within(self, level: int, said_ms: int) -> str:
        """Return the key of the window of the parent's size in which something was told; of a year's memory, of the year."""
        return self._window(WITHIN.get(level, "year"), said_ms)

    def _window(self, unit: Unit, said_ms: int) -> str:
        """Return the key of a window; what is told in one session mostly lies in one."""
        instant, last = from_ms(said_ms), self._windows.get(unit)
        if last is None or not last.contains(instant):
            last = self._windows[unit] = window_of(instant, unit, self._zone)
        return last.key

    def _node(self, row: Row) -> Node:
        leaf = row.level == EVENT
        unit = _UNIT.get(row.level)
        return Node(
            id=row.node,
            tree=self._head(row.within[:4]).tree,
            level=row.level,
            key=(row.start_ms, row.tie),
            start_ms=row.start_ms,
            end_ms=row.end_ms,
            count=row.leaves,
            children=(),
            item_kind=self._kind if leaf else None,
            item=row.founder if leaf else None,
            version=1,
            dirty=not leaf,
            window=None if unit is None else self._window(unit, row.said_ms),
        )

    def _head(self, year: str) -> TreeHead:
        if year not in self._heads:
            found = tree_rows.find_head(self._tx, OWNER, KIND, int(year))
            if found is None:
                found = tree_rows.put_head(self._tx, OWNER, KIND, int(year), TreeHead(0, 0))
            self._heads[year] = found
        return self._heads[year]

    # -- what is to be done -----------------------------------------------------------------------

    def _change(self, row: Row) -> None:
        """Have the nodes of a window placed anew from a node on."""
        first = self._changed[row.level].get(row.within)
        if first is None or row.place < first:
            self._changed[row.level][row.within] = row.place

    def _touch(self, node: int | None) -> None:
        if node is not None:
            self._touched.add(node)

    def _drop(self, row: Row) -> None:
        """Take a node out, and what was begun by it; what stood under it is behind it, and is placed anew."""
        begun = rows.by_founder(self._tx, row.level + 1, [row.founder or 0]) if row.level < YEAR else {}
        if row.level == EVENT:
            drop_leaves(self._tx, [row.node])
        else:
            self._arena.drop(row.node)
        edit_rows.delete(self._tx, [row.node])
        self._change(row)
        self._touch(row.parent)
        self._head(row.within[:4])
        for above in begun.values():
            self._drop(above)

    # -- levels -----------------------------------------------------------------------------------

    def _set_top(self) -> None:
        """Add the levels that the memory has grown old enough for; none is ever taken away."""
        first_ms = rows.first_said(self._tx)
        if first_ms is None or self._now_ms is None:
            return
        top = top_level(first_ms, self._now_ms)
        if top > self.top:
            for within in rows.windows_of(self._tx, self.top):
                self._changed[self.top][within] = _FIRST
            self.top = top

    # -- joining ----------------------------------------------------------------------------------

    def _cluster(self, level: int, within: str, place: _Place) -> None:
        """Place the nodes of a window from a place on; of those before it no more are read than can be joined."""
        behind = rows.behind(self._tx, level, within, place)
        if not behind:
            return
        found = [*rows.before(self._tx, level, within, behind[0].place, self._settings.cap), *behind]
        known, begun = self._known(found[: -len(behind)], level)
        joined = assign(
            self._vectors(found), known, self._alphas[level], self._settings.linkage, cap=self._settings.cap
        )
        founders = {at: row.founder or 0 for at, row in enumerate(found)} | begun
        wanted = {row.founder or 0 for row in behind} | {founders[one.founder] for one in joined}
        above = rows.by_founder(self._tx, level + 1, wanted)
        for row, one in zip(behind, joined, strict=True):
            if one.likeness is not None and row.founder in above:
                self._drop(above.pop(row.founder))
            elif one.likeness is None and row.founder is not None and row.founder not in above:
                above[row.founder] = self._begin(level + 1, row)
        parents = [above[founders[one.founder]].node for one in joined]
        self._join(behind, parents, [one.likeness for one in joined])

    def _known(self, found: Sequence[Row], level: int) -> tuple[list[int], dict[int, int]]:
        """Return the places of those that began the clusters of nodes that stay where they are, and whom the places below 0 are of."""
        begun = rows.founders_of(self._tx, {row.parent for row in found if row.parent is not None})
        places = {row.founder: at for at, row in enumerate(found)}
        earlier = rows.by_founder(self._tx, level, {one for one in begun.values() if one not in places})
        ordered = sorted(earlier, key=lambda founder: earlier[founder].place, reverse=True)
        places |= {founder: -1 - at for at, founder in enumerate(ordered)}
        known = [places[begun[row.parent or 0]] for row in found]
        return known, {-1 - at: founder for at, founder in enumerate(ordered)}

    def _vectors(self, found: Sequence[Row]) -> NDArray[np.float32]:
        """Return the vectors of the events that began nodes."""
        founders = np.array([row.founder or 0 for row in found], dtype=np.int64)
        items, vectors = zip(*derived.vector_blocks(self._tx, self._kind, founders.tolist()), strict=True)
        given: NDArray[np.float32] = np.concatenate(vectors)[np.searchsorted(np.concatenate(items), founders)]
        return given

    def _begin(self, level: int, child: Row) -> Row:
        """Begin the memory of a window with a node below it."""
        row = child._replace(
            node=self._arena.new_id(),
            level=level,
            parent=None,
            within=self._within(level, child.said_ms),
            likeness=None,
        )
        edit_rows.add(self._tx, row)
        self._arena.put(self._node(row))
        self._change(row)
        return row

    def _join(self, found: Sequence[Row], parents: Sequence[int], likenesses: Sequence[float | None]) -> None:
        """Put nodes under others."""
        joins = []
        for row, parent, likeness in zip(found, parents, likenesses, strict=True):
            if row.parent != parent:
                self._touch(row.parent)
            if (row.parent, row.likeness) != (parent, likeness):
                joins.append((parent, likeness, row.node))
                self._touch(parent)
        edit_rows.join(self._tx, joins)

    def _attach(self, within: str) -> None:
        """Put the highest nodes of a window under the root of their year."""
        root = rows.root_of(self._tx, within[:4])
        found = rows.not_under(self._tx, self.top, within, None if root is None else root.node)
        if not found:
            return
        root = root or self._root(found[0])
        self._join(found, [root.node] * len(found), [None] * len(found))

    def _root(self, child: Row) -> Row:
        year = child.within[:4]
        row = child._replace(
            node=self._arena.new_id(),
            level=ROOT,
            founder=None,
            parent=None,
            within=year,
            said_ms=0,
            tie="",
            likeness=None,
        )
        edit_rows.add(self._tx, row)
        self._arena.put(self._node(row))
        return row

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> Placed:
        """Place what is to be placed, bring what is above up to date, write everything back, and return the counts."""
        self._set_top()
        for level in range(EVENT, self.top):
            for within, place in self._changed[level].items():
                self._cluster(level, within, place)
        for within in self._changed[self.top]:
            self._attach(within)
        self._renew_all()
        self._arena.flush()
        for year, head in self._heads.items():
            self._put_head(year, head)
        return Placed(self._arena.written, frozenset(self._trees))

    def _renew_all(self) -> None:
        """Bring nodes up to date, and what is above them, the lowest level first."""
        waiting: dict[int, dict[int, Row]] = {level: {} for level in range(WEEK, ROOT + 1)}
        for level in range(WEEK, ROOT + 1):
            for row in rows.by_node(self._tx, self._touched).values():
                waiting[row.level][row.node] = row
            self._touched.clear()
            for _, row in sorted(waiting[level].items()):
                self._renew(row)

    def _renew(self, row: Row) -> None:
        """Give a node the children it has now, and have what is above it follow."""
        node = row.node
        self._head(row.within[:4])
        self._touch(row.parent)
        made = edit_rows.hull(self._tx, node)
        if made is None:
            self._arena.drop(node)
            edit_rows.delete(self._tx, [node])
            return
        stored = self._arena.get(node)
        stored.children, stored.count = made.children, made.leaves
        stored.start_ms, stored.end_ms, stored.key = made.start_ms, made.end_ms, (made.start_ms, row.tie)
        stored.version, stored.dirty = stored.version + 1, True
        self._arena.put(stored)
        self._trees.add(stored.tree)

    def _put_head(self, year: str, head: TreeHead) -> None:
        root = rows.root_of(self._tx, year)
        if root is None:
            tree_rows.drop_tree(self._tx, head)
            return
        now = replace(head, root=root.node, height=ROOT, count=self._arena.get(root.node).count)
        if now != head:
            tree_rows.put_head(self._tx, OWNER, KIND, int(year), now)
