"""Chats in rows: CSV, plain logs, and the files of three benchmarks.

CSV: a header names the columns; the delimiter is the one with which it does.

Plain logs: a line begins with a date and a time of day, then who speaks, then what was said, as in
``2024-05-01 10:00:00 Ana: text`` or ``[2024-05-01T10:00:00Z] <ana> text``. Dates are in ISO 8601, or with slashes or dots in any
order that the file proves. Lines without a time go on with the message above.

The benchmarks have what was said, without questions and answers: LoCoMo (https://github.com/snap-research/locomo), LongMemEval
(https://github.com/xiaowu0162/LongMemEval) and REALTALK (https://github.com/danny911kr/REALTALK).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from memforest.errors import InputError
from memforest.importers.drafts import (
    DraftTurn,
    Sample,
    by_day,
    dated,
    in_time_order,
    messages_in_lines,
    session_of,
    together,
    with_day_order,
)
from memforest.importers.files import FileReader, FileSession, kind_of
from memforest.settings import ROLES, TIME_KEYS

DELIMITERS = ",;\t|"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "content": ("content", "text", "message", "messagetext", "body", "utterance", "comment"),
    "timestamp": ("datetime", *(re.sub(r"[^a-z]", "", key.casefold()) for key in TIME_KEYS), "sentat", "sent", "messagedate"),
    "speaker": ("speaker", "sender", "author", "from", "name", "username", "sendername", "participant", "nickname", "user"),
    "role": ("role",),
    "session_id": ("sessionid", "session", "conversationid", "conversation", "threadid", "thread", "channel", "chat",
                   "chatsession", "chatid", "dialogid", "room"),
    "id": ("id", "messageid", "msgid", "turnid"),
}  # fmt: skip
"""What a column is -> the names that it may have, in order of preference; case and signs do not count."""


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns of a file: their names, and the numbers of the known ones."""

    delimiter: str
    names: tuple[str, ...]
    columns: Mapping[str, int]
    clock: int | None = None
    """The column of the time of day, where the date has one of its own."""


def recognises_table(sample: Sample) -> bool:
    """Return whether the first line names a column of texts, and one of speakers, times or sessions."""
    return sample.shape is None and bool(sample.lines) and _header(sample.lines[0]) is not None


