"""Steps that importers share: the beginning of a file, the order of its messages and dates, and sessions of a long chat.

Whether numeric dates have the day or the month first is decided by the file itself, or stated, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from memforest.errors import InputError
from memforest.importers.files import (
    DamagedError,
    FileReader,
    FileSession,
    JsonEndError,
    JsonShape,
    JsonStream,
    SourceFile,
    encoding_of,
    pieces_of,
)

STATED = "stated_time"
"""Metadata of a turn whose own time lies before the turn in front of it."""


@dataclass(frozen=True, slots=True)
class DraftTurn:
    """A message: its place in the file, the turn as `ingest_session` takes it, and when it was said, if the file tells."""

    where: str
    turn: Mapping[str, Any]
    said: datetime | None = None


def in_time_order(drafts: Iterable[DraftTurn]) -> list[DraftTurn]:
    """Return messages sorted by their times; one without a time stays behind its predecessor."""
    keyed, last = [], None
    for draft in drafts:
        last = draft.said or last
        keyed.append((last, draft))
    first = next((said for said, _ in keyed if said is not None), None)
    if first is None:
        return [draft for _, draft in keyed]
    return [draft for _, draft in sorted(keyed, key=lambda one: one[0] or first)]


def in_given_order(drafts: Iterable[DraftTurn], reading: FileReader) -> list[DraftTurn]:
    """Return messages in the order of the conversation.

    A message whose time lies before that of the one in front of it keeps it as metadata: it was said no earlier than what it
    follows, whose time it takes when it is stored.
    """
    found, floor = [], None
    for draft in drafts:
        if draft.said is not None and floor is not None and draft.said < floor:
            turn = {key: value for key, value in draft.turn.items() if key != "timestamp"}
            draft = DraftTurn(draft.where, {**turn, STATED: draft.said.isoformat()})
            reading.skips.notes["time before the message in front of it: that one's time counts"] += 1
        floor = draft.said or floor
        found.append(draft)
    return found


def session_of(
    session_id: str,
    drafts: Iterable[DraftTurn],
    *,
    timestamp: str | int | float | None = None,
    metadata: Mapping[str, Any] | None = None,
    where: str = "",
    user: str | None = None,
) -> FileSession:
    """Return a session of messages."""
    found = list(drafts)
    return FileSession(
        session_id,
        tuple(draft.turn for draft in found),
        timestamp,
        metadata or {},
        where,
        user,
        tuple(draft.where for draft in found),
    )


def by_day(
    drafts: Iterable[DraftTurn], reading: FileReader, prefix: str, **more: Any
) -> Iterator[FileSession]:
    """Yield the sessions of a long chat, one a day in the reading's zone, called ``PREFIX/2024-05-01``.

    A message from an earlier day than the one in front of it stays with that one's session. Only one day is held at a time.
    """
    day: date | None = None
    held: list[DraftTurn] = []
    for draft in drafts:
        this = draft.said.astimezone(reading.options.zone).date() if draft.said is not None else day
        if held and this is not None and day is not None and this > day:
            yield session_of(_day_name(prefix, day), in_time_order(held), where=held[0].where, **more)
            held = []
        day = this if day is None or (this is not None and this > day) else day
        held.append(draft)
    if held:
        yield session_of(_day_name(prefix, day), in_time_order(held), where=held[0].where, **more)


def _day_name(prefix: str, day: date | None) -> str:
    return "/".join(str(part) for part in (prefix, day) if part)


def tool_call(name: object, arguments: object) -> dict[str, Any]:
    """Return a tool call as a turn: nobody's words, and found by its text."""
    shown = (
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    )
    tool = str(name or "tool")
    return {"role": "tool", "speaker": tool, "content": f"{tool}({shown})"}


def tool_result(name: object, text: str) -> dict[str, Any]:
    """Return the result of a tool as a turn."""
    return {"role": "tool", "speaker": str(name or "tool"), "content": text}


_NUMERIC = re.compile(r"\s*(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?(\d{4}|\d{2})(?!\d)")


