"""From messages as a reader finds them to the sessions that are stored: order, times, and days of a long chat."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading

STATED = "stated_time"
"""Metadata of a turn whose own time lies before the turn in front of it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message: its place in the file, the turn as `ingest_session` takes it, and when it was said, if the file tells."""

    where: str
    turn: Mapping[str, Any]
    said: datetime | None = None


def in_time_order(drafts: Iterable[Draft]) -> list[Draft]:
    """Return messages sorted by their times; one without a time stays behind the one in front of it."""
    keyed, last = [], None
    for draft in drafts:
        last = draft.said or last
        keyed.append((last, draft))
    first = next((said for said, _ in keyed if said is not None), None)
    if first is None:
        return [draft for _, draft in keyed]
    return [draft for _, draft in sorted(keyed, key=lambda one: one[0] or first)]


def in_given_order(drafts: Iterable[Draft], reading: Reading) -> list[Draft]:
    """Return messages in the order of the conversation.

    A message whose time lies before that of the one in front of it keeps it as metadata: it was said no earlier than what it
    follows, whose time it takes when it is stored.
    """
    found, floor = [], None
    for draft in drafts:
        if draft.said is not None and floor is not None and draft.said < floor:
            turn = {key: value for key, value in draft.turn.items() if key != "timestamp"}
            draft = Draft(draft.where, {**turn, STATED: draft.said.isoformat()})
            reading.skips.notes["time before the message in front of it: that one's time counts"] += 1
        floor = draft.said or floor
        found.append(draft)
    return found


def session_of(
    session_id: str,
    drafts: Iterable[Draft],
    *,
    timestamp: str | int | float | None = None,
    metadata: Mapping[str, Any] | None = None,
    where: str = "",
    user: str | None = None,
) -> FileSession:
    """Return a session of messages."""
    found = list(drafts)
    return FileSession(
        session_id,
        tuple(draft.turn for draft in found),
        timestamp,
        metadata or {},
        where,
        user,
        tuple(draft.where for draft in found),
    )


def by_day(drafts: Iterable[Draft], reading: Reading, prefix: str, **more: Any) -> Iterator[FileSession]:
    """Yield the sessions of a long chat, one a day, called ``PREFIX/2024-05-01``; days are those of the reading's zone.

    A message from an earlier day than the one in front of it stays with that one's session. Only one day is held at a time.
    """
    day: date | None = None
    held: list[Draft] = []
    for draft in drafts:
        this = draft.said.astimezone(reading.options.zone).date() if draft.said is not None else day
        if held and this is not None and day is not None and this > day:
            yield session_of(_day_name(prefix, day), in_time_order(held), where=held[0].where, **more)
            held = []
        day = this if day is None or (this is not None and this > day) else day
        held.append(draft)
    if held:
        yield session_of(_day_name(prefix, day), in_time_order(held), where=held[0].where, **more)


def _day_name(prefix: str, day: date | None) -> str:
    return "/".join(str(part) for part in (prefix, day) if part)


def tool_call(name: object, arguments: object) -> dict[str, Any]:
    """Return the turn of a call of a tool: nobody's words, kept and found by its text."""
    shown = (
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    )
    tool = str(name or "tool")
    return {"role": "tool", "speaker": tool, "content": f"{tool}({shown})"}


def tool_result(name: object, text: str) -> dict[str, Any]:
    """Return the turn of what a tool gave back."""
    return {"role": "tool", "speaker": str(name or "tool"), "content": text}
