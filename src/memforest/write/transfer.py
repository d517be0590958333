"""Writing a memory into a file, and reading such a file into a memory that holds nothing yet.

An export is JSON Lines between a header and a trailer that says whether all of it is there; docs/export.md has the
schema. It holds everything that cannot be made again without asking people or models. Reading it is one transaction, so
all of it comes in or nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any, BinaryIO

from memforest.errors import InputError
from memforest.read.receipts import MemoryImport
from memforest.reading.canonical import wording_rules
from memforest.search.vectors import index_tokens
from memforest.store import derived, facts, meta
from memforest.store.checks import indexed_texts
from memforest.store.connections import Tx
from memforest.store.sessions import damaged_turns
from memforest.store.transfer import (
    KINDS,
    MEMORY,
    SUMMARIES,
    VECTORS,
    Part,
    Unfit,
    filling,
    holds_something,
    insert_rows,
    numbers,
    read_rows,
)
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.trees.attached import INDEXES, Attached, make_index

FORMAT = "memforest export"
SCHEMA = 1
"""Of the lines that this version writes, and the newest that it reads."""

TRAILER = "end"
MOST_LINE_BYTES = 1 << 28
"""Longest line that is read; the text of one turn is the only thing that could come near it."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class LineWriter:
    """Writes the lines of an export, counted and digested."""

    def __init__(self, out: BinaryIO, header: Mapping[str, Any]) -> None:
        self._out = out
        self._digest = blake2b(digest_size=32)
        self.rows: Counter[str] = Counter()
        self.bytes = 0
        self._write({"format": FORMAT, "schema": SCHEMA, **header})

    def write(self, record: str, values: Mapping[str, Any], rows: int = 1) -> None:
        """Write a line of one row, or of several."""
        self.rows[record] += rows
        self._write({"record": record, **values})

    def end(self) -> None:
        """Write the trailer."""
        self._write({"record": TRAILER, "rows": dict(self.rows), "digest": self._digest.hexdigest()})

    def _write(self, value: Mapping[str, Any]) -> None:
        line = f"{_encode(value)}\n".encode()
        self._digest.update(line)
        self.bytes += len(line)
        self._out.write(line)


