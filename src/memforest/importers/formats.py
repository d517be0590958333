"""The formats that are read, in the order in which a file is tried against them: the first that knows its shape has it.

A further format is one more `Format`; `add_format` enters one that stands in another room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from memforest.errors import InputError
from memforest.importers import (
    benchmarks,
    chatgpt,
    claude,
    langchain,
    mem0,
    messages,
    plain_log,
    slack,
    table,
    telegram,
    whatsapp,
)
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of chat file.

    Args:
        name: what ``format=`` calls it.
        title: what people call it.
        recognises: whether the beginning of a file is of this format.
        read: yields the sessions of a file; None of one that is known and not read, so that it is refused by its title.
        is_plain: in an archive with files of other formats, a file of this one is no chat (a list, notes, a log).
        recognises_archive: whether the files of an archive, by their names, are one export of this format.
        read_archive: yields the sessions of such an archive.
    """

    name: str
    title: str
    recognises: Callable[[Sample], bool]
    read: Callable[[Reading], Iterator[FileSession]] | None
    is_plain: bool = False
    recognises_archive: Callable[[Sequence[str]], bool] | None = None
    read_archive: Callable[[Sequence[Reading], Reading], Iterator[FileSession]] | None = None


def _unread(what: str, *traits: str, why: str = "which is not read yet") -> Format:
    """Return a format that is told by its traits, see `Sample.has`, and not read."""
    return Format(what, f"{what}, {why}", partial(Sample.has, traits=traits), None)


_FORMATS: list[Format] = [
    _unread(
        "an export of memforest", "format", "schema", "exported_ms", why="which `memforest import` takes"
    ),
    _unread("an export of LibreChat", "conversationId", "messages.isCreatedByUser"),
    _unread("an export of Messenger or Instagram", "participants", "messages.sender_name"),
    _unread("an export of DiscordChatExporter", "guild", "messages.author"),
    Format("chatgpt", "ChatGPT export", chatgpt.recognises, chatgpt.read),
    Format("claude", "Claude export", claude.recognises, claude.read),
    Format("locomo", "LoCoMo", benchmarks.recognises_locomo, benchmarks.read_locomo),
    Format("longmemeval", "LongMemEval", benchmarks.recognises_longmemeval, benchmarks.read_longmemeval),
    Format("realtalk", "REALTALK", benchmarks.recognises_realtalk, benchmarks.read_realtalk),
    Format("telegram", "Telegram export", telegram.recognises, telegram.read),
    Format(
        "slack",
        "Slack export",
        slack.recognises,
        slack.read,
        recognises_archive=slack.recognises_archive,
        read_archive=slack.read_archive,
    ),
    Format("mem0", "mem0 memories", mem0.recognises, mem0.read),
    Format("langchain", "LangChain messages", langchain.recognises, langchain.read),
    Format("openai", "OpenAI messages", messages.recognises_openai, messages.read),
    Format("messages", "messages", messages.recognises, messages.read, is_plain=True),
    Format("whatsapp", "WhatsApp chat", whatsapp.recognises, whatsapp.read),
    Format("log", "plain log", plain_log.recognises, plain_log.read, is_plain=True),
    Format("csv", "CSV", table.recognises, table.read, is_plain=True),
    _unread("a session of Claude Code", "sessionId", "message.role", "message.content"),
    _unread("a session of Qwen Code", "sessionId", "message.role", "message.parts"),
    _unread("a session of Gemini CLI", "sessionId", "lastUpdated"),
    _unread("a session of Kimi", "type", "message.role", "message.toolCalls"),
    _unread("a session of Cursor", "role", "message.content"),
    _unread("a session of Codex", "timestamp", "type", "payload"),
    _unread("the events of Copilot", "timestamp", "type", "data", "id"),
    _unread("the log of a coding agent", "type", "message.role"),
    _unread("messages of the AI SDK", "role", "parts"),
    _unread("a chat of Google Chat", "messages.creator", "messages.created_date"),
]


def add_format(entry: Format) -> None:
    """Enter a format; it is tried before those that are there.

    Raises:
        InputError: if there is one of its name.
    """
    if entry.name in format_names():
        raise InputError(f"there is a format {entry.name!r} already")
    _FORMATS.insert(0, entry)


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    return tuple(sorted(one.name for one in _FORMATS if one.read))


def format_named(name: str) -> Format:
    """Return a format.

    Raises:
        InputError: if there is none of that name.
    """
    found = next((one for one in _FORMATS if one.name == name and one.read), None)
    if found is None:
        raise InputError(f"there is no format {name!r}; known: {', '.join(format_names())}")
    return found


def format_of(sample: Sample) -> Format | None:
    """Return the first format that knows the beginning of a file."""
    return next((one for one in _FORMATS if one.recognises(sample)), None)


def format_of_archive(names: Sequence[str]) -> Format | None:
    """Return the format of which the files of an archive are one export."""
    return next((one for one in _FORMATS if one.recognises_archive and one.recognises_archive(names)), None)
