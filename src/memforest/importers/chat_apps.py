"""Chats among people: WhatsApp, Telegram, Slack, Discord, Messenger and Google Chat.

WhatsApp: text, a line or more for each message. Android: ``31/12/2023, 21:41 - Ana: text``; iOS: ``[31/12/2023, 21:41:05] Ana:
text``. The order of day and month, the clock (12 or 24 hours) and the words for its halves are those of the phone. Left-to-right
marks stand before what the app itself says: notices, and media that are not in the file.

Telegram Desktop: ``result.json``, one chat (``messages``), or all chats of an account (``chats.list``). A chat has ``name``,
``type``, ``id``, ``messages``; a message ``id``, ``type``, ``date``, ``date_unixtime``, ``from``, ``from_id`` and ``text``, a text
or a list of texts and typed parts.

Slack: a zip archive with a folder for each channel, in it a file for each day, beside ``users.json``. A message has ``type``,
``user``, ``text``, ``ts`` (Unix seconds, also its id in the channel), ``thread_ts`` where it belongs to a thread, ``subtype`` where
it is something else than a person's message, ``edited``, ``files``.

Discord is read as DiscordChatExporter writes it (https://github.com/Tyrrrz/DiscordChatExporter), Messenger and Instagram as Meta's
download has them (``message_1.json``), Google Chat as Google Takeout does (``messages.json``): `PeopleChat` says where each has what.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from memforest.importers.drafts import (
    MARKS,
    NOWHERE,
    DraftTurn,
    Sample,
    at,
    by_day,
    dated,
    in_time_order,
    is_marked,
    messages_in_lines,
    session_of,
    with_day_order,
)
from memforest.importers.files import FileReader, FileSession, JsonStream

_DATE = r"(?P<date>(?P<a>\d{1,4})\s?[./년年-]\s?(?P<b>\d{1,2})\s?[./월月-]\s?(?P<c>\d{1,4})(?:[.日일](?=[\s,،]))?)"
_HALF = r"(?:[^\W\d_]{1,3}\.?[\s\u00a0\u202f]?){1,2}"
_TIME = (
    rf"(?:(?P<before>{_HALF})[\s\u202f]?)?(?P<h>\d{{1,2}})[:.](?P<m>\d\d)(?:[:.](?P<s>\d\d))?"
    rf"(?:[\s\u00a0\u202f]?(?P<after>{_HALF}))?"
)
_HEAD = re.compile(
    rf"[{MARKS}]*(?P<bracket>\[)?{_DATE}[,،]?[\s\u202f]+{_TIME}(?(bracket)\][\s\u202f]?|(?:\s?[-–]\s|,\s(?=.+ : )))"
)
_LOG = re.compile(r"\[\d{4}-\d\d-\d\d[ T]")
"""How a log begins that has a bracket and no comma behind its date, which no phone writes so."""
_SPEAKER = re.compile(r"(?P<name>[^:]{1,100}?) ?:(?: |$|(?<!\d:)(?!//)|(?![\d/]))(?P<text>.*)", re.DOTALL)
"""Some exports have no space behind the colon; nor has the time of day, or the address, of a notice."""
_MEDIA = re.compile(r"<[^<>\n]{3,60}>|\S+\.\w{2,5} \([^()\n]{3,60}\)")
"""What stands for media that are not in the file, in whichever language, and the name of a file that is attached."""
_EDITED = re.compile(r" ?<[^<>\n]{3,60}>$")

_AM = frozenset(
    {"am", "a", "πμ", "ص", "上午", "凌晨", "早上", "午前", "오전", "fm", "ap", "dop", "de", "vorm", "sa"}
)
_PM = frozenset(
    {"pm", "p", "μμ", "م", "下午", "中午", "晚上", "午後", "오후", "em", "ip", "odp", "du", "nachm", "ch"}
)
_FILLER = frozenset({"às", "as", "um", "à", "at", "a las", "alle", "kl", "klo", "la"})
"""Words between date and time that say nothing of the half of the day."""


def recognises_whatsapp(sample: Sample) -> bool:
    """Return whether the first line begins like a message, and some line names a speaker."""
    lines = sample.lines
    if sample.shape is not None or not lines or _LOG.match(lines[0]):
        return False
    heads = [(line, head) for line in lines if (head := _HEAD.match(line)) is not None]
    return (
        bool(heads)
        and heads[0][0] == lines[0]
        and any(_SPEAKER.match(line, head.end()) for line, head in heads)
    )


def read_whatsapp(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of the chat, one a day."""
    heads = messages_in_lines(reading.again(), _HEAD)
    reading = with_day_order(reading, ((where, head["date"].rstrip(".")) for where, head, _ in heads))
    # iOS calls every file ``_chat.txt``, and the archive after the chat.
    is_own = reading.options.session_id or reading.source.stem != "_chat"
    name = reading.name if is_own else reading.source.archive_stem or reading.name
    yield from by_day(_whatsapp_drafts(reading), reading, name)