class LineReader:
    """Reads the lines of an export; `header` is the first of them.

    Args:
        source: the file.
        name: what it is called in messages.

    Raises:
        InputError: if it is no export, or one of a newer schema.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        self._source = source
        self._name = name
        self._digest = blake2b(digest_size=32)
        self.number = 0
        """Of the line that was read last, from 1."""
        self.rows: Counter[str] = Counter()
        """Record -> rows that were read."""
        self.header = self._header()

    def _header(self) -> dict[str, Any]:
        line = self._line()
        try:
            header = self._parsed(line)
        except InputError:
            header = {}
        if header.get("format") != FORMAT:
            raise InputError(
                f"{self._name} is not an export of memforest; `memforest ingest` reads chat files"
            )
        schema = header.get("schema")
        if type(schema) is not int or schema < 1:
            raise InputError(f"{self._name}: line 1 should name a schema, not {cut(repr(schema), 40)}")
        if schema > SCHEMA:
            raise InputError(
                f"{self._name} was exported by a newer memforest: it has schema {schema}, and this one reads up to "
                f"{SCHEMA}; upgrade memforest"
            )
        return header

    def records(self, check: Callable[[], None]) -> Iterator[dict[str, Any]]:
        """Yield the records between header and trailer; `check` is called at each.

        Raises:
            InputError: if a line is none, or something is missing or was changed.
        """
        while line := self._line():
            check()
            record = self._parsed(line)
            if record.get("record") == TRAILER:
                self._check_end(record)
                return
            self._digest.update(line)
            self.rows[str(record.get("record"))] += (
                len(found) if isinstance(found := record.get("rows"), list) else 1
            )
            yield record
        raise InputError(
            f"{self._name} is truncated: it ends after line {self.number} without its last line; nothing was imported"
        )

    def _check_end(self, trailer: Mapping[str, Any]) -> None:
        if trailer.get("rows") != self.rows:
            raise InputError(
                f"{self._name} is incomplete: its last line counts other rows than it has; nothing was imported"
            )
        if trailer.get("digest") != self._digest.hexdigest():
            raise InputError(
                f"{self._name} was changed since it was written: its digest differs from that in the last line; nothing was imported"
            )
        if self._line().strip():
            raise self.wrong("stands behind the end of the export")

    def wrong(self, what: str) -> InputError:
        """Return the error of the line that was read last."""
        return InputError(f"{self._name}: line {self.number} {what}; nothing was imported")

    def _line(self) -> bytes:
        line = self._source.readline(MOST_LINE_BYTES + 1)
        if line:
            self.number += 1
        if len(line) > MOST_LINE_BYTES:
            raise self.wrong(f"is longer than {MOST_LINE_BYTES} bytes")
        if self.number == 1:
            self._digest.update(line)
        return line

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            value = _decode(line.decode())
        except (ValueError, RecursionError) as exc:
            if not line.endswith(b"\n"):
                raise InputError(
                    f"{self._name} is truncated in line {self.number}; nothing was imported"
                ) from exc
            raise self.wrong(f"is not JSON: {cut(str(exc), 120)}") from exc
        if not isinstance(value, dict):
            raise self.wrong("is not a JSON object")
        return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode


SETTINGS = ("label", "timezone", "chunk_turns", "embedder", "day_first")
"""Keys of `meta` that an export carries."""

BLOCK = 128
"""Rows in one line where rows are written in blocks."""

WORDS_BATCH = 512


def write_export(
    tx: Tx,
    out: BinaryIO,
    *,
    version: str,
    now: datetime,
    vectors: bool,
    summaries: bool,
    check: Callable[[], None],
) -> LineWriter:
    """Write a memory as one transaction sees it; return the writer, which has counted rows and bytes.

    Args:
        tx: a read transaction.
        out: the file, open for binary writing.
        version: of memforest.
        now: the present, for the header.
        vectors: write vectors too.
        summaries: write the summaries of trees too.
        check: called between lines; what it raises ends the export.
    """
    settings = meta.everything(tx)
    header = {
        "version": version,
        "exported_ms": to_ms(now),
        "user_id": settings["user_id"],
        "memory": settings["memory_id"],
        "settings": {key: settings[key] for key in SETTINGS if key in settings},
        "vectors": vectors,
        "summaries": summaries,
        "wordings": None if (rules := facts.wording_rules(tx)) is None else rules.hex(),
    }
    lines = LineWriter(out, header)
    for index in meta.index_rows(tx):
        lines.write("index", {"name": index.name, "settings": index.settings})
    number_of = {kind: numbers(tx, kind) for kind in KINDS}
    for part in (*MEMORY, *([SUMMARIES] if summaries else []), *(VECTORS if vectors else ())):
        rows = read_rows(tx, part, number_of)
        while block := list(islice(rows, BLOCK if part.block else 1)):
            check()
            values = {"rows": block} if part.block else dict(zip(part.names, block[0], strict=True))
            lines.write(part.record, values, len(block))
    lines.end()
    return lines


_PARTS = {part.record: part for part in (*MEMORY, SUMMARIES, *VECTORS)}
_WHOLE = re.compile("[1-9][0-9]{0,8}")


def read_export(
    tx: Tx, attached: Attached, lines: LineReader, embedder: str | None, check: Callable[[], None]
) -> MemoryImport:
    """Read an export into a memory, and return what was stored.

    Args:
        tx: a write transaction.
        attached: the memory's indexes.
        lines: the export.
        embedder: the id of the embedder that the memory has, or will be opened with; None without one.
        check: called at each line; what it raises ends the import.

    Raises:
        InputError: if the memory holds something, or was written before; if a line is wrong, or the file is not as it was
            written.
    """
    if holds_something(tx):
        raise InputError(
            "an export needs a new memory, and this one has content; import it for another user "
            "id, and merge the two"
        )
    settings = _settings(lines)
    made_with = settings.get("embedder")
    left: set[str] = set()
    warnings: tuple[str, ...] = ()
    if made_with not in (None, embedder):
        left.update(part.record for part in VECTORS)
        del settings["embedder"]
        warnings = (
            f"the memory was made with the embedder {cut(repr(made_with), 60)} and is here with "
            f"{'none' if embedder is None else repr(embedder)}: its vectors are made anew",
        )
    if lines.header.get("wordings") == wording_rules().hex():
        facts.drop_wordings(tx, wording_rules())
    else:
        left.add("wordings")
    for key, value in settings.items():
        meta.put(tx, key, value)
    count: Counter[str] = Counter()
    try:
        with filling(tx):
            for record, found in groupby(lines.records(check), key=lambda one: str(one.get("record"))):
                if record == "index":
                    _take_indexes(tx, attached, found)
                elif (part := _PARTS.get(record)) is None:
                    raise Unfit(f"is an unknown record {cut(repr(record), 60)}")
                elif record not in left:
                    insert_rows(tx, part, _rows(found, part), count)
            damaged = damaged_turns(tx)
            for kind in derived.ITEM_KINDS:
                _index_words(tx, kind, damaged.keys() if kind == "turn" else ())
    except Unfit as exc:
        raise lines.wrong(str(exc)) from exc
    meta.bump(tx)
    return MemoryImport(
        meta.get(tx, "user_id") or "",
        count["session"],
        count["turn"],
        count["fact"],
        damaged=tuple(one.name for one in damaged.values()),
        warnings=warnings,
        rows=dict(lines.rows),
    )


def _index_words(tx: Tx, kind: derived.ItemKind, without: Collection[int]) -> None:
    """Make the word rows of turns or facts; of a damaged turn there is none, as its text was never said."""
    texts = (one for one in indexed_texts(tx, kind) if one[0] not in without)
    while block := list(islice(texts, WORDS_BATCH)):
        rows = [(row, " ".join(index_tokens(who, text, from_ms(ms)))) for row, who, text, ms in block]
        derived.add_words(tx, kind, rows)


def _settings(lines: LineReader) -> dict[str, str]:
    """Return the settings in the header.

    Raises:
        InputError: if one of them cannot be.
    """
    found = lines.header.get("settings")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise lines.wrong("has no settings")
    if unknown := found.keys() - set(SETTINGS):
        raise lines.wrong(f"has an unknown setting {cut(repr(min(unknown)), 60)}")
    if not found.get("label") or not _WHOLE.fullmatch(found.get("chunk_turns", "")):
        raise lines.wrong("has no display name, or a number of turns in a chunk that cannot be")
    return dict(found)


def _take_indexes(tx: Tx, attached: Attached, records: Iterable[dict[str, Any]]) -> None:
    """Give the memory the indexes of the file in the place of its own.

    Raises:
        Unfit: if one of them cannot be.
    """
    for old in meta.index_rows(tx):
        meta.remove_index(tx, old.name)
    for one in records:
        name, settings = one.get("name"), one.get("settings")
        if len(one) != 3 or not isinstance(name, str) or not isinstance(settings, str):
            raise Unfit("is no index")
        if name not in INDEXES:
            raise Unfit(f"is of an index {cut(repr(name), 60)}, which there is not")
        try:
            asked = json.loads(settings)
            make_index(name, asked)
        except (ValueError, RecursionError) as exc:  # ConfigError is one, and so is an error of JSON
            raise Unfit(f"has invalid settings: {exc}") from exc
        attached.add(tx, name, asked)
        meta.put_index(tx, meta.IndexRow(name, settings))


def _rows(records: Iterable[dict[str, Any]], part: Part) -> Iterator[list[Any]]:
    """Yield the rows in records, each as a list of values.

    Raises:
        Unfit: if one has other columns.
    """
    columns = ("rows",) if part.block else part.names
    keys = {"record", *columns}
    for one in records:
        if one.keys() != keys:
            raise Unfit(f"lacks, or has too much: {cut(', '.join(sorted(keys ^ one.keys())), 120)}")
        rows = one["rows"] if part.block else [[one[name] for name in columns]]
        if not isinstance(rows, list):
            raise Unfit("has no rows")
        for row in rows:
            if not isinstance(row, list) or len(row) != len(part.columns):
                raise Unfit(f"has a row that is no list of {len(part.columns)} values")
            yield row
