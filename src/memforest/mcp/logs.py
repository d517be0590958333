"""Log messages for clients that ask for them: how each call went, in our own words, and nothing of what was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    LOG_LEVEL_META_KEY,
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SetLevelRequestParams,
)

from memforest.display import one_line
from memforest.text import cut

LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""From the least severe on."""
KEPT = "memforest.mcp.log_level"


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
