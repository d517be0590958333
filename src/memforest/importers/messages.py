"""Lists of chat messages: memforest's own shapes, those of the OpenAI APIs with calls of tools, LangChain's and LangGraph's.

Read are a list of messages (one session, or one for each ``session_id``); an object with ``turns`` or ``messages``; an object
with ``sessions``, or a list of session objects; JSON Lines of messages or session objects; a response of Chat Completions
(``choices``) or of the Responses API (``output``), a list of items (``data``).

Known are the messages of OpenAI's Chat Completions (https://platform.openai.com/docs/api-reference/chat), the items of its
Responses API (https://platform.openai.com/docs/api-reference/responses), typed parts as Anthropic's messages have them, and
LangChain's messages, as ``messages_to_dict`` writes them (``type`` and ``data``) and as ``dumpd`` does (``lc``, ``kwargs``).
A call of a tool is nobody's statement, and neither is its result: they are turns of role ``tool``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any

from memforest.importers.drafts import (
    LISTS,
    DraftTurn,
    Sample,
    at,
    dated,
    held_in,
    session_of,
    together,
    tool_call,
    tool_result,
)
from memforest.importers.files import FileReader, FileSession, Skips, kind_of
from memforest.settings import CAPTION, ID, ROLES, SPEAKER, TEXT, TIME_KEYS
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
_SYSTEM_PART = "system-prompt"
HIDDEN = "system or hidden message"
_UNSAID_PARTS = {**dict.fromkeys(_REASONING, "reasoning of the model"), _SYSTEM_PART: HIDDEN}
"""Types of parts that nobody said -> what they are counted as."""


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
    kind = str(message.get("type"))
    if kind in _REASONING:
        skips.leave_out("reasoning of the model")
        return
    if kind in _CALL_ITEMS:
        yield _called(message.get("name"), message.get(_CALL_ITEMS[kind]), message.get("call_id"), tools)
        if output := text_of(message.get("output"), skips):
            yield tool_result(message.get("name"), output)
        return
    if kind in _RESULT_ITEMS:
        yield _result(message.get("call_id"), None, message.get("output"), tools, skips)
        return
    if kind.endswith("_call"):
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
    """Yield the texts of a message, and the tool calls and results among its typed parts."""
    left = {key: one for key, one in message.items() if key not in (*_CALLS, *TIME_KEYS, *UNSAID)}
    content = message.get("content") or message.get("refusal") or []
    if message.get("role") in ("tool", "function"):
        if text := text_of(content, skips):
            given = _result(message.get("tool_call_id"), message.get("name"), text, tools, skips)
            yield {**{key: one for key, one in left.items() if key not in ("name", "content")}, **given}
    elif not isinstance(content, (list, str)):
        yield dict(message)  # to be refused by name
    else:
        for kind, group in groupby([content] if isinstance(content, str) else content, _tool_part):
            parts = list(group)
            if kind is None and (text := text_of(parts, skips)):
                yield {**left, "content": text}
                left = {key: one for key, one in left.items() if key not in ID}
            for part in parts if kind else ():
                asked, answered = part.get("id"), part.get("tool_use_id")
                if kind == "tool_use":
                    yield _called(part.get("name"), part.get("input"), asked, tools)
                else:
                    yield _result(answered, part.get("name"), part.get("content"), tools, skips)


def _tool_part(part: object) -> str | None:
    """Return whether a part of a message is a "tool_use" or a "tool_result"; None if it is neither."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    return kind if kind in ("tool_use", "tool_result") else None


def _called(name: object, asked: object, call: object, tools: dict[str, str]) -> dict[str, Any]:
    if isinstance(call, str):
        tools[call] = str(name or "tool")
    turn = tool_call(name, asked)
    return {**turn, "tool_call_id": call} if isinstance(call, str) else turn


def _result(
    call: object, name: object, output: object, tools: Mapping[str, str], skips: Skips
) -> dict[str, Any]:
    known = tools.get(call) if isinstance(call, str) else None
    turn = tool_result(name or known, text_of(output, skips) or "(no text)")
    return {**turn, "tool_call_id": call} if isinstance(call, str) else turn


def drafts_of(messages: Iterable[tuple[str, Mapping[str, Any]]], reading: FileReader) -> Iterator[DraftTurn]:
    """Yield the turns of a session's messages, which have their places, each at the time of its message."""
    tools: dict[str, str] = {}
    for where, message in messages:
        said = {key: one for key, one in message.items() if key not in ("timestamp", "id")}
        turns = turns_of(said, tools, reading.skips)
        if name := message.get("id"):
            main = next((n for n, turn in enumerate(turns) if turn.get("role") == said.get("role")), 0)
            turns = [{**turn, "id": name if n == main else f"{name}/{n}"} for n, turn in enumerate(turns)]
        yield from dated(reading, where, message.get("timestamp"), *turns)


