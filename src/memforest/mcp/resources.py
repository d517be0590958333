"""What can be read by address: profiles, timelines and sessions, as quoted text."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote as percent

from mcp.server.mcpserver import Context

from memforest.mcp.desk import memory_of
from memforest.mcp.quoted import quote, quoted, timeline_line, turn_line

__all__ = ["PROFILE", "TEMPLATES", "profile_address"]

PROFILE = "memory://{user}/profile"
NO_PROFILE = "There is no profile yet."
MOST = 500
"""Lines of one resource; tools page through more."""


def profile_address(user_id: str) -> str:
    """Return the address of a user's profile."""
    return PROFILE.replace("{user}", percent(user_id, safe=""))


async def profile(ctx: Context, user: str) -> str:
    """What is known of who takes part, by now."""
    async with memory_of(ctx, user, "read") as memory:
        found = await memory.profile()
    lines = [f"{quote(section.participant)}: {quote(line.text)}" for section in found for line in section]
    return quoted(lines[:MOST], NO_PROFILE)


async def timeline(ctx: Context, user: str, entity: str) -> str:
    """How a person, place or thing changed over time."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.timeline(entity, limit=MOST)
    return quoted([timeline_line(one) for one in page], "Nothing is known of that.")


async def session(ctx: Context, user: str, session_id: str) -> str:
    """What was said in a session."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.turns(session_id, limit=MOST)
    return quoted([turn_line(one) for one in page], "Nothing was said.")


TEMPLATES: tuple[tuple[str, Callable[..., Coroutine[Any, Any, str]]], ...] = (
    (PROFILE, profile),
    ("memory://{user}/timeline/{entity}", timeline),
    ("memory://{user}/sessions/{session_id}", session),
)
