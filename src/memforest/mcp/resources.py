"""What can be read by address: profiles, timelines and sessions, as quoted text."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote as percent

from mcp.server.mcpserver import Context

from memforest.mcp.desk import memory_of
from memforest.mcp.quoted import quote, quoted, timeline_line, turn_line
from memforest.mcp.sentences import fitting, within_bounds

PROFILE = "memory://{user}/profile"
NO_PROFILE = "There is no profile yet."
SESSION_FROM = "memory://{user}/sessions/{session_id}/from/{cursor}"
MOST = 500
"""Lines of one resource; it says where more is."""


def profile_address(user_id: str) -> str:
    """Return the address of a user's profile."""
    return PROFILE.replace("{user}", percent(user_id, safe=""))


async def profile(ctx: Context, user: str) -> str:
    """What is known of who takes part, by now."""
    async with memory_of(ctx, user, "read") as memory:
        found = await memory.profile()
    lines = [f"{quote(section.participant)}: {quote(line.text)}" for section in found for line in section]
    return within_bounds(quoted(lines, NO_PROFILE).split("\n"), "There is more; search_memory finds it.")


async def timeline(ctx: Context, user: str, entity: str) -> str:
    """How a person, place or thing changed over time."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.timeline(entity, limit=MOST)
    lines = quoted([timeline_line(one) for one in page], "Nothing is known of that.").split("\n")
    more = "There is more; get_timeline pages through it."
    return within_bounds([*lines, more] if page.next_cursor else lines, more)


async def session(ctx: Context, user: str, session_id: str) -> str:
    """What was said in a session."""
    return await _session(ctx, user, session_id, None)


async def session_from(ctx: Context, user: str, session_id: str, cursor: str) -> str:
    """What was said in a session, from where an earlier part of it ended."""
    return await _session(ctx, user, session_id, cursor)


async def _session(ctx: Context, user: str, session_id: str, cursor: str | None) -> str:
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.turns(session_id, limit=MOST, cursor=cursor)
        lines = [turn_line(one) for one in page]
        if (fits := fitting(lines)) < len(lines):
            page = await memory.turns(session_id, limit=fits, cursor=cursor)
        user_id = memory.user_id
    said = quoted(lines[: len(page)], "Nothing was said.")
    if page.next_cursor is None:
        return said
    rest = SESSION_FROM
    for name, value in (("user", user_id), ("session_id", session_id), ("cursor", page.next_cursor)):
        rest = rest.replace(f"{{{name}}}", percent(value, safe=""))
    return f"{said}\nThe session goes on: {rest}"


TEMPLATES: tuple[tuple[str, Callable[..., Coroutine[Any, Any, str]]], ...] = (
    (PROFILE, profile),
    ("memory://{user}/timeline/{entity}", timeline),
    ("memory://{user}/sessions/{session_id}", session),
    (SESSION_FROM, session_from),
)
