"""Files as importers read them: bytes, text, lines and JSON of any size as streams, and the sessions that come out.

Nothing is unpacked to disk. What an archive says of its sizes is checked before anything is read, and its output while it is
read: a small archive that grows without bounds is refused. Names in an archive are labels and never paths of this machine.

Text is UTF-8, or UTF-16 and UTF-32 by their byte order marks. Of JSON only the value that is being read is held; where a file
is broken or cut off, what was whole before is read, the place is named, and nothing behind it is read.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone, tzinfo
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal

from memforest.errors import InputError, TimestampError
from memforest.reading.timestamps import parse_timestamp
from memforest.times import shown

MOST_UNPACKED = 64 * 1024**3
"""Bytes that the files of an archive may have together."""
MOST_RATIO = 200
"""Times its packed size that a file of an archive may have. Chats pack to a tenth; deflate at most to a thousandth."""
RATIO_FROM = 16 * 1024**2
"""Bytes from which the ratio counts: small files may well be repetitive."""
MOST_FILES = 1_000_000
"""Files that an archive may have."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_FAULTS = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What opening and reading raise: the system's errors, and those of an archive that is damaged or unusual."""


class DamagedError(InputError):
    """A file ends early or is damaged; what was read of it before is right."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that can be opened many times; `name` is for messages, `size` is in bytes, if known."""

    name: str
    start: Callable[[], BinaryIO]
    size: int | None = None
    is_named: bool = True
    """Whether the name is the file's own."""
    archive: str | None = None
    """The name of the archive that it is in."""
    modified: str | None = None
    """When it was written, by the archive's clock, which tells no zone."""

    @property
    def stem(self) -> str:
        """The name without folders and suffix; empty for a file without a name of its own."""
        return _stem(self.name) if self.is_named else ""

    @property
    def archive_stem(self) -> str:
        """The name of its archive without suffix; empty without an archive."""
        return _stem(self.archive or "")

    @contextmanager
    def open(self) -> Iterator[Watched]:
        """Open the file for reading bytes.

        Raises:
            InputError: if the file cannot be opened; reading raises `DamagedError` where it fails.
        """
        try:
            stream = self.start()
        except _FAULTS as exc:
            raise InputError(f"{self.name}: cannot be read: {_reason(exc)}") from exc
        try:
            yield Watched(stream, self.name, self.size)
        finally:
            stream.close()


class Watched:
    """The bytes of a file, checked against the announced size."""

    def __init__(self, stream: BinaryIO, name: str, most: int | None) -> None:
        self._stream, self._name, self._most = stream, name, most
        self.count = 0
        """Bytes read so far."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most so many; none at the end.

        Raises:
            DamagedError: if they cannot be read, or are more than the file should have.
        """
        try:
            data = self._stream.read(size)
        except _FAULTS as exc:
            raise DamagedError(f"the file is damaged or ends early ({_reason(exc)})") from exc
        self.count += len(data)
        if self._most is not None and self.count > self._most:
            raise DamagedError("more comes out of the archive than it announces; it looks like a zip bomb")
        return data


