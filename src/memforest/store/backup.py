"""A copy of a memory's file as one transaction sees it, made while others write.

SQLite's online backup copies page by page through its bounded page cache. Inside a read transaction all pages are of one
state, so nobody who writes makes it begin anew. Source: https://www.sqlite.org/backup.html, https://www.sqlite.org/wal.html.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import cast

from memforest.errors import CorruptStoreError
from memforest.store.connections import Connection
from memforest.store.db import Database
from memforest.store.digests import damaged_turns
from memforest.store.faults import mapped_errors, sqlite_damage
from memforest.store.files import DatabaseFile
from memforest.store.tx import Tx

PAGES = 1_024
"""Pages that are copied in one step, between which an end is looked for: 4 MiB."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds, and which of its turns are damaged, as they are in the original."""

    sessions: int
    turns: int
    facts: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    sessions: int
    turns: int
    facts: int
    digest: bytes


def copy_database(db: Database, target: Path, check: Callable[[], None]) -> Copied:
    """Copy a database into an empty file, and check the copy against what was copied.

    Args:
        db: the original.
        target: an empty file; it is encrypted with the key of the original.
        check: called between steps; what it raises ends the copy.

    Raises:
        CorruptStoreError: if the original is damaged, or the copy is not what it should be.
        StoreError: if the one cannot be read or the other not be written.
    """
    with db.read() as tx:
        contents = _contents(tx)
        copy_of = DatabaseFile(target, readonly=False, key=db.file.key)
        with mapped_errors(target), closing(copy_of.connect(0.0)) as copy:
            cast("Connection", tx).backup(copy, pages=PAGES, progress=lambda *_: check())
    copied = Database(target, readonly=True, key=db.file.key)
    try:
        with copied.read() as tx:
            if (found := sqlite_damage(tx)) is not None:
                raise CorruptStoreError(f"{db.path.name!r} is damaged, and no backup was made: {found}")
            if _contents(tx) != contents:
                raise CorruptStoreError(
                    f"the copy of {db.path.name!r} is not what was copied; is the disk sound?"
                )
            damaged = tuple(one.name for one in damaged_turns(tx).values())
    finally:
        copied.close()
    return Copied(contents.sessions, contents.turns, contents.facts, damaged)


def _contents(tx: Tx) -> _Contents:
    """Return counts of what a memory holds, and one digest over the digests of its turns."""
    whole = blake2b(digest_size=16)
    for row, digest in tx.execute("SELECT id, digest FROM turn ORDER BY id"):
        whole.update(b"%d:%b" % (row, digest))
    sessions, turns, facts = (
        int(tx.execute(f"SELECT count(*) FROM {one}").fetchone()[0]) for one in ("session", "turn", "fact")
    )
    return _Contents(sessions, turns, facts, whole.digest())
