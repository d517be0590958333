"""Exports of WhatsApp, Telegram and Slack.

WhatsApp: text, a line or more for each message. Android: ``31/12/2023, 21:41 - Ana: text``; iOS: ``[31/12/2023, 21:41:05] Ana:
text``. The order of day and month, the clock (12 or 24 hours) and the words for its halves are those of the phone. Left-to-right
marks stand before what the app itself says: notices, and media that are not in the file.

Telegram Desktop: ``result.json``, one chat (``messages``), or all chats of an account (``chats.list``). A chat has ``name``,
``type``, ``id``, ``messages``; a message ``id``, ``type``, ``date``, ``date_unixtime``, ``from``, ``from_id`` and ``text``, a text
or a list of texts and typed parts.

Slack: a zip archive with a folder for each channel, in it a file for each day, beside ``users.json``. A message has ``type``,
``user``, ``text``, ``ts`` (Unix seconds, also its id in the channel), ``thread_ts`` where it belongs to a thread, ``subtype`` where
it is something else than a person's message, ``edited``, ``files``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memforest.importers.drafts import DayOrder, DraftTurn, Sample, by_day, in_time_order, session_of
from memforest.importers.files import FileReader, FileSession, JsonStream

_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\ufeff"
_DATE = r"(?P<date>(?P<a>\d{1,4})\s?[./년年-]\s?(?P<b>\d{1,2})\s?[./월月-]\s?(?P<c>\d{1,4})(?:[.日일](?=[\s,،]))?)"
_HALF = r"(?:[^\W\d_]{1,3}\.?[\s\u00a0\u202f]?){1,2}"
_TIME = (
    rf"(?:(?P<before>{_HALF})[\s\u202f]?)?(?P<h>\d{{1,2}})[:.](?P<m>\d\d)(?:[:.](?P<s>\d\d))?"
    rf"(?:[\s\u00a0\u202f]?(?P<after>{_HALF}))?"
)
_HEAD = re.compile(
    rf"[{_MARKS}]*(?P<bracket>\[)?{_DATE}[,،]?[\s\u202f]+{_TIME}(?(bracket)\][\s\u202f]?|(?:\s?[-–]\s|,\s(?=.+ : )))"
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
    order = DayOrder()
    scratch = FileReader(reading.source, reading.options)
    for number, line in scratch.lines():
        if head := _HEAD.match(line):
            order.see(head["date"].rstrip("."), f"line {number}")
    day_first = order.decide(reading.source.name, reading.options.day_first)
    # iOS calls every file ``_chat.txt``, and the archive after the chat.
    is_own = reading.options.session_id or reading.source.stem != "_chat"
    name = reading.name if is_own else reading.source.archive_stem or reading.name
    yield from by_day(_whatsapp_drafts(reading, day_first is not False), reading, name)


def _whatsapp_drafts(reading: FileReader, day_first: bool) -> Iterator[DraftTurn]:
    held: tuple[int, datetime, list[str]] | None = None
    for number, line in reading.lines():
        head = _HEAD.match(line)
        if head is None:
            if held is not None:
                held[2].append(line)
            elif line.strip(f"{_MARKS} "):
                reading.skips.fail(
                    f"line {number}", "this is no message: it does not begin with a date and a time"
                )
            continue
        if held is not None:
            yield from _whatsapp_draft(held, reading)
        held = None
        said = _moment(head, day_first)
        if isinstance(said, str):
            reading.skips.fail(f"line {number}", said)
        else:
            held = (number, said, [line[head.end() :]])
    if held is not None:
        yield from _whatsapp_draft(held, reading)


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


def _whatsapp_draft(held: tuple[int, datetime, list[str]], reading: FileReader) -> Iterator[DraftTurn]:
    number, moment, lines = held
    found = _SPEAKER.match("\n".join(lines).rstrip())
    if found is None or re.search('["“”«»]', found["name"]):
        reading.skips.leave_out("notice of the app")
        return
    text = found["text"]
    if text.startswith("\u200e") or _MEDIA.fullmatch(text.strip(_MARKS)):
        reading.skips.leave_out("notice of the app, or media that are not in the file")
        return
    edited = _EDITED.search(text)
    if edited is not None and edited.start():
        text = text[: edited.start()]
    text = text.replace("\u200e", "").strip()
    if not text or text == "null":
        reading.skips.leave_out("empty message")
        return
    turn = {
        "speaker": found["name"].strip(f"{_MARKS} ~\u202f"),
        "content": text,
        "timestamp": moment.isoformat(),
        **({"edited": True} if edited is not None else {}),
    }
    yield DraftTurn(f"line {number}", turn, moment.replace(tzinfo=reading.options.zone))


_LISTS = ("chats", "left_chats")


def recognises_telegram(sample: Sample) -> bool:
    """Return whether a file is a chat, or an account with chats."""
    fields = sample.fields
    if any(isinstance(fields.get(key), Mapping) and "list" in fields[key] for key in _LISTS):
        return True
    messages = fields.get("messages")
    return isinstance(messages, list) and any(
        isinstance(one, Mapping) and "date" in one and one.get("type") in ("message", "service")
        for one in messages
    )


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
            metadata = {
                field: about[field] for field in ("name", "type") if isinstance(about.get(field), str)
            }
            drafts = _telegram_drafts(reading, stream, where)
            yield from by_day(drafts, reading, name, metadata={"chat": metadata} if metadata else {})
        elif key in _LISTS and stream.peek() == "start_map":
            for field in stream.fields():
                if field == "list" and stream.peek() == "start_array":
                    for number in stream.elements():
                        if stream.peek() == "start_map":
                            yield from _chat(reading, stream, f"{key}.list[{number}].")
        elif not stream.peek().startswith("start"):
            about[key] = stream.value()


def _telegram_drafts(reading: FileReader, stream: JsonStream, where: str) -> Iterator[DraftTurn]:
    for number, message in stream.values():
        at = f"{where}messages[{number}]"
        if not isinstance(message, Mapping):
            reading.skips.fail(at, "the message is no object")
        elif message.get("type") == "service":
            reading.skips.leave_out("notice of the app")
        elif (draft := _telegram_draft(message, reading, f"{at} (id {message.get('id')})")) is not None:
            yield draft


def _telegram_draft(message: Mapping[str, Any], reading: FileReader, where: str) -> DraftTurn | None:
    text = _telegram_text(message.get("text"))
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
    return DraftTurn(where, turn, said)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _telegram_text(value: object) -> str:
    """Return the text of a message, joined from its typed parts."""
    parts = value if isinstance(value, list) else [value]
    texts = [one.get("text") if isinstance(one, Mapping) else one for one in parts]
    return "".join(text for text in texts if isinstance(text, str))


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


def recognises_slack(sample: Sample) -> bool:
    """Return whether a file holds the messages of one channel and day."""
    return sample.shape == "array" and any(
        isinstance(one.get("ts"), str) and one.get("type") == "message" for one in sample.objects
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
    found = {}
    for _, user in reading.objects():
        profile = user.get("profile")
        profile = profile if isinstance(profile, Mapping) else {}
        names = (
            profile.get("display_name"),
            profile.get("real_name"),
            user.get("real_name"),
            user.get("name"),
        )
        if name := next((one for one in names if isinstance(one, str) and one.strip()), None):
            found[str(user.get("id"))] = name
    return found


def _channel(
    days: Sequence[FileReader], channel: str, names: Mapping[str, str], whole: FileReader
) -> Iterator[FileSession]:
    threads: dict[str, list[DraftTurn]] = {}
    about = {"channel": channel}

    def of_the_channel() -> Iterator[DraftTurn]:
        for day in days:
            day.shape = "array"
            for where, message in day.objects():
                draft = _slack_draft(message, names, day, where)
                thread = message.get("thread_ts")
                if draft is None:
                    continue
                if day.source.archive is not None:
                    draft = replace(draft, where=f"{day.source.name}, {where}")
                if isinstance(thread, str):
                    threads.setdefault(thread, []).append(draft)
                else:
                    yield draft

    yield from by_day(of_the_channel(), whole, channel, metadata=about)
    for thread, drafts in threads.items():
        yield session_of(
            f"{channel}/{thread}",
            in_time_order(drafts),
            metadata={**about, "thread": thread},
            where=drafts[0].where,
        )


def _slack_draft(
    message: Mapping[str, Any], names: Mapping[str, str], reading: FileReader, where: str
) -> DraftTurn | None:
    subtype = message.get("subtype")
    is_bot = subtype == "bot_message" or (bool(message.get("bot_id")) and "user" not in message)
    if subtype not in _SPOKEN and not is_bot:
        reading.skips.leave_out("notice of the app")
        return None
    if message.get("files"):
        reading.skips.leave_out("image, sound or file")
    text = _slack_text(message, names)
    if not text.strip():
        reading.skips.leave_out("message without text")
        return None
    said = reading.read_time(message.get("ts"), where)
    if said is None:
        return None
    turn: dict[str, Any] = {"content": text, "timestamp": message["ts"], "id": message["ts"]}
    if is_bot:
        turn |= {"role": "tool", "speaker": _bot(message)}
    else:
        user = str(message.get("user") or message.get("username") or "unknown")
        profile = message.get("user_profile")
        shown = (
            profile.get("display_name") or profile.get("real_name") if isinstance(profile, Mapping) else None
        )
        turn["speaker"] = names.get(user) or shown or user
    if isinstance(edited := message.get("edited"), Mapping) and edited.get("ts"):
        turn["edited"] = str(edited["ts"])
    return DraftTurn(where, turn, said)


def _bot(message: Mapping[str, Any]) -> str:
    profile = message.get("bot_profile")
    names = (
        message.get("username"),
        profile.get("name") if isinstance(profile, Mapping) else None,
        message.get("bot_id"),
    )
    return next((one for one in names if isinstance(one, str) and one.strip()), "bot")


def _slack_text(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the text with names for ids and readable links; for a message without text, its attachments."""
    text = message.get("text")
    if not isinstance(text, str) or not text.strip():
        attached = message.get("attachments")
        found = (
            [one.get("text") or one.get("fallback") for one in attached if isinstance(one, Mapping)]
            if isinstance(attached, list)
            else []
        )
        text = "\n".join(one for one in found if isinstance(one, str))

    def shown(link: re.Match[str]) -> str:
        target, label = link["target"], link["label"]
        if target.startswith("@"):
            return f"@{names.get(target[1:]) or label or target[1:]}"
        if target.startswith(("#", "!")):
            return f"{'#' if target[0] == '#' else '@'}{label or target[1:]}"
        return f"{label} ({target})" if label and label != target else target

    return html.unescape(_LINK.sub(shown, text))
