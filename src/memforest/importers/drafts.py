"""Steps that importers share: the beginning of a file, the order of its messages and dates, and sessions of a long chat.

Whether numeric dates have the day or the month first is decided by the file itself, or stated, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from fnmatch import fnmatchcase
from itertools import groupby, islice
from typing import Any, TypeVar

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

T = TypeVar("T")

MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\ufeff"
"""Marks of the direction of writing, and of the order of bytes."""
BLANK = f"{MARKS} \t\r\f\v\u202f"

_EPOCH = datetime.fromtimestamp(0, timezone.utc)
STATED = "stated_time"
"""Metadata of a turn whose own time lies before the turn in front of it."""


@dataclass(frozen=True, slots=True)
class DraftTurn:
    """A message: its place in the file, the turn as `ingest_session` takes it, and when it was said, if the file tells."""

    where: str
    turn: Mapping[str, Any]
    said: datetime | None = None


def dated(reading: FileReader, where: str, time: object, *turns: Mapping[str, Any]) -> Iterator[DraftTurn]:
    """Yield what was said at a time, in whichever form, None if unknown; a time that cannot be read is reported instead."""
    if time is None:
        yield from (DraftTurn(where, turn) for turn in turns)
    elif read := reading.read_time(time, where):
        yield from (DraftTurn(where, {**turn, "timestamp": read[1]}, read[0]) for turn in turns)


def in_time_order(drafts: Iterable[DraftTurn]) -> list[DraftTurn]:
    """Return messages sorted by their times; one without a time stays behind its predecessor."""
    found = list(drafts)
    last = next((draft.said for draft in found if draft.said is not None), _EPOCH)
    keyed = [(last := draft.said or last, draft) for draft in found]
    return [draft for _, draft in sorted(keyed, key=lambda one: one[0])]


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
    where: str | None = None,
    user: str | None = None,
) -> FileSession:
    """Return a session of messages; its place is that of the first of them if none is given."""
    found = list(drafts)
    return FileSession(
        session_id,
        tuple(draft.turn for draft in found),
        timestamp,
        metadata or {},
        found[0].where if where is None else where,
        user,
        tuple(draft.where for draft in found),
    )


def by_day(
    drafts: Iterable[DraftTurn], reading: FileReader, prefix: str, metadata: Mapping[str, Any] | None = None
) -> Iterator[FileSession]:
    """Yield the sessions of a long chat, one a day in the reading's zone, called ``PREFIX/2024-05-01``.

    A message from an earlier day than the one in front of it stays with that one's session. Only one day is held at a time.
    """
    day: date | None = None

    def day_of(draft: DraftTurn) -> date | None:
        """Return the latest day so far."""
        nonlocal day
        this = None if draft.said is None else draft.said.astimezone(reading.options.zone).date()
        day = max(filter(None, (day, this)), default=None)
        return day

    undated: list[DraftTurn] = []
    for this, group in groupby(drafts, day_of):
        if this is None:
            undated = list(group)
        else:
            name = f"{prefix}/{this}" if prefix else str(this)
            yield session_of(name, in_time_order([*undated, *group]), metadata=metadata)
            undated = []
    if undated:
        yield session_of(prefix, undated, metadata=metadata)


NOWHERE = "\0"
"""A path that leads nowhere."""


def at(value: Any, paths: str) -> Any:
    """Return what stands at the first of some paths that leads anywhere; None if none does.

    A bar separates paths, and a dot leads into an object, or into the first object of a list; an empty path is the value.
    """
    for path in paths.split("|"):
        found = value
        for key in path.split(".") if path else ():
            if isinstance(found, list):
                found = found[0] if found else None
            found = found.get(key) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def is_marked(record: Any, marks: str) -> bool:
    """Return whether a record has one of some marks, which spaces separate.

    A mark is a path that leads to what is true or not empty; or with ``!`` and texts, which commas separate, one that leads to
    something else than these.
    """
    for mark in marks.split():
        path, _, texts = mark.partition("!")
        found = at(record, path)
        if str(found) not in texts.split(",") if texts and found is not None else found:
            return True
    return False


def together(ahead: Iterable[T], records: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """Yield the records of each key, at the last of them: no more is held than has to be.

    Args:
        ahead: the same records, of another pass over the file.
        records: the records.
        key: what belongs together has the same.
    """
    last = {key(one): at for at, one in enumerate(ahead)}
    held: dict[Hashable, list[T]] = {}
    for at, one in enumerate(records):
        held.setdefault(key(one), []).append(one)
        if last.get(key(one)) == at:
            yield held.pop(key(one))


def messages_in_lines(reading: FileReader, head: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str], str]]:
    """Yield (place, head, text) of the messages in a file of lines; a line without a head goes on with the one above."""
    begun: tuple[str, re.Match[str]] | None = None
    lines: list[str] = []
    for number, line in reading.lines():
        if (found := head.match(line)) is not None:
            if begun is not None:
                yield *begun, "\n".join(lines).rstrip()
            begun, lines = (f"line {number}", found), [line[found.end() :]]
        elif begun is not None:
            lines.append(line)
        elif line.strip(BLANK):
            reading.skips.fail(f"line {number}", "the line does not begin with a date and a time")
    if begun is not None:
        yield *begun, "\n".join(lines).rstrip()


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
                "day_first (--day-first or --month-first); the lines in the other order are then reported"
            )
        if self.proofs or not self.example:
            return next(iter(self.proofs), None)
        steady = [order for order, steps in self.steps.items() if len(steps) < 2]
        if len(steady) == 1:
            return steady[0]
        raise InputError(
            f"{name}: it is unclear whether the day or the month comes first in {self.example}; say so with day_first "
            "(--day-first or --month-first)"
        )


def with_day_order(reading: FileReader, dates: Iterable[tuple[str, str]]) -> FileReader:
    """Return a reading that knows the order of day and month, as stated or as the dates of its file tell.

    Args:
        reading: a pass over the file.
        dates: place and text of each date in it.

    Raises:
        InputError: as `DayOrder.decide`.
    """
    order = DayOrder()
    for where, text in dates:
        order.see(text, where)
    day_first = order.decide(reading.source.name, reading.options.day_first)
    return replace(reading, options=replace(reading.options, day_first=day_first))


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
    is_whole: bool = False
    """Whether the text is the whole file."""

    @property
    def fault(self) -> str:
        """What is wrong with a file that should be JSON; empty if nothing is."""
        if not self.is_whole or self.shape not in ("array", "object"):
            return ""
        try:
            json.loads(self.text)
        except json.JSONDecodeError as exc:
            return f"line {exc.lineno} column {exc.colno}: this is not JSON: {exc.msg}"
        except RecursionError:
            return "the JSON is nested too deeply to be a chat"
        except ValueError as exc:
            return str(exc)
        return ""

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

    def has(self, traits: str) -> bool:
        """Return whether a value, or a message in one, has all of some traits, which a space separates.

        A trait is a key, or a pattern of one as of file names; a dot leads into an object, or any of the first objects of a
        list; after ``=`` stands a pattern of the value, which is a text then: ``messages.type=service``, ``memory=*``.
        """
        values = [*self.objects, *self.messages]
        return any(all(_reaches(one, trait) for trait in traits.split()) for one in values)

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
    """Return whether a value has a trait, see `Sample.has`."""
    if isinstance(value, list):
        return any(_reaches(one, trait) for one in value[:MOST_ITEMS] if isinstance(one, Mapping))
    if not isinstance(value, Mapping):
        return False
    name, _, rest = trait.partition(".")
    name, _, text = name.partition("=")
    found = [one for key, one in value.items() if fnmatchcase(key, name)]
    if rest:
        return any(_reaches(one, rest) for one in found)
    return any(not text or (isinstance(one, str) and fnmatchcase(one, text)) for one in found)


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
            f"{source.name}, byte {at}: a NUL character: this looks like a binary file; give a text file"
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
        return Sample(name, text, "lines", tuple(_line_values(text.split("\n")))[:MOST_ITEMS])
    if first == "{":
        fields = JsonStream([text], _unnamed).beginning()
        return Sample(name, text, "object", fields=fields or {}, is_whole=whole)
    if first == "[" and _looks_like_json(text):
        values = (value for _, value in JsonStream([text], _unnamed).values())
        return Sample(name, text, "array", tuple(islice(values, MOST_ITEMS)), is_whole=whole)
    return Sample(name, text)


def _unnamed(_where: str, _reason: str) -> None:
    """Pass over a fault: a sample is cut somewhere, and who reads the file names what is wrong with it."""


def _looks_like_json(text: str) -> bool:
    """Return whether a text that begins with a bracket is a JSON list, and no log line such as ``[12:00] Ann: hi``."""
    second = text.lstrip()[1:].lstrip()[:1]
    if second in ("{", "[", "]", '"', "") or second == "-":
        return True
    try:
        JsonStream([text], _unnamed).value()
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