def _whatsapp_drafts(reading: FileReader) -> Iterator[DraftTurn]:
    for where, head, said in messages_in_lines(reading, _HEAD):
        moment = _moment(head, reading.options.day_first is not False)
        found = _SPEAKER.match(said)
        text = found["text"] if found else ""
        edited = _EDITED.search(text)
        if isinstance(moment, str):
            reading.skips.fail(where, moment)
        elif found is None or re.search('["“”«»]', found["name"]):
            reading.skips.leave_out("notice of the app")
        elif text.startswith("\u200e") or _MEDIA.fullmatch(text.strip(MARKS)):
            reading.skips.leave_out("notice of the app, or media that are not in the file")
        elif (text := _EDITED.sub("", text).replace("\u200e", "").strip()) in ("", "null"):
            reading.skips.leave_out("empty message")
        else:
            turn: dict[str, Any] = {"speaker": found["name"].strip(f"{MARKS} ~\u202f"), "content": text}
            yield from dated(reading, where, moment, turn | ({"edited": True} if edited else {}))


def _moment(head: re.Match[str], day_first: bool) -> datetime | str:
    """Return the local time of a message; or why it cannot be read."""
    first, second, third = int(head["a"]), int(head["b"]), int(head["c"])
    if len(head["a"]) == 4:
        year, month, day = first, second, third
    else:
        year, (day, month) = third, ((first, second) if day_first else (second, first))
    if year < 100:
        year += 1900 if year >= 69 else 2000
    hour = int(head["h"])
    for word in (head["before"], head["after"]):
        half = re.sub(r"[.\s\u00a0\u202f]", "", (word or "").casefold())
        if half in _AM or half in _PM:
            hour = hour % 12 + (12 if half in _PM else 0)
        elif half and half not in _FILLER:
            return f"{half!r} is no known word for a half of the day; export the chat with a 24-hour clock"
    try:
        return datetime(year, month, day, hour, int(head["m"]), int(head["s"] or 0))  # noqa: DTZ001 - the zone comes later
    except ValueError as exc:
        order = "the day first" if day_first else "the month first"
        return f"{head['date']} {head['h']}:{head['m']} is no time, read with {order}: {exc}"


_LISTS = ("chats", "left_chats")


def read_telegram(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of all chats, one a day."""
    with reading.json() as stream:
        yield from _chat(reading, stream, "")


def _chat(reading: FileReader, stream: JsonStream, where: str) -> Iterator[FileSession]:
    """Yield the sessions of the chat at the stream's position, or of all chats in an account."""
    about: dict[str, Any] = {}
    for key in stream.fields():
        if key == "messages" and stream.peek() == "start_array":
            name = str(about.get("id") or reading.name)
            named = ((field, about.get(field)) for field in ("name", "type"))
            metadata = {field: value for field, value in named if isinstance(value, str)}
            drafts = TELEGRAM.drafts(reading, stream, where)
            yield from by_day(drafts, reading, name, metadata={"chat": metadata} if metadata else {})
        elif key in _LISTS and stream.peek() == "start_map":
            for field in stream.fields():
                if field == "list" and stream.peek() == "start_array":
                    for number in stream.elements():
                        if stream.peek() == "start_map":
                            yield from _chat(reading, stream, f"{key}.list[{number}].")
        elif not stream.peek().startswith("start"):
            about[key] = stream.value()


def _name(*given: object) -> str | None:
    """Return the first of some values that can be a name."""
    return next((one for one in given if isinstance(one, str) and one.strip()), None)


_DAY_FILE = re.compile(r"(?:^|/)(?P<folder>[^/]+)/\d{4}-\d\d-\d\d\.json$")
_ABOUT = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json", "org_users.json", "integration_logs.json",
          "canvases.json", "file_conversations.json", "huddle_transcripts.json", "lists.json")  # fmt: skip
_SPOKEN = frozenset({None, "me_message", "thread_broadcast", "file_share", "file_comment", "reply_broadcast"})
_LINK = re.compile(r"<(?P<target>[^<>|]+)(?:\|(?P<label>[^<>]*))?>")


