"""Chats as CSV: a header names the columns; the delimiter is the one with which it does."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memforest.errors import InputError
from memforest.importers.day_order import DayOrder
from memforest.importers.drafts import Draft, by_day, in_time_order, session_of
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample
from memforest.limits import ROLES, TIME_KEYS

DELIMITERS = ",;\t|"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "content": ("content", "text", "message", "messagetext", "body", "utterance", "comment"),
    "timestamp": ("datetime", *(re.sub(r"[^a-z]", "", key.casefold()) for key in TIME_KEYS), "sentat", "sent", "messagedate"),
    "speaker": ("speaker", "sender", "author", "from", "name", "username", "sendername", "participant", "nickname", "user"),
    "role": ("role",),
    "session_id": ("sessionid", "session", "conversationid", "conversation", "threadid", "thread", "channel", "chat",
                   "chatsession", "chatid", "dialogid", "room"),
    "id": ("id", "messageid", "msgid", "turnid"),
}  # fmt: skip
"""What a column is -> the names that it may have, in order of preference; case and signs do not count."""


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns of a file: what it is -> its number, and the names of the others."""

    delimiter: str
    names: tuple[str, ...]
    columns: Mapping[str, int]
    clock: int | None = None
    """The column of the time of day, where the date has one of its own."""


def recognises(sample: Sample) -> bool:
    """Return whether the first line names a column of texts, and one of speakers, times or sessions."""
    return sample.shape is None and bool(sample.lines) and _header(sample.lines[0]) is not None


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield a session for each value of the session column; without one, a session a day."""
    scratch = Reading(reading.source, reading.options)
    header = next((_header(line) for _, line in scratch.lines() if line.strip()), None)
    if header is None:
        raise InputError(
            f"{reading.source.name}: the first line names no column with what was said; name one 'content', and those of "
            "who and when 'speaker' and 'timestamp'"
        )
    reading = _with_order(reading, header)
    session = header.columns.get("session_id")
    if session is None:
        yield from by_day(_drafts(_rows(reading, header), header, reading), reading, reading.name)
        return
    last = {row[session]: number for number, row in _rows(scratch, header)}
    held: dict[str, list[tuple[int, list[str]]]] = {}
    for number, row in _rows(reading, header):
        name = row[session]
        held.setdefault(name, []).append((number, row))
        if last.get(name) == number:
            drafts = in_time_order(_drafts(held.pop(name), header, reading))
            if drafts:
                yield session_of(name.strip() or reading.name, drafts, where=drafts[0].where)


def _with_order(reading: Reading, header: _Header) -> Reading:
    """Return a reading that knows the order of day and month, as stated or as the file's dates tell."""
    column = header.columns.get("timestamp")
    if column is None:
        return reading
    order = DayOrder()
    for number, row in _rows(Reading(reading.source, reading.options), header):
        order.see(row[column], f"line {number}")
    day_first = order.decide(reading.source.name, reading.options.day_first)
    return replace(reading, options=replace(reading.options, day_first=day_first))


def _header(line: str) -> _Header | None:
    """Return the columns that a line names; None if it is no header of a chat."""
    for delimiter in sorted(DELIMITERS, key=line.count, reverse=True):
        if delimiter not in line:
            return None
        try:
            names = next(csv.reader([line], delimiter=delimiter))
        except csv.Error:
            continue
        plain = [re.sub(r"[^a-z]", "", name.casefold()) for name in names]
        columns: dict[str, int] = {}
        for what, known in _COLUMNS.items():
            found = next((plain.index(name) for name in known if name in plain), None)
            if found is not None and found not in columns.values():
                columns[what] = found
        if (
            "content" in columns
            and len(columns) > 1
            and not {"speaker", "role", "timestamp"}.isdisjoint(columns)
        ):
            clock = plain.index("time") if "time" in plain and "date" in plain else None
            if clock is not None:
                columns["timestamp"] = plain.index("date")
            return _Header(delimiter, tuple(names), columns, clock)
    return None


def _rows(reading: Reading, header: _Header) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) of the rows that have as many fields as the header; the others are named."""
    begins = _Numbered(reading.lines())
    rows = csv.reader(begins, delimiter=header.delimiter)
    is_header = True
    while True:
        begins.first = None
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as exc:
            reading.skips.fail(f"line {begins.first}", f"this is no row of CSV: {exc}")
            continue
        if not row:
            continue
        if is_header:
            is_header = False
        elif len(row) != len(header.names):
            reading.skips.fail(
                f"line {begins.first}", f"the row has {len(row)} fields, and the header {len(header.names)}"
            )
        else:
            yield begins.first or 0, row


class _Numbered:
    """Lines for the CSV reader, which knows where the row that is being read began."""

    def __init__(self, lines: Iterable[tuple[int, str]]) -> None:
        self._lines = iter(lines)
        self.first: int | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        self.first = self.first or number
        return f"{line}\n"


def _drafts(rows: Iterable[tuple[int, Sequence[str]]], header: _Header, reading: Reading) -> Iterator[Draft]:
    for number, row in rows:
        where = f"line {number}"
        turn = _turn(row, header)
        if not turn["content"].strip():
            reading.skips.leave_out("empty message")
            continue
        said = None
        if "timestamp" in turn:
            if (read := reading.unmistakable(turn["timestamp"], where)) is None:
                continue
            said, turn["timestamp"] = read
        if "speaker" not in turn and "role" not in turn:
            turn["speaker"] = "unknown"
        yield Draft(where, turn, said)


def _turn(row: Sequence[str], header: _Header) -> dict[str, Any]:
    """Return a row as a turn; columns of other names become metadata."""
    known = {column: what for what, column in header.columns.items()}
    turn: dict[str, Any] = {"content": ""}
    for column, value in enumerate(row):
        what = known.get(column)
        if what == "content" or (what not in (None, "session_id") and value.strip()):
            turn[str(what)] = value if what == "content" else value.strip()
        elif what is None and column != header.clock and value.strip() and header.names[column].strip():
            turn.setdefault(header.names[column].strip(), value)
    if header.clock is not None and "timestamp" in turn:
        turn["timestamp"] = f"{turn['timestamp']} {row[header.clock].strip()}".strip()
    for what in ("speaker", "role"):
        value = str(turn.get(what, ""))
        if value.casefold() in ROLES:
            turn.setdefault("role", value.casefold())
            if what == "speaker":
                del turn["speaker"]
        elif what == "role" and value:
            turn.setdefault("speaker", value)
            del turn["role"]
    return turn
