"""What a chat file is read into: sessions, and an account of what was not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timezone, tzinfo
from typing import Any

MOST_NAMED = 1000
"""Parts that could not be read and are named with their places; further ones are counted."""


@dataclass(frozen=True, slots=True)
class FileSession:
    """A session as a file has it.

    `turns` are messages as `AsyncMemForest.ingest_session` takes them. `user` says whose memory it belongs to, None where the
    file does not. `timestamp` is the time of turns without one of their own. `where` is the session's place in the file,
    and `places` are those of its turns, in order; empty where their number says enough.
    """

    session_id: str
    turns: tuple[Mapping[str, Any], ...]
    timestamp: str | int | float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    user: str | None = None
    places: tuple[str, ...] = ()

    def place(self, position: int) -> str:
        """Return where a turn stands in the file."""
        if position < len(self.places):
            return self.places[position]
        turn = f"turn {position}"
        return f"{self.where}, {turn}" if self.where else turn


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part of a file that could not be read and is not stored: where it stands, and why."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


@dataclass(slots=True)
class Skips:
    """What of a file is not stored."""

    left_out: Counter[str] = field(default_factory=Counter)
    """Parts that are no messages of a person, an assistant or a tool, counted by what they are."""
    wrong: list[SkippedPart] = field(default_factory=list)
    """The first parts that could not be read."""
    wrong_count: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    """What was stored otherwise than the file has it, counted."""

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count parts that are left out on purpose."""
        if count:
            self.left_out[what] += count

    def add(self, other: Skips, name: str) -> None:
        """Add what of one file of an archive is not stored."""
        self.left_out.update(other.left_out)
        self.notes.update(other.notes)
        for part in other.wrong:
            self.fail(f"{name}, {part.where}" if part.where else name, part.reason)
        self.wrong_count += other.wrong_count - len(other.wrong)

    def fail(self, where: str, reason: str) -> None:
        """Note a part that could not be read."""
        self.wrong_count += 1
        if len(self.wrong) < MOST_NAMED:
            self.wrong.append(SkippedPart(where, reason))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader cannot know from the file.

    Args:
        session_id: names a session, or a chat, that has no id of its own; None when there is no name to take.
        day_first: whether ``03/04/2024`` is 3 April; None is as the file proves.
        zone: where times without an offset were said, and in whose days a long chat is cut into sessions.
        owner: the participant whose memory it is; their turns get the role ``user``.
    """

    session_id: str | None = None
    day_first: bool | None = None
    zone: tzinfo = timezone.utc
    owner: str | None = None
