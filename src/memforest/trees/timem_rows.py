"""The table, levels, settings and jobs of the timem index.

The table has every node of the tree with what it is of, the node above it, and its place in time. Of a segment and a
session `session` is the row of the session, of a segment also `turn` and `turn_last`, the rows of its turns, and `part`,
its number in its session. Others have the key of their window. `begin_ms` orders the nodes of a level: the first turn of
a segment or session, the start of a window; `tie` orders those of one instant. A node's `level` is the place of its name
in `LEVELS`, so that levels which a memory does not write are left out of its tree and no number changes. The paper's L1 to
L5 are the levels 0 to 4.

Each memory is written by a job: one for the segments of each session, and one for each session and window. Segments are
due at once, a session when the next one begins or when it has been silent for `idle_min`, a window when it has ended. Keys
are (level, session) and (level, window), so that nothing is made twice (released configuration); a job whose memory is out
of date again is reopened under its key. Keys hold numbers and days, nothing that was said.

Source of the constants: TiMem (arXiv 2601.02845) §3, App. B, and where the paper says nothing its released configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, NamedTuple

from memforest.config import Recall
from memforest.errors import ConfigError
from memforest.reading.periods import Unit, window_with_key
from memforest.settings import Bound, Count, Settings, Whole
from memforest.store import jobs
from memforest.store.connections import AMONG, Tx, place_tie
from memforest.store.trees import mark_up_to_date
from memforest.times import to_ms

LEVELS: Sequence[str] = ("segment", "session", "day", "week", "month", "year", "root")
SEGMENT, SESSION, DAY, WEEK, MONTH, YEAR, ROOT = range(len(LEVELS))

MEMORY_LEVELS: Sequence[str] = LEVELS[:ROOT]
"""Those that memories may be written on."""

UNITS: Mapping[int, Unit] = MappingProxyType(
    {DAY: "day", WEEK: "week_of_month", MONTH: "month", YEAR: "year"}
)
"""Level -> its calendar windows. ISO weeks are cut at month ends: a whole one may lie in two months."""


def windowed(levels: Sequence[str]) -> list[int]:
    """Return the levels of a tree that stand for calendar windows, the lowest first; the year always is one of them.

    Args:
        levels: the names of those that memories are written on.
    """
    return [level for level in UNITS if LEVELS[level] in levels or level == YEAR]


def unwritten_levels(levels: Sequence[str]) -> list[int]:
    """Return the levels of a tree that no memories are written on, the lowest first.

    Args:
        levels: the names of those that memories are written on.
    """
    return [level for level in (YEAR, ROOT) if LEVELS[level] not in levels]


_COLUMNS = (
    "i.node, i.level, i.parent, i.session, i.part, i.turn, i.turn_last, i.turns, i.window, i.begin_ms, i.tie,"
    " i.start_ms, i.end_ms, i.leaves"
)


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
    for statement in (
        """CREATE TABLE ix_timem_node (
            node INTEGER PRIMARY KEY,
            level INTEGER NOT NULL,
            parent INTEGER,
            session INTEGER,
            part INTEGER,
            turn INTEGER,
            turn_last INTEGER,
            turns INTEGER,
            window TEXT,
            begin_ms INTEGER NOT NULL,
            tie TEXT NOT NULL,
            start_ms INTEGER NOT NULL,
            end_ms INTEGER NOT NULL,
            leaves INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX ix_timem_node_level ON ix_timem_node (level, begin_ms, tie)",
        "CREATE INDEX ix_timem_node_parent ON ix_timem_node (parent, begin_ms, tie)",
        "CREATE INDEX ix_timem_node_window ON ix_timem_node (level, window) WHERE window IS NOT NULL",
        "CREATE INDEX ix_timem_node_session ON ix_timem_node (session, level, part)",
    ):
        tx.execute(statement)


class TiMemNode(NamedTuple):
    """A node as it is stored."""

    node: int
    level: int
    parent: int | None
    session: int | None
    part: int | None
    turn: int | None
    turn_last: int | None
    turns: int | None
    window: str | None
    begin_ms: int
    tie: str
    start_ms: int
    end_ms: int
    leaves: int


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[TiMemNode]:
    return tx.rows(TiMemNode, f"SELECT {_COLUMNS} FROM ix_timem_node i {condition}", tuple(args))


