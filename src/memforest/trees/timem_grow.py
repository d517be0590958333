"""The tree of the timem index, edited inside a write transaction: segments, sessions, days, weeks, months and years.

There is one tree. Which nodes it has follows from the turns that are stored, their times and the memory's zone, and from
nothing else; nodes that are as they were keep their ids and texts. A session belongs to the day on which it starts. A
node's interval is the hull of its turns, so a day covers a session that runs past midnight.

A memory is written after the texts of earlier ones (TiMem, arXiv 2601.02845, eq. 3: the last w memories of the level). Here
they end before the window begins, so that a window that is written late is not told what came after it, which the
released code does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from typing import Any, NamedTuple

from memforest.nodes import Node, TreeHead
from memforest.reading.periods import CalendarWindow, window_of
from memforest.search.filters import memory_zone
from memforest.store import jobs, meta, trees
from memforest.store.connections import AMONG, Tx, place_tie
from memforest.store.indexes import Items
from memforest.store.trees import SqliteArena
from memforest.times import from_ms, to_ms
from memforest.trees import timem_rows
from memforest.trees.index import Placed, place_notes
from memforest.trees.timem_rows import (
    LEVELS,
    MONTH,
    ROOT,
    SEGMENT,
    SESSION,
    UNITS,
    SegmentCut,
    TiMemNode,
    TiMemSettings,
    schedule,
    unschedule,
    unwritten_levels,
    windowed,
)

WRITER = "ix_timem_writer"
"""Entry of `meta`: what memories are written by, ``"rules"`` or ``"model"``."""
_ALL = 1 << 30
_MORE = 4
"""Nodes looked at behind one for each that it may be the history of: sessions that overlap are none of each other's."""


def by_rules(tx: Tx) -> bool:
    """Return whether memories are written without a model. A month then holds all states in force, however old."""
    return meta.get(tx, WRITER) != "model"


def history_of(tx: Tx, settings: TiMemSettings, row: TiMemNode) -> list[int]:
    """Return the nodes whose texts stand before a memory when it is written, in order.

    Of a segment they are always segments: with ``history_of="children"`` their turns are shown, not what was written of them.
    """
    if LEVELS[row.level] not in settings.levels:
        return []
    many = settings.history_at(row.level)
    if not many:
        return []
    if row.level == SEGMENT:
        return timem_rows.parts_before(tx, row.session or 0, row.part or 0, many)
    if settings.history_of == "memories":
        return timem_rows.before(tx, row, many)
    return timem_rows.children_before(tx, row, many)


def followers(
    tx: Tx, settings: TiMemSettings, row: TiMemNode, *, said: bool = True, states: bool = True
) -> set[int]:
    """Return the nodes that have one in their history.

    Args:
        tx: a transaction.
        settings: of the index.
        row: the node.
        said: the turns of a segment are others now, and not only its text.
        states: what changed may tell of states, which later months tell again.
    """
    by_children = settings.history_of == "children"
    segments = row.level == SEGMENT and (said or not by_children)
    found = _those_after(tx, settings, row, row) if segments or not by_children else set()
    if by_children and row.parent is not None:
        parent = timem_rows.by_node(tx, [row.parent]).get(row.parent)
        if parent is not None:
            found |= _those_after(tx, settings, parent, row)
    if states and row.level >= MONTH and by_rules(tx):
        found |= {one.node for one in timem_rows.following(tx, row, _ALL)}
    return found


def _those_after(tx: Tx, settings: TiMemSettings, place: TiMemNode, row: TiMemNode) -> set[int]:
    """Return the nodes behind a place on its level that have a node in their history."""
    if LEVELS[place.level] not in settings.levels:
        return set()
    behind = timem_rows.following(tx, place, _MORE * settings.history_at(place.level))
    return {one.node for one in behind if row.node in history_of(tx, settings, one)}


def _all_behind(tx: Tx, found: Iterable[TiMemNode]) -> set[int]:
    """Return on each level all nodes behind the first of the given ones; segments only of the same session."""
    first: dict[tuple[int, int | None], TiMemNode] = {}
    for row in sorted(found, key=lambda row: (row.begin_ms, row.tie)):
        first.setdefault((row.level, row.session if row.level == SEGMENT else None), row)
    return {one.node for row in first.values() for one in timem_rows.following(tx, row, _ALL)}


