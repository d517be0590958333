"""Jobs and their sessions as they are stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it is stored, with the counts over its sessions."""

    number: int
    id: str
    owner: str | None
    state: str
    made_ms: int
    changed_ms: int
    ended_ms: int | None
    turns: int
    refreshed: int
    error: str | None
    max_calls: int | None
    max_tokens: int | None
    request: str | None
    users: int
    sessions: int
    received: int
    done: int
    chunks: int
    chunks_done: int
    chunks_failed: int
    last_event: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a job: its place in the request, whose it is, and its digest; the last two None when it was no session."""

    place: int
    file: str | None
    digest: str | None
    state: str = "new"
    error: str | None = None
