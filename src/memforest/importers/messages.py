"""Lists of chat messages: memforest's own shapes, and those of the OpenAI APIs with calls of tools.

Read are a list of messages (one session, or one for each ``session_id``); an object with ``turns`` or ``messages``; an object
with ``sessions``, or a list of session objects; JSON Lines of messages or session objects; a response of Chat Completions
(``choices``) or of the Responses API (``output``), a list of items (``data``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from memforest.display import listed
from memforest.importers.parts import FileSession
from memforest.importers.protocol import is_protocol_message, is_talk, turns_of
from memforest.importers.reading import Reading, kind_of
from memforest.importers.sample import LISTS, Sample, held_in
from memforest.limits import TEXT, TIME_KEYS

SHAPES = (
    "a list of messages with role, content and timestamp; an object with 'turns' or 'sessions'; "
    "JSON Lines of messages; or an export that docs/importing.md lists"
)
_ABOUT = ("session_id", "id", "user", "user_id", *TIME_KEYS, "metadata")
"""Fields that tell of a session; lists and objects under other names are passed over."""

Convert = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def recognises(sample: Sample) -> bool:
    """Return whether it is messages or sessions of messages, in whichever protocol; or holds nothing where these should stand."""
    found = sample.messages
    return is_talk(found) or (
        not found and any("sessions" in one or held_in(one) is not None for one in sample.objects)
    )


def recognises_openai(sample: Sample) -> bool:
    """Return whether it is what the OpenAI APIs take or give: typed items, calls of tools, messages without text."""
    return is_talk(sample.messages) and (
        any(map(is_protocol_message, sample.messages))
        or any((held_in(one) or [""])[0] in ("choices", "output") for one in sample.objects)
    )


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of a file."""
    return MessageReader(reading).sessions()