class Archive:
    """A zip archive: its files sorted by name, and the refused ones with their reasons."""

    def __init__(self, name: str, packed: BinaryIO) -> None:
        """Open an archive and check what it says of its files.

        Raises:
            InputError: if it is damaged, or grows beyond bounds.
        """
        self.name = name
        self.refused: list[tuple[str, str]] = []
        self._packed = packed
        try:
            self._zip = zipfile.ZipFile(packed)
        except _FAULTS as exc:
            packed.close()
            raise InputError(
                f"{name}: the zip archive is damaged or ends early ({_reason(exc)}); download it again"
            ) from exc
        try:
            self.files = self._checked(self._zip.infolist())
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Close the archive's file."""
        self._zip.close()
        self._packed.close()

    def _checked(self, entries: Sequence[zipfile.ZipInfo]) -> list[SourceFile]:
        files = [one for one in entries if not one.is_dir()]
        if len(files) > MOST_FILES:
            raise InputError(f"{self.name}: the archive has {len(files)} files, more than {MOST_FILES}")
        whole = sum(one.file_size for one in files)
        if whole > MOST_UNPACKED:
            raise InputError(
                f"{self.name}: the archive unpacks to {whole:,} bytes, more than {MOST_UNPACKED:,}; it looks like a zip bomb"
            )
        found = []
        for one in sorted(files, key=lambda entry: entry.filename):
            if problem := _problem(one):
                self.refused.append((one.filename, problem))
            else:
                start: Any = partial(self._zip.open, one)
                # A zip archive that does not tell when has the year in which the format begins.
                stamp = "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*one.date_time)
                written = stamp if one.date_time > (1981,) else None
                found.append(
                    SourceFile(one.filename, start, one.file_size, archive=self.name, modified=written)
                )
        packed = sum(one.compress_size for one in files)
        if whole > RATIO_FROM and whole > MOST_RATIO * max(1, packed):
            raise InputError(
                f"{self.name}: the archive unpacks to {whole // max(1, packed)} times its size; it looks like a zip bomb"
            )
        return found


def _stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem


def _problem(entry: zipfile.ZipInfo) -> str | None:
    """Return why a file of an archive is refused; None if it is not."""
    parts = entry.filename.replace("\\", "/").split("/")
    if ".." in parts or entry.filename[:1] in "/\\" or ":" in parts[0]:
        return "its path leads out of the archive"
    if entry.flag_bits & 1:
        return "it is encrypted; unpack the archive with its password and zip it again"
    if entry.file_size > RATIO_FROM and entry.file_size > MOST_RATIO * max(1, entry.compress_size):
        return f"it unpacks to {entry.file_size // max(1, entry.compress_size)} times its size, as a zip bomb does"
    return None


def open_source(file: str | os.PathLike[str] | BinaryIO, name: str | None = None) -> SourceFile | Archive:
    """Return a file, or an archive if it is one; a pipe, which cannot be read twice, is read into memory.

    Args:
        file: a path, or a file that is open for reading bytes.
        name: what the file is called in messages; its own name when not given.

    Raises:
        InputError: if the file cannot be read, is a directory, or is an archive that is damaged or grows beyond bounds.
    """
    path = Path(file) if isinstance(file, (str, os.PathLike)) else None
    known = path if path is not None else getattr(file, "name", None)
    is_named = isinstance(known, (str, Path)) and not str(known).startswith("<")
    label = name or (
        Path(str(known)).name if is_named else "standard input" if known == "<stdin>" else "the file"
    )
    if path is not None:
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise InputError(
                    f"{label} is a directory; name the files in it, or put it into a zip archive"
                )
            data = None if stat.S_ISREG(mode) else path.read_bytes()
        except (OSError, ValueError) as exc:
            raise InputError(f"cannot read {shown(str(path), 300)}: {_reason(exc)}") from exc
    else:
        data = _content(file, label)

    def start() -> BinaryIO:
        return path.open("rb") if path is not None and data is None else io.BytesIO(data or b"")

    source = SourceFile(label, start, is_named=is_named or name is not None)
    with source.open() as stream:
        is_zip = stream.read(4) in _ZIP
    return Archive(label, start()) if is_zip else source


def _content(file: object, label: str) -> bytes:
    read = getattr(file, "read", None)
    if not callable(read):
        raise InputError(f"the file must be a path or a file open for reading bytes, not {shown(file)}")
    content = read()
    if not isinstance(content, bytes):
        raise InputError(f"{label} is open for reading text; open it for reading bytes (mode 'rb')")
    return content


def _reason(exc: Exception) -> str:
    return str(exc.strerror or exc) if isinstance(exc, OSError) else str(exc)


