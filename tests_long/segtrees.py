"""Segment trees as they are stored, to compare: nested, with the turns of each leaf by name and without the numbers of rows."""

from __future__ import annotations

import sqlite3
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests_long.worlds import fast_config, fast_folder, file_of, rows

from memforest import Config, MemForest, UserMemory

__all__ = ["NAME", "anew", "configured", "exchanges", "sound", "spans", "states", "tree"]

NAME = "segtree"
_TURNS = """SELECT e.id, s.session_id, t.turn_id FROM ix_segtree_exchange e JOIN session s ON s.id = e.session
    JOIN turn t ON t.session = e.session AND t.ordinal BETWEEN e.first AND e.last ORDER BY e.id, t.ordinal"""

Shape = tuple[Any, ...]


def configured(own: Mapping[str, Any] | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index, with settings of the index."""
    return fast_config(**{"indexes": (NAME,), "index_settings": {NAME: dict(own or {})}, **more})


@contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    conn = sqlite3.connect(file_of(folder))
    try:
        yield conn
    finally:
        conn.close()


def exchanges(folder: Path) -> dict[int, tuple[str, ...]]:
    """Return the session and the turns of every exchange, by names."""
    found: dict[int, tuple[str, ...]] = {}
    with _opened(folder) as conn:
        for one, session_id, turn_id in conn.execute(_TURNS):
            found[one] = (*found.get(one, (session_id,)), turn_id)
    return found


def states(folder: Path) -> Counter[int]:
    """Return how many exchanges there are of each state."""
    return Counter(row[0] for row in rows(file_of(folder), "SELECT state FROM ix_segtree_exchange"))


def tree(folder: Path, *, bare: bool = False) -> Shape:
    """Return the tree, nested: level, span and state of inner nodes (with the exact sums), times and turns of leaves.

    Args:
        folder: of the memory.
        bare: without the state of nodes.
    """
    names = exchanges(folder)
    with _opened(folder) as conn:
        head = conn.execute("SELECT root, height, count FROM tree WHERE owner = 'segtree'").fetchone()
        inner = {row[0]: row[1:] for row in conn.execute(
            """SELECT n.id, level, children, key_ms, start_ms, end_ms, span_lo, span_hi, n.count, state FROM node n
               JOIN tree t ON t.id = n.tree WHERE owner = 'segtree'"""
        )}  # fmt: skip
        leaves = {row[0]: names[row[1]] for row in conn.execute(
            """SELECT l.id, e.id FROM leaf l JOIN tree t ON t.id = l.tree JOIN ix_segtree_exchange e
               ON e.turn = l.turn AND e.turn_last = coalesce(l.last, l.turn) WHERE owner = 'segtree'"""
        )}  # fmt: skip

    def shape(node: int) -> Shape:
        if node not in inner:
            return leaves[node]
        level, children, *rest, state = inner[node]
        ids = array("I")
        ids.frombytes(children)
        kept = None if bare else (state or bytes(8)).hex()
        return (level, *rest, kept, tuple(shape(child) for child in ids))

    return () if head is None else (*head[1:], shape(head[0]))


def spans(folder: Path) -> set[tuple[int, int]]:
    """Return the stretches of two leaves or more."""
    sql = """SELECT span_lo, span_hi FROM node n JOIN tree t ON t.id = n.tree WHERE owner = 'segtree'
        AND level > 0 AND n.count > 1"""
    return set(rows(file_of(folder), sql))


def sound(memory: UserMemory, folder: Path, *, waiting: int = 0) -> None:
    """Fail unless `verify` finds nothing, every turn is in one exchange, and each exchange in the tree or among those waiting."""
    report = memory.verify()
    assert report.ok, [str(one) for one in report.problems]
    said = Counter((found[0], turn) for found in exchanges(folder).values() for turn in found[1:])
    stored = rows(
        file_of(folder), "SELECT session_id, turn_id FROM turn t JOIN session s ON s.id = t.session"
    )
    assert said == Counter(stored)
    leaves = rows(
        file_of(folder), "SELECT l.id FROM leaf l JOIN tree t ON t.id = l.tree WHERE owner = 'segtree'"
    )
    count = states(folder)
    assert (count[0], count[1]) == (waiting, len(leaves))


def remaining(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the sessions that are stored, as they could be ingested."""
    found: dict[str, list[dict[str, Any]]] = {}
    with _opened(folder) as conn:
        for session_id, turn_id, speaker, text, said_ms in conn.execute(
            """SELECT s.session_id, t.turn_id, t.speaker, t.text, t.said_ms FROM turn t
               JOIN session s ON s.id = t.session ORDER BY s.id, t.ordinal"""
        ):
            turn = {"speaker": speaker, "content": text, "timestamp": said_ms / 1000, "id": turn_id}
            found.setdefault(session_id, []).append(turn)
    return found


def anew(folder: Path, config: Config, **how: Any) -> Shape:
    """Return the tree of a memory made from scratch of the turns that are stored in a directory."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as fresh, MemForest(fresh, config) as forest:
        forest.register_user("u")
        for session_id, turns in remaining(folder).items():
            forest.ingest_session("u", session_id, turns, infer=False)
        return tree(Path(fresh), **how)
