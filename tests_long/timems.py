"""Calendar trees as they are stored, to compare, and as they must be, worked out from the turns alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests_long.worlds import fast_config, file_of

from memforest import Config, UserMemory
from memforest.reading.periods import window_of
from memforest.reading.timestamps import zone_named
from memforest.store.derived import unpack_ids, unpack_text
from memforest.times import from_ms
from memforest.trees.timem_rows import LEVELS, UNITS, windowed

__all__ = ["NAME", "Turn", "configured", "jobs", "shape_of", "sound", "tree", "turns"]

NAME = "timem"
Shape = tuple[Any, ...]


class Turn(NamedTuple):
    """A turn as it is stored."""

    session: str
    turn: str
    ordinal: int
    said_ms: int


def configured(own: Mapping[str, Any] | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index, with settings of the index."""
    return fast_config(**{"indexes": (NAME,), "index_settings": {NAME: dict(own or {})}, **more})


def turns(folder: Path) -> list[Turn]:
    """Return all turns, by session and position."""
    with closing(sqlite3.connect(file_of(folder))) as conn:
        found = conn.execute(
            """SELECT s.session_id, t.turn_id, t.ordinal, t.said_ms FROM turn t JOIN session s ON s.id = t.session
               ORDER BY s.session_id, t.ordinal"""
        ).fetchall()
    return [Turn(*row) for row in found]


def zone_of(folder: Path) -> str:
    """Return the zone of a memory."""
    with closing(sqlite3.connect(file_of(folder))) as conn:
        row = conn.execute("SELECT value FROM meta WHERE key = 'timezone'").fetchone()
    return "UTC" if row is None else str(row[0])


def shape_of(
    said: Sequence[Turn],
    zone: str,
    *,
    levels: Sequence[str] = LEVELS[:5],
    segment: int = 1,
    released: bool = False,
) -> Shape:
    """Return the tree that turns must have: (level, window or session, start, end, children), of segments the turns' names."""
    found = zone_named(zone)
    sessions: dict[str, list[Turn]] = {}
    for one in said:
        sessions.setdefault(one.session, []).append(one)
    top: dict[Any, Any] = {}
    for session, all_ in sessions.items():
        kept = all_[:-1] if released and all_[-1].ordinal % 2 == 0 else all_
        if not kept:
            continue
        begins = min(one.said_ms for one in kept)
        at = top
        for level in reversed(windowed(levels)):
            window = window_of(from_ms(begins), UNITS[level], found)
            at = at.setdefault((level, window.start, window.key), {})
        parts: dict[int, list[Turn]] = {}
        for one in kept:
            parts.setdefault(one.ordinal // (2 * segment), []).append(one)
        at[(1, begins, session)] = parts
    return _nested(6, None, top) if top else ()


def _nested(level: int, name: Any, below: Mapping[Any, Any]) -> Shape:
    if level == 1:
        children: list[Shape] = [
            (
                0,
                None,
                min(t.said_ms for t in part),
                max(t.said_ms for t in part) + 1,
                tuple(t.turn for t in part),
            )
            for _, part in sorted(below.items())
        ]
    else:
        children = [_nested(key[0], key[2], value) for key, value in sorted(below.items())]
    return level, name, min(one[2] for one in children), max(one[3] for one in children), tuple(children)


def tree(folder: Path, *, texts: bool = False) -> Shape:
    """Return the tree as it is stored, as `shape_of` has it; with `texts` each node's text, and whether it is out of date."""
    with closing(sqlite3.connect(file_of(folder))) as conn:
        head = conn.execute("SELECT id, root FROM tree WHERE owner = ?", (NAME,)).fetchone()
        if head is None or head[1] is None:
            return ()
        nodes = {
            row[0]: row[1:]
            for row in conn.execute(
                "SELECT id, level, window, start_ms, end_ms, children, dirty FROM node WHERE tree = ?",
                head[:1],
            )
        }
        sessions = dict(
            conn.execute(
                """SELECT i.node, s.session_id FROM ix_timem_node i JOIN session s ON s.id = i.session
                   WHERE i.level = 1"""
            ).fetchall()
        )
        leaves: dict[int, list[tuple[str, int]]] = {}
        for leaf, turn, said_ms in conn.execute(
            """SELECT l.id, t.turn_id, t.said_ms FROM leaf l JOIN turn a ON a.id = l.turn
               JOIN turn b ON b.id = coalesce(l.last, l.turn)
               JOIN turn t ON t.session = a.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal
               WHERE l.tree = ? ORDER BY l.id, t.ordinal""",
            head[:1],
        ):
            leaves.setdefault(leaf, []).append((turn, said_ms))
        told = {row[0]: unpack_text(row[1]) for row in conn.execute("SELECT node, text FROM derived_summary")}

    def more(node: int) -> Shape:
        return (told.get(node), bool(nodes[node][5])) if texts else ()

    def shape(node: int) -> Shape:
        if node in leaves:
            said = leaves[node]
            start, end = min(at for _, at in said), max(at for _, at in said) + 1
            return (0, None, start, end, tuple(turn for turn, _ in said), *more(node))
        level, window, start, end, children, _ = nodes[node]
        name = sessions.get(node) if level == 1 else window
        return (level, name, start, end, tuple(shape(child) for child in unpack_ids(children)), *more(node))

    return shape(head[1])


def jobs(folder: Path) -> dict[str, str]:
    """Return the state of each job of the index, by key."""
    with closing(sqlite3.connect(file_of(folder))) as conn:
        return dict(conn.execute("SELECT key, state FROM job WHERE owner = ?", (NAME,)).fetchall())


def sound(memory: UserMemory, folder: Path, **how: Any) -> None:
    """Fail unless `verify` finds nothing and the tree is the one that the stored turns must have."""
    report = memory.verify()
    assert report.ok, [one.message for one in report.problems]
    assert tree(folder) == shape_of(turns(folder), zone_of(folder), **how)