@dataclass(slots=True)
class MessageReader:
    """Reads the messages of one file; `convert` makes of each what `protocol.turns_of` reads."""

    reading: Reading
    convert: Convert | None = None

    def sessions(self) -> Iterator[FileSession]:
        """Yield the sessions of the file."""
        if self.reading.shape == "object":
            yield from self._object()
            return
        scratch = Reading(self.reading.source, self.reading.options, shape=self.reading.shape)
        last: dict[str | None, int] = {}
        whole: list[bool] = []
        for at, (_, one) in enumerate(scratch.objects()):
            whole = whole or [held_in(one) is not None]
            last[_key(one)] = at
        records = self.reading.objects()
        if whole and whole[0]:
            yield from self._whole(records)
        else:
            yield from self._grouped(records, last)

    def _object(self) -> Iterator[FileSession]:
        """Read an object: sessions, one session, or one message; where it is cut off, what was whole."""
        found: dict[str, Any] = {}
        with self.reading.json() as stream:
            for key in stream.fields():
                if key == "sessions" and stream.peek() == "start_array":
                    records = ((f"sessions[{n}]", one) for n, one in stream.values())
                    yield from self._whole(records, user=self._user())
                    return
                if key in (*LISTS, "input") and stream.peek() == "start_array":
                    found[key] = [one for _, one in stream.values()]
                elif key in TEXT:
                    found[key] = key
                elif key in _ABOUT or not stream.peek().startswith("start"):
                    found[key] = stream.value()
        if "sessions" in found:
            self.reading.skips.fail(
                "sessions", f"this is a {kind_of(found['sessions'])}; it should be a list"
            )
        elif held_in(found):
            session = self._session(found, "", self.reading.name)
            yield from [session] if session else []
        elif any(key in found for key in TEXT):
            message = list(self.reading.objects())
            yield from self._grouped(message, {_key(one): 0 for _, one in message})
        else:
            self.reading.skips.fail("", f"the object has {listed(found)}; it should hold {SHAPES}")

    def _user(self) -> str | None:
        """Return whose memory an object of sessions says that it is, wherever in it that stands."""
        scratch = Reading(self.reading.source, self.reading.options, shape=self.reading.shape)
        found: dict[str, Any] = {}
        with scratch.json() as stream:
            for key in stream.fields():
                if key in ("user", "user_id"):
                    found[key] = stream.value()
        return self._owner(found, "")

    def _owner(self, value: Mapping[str, Any], where: str) -> str | None:
        user = value.get("user_id", value.get("user"))
        return None if user is None else self._id(user, where, None)

    def _whole(self, records: Iterable[tuple[str, Any]], *, user: str | None = None) -> Iterator[FileSession]:
        """Read session objects; one without an id is numbered, if it is not the only one."""
        waiting: tuple[str, Any] | None = None
        count = 0
        for record in chain(records, (None,)):
            if waiting is not None:
                count += 1
                only = count == 1 and record is None
                yield from self._one(
                    *waiting, self.reading.name if only else f"{self.reading.name}-{count}", user
                )
            waiting = record
        if not count:
            self.reading.skips.fail("", "'sessions' is empty; it should be a list with at least one entry")

    def _one(self, where: str, value: Any, default: str, user: str | None) -> Iterator[FileSession]:
        if not isinstance(value, Mapping) or held_in(value) is None:
            self.reading.skips.fail(where, "a session should be an object with 'turns' or 'messages'")
        elif session := self._session(value, where, default, user):
            yield session

    def _grouped(
        self, records: Iterable[tuple[str, Mapping[str, Any]]], last: Mapping[str | None, int]
    ) -> Iterator[FileSession]:
        """Read messages, one session for each ``session_id``; a session is yielded with its last message."""
        held: dict[str | None, list[tuple[str, Mapping[str, Any]]]] = {}
        for at, (where, item) in enumerate(records):
            key = _key(item)
            group = held.setdefault(key, [])
            if held_in(item):
                self.reading.skips.fail(where, "there is a session among messages; use one or the other")
            else:
                group.append((where, item))
            if last.get(key) == at:
                del held[key]
                if group and (session := self._group(group)):
                    yield session

    def _group(self, group: list[tuple[str, Mapping[str, Any]]]) -> FileSession | None:
        where, first = group[0]
        name = self._id(first.get("session_id"), where, self.reading.name)
        if name is None:
            return None
        messages = [
            (at, {key: one for key, one in item.items() if key != "session_id"}) for at, item in group
        ]
        return self._made(name, messages, None, {}, where, None)

    def _session(
        self, value: Mapping[str, Any], where: str, default: str, user: str | None = None
    ) -> FileSession | None:
        """Read a session object; what is wrong with it as a whole is named."""
        skips = self.reading.skips
        key, items = held_in(value) or ("turns", None)
        if not isinstance(items, list) or not items:
            what = "empty" if items == [] else f"a {kind_of(items)}"
            skips.fail(where, f"{key!r} is {what}; it should be a list with at least one entry")
            return None
        metadata = value.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            skips.fail(where, f"'metadata' should be an object, not a {kind_of(metadata)}")
            return None
        time = next((value[name] for name in TIME_KEYS if value.get(name) is not None), None)
        if time is not None and (not isinstance(time, (str, int, float)) or isinstance(time, bool)):
            skips.fail(where, f"the timestamp is a {kind_of(time)}; give ISO 8601 text or UNIX seconds")
            return None
        name = self._id(value.get("session_id", value.get("id")), where, default)
        if name is None:
            return None
        at = f"{where}.{key}" if where else key
        given = _given(value) if key == "output" else []
        messages = []
        for n, item in enumerate([*given, *items], -len(given)):
            if isinstance(item, Mapping):
                messages.append((f"{at}[{n}]" if n >= 0 else "input", item))
            else:
                skips.fail(f"{at}[{n}]", f"there is a {kind_of(item)} where a message should be")
        return self._made(name, messages, time, metadata, where, user or self._owner(value, where))

    def _made(
        self,
        name: str,
        messages: Iterable[tuple[str, Mapping[str, Any]]],
        time: str | int | float | None,
        metadata: Mapping[str, Any],
        where: str,
        user: str | None,
    ) -> FileSession | None:
        tools: dict[str, str] = {}
        turns: list[Mapping[str, Any]] = []
        places: list[str] = []
        for at, message in messages:
            made = turns_of(self.convert(message) if self.convert else message, tools, self.reading.skips)
            turns += made
            places += [at] * len(made)
        if not turns:
            return None
        return FileSession(name, tuple(turns), time, metadata, where, user, tuple(places))

    def _id(self, value: Any, where: str, default: str | None) -> str | None:
        """Return an id; None, with the place named, for what cannot be one."""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None:
            self.reading.skips.fail(
                where, f"the id is {'empty' if value == '' else 'a ' + kind_of(value)}; give some text"
            )
            return None
        if not default:
            self.reading.skips.fail(
                where, "the session has no id; give it 'session_id', or name it (--session)"
            )
        return default or None


def _given(value: Mapping[str, Any]) -> list[Any]:
    """Return what a response of the Responses API answers, where it is kept with it."""
    given = value.get("input")
    return given if isinstance(given, list) else [{"role": "user", "content": given}] if given else []


def _key(item: Mapping[str, Any]) -> str | None:
    """Return what messages of one session have in common."""
    found = item.get("session_id")
    return None if found is None else str(found)
