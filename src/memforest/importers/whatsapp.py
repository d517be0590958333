"""WhatsApp's exported chats: text, a line or more for each message, in the two forms of Android and iOS.

Android: ``31/12/2023, 21:41 - Ana: text``; iOS: ``[31/12/2023, 21:41:05] Ana: text``. The order of day and month, the clock
(12 or 24 hours) and the words for its halves are those of the phone. Left-to-right marks stand before what the app itself
says: notices, and media that are not in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from memforest.importers.day_order import DayOrder
from memforest.importers.drafts import Draft, by_day
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample

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


def recognises(sample: Sample) -> bool:
    """Return whether the first line begins as a message does, and further ones do."""
    lines = sample.lines
    if sample.shape is not None or not lines or _LOG.match(lines[0]):
        return False
    return _HEAD.match(lines[0]) is not None and any(map(_said, lines))


def _said(line: str) -> bool:
    head = _HEAD.match(line)
    return head is not None and _SPEAKER.match(line, head.end()) is not None


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of the chat, one a day."""
    order = DayOrder()
    scratch = Reading(reading.source, reading.options)
    for number, line in scratch.lines():
        if head := _HEAD.match(line):
            order.see(head["date"].rstrip("."), f"line {number}")
    day_first = order.decide(reading.source.name, reading.options.day_first)
    yield from by_day(_drafts(reading, day_first is not False), reading, _chat_name(reading))


def _chat_name(reading: Reading) -> str:
    """Return what to call the chat; iOS calls every file ``_chat.txt``, and the archive after the chat."""
    own = reading.options.session_id or reading.source.stem != "_chat"
    return reading.name if own else reading.source.archive_stem or reading.name


def _drafts(reading: Reading, day_first: bool) -> Iterator[Draft]:
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
            yield from _draft(held, reading)
        held = None
        said = _moment(head, day_first)
        if isinstance(said, str):
            reading.skips.fail(f"line {number}", said)
        else:
            held = (number, said, [line[head.end() :]])
    if held is not None:
        yield from _draft(held, reading)


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


def _draft(held: tuple[int, datetime, list[str]], reading: Reading) -> Iterator[Draft]:
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
    yield Draft(f"line {number}", turn, moment.replace(tzinfo=reading.options.zone))