def read_table(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each value of the session column; without one, a session a day."""
    header = next((_header(line) for _, line in reading.again().lines() if line.strip()), None)
    if header is None:
        raise InputError(
            f"{reading.source.name}: the first line names no column with the text; call one 'content', and those of "
            "the speaker and the time 'speaker' and 'timestamp'"
        )
    if (column := header.columns.get("timestamp")) is not None:
        rows = _rows(reading.again(), header)
        reading = with_day_order(reading, ((where, row[column]) for where, row in rows))
    rows = _rows(reading, header)
    if (session := header.columns.get("session_id")) is None:
        yield from by_day(_table_drafts(rows, header, reading), reading, reading.name)
        return
    for group in together(_rows(reading.again(), header), rows, lambda one: one[1][session]):
        if drafts := in_time_order(_table_drafts(group, header, reading)):
            yield session_of(group[0][1][session].strip() or reading.name, drafts)


def _header(line: str) -> _Header | None:
    """Return the header that a line is; None if it is no header of a chat."""
    for delimiter in sorted(DELIMITERS, key=line.count, reverse=True):
        if delimiter not in line:
            return None
        try:
            names = next(csv.reader([line], delimiter=delimiter))
        except csv.Error:
            continue
        plain = [re.sub(r"[^a-z]", "", name.casefold()) for name in names]
        columns: dict[str, int] = {}
        for what, known in _COLUMNS.items():
            found = next((plain.index(name) for name in known if name in plain), None)
            if found is not None and found not in columns.values():
                columns[what] = found
        if (
            "content" in columns
            and len(columns) > 1
            and not {"speaker", "role", "timestamp"}.isdisjoint(columns)
        ):
            clock = plain.index("time") if "time" in plain and "date" in plain else None
            if clock is not None:
                columns["timestamp"] = plain.index("date")
            return _Header(delimiter, tuple(names), columns, clock)
    return None


def _rows(reading: FileReader, header: _Header) -> Iterator[tuple[str, list[str]]]:
    """Yield (place, fields) of the rows with as many fields as the header, and report the others."""
    taken: list[int] = []  # numbers of the lines of the row that is being read

    def lines() -> Iterator[str]:
        for number, line in reading.lines():
            taken.append(number)
            yield f"{line}\n"

    rows = csv.reader(lines(), delimiter=header.delimiter)
    is_header = True
    while True:
        taken.clear()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as exc:
            place = f"line {taken[0] if taken else None}"
            reading.skips.fail(place, f"this is not a row of CSV: {exc}")
            continue
        if not row:
            continue
        place, is_first, is_header = f"line {taken[0]}", is_header, False
        if len(row) == len(header.names) and not is_first:
            yield place, row
        elif not is_first:
            what = f"the row has {len(row)} fields, and the header {len(header.names)}"
            reading.skips.fail(place, what)


def _table_drafts(
    rows: Iterable[tuple[str, Sequence[str]]], header: _Header, reading: FileReader
) -> Iterator[DraftTurn]:
    for where, row in rows:
        turn = _turn(row, header)
        if turn["content"].strip():
            yield from dated(reading, where, turn.pop("timestamp", None), turn)
        else:
            reading.skips.leave_out("empty message")


def _turn(row: Sequence[str], header: _Header) -> dict[str, Any]:
    """Return a row as a turn; unknown columns become metadata."""
    known = {column: what for what, column in header.columns.items()}
    turn: dict[str, Any] = {"content": ""}
    for column, value in enumerate(row):
        what = known.get(column)
        if what == "content" or (what not in (None, "session_id") and value.strip()):
            turn[str(what)] = value if what == "content" else value.strip()
        elif what is None and column != header.clock and value.strip() and header.names[column].strip():
            turn.setdefault(header.names[column].strip(), value)
    if header.clock is not None and "timestamp" in turn:
        turn["timestamp"] = f"{turn['timestamp']} {row[header.clock].strip()}".strip()
    for what in ("speaker", "role"):
        value = str(turn.get(what, ""))
        if value.casefold() in ROLES:
            turn.setdefault("role", value.casefold())
            if what == "speaker":
                del turn["speaker"]
        elif what == "role" and value:
            turn.setdefault("speaker", value)
            del turn["role"]
    return turn if "role" in turn else {"speaker": "unknown", **turn}


_STAMP = (
    r"(?P<stamp>(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})[T ,]{1,2}\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?:\s?[AaPp][Mm])?(?:Z|\s?[+-]\d\d:?\d\d|\sUTC|\sGMT)?)"
)
_HEAD = re.compile(rf"[\[(]?{_STAMP}[\])]?(?:\s*[-–|]\s|:?\s+)")
_SPEAKER = re.compile(
    r"(?:<(?P<nick>[^<>]{1,80})>|(?P<name>[^\s:<>\[\](){}=][^:<>\[\](){}=\n]{0,60}?)\s?:)(?:\s(?P<text>.*)|$)",
    re.DOTALL,
)
_ROLES = {"human": "user", "ai": "assistant", **{one: one for one in ("user", "assistant", "system", "tool")}}
_REACTIONS = re.compile(r"\(- [^:\n]{1,80}: [^\n]{1,80} -\)\s*\Z")
"""How signal-export writes what others answered with a sign."""
LEAST_SHARE = 0.5
"""Of the first lines that begin with a time, how many must name a speaker."""


def recognises_log(sample: Sample) -> bool:
    """Return whether the first line begins with a time, and half of those that do name a speaker."""
    heads = [_HEAD.match(line) for line in sample.lines]
    if sample.shape is not None or not heads or heads[0] is None:
        return False
    begun = [(line, head) for line, head in zip(sample.lines, heads, strict=True) if head is not None]
    said = sum(_SPEAKER.match(line, head.end()) is not None for line, head in begun)
    return said >= LEAST_SHARE * len(begun)


def read_log(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of a log, one a day."""
    heads = messages_in_lines(reading.again(), _HEAD)
    reading = with_day_order(reading, ((where, head["stamp"]) for where, head, _ in heads))
    yield from by_day(_log_drafts(reading), reading, reading.name)


def _log_drafts(reading: FileReader) -> Iterator[DraftTurn]:
    for where, head, said in messages_in_lines(reading, _HEAD):
        found = _SPEAKER.match(said)
        if found is None:
            reading.skips.leave_out("line that names no speaker")
        elif not (text := _REACTIONS.sub("", found["text"] or "").strip()):
            reading.skips.leave_out("empty message")
        else:
            reading.skips.leave_out("reaction", len(_REACTIONS.findall(found["text"])))
            speaker = (found["nick"] or found["name"]).strip()
            role = _ROLES.get(speaker.casefold())
            who = {"speaker": speaker} if role is None else {"role": role}
            # A comma stands before fractions, as Python's logging writes them.
            time = re.sub(r"(?<=:\d\d),(?=\d)", ".", head["stamp"])
            yield from dated(reading, where, time, {**who, "content": text})


_AIDER = re.compile(r"# aider chat started at (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")


def read_aider(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of aider's history, in which only the beginning of each has a time."""
    for where, head, said in messages_in_lines(reading, _AIDER):
        turns: list[DraftTurn] = []
        for mark, lines in groupby(said.split("\n"), lambda line: (_AIDER_LINE.match(line) or [""])[0]):
            text = "\n".join(line.removeprefix(mark).rstrip() for line in lines).strip()
            if text and mark.startswith(">"):
                reading.skips.leave_out("note of the program")
            elif text:
                turns.append(DraftTurn(where, {"role": "user" if mark else "assistant", "content": text}))
        if turns:
            yield session_of(
                f"{reading.name}/{head['stamp'].replace(' ', 'T')}", turns, timestamp=head["stamp"]
            )


_AIDER_LINE = re.compile("#### |####$|> |>$")
_SESSION_KEY = re.compile(r"session_(\d{1,9})")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbered(value: object) -> list[tuple[int, str]]:
    """Return the numbers and names of an object's numbered sessions, in order."""
    if not isinstance(value, Mapping):
        return []
    return sorted((int(found[1]), key) for key in value if (found := _SESSION_KEY.fullmatch(str(key))))


def read_locomo(reading: FileReader) -> Iterator[FileSession]:
    """Yield the dated sessions of each sample, which is a memory of its own; captions are part of the text."""
    users: set[str | None] = set()
    many = reading.shape != "object"
    for number, (where, sample) in enumerate(reading.objects()):
        user = sample.get("sample_id")
        name = None if user is None else str(user)
        talk = sample.get("conversation")
        if not isinstance(talk, Mapping) or not _numbered(talk):
            reading.skips.fail(where, "the sample has no 'conversation' of numbered sessions")
        elif name is None and many and number:
            reading.skips.fail(where, "the sample has no 'sample_id', which names its memory")
        elif name in users:
            reading.skips.fail(where, f"the sample_id {name!r} is used twice; ids must be unique in a file")
        else:
            users.add(name)
            found = None
            for found in _numbered_sessions(talk, where, reading, user=name):
                yield found
            if found is None:
                reading.skips.fail(where, "the conversation has no session with turns")


def _numbered_sessions(
    talk: Mapping[str, Any],
    where: str,
    reading: FileReader,
    turn_of: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    user: str | None = None,
) -> Iterator[FileSession]:
    """Yield the numbered sessions of an object that have turns; those with only a date have none."""
    for _, key in _numbered(talk):
        at = f"{where}, {key}" if where else key
        if drafts := list(_drafts(talk[key], at, reading, turn_of)):
            yield session_of(key, drafts, timestamp=talk.get(f"{key}_date_time"), where=at, user=user)


def _drafts(
    value: object, where: str, reading: FileReader, turn_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Iterator[DraftTurn]:
    """Yield the turns of a session with their places."""
    if value is not None and not isinstance(value, list):
        what = f"{where.split(', ')[-1]!r} is a {kind_of(value)}; it should be a list of turns"
        reading.skips.fail(where, what)
    for n, turn in enumerate(_list(value)):
        if isinstance(turn, Mapping):
            yield DraftTurn(f"{where}[{n}]", turn_of(turn))
        else:
            reading.skips.fail(f"{where}[{n}]", f"there is a {kind_of(turn)} where a turn should be")


def read_longmemeval(reading: FileReader) -> Iterator[FileSession]:
    """Yield the sessions of each question's haystack, a memory of its own, without the marks of the answer."""
    for where, question in reading.objects():
        sessions, user = question.get("haystack_sessions"), question.get("question_id")
        dates, names = _list(question.get("haystack_dates")), _list(question.get("haystack_session_ids"))
        if not isinstance(sessions, list):
            reading.skips.fail(where, "the question has no 'haystack_sessions'")
            continue
        seen: Counter[str] = Counter()
        for n, session in enumerate(sessions):
            at = f"{where}, haystack_sessions[{n}]" if where else f"haystack_sessions[{n}]"
            drafts = list(_drafts(session, at, reading, _unmarked))
            if not drafts:
                reading.skips.leave_out("session without turns")
                continue
            name = str(names[n]) if n < len(names) else f"session-{n + 1}"
            seen[name] += 1
            yield session_of(
                name if seen[name] == 1 else f"{name}#{seen[name]}",
                drafts,
                timestamp=dates[n] if n < len(dates) else None,
                where=at,
                user=None if user is None else str(user),
            )


def _unmarked(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in turn.items() if key != "has_answer"}


def read_realtalk(reading: FileReader) -> Iterator[FileSession]:
    """Yield the numbered sessions of a chat."""
    for where, chat in reading.objects():
        yield from _numbered_sessions(chat, where, reading, _realtalk_turn)


def _realtalk_turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a turn: its cleaned text, and its caption where it has a picture."""
    kept = {"speaker": turn.get("speaker"), "content": turn.get("clean_text", turn.get("text"))}
    stamp = turn.get("date_time", turn.get("timestamp"))
    named = {"dia_id": turn.get("dia_id"), "blip_caption": turn.get("blip_caption"), "timestamp": stamp}
    return {key: value for key, value in {**kept, **named}.items() if value not in (None, "", [])}
