"""LangChain's messages, as ``messages_to_dict`` writes them (``type`` and ``data``) and as ``dumpd`` does (``lc``, ``kwargs``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memforest.importers.messages import MessageReader
from memforest.importers.parts import FileSession
from memforest.importers.protocol import is_talk
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample
from memforest.limits import TIME_KEYS

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "function",
}
_OUTSIDE = ("session_id", *TIME_KEYS)
"""What a store of messages may put beside `data`."""


def recognises(sample: Sample) -> bool:
    """Return whether there are messages in one of the forms, and what they say is a talk."""
    found = sample.messages
    return any(map(_fields, found)) and is_talk([*map(converted, found)])


def read(reading: Reading) -> Iterator[FileSession]:
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
    return _ROLES.get(str(kind).removesuffix("MessageChunk").lower())


def converted(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message of a file as OpenAI's protocol has it; as it is when it is in neither form."""
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