def by_node(tx: Tx, nodes: Collection[int]) -> dict[int, TiMemNode]:
    """Return the rows of nodes."""
    return {row.node: row for row in _read(tx, f"WHERE i.node {AMONG}", (tx.ids(nodes),))}


def holding(tx: Tx, turns: Collection[int], size: int) -> list[TiMemNode]:
    """Return the segments that hold one of some stored turns."""
    return _read(
        tx,
        f"""WHERE i.level = {SEGMENT} AND (i.session, i.part) IN
            (SELECT session, ordinal / ? FROM turn WHERE id {AMONG}) ORDER BY i.node""",
        (size, tx.ids(turns)),
    )


def of_session(tx: Tx, session: int, level: int, parts: Collection[int] | None = None) -> list[TiMemNode]:
    """Return the nodes of a session on a level, in order; of the segments all, or those with some numbers."""
    among = "" if parts is None else f"AND i.part {AMONG}"
    args = (session, level, *(() if parts is None else (tx.ids(parts),)))
    return _read(tx, f"WHERE i.session = ? AND i.level = ? {among} ORDER BY i.part", args)


def of_window(tx: Tx, level: int, *, begin_ms: int | None = None, key: str | None = None) -> TiMemNode | None:
    """Return the node of a level whose window begins at an instant or has a key; without either the root's."""
    where = (
        ""
        if begin_ms is None and key is None
        else "AND i.begin_ms = ?"
        if key is None
        else "AND i.window = ?"
    )
    args = (level, *(one for one in (begin_ms, key) if one is not None))
    found = _read(tx, f"WHERE i.level = ? {where}", args)
    return found[0] if found else None


def told(tx: Tx, level: int) -> list[TiMemNode]:
    """Return the nodes of a level that have a text, the latest first."""
    return _read(
        tx,
        "JOIN derived_summary d ON d.node = i.node WHERE i.level = ? ORDER BY i.begin_ms DESC, i.tie DESC",
        (level,),
    )


def untold(tx: Tx, level: int) -> list[TiMemNode]:
    """Return the nodes of a level that have no text, in order."""
    return _read(
        tx,
        """LEFT JOIN derived_summary d ON d.node = i.node
           WHERE i.level = ? AND d.node IS NULL ORDER BY i.begin_ms, i.tie""",
        (level,),
    )


def below(tx: Tx, node: int) -> list[TiMemNode]:
    """Return the children of a node, in order."""
    return _read(tx, "WHERE i.parent = ? ORDER BY i.begin_ms, i.tie", (node,))


def above(tx: Tx, nodes: Collection[int]) -> list[TiMemNode]:
    """Return the nodes above some nodes, up to the root, each once, the lowest level first."""
    return _read(
        tx,
        f"""WHERE i.node IN (WITH RECURSIVE up(node) AS (
                SELECT parent FROM ix_timem_node WHERE node {AMONG}
                UNION SELECT a.parent FROM up JOIN ix_timem_node a ON a.node = up.node)
            SELECT node FROM up) ORDER BY i.level, i.begin_ms, i.tie""",
        (tx.ids(nodes),),
    )


def sessions_below(tx: Tx, node: int) -> list[int]:
    """Return the sessions at or below a node, in order."""
    return tx.column(
        f"""WITH RECURSIVE down(node, level, session, begin_ms, tie) AS (
                SELECT node, level, session, begin_ms, tie FROM ix_timem_node WHERE node = ?
                UNION ALL SELECT i.node, i.level, i.session, i.begin_ms, i.tie
                FROM down JOIN ix_timem_node i ON i.parent = down.node WHERE down.level > {SESSION})
            SELECT session FROM down WHERE level <= {SESSION} ORDER BY begin_ms, tie""",
        (node,),
    )


def newest_session(tx: Tx) -> int | None:
    """Return the start of the newest session, ms; None before the first."""
    row = tx.execute(f"SELECT max(begin_ms) FROM ix_timem_node WHERE level = {SESSION}").fetchone()
    return None if row[0] is None else int(row[0])