def reopened(
    tx: Tx, settings: TiMemSettings, nodes: Iterable[int], *, gone: bool = False, states: bool = True
) -> set[int]:
    """Return the nodes whose texts go out of date when nodes change: those above, and those that had one of them as history.

    Also what had one of those as history, and so on, because their texts will be others. Not so where a model writes after
    memories: each would be written anew because of the one before it.

    Args:
        tx: a transaction.
        settings: of the index.
        nodes: those that change; they are among what is returned.
        gone: what they tell must be told nowhere any more. After memories, it may have come into any that is behind them,
            also by one that is not its history now.
        states: see `followers`.
    """
    found: set[int] = set()
    fresh = set(nodes)
    spreads, first = gone or _spreads(tx, settings), True
    while fresh:
        fresh |= {row.node for row in timem_rows.above(tx, fresh)}
        fresh -= found
        found |= fresh
        if not (first or spreads):
            break
        known = timem_rows.by_node(tx, fresh).values()
        if gone and settings.history_of == "memories":
            fresh = _all_behind(tx, known) - found
        else:
            fresh = {
                one for row in known for one in followers(tx, settings, row, said=first, states=states)
            } - found
        first = False
    return found


def without(tx: Tx, settings: TiMemSettings, nodes: Collection[int]) -> set[int]:
    """Return the nodes whose texts go out of date when nodes lose a part of their history: these, and what depends on them."""
    if not nodes:
        return set()
    if _spreads(tx, settings):
        return reopened(tx, settings, nodes)
    return set(nodes) | {row.node for row in timem_rows.above(tx, nodes)}


def _spreads(tx: Tx, settings: TiMemSettings) -> bool:
    """Return whether a changed text causes those that had it as history to be written anew.

    After children it goes from one level to the next alone, and so comes to its end.
    """
    return settings.history_of == "children" or by_rules(tx)


class SaidLine(NamedTuple):
    """A turn: when it was said, by whom, and its line."""

    row: int
    said_ms: int
    speaker: str
    line: str