@dataclass(slots=True)
class DayOrder:
    """The order of day and month in the dates of a file.

    A number above 12 proves it. Without one, a reading counts in which the days of the file only go on or only go back, if the
    other reading does not. Dates with dots have the day first.
    """

    proofs: dict[bool, str] = field(default_factory=dict)
    """For each order the first date that has only this one, with its place."""
    last: dict[bool, tuple[int, int, int]] = field(default_factory=dict)
    """The last day, read with the day first (True) and with the month first."""
    steps: dict[bool, set[bool]] = field(default_factory=lambda: {True: set(), False: set()})
    """For each order whether days ever go on (True) and go back (False)."""
    example: str = ""
    """The first date that can be read in both orders."""

    def see(self, text: str, where: str) -> None:
        """Take a date into account, if it has its day, month and year in numbers."""
        if (found := _NUMERIC.match(text)) is None:
            return
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        shown = f"{found[0].strip()} ({where})"
        if found[2] == ".":
            self.proofs.setdefault(True, shown)
        elif max(first, second) > 12:
            self.proofs.setdefault(first > 12, shown)
        elif first != second:
            self.example = self.example or shown
        for order, day in ((True, (year, second, first)), (False, (year, first, second))):
            last = self.last.get(order, day)
            if last != day:
                self.steps[order].add(last < day)
            self.last[order] = day

    def decide(self, name: str, stated: bool | None) -> bool | None:
        """Return whether the day comes first, as stated or as the file's dates prove; None if all dates read the same.

        Raises:
            InputError: if the file does not tell, or has dates of both orders.
        """
        if stated is not None:
            return stated
        if len(self.proofs) == 2:
            raise InputError(
                f"{name}: in {self.proofs[True]} the day comes first, in {self.proofs[False]} the month; say which with "
                "day_first (--day-first or --month-first), and lines of the other order are named"
            )
        if self.proofs or not self.example:
            return next(iter(self.proofs), None)
        steady = [order for order, steps in self.steps.items() if len(steps) < 2]
        if len(steady) == 1:
            return steady[0]
        raise InputError(
            f"{name}: nothing tells whether the day or the month comes first in {self.example}; say so with day_first "
            "(--day-first or --month-first)"
        )


SAMPLE = 1 << 20
"""Characters that are looked at; more where the first value of a JSON file is longer."""
MOST_SAMPLE = 64 * 1024**2
_HEAD = 8192
"""Bytes in which a file that is no text shows a NUL."""
MOST_ITEMS = 50
"""Elements of a list, or lines of JSON Lines, that are looked at."""

