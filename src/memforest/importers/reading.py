"""One pass over one file: its text, lines, records and JSON for a format's reader, which yields sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memforest.calendar import parse_timestamp
from memforest.errors import TimestampError
from memforest.importers.json_stream import JsonEndError, JsonStream
from memforest.importers.parts import ReadOptions, Skips
from memforest.importers.source import Source
from memforest.importers.text_stream import lines_of, pieces_of

JsonShape = Literal["array", "object", "lines"]


def kind_of(value: object) -> str:
    """Return the JSON type of a value, for messages."""
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")


@dataclass(slots=True)
class Reading:
    """One pass over one file. What a reader leaves out or cannot read goes into `skips`."""

    source: Source
    options: ReadOptions
    skips: Skips = field(default_factory=Skips)
    shape: JsonShape | None = None
    """How a JSON file is built; None for other text."""

    @property
    def name(self) -> str:
        """What to call a session that has no id: as the caller says, else after the file."""
        return self.options.session_id or self.source.stem

    def read_time(self, value: object, where: str) -> datetime | None:
        """Return a message's time; None, with the place named, for one that cannot be read."""
        found = self.unmistakable(value, where)
        return None if found is None else found[0]

    def unmistakable(self, value: object, where: str) -> tuple[datetime, str] | None:
        """Return a message's time, and the same as text that reads alike in every order of day and month.

        A time without an offset stays one; None, with the place named, for one that cannot be read.
        """
        try:
            said, naive = parse_timestamp(
                value, timezone=self.options.zone, field="time", day_first=self.options.day_first
            )
        except TimestampError as exc:
            self.skips.fail(where, str(exc))
            return None
        return said, (said.astimezone(self.options.zone).replace(tzinfo=None) if naive else said).isoformat()

    @contextmanager
    def json(self) -> Iterator[JsonStream]:
        """Give the file as JSON; where that ends early, the block ends."""
        with self.source.open() as stream, suppress(JsonEndError):
            yield JsonStream(pieces_of(stream, self.skips.fail), self.skips.fail)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (number, line) of the lines that can be read, from 1."""
        with self.source.open() as stream:
            yield from lines_of(stream, self.skips.fail)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Yield (place, value) of the elements of a JSON list, of JSON Lines, or of the one value that there is."""
        if self.shape == "lines":
            yield from self._json_lines()
            return
        with self.json() as stream:
            if self.shape == "array":
                for number, value in stream.values():
                    yield f"item {number}", value
            else:
                yield "", stream.value()
            stream.peek()  # more text behind the end is a fault

    def _json_lines(self) -> Iterator[tuple[str, Any]]:
        for number, line in self.lines():
            if not line.strip():
                continue
            try:
                yield f"line {number}", json.loads(line)
            except json.JSONDecodeError as exc:
                self.skips.fail(
                    f"line {number} column {exc.colno}",
                    f"this is not JSON: {exc.msg}; JSON Lines has one complete message a line",
                )
            except RecursionError:
                self.skips.fail(f"line {number}", "the JSON is nested too deeply to be a chat")
            except ValueError as exc:  # a number of thousands of digits
                self.skips.fail(f"line {number}", f"the JSON cannot be read: {exc}")

    def objects(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the records that are objects; others are named."""
        for where, value in self.records():
            if isinstance(value, Mapping):
                yield where, value
            else:
                self.skips.fail(where, f"there is a {kind_of(value)} where an object should be")
