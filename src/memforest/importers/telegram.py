"""Telegram Desktop's export, ``result.json``: one chat (``messages``), or all chats of an account (``chats.list``).

Shape: a chat has ``name``, ``type``, ``id``, ``messages``; a message ``id``, ``type``, ``date``, ``date_unixtime``, ``from``,
``from_id`` and ``text``, a text or a list of texts and typed parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memforest.importers.drafts import Draft, by_day
from memforest.importers.json_stream import JsonStream
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample

_LISTS = ("chats", "left_chats")


def recognises(sample: Sample) -> bool:
    """Return whether it is a chat, or an account with chats."""
    fields = sample.fields
    if any(isinstance(fields.get(key), Mapping) and "list" in fields[key] for key in _LISTS):
        return True
    messages = fields.get("messages")
    return isinstance(messages, list) and any(
        isinstance(one, Mapping) and "date" in one and one.get("type") in ("message", "service")
        for one in messages
    )


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of all chats, one a day."""
    with reading.json() as stream:
        yield from _chat(reading, stream, "")


def _chat(reading: Reading, stream: JsonStream, where: str) -> Iterator[FileSession]:
    """Read a chat where the stream stands; the object around all chats is one without messages."""
    about: dict[str, Any] = {}
    for key in stream.fields():
        if key == "messages" and stream.peek() == "start_array":
            name = str(about.get("id") or reading.name)
            metadata = {
                field: about[field] for field in ("name", "type") if isinstance(about.get(field), str)
            }
            drafts = _drafts(reading, stream, where)
            yield from by_day(drafts, reading, name, metadata={"chat": metadata} if metadata else {})
        elif key in _LISTS and stream.peek() == "start_map":
            yield from _listed(reading, stream, key)
        elif not stream.peek().startswith("start"):
            about[key] = stream.value()


def _listed(reading: Reading, stream: JsonStream, key: str) -> Iterator[FileSession]:
    for field in stream.fields():
        if field == "list" and stream.peek() == "start_array":
            for number in stream.elements():
                if stream.peek() == "start_map":
                    yield from _chat(reading, stream, f"{key}.list[{number}].")


def _drafts(reading: Reading, stream: JsonStream, where: str) -> Iterator[Draft]:
    for number, message in stream.values():
        at = f"{where}messages[{number}]"
        if not isinstance(message, Mapping):
            reading.skips.fail(at, "the message is no object")
        elif message.get("type") == "service":
            reading.skips.leave_out("notice of the app")
        elif (draft := _draft(message, reading, f"{at} (id {message.get('id')})")) is not None:
            yield draft


def _draft(message: Mapping[str, Any], reading: Reading, where: str) -> Draft | None:
    text = _text(message.get("text"))
    if not text.strip():
        kind = message.get("media_type") or next(
            (key for key in ("photo", "file", "poll") if key in message), "text"
        )
        reading.skips.leave_out("empty message" if kind == "text" else "image, sound or file")
        return None
    if any(key in message for key in ("photo", "file")):
        reading.skips.leave_out("image, sound or file")
    stamp = message.get("date_unixtime") or message.get("date")
    said = reading.read_time(stamp, where)
    if said is None:
        return None
    speaker = _name(message.get("from")) or _name(message.get("from_id"))
    turn: dict[str, Any] = {"speaker": speaker or "unknown", "content": text, "timestamp": stamp}
    if "forwarded_from" in message:  # the words of somebody else
        turn |= {
            "speaker": _name(message["forwarded_from"]) or "unknown",
            "forwarded_by": speaker or "unknown",
        }
    if message.get("id") is not None:
        turn["id"] = str(message["id"])
    if message.get("reply_to_message_id") is not None:
        turn["reply_to"] = str(message["reply_to_message_id"])
    if edited := message.get("edited_unixtime") or message.get("edited"):
        turn["edited"] = str(edited)
    return Draft(where, turn, said)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _text(value: object) -> str:
    """Return a text that may be cut into typed parts."""
    parts = value if isinstance(value, list) else [value]
    texts = [one.get("text") if isinstance(one, Mapping) else one for one in parts]
    return "".join(text for text in texts if isinstance(text, str))
