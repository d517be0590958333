"""Opening a chat file: tell its format by its content, and give its sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from memforest.errors import InputError
from memforest.importers import assistants, chat_apps, messages, tables
from memforest.importers.assistants import LAYOUTS
from memforest.importers.drafts import Sample, take_sample
from memforest.importers.files import (
    Archive,
    DamagedError,
    FileReader,
    FileSession,
    JsonShape,
    ReadOptions,
    Skips,
    SourceFile,
    kind_of,
    open_source,
)
from memforest.importers.messages import SHAPES
from memforest.times import listed, shown


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
    read: Callable[[FileReader], Iterator[FileSession]] | None
    is_plain: bool = False
    recognises_archive: Callable[[Sequence[str]], bool] | None = None
    read_archive: Callable[[Sequence[FileReader], FileReader], Iterator[FileSession]] | None = None


def _looks(*alternatives: str) -> Callable[[Sample], bool]:
    """Return a function that recognises a file by its traits, see `Sample.has`: by all of one of the alternatives."""
    return lambda sample: any(sample.has(traits) for traits in alternatives)


def _begins(pattern: str) -> Callable[[Sample], bool]:
    """Return a function that recognises a text by how it begins."""
    return lambda sample: re.match(pattern, sample.text) is not None


def _unread(what: str, recognises: Callable[[Sample], bool], why: str = "which is not read yet") -> Format:
    """Return a format that is recognised and not read."""
    return Format(what, f"{what}, {why}", recognises, None)


def _laid_out(name: str, title: str, *alternatives: str) -> Format:
    """Return a format that is told by its traits and read by its layout."""
    return Format(name, title, _looks(*alternatives), LAYOUTS[name].read)


_FORMATS: list[Format] = [
    _unread("an export of memforest", _looks("format schema exported_ms"), "which `memforest import` takes"),
    _laid_out("claude-code", "session of Claude Code", "type sessionId message.role message.content", "type session_id message.role uuid"),
    _laid_out("qwen-code", "session of Qwen Code", "sessionId message.role message.parts"),
    _laid_out("kimi", "session of Kimi", "type=context?append_* message", "type=context?append_* event", "type message.role message.toolCalls"),
    _laid_out("codex", "session of Codex", "type=session_meta payload", "type=response_item payload", "id timestamp instructions git"),
    _laid_out("copilot", "events of Copilot", "type=session?start data", "type=user?message data timestamp", "type=assistant?message data timestamp"),
    _laid_out("cline", "task of Cline", "content.text=<task>*", "sessionId messages.role messages.ts"),
    _laid_out("gemini-cli", "session of Gemini CLI", "sessionId lastUpdated", "sessionId projectHash"),
    _laid_out("goose", "session of Goose", "working_dir message_count", "working_dir conversation", "content.type=toolRe*"),
    _laid_out("cursor", "transcript of Cursor", "role message.content"),
    _laid_out("pydantic-ai", "messages of pydantic-ai", "kind parts.part_kind"),
    Format("langgraph", "state of LangGraph", _looks(*messages.THREADS.split("|")), messages.read_langgraph),
    _laid_out("adk", "session of Google's ADK", "events.author events.content", "events.author events.invocation*"),
    _laid_out("ai-sdk", "messages of the AI SDK", "role parts"),
    _laid_out("sharegpt", "ShareGPT conversations", "conversations.from conversations.value"),
    _laid_out("librechat", "LibreChat export", "conversationId messages.isCreatedByUser"),
    _laid_out("open-webui", "Open WebUI export", "chat.history", "chat.messages.role"),
    Format("messenger", "chat of Messenger or Instagram", _looks("participants messages.sender_name", "participants messages.senderName"), chat_apps.MESSENGER.read),
    Format("discord", "export of DiscordChatExporter", _looks("guild messages.author", "guild channel messageCount"), chat_apps.DISCORD.read),
    Format("google-chat", "chat of Google Chat", _looks("messages.creator messages.created_date"), chat_apps.GOOGLE_CHAT.read),
    _laid_out("chatgpt", "ChatGPT export", "title mapping", "mapping.*.parent"),
    Format("claude", "Claude export", _looks("chat_messages", "conversations_memory"), assistants.read_claude),
    Format("locomo", "LoCoMo", _looks("conversation.session_[0-9]*"), tables.read_locomo),
    Format("longmemeval", "LongMemEval", _looks("haystack_sessions"), tables.read_longmemeval),
    Format("realtalk", "REALTALK", _looks("session_? name", "session_?.clean_text"), tables.read_realtalk),
    Format("telegram", "Telegram export", _looks("chats.list", "left_chats.list", "messages.date messages.type=message",
                                                 "messages.date messages.type=service"), chat_apps.read_telegram),
    Format("slack", "Slack export", _looks("ts=* type=message"), chat_apps.read_slack,
           recognises_archive=chat_apps.recognises_slack_archive, read_archive=chat_apps.read_slack_archive),
    Format("mem0", "mem0 memories", _looks("memory=* id", "results.memory=* results.id", "memories.memory=* memories.id"), assistants.read_mem0),
    Format("langchain", "LangChain messages", messages.recognises_langchain, messages.read_langchain),
    Format("openai", "OpenAI messages", messages.recognises_openai, messages.read_messages),
    Format("messages", "messages", messages.recognises_messages, messages.read_messages, is_plain=True),
    Format("whatsapp", "WhatsApp chat", chat_apps.recognises_whatsapp, chat_apps.read_whatsapp),
    Format("aider", "history of aider", _begins(r"\s*# aider chat started at \d"), tables.read_aider),
    Format("log", "plain log", tables.recognises_log, tables.read_log, is_plain=True),
    Format("csv", "CSV", tables.recognises_table, tables.read_table, is_plain=True),
    _unread("the log of a coding agent", _looks("type message.role")),
    _unread("Gemini's activity of Google Takeout", _looks("header title time products")),
    _unread("an export of Grok", _looks("conversations.responses")),
    _unread("Discord's own package", _looks("Timestamp Contents")),
    _unread("an export of Signal", _looks("sent_at conversationId body")),
    _unread("a chat of LINE", _begins(r"\[LINE\]")),
    _unread("an export of iMessage", _begins(r"[A-Z][a-z]{2} \d\d, \d{4} +\d+:\d\d:\d\d [AP]M")),
]  # fmt: skip


def add_format(entry: Format) -> None:
    """Register a format; it is tried before the others.

    Raises:
        InputError: if there is one of its name.
    """
    if entry.name in format_names():
        raise InputError(f"the format {entry.name!r} exists already")
    _FORMATS.insert(0, entry)


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    return tuple(sorted(one.name for one in _FORMATS if one.read))


def format_named(name: str) -> Format:
    """Return the format of a name.

    Raises:
        InputError: if there is none of that name.
    """
    found = next((one for one in _FORMATS if one.name == name and one.read), None)
    if found is None:
        raise InputError(f"unknown format {name!r}; known: {', '.join(format_names())}")
    return found


def format_of(sample: Sample) -> Format | None:
    """Return the first format that recognises the beginning of a file."""
    return next((one for one in _FORMATS if one.recognises(sample)), None)


def format_of_archive(names: Sequence[str]) -> Format | None:
    """Return the format that recognises the files of an archive as one export."""
    return next((one for one in _FORMATS if one.recognises_archive and one.recognises_archive(names)), None)


NO_CHAT = "file of the archive that is no chat"


_Part = tuple[SourceFile, Format, JsonShape | None]
"""A file that is read, its format, and how it is built if it is JSON."""


class ChatFile:
    """An open chat file; made by `open_chat`, closed by `close` or as a context manager."""

    def __init__(
        self, name: str, parts: list[_Part], archive: Archive | None = None, *, whole: Format | None = None
    ) -> None:
        self.name = name
        self._parts = parts
        self._archive = archive
        self._whole = whole

    @property
    def format(self) -> str:
        """The name of the format; for an archive of several formats all names, with commas."""
        found = [self._whole] if self._whole else [form for _, form, _ in self._parts]
        return ", ".join(dict.fromkeys(one.name for one in found))

    def sessions(self, options: ReadOptions, skips: Skips) -> Iterator[FileSession]:
        """Yield the sessions one by one; `skips` gets the parts that are not read.

        Session ids are unique for each user. The turns of `ReadOptions.owner` get the role ``user``.

        Raises:
            InputError: if the file cannot be read as its format, or nothing tells the order of its dates.
        """
        seen: set[tuple[str | None, str]] = set()
        for session in self._read(options, skips):
            key = (session.user, session.session_id)
            if key in seen:
                skips.fail(
                    session.where,
                    f"the session id {shown(session.session_id)} is used twice; ids must be unique in a file",
                )
                continue
            seen.add(key)
            owner = options.owner
            if owner is not None and any(_is_by(turn, owner) for turn in session.turns):
                turns = ({**turn, "role": "user"} if _is_by(turn, owner) else turn for turn in session.turns)
                session = replace(session, turns=tuple(turns))
            yield session

    def _read(self, options: ReadOptions, skips: Skips) -> Iterator[FileSession]:
        if self._archive is None:
            yield from _part_sessions(self._parts[0], options, skips)
            return
        for where, reason in self._archive.refused:
            skips.fail(where, reason)
        if self._whole is not None and self._whole.read_archive is not None:
            readings = [FileReader(source, options) for source in self._archive.files]
            about = SourceFile(self.name, self._archive.files[0].start)
            yield from self._whole.read_archive(readings, FileReader(about, options, skips))
            for reading in readings:
                skips.add(reading.skips, reading.source.name)
            return
        known = {where for where, _ in self._archive.refused} | {source.name for source, _, _ in self._parts}
        skips.leave_out(NO_CHAT, sum(source.name not in known for source in self._archive.files))
        for part in self._parts:
            own = Skips()
            try:
                for session in _part_sessions(part, options, own):
                    yield replace(session, where=_joined(part[0].name, session.where))
            except InputError as exc:
                own.fail("", str(exc))
            skips.add(own, part[0].name)

    def close(self) -> None:
        """Close an archive's file."""
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> ChatFile:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _part_sessions(part: _Part, options: ReadOptions, skips: Skips) -> Iterator[FileSession]:
    source, form, shape = part
    if form.read is not None:
        yield from form.read(FileReader(source, options, skips, shape))


