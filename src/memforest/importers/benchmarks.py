"""The files of three benchmarks of long conversations, as they are published: what was said, without questions and answers.

LoCoMo (https://github.com/snap-research/locomo), LongMemEval (https://github.com/xiaowu0162/LongMemEval) and REALTALK
(https://github.com/danny911kr/REALTALK).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading, kind_of
from memforest.importers.sample import Sample

_SESSION_KEY = re.compile(r"session_(\d{1,9})")


def recognises_locomo(sample: Sample) -> bool:
    """Return whether it is samples with a conversation of numbered sessions."""
    found = sample.objects
    return bool(found) and all(_numbered(one.get("conversation")) for one in found)


def recognises_longmemeval(sample: Sample) -> bool:
    """Return whether it is questions with a haystack of sessions."""
    return any("haystack_sessions" in one for one in sample.objects)


def recognises_realtalk(sample: Sample) -> bool:
    """Return whether it is a chat of numbered sessions."""
    return any(_numbered(one) and ("name" in one or _is_realtalk(one)) for one in sample.objects)


def _is_realtalk(value: Mapping[str, Any]) -> bool:
    return any(
        isinstance(turn, Mapping) and "clean_text" in turn
        for _, key in _numbered(value)
        for turn in _list(value[key])
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbered(value: object) -> list[tuple[int, str]]:
    """Return the numbers and names of an object's numbered sessions, in order."""
    if not isinstance(value, Mapping):
        return []
    return sorted((int(found[1]), key) for key in value if (found := _SESSION_KEY.fullmatch(str(key))))


def read_locomo(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of each sample, which is a memory of its own, at their dates; captions are part of the text."""
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
            reading.skips.fail(where, f"the sample_id {name!r} came before; ids are unique in a file")
        else:
            users.add(name)
            yield from _locomo_sessions(talk, name, where, reading)


def _locomo_sessions(
    talk: Mapping[str, Any], user: str | None, where: str, reading: Reading
) -> Iterator[FileSession]:
    found = 0
    for _, key in _numbered(talk):
        at = f"{where}, {key}" if where else key
        turns = _turns(talk[key], at, reading)
        if turns:
            found += 1
            yield FileSession(
                key,
                tuple(turn for _, turn in turns),
                talk.get(f"{key}_date_time"),
                where=at,
                user=user,
                places=tuple(place for place, _ in turns),
            )
    if not found:
        reading.skips.fail(where, "the conversation has no session with turns")


def _turns(value: object, where: str, reading: Reading) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the turns of a session with their places; a session that is announced by its date only has none."""
    if value is not None and not isinstance(value, list):
        reading.skips.fail(
            where, f"{where.split(', ')[-1]!r} is a {kind_of(value)}; it should be a list of turns"
        )
    found = []
    for n, turn in enumerate(_list(value)):
        if isinstance(turn, Mapping):
            found.append((f"{where}[{n}]", turn))
        else:
            reading.skips.fail(f"{where}[{n}]", f"there is a {kind_of(turn)} where a turn should be")
    return found


def read_longmemeval(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of each question's haystack, a memory of its own; marks of where the answer is are left out."""
    for where, question in reading.objects():
        sessions = question.get("haystack_sessions")
        dates, names = _list(question.get("haystack_dates")), _list(question.get("haystack_session_ids"))
        if not isinstance(sessions, list):
            reading.skips.fail(where, "the question has no 'haystack_sessions'")
            continue
        user = question.get("question_id")
        seen: dict[str, int] = {}
        for n, session in enumerate(sessions):
            at = f"{where}, haystack_sessions[{n}]" if where else f"haystack_sessions[{n}]"
            turns = _turns(session, at, reading)
            if not turns:
                reading.skips.leave_out("session without turns")
                continue
            name = str(names[n]) if n < len(names) else f"session-{n + 1}"
            seen[name] = seen.get(name, 0) + 1
            yield FileSession(
                name if seen[name] == 1 else f"{name}#{seen[name]}",
                tuple({key: one for key, one in turn.items() if key != "has_answer"} for _, turn in turns),
                dates[n] if n < len(dates) else None,
                where=at,
                user=None if user is None else str(user),
                places=tuple(place for place, _ in turns),
            )


def read_realtalk(reading: Reading) -> Iterator[FileSession]:
    """Yield the numbered sessions of a chat."""
    for where, chat in reading.objects():
        for _, key in _numbered(chat):
            at = f"{where}, {key}" if where else key
            turns = [(place, _realtalk_turn(turn)) for place, turn in _turns(chat[key], at, reading)]
            if turns:
                yield FileSession(
                    key,
                    tuple(turn for _, turn in turns),
                    chat.get(f"{key}_date_time"),
                    where=at,
                    places=tuple(place for place, _ in turns),
                )


def _realtalk_turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a turn: its cleaned text, and its caption where it has a picture."""
    kept = {"speaker": turn.get("speaker"), "content": turn.get("clean_text", turn.get("text"))}
    stamp = turn.get("date_time", turn.get("timestamp"))
    named = {"dia_id": turn.get("dia_id"), "blip_caption": turn.get("blip_caption"), "timestamp": stamp}
    return {key: value for key, value in {**kept, **named}.items() if value not in (None, "", [])}