def groups_of(tx: Tx, turns: Collection[int], size: int) -> tuple[dict[int, set[int]], int]:
    """Return the numbers of the segments that some turns belong to, by session, and how many of the turns are stored.

    Args:
        tx: a transaction.
        turns: row ids.
        size: turns of a segment.
    """
    found: dict[int, set[int]] = {}
    count = 0
    for session, ordinal in tx.execute(
        f"SELECT session, ordinal FROM turn WHERE id {AMONG}", (tx.ids(turns),)
    ):
        found.setdefault(session, set()).add(ordinal // size)
        count += 1
    return found, count


def turns_of_parts(tx: Tx, session: int, parts: Iterable[int], size: int) -> dict[int, list[tuple[int, int]]]:
    """Return (row, said ms) of the turns of some segments of a session, by the segments' numbers."""
    found: dict[int, list[tuple[int, int]]] = {part: [] for part in sorted(parts)}
    if not found:
        return {}
    for row, ordinal, said_ms in tx.execute(
        "SELECT id, ordinal, said_ms FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
        (session, min(found) * size, (max(found) + 1) * size - 1),
    ):
        if ordinal // size in found:
            found[ordinal // size].append((row, said_ms))
    return found


def supporting(tx: Tx, facts: Collection[int], after: int = 0) -> list[int]:
    """Return the turns that support some facts, by occurrences behind one."""
    return tx.column(
        f"""SELECT DISTINCT x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            WHERE o.fact {AMONG} AND o.id > ? ORDER BY 1""",
        (tx.ids(facts), after),
    )


def tells_states(tx: Tx, facts: Collection[int], turns: Collection[int]) -> bool:
    """Return whether some facts, or those that turns support, tell of a state."""
    sql = f"""SELECT EXISTS (SELECT 1 FROM state WHERE fact {AMONG}) OR EXISTS (SELECT 1 FROM state s
        JOIN occurrence_turn x ON x.occurrence = s.occurrence WHERE x.turn {AMONG})"""
    return bool(tx.execute(sql, (tx.ids(facts), tx.ids(turns))).fetchone()[0])


def turns_of_sessions(tx: Tx, sessions: Collection[int]) -> list[int]:
    """Return the row ids of the turns of sessions."""
    return tx.column(f"SELECT id FROM turn WHERE session {AMONG} ORDER BY id", (tx.ids(sessions),))


def speakers(tx: Tx, sessions: Collection[int]) -> list[str]:
    """Return who speaks in some sessions, in the order in which they first do."""
    return tx.column(
        f"""SELECT t.speaker FROM turn t JOIN session s ON s.id = t.session WHERE t.session {AMONG}
            GROUP BY t.speaker ORDER BY min(t.said_ms), min({place_tie("s.session_id", "t.ordinal")})""",
        (tx.ids(sessions),),
    )


def speakers_ever(tx: Tx) -> list[str]:
    """Return who speaks anywhere, by name."""
    return tx.column("SELECT DISTINCT speaker FROM turn ORDER BY speaker")


def said_behind(
    tx: Tx,
    after_ms: int,
    until_ms: int | None,
    *,
    but: Collection[int],
    muted: Collection[int],
    by: Sequence[str] | None,
    limit: int,
) -> tuple[list[int], int]:
    """Return the last turns that were said at or after an instant, in order, and how many there are.

    Args:
        tx: a transaction.
        after_ms: the first instant.
        until_ms: the last one; None for no end.
        but: sessions that are left out.
        muted: turns that are left out.
        by: who says them; None for anybody.
        limit: most turns.
    """
    among = "" if by is None else f"AND t.speaker {AMONG}"
    where = f"t.said_ms >= ? AND (? IS NULL OR t.said_ms <= ?) AND t.session NOT {AMONG} AND t.id NOT {AMONG} {among}"
    args = (after_ms, until_ms, until_ms, tx.ids(but), tx.ids(muted)) + (
        () if by is None else (json.dumps(list(by)),)
    )
    count = tx.execute(f"SELECT count(*) FROM turn t WHERE {where}", args).fetchone()[0]
    found = tx.execute(
        f"SELECT t.id FROM turn t WHERE {where} ORDER BY t.said_ms DESC, t.session DESC, t.ordinal DESC LIMIT ?",
        (*args, limit),
    )
    return [row[0] for row in found][::-1], int(count)


def turns_below(tx: Tx, segments: Collection[int]) -> dict[int, list[SaidLine]]:
    """Return the turns of segments, in order."""
    found: dict[int, list[SaidLine]] = {node: [] for node in segments}
    for node, *said in tx.execute(
        f"""SELECT i.node, t.id, t.said_ms, t.speaker, t.speaker || ': ' || t.text FROM ix_timem_node i
            JOIN turn a ON a.id = i.turn JOIN turn b ON b.id = i.turn_last
            JOIN turn t ON t.session = i.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal
            WHERE +i.level = {SEGMENT} AND i.node {AMONG} ORDER BY i.node, t.ordinal""",
        (tx.ids(segments),),
    ):
        found[node].append(SaidLine(*said))
    return found


OWNER, KIND = "timem", "calendar"


class CalendarTree:
    """The tree, while it is edited; `close` writes everything back.

    Args:
        tx: the write transaction.
        settings: of the index.
        zone: the memory's.
        states: whether what changes may tell of states.
    """

    def __init__(self, tx: Tx, settings: TiMemSettings, zone: tzinfo, *, states: bool) -> None:
        self._tx, self._settings, self._zone = tx, settings, zone
        self._reopened = partial(reopened, tx, settings, states=states)
        self._arena = SqliteArena(tx, summarised={"turn"})
        self._size = 2 * settings.segment
        self._windowed = windowed(settings.levels)
        self._changed: dict[int, set[int]] = {level: set() for level in range(SESSION, ROOT + 1)}
        """Inner nodes whose children are others now, by level."""
        self._fresh: set[int] = set()
        """Segments that are new or told otherwise."""
        self._after: set[int] = set()
        """Nodes that had one as history that is gone."""
        head = trees.find_head(tx, OWNER, KIND, 0)
        self._head = trees.put_head(tx, OWNER, KIND, 0, TreeHead(0, 0)) if head is None else head

    def cut(self, session: int, parts: Collection[int]) -> None:
        """Cut segments of a session anew, by their numbers; one with the same turns is marked as changed."""
        said = turns_of_parts(self._tx, session, parts, self._size)
        have = {row.part: row for row in timem_rows.of_session(self._tx, session, SEGMENT, parts)}
        made: list[SegmentCut] = []
        gone: list[TiMemNode] = []
        for part in sorted(parts):
            turns, row, cut = said.get(part, []), have.get(part), None
            if turns:
                times = [said_ms for _, said_ms in turns]
                cut = SegmentCut(part, turns[0][0], turns[-1][0], len(turns), min(times), max(times) + 1)
            if row is not None and cut is not None and row[5:8] == cut[1:4]:
                self._fresh.add(row.node)
                continue
            gone += [] if row is None else [row]
            made += [] if cut is None else [cut]
        found = timem_rows.of_session(self._tx, session, SESSION)
        if found and (gone or made):
            # It may get another place, and what was written after it another history.
            before = [found[0].node, *(row.node for row in gone)]
            self._after |= self._reopened(before)
        nodes = [row.node for row in gone]
        trees.drop_leaf_nodes(self._tx, nodes)  # their turns may be gone already
        timem_rows.delete(self._tx, nodes)
        self._changed[SESSION] |= {row.parent for row in gone if row.parent is not None}
        self._put_session(session, made)

    def _put_session(self, session: int, cuts: Collection[SegmentCut]) -> None:
        """Add segments to a session, and put it under the day on which it starts now."""
        found = timem_rows.of_session(self._tx, session, SESSION)
        if not found and not cuts:
            return
        if found:
            node = found[0].node
        else:
            node = self._new(SESSION, None, min(cut.start_ms for cut in cuts), session=session)
        for cut in cuts:
            self._add_segment(session, cut, node)
        self._changed[SESSION].add(node)

    def _add_segment(self, session: int, cut: SegmentCut, parent: int) -> None:
        node = self._arena.new_id()
        timem_rows.add_segment(self._tx, node, session, cut, parent)
        row = timem_rows.by_node(self._tx, [node])[node]
        key, last = (cut.start_ms, row.tie), None if cut.turn_last == cut.turn else cut.turn_last
        leaf = (cut.start_ms, cut.end_ms, 1, (), "turn", cut.turn, 1, True, last)
        self._arena.put(Node(node, self._head.tree, 0, key, *leaf))
        self._fresh.add(node)

    def _new(
        self, level: int, window: CalendarWindow | None, begin_ms: int, session: int | None = None
    ) -> int:
        """Make an inner node without children."""
        node = self._arena.new_id()
        key = None if window is None else window.key
        row = TiMemNode(
            node, level, None, session, None, None, None, None, key, begin_ms, "", begin_ms, begin_ms + 1, 0
        )
        timem_rows.add(self._tx, row)
        inner = (begin_ms, begin_ms + 1, 0, (), None, None, 1, True)
        self._arena.put(Node(node, self._head.tree, level, (begin_ms, ""), *inner, window=key))
        self._changed[level].add(node)
        return node

    def place(self, sessions: Iterable[TiMemNode]) -> None:
        """Put sessions under the windows in which they start."""
        for row in sessions:
            parent = self._window_at(row.begin_ms)
            if row.parent == parent:
                continue
            if row.parent is not None:
                old = timem_rows.by_node(self._tx, [row.parent])[row.parent]
                self._after |= self._reopened([old.node])
                self._changed[old.level].add(old.node)
            timem_rows.put_parent(self._tx, row.node, parent)
            self._changed[timem_rows.by_node(self._tx, [parent])[parent].level].add(parent)

    def _window_at(self, begin_ms: int) -> int:
        """Return the node of the lowest window at an instant; it and those above are made where they are not there."""
        lowest: int | None = None
        below: int | None = None
        for level in self._windowed:
            window = window_of(from_ms(begin_ms), UNITS[level], self._zone)
            start_ms = to_ms(window.start)
            found = timem_rows.of_window(self._tx, level, begin_ms=start_ms)
            node = self._new(level, window, start_ms) if found is None else found.node
            lowest = node if lowest is None else lowest
            if below is not None:
                self._put_under(below, node, level)
            if found is not None and found.parent is not None:
                return lowest
            below = node
        top = timem_rows.of_window(self._tx, ROOT)
        node = self._new(ROOT, None, 0) if top is None else top.node
        self._put_under(below or 0, node, ROOT)
        return lowest or 0

    def _put_under(self, node: int, parent: int, level: int) -> None:
        timem_rows.put_parent(self._tx, node, parent)
        self._changed[level].add(parent)

    def reopen(self, nodes: Iterable[int]) -> None:
        """Mark nodes as changed."""
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
        marked = self._reopened(self._fresh | touched)
        marked |= timem_rows.by_node(self._tx, self._after).keys()
        trees.mark_out_of_date(self._tx, marked)
        timem_rows.clean_unwritten(self._tx, unwritten_levels(self._settings.levels))
        top = timem_rows.of_window(self._tx, ROOT)
        count = 0 if top is None else self._arena.get(top.node).count
        head = replace(
            self._head, root=None if top is None else top.node, height=ROOT if top else 0, count=count
        )
        if head != self._head:
            trees.put_head(self._tx, OWNER, KIND, 0, head)
        return Placed(self._arena.written, frozenset({self._head.tree} if marked or touched else ())), marked

    def _renew(self, node: int, level: int) -> bool:
        """Bring a node up to date with its children, and mark its parent; return whether it still exists."""
        row = timem_rows.by_node(self._tx, [node]).get(node)
        if row is None:
            return False
        ended_ms = row.end_ms
        hull = timem_rows.hull(self._tx, node)
        if hull is None:
            self._arena.drop(node)
            timem_rows.delete(self._tx, [node])
            unschedule(self._tx, row)
        else:
            children, start_ms, end_ms, leaves, tie = hull
            begins = start_ms if level == SESSION else row.begin_ms
            if (begins, tie) != (row.begin_ms, row.tie):
                timem_rows.change_place(self._tx, node, begins, tie)
            stored = self._arena.get(node)
            stored.children, stored.count, stored.key = children, leaves, (start_ms, tie)
            stored.start_ms, stored.end_ms = start_ms, end_ms
            stored.version, stored.dirty = stored.version + 1, True
            self._arena.put(stored)
            # What begins between its old end and its new one has it as history that had not, or the other way round.
            late = timem_rows.beginning(self._tx, level, *sorted((ended_ms, end_ms)))
            self._after |= without(self._tx, self._settings, [one for one in late if one != node])
            if level == SESSION:
                self.place([row._replace(begin_ms=begins, tie=tie)])
        parent = timem_rows.by_node(self._tx, [node])[node].parent if hull is not None else row.parent
        if parent is not None:
            at = timem_rows.by_node(self._tx, [parent]).get(parent)
            if at is not None:
                self._changed[at.level].add(parent)
        return hull is not None


_OCCURRENCE = "ix_timem_occurrence"
"""Entry of `meta`: the last occurrence of a fact that was looked at."""


def forget_place(tx: Tx) -> None:
    """Have all occurrences looked at again."""
    meta.put(tx, _OCCURRENCE, "0")


def receive(tx: Tx, settings: TiMemSettings, until: int) -> bool:
    """Place the next notes of the feed, and return whether more are left."""

    def place(items: Items) -> None:
        turns, facts = items.get("turn", ()), items.get("fact", ())
        groups, stored = groups_of(tx, turns, 2 * settings.segment)
        lost = stored < len(set(turns))
        if lost:  # while nobody told the index
            for one in timem_rows.stale(tx):
                groups.setdefault(one.session or 0, set()).add(one.part or 0)
        states = lost or tells_states(tx, facts, turns)
        edit(tx, settings, groups, _retold(tx, settings, facts, turns), states=states)

    return place_notes(tx, OWNER, until, place)


def _retold(tx: Tx, settings: TiMemSettings, facts: Collection[int], new: Collection[int]) -> list[int]:
    """Return the segments of older turns that have come to support a fact.

    What is forgotten or worded otherwise was announced to `leave`. A model is not shown facts.
    """
    if not facts or not by_rules(tx):
        return []
    turns = supporting(tx, facts, int(meta.get(tx, _OCCURRENCE) or 0))
    meta.put(tx, _OCCURRENCE, str(tx.execute("SELECT coalesce(max(id), 0) FROM occurrence").fetchone()[0]))
    known = set(new)
    return [
        one.node
        for one in timem_rows.holding(tx, [turn for turn in turns if turn not in known], 2 * settings.segment)
    ]


def edit(
    tx: Tx,
    settings: TiMemSettings,
    groups: Mapping[int, Collection[int]],
    retold: Collection[int] = (),
    *,
    states: bool = True,
) -> Placed:
    """Cut segments anew, mark changed ones, and schedule what is out of date.

    Args:
        tx: the write transaction.
        settings: of the index.
        groups: session -> the numbers of its segments.
        retold: segments of which something else is known now.
        states: whether what is new may tell of states.
    """
    zone = memory_zone(tx)
    tree = CalendarTree(tx, settings, zone, states=states)
    for session, parts in groups.items():
        tree.cut(session, parts)
    tree.reopen(timem_rows.by_node(tx, retold))
    placed, marked = tree.close()
    schedule(tx, settings, zone, marked)
    return placed


def counts(tx: Tx, settings: TiMemSettings) -> dict[str, Any]:
    """Return the nodes of each level, and the memories by how they stand.

    `written` are up to date; `waiting` have no text yet, as they are not due or were not made; `stale` have one that is out
    of date; `failed` could not be written, and are among those two.
    """
    sizes = timem_rows.level_sizes(tx)
    found = {name: sizes.get(LEVELS.index(name), 0) for name in settings.levels}
    stand = {"written": sum(found.values()), "waiting": 0, "stale": 0}
    head = trees.find_head(tx, OWNER, KIND, 0)
    for level, told, count in timem_rows.unwritten(tx, head.tree) if head else ():
        if LEVELS[level] in found:
            stand["stale" if told else "waiting"] += count
            stand["written"] -= count
    return {"levels": found, "memories": {**stand, "failed": len(jobs.failures(tx, OWNER))}}