def text_of(content: object, skips: Skips) -> str:
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
        elif _tool_part(part) is None:
            skips.leave_out(_UNSAID_PARTS.get(str(kind), "image, sound or file"))
    return "\n".join(text for text in texts if text.strip())


def with_placeholders(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message in which each image, sound and file among the parts of its content is a text with its name and type.

    Example:
        >>> part = {"type": "image", "mime_type": "image/png", "base64": "iVBORw0", "name": "cat.png"}
        >>> with_placeholders({"role": "user", "content": ["Look:", part]})["content"]
        ['Look:', {'type': 'text', 'text': '[image: cat.png, image/png]'}]
    """
    content = message.get("content")
    return {**message, "content": [*map(_named, content)]} if isinstance(content, list) else message


_TYPED = ("tool_use", "tool_result", *_UNSAID_PARTS, *_TEXT_PARTS)
_FILE_NAME = "filename|name|title|file_name|display_name|file.filename|file_id|file.file_id|source.file_id"
_FILE_TYPE = "mime_type|media_type|mimeType|source.media_type|input_audio.format|format"
_PLACE = "image_url.url|image_url|url|source.url|file_url"


def _named(part: Any) -> Any:
    """Return a part as it is if it is a text or of a tool, else a text that names it; nothing of its data is kept."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or kind in _TYPED:
        return part
    place = str(at(part, _PLACE) or "")
    data = re.match(r"data:([\w.+/-]{1,80})", place)
    name = at(part, _FILE_NAME) or ("" if data else place)
    told = [str(name)[:120], str(at(part, _FILE_TYPE) or (data[1] if data else ""))[:80]]
    what = str(kind).removeprefix("input_").removesuffix("_url").removesuffix("-url")
    return {"type": "text", "text": f"[{what}: {', '.join(filter(None, told)) or 'without a name'}]"}


_INNER = ("functionCall", "function_call", "functionResponse", "function_response", "toolCall", "toolResult", "toolInvocation",
          "tool_call")  # fmt: skip
"""Where a part has a call of a tool, or its result, as an object of its own."""
_OF_TOOL = re.compile("tool-|.*_call$")
_TOOL_ID = "toolCallId|tool_call_id|call_id"
_ASKED = "args|arguments|input|action"
_WRAPS = frozenset({"functionResponse", "type", "isError", "detailedContent"})
_MOST_WRAPPED = 8
_GIVEN = "output|result|response|errorText|content"


def typed(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a part of a message as the typed parts of Anthropic's messages, whichever program wrote it.

    Known are the parts of Gemini's API (``functionCall``), of the AI SDK (``tool-NAME``), of pydantic-ai (``part_kind``), and of
    agents and chats that have their own. What is neither a text nor a tool's keeps its type and is counted by `text_of`.
    """
    if not isinstance(part, Mapping):
        yield {"type": "text", "text": part}
        return
    kind = str(part.get("type") or part.get("part_kind") or "text")
    inner: Mapping[str, Any] = next((part[key] for key in _INNER if isinstance(part.get(key), Mapping)), {})
    value = inner.get("value", {})
    held = {**part, **inner, **(value if isinstance(value, Mapping) else {"output": value})}
    text = at(part, "text.value|text|content")
    if kind in ("tool_use", "tool_result"):
        yield part
    elif kind == _SYSTEM_PART:
        yield {"type": kind}
    elif kind in (*_REASONING, "think") or part.get("thought") is True or "subject" in part:
        yield {"type": _REASONING[0]}
    elif inner or _OF_TOOL.match(kind) or at(held, f"toolName|{_TOOL_ID}") or {"name", "args"} <= held.keys():
        call, asked, given = at(held, f"{_TOOL_ID}|id"), at(held, _ASKED), at(held, _GIVEN)
        name = at(held, "toolName|tool_name|name")
        if name is None and asked is not None:
            name = kind.removeprefix("tool-").removesuffix("_call")
        if asked is not None or (name and given is None):
            yield {"type": "tool_use", "id": call, "name": name, "input": "" if asked is None else asked}
        if given is not None:
            yield {"type": "tool_result", "tool_use_id": call, "name": name, "content": _shown(given)}
    elif isinstance(text, list):
        yield from chain.from_iterable(map(typed, text))
    elif kind != "step-start":
        yield {"type": "text", "text": text} if isinstance(text, str) else {"type": "file"}


def _shown(given: Any, depth: int = 0) -> str:
    """Return the result of a tool as a text, without what programs wrap around it."""
    if isinstance(given, str):
        return given
    if isinstance(given, list) and depth < _MOST_WRAPPED:
        return "\n".join(_shown(one, depth + 1) for one in given)
    if isinstance(given, Mapping) and depth < _MOST_WRAPPED:
        if at(given, "mimeType|mime_type|media_type|mediaType") is not None:
            return "(image, sound or file)"
        is_wrapped = len(given) == 1 or not _WRAPS.isdisjoint(given)
        wrapped = at(given, "functionResponse.response|text|content|output|result") if is_wrapped else None
        if wrapped is not None:
            return _shown(wrapped, depth + 1)
    return json.dumps(given, ensure_ascii=False, default=str)


SHAPES = (
    "a list of messages with role, content and timestamp; an object with 'turns' or 'sessions'; "
    "JSON Lines of messages; or an export that docs/importing.md lists"
)
_ABOUT = ("session_id", "id", "user", "user_id", *TIME_KEYS, "metadata")
"""Fields that tell of a session; lists and objects under other names are passed over."""


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
    convert: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def sessions(self) -> Iterator[FileSession]:
        """Yield the sessions of the file."""
        if self.reading.shape == "object":
            yield from self._object()
            return
        records = self.reading.objects()
        if (first := next(records, None)) is not None:
            of_sessions = held_in(first[1]) is not None
            yield from (self._whole if of_sessions else self._grouped)(chain([first], records))

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
            what = kind_of(found["sessions"])
            self.reading.skips.fail("sessions", f"this is a {what}; it should be a list")
        elif held_in(found):
            yield from self.session(found, "", self.reading.name)
        elif any(key in found for key in TEXT):
            yield from self._grouped(self.reading.objects())
        else:
            self.reading.skips.fail("", f"the object has {listed(found)}; it should hold {SHAPES}")

    def _user(self) -> str | None:
        """Return the user that an object of sessions names, wherever the field is."""
        found: dict[str, Any] = {}
        with self.reading.again().json() as stream:
            for key in stream.fields():
                if key in ("user", "user_id"):
                    found[key] = stream.value()
        return self._owner(found, "")

    def _owner(self, value: Mapping[str, Any], where: str) -> str | None:
        user = value.get("user_id", value.get("user"))
        return None if user is None else self._id(user, where, None)

    def _whole(self, records: Iterable[tuple[str, Any]], *, user: str | None = None) -> Iterator[FileSession]:
        """Read session objects, and number those without an id if there are several."""
        count = 0
        for count, ((where, value), after) in enumerate(pairwise(chain(records, [("", None)])), 1):
            name = self.reading.name if count == 1 and after == ("", None) else f"{self.reading.name}-{count}"
            if isinstance(value, Mapping) and held_in(value) is not None:
                yield from self.session(value, where, name, user)
            else:
                self.reading.skips.fail(where, "a session should be an object with 'turns' or 'messages'")
        if not count:
            self.reading.skips.fail("", "'sessions' is empty; it should be a list with at least one entry")

    def _grouped(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[FileSession]:
        """Yield a session for each ``session_id`` of the messages, at its last message."""
        for group in together(self.reading.again().objects(), records, _key):
            messages = []
            for where, item in group:
                if held_in(item):
                    self.reading.skips.fail(where, "there is a session among messages; use one or the other")
                else:
                    messages.append((where, {key: one for key, one in item.items() if key != "session_id"}))
            where, first = group[0]
            name = self._id(first.get("session_id"), where, self.reading.name)
            if name is not None:
                yield from self._made(name, messages, where)

    def session(
        self, value: Mapping[str, Any], where: str, default: str, user: str | None = None
    ) -> Iterator[FileSession]:
        """Yield a session object as a session; a wrong one is reported."""
        skips = self.reading.skips
        key, items = held_in(value) or ("turns", None)
        metadata = value.get("metadata") or {}
        time = next((value[name] for name in TIME_KEYS if value.get(name) is not None), None)
        if not isinstance(items, list) or not items:
            what = "empty" if items == [] else f"a {kind_of(items)}"
            skips.fail(where, f"{key!r} is {what}; it should be a list with at least one entry")
        elif not isinstance(metadata, Mapping):
            skips.fail(where, f"'metadata' should be an object, not a {kind_of(metadata)}")
        elif time is not None and kind_of(time) not in ("text", "number"):
            skips.fail(where, f"the timestamp is a {kind_of(time)}; give ISO 8601 text or UNIX seconds")
        elif (name := self._id(value.get("session_id", value.get("id")), where, default)) is not None:
            place = f"{where}.{key}" if where else key
            given = _given(value) if key == "output" else []
            messages = [("input", item) for item in given]
            messages += [(f"{place}[{n}]", item) for n, item in enumerate(items)]
            yield from self._made(name, messages, where, time, metadata, user or self._owner(value, where))

    def _made(
        self,
        name: str,
        messages: Iterable[tuple[str, Any]],
        where: str,
        time: str | int | float | None = None,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
    ) -> Iterator[FileSession]:
        """Yield a session of messages, unless none of them says anything."""
        tools: dict[str, str] = {}
        drafts = []
        for place, message in messages:
            if isinstance(message, Mapping):
                turns = turns_of(self.convert(message), tools, self.reading.skips)
                drafts += [DraftTurn(place, turn) for turn in turns]
            else:
                what = kind_of(message)
                self.reading.skips.fail(place, f"there is a {what} where a message should be")
        if drafts:
            yield session_of(name, drafts, timestamp=time, metadata=metadata, where=where, user=user)

    def _id(self, value: Any, where: str, default: str | None) -> str | None:
        """Return an id; report a value that cannot be one, and return None."""
        if kind_of(value) == "number" or (isinstance(value, str) and value.strip()):
            return str(value)
        if value is not None:
            what = "empty" if value == "" else f"a {kind_of(value)}"
            self.reading.skips.fail(where, f"the id is {what}; give some text")
        elif not default:
            why = "the session has no id; give it 'session_id', or name it (--session)"
            self.reading.skips.fail(where, why)
        return (default or None) if value is None else None


def _given(value: Mapping[str, Any]) -> list[Any]:
    """Return the input of a response of the Responses API, if it is kept."""
    given = value.get("input")
    return given if isinstance(given, list) else [{"role": "user", "content": given}] if given else []


def _key(record: tuple[str, Mapping[str, Any]]) -> str | None:
    """Return the session id of a message, by which messages are grouped."""
    found = record[1].get("session_id")
    return None if found is None else str(found)


_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", **{one: one for one in (*_INSTRUCTIONS, "tool", "function")}}  # fmt: skip
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
    role = role_of(kind) or role_of(data.get("role")) or data.get("role") or kind
    made: dict[str, Any] = {"role": role, "content": data.get("content")}
    made.update({key: message[key] for key in _OUTSIDE if key in message})
    made.update({key: data[key] for key in ("id", "name", "tool_call_id") if data.get(key)})
    for key in _CALLS:
        if calls := data.get(key) or at(data, f"additional_kwargs.{key}"):
            made[key] = calls
    if isinstance(stamp := at(data, "additional_kwargs.timestamp"), (str, int, float)):
        made.setdefault("timestamp", stamp)
    return made


THREADS = "values.messages|channel_values.messages|checkpoint.channel_values.messages"
"""Where a state, a checkpoint, or the tuple of one has the messages of a LangGraph thread."""


def read_langgraph(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each thread, of its latest state; its messages have the time when that was saved."""
    latest: dict[str, tuple[str, str, list[Any]]] = {}
    for where, state in reading.objects():
        thread = at(state, "config.configurable.thread_id|metadata.thread_id|thread_id")
        name = str(thread or (f"{reading.name}-{where}" if where else reading.name))
        saved, held = str(at(state, "created_at|ts|checkpoint.ts") or ""), at(state, THREADS)
        reading.skips.leave_out("earlier state of a thread", name in latest)
        if saved >= latest.get(name, ("",))[0]:
            latest[name] = saved, where, held if isinstance(held, list) else []
    for name, (saved, where, held) in latest.items():
        messages = [converted(one) for one in held if isinstance(one, Mapping)]
        said = [one for one in messages if one.get("role") not in _INSTRUCTIONS]
        reading.skips.leave_out(HIDDEN, len(messages) - len(said))
        if len(messages) < len(held):
            reading.skips.fail(where, f"{len(held) - len(messages)} of the messages are no objects")
        placed = ((f"{where} message {number}".strip(), one) for number, one in enumerate(said))
        if drafts := list(drafts_of(placed, reading)):
            yield session_of(name, drafts, timestamp=saved or None, where=where)