PIECE = 1 << 20
"""Bytes that are read at once."""
MOST_LINE = 16 * 1024**2
"""Characters that a line may have."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNDECODED = re.compile("[\ud800-\udfff]")
"""What stands for a byte that is no UTF-8 (PEP 383), or for half a character of UTF-16."""

OnFault = Callable[[str, str], None]
"""Called with the place of what cannot be read, and the reason."""


def encoding_of(head: bytes) -> str:
    """Return the encoding of a file by its byte order mark, else UTF-8."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8-sig")


def pieces_of(stream: Watched, on_fault: OnFault) -> Iterator[str]:
    """Yield a file's text in pieces. A line with bytes that are no UTF-8 is named; a surrogate stands for each of them.

    No text with a surrogate can be stored, so whatever message holds it is refused by itself. Where a file is damaged, its
    text ends, and the place is named.
    """
    line, named = 1, 0
    decoder: codecs.IncrementalDecoder | None = None
    data = b"-"
    while data:
        try:
            data = stream.read(PIECE)
            if decoder is None:
                encoding = encoding_of(data)
                errors = "surrogateescape" if encoding == "utf-8-sig" else "surrogatepass"
                decoder = codecs.getincrementaldecoder(encoding)(errors)
            text = decoder.decode(data, final=not data)
        except DamagedError as exc:
            on_fault(f"behind line {line}", str(exc))
            return
        except UnicodeDecodeError as exc:
            on_fault(
                f"behind line {line}", f"this is not {exc.encoding}: {exc.reason}; what follows is not read"
            )
            return
        behind = 0
        while (found := _UNDECODED.search(text, behind)) is not None:
            line += text.count("\n", behind, found.start())
            if line != named:
                on_fault(f"line {line}", "some bytes are not UTF-8; save the file as UTF-8")
            named = line
            behind = text.find("\n", found.start())
            behind = len(text) if behind < 0 else behind
        line += text.count("\n", behind)
        if text:
            yield text


def lines_of(stream: Watched, on_fault: OnFault) -> Iterator[tuple[int, str]]:
    """Yield (number, line) for every line that can be read, from 1, without its end. Only line feeds end a line, as in files."""
    number, rest = 0, ""
    for piece in pieces_of(stream, on_fault):
        rest += piece
        whole = rest.split("\n")
        rest = whole.pop()
        for line in whole:
            number += 1
            if _is_usable(line, number, on_fault):
                yield number, line.removesuffix("\r")
        if len(rest) > MOST_LINE:
            on_fault(
                f"line {number + 1}",
                f"the line has more than {MOST_LINE:,} characters; what follows is not read",
            )
            return
    if rest and _is_usable(rest, number + 1, on_fault):
        yield number + 1, rest.removesuffix("\r")


def _is_usable(line: str, number: int, on_fault: OnFault) -> bool:
    """Return whether a line is text; bytes that are no UTF-8 were named when they were read."""
    if _UNDECODED.search(line):
        return False
    if "\0" in line:
        on_fault(f"line {number}", "there is a NUL character, which is not text")
        return False
    return True


MOST_VALUE = 512 * 1024**2
"""Bytes that one value may have, which is held as a whole: a conversation, or a message."""
MOST_DEPTH = 500
STEP = 1024
"""Bytes that the parser gets at once: the place of a fault is known so exactly."""


class JsonEndError(Exception):
    """The JSON ends, or is broken, within a value; the fault is reported, and `FileReader.json` ends."""


