"""Reading the bytes of a chat file into sessions of turns; no I/O, nothing stored.

Read are, as UTF-8: a JSON list of messages (one session); an object with ``turns`` or ``messages``; an object
with ``sessions``, or a list of such session objects; JSON Lines, one message or session object a line; and
LoCoMo samples as published (https://github.com/snap-research/locomo), one memory per ``sample_id``. What a
message may hold is decided by `memforest.memory.ingest.turns`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from memforest.errors import InputError

__all__ = ["FileMemory", "FileSession", "read_chat"]

SHAPES = (
    "a list of messages with role, content and timestamp; an object with 'turns' or 'sessions'; "
    "JSON Lines; or a LoCoMo file"
)
_BINARY = (
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"%PDF", "a PDF; export the chat as JSON"),
    (b"SQLite format 3\0", "a database; give its directory with --dir, or export the chat as JSON"),
)
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16 (and of UTF-32, little-endian)."""
_SESSION_KEY = re.compile(r"session_(\d{1,9})")
_MESSAGE_KEYS = ("content", "text", "message")


@dataclass(frozen=True, slots=True)
class FileSession:
    """A session as the file has it: `where` is its place in the file, for messages."""

    session_id: str
    turns: tuple[Mapping[str, Any], ...]
    timestamp: str | int | float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True, slots=True)
class FileMemory:
    """The sessions of one memory; `user` is None when the file does not say whose they are."""

    source: str
    sessions: tuple[FileSession, ...]
    user: str | None = None


