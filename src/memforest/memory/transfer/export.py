"""Writing a memory into a file: everything that cannot be made again without asking people or models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, BinaryIO

from memforest.interval import to_ms
from memforest.memory.transfer.lines import LineWriter
from memforest.store import feed, indexes, jobs, meta
from memforest.store import wordings as word_digests
from memforest.store.export_rows import Numbers, read_rows, row_ids
from memforest.store.parts import MEMORY, STRUCTURE, SUMMARIES, VECTORS, Part, own_parts
from memforest.store.tx import Tx
from memforest.systems.attached import Attached

SETTINGS = ("label", "timezone", "cell_turns", "embedder", "day_first")
"""Keys of `meta` that an export carries, beside those of the indexes it carries."""

UNCARRIED_SETTINGS = (
    "user_id",
    "memory_id",
    "generation",
    "graph_stamp",
    "words",
    "expired_ms",
    "next_embedder",
    "feed_compacted",
    "feed_compact_next",
    "next:",
)
"""Keys of `meta`, or their beginnings, that are of one file, or are named apart in the header."""

BLOCK = 128
"""Rows in one line where rows are written in blocks."""


@dataclass(frozen=True, slots=True)
class Written:
    """What an export holds: rows by record, and bytes."""

    rows: Mapping[str, int]
    bytes: int


def carried(tx: Tx, attached: Attached) -> dict[str, Mapping[str, str]]:
    """Return the indexes whose trees and tables an export carries: name -> what their numbers refer to.

    Others are placed anew by the import: those that do not say what they refer to, lag behind, or have jobs.
    """
    end = feed.position(tx)
    busy = jobs.owners(tx)
    found = {}
    for row in indexes.rows(tx):
        refers = attached.open(row).carried
        if refers is not None and row.cursor == end and row.name not in busy:
            found[row.name] = refers
    return found


def kept_by_indexes(key: str, names: Sequence[str]) -> bool:
    """Return whether a key of `meta` is of one of some indexes."""
    return key.startswith(tuple(begin for name in names for begin in (f"ix_{name}_", f"next:ix_{name}_")))


def write_export(
    tx: Tx,
    out: BinaryIO,
    attached: Attached,
    *,
    version: str,
    now: datetime,
    vectors: bool,
    summaries: bool,
    check: Callable[[], None],
) -> Written:
    """Write a memory as one transaction sees it.

    Args:
        tx: a read transaction.
        out: the file, open for binary writing.
        attached: the memory's indexes.
        version: of memforest.
        now: the present, for the header.
        vectors: write vectors too.
        summaries: write the summaries of trees too.
        check: called between lines; what it raises ends the export.
    """
    refers = carried(tx, attached)
    owners = sorted(refers)
    settings = meta.everything(tx)
    header = {
        "version": version,
        "exported_ms": to_ms(now),
        "user_id": settings["user_id"],
        "memory": settings["memory_id"],
        "settings": {key: settings[key] for key in SETTINGS if key in settings},
        "vectors": vectors,
        "summaries": summaries,
        "wordings": None if (rules := word_digests.wording_rules(tx)) is None else rules.hex(),
    }
    lines = LineWriter(out, header)
    for row in indexes.rows(tx):
        kept = {key: value for key, value in settings.items() if kept_by_indexes(key, [row.name])}
        names = ("name", "settings", "carried", "kept")
        lines.one("index", names, [row.name, row.settings, row.name in refers, kept])
    numbers = Numbers()
    for kind in (part.numbered for part in (*MEMORY, *STRUCTURE) if part.numbered):
        numbers.keep(kind, row_ids(tx, kind, owners))
    scopes = {(name, kind): of for name, found in refers.items() for kind, of in found.items()}
    for part in _parts(tx, refers, vectors=vectors, summaries=summaries):
        _write_part(lines, part, read_rows(tx, part, numbers, owners, scopes), check)
    lines.end()
    return Written(dict(lines.rows), lines.bytes)


def _parts(
    tx: Tx, refers: Mapping[str, Mapping[str, str]], *, vectors: bool, summaries: bool
) -> Iterator[Part]:
    yield from MEMORY
    yield from STRUCTURE
    for name, found in refers.items():
        yield from own_parts(tx, name, found)
    if summaries:
        yield SUMMARIES
    if vectors:
        yield from VECTORS if summaries else VECTORS[:2]


def _write_part(lines: LineWriter, part: Part, rows: Iterator[list[Any]], check: Callable[[], None]) -> None:
    names = tuple(one.name for one in part.columns)
    size = BLOCK if part.block else 1
    while block := list(islice(rows, size)):
        check()
        if part.block:
            lines.several(part.record, block)
        else:
            lines.one(part.record, names, block[0])
