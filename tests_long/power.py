"""What is left of a memory's files when the power goes: what was synced, and any part of what was not.

A memory is written with ``synchronous=FULL``: SQLite syncs the write-ahead log at each commit, so of what is written behind
the last commit anything may be lost, and nothing before it. The pages of the database are synced after they are copied from
the log, which is kept until then. Source: https://www.sqlite.org/wal.html, section 4; the format of the log is
https://www.sqlite.org/fileformat2.html, section 4.1.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from memforest.store.connections import Tx
from memforest.store.database import Database

__all__ = ["State", "contents", "recorded", "torn_checkpoints", "torn_logs", "write_state"]

_HEADER = 32
_FRAME = 24

State = tuple[bytes, bytes]
"""The database and its log."""


def read_state(path: Path) -> State:
    """Return the files of a memory as they are."""
    log = path.with_name(path.name + "-wal")
    return path.read_bytes(), log.read_bytes() if log.exists() else b""


def write_state(state: State, path: Path) -> None:
    """Write files as a crash has left them; the log's index is made anew by whoever opens them."""
    path.write_bytes(state[0])
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    path.with_name(path.name + "-wal").write_bytes(state[1])


def contents(path: Path) -> list[Any]:
    """Return the schema of a file, and the rows of all of its tables."""
    with sqlite3.connect(path) as conn:
        found: list[Any] = conn.execute(
            "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
        ).fetchall()
        tables = [name for kind, name, _ in found if kind == "table"]
        found += [(name, sorted(map(repr, conn.execute(f'SELECT * FROM "{name}"')))) for name in tables]
    conn.close()
    return found


@contextmanager
def recorded(path: Path) -> Iterator[list[State]]:
    """Record the files of a memory as they are, and after each commit of this process."""
    states = [read_state(path)]
    write = Database.write

    @contextmanager
    def recording(self: Database) -> Iterator[Tx]:
        with write(self) as tx:
            yield tx
        states.append(read_state(path))

    Database.write = recording  # type: ignore[method-assign]
    try:
        yield states
    finally:
        Database.write = write  # type: ignore[method-assign]


def _commits(log: bytes) -> tuple[int, list[int]]:
    """Return the length of a frame, and where each valid commit ends in a log; frames of older rounds are left out."""
    if len(log) < _HEADER:
        return 0, []
    page, salts = struct.unpack(">8xI4x8s8x", log[:_HEADER])
    ends, size = [], page + _FRAME
    for at in range(_HEADER, len(log) - size + 1, size):
        of, salt = struct.unpack(">4xI8s", log[at : at + 16])
        if salt != salts:
            break
        if of:
            ends.append(at + size)
    return size, ends


def torn_logs(state: State, random: Random, most: int) -> Iterator[State]:
    """Yield states in which the last commit of a log was not all written.

    The log ends between two frames, in the middle of one, or goes on with garbage or zeros.
    """
    database, log = state
    size, ends = _commits(log)
    if not ends:
        return
    before = ends[-2] if len(ends) > 1 else _HEADER
    places = [*range(before, ends[-1], size), *(random.randrange(before, ends[-1]) for _ in range(most))]
    for at in random.sample(places, min(most, len(places))):
        tail = random.choice((b"", random.randbytes(ends[-1] - at), bytes(ends[-1] - at)))
        if log[at : ends[-1]] != tail:  # else it is whole: zeros where there were zeros
            yield database, log[:at] + tail


def torn_checkpoints(path: Path, state: State, random: Random, most: int) -> Iterator[State]:
    """Yield states in which a checkpoint has copied some pages of the log into the database, one of them in part."""
    write_state(state, path)
    with sqlite3.connect(path) as conn:
        conn.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        whole = path.read_bytes()
    conn.close()
    old, log = state
    size = 4096
    for _ in range(most):
        mixed = bytearray(old.ljust(len(whole), b"\0"))
        for at in range(0, len(whole), size):
            if random.random() < 0.5:
                part = size if random.random() < 0.9 else random.randrange(size)
                mixed[at : at + part] = whole[at : at + part]
        yield bytes(mixed), log