class JsonStream:
    """A position in JSON text.

    `elements` and `fields` step through a list or an object; at each step the caller reads what stands there with `value`,
    `elements` or `fields`, or passes over it by going on.

    Args:
        pieces: the text.
        on_fault: called with the place behind which nothing can be read, and the reason.

    Example:
        >>> [value for _, value in JsonStream(["[1, {}, 2]"], print).values()]
        [1, {}, 2]
    """

    def __init__(self, pieces: Iterable[str], on_fault: Callable[[str, str], None]) -> None:
        self._on_fault = on_fault
        self._events = self._parsed(pieces)
        self._next: tuple[str, Any] | None = None
        self._taken = self._depth = 0
        self._read = self._begun = 0
        """Bytes read so far, and those before the value that is being read."""

    def peek(self) -> str:
        """Return the kind of the next value: "start_map", "start_array" or another type; empty at the end."""
        if self._next is None:
            self._next = next(self._events, ("", None))
        return self._next[0]

    def value(self) -> Any:
        """Return the next value.

        Raises:
            JsonEndError: if it is not whole.
        """
        found, whole = self._built()
        if not whole:
            raise JsonEndError
        return found

    def beginning(self) -> Any:
        """Return as much of the next value as there is; None if there is nothing of it."""
        return self._built()[0]

    def _built(self) -> tuple[Any, bool]:
        """Return the next value as far as it goes, and whether it is whole."""
        from ijson import ObjectBuilder

        self._begun, level, builder = self._read, self._depth, ObjectBuilder()
        while True:
            event, value = self._take()
            if not event:
                return getattr(builder, "value", None), False
            builder.event(event, value)
            if self._depth == level:
                return builder.value, True

    def elements(self) -> Iterator[int]:
        """Yield the numbers of a list's elements, from 0, with the stream at each element."""
        return (number for number, _ in enumerate(self._steps("start_array", "end_array")))

    def fields(self) -> Iterator[str]:
        """Yield the keys of an object, with the stream at each value."""
        return self._steps("start_map", "end_map")

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield (number, value) for the elements of a list, as far as they are whole."""
        for number in self.elements():
            try:
                value = self.value()
            except JsonEndError:
                return
            yield number, value

    def _steps(self, opening: str, closing: str) -> Iterator[str]:
        """Yield at each element, with its key in an object, and skip what the caller has not read."""
        if self.peek() != opening:
            return
        self._take()
        level = self._depth
        while self.peek() not in (closing, ""):
            key = str(self._take()[1]) if opening == "start_map" else ""
            before = self._taken
            yield key
            while self.peek() and (self._taken == before or self._depth > level):
                self._take()
                self._begun = self._read
        self._take()

    def _take(self) -> tuple[str, Any]:
        self.peek()
        taken, self._next = self._next or ("", None), None
        self._taken += 1
        self._depth += taken[0].startswith("start") - taken[0].startswith("end")
        if self._depth > MOST_DEPTH:
            self._on_fault(f"byte {self._read:,}", "the JSON is nested too deeply to be a chat")
            self._events, taken = iter(()), ("", None)
        return taken

    def _parsed(self, pieces: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Yield the parser's events, and report where it fails."""
        import ijson

        found = ijson.sendable_list()
        parser = ijson.basic_parse_coro(found, use_float=True)  # else thousands of digits crash it
        reason = ""
        for part in _parts(pieces):
            try:
                parser.send(part)
            except (ijson.JSONError, ValueError) as exc:
                reason = f"this is not JSON, here or up to {STEP:,} bytes on: {_what(exc)}; what follows is not read"
            yield from found
            found.clear()
            if not reason and self._read - self._begun > MOST_VALUE:
                reason = f"a single value has more than {MOST_VALUE:,} bytes; what follows is not read"
            if reason:
                self._on_fault(f"byte {self._read:,}", reason)
                return
            self._read += len(part)
        try:
            parser.close()
        except ijson.JSONError as exc:
            reason = f"this is not JSON: {_what(exc)}"
            if self._depth or not self._taken:
                reason = "the file ends here, in the middle of its JSON; it is cut off"
        yield from found
        if reason:
            self._on_fault(f"byte {self._read:,}", reason)


def _what(error: Exception) -> str:
    """Return the parser's message without the text around the fault."""
    return str(error).splitlines()[0].rpartition("error: ")[2].rstrip(".")


def _parts(pieces: Iterable[str]) -> Iterator[bytes]:
    for piece in pieces:
        # What stands for a byte that is no UTF-8 becomes a NUL, so that the message with it is refused, and no other.
        data = _UNDECODED.sub(r"\\u0000", piece).encode()
        yield from (data[at : at + STEP] for at in range(0, len(data), STEP))