def open_chat(
    file: str | os.PathLike[str] | BinaryIO, *, name: str | None = None, format: str | None = None
) -> ChatFile:
    """Open a chat file or an archive of chat files, and detect its format by its content.

    Args:
        file: a path, or a file that is open for reading bytes.
        name: what it is called in messages; its own name when not given.
        format: the name of its format, if it is not to be told by its content.

    Raises:
        InputError: if it cannot be read, is empty, binary or damaged, or no chat of a known format.
    """
    stated = None if format is None else format_named(format)
    opened = open_source(file, name)
    if isinstance(opened, Archive):
        try:
            return _open_archive(opened, stated)
        except InputError:
            opened.close()
            raise
    sample = take_sample(opened)
    found = stated or format_of(sample)
    if found is None or found.read is None:
        raise InputError(_unread_file(sample, found))
    return ChatFile(opened.name, [(opened, found, sample.shape)])


def _open_archive(archive: Archive, stated: Format | None) -> ChatFile:
    names = [source.name for source in archive.files]
    whole = format_of_archive(names) if stated is None else stated if stated.read_archive else None
    if whole is not None and archive.files:
        return ChatFile(archive.name, [], archive, whole=whole)
    parts: list[_Part] = []
    for source in archive.files:
        try:
            sample = take_sample(source)
        except DamagedError as exc:
            archive.refused.append((source.name, str(exc).removeprefix(f"{source.name}: ")))
            continue
        except InputError:
            continue  # a picture, say; it is counted among the files that are no chat
        found = format_of(sample)
        if found is not None and found.read is None:
            archive.refused.append((source.name, f"this looks like {found.title}"))
        elif found is not None and (stated is None or found is stated):
            parts.append((source, found, sample.shape))
    if stated is None and any(not form.is_plain for _, form, _ in parts):
        parts = [part for part in parts if not part[1].is_plain]
    if not parts:
        wanted = "a known format" if stated is None else f"the format {stated.name!r}"
        more = f"; {archive.refused[0][0]}: {archive.refused[0][1]}" if archive.refused else ""
        raise InputError(
            f"{archive.name}: the archive has {len(names)} files, and none is a chat of {wanted}{more}"
        )
    return ChatFile(archive.name, parts, archive)


