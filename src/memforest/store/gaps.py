"""Overwriting the unused parts of pages, where SQLite leaves copies of rows that it has moved.

"secure_delete" overwrites a row where it stands when it is deleted. When pages are balanced, rows move from one to
another, and what they were stays in the gap between a page's pointers and its cells: a row that is deleted later would
be overwritten in its last place alone. `VACUUM` writes such a file anew as a whole; here only the gaps are written,
and only of pages that have changed since it was done last, as the log tells.

It is done while the log is empty and nobody can write, and changes nothing that SQLite reads: readers may go on, and a
write that is torn leaves a sound page.
Sources: https://www.sqlite.org/fileformat.html sections 1.3, 1.5, 1.6, 4.1; `rebuildPage` and `freeSpace` in btree.c.
"""

from __future__ import annotations

import glob
import os
import struct
import threading
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from memforest.store.files import Identity, identity_of

MAGIC = b"SQLite format 3\x00"
LEAVES, INNER = (10, 13), (2, 5)
"""Types of b-tree pages: the first byte of each."""
MOST_PAGES = 1 << 25
"""From so many pages on the first byte of an overflow page, whose number it begins with, may look like such a type."""
CHUNK = 256
"""Pages read at once."""
LOG_HEADER, FRAME_HEADER = 32, 24

_raw: dict[Identity, dict[str, int]] = {}
"""Descriptors of databases, by what their names end with: of the file itself, and of the log's index."""
_lock = threading.Lock()


class Log(NamedTuple):
    """A write-ahead log: its first salt, which grows by one whenever it begins anew, and the pages that are in it."""

    salt: int
    pages: frozenset[int]


def read_log(path: Path) -> Log | None:
    """Return what the log of a database holds; None when there is none, or an empty one."""
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as log:
            head = log.read(LOG_HEADER)
            if len(head) < LOG_HEADER:
                return None
            size, salts = struct.unpack(">I", head[8:12])[0], head[16:24]
            return Log(struct.unpack(">I", head[16:20])[0], frozenset(_frames(log.fileno(), size, salts)))
    except FileNotFoundError:
        return None


def _frames(log: int, size: int, salts: bytes) -> Iterator[int]:
    """Yield the page numbers of the frames that are of the log's present round; those of earlier ones may follow."""
    at = LOG_HEADER
    while True:
        os.lseek(log, at, os.SEEK_SET)
        head = os.read(log, FRAME_HEADER)
        if len(head) < FRAME_HEADER or head[8:16] != salts:
            return
        yield struct.unpack(">I", head[:4])[0]
        at += FRAME_HEADER + size


def scrub(path: Path, pages: Collection[int] | None = None) -> int:
    """Overwrite the gaps of some pages, or of all, with zeros; return how many had something in them.

    To be called while nobody can write and the log is empty. A file that does not begin as SQLite's (an encrypted one)
    is left as it is.

    Raises:
        OSError: if the file cannot be read or written.
    """
    raw = _descriptor(path)
    with _lock:
        os.lseek(raw, 0, os.SEEK_SET)
        head = os.read(raw, 100)
        size = struct.unpack(">H", head[16:18])[0] if len(head) == 100 else 0
        size = 65536 if size == 1 else size
        count = os.lseek(raw, 0, os.SEEK_END) // size if size else 0
        largest_root = struct.unpack(">I", head[52:56])[0] if size else 0
        if head[:16] != MAGIC or largest_root or count >= MOST_PAGES:
            return 0
        wanted = range(1, count + 1) if pages is None else sorted(page for page in pages if page <= count)
        changed = 0
        for number, page in _read(raw, wanted, size):
            gap = _gap(page, 100 if number == 1 else 0)
            if gap is not None and any(page[gap]):
                os.lseek(raw, (number - 1) * size + gap.start, os.SEEK_SET)
                os.write(raw, bytes(gap.stop - gap.start))
                changed += 1
        if changed:
            os.fsync(raw)
        return changed


def _read(raw: int, wanted: Iterable[int], size: int) -> Iterator[tuple[int, bytes]]:
    """Yield pages by number; those that follow one another are read together."""
    run: list[int] = []
    for number in wanted:
        if run and (number != run[-1] + 1 or len(run) == CHUNK):
            yield from _run(raw, run, size)
            run = []
        run.append(number)
    if run:
        yield from _run(raw, run, size)


def _run(raw: int, run: list[int], size: int) -> list[tuple[int, bytes]]:
    os.lseek(raw, (run[0] - 1) * size, os.SEEK_SET)
    read = os.read(raw, len(run) * size)
    return [(number, read[at * size : (at + 1) * size]) for at, number in enumerate(run)]


def _gap(page: bytes, start: int) -> slice | None:
    """Return where a b-tree page is unused between pointers and cells; None for other pages, and for one that cannot be."""
    if len(page) < start + 12 or page[start] not in (*LEAVES, *INNER):
        return None
    cells, content = struct.unpack(">HH", page[start + 3 : start + 7])
    begin = start + (8 if page[start] in LEAVES else 12) + 2 * cells
    end = content or 65536
    return slice(begin, end) if begin < end <= len(page) else None


# -- the descriptor ---------------------------------------------------------------------------------


def _descriptor(path: Path, suffix: str = "") -> int:
    """Return a descriptor of a database or of its log's index, kept as long as this process has the database open.

    To close it earlier would drop the locks of all connections of this process to the file
    (https://www.sqlite.org/howtocorrupt.html section 2.2).

    Raises:
        OSError: if the file cannot be opened.
    """
    with _lock:
        identity = identity_of(path)
        if identity is None:
            raise FileNotFoundError(path)
        kept = _raw.setdefault(identity, {})
        if suffix not in kept:
            mode = os.O_RDONLY if suffix else os.O_RDWR
            kept[suffix] = os.open(path.with_name(path.name + suffix), mode | getattr(os, "O_BINARY", 0))
        return kept[suffix]


def release(identity: Identity | None) -> None:
    """Close the descriptors of a database that this process has no connection to any more."""
    with _lock:
        for raw in _raw.pop(identity, {}).values() if identity is not None else ():
            os.close(raw)


def raw_open(identity: Identity | None) -> int:
    """Return how many descriptors of a database there are."""
    return len(_raw.get(identity, ())) if identity is not None else 0


def raw_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a database with all that is in them: itself, its log and the log's index, and others beside it.

    Raises:
        OSError: if one of them cannot be read.
    """
    for one in sorted(path.parent.glob(f"{glob.escape(path.name)}*")):
        suffix = one.name[len(path.name) :]
        if suffix not in ("", "-shm"):
            yield one.name, one.read_bytes()
            continue
        raw = _descriptor(path, suffix)
        with _lock:
            size = os.lseek(raw, 0, os.SEEK_END)
            os.lseek(raw, 0, os.SEEK_SET)
            parts = []
            while part := os.read(raw, min(1 << 26, size + 1)):
                parts.append(part)
        yield one.name, b"".join(parts)
