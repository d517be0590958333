"""The file of an export: JSON Lines between a header and a trailer that says whether all of it is there.

docs/export.md has the schema.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, BinaryIO

from memforest.errors import InputError
from memforest.text import cut

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