def read_sessions(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    name: str | None = None,
    format: str | None = None,
    options: ReadOptions | None = None,
) -> list[FileSession]:
    """Return all sessions of a chat file at once.

    Raises:
        InputError: as `open_chat`; and if any part of the file cannot be read.
    """
    skips = Skips()
    with open_chat(file, name=name, format=format) as chat:
        found = list(chat.sessions(options or ReadOptions(), skips))
    if skips.wrong:
        raise InputError(_joined(chat.name, str(skips.wrong[0])))
    return found


def _joined(name: str, where: str) -> str:
    return f"{name}, {where}" if where else name


def _is_by(turn: Mapping[str, object], owner: str) -> bool:
    speaker = turn.get("speaker")
    return isinstance(speaker, str) and "role" not in turn and speaker.casefold() == owner.casefold()


def _unread_file(sample: Sample, known: Format | None) -> str:
    """Return the message for a file that no format reads: what it looks like, or what is in it."""
    name = sample.name
    if sample.fault:
        return f"{name}, {sample.fault}"
    if sample.shape is not None and not sample.objects and not sample.items:
        return f"{name}: {'the list is empty' if sample.shape == 'array' else 'the object has no keys'}; it should hold {SHAPES}"
    if sample.shape is not None:
        wrong = next((n for n, one in enumerate(sample.items) if not isinstance(one, Mapping)), None)
        if wrong is not None:
            kind = kind_of(sample.items[wrong])
            return f"{name}, item {wrong}: there is a {kind} where a message should be: {SHAPES}"
        looks = f"this looks like {known.title}: " if known else ""
        outer, inner = sample.objects[0], sample.messages
        what = "the object has" if sample.shape == "object" else "the objects have"
        within = f", and its messages {listed(inner[0])}" if inner and inner[0] is not outer else ""
        return f"{name}: {looks}{what} {listed(outer)}{within}; the file should hold {SHAPES}"
    what = f"this looks like {known.title}" if known else "this is not a chat in a known format"
    return f"{name}, line 1: {what}; it should hold {SHAPES}. If it is one, name it with format (--format)"