def previous_session(tx: Tx, begin_ms: int, tie: str) -> list[TiMemNode]:
    """Return the session that begins last in front of a place."""
    return _read(
        tx,
        f"WHERE i.level = {SESSION} AND (i.begin_ms, i.tie) < (?, ?) ORDER BY i.begin_ms DESC, i.tie DESC LIMIT 1",
        (begin_ms, tie),
    )


def beginning(tx: Tx, level: int, first_ms: int, until_ms: int) -> list[int]:
    """Return the nodes of a level that begin in [first_ms, until_ms)."""
    return tx.column(
        "SELECT node FROM ix_timem_node WHERE level = ? AND begin_ms >= ? AND begin_ms < ?",
        (level, first_ms, until_ms),
    )


def parts_before(tx: Tx, session: int, part: int, limit: int) -> list[int]:
    """Return the last segments of a session in front of one, in order."""
    found = _read(
        tx,
        f"WHERE i.session = ? AND i.level = {SEGMENT} AND i.part < ? ORDER BY i.part DESC LIMIT ?",
        (session, part, limit),
    )
    return [row.node for row in found][::-1]


def before(tx: Tx, row: TiMemNode, limit: int) -> list[int]:
    """Return the last nodes of a level that end before one begins, in order."""
    return tx.column(
        """SELECT i.node FROM ix_timem_node i WHERE i.level = ? AND i.begin_ms < ? AND i.end_ms <= ?
           ORDER BY i.begin_ms DESC, i.tie DESC LIMIT ?""",
        (row.level, row.begin_ms, row.begin_ms, limit),
    )[::-1]


def children_before(tx: Tx, row: TiMemNode, limit: int) -> list[int]:
    """Return the last children of the nodes of a level that end before one begins, in order."""
    return tx.column(
        """SELECT c.node FROM ix_timem_node i JOIN ix_timem_node c ON c.parent = i.node
           WHERE i.level = ? AND i.begin_ms < ? AND i.end_ms <= ?
           ORDER BY i.begin_ms DESC, i.tie DESC, c.begin_ms DESC, c.tie DESC LIMIT ?""",
        (row.level, row.begin_ms, row.begin_ms, limit),
    )[::-1]


def following(tx: Tx, row: TiMemNode, limit: int) -> list[TiMemNode]:
    """Return the next nodes of a level behind one; of segments those of its session."""
    if row.level == SEGMENT:
        return _read(
            tx,
            f"WHERE i.session = ? AND i.level = {SEGMENT} AND i.part > ? ORDER BY i.part LIMIT ?",
            (row.session, row.part, limit),
        )
    return _read(
        tx,
        "WHERE i.level = ? AND (i.begin_ms, i.tie) > (?, ?) ORDER BY i.begin_ms, i.tie LIMIT ?",
        (row.level, row.begin_ms, row.tie, limit),
    )


def names(tx: Tx, nodes: Collection[int]) -> list[tuple[int, int, str | None, str | None]]:
    """Return (node, level, key of the window, id of the session) of nodes, without the root; a segment has neither."""
    return tx.execute(
        f"""SELECT i.node, i.level, i.window, s.session_id FROM ix_timem_node i
            LEFT JOIN session s ON s.id = i.session AND i.level = {SESSION}
            WHERE i.level < {ROOT} AND i.node {AMONG}""",
        (tx.ids(nodes),),
    ).fetchall()


def dirty_among(tx: Tx, nodes: Collection[int]) -> set[int]:
    """Return those of some nodes that are out of date."""
    return set(tx.column(f"SELECT id FROM node WHERE dirty AND id {AMONG}", (tx.ids(nodes),)))


def dirty_texts(tx: Tx) -> list[int]:
    """Return the nodes that have a text which is out of date."""
    return tx.column("""SELECT n.id FROM node n JOIN ix_timem_node i ON i.node = n.id JOIN derived_summary d ON d.node = n.id
           WHERE n.dirty""")


def leased(tx: Tx, owner: str) -> set[str]:
    """Return the keys of the jobs of an owner that somebody holds."""
    # By the index of jobs that are not done: those that are done are as many as there are windows.
    return set(
        tx.column("SELECT key FROM job WHERE state != 'done' AND state = 'leased' AND +owner = ?", (owner,))
    )


