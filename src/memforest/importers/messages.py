"""Lists of chat messages: memforest's own shapes, those of the OpenAI APIs with calls of tools, and LangChain's.

Read are a list of messages (one session, or one for each ``session_id``); an object with ``turns`` or ``messages``; an object
with ``sessions``, or a list of session objects; JSON Lines of messages or session objects; a response of Chat Completions
(``choices``) or of the Responses API (``output``), a list of items (``data``).

Known are the messages of OpenAI's Chat Completions (https://platform.openai.com/docs/api-reference/chat), the items of its
Responses API (https://platform.openai.com/docs/api-reference/responses), typed parts as Anthropic's messages have them, and
LangChain's messages, as ``messages_to_dict`` writes them (``type`` and ``data``) and as ``dumpd`` does (``lc``, ``kwargs``).
A call of a tool is nobody's statement, and neither is its result: they are turns of role ``tool``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from memforest.importers.drafts import LISTS, Sample, held_in, tool_call, tool_result
from memforest.importers.files import FileReader, FileSession, Skips, kind_of
from memforest.settings import CAPTION, ROLES, SPEAKER, TEXT, TIME_KEYS
from memforest.times import listed

_CALLS = ("tool_calls", "function_call")
_CALL_ITEMS = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
"""Type of an item that asks a tool -> the field of what it is asked."""
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")
_REASONING = ("reasoning", "thinking", "redacted_thinking")
UNSAID = ("type", "status", "refusal", "annotations", "audio", "logprobs", "phase")
"""Fields of a message that say nothing of what was said."""
_NAMES = ("sender", "sender_name", "author")
"""Where other programs have the name of who speaks, or an object with a ``name``; what only names a role is the role."""
_INSTRUCTIONS = ("system", "developer")
_TEXT_PARTS = (None, "text", "input_text", "output_text", "refusal", "summary_text")


def is_protocol_message(message: Mapping[str, Any]) -> bool:
    """Return whether a message has a trait of chat protocols: tool calls, no text, a type, or typed parts."""
    content = message.get("content")
    return (
        any(key in message for key in (*_CALLS, "tool_call_id", "call_id"))
        or message.get("type") in (*_CALL_ITEMS, *_RESULT_ITEMS, *_REASONING)
        or ("role" in message and "content" in message and content is None)
        or (isinstance(content, list) and any(isinstance(one, Mapping) and "type" in one for one in content))
        or "choices" in message
        or "refusal" in message
    )


def is_talk(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records are messages: at least half have a text and a speaker, not only a system's.

    The log of a program may hold a prompt among its events: where nobody else speaks, it is no chat.
    """
    voices = [_voice(one) for one in messages]
    heard = [one for one in voices if one is not None]
    return bool(heard) and 2 * len(heard) >= len(voices) and ("said" in heard or len(set(voices)) == 1)


def _voice(message: Mapping[str, Any]) -> str | None:
    """Return the kind of a message: "said", "system", "tool" or "unknown"; None for another record."""
    kind = message.get("type")
    if isinstance(kind, str) and (kind.endswith("_call") or kind in (*_RESULT_ITEMS, *_REASONING)):
        return "tool"
    message = with_speaker(message)
    role, content = (
        message.get("role"),
        next((message[key] for key in TEXT if message.get(key) is not None), ""),
    )
    has_text = isinstance(content, (str, list)) and not {*TEXT, *CAPTION, *_CALLS}.isdisjoint(message)
    if not has_text or (role is None and not any(message.get(key) for key in SPEAKER)):
        return None
    folded = "user" if role is None else str(role).strip().casefold()
    return "system" if folded in _INSTRUCTIONS else "said" if folded in ROLES else "unknown"