def read_chat(data: bytes, *, name: str, session_id: str | None) -> list[FileMemory]:
    """Return the memories that a chat file holds.

    Args:
        data: the file's content.
        name: the file's name, for messages.
        session_id: names a session that has no id of its own; None when there is no name to take.

    Raises:
        InputError: if the file is empty, binary, not UTF-8, not JSON, or of another shape. The message
            gives the file, the position and what to do.

    Example:
        >>> read_chat(b'[{"role": "user", "content": "Hi"}]', name="a.json", session_id="a")[0].sessions[0].turns
        ({'role': 'user', 'content': 'Hi'},)
    """
    reader = _Reader(name, session_id)
    return reader.memories(reader.document(reader.text(data)))


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of JSON Lines with its number, from 1."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one file."""

    name: str
    session_id: str | None

    def fail(self, where: str, problem: str) -> NoReturn:
        """Raise an error that names file and place."""
        raise InputError(f"{self.name}{', ' + where if where else ''}: {problem}")

    # -- bytes to values ----------------------------------------------------------------------

    def text(self, data: bytes) -> str:
        """Decode the file, or say what it is instead of text."""
        if not data.strip():
            self.fail("", f"the file is empty; it should hold {SHAPES}")
        if what := next((what for magic, what in _BINARY if data.startswith(magic)), None):
            self.fail("", f"this is {what}")
        if data.startswith(_WIDE):
            self.fail("", "this is UTF-16 or UTF-32; save it as UTF-8")
        if (at := data.find(b"\0")) >= 0:
            self.fail(f"byte {at}", "there is a NUL, so this looks like a binary file; give a JSON file")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            line = data.count(b"\n", 0, exc.start) + 1
            self.fail(f"line {line} (byte {exc.start})", "this is not UTF-8; save the file as UTF-8")

    def document(self, text: str) -> Any:
        """Return the JSON value, or the lines of JSON Lines as a list of `_Line`."""
        try:
            return self._loads(text)
        except json.JSONDecodeError as exc:
            lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
            if len(lines) < 2 or not self._is_object(lines[0][1]):
                self.fail(f"line {exc.lineno} column {exc.colno}", f"this is not JSON: {exc.msg}")
        return [_Line(number, self._line(number, line)) for number, line in lines]

    def _loads(self, text: str) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except RecursionError:
            self.fail("", "the JSON is nested too deeply to be a chat")
        except ValueError as exc:  # a number of thousands of digits
            self.fail("", f"the JSON cannot be read: {exc}")

    def _is_object(self, line: str) -> bool:
        try:
            return isinstance(json.loads(line), Mapping)
        except (ValueError, RecursionError):
            return False

    def _line(self, number: int, line: str) -> Any:
        try:
            return self._loads(line)
        except json.JSONDecodeError as exc:
            self.fail(
                f"line {number} column {exc.colno}",
                f"this is not JSON: {exc.msg}; JSON Lines has one complete message a line",
            )

    # -- values to memories -------------------------------------------------------------------

    def memories(self, value: Any) -> list[FileMemory]:
        """Tell the shape of a document and read it."""
        if isinstance(value, Mapping):
            if _is_locomo(value):
                return [self._sample(value, "")]
            return [FileMemory(self.name, self._object(value), self._user(value))]
        if not isinstance(value, list):
            self.fail("", f"the file holds a bare {_kind(value)}; it should hold {SHAPES}")
        if not value:
            self.fail("", f"the list is empty; the file should hold {SHAPES}")
        items = [
            (f"line {one.number}", one.value) if isinstance(one, _Line) else (f"item {n}", one)
            for n, one in enumerate(value)
        ]
        for where, item in items:
            if not isinstance(item, Mapping):
                self.fail(where, f"there is a {_kind(item)} where a message should be: {SHAPES}")
        if all(_is_locomo(item) for _, item in items):
            return self._distinct([self._sample(item, where) for where, item in items])
        return [FileMemory(self.name, self._items(items))]

    def _object(self, value: Mapping[str, Any]) -> tuple[FileSession, ...]:
        """Read an object that is not LoCoMo's: sessions, one session, or one message."""
        if "sessions" in value:
            found = self._list(value, "sessions", "")
            sessions = [(f"sessions[{n}]", one) for n, one in enumerate(found)]
            for where, one in sessions:
                if not isinstance(one, Mapping) or not _turns_key(one):
                    self.fail(where, "a session should be an object with 'turns' or 'messages'")
            return self._items(sessions)
        if _turns_key(value):
            return (self._session(value, "", self.session_id),)
        if any(key in value for key in _MESSAGE_KEYS):
            return self._items([("", value)])
        keys = ", ".join(repr(str(key)[:20]) for key in list(value)[:5])
        return self.fail("", f"the object has the keys {keys or '(none)'}; it should hold {SHAPES}")

    def _items(self, items: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[FileSession, ...]:
        """Read messages, grouped by their ``session_id``, or session objects; no mixture."""
        whole = [_turns_key(item) is not None for _, item in items]
        if any(whole) and not all(whole):
            self.fail(
                items[whole.index(not whole[0])][0], "messages and sessions are mixed; use one or the other"
            )
        if whole[0]:
            many = len(items) > 1
            found = [
                self._session(item, where, self._numbered(n) if many else self.session_id)
                for n, (where, item) in enumerate(items, 1)
            ]
            return self._unique(found)
        groups: dict[str, tuple[str, list[Mapping[str, Any]]]] = {}
        for where, item in items:
            key = self._id(item.get("session_id"), where, self.session_id)
            turn = {name: one for name, one in item.items() if name != "session_id"}
            groups.setdefault(key, (where, []))[1].append(turn)
        return tuple(FileSession(key, tuple(turns), where=where) for key, (where, turns) in groups.items())

    def _numbered(self, number: int) -> str | None:
        return None if self.session_id is None else f"{self.session_id}-{number}"

    def _session(self, value: Mapping[str, Any], where: str, default_id: str | None) -> FileSession:
        key = _turns_key(value) or "turns"
        turns = self._list(value, key, where)
        at = f"{where}.{key}" if where else key
        for n, turn in enumerate(turns):
            if not isinstance(turn, Mapping):
                self.fail(f"{at}[{n}]", f"there is a {_kind(turn)} where a message should be")
        metadata = value.get("metadata", {})
        if not isinstance(metadata, Mapping):
            self.fail(where, f"'metadata' should be an object, not a {_kind(metadata)}")
        return FileSession(
            session_id=self._id(value.get("session_id", value.get("id")), where, default_id),
            turns=tuple(turns),
            timestamp=self._time(value.get("timestamp", value.get("date")), where),
            metadata=metadata,
            where=where,
        )

    # -- LoCoMo -------------------------------------------------------------------------------

    def _sample(self, value: Mapping[str, Any], where: str) -> FileMemory:
        """Read one LoCoMo sample: its sessions in order, each at its date."""
        talk = value["conversation"]
        numbered = [(int(found[1]), key) for key in talk if (found := _SESSION_KEY.fullmatch(key))]
        sessions = []
        for _, key in sorted(numbered):
            at = f"{where}, {key}" if where else key
            turns = self._list(talk, key, where) if talk[key] else []
            if not turns:
                continue  # announced by its date only
            value_and_date = {"turns": turns, "timestamp": talk.get(f"{key}_date_time")}
            sessions.append(self._session(value_and_date, at, key))
        if not sessions:
            self.fail(where, "the conversation has no session with turns")
        user = value.get("sample_id")
        return FileMemory(self.name, tuple(sessions), None if user is None else self._id(user, where, None))

    def _distinct(self, memories: list[FileMemory]) -> list[FileMemory]:
        seen: set[str | None] = set()
        for n, memory in enumerate(memories):
            if len(memories) > 1 and memory.user is None:
                self.fail(f"item {n}", "the sample has no 'sample_id', which names its memory")
            if memory.user in seen:
                self.fail(f"item {n}", f"the sample_id {memory.user!r} came before; ids are unique in a file")
            seen.add(memory.user)
        return memories

    # -- parts --------------------------------------------------------------------------------

    def _list(self, value: Mapping[str, Any], key: str, where: str) -> list[Any]:
        found = value[key]
        if not isinstance(found, list) or not found:
            what = "empty" if found == [] else f"a {_kind(found)}"
            self.fail(where, f"{key!r} is {what}; it should be a list with at least one entry")
        return found

    def _id(self, value: Any, where: str, default: str | None) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None:
            self.fail(where, f"the id is {'empty' if value == '' else 'a ' + _kind(value)}; give some text")
        if default is None:
            self.fail(where, "the session has no id; give it 'session_id', or name it with --session")
        return default

    def _time(self, value: Any, where: str) -> str | int | float | None:
        if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
            return value
        return self.fail(where, f"the timestamp is a {_kind(value)}; give ISO 8601 text or UNIX seconds")

    def _user(self, value: Mapping[str, Any]) -> str | None:
        user = value.get("user_id", value.get("user"))
        return None if user is None else self._id(user, "", None)

    def _unique(self, sessions: list[FileSession]) -> tuple[FileSession, ...]:
        seen: set[str] = set()
        for session in sessions:
            if session.session_id in seen:
                self.fail(
                    session.where,
                    f"the session id {session.session_id!r} came before; ids are unique in a file",
                )
            seen.add(session.session_id)
        return tuple(sessions)


def _is_locomo(value: Any) -> bool:
    talk = value.get("conversation") if isinstance(value, Mapping) else None
    return isinstance(talk, Mapping) and any(_SESSION_KEY.fullmatch(str(key)) for key in talk)


def _turns_key(value: Mapping[str, Any]) -> str | None:
    return next((key for key in ("turns", "messages") if key in value), None)


def _kind(value: Any) -> str:
    """Name the JSON type of a value."""
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
