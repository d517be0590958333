"""The tree of the index, edited inside a write transaction: segments, sessions, days, weeks, months and years.

There is one tree. Which nodes it has follows from the turns that are stored, their times and the memory's zone, and from
nothing else; nodes that are as they were keep their ids and texts. A session belongs to the day on which it starts. A
node's interval is the hull of its turns, so a day covers a session that runs past midnight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import tzinfo

from memforest.calendar import CalendarWindow, window_of
from memforest.interval import from_ms, to_ms
from memforest.store import trees as tree_rows
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.base import Placed
from memforest.systems.timem import edit_rows, rows, turn_rows
from memforest.systems.timem.edit_rows import Cut
from memforest.systems.timem.history import reopened, without
from memforest.systems.timem.levels import ROOT, SEGMENT, SESSION, UNITS, unwritten, windowed
from memforest.systems.timem.rows import Row
from memforest.systems.timem.schedule import unschedule
from memforest.systems.timem.settings import TiMemSettings
from memforest.systems.timem.turn_rows import Said
from memforest.tree import Node, TreeHead

OWNER, KIND = "timem", "calendar"


class CalendarTree:
    """The tree, while it is edited; `close` writes everything back.

    Args:
        tx: the write transaction.
        settings: of the index.
        zone: the memory's.
    """

    def __init__(self, tx: Tx, settings: TiMemSettings, zone: tzinfo) -> None:
        self._tx, self._settings, self._zone = tx, settings, zone
        self._arena = SqliteArena(tx, summarised={"turn"})
        self._size = 2 * settings.segment
        self._windowed = windowed(settings.levels)
        self._changed: dict[int, set[int]] = {level: set() for level in range(SESSION, ROOT + 1)}
        """Inner nodes whose children are others now, by level."""
        self._fresh: set[int] = set()
        """Segments that are new or told otherwise."""
        self._after: set[int] = set()
        """Nodes that had one as history that is gone."""
        head = tree_rows.find_head(tx, OWNER, KIND, 0)
        self._head = tree_rows.put_head(tx, OWNER, KIND, 0, TreeHead(0, 0)) if head is None else head

    # -- segments ---------------------------------------------------------------------------------

    def cut(self, session: int, parts: Collection[int]) -> None:
        """Cut some segments of a session anew, by their numbers; those that have the turns they had are told otherwise now."""
        said = turn_rows.turns_of_parts(self._tx, session, parts, self._size)
        have = {row.part: row for row in rows.of_session(self._tx, session, SEGMENT, parts)}
        made: list[Cut] = []
        gone: list[Row] = []
        for part in sorted(parts):
            cut, row = _as_cut(part, said.get(part, [])), have.get(part)
            if row is not None and cut is not None and row[5:8] == cut[1:4]:
                self._fresh.add(row.node)
                continue
            gone += [] if row is None else [row]
            made += [] if cut is None else [cut]
        found = rows.of_session(self._tx, session, SESSION)
        if found and (
            gone or made
        ):  # it may get another place, and what was written after it another history
            before = [found[0].node, *(row.node for row in gone)]
            self._after |= reopened(self._tx, self._settings, before)
        self._drop_segments(gone)
        self._put_session(session, made)

    def _drop_segments(self, gone: Collection[Row]) -> None:
        edit_rows.drop_segments(self._tx, [row.node for row in gone])
        self._changed[SESSION] |= {row.parent for row in gone if row.parent is not None}

    def _put_session(self, session: int, cuts: Collection[Cut]) -> None:
        """Add segments to a session, and put it under the day on which it starts now."""
        found = rows.of_session(self._tx, session, SESSION)
        if not found and not cuts:
            return
        if found:
            node = found[0].node
        else:
            node = self._new(SESSION, None, min(cut.start_ms for cut in cuts), session=session)
        for cut in cuts:
            self._add_segment(session, cut, node)
        self._changed[SESSION].add(node)

    def _add_segment(self, session: int, cut: Cut, parent: int) -> None:
        node = self._arena.new_id()
        edit_rows.add_segment(self._tx, node, session, cut, parent)
        row = rows.by_node(self._tx, [node])[node]
        self._arena.put(
            Node(
                id=node,
                tree=self._head.tree,
                level=0,
                key=(cut.start_ms, row.tie),
                start_ms=cut.start_ms,
                end_ms=cut.end_ms,
                count=1,
                children=(),
                item_kind="turn",
                item=cut.turn,
                version=1,
                dirty=True,
                item_last=None if cut.turn_last == cut.turn else cut.turn_last,
            )
        )
        self._fresh.add(node)

    # -- sessions and windows ---------------------------------------------------------------------

    def _new(
        self, level: int, window: CalendarWindow | None, begin_ms: int, session: int | None = None
    ) -> int:
        """Make an inner node without children."""
        node = self._arena.new_id()
        key = None if window is None else window.key
        edit_rows.add(self._tx, Row(node, level, None, session, None, None, None, None, key, begin_ms, ""))
        self._arena.put(
            Node(
                id=node,
                tree=self._head.tree,
                level=level,
                key=(begin_ms, ""),
                start_ms=begin_ms,
                end_ms=begin_ms + 1,
                count=0,
                children=(),
                item_kind=None,
                item=None,
                version=1,
                dirty=True,
                window=key,
            )
        )
        self._changed[level].add(node)
        return node

    def place(self, sessions: Iterable[Row]) -> None:
        """Put sessions under the windows in which they start."""
        for row in sessions:
            parent = self._window_at(row.begin_ms)
            if row.parent == parent:
                continue
            if row.parent is not None:
                old = rows.by_node(self._tx, [row.parent])[row.parent]
                self._after |= reopened(self._tx, self._settings, [old.node])
                self._changed[old.level].add(old.node)
            edit_rows.put_parent(self._tx, row.node, parent)
            self._changed[rows.by_node(self._tx, [parent])[parent].level].add(parent)

    def _window_at(self, begin_ms: int) -> int:
        """Return the node of the lowest window at an instant; it and those above are made where they are not there."""
        lowest: int | None = None
        below: int | None = None
        for level in self._windowed:
            window = window_of(from_ms(begin_ms), UNITS[level], self._zone)
            start_ms = to_ms(window.start)
            found = rows.of_window(self._tx, level, start_ms)
            node = self._new(level, window, start_ms) if found is None else found.node
            lowest = node if lowest is None else lowest
            if below is not None:
                self._put_under(below, node, level)
            if found is not None and found.parent is not None:
                return lowest
            below = node
        top = rows.root(self._tx)
        node = self._new(ROOT, None, 0) if top is None else top.node
        self._put_under(below or 0, node, ROOT)
        return lowest or 0

    def _put_under(self, node: int, parent: int, level: int) -> None:
        edit_rows.put_parent(self._tx, node, parent)
        self._changed[level].add(parent)

    # -- the end ----------------------------------------------------------------------------------

    def reopen(self, nodes: Iterable[int]) -> None:
        """Note that nodes are told otherwise now."""
        self._fresh |= set(nodes)

    def close(self) -> tuple[Placed, set[int]]:
        """Write everything back, and mark what is out of date; return the counts, and the nodes that were marked."""
        touched: set[int] = set()
        for level in range(SESSION, ROOT + 1):
            while self._changed[level]:
                node = self._changed[level].pop()
                if self._renew(node, level):
                    touched.add(node)
        self._arena.flush()
        marked = reopened(self._tx, self._settings, self._fresh | touched)
        marked |= rows.by_node(self._tx, self._after).keys()
        edit_rows.set_dirty(self._tx, marked)
        edit_rows.clean_unwritten(self._tx, unwritten(self._settings.levels))
        top = rows.root(self._tx)
        count = 0 if top is None else self._arena.get(top.node).count
        head = replace(
            self._head, root=None if top is None else top.node, height=ROOT if top else 0, count=count
        )
        if head != self._head:
            tree_rows.put_head(self._tx, OWNER, KIND, 0, head)
        return Placed(self._arena.written, frozenset({self._head.tree} if marked or touched else ())), marked

    def _renew(self, node: int, level: int) -> bool:
        """Give a node the children it has now, and have those above it follow; return whether it is there still."""
        row = rows.by_node(self._tx, [node]).get(node)
        if row is None:
            return False
        ended_ms = rows.end_of(self._tx, node)
        hull = edit_rows.hull(self._tx, node)
        if hull is None:
            self._arena.drop(node)
            edit_rows.delete(self._tx, [node])
            unschedule(self._tx, row)
        else:
            begins = hull.start_ms if level == SESSION else row.begin_ms
            if (begins, hull.tie) != (row.begin_ms, row.tie):
                edit_rows.change_place(self._tx, node, begins, hull.tie)
            stored = self._arena.get(node)
            stored.children, stored.count, stored.key = hull.children, hull.leaves, (hull.start_ms, hull.tie)
            stored.start_ms, stored.end_ms = hull.start_ms, hull.end_ms
            stored.version, stored.dirty = stored.version + 1, True
            self._arena.put(stored)
            # What begins between its old end and its new one has it as history that had not, or the other way round.
            late = rows.beginning(self._tx, level, *sorted((ended_ms, hull.end_ms)))
            self._after |= without(self._tx, self._settings, [one for one in late if one != node])
            if level == SESSION:
                self.place([row._replace(begin_ms=begins, tie=hull.tie)])
        parent = rows.by_node(self._tx, [node])[node].parent if hull is not None else row.parent
        if parent is not None:
            at = rows.by_node(self._tx, [parent]).get(parent)
            if at is not None:
                self._changed[at.level].add(parent)
        return hull is not None


def _as_cut(part: int, said: list[Said]) -> Cut | None:
    """Return a segment of some turns; none of no turn."""
    if not said:
        return None
    end_ms = max(one.said_ms for one in said) + 1
    return Cut(part, said[0].row, said[-1].row, len(said), min(one.said_ms for one in said), end_ms)