def stale(tx: Tx) -> list[TiMemNode]:
    """Return the segments whose turns are not stored as they say."""
    return _read(
        tx,
        f"""LEFT JOIN turn a ON a.id = i.turn LEFT JOIN turn b ON b.id = i.turn_last
            WHERE i.level = {SEGMENT} AND (a.session IS NOT i.session OR b.session IS NOT i.session
            OR i.turns IS NOT (SELECT count(*) FROM turn t WHERE t.session = i.session
                AND t.ordinal BETWEEN a.ordinal AND b.ordinal)) ORDER BY i.node""",
        (),
    )


def level_sizes(tx: Tx) -> dict[int, int]:
    """Return the number of nodes by level; the root tells how many segments there are."""
    return tx.pairs(f"""SELECT level, count(*) FROM ix_timem_node WHERE level > {SEGMENT} GROUP BY level
            UNION ALL SELECT {SEGMENT}, leaves FROM ix_timem_node WHERE level = {ROOT}""")


def unwritten(tx: Tx, tree: int) -> list[tuple[int, bool, int]]:
    """Count the dirty nodes of the tree: (level, whether there is a text, number of nodes)."""
    found = tx.execute(
        """SELECT i.level, d.node IS NOT NULL, count(*) FROM node n JOIN ix_timem_node i ON i.node = n.id
           LEFT JOIN derived_summary d ON d.node = n.id WHERE n.tree = ? AND n.dirty GROUP BY 1, 2 ORDER BY 1, 2""",
        (tree,),
    )
    return [(row[0], bool(row[1]), row[2]) for row in found]


