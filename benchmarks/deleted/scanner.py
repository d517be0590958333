"""Reads a memory's files with nothing of the package under test: bytes, rows, and the terms of FTS5's own pages."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

__all__ = ["content", "count", "dead_terms", "differences", "found_in", "moment", "needles", "rows", "said"]

LEAST_LETTERS = 5
"""Of a word that is looked for: shorter ones stand in vectors and digests by chance."""
RUN = 3
"""Words in a row that are looked for together."""
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
WORDS = ("derived_turn_words", "derived_fact_words")

_ROWS = {
    "sessions": "session", "turns": "turn", "chunks": "chunk", "facts": "fact", "occurrences": "occurrence",
    "mentions": "mention", "states": "state", "entities": "entity", "aliases": "alias",
    "corrections": "correction", "write_keys": "write_key",
}  # fmt: skip
_ITEMS = {
    "summaries": "SELECT digest FROM artifact",
    "vectors": """SELECT 1, item, digest FROM derived_turn_vector UNION ALL SELECT 2, item, digest FROM derived_fact_vector""",
    "word_rows": "SELECT 1, rowid FROM derived_turn_words UNION ALL SELECT 2, rowid FROM derived_fact_words",
}
"""Layer of a receipt -> what it counts: how many fewer rows there are, or how many of them are there no longer."""


def content(folder: Path, name: str = "") -> bytes:
    """Return the bytes of the files below a directory whose names begin so, in lower case."""
    found = sorted(path for path in folder.rglob(f"{name}*") if path.is_file())
    return b"\0".join(path.read_bytes() for path in found).lower()


def said(path: Path) -> list[str]:
    """Return all that a memory was told: each turn with its speaker, ids and metadata, and what is kept of sessions."""
    sql = """SELECT speaker || ' ' || text || ' ' || turn_id || ' ' || metadata FROM turn
        UNION ALL SELECT session_id || ' ' || metadata FROM session"""
    return [row[0] for row in rows(path, sql)]


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


def moment(ms: int) -> datetime:
    """Return a stored time."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def needles(gone: Iterable[str], left: Iterable[str]) -> set[str]:
    """Return what only deleted texts say, in lower case: words, and runs of words within a sentence none of which is one of those."""
    there = " ".join(" ".join(left).lower().split())
    words = {
        word
        for text in gone
        for word in re.findall(rf"[^\W\d_]{{{LEAST_LETTERS},}}", text.lower())
        if word not in there
    }
    runs = set()
    for sentence in (one for text in gone for one in re.split(r"[.!?:\n\[\]{}\"]", text.lower())):
        parts = sentence.split()
        for at in range(len(parts) - RUN + 1):
            run = " ".join(parts[at : at + RUN])
            if run not in there and words.isdisjoint(re.findall(r"[^\W\d_]+", run)):
                runs.add(run)
    return words | runs


def found_in(raw: bytes, wanted: Iterable[str]) -> set[str]:
    """Return which texts stand in bytes that are in lower case."""
    return {one for one in wanted if any(one.encode(name) in raw for name in ENCODINGS)}


def count(path: Path) -> dict[str, Any]:
    """Return how many rows each layer has; of layers that are made anew, which."""
    with closing(sqlite3.connect(path)) as db:
        rows: dict[str, Any] = {
            layer: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for layer, table in _ROWS.items()
        }
        return rows | {layer: set(db.execute(sql).fetchall()) for layer, sql in _ITEMS.items()}


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], receipt: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return the layers of which a receipt names another number than went: what went, and what it names."""
    went = {
        layer: len(before[layer] - after[layer])
        if isinstance(before[layer], set)
        else before[layer] - after[layer]
        for layer in before
    }
    return {layer: (number, receipt[layer]) for layer, number in went.items() if receipt[layer] != number}


def dead_terms(path: Path) -> set[str]:
    """Return the terms that stand in pages of the lexical index and that no row has.

    A page writes of each term only what differs from the one before, so a search of bytes does not find them.
    Source: https://www.sqlite.org/fts5.html section 8, and the comment "SEGMENT LEAF FORMAT" in fts5_index.c.
    """
    dead: set[str] = set()
    with closing(sqlite3.connect(path)) as db:
        for table in WORDS:
            db.execute(f"CREATE VIRTUAL TABLE temp.terms_{table} USING fts5vocab(main, {table}, instance)")
            live = {row[0] for row in db.execute(f"SELECT DISTINCT term FROM temp.terms_{table}")}
            there: set[str] = set()
            for (page,) in db.execute(f"SELECT block FROM {table}_data WHERE id > 10"):
                there.update(_terms(page))
            dead |= there - live
    return dead


def _terms(page: bytes) -> list[str]:
    """Return the terms of a leaf page; the first byte of each is that of the index it is of."""
    size = int.from_bytes(page[2:4], "big")
    at, where, term = size, 0, b""
    found: list[str] = []
    while at < len(page):
        step, at = _varint(page, at)
        where += step
        start, kept = where, 0
        if found:
            kept, start = _varint(page, start)
        new, start = _varint(page, start)
        term = term[:kept] + page[start : start + new]
        found.append(term[1:].decode("utf-8", "replace"))
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends. Source: https://www.sqlite.org/fileformat2.html section 1.6, "varint"."""
    value = 0
    for length in range(8):
        value = value << 7 | raw[at + length] & 0x7F
        if raw[at + length] < 0x80:
            return value, at + length + 1
    return value << 8 | raw[at + 8], at + 9
