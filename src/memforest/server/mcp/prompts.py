"""Prompts that a person picks, resources to read by address, completion of these addresses, and log messages for clients.

What is read is quoted text. Log messages say how each call went, in our own words, and nothing of what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, get_args
from urllib.parse import quote as percent
from urllib.parse import unquote

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    LOG_LEVEL_META_KEY,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PromptReference,
    ResourceTemplateReference,
    SetLevelRequestParams,
)
from pydantic import Field

from memforest.errors import MemForestError
from memforest.read.changes import Change
from memforest.server.mcp.shapes import (
    User,
    fitting,
    found_text,
    memory_of,
    quote,
    quoted,
    timeline_line,
    turn_line,
    within_bounds,
)
from memforest.text import cut
from memforest.times import UNSAFE, one_line

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
        f"{found_text(result)}"
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
    return within_bounds(quoted(lines, NO_PROFILE).split("\n"), "There is more; search_memory finds it.")


async def timeline(ctx: Context, user: str, entity: str) -> str:
    """How a person, place or thing changed over time."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.timeline(entity, limit=MOST_RESOURCES)
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
        page = await memory.turns(session_id, limit=MOST_RESOURCES, cursor=cursor)
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


MOST_COMPLETIONS = 100
"""Values of one answer, as the protocol bounds it."""


async def complete(
    ctx: Context,
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion:
    """Return what an argument may go on to be; nothing where nothing is known, or where that would tell who the users are."""
    if not isinstance(ref, ResourceTemplateReference) or argument.name not in ("entity", "session_id"):
        return Completion(values=[])
    given = {} if context is None else context.arguments or {}
    begun = argument.value.casefold()
    try:
        async with memory_of(ctx, unquote(given.get("user", "")), "read") as memory:
            if argument.name == "entity":
                found = [one.name for one in await memory.entities(limit=10 * MOST_COMPLETIONS)]
            else:
                found = [one.session_id for one in await memory.sessions(limit=10 * MOST_COMPLETIONS)]
    except MemForestError:
        return Completion(values=[])
    values = [one for one in found if not UNSAFE.search(one) and one.casefold().startswith(begun)]
    return Completion(
        values=values[:MOST_COMPLETIONS], total=len(values), has_more=len(values) > MOST_COMPLETIONS
    )


LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""From the least severe on."""
KEPT = "memforest.server.mcp.log_level"


def take_levels(server: MCPServer[Any]) -> None:
    """Let clients of the protocol of 2025-11-25 say from which level on they are told; others say so in each request.

    Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
    """
    server._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, _set_level)


async def _set_level(ctx: ServerRequestContext[Any, Any], params: SetLevelRequestParams) -> EmptyResult:
    _kept(ctx)[KEPT] = params.level
    return EmptyResult()


async def log_calls(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request, and tell how a call of a tool went, if the client has asked for that; a middleware."""
    result = await call_next(ctx)
    if ctx.method == "tools/call" and isinstance(result, dict) and (least := _least(ctx)) is not None:
        level, text = _went(cut(one_line(str((ctx.params or {}).get("name"))), 60), result)
        if LEVELS.index(level) >= LEVELS.index(least):
            told = LoggingMessageNotificationParams(level=level, logger="memforest", data=text)
            await ctx.session.send_notification(LoggingMessageNotification(params=told), ctx.request_id)
    return result


def _least(ctx: ServerRequestContext[Any, Any]) -> LoggingLevel | None:
    """Return the level from which on a client wants to be told; None for one that has not asked."""
    meta: Mapping[str, Any] = ctx.meta or {}
    asked = meta.get(LOG_LEVEL_META_KEY, _kept(ctx).get(KEPT))
    return asked if asked in LEVELS else None


def _kept(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Return what is kept of a connection as long as it lasts, which the SDK hands to no handler."""
    return ctx.session._connection.state


def _went(tool: str, result: Mapping[str, Any]) -> tuple[LoggingLevel, str]:
    """Return how a call went: refused or failed, with something that the caller should know, or well."""
    if result.get("isError"):
        return "warning", f"{tool} was refused: {result['content'][0]['text']}"
    data: Mapping[str, Any] = result.get("structuredContent") or {}
    if data.get("failed"):
        return "warning", f"{tool}: {data['failed']} parts are stored and will be read later"
    if data.get("warnings"):
        return "warning", f"{tool}: {'; '.join(data['warnings'])}"
    return "info", f"{tool} is done"