@dataclass(frozen=True, slots=True)
class TiMemSettings(Settings):
    """How the timem index cuts time, writes memories, and is searched."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "levels",
        "segment",
        "history",
        "history_of",
        "pass_through",
        "dates",
        "words",
        "idle_min",
    )

    levels: Sequence[str] = ("segment", "session", "day", "week", "month")
    """The levels that memories are written on, the lowest first: ``"segment"`` and ``"session"``, and any of ``"day"``,
    ``"week"``, ``"month"`` and ``"year"``."""
    segment: Count = 1
    """Exchanges, which are two turns each, of a segment; the paper measured 1, 2, 4 and 8 (Table 9)."""
    history: Sequence[Whole] = (3, 3, 3, 3, 3, 3)
    """How many earlier texts are shown when a memory of each level is written, the lowest level first; 0 for none, 3 in the
    paper (eq. 3). One number is meant for all levels."""
    history_of: Literal["children", "memories"] = "children"
    """Which earlier texts: ``"memories"``, the last ones of the level, as in the paper, so that one is written after the
    other; or ``"children"``, the last of what these were made of, so that all of a level are written at once."""
    pass_through: bool = True
    """Whether a window with one memory below it says what that says; otherwise, and in the paper, it is told once more."""
    dates: Literal["beside", "kept"] = "beside"
    """Whether the day that is meant stands beside words such as "yesterday" in what a segment is written from, or, as in the
    paper, they are kept as they were said."""
    words: Sequence[Count] = (80, 300, 400, 500, 600, 600)
    """Most words of a memory of each level, the lowest first (prompts of the released configuration); of a month, of each
    participant. Fewer where less is below."""
    idle_min: Annotated[float, Bound(ge=0)] = 10.0
    """Minutes without a turn after which a session has ended (released configuration)."""

    recall: Recall = field(default_factory=Recall)
    """How memories are recalled, where `Ranking.recall` does not say."""

    def _check(self) -> None:
        """Refuse levels that are unknown, out of order, or without the first two."""
        known = [one for one in LEVELS if one in MEMORY_LEVELS]
        if list(self.levels[:2]) != known[:2] or list(self.levels) != [
            one for one in known if one in self.levels
        ]:
            raise ConfigError(
                f"levels={list(self.levels)!r}: give 'segment' and 'session', and behind them any of "
                f"{', '.join(repr(one) for one in known[2:])}, in this order"
            )
        for name, values in (("history", self.history), ("words", self.words)):
            if len(values) < len(self.levels):
                raise ConfigError(
                    f"{name}={list(values)!r} has {len(values)} numbers; give one for each of the {len(self.levels)} levels"
                )

    def history_at(self, level: int) -> int:
        """Return how many earlier texts a memory of a level is written with; levels as in `memforest.trees.timem_rows`."""
        return int(self.history[self.levels.index(LEVELS[level])])


class SegmentCut(NamedTuple):
    """A segment as it is to be: its number, its first and last turn, how many there are, and its interval."""

    part: int
    turn: int
    turn_last: int
    turns: int
    start_ms: int
    end_ms: int


def add_segment(tx: Tx, node: int, session: int, cut: SegmentCut, parent: int) -> None:
    """Store a segment."""
    tx.execute(
        f"""INSERT INTO ix_timem_node SELECT ?1, {SEGMENT}, ?2, ?3, ?4, ?5, ?6, ?7, NULL, ?8,
            {place_tie("s.session_id", "t.ordinal")}, ?8, ?9, 1
            FROM turn t JOIN session s ON s.id = t.session WHERE t.id = ?5""",
        (node, parent, session, cut.part, cut.turn, cut.turn_last, cut.turns, cut.start_ms, cut.end_ms),
    )


def add(tx: Tx, row: TiMemNode) -> None:
    """Store a session, a window or the root, which is empty as yet."""
    tx.execute("INSERT INTO ix_timem_node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def delete(tx: Tx, nodes: Collection[int]) -> None:
    """Delete rows."""
    tx.executemany("DELETE FROM ix_timem_node WHERE node = ?", [(node,) for node in nodes])


def put_parent(tx: Tx, node: int, parent: int) -> None:
    """Put a node under another one."""
    tx.execute("UPDATE ix_timem_node SET parent = ? WHERE node = ?", (parent, node))


def change_place(tx: Tx, node: int, begin_ms: int, tie: str) -> None:
    """Note where a session begins now."""
    tx.execute("UPDATE ix_timem_node SET begin_ms = ?, tie = ? WHERE node = ?", (begin_ms, tie, node))


Hull = tuple[tuple[int, ...], int, int, int, str]
"""What the children of a node are together: ids in order, interval, leaves, and the tie of the first."""


def hull(tx: Tx, node: int) -> Hull | None:
    """Sum up the children of a node and store the sums with it; None if it has none."""
    found = tx.execute(
        "SELECT node, start_ms, end_ms, leaves, tie FROM ix_timem_node WHERE parent = ? ORDER BY begin_ms, tie",
        (node,),
    ).fetchall()
    if not found:
        return None
    ids, starts, ends, leaves, ties = zip(*found, strict=True)
    made = (tuple(ids), min(starts), max(ends), sum(leaves), ties[0])
    tx.execute(
        "UPDATE ix_timem_node SET start_ms = ?, end_ms = ?, leaves = ? WHERE node = ?", (*made[1:4], node)
    )
    return made


def clean_unwritten(tx: Tx, levels: Sequence[int]) -> None:
    """Mark nodes of unwritten levels clean if nothing below them is out of date, the lowest level first."""
    for level in levels:
        found = tx.execute(
            """SELECT i.node FROM ix_timem_node i JOIN node m ON m.id = i.node AND m.dirty WHERE i.level = ?
               AND NOT EXISTS (SELECT 1 FROM ix_timem_node c JOIN node n ON n.id = c.node
                               WHERE c.parent = i.node AND n.dirty)""",
            (level,),
        )
        mark_up_to_date(tx, [row[0] for row in found])


JOB_OWNER = "timem"


def key_of(level: int, session: int | None, window: str | None) -> str:
    """Return the key of the job by which a node is written; all segments of a session have one."""
    return f"{LEVELS[level]}:{session if level <= SESSION else window}"


def key_of_row(row: TiMemNode) -> str:
    """Return the key of the job by which a node is written."""
    return key_of(row.level, row.session, row.window)


def schedule(tx: Tx, settings: TiMemSettings, zone: tzinfo, marked: Collection[int]) -> None:
    """Schedule jobs for nodes that are out of date; nodes of unwritten levels need none.

    Args:
        tx: the write transaction.
        settings: of the index.
        zone: the memory's.
        marked: the nodes.
    """
    found = by_node(tx, marked).values()
    sessions = [row for row in found if row.level == SESSION]
    wanted = {key_of_row(row): row for row in found if LEVELS[row.level] in settings.levels}
    for key, row in wanted.items():
        _put(tx, key, LEVELS[row.level], _due(tx, settings, zone, row))
    for row in sessions:  # one before it that was open has ended now
        for one in previous_session(tx, row.begin_ms, row.tie):
            if dirty_among(tx, [one.node]):
                _put(tx, key_of_row(one), LEVELS[SESSION], _due(tx, settings, zone, one))


def _put(tx: Tx, key: str, kind: str, due_ms: int) -> None:
    if not jobs.again(tx, JOB_OWNER, key, due_ms=due_ms):
        jobs.add(tx, JOB_OWNER, kind, key, due_ms=due_ms)


def _due(tx: Tx, settings: TiMemSettings, zone: tzinfo, row: TiMemNode) -> int:
    """Return when a node is to be written."""
    if row.level == SEGMENT:
        return of_session(tx, row.session or 0, SESSION)[0].begin_ms
    if row.level == SESSION:
        idle_ms = row.end_ms + round(settings.idle_min * 60_000)
        behind = following(tx, row, 1)
        return min(idle_ms, behind[0].begin_ms) if behind else idle_ms
    return to_ms(window_with_key(row.window or "", UNITS[row.level], zone).end)


def unschedule(tx: Tx, row: TiMemNode) -> None:
    """Delete the job of a node that is gone; that of a session goes with that of its segments."""
    keys = [key_of_row(row)]
    if row.level == SESSION:
        keys.append(f"{LEVELS[SEGMENT]}:{row.session}")
    jobs.remove(tx, JOB_OWNER, keys)


def targets(tx: Tx, key: str) -> list[TiMemNode]:
    """Return the nodes that a job writes: all segments of a session, or one node; none if they are gone."""
    name, _, what = key.partition(":")
    level = LEVELS.index(name)
    if level <= SESSION:
        return of_session(tx, int(what), level)
    found = of_window(tx, level, key=what)
    return [] if found is None else [found]


def all_rows(tx: Tx) -> list[TiMemNode]:
    """Return all nodes, in the order of siblings."""
    return _read(tx, "ORDER BY i.level, i.begin_ms, i.tie", ())


def wrong_segments(tx: Tx, size: int) -> list[int]:
    """Return the segments whose turns, number or interval are not those of the turns that are stored."""
    return tx.column(
        f"""SELECT i.node FROM ix_timem_node i LEFT JOIN turn a ON a.id = i.turn LEFT JOIN turn b ON b.id = i.turn_last
            WHERE i.level = {SEGMENT} AND (a.session IS NOT i.session OR b.session IS NOT i.session
                OR a.ordinal / ?1 IS NOT i.part OR b.ordinal / ?1 IS NOT i.part OR a.ordinal > b.ordinal
                OR (i.turns, i.start_ms, i.end_ms) IS NOT (SELECT count(*), min(t.said_ms), max(t.said_ms) + 1
                    FROM turn t WHERE t.session = i.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal))
            ORDER BY i.node""",
        (size,),
    )


def uncovered(tx: Tx, size: int) -> list[int]:
    """Return the turns that are not in the segment of their place."""
    return tx.column(
        f"""SELECT t.id FROM turn t WHERE NOT EXISTS (SELECT 1 FROM ix_timem_node i
                JOIN turn a ON a.id = i.turn JOIN turn b ON b.id = i.turn_last
                WHERE i.level = {SEGMENT} AND i.session = t.session AND i.part = t.ordinal / ?
                AND t.ordinal BETWEEN a.ordinal AND b.ordinal)
            ORDER BY t.id""",
        (size,),
    )


def open_jobs(tx: Tx, owner: str) -> set[str]:
    """Return the keys of the jobs of an owner that are not done."""
    return set(tx.column("SELECT key FROM job WHERE owner = ? AND state != 'done'", (owner,)))