def recognises_slack_archive(names: Sequence[str]) -> bool:
    """Return whether the files of an archive are channels with a file for each day."""
    return any(_DAY_FILE.search(name) for name in names) and any(
        name.rsplit("/", 1)[-1] in _ABOUT for name in names
    )


def read_slack(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of a single file; speakers keep their ids, as their names are in another file."""
    yield from _channel([reading], reading.name, {}, reading)


def read_slack_archive(files: Sequence[FileReader], whole: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of all channels: one a day, and one for each thread.

    The threads of one channel are held until its last day is read, as an answer may come on any later day.
    """
    names: dict[str, str] = {}
    channels: dict[str, list[FileReader]] = {}
    for reading in files:
        if reading.source.name.endswith("users.json"):
            names |= _people(reading)
        elif found := _DAY_FILE.search(reading.source.name):
            channels.setdefault(found["folder"], []).append(reading)
    for folder, days in channels.items():
        yield from _channel(days, folder, names, whole)


def _people(reading: FileReader) -> dict[str, str]:
    """Return the display names of users by id."""
    reading.shape = "array"
    return {str(user.get("id")): name for _, user in reading.objects() if (name := _shown(user, "profile"))}


def _shown(user: Mapping[str, Any], key: str) -> str | None:
    """Return the name of a user, from the profile under a key or beside it."""
    own = (at(user, f"{key}.{name}") for name in ("display_name", "real_name", "name"))
    return _name(*own, user.get("real_name"), user.get("name"))


def _channel(
    days: Sequence[FileReader], channel: str, names: Mapping[str, str], whole: FileReader
) -> Iterator[FileSession]:
    threads: dict[str, list[DraftTurn]] = {}
    about = {"channel": channel}

    def of_the_channel() -> Iterator[DraftTurn]:
        """Yield the messages that belong to no thread, and keep the others."""
        for day in days:
            day.shape = "array"
            for where, message in day.objects():
                thread = message.get("thread_ts")
                for draft in _slack_draft(message, names, day, where):
                    if day.source.archive is not None:
                        draft = replace(draft, where=f"{day.source.name}, {where}")
                    if isinstance(thread, str):
                        threads.setdefault(thread, []).append(draft)
                    else:
                        yield draft

    yield from by_day(of_the_channel(), whole, channel, about)
    for thread, drafts in threads.items():
        of_thread = {**about, "thread": thread}
        yield session_of(f"{channel}/{thread}", in_time_order(drafts), metadata=of_thread)


def _slack_draft(
    message: Mapping[str, Any], names: Mapping[str, str], reading: FileReader, where: str
) -> Iterator[DraftTurn]:
    subtype = message.get("subtype")
    is_bot = subtype == "bot_message" or (bool(message.get("bot_id")) and "user" not in message)
    if subtype not in _SPOKEN and not is_bot:
        reading.skips.leave_out("notice of the app")
        return
    if message.get("files"):
        reading.skips.leave_out("image, sound or file")
    text = _slack_text(message, names)
    if not text.strip():
        reading.skips.leave_out("message without text")
        return
    turn: dict[str, Any] = {"content": text, "id": message.get("ts")}
    if is_bot:
        bot = _name(message.get("username"), _shown(message, "bot_profile"), message.get("bot_id"))
        turn |= {"role": "tool", "speaker": bot or "bot"}
    else:
        user = str(message.get("user") or message.get("username") or "unknown")
        turn["speaker"] = names.get(user) or _shown(message, "user_profile") or user
    if edited := at(message, "edited.ts"):
        turn["edited"] = str(edited)
    yield from dated(reading, where, message.get("ts", ""), turn)


def _slack_text(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the text with names for ids and readable links; for a message without text, its attachments."""
    attached = message.get("attachments")
    others = [one for one in attached if isinstance(one, Mapping)] if isinstance(attached, list) else []
    of_others = (_name(one.get("text"), one.get("fallback")) for one in others)
    text = _name(message.get("text")) or "\n".join(one for one in of_others if one)

    def shown(link: re.Match[str]) -> str:
        target, label = link["target"], link["label"]
        if target.startswith("@"):
            return f"@{names.get(target[1:]) or label or target[1:]}"
        if target.startswith(("#", "!")):
            return f"{'#' if target[0] == '#' else '@'}{label or target[1:]}"
        return f"{label} ({target})" if label and label != target else target

    return html.unescape(_LINK.sub(shown, text))


def _joined(text: Any) -> str:
    """Return a text, or a list of texts and typed parts, as one text; empty if it is neither."""
    parts = text if isinstance(text, list) else [text]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "".join(part for part in texts if isinstance(part, str))


def _repaired(text: Any) -> str:
    """Return a text whose UTF-8 was read as Latin-1, as Meta's exports have it, as it was written; another as it is."""
    said = _joined(text)
    try:
        return said.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return said


@dataclass(frozen=True, slots=True)
class PeopleChat:
    """Where an app has what a message among people needs, as paths, see `at`.

    Args:
        name: the id of the chat; without one, the file or the folder that it is in names it.
        speaker: who speaks.
        text: what was said.
        time: when.
        id: the id of the message.
        files: what the message has beside.
        notice: what marks a notice of the app.
        bot: what marks a program that speaks.
        words: makes a text of what stands where a text or a name is.
    """

    name: str
    speaker: str
    text: str
    time: str
    files: str
    id: str = NOWHERE
    notice: str = ""
    bot: str = ""
    words: Callable[[Any], str] = _joined

    def read(self, reading: FileReader) -> Iterator[FileSession]:
        """Yield the sessions of a chat, one a day; messages that stand the newest first are put in order."""
        about: dict[str, Any] = {}
        with reading.again().json() as stream:
            for key in stream.fields():
                if key != "messages":
                    about[key] = stream.value()
        folder = PurePosixPath(reading.source.name).parent.name
        name = str(at(about, self.name) or folder or reading.name)
        # A long chat of Messenger is cut into files, which may share a day.
        if (part := re.fullmatch(r"message_(\d+)", reading.source.stem)) and part[1] != "1":
            name = f"{name}#{part[1]}"
        title = self.words(at(about, "title|channel.name|threadName"))
        with reading.json() as stream:
            lists = (self.drafts(reading, stream) for key in stream.fields() if key == "messages")
            drafts = chain.from_iterable(lists)
            ordered = in_time_order(reversed(list(drafts))) if self is MESSENGER else drafts
            yield from by_day(ordered, reading, name, metadata={"chat": {"name": title}} if title else {})

    def drafts(self, reading: FileReader, stream: JsonStream, where: str = "") -> Iterator[DraftTurn]:
        """Yield the turns of the list of messages at the stream's position."""
        for number, message in stream.values():
            yield from self._draft(message, reading, f"{where}messages[{number}]")

    def _draft(self, message: Any, reading: FileReader, where: str) -> Iterator[DraftTurn]:
        if not isinstance(message, Mapping):
            reading.skips.fail(where, "the message is no object")
            return
        if is_marked(message, self.notice):
            reading.skips.leave_out("notice of the app")
            return
        has_file = is_marked(message, self.files)
        reading.skips.leave_out("image, sound or file", has_file)
        text, speaker = (self.words(at(message, path)) for path in (self.text, self.speaker))
        kept = {"id": at(message, self.id), "reply_to": at(message, _REPLY), "edited": at(message, _EDIT)}
        turn = {"speaker": speaker.strip() or "unknown", "content": text}
        turn |= {key: str(one) for key, one in kept.items() if one is not None}
        if is_marked(message, self.bot):
            turn["role"] = "tool"
        if "forwarded_from" in message:  # the words of somebody else
            turn |= {
                "forwarded_by": turn["speaker"],
                "speaker": self.words(message["forwarded_from"]) or "unknown",
            }
        if text.strip():
            yield from dated(reading, f"{where} (id {kept['id']})", at(message, self.time) or "", turn)
        else:
            reading.skips.leave_out("empty message", not has_file)


_REPLY = "reference.messageId|reply_to_message_id"
_EDIT = "timestampEdited|edited_unixtime|edited"


TELEGRAM = PeopleChat("id", "from|from_id", "text", "date_unixtime|date", "media_type photo file poll", "id", "type!message")  # fmt: skip
DISCORD = PeopleChat(
    "channel.id", "author.nickname|author.name", "content", "timestamp", "attachments embeds stickers", "id",
    "type!Default,Reply,ThreadStarterMessage,ChatInputCommand,ContextMenuCommand,0,19,20,21,23", "author.isBot")  # fmt: skip
MESSENGER = PeopleChat(
    "thread_path|threadName|title", "sender_name|senderName", "content|text", "timestamp_ms|timestamp",
    "photos videos audio_files gifs files sticker media share", notice="is_unsent isUnsent call_duration", words=_repaired)  # fmt: skip
GOOGLE_CHAT = PeopleChat(NOWHERE, "creator.name|creator.email", "text", "created_date", "attached_files", "message_id",
                         bot="creator.user_type!Human")  # fmt: skip
