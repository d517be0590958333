"""Pages of the core's verbs, as items and the cursor of the next page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memforest.errors import InputError
from memforest.forest.handle import AsyncUserMemory
from memforest.memory.inspect.stored import TurnView
from memforest.memory.results import FactPage, SessionView, TimelineEntry

__all__ = ["facts", "sessions", "telling", "timeline", "turns"]

T = TypeVar("T")


def _has(verb: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(verb).parameters


def _cut(items: Sequence[T], limit: int, cursor: str | None) -> tuple[Sequence[T], str | None]:
    start = _offset(cursor)
    end = start + limit
    return items[start:end], str(end) if end < len(items) else None


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9:
        raise InputError("the cursor is none of this list; give next_cursor of the page before")
    return int(cursor)


async def timeline(
    memory: Any, entity: str, attribute: str | None, limit: int, cursor: str | None
) -> tuple[Sequence[TimelineEntry], str | None]:
    """Return a page of a timeline."""
    if _has(AsyncUserMemory.timeline, "cursor"):
        page = await memory.timeline(entity, attribute=attribute, limit=limit, cursor=cursor)
        return page, page.next_cursor
    return _cut(await memory.timeline(entity, attribute=attribute), limit, cursor)


async def sessions(
    memory: Any, limit: int, cursor: str | None
) -> tuple[Sequence[SessionView], int, str | None]:
    """Return a page of sessions, and how many there are."""
    if _has(AsyncUserMemory.sessions, "cursor"):
        page = await memory.sessions(limit=limit, cursor=cursor)
        return page, page.total, page.next_cursor
    found = await memory.sessions()
    return (*_cut(found, limit, cursor)[:1], len(found), _cut(found, limit, cursor)[1])


async def turns(memory: Any, session_id: str, limit: int) -> Sequence[TurnView]:
    """Return the first turns of a session."""
    if _has(AsyncUserMemory.turns, "limit"):
        found: Sequence[TurnView] = await memory.turns(session_id, limit=limit)
        return found
    return _cut(await memory.turns(session_id), limit, None)[0]


async def facts(memory: Any, cursor: str | None, **options: Any) -> tuple[FactPage, str | None]:
    """Return a page of facts."""
    if _has(AsyncUserMemory.list, "cursor"):
        page = await memory.list(cursor=cursor, **options)
        return page, page.next_cursor
    page = await memory.list(offset=_offset(cursor), **options)
    return page, None if page.next_offset is None else str(page.next_offset)


def telling(tell: Callable[..., object]) -> dict[str, Any]:
    """Return the option of `add` by which it tells how far it has come, where it has one."""
    return {"on_progress": tell} if _has(AsyncUserMemory.add, "on_progress") else {}
