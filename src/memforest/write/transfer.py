"""Writing a memory into a file, and reading such a file into a memory that holds nothing yet.

An export is JSON Lines between a header and a trailer that says whether all of it is there; docs/export.md has the
schema. It holds everything that cannot be made again without asking people or models. Reading it is one transaction, so
all of it comes in or nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO

from memforest.errors import InputError
from memforest.reading.canonical import wording_rules
from memforest.search.vectors import index_tokens
from memforest.store import facts, indexes, meta
from memforest.store.connections import Tx
from memforest.store.sessions import turn_digest
from memforest.store.transfer import (
    MEMORY,
    SUMMARIES,
    VECTORS,
    Numbers,
    Part,
    RowWriter,
    Unfit,
    holds_something,
    insert_words,
    note_all,
    read_rows,
    row_ids,
    without_triggers,
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

    def one(self, record: str, names: tuple[str, ...], values: list[Any]) -> None:
        """Write one row as a line of its own."""
        self.rows[record] += 1
        self._write({"record": record, **dict(zip(names, values, strict=True))})

    def several(self, record: str, rows: list[list[Any]]) -> None:
        """Write several rows in one line, each as a list of values."""
        self.rows[record] += len(rows)
        self._write({"record": record, "rows": rows})

    def end(self) -> None:
        """Write the trailer."""
        trailer = {"record": TRAILER, "rows": dict(self.rows), "digest": self._digest.hexdigest()}
        self._write(trailer)

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
            raise InputError(f"{self._name} is no export of memforest; `memforest ingest` reads chat files")
        schema = header.get("schema")
        if type(schema) is not int or schema < 1:
            raise InputError(f"{self._name}: line 1 names no schema, but {cut(repr(schema), 40)}")
        if schema > SCHEMA:
            raise InputError(
                f"{self._name} was exported by a newer memforest: it has schema {schema}, and this one reads up to "
                f"{SCHEMA}; upgrade memforest"
            )
        return header

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records between header and trailer.

        Raises:
            InputError: if a line is none, or something is missing or was changed.
        """
        while line := self._line():
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
                f"{self._name} is incomplete: its last line counts other rows than there are; nothing was imported"
            )
        if trailer.get("digest") != self._digest.hexdigest():
            raise InputError(
                f"{self._name} was changed since it was written: it has not the digest in its last line; nothing was imported"
            )
        if self._line().strip():
            raise self.wrong("stands behind the end of the export")

    def wrong(self, what: str, number: int | None = None) -> InputError:
        """Return the error of a line, by default of the one that was read last."""
        return InputError(f"{self._name}: line {number or self.number} {what}; nothing was imported")

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
            raise self.wrong(f"is no JSON: {cut(str(exc), 120)}") from exc
        if not isinstance(value, dict):
            raise self.wrong("is no JSON object")
        return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode


SETTINGS = ("label", "timezone", "chunk_turns", "embedder", "day_first")
"""Keys of `meta` that an export carries."""

BLOCK = 128
"""Rows in one line where rows are written in blocks."""


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
    for row in indexes.rows(tx):
        lines.one("index", ("name", "settings"), [row.name, row.settings])
    numbers = Numbers()
    for kind in (part.numbered for part in MEMORY if part.numbered):
        numbers.keep(kind, row_ids(tx, kind))
    for part in (*MEMORY, *([SUMMARIES] if summaries else []), *(VECTORS if vectors else ())):
        _write_part(lines, part, read_rows(tx, part, numbers), check)
    lines.end()
    return lines


def _write_part(lines: LineWriter, part: Part, rows: Iterator[list[Any]], check: Callable[[], None]) -> None:
    names = tuple(one.name for one in part.columns)
    size = BLOCK if part.block else 1
    while block := list(islice(rows, size)):
        check()
        if part.block:
            lines.several(part.record, block)
        else:
            lines.one(part.record, names, block[0])


WORDS_BATCH = 512


def _values(part: Part, names: str) -> Callable[[list[Any]], Any]:
    """Return the function from a row to the values of some of its columns."""
    columns = [one.name for one in part.columns]
    return itemgetter(*(columns.index(name) for name in names.split()))


_OF = {part.record: part for part in MEMORY}
_COLUMNS = {
    part.record: (
        frozenset(one.name for one in part.columns),
        itemgetter(*(one.name for one in part.columns)),
    )
    for part in MEMORY
    if not part.block
}
_INDEXED = {kind: _values(_OF[kind], "speaker text said_ms") for kind in ("turn", "fact")}
_DIGESTED = _values(
    _OF["turn"], "session metadata digest ordinal turn_id speaker role text said_ms time_source"
)
_WHOLE = re.compile("[1-9][0-9]{0,8}")