def with_speaker(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with its speaker under the key that is read, wherever it was."""
    if any(message.get(key) is not None for key in ("role", *SPEAKER)):
        return message
    key = next((key for key in _NAMES if message.get(key)), None)
    who = None if key is None else message[key]
    name = who.get("name") if isinstance(who, Mapping) else who
    if not isinstance(name, str):
        return message
    left = {other: one for other, one in message.items() if other != key}
    return {**left, "role" if name.casefold() in ROLES else "speaker": name}


def turns_of(message: Mapping[str, Any], tools: dict[str, str], skips: Skips) -> list[Mapping[str, Any]]:
    """Return a message as turns, in order; a plain message as it is.

    Args:
        message: the message.
        tools: id of a call -> name of its tool, as far as the session has been read; it is added to.
        skips: counts what is left out.
    """
    message = with_speaker(message)
    if not is_protocol_message(message):
        return [message]
    shared = {key: message[key] for key in TIME_KEYS if message.get(key) is not None}
    return [{**turn, **shared} for turn in _turns(message, tools, skips)]


def _turns(message: Mapping[str, Any], tools: dict[str, str], skips: Skips) -> Iterator[dict[str, Any]]:
    kind = message.get("type")
    if kind in _REASONING:
        skips.leave_out("reasoning of the model")
        return
    if kind in _CALL_ITEMS:
        yield _called(message.get("name"), message.get(_CALL_ITEMS[kind]), message.get("call_id"), tools)
        if output := _text(message.get("output"), skips):
            yield tool_result(message.get("name"), output)
        return
    if kind in _RESULT_ITEMS:
        yield _result(message.get("call_id"), None, message.get("output"), tools, skips)
        return
    if isinstance(kind, str) and kind.endswith("_call"):
        yield tool_call(
            kind, {key: one for key, one in message.items() if key not in ("id", "type", "status")}
        )
        return
    said = [*_said(message, tools, skips), *_calls(message, tools)]
    if not said:
        skips.leave_out("message without text")
    yield from said


def _calls(message: Mapping[str, Any], tools: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the tool calls of a message."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping):
            given = call.get("function")
            function = given if isinstance(given, Mapping) else call
            asked = next((function[key] for key in ("arguments", "args", "input") if key in function), "")
            yield _called(function.get("name"), asked, call.get("id"), tools)
    if isinstance(old := message.get("function_call"), Mapping):
        yield _called(old.get("name"), old.get("arguments"), None, tools)


def _said(message: Mapping[str, Any], tools: dict[str, str], skips: Skips) -> Iterator[dict[str, Any]]:
    """Yield the text of a message, and the tool calls and results among its typed parts."""
    left = {key: one for key, one in message.items() if key not in (*_CALLS, *TIME_KEYS, *UNSAID)}
    role, content = message.get("role"), message.get("content")
    if role in ("tool", "function"):
        if text := _text(content, skips):
            given = _result(message.get("tool_call_id"), message.get("name"), text, tools, skips)
            yield {**{key: one for key, one in left.items() if key not in ("name", "content")}, **given}
        return
    parts = content if isinstance(content, list) else []
    if text := _text(content, skips) or _text(message.get("refusal"), skips):
        yield {**left, "content": text}
    elif not isinstance(content, (list, str, type(None))):
        yield dict(message)  # to be refused by name
    for part in parts:
        if isinstance(part, Mapping) and part.get("type") == "tool_use":
            yield _called(part.get("name"), part.get("input"), part.get("id"), tools)
        elif isinstance(part, Mapping) and part.get("type") == "tool_result":
            yield _result(part.get("tool_use_id"), None, part.get("content"), tools, skips)


def _called(name: object, asked: object, call: object, tools: dict[str, str]) -> dict[str, Any]:
    if isinstance(call, str):
        tools[call] = str(name or "tool")
    turn = tool_call(name, asked)
    return {**turn, "tool_call_id": call} if isinstance(call, str) else turn


def _result(
    call: object, name: object, output: object, tools: Mapping[str, str], skips: Skips
) -> dict[str, Any]:
    known = tools.get(call) if isinstance(call, str) else None
    turn = tool_result(name or known, _text(output, skips) or "(no text)")
    return {**turn, "tool_call_id": call} if isinstance(call, str) else turn


def _text(content: object, skips: Skips) -> str:
    """Return the text of a message's content, plain or in typed parts; count the parts that are no text."""
    if isinstance(content, str):
        return content if content.strip() else ""
    if not isinstance(content, list):
        return ""
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part if isinstance(part, str) else None
        if isinstance(part, Mapping) and kind in _TEXT_PARTS:
            text = part.get("refusal") if kind == "refusal" else part.get("text")
        if isinstance(text, str):
            texts.append(text)
        elif kind in _REASONING:
            skips.leave_out("reasoning of the model")
        elif kind not in ("tool_use", "tool_result"):
            skips.leave_out("image, sound or file")
    return "\n".join(text for text in texts if text.strip())


SHAPES = (
    "a list of messages with role, content and timestamp; an object with 'turns' or 'sessions'; "
    "JSON Lines of messages; or an export that docs/importing.md lists"
)
_ABOUT = ("session_id", "id", "user", "user_id", *TIME_KEYS, "metadata")
"""Fields that tell of a session; lists and objects under other names are passed over."""

Convert = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def recognises_messages(sample: Sample) -> bool:
    """Return whether a file holds messages or sessions of any protocol, or an empty list in their place."""
    found = sample.messages
    return is_talk(found) or (
        not found and any("sessions" in one or held_in(one) is not None for one in sample.objects)
    )


def recognises_openai(sample: Sample) -> bool:
    """Return whether a file is input or output of the OpenAI APIs: typed items, tool calls, messages without text."""
    return is_talk(sample.messages) and (
        any(map(is_protocol_message, sample.messages))
        or any((held_in(one) or [""])[0] in ("choices", "output") for one in sample.objects)
    )


def read_messages(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of a file."""
    return MessageReader(reading).sessions()


@dataclass(slots=True)
class MessageReader:
    """A reader of the messages of one file; `convert` turns each into what `turns_of` reads."""

    reading: FileReader
    convert: Convert | None = None

    def sessions(self) -> Iterator[FileSession]:
        """Yield the sessions of the file."""
        if self.reading.shape == "object":
            yield from self._object()
            return
        scratch = FileReader(self.reading.source, self.reading.options, shape=self.reading.shape)
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
        """Read an object of sessions, a session, or a message; if it is cut off, its whole part."""
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
        """Return the user that an object of sessions names, wherever the field is."""
        scratch = FileReader(self.reading.source, self.reading.options, shape=self.reading.shape)
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
        """Read session objects, and number those without an id if there are several."""
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
        """Yield a session for each ``session_id`` of the messages, at its last message."""
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
        """Return a session object as a session; report a wrong one, and return None."""
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
        """Return an id; report a value that cannot be one, and return None."""
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
    """Return the input of a response of the Responses API, if it is kept."""
    given = value.get("input")
    return given if isinstance(given, list) else [{"role": "user", "content": given}] if given else []


def _key(item: Mapping[str, Any]) -> str | None:
    """Return the session id of a message, by which messages are grouped."""
    found = item.get("session_id")
    return None if found is None else str(found)


_LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "function",
}
_OUTSIDE = ("session_id", *TIME_KEYS)
"""What a store of messages may put beside `data`."""


def recognises_langchain(sample: Sample) -> bool:
    """Return whether a file holds messages in a form of LangChain, and these are a chat."""
    found = sample.messages
    return any(map(_fields, found)) and is_talk([*map(converted, found)])


def read_langchain(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of a file."""
    return MessageReader(reading, convert=converted).sessions()


def _fields(message: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the type of a message ("human") and its fields; None if it is in neither form."""
    data, kwargs, name = message.get("data"), message.get("kwargs"), message.get("id")
    if isinstance(data, Mapping) and "content" in data and isinstance(message.get("type"), str):
        return str(message["type"]), data
    if message.get("lc") == 1 and isinstance(kwargs, Mapping) and isinstance(name, list) and name:
        kind = str(name[-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return kind, kwargs
    if "content" in message and {"role", "speaker"}.isdisjoint(message) and role_of(message.get("type")):
        return str(message["type"]), message
    return None


def role_of(kind: object) -> str | None:
    """Return the role that a type of message ("human", "AIMessageChunk") stands for; None if it is none of LangChain's."""
    return _LANGCHAIN_ROLES.get(str(kind).removesuffix("MessageChunk").lower())


def converted(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message in the form of OpenAI's protocol; unchanged if it is in no form of LangChain."""
    found = _fields(message)
    if found is None:
        return message
    kind, data = found
    more = data.get("additional_kwargs")
    more = more if isinstance(more, Mapping) else {}
    role = role_of(kind) or role_of(data.get("role")) or data.get("role") or kind
    made: dict[str, Any] = {"role": role, "content": data.get("content")}
    made.update({key: message[key] for key in _OUTSIDE if key in message})
    made.update({key: data[key] for key in ("id", "name", "tool_call_id") if data.get(key)})
    calls = data.get("tool_calls") or more.get("tool_calls")
    if calls:
        made["tool_calls"] = calls
    if more.get("function_call"):
        made["function_call"] = more["function_call"]
    if isinstance(stamp := more.get("timestamp"), (str, int, float)):
        made.setdefault("timestamp", stamp)
    return made