_BINARY = (
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"%PDF", "a PDF; export the chat as JSON"),
    (b"SQLite format 3\0", "a database; give its directory with --dir, or export the chat as JSON"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
)
LISTS = ("turns", "messages", "output", "choices", "data")
"""Fields of an object that may hold messages; the first two are for nothing else."""
_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
"""A text of JSON, perhaps cut short, or one of its signs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file.

    `shape` is how it is built if it is JSON. `items` are the first values of a list or of JSON Lines, `fields` the first
    fields of an object, of which the last may be cut short.
    """

    name: str
    text: str
    shape: JsonShape | None = None
    items: tuple[Any, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    """What is wrong with the first value that is no JSON."""

    @property
    def objects(self) -> list[Mapping[str, Any]]:
        """The objects among the first values, or the one object that the file is."""
        found = [self.fields] if self.shape == "object" else self.items
        return [one for one in found if isinstance(one, Mapping)]

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages among the first values, of which a session may hold several; else the values themselves."""
        found: list[Mapping[str, Any]] = []
        for one in self.objects:
            sessions = one.get("sessions")
            for each in sessions if isinstance(sessions, list) else [one]:
                _, held = (isinstance(each, Mapping) and held_in(each)) or ("", [each])
                found += (
                    [item for item in held if isinstance(item, Mapping)] if isinstance(held, list) else []
                )
        return found

    def has(self, traits: Sequence[str]) -> bool:
        """Return whether a value, or a message in one, has all traits; a dot leads into an object or the first of a list."""
        return any(all(_reaches(one, trait) for trait in traits) for one in (*self.objects, *self.messages))

    @property
    def lines(self) -> list[str]:
        """The first lines that are not empty."""
        return [line.removesuffix("\r") for line in self.text.split("\n") if line.strip()][: 4 * MOST_ITEMS]


def held_in(value: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the key under which an object holds messages, and the value there; None if it holds none."""
    for key in LISTS:
        held = value.get(key)
        if isinstance(held, list):
            inner = [one.get("message") if isinstance(one, Mapping) else one for one in held]
            return key, inner if key == "choices" else held
        if key in LISTS[:2] and key in value:
            return key, held
    return None


def _reaches(value: Any, trait: str) -> bool:
    """Return whether a value has a key; `a.b` is the key `b` of the value under `a`."""
    for name in trait.split("."):
        value = (
            next((one for one in value if isinstance(one, Mapping)), None)
            if isinstance(value, list)
            else value
        )
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return True


def take_sample(source: SourceFile) -> Sample:
    """Return the beginning of a file.

    Raises:
        InputError: if it is empty or binary.
        DamagedError: if nothing of it can be read.
    """
    size = SAMPLE
    while True:
        text, whole = _beginning(source, size)
        sample = _sample(source.name, text, whole=whole)
        if whole or size >= MOST_SAMPLE or sample.shape is None or sample.items or sample.fields:
            return sample
        size *= 8


def _beginning(source: SourceFile, size: int) -> tuple[str, bool]:
    """Return the first characters of a file, and whether they are the whole file."""
    with source.open() as stream:
        try:
            head = stream.read(_HEAD)
        except DamagedError as exc:
            raise DamagedError(f"{source.name}: {exc}") from exc
    if what := next((what for magic, what in _BINARY if head.startswith(magic)), None):
        raise InputError(f"{source.name}: this is {what}")
    if (at := head.find(b"\0")) >= 0 and encoding_of(head) == "utf-8-sig":
        raise InputError(
            f"{source.name}, byte {at}: there is a NUL, so this looks like a binary file; give a text file"
        )
    text = ""
    faults: list[str] = []
    with source.open() as stream:
        for piece in pieces_of(stream, lambda where, reason: faults.append(reason)):
            text += piece
            if len(text) >= size:
                break
        else:
            if not text.strip() and faults:
                raise DamagedError(f"{source.name}: {faults[0]}")
            if not text.strip():
                raise InputError(f"{source.name}: the file is empty; it should hold a chat")
            return text, True
    return text[:size], False


def _sample(name: str, text: str, *, whole: bool) -> Sample:
    first = text.lstrip()[:1]
    if first == "{" and _is_lines(text):
        items = tuple(_line_values(text.split("\n")))[:MOST_ITEMS]
        return Sample(name, text, "lines", items)
    if first == "{":
        fields = _prefix(text)
        return Sample(
            name,
            text,
            "object",
            fields=fields if isinstance(fields, Mapping) else {},
            fault=_why(text, whole),
        )
    if first == "[" and _looks_like_json(text):
        faults: list[str] = []
        stream = JsonStream([text], lambda _, reason: faults.append(reason))
        values = []
        for _, value in stream.values():
            values.append(value)
            if len(values) == MOST_ITEMS:
                break
        return Sample(name, text, "array", tuple(values), fault=_why(text, whole) if faults else "")
    return Sample(name, text)


def _looks_like_json(text: str) -> bool:
    """Return whether a text that begins with a bracket is a JSON list, and no log line such as ``[12:00] Ann: hi``."""
    second = text.lstrip()[1:].lstrip()[:1]
    if second in ("{", "[", "]", '"', "") or second == "-":
        return True
    try:
        JsonStream([text], lambda *_: None).value()
    except JsonEndError:
        return False
    return True


def _is_lines(text: str) -> bool:
    """Return whether a text is JSON Lines: several lines, and one of the first two is a whole object."""
    lines = [line for line in text.lstrip().split("\n", 50) if line.strip()]
    return len(lines) > 1 and any(isinstance(one, Mapping) for one in _line_values(lines[:2]))


def _line_values(lines: Iterable[str]) -> Iterator[Any]:
    for line in lines:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _why(text: str, whole: bool) -> str:
    if not whole:
        return ""
    try:
        json.loads(text)
    except json.JSONDecodeError as exc:
        return f"line {exc.lineno} column {exc.colno}: this is not JSON: {exc.msg}"
    except RecursionError:
        return "the JSON is nested too deeply to be a chat"
    except ValueError as exc:
        return str(exc)
    return ""


def _prefix(text: str) -> Any:
    """Return the value that a text begins with; a value without an end is cut at its last comma and closed."""
    try:
        return json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))[0]
    except (ValueError, RecursionError):
        pass
    open_brackets: list[str] = []
    cuts: list[tuple[int, str]] = []
    for found in _MARK.finditer(text):
        sign = found[0]
        if sign in "[{":
            open_brackets.append("]" if sign == "[" else "}")
            if len(open_brackets) > 100:
                break
        elif sign in "]}" and open_brackets:
            open_brackets.pop()
        elif sign == "," and len(open_brackets) < 8:
            cuts = [*cuts[-3:], (found.start(), "".join(reversed(open_brackets)))]
    for cut, closing in reversed(cuts):
        try:
            return json.loads(text[:cut] + closing)
        except (ValueError, RecursionError):
            continue
    return None