MOST_NAMED = 1000
"""Parts that could not be read and are named with their places; further ones are counted."""


@dataclass(frozen=True, slots=True)
class FileSession:
    """A session as a file has it.

    `turns` are messages as `AsyncMemForest.ingest_session` takes them. `user` says whose memory it belongs to, None where the
    file does not. `timestamp` is the time of turns without one of their own. `where` is the session's place in the file,
    and `places` are those of its turns, in order; empty where their number says enough.
    """

    session_id: str
    turns: tuple[Mapping[str, Any], ...]
    timestamp: str | int | float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    user: str | None = None
    places: tuple[str, ...] = ()

    def place(self, position: int) -> str:
        """Return where a turn stands in the file."""
        if position < len(self.places):
            return self.places[position]
        turn = f"turn {position}"
        return f"{self.where}, {turn}" if self.where else turn


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part of a file that could not be read and is not stored: where it stands, and why."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


@dataclass(slots=True)
class Skips:
    """The parts of a file that are not stored, or stored otherwise."""

    left_out: Counter[str] = field(default_factory=Counter)
    """Parts that are no messages of a person, an assistant or a tool, counted by what they are."""
    wrong: list[SkippedPart] = field(default_factory=list)
    """The first parts that could not be read."""
    wrong_count: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    """What was stored otherwise than the file has it, counted."""

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count parts that are left out on purpose."""
        if count:
            self.left_out[what] += count

    def add(self, other: Skips, name: str) -> None:
        """Add the skipped parts of one file of an archive."""
        self.left_out.update(other.left_out)
        self.notes.update(other.notes)
        for part in other.wrong:
            self.fail(f"{name}, {part.where}" if part.where else name, part.reason)
        self.wrong_count += other.wrong_count - len(other.wrong)

    def fail(self, where: str, reason: str) -> None:
        """Record a part that could not be read."""
        self.wrong_count += 1
        if len(self.wrong) < MOST_NAMED:
            self.wrong.append(SkippedPart(where, reason))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the caller tells a reader that the file does not.

    Args:
        session_id: names a session, or a chat, that has no id of its own; None when there is no name to take.
        day_first: whether ``03/04/2024`` is 3 April; None is as the file proves.
        zone: where times without an offset were said, and in whose days a long chat is cut into sessions.
        owner: the participant whose memory it is; their turns get the role ``user``.
    """

    session_id: str | None = None
    day_first: bool | None = None
    zone: tzinfo = timezone.utc
    owner: str | None = None


JsonShape = Literal["array", "object", "lines"]


def kind_of(value: object) -> str:
    """Return the JSON type of a value, for messages."""
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")


@dataclass(slots=True)
class FileReader:
    """One pass over one file. What a reader leaves out or cannot read goes into `skips`."""

    source: SourceFile
    options: ReadOptions
    skips: Skips = field(default_factory=Skips)
    shape: JsonShape | None = None
    """How a JSON file is built; None for other text."""

    @property
    def name(self) -> str:
        """The name of a session without an id: the caller's, else the file's."""
        return self.options.session_id or self.source.stem

    def again(self) -> FileReader:
        """Return another pass over the same file, of which nothing is reported."""
        return FileReader(self.source, self.options, shape=self.shape)

    def read_time(self, value: object, where: str) -> tuple[datetime, str] | None:
        """Return a message's time, and the same as ISO 8601 text, whatever its order of day and month was.

        A time without an offset stays one. One that cannot be read is reported, and None is returned.
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
        """Open the file as JSON; the block ends where the JSON ends early."""
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
        """Yield the records that are objects, and report the others."""
        for where, value in self.records():
            if isinstance(value, Mapping):
                yield where, value
            else:
                self.skips.fail(where, f"there is a {kind_of(value)} where an object should be")