class TakeIn:
    """An import inside one write transaction; `run` does it.

    Args:
        tx: a write transaction.
        attached: the memory's indexes.
        lines: the export.
        embedder: the id of the embedder that the memory has, or will be opened with; None without one.
        check: called at each line; what it raises ends the import.

    Raises:
        InputError: if the memory holds something, or was written before.
    """

    def __init__(
        self, tx: Tx, attached: Attached, lines: LineReader, embedder: str | None, check: Callable[[], None]
    ) -> None:
        if holds_something(tx):
            raise InputError(
                "this memory was written already, and an export is imported into a new one; import it for another user "
                "id, and merge the two"
            )
        self._tx = tx
        self._attached = attached
        self._lines = lines
        self._check = check
        self._settings = _settings(lines)
        made_with = self._settings.get("embedder")
        self._same = made_with is None or made_with == embedder
        self._parts: dict[str, Part] = {}
        self._left: set[str] = set()
        """Records that are passed over: what is derived, and cannot be used here."""
        self._words: dict[str, list[tuple[int, str]]] = {"turn": [], "fact": []}
        self._sessions: list[Any] = []
        self.damaged: list[str] = []
        """The turns that are not what was said; they were damaged before they were exported."""
        self.warnings: list[str] = []
        if not self._same:
            self.warnings.append(
                f"the memory was made with the embedder {cut(repr(made_with), 60)} and is here with "
                f"{'none' if embedder is None else repr(embedder)}: its vectors are made anew"
            )

    def run(self) -> dict[str, int]:
        """Insert everything, and return how many rows of each record there were.

        Raises:
            InputError: if a line is wrong, or the file is not as it was written; it names the line.
        """
        tx = self._tx
        records = self._lines.records()
        with without_triggers(tx):
            try:
                first = self._take_indexes(records)
                writer = RowWriter(tx)
                self._take_settings()
                while first is not None:
                    self._check()
                    self._take(writer, first)
                    first = next(records, None)
                writer.finish()
            except Unfit as exc:
                raise self._lines.wrong(str(exc), exc.line) from exc
            self._flush_words()
            note_all(tx)
        meta.bump(tx)
        return dict(self._lines.rows)

    def _take_settings(self) -> None:
        for key, value in self._settings.items():
            if key != "embedder" or self._same:
                meta.put(self._tx, key, value)

    def _take_indexes(self, records: Any) -> dict[str, Any] | None:
        """Give the memory the indexes of the file; return the first record behind them."""
        rows = []
        one = next(records, None)
        while one is not None and one.get("record") == "index":
            rows.append(_index(one))
            one = next(records, None)
        if rows:
            for old in indexes.rows(self._tx):
                indexes.remove(self._tx, old.name)
            for row in rows:
                self._attached.add(self._tx, row["name"], json.loads(row["settings"]))
                indexes.change(self._tx, row["name"], row["settings"])
        wordings = self._lines.header.get("wordings") == wording_rules().hex()
        if wordings:
            facts.drop_wordings(self._tx, wording_rules())
        else:
            self._left.add("wordings")
        if not self._same:
            self._left.update(part.record for part in VECTORS)
        self._parts = {part.record: part for part in (*MEMORY, SUMMARIES, *VECTORS)}
        return one

    def _take(self, writer: RowWriter, record: dict[str, Any]) -> None:
        name = record.pop("record", None)
        part = self._parts.get(name) if isinstance(name, str) else None
        if part is None:
            raise Unfit(f"is of an unknown record {cut(repr(name), 60)}")
        if name in self._left:
            return
        for values in _rows(record, part):
            if name in ("turn", "fact"):
                self._index(writer, part, values)
            elif name == "session":
                self._sessions.append(values[0])
            writer.add(self._lines.number, part, values)

    def _index(self, writer: RowWriter, part: Part, values: list[Any]) -> None:
        """Make the word row of a turn or a fact; of a damaged turn there is none."""
        speaker, text, said_ms = _INDEXED[part.record](values)
        try:
            if part.record == "turn" and self._is_damaged(values):
                return
            tokens = index_tokens(speaker, text, from_ms(said_ms))
        except (TypeError, AttributeError, LookupError, ValueError) as exc:
            raise Unfit(f"cannot be read: {exc}") from exc
        waiting = self._words[part.record]
        waiting.append((writer.count(part.record) + 1, " ".join(tokens)))
        if len(waiting) >= WORDS_BATCH:
            self._flush_words()

    def _is_damaged(self, values: list[Any]) -> bool:
        number, metadata, digest, *said = _DIGESTED(values)
        session = self._sessions[number - 1]
        stored = json.dumps(metadata, ensure_ascii=False) if metadata else "{}"
        if turn_digest((session, *said, stored)).hex() == digest:
            return False
        self.damaged.append(f"turn {cut(repr(said[1]), 60)} of session {cut(repr(session), 60)}")
        return True

    def _flush_words(self) -> None:
        for kind, rows in self._words.items():
            insert_words(self._tx, kind, rows)
            rows.clear()


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
    return found


def _index(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an index.

    Raises:
        Unfit: if it cannot be one.
    """
    kinds = {"name": str, "settings": str}
    if record.keys() != kinds.keys() | {"record"}:
        raise Unfit("is no index")
    if not all(type(record[key]) is kind for key, kind in kinds.items()):
        raise Unfit("is no index")
    if record["name"] not in INDEXES:
        raise Unfit(f"is of an index {cut(repr(record['name']), 60)}, which there is not")
    try:
        make_index(record["name"], json.loads(record["settings"]))
    except (ValueError, RecursionError) as exc:  # ConfigError is one, and so is an error of JSON
        raise Unfit(f"has settings that cannot be: {exc}") from exc
    return dict(record)


def _rows(record: Mapping[str, Any], part: Part) -> list[list[Any]]:
    """Return the rows in a record, each as a list of values.

    Raises:
        Unfit: if it has other columns.
    """
    if part.block:
        rows = record.get("rows")
        width = len(part.columns)
        if len(record) != 1 or not isinstance(rows, list):
            raise Unfit("has no rows")
        if not all(isinstance(row, list) and len(row) == width for row in rows):
            raise Unfit(f"has a row that is no list of {width} values")
        return rows
    names, values_of = _COLUMNS[part.record]
    if len(record) != len(names) or not names.issuperset(record):
        wrong = sorted(names ^ record.keys())
        raise Unfit(f"lacks, or has too much: {cut(', '.join(wrong), 120)}")
    return [list(values_of(record))]
