"""Prompts that a person picks, resources to read by address, and completion of these addresses.

What is read is quoted text.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import quote as percent
from urllib.parse import unquote

from mcp import types
from mcp.server.mcpserver import Context
from pydantic import Field

from memforest.errors import MemForestError
from memforest.read.changes import Change
from memforest.server.mcp import shapes
from memforest.server.mcp.shapes import User, memory_of, quote, quoted
from memforest.times import UNSAFE

MOST_TOKENS = 2_000
MOST_CHANGES = 100


async def recall(
    ctx: Context, question: Annotated[str, Field(description="What to recall")], user: User
) -> str:
    """Answer a question from what memory recalls."""
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(question, max_tokens=MOST_TOKENS)
    return (
        f"Answer this question from the evidence below, and say so if it does not answer it: {quote(question)}\n\n"
        f"{shapes.found_text(result)}"
    )


async def what_changed(
    ctx: Context,
    since: Annotated[str, Field(description="ISO 8601")],
    user: User,
    until: Annotated[str, Field(description="ISO 8601; now if left out")] = "",
) -> str:
    """Sum up what memory has learnt, corrected and forgotten since a time."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.changes(since, until or None, limit=MOST_CHANGES)
    more = f"\nThere are more than these {MOST_CHANGES}." if page.next else ""
    lines = quoted([_line(one) for one in page], "Nothing has changed.")
    return f"Sum up for me what has changed in my memory since {quote(since)}.\n\n{lines}{more}"


def _line(one: Change) -> str:
    count = f" {one.count}" if one.count > 1 else ""
    about = [quote(text) for text in (one.text or one.session_id,) if text]
    superseded = f" instead of {', '.join(quote(text) for text in one.superseded)}" if one.superseded else ""
    words = [word for word in (one.kind + count, one.what, *about) if word]
    return f"{one.at:%Y-%m-%d %H:%M} UTC, {' '.join(words)}{superseded}"


PROMPTS = (recall, what_changed)


PROFILE = "memory://{user}/profile"
NO_PROFILE = "There is no profile yet."
SESSION_FROM = "memory://{user}/sessions/{session_id}/from/{cursor}"
MOST_RESOURCES = 500
"""Lines of one resource; it says where more is."""


def profile_address(user_id: str) -> str:
    """Return the address of a user's profile."""
    return PROFILE.replace("{user}", percent(user_id, safe=""))


async def profile(ctx: Context, user: str) -> str:
    """What is known of who takes part, by now."""
    async with memory_of(ctx, user, "read") as memory:
        found = await memory.profile()
    lines = [f"{quote(section.participant)}: {quote(line.text)}" for section in found for line in section]
    return shapes.within_bounds(
        quoted(lines, NO_PROFILE).split("\n"), "There is more; search_memory finds it."
    )


async def timeline(ctx: Context, user: str, entity: str) -> str:
    """How a person, place or thing changed over time."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.timeline(entity, limit=MOST_RESOURCES)
    lines = quoted([shapes.timeline_line(one) for one in page], "Nothing is known of that.").split("\n")
    more = "There is more; get_timeline pages through it."
    return shapes.within_bounds([*lines, more] if page.next_cursor else lines, more)


async def session(ctx: Context, user: str, session_id: str) -> str:
    """What was said in a session."""
    return await session_from(ctx, user, session_id, None)


async def session_from(ctx: Context, user: str, session_id: str, cursor: str | None) -> str:
    """What was said in a session, from where an earlier part of it ended."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.turns(session_id, limit=MOST_RESOURCES, cursor=cursor)
        lines = [shapes.turn_line(one) for one in page]
        if (fits := shapes.fitting(lines)) < len(lines):
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


MOST_COMPLETIONS = 100
"""Values of one answer, as the protocol bounds it."""


async def complete(
    ctx: Context,
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    """Return completions of an argument; none where nothing is known, or where they would reveal users."""
    if not isinstance(ref, types.ResourceTemplateReference) or argument.name not in ("entity", "session_id"):
        return types.Completion(values=[])
    given = {} if context is None else context.arguments or {}
    begun = argument.value.casefold()
    try:
        async with memory_of(ctx, unquote(given.get("user", "")), "read") as memory:
            if argument.name == "entity":
                found = [one.name for one in await memory.entities(limit=10 * MOST_COMPLETIONS)]
            else:
                found = [one.session_id for one in await memory.sessions(limit=10 * MOST_COMPLETIONS)]
    except MemForestError:
        return types.Completion(values=[])
    values = [one for one in found if not UNSAFE.search(one) and one.casefold().startswith(begun)]
    return types.Completion(
        values=values[:MOST_COMPLETIONS], total=len(values), has_more=len(values) > MOST_COMPLETIONS
    )
