"""The tools of the profile "full" that look into a memory: a fact, sessions, trees, counts."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memforest.display import one_line
from memforest.mcp.arguments import Cursor, Id, Limit, User, given
from memforest.mcp.desk import memory_of
from memforest.mcp.quoted import fact_line, quote, quoted
from memforest.mcp.shapes import (
    NOTE,
    Event,
    FactShown,
    Sessions,
    StatsShown,
    Trees,
    fact_of,
    nodes_of,
    said_result,
    session_of,
)

MAX_DEPTH = 10
MAX_NODES = 200


async def get_fact(ctx: Context, *, fact_id: Id, user: User) -> Annotated[CallToolResult, FactShown]:
    """Return one fact with its sources and all that happened to it."""
    async with memory_of(ctx, user, "read") as memory:
        fact = await memory.get(fact_id)
        history = await memory.history(fact_id)
    data = FactShown(
        note=NOTE,
        fact=fact_of(fact),
        verdict=fact.verdict,
        entities=[one_line(one) for one in fact.entities],
        topics=[one_line(one) for one in fact.topics],
        history=[
            Event(kind=one.kind, at=one.at.isoformat(), text=one_line(one.text), key=one.key)
            for one in history
        ],
    )
    events = [f"{one.at:%Y-%m-%d} {one.kind}: {quote(one.text)}" for one in history]
    return said_result(data, quoted([fact_line(fact), *events], ""))


async def list_sessions(
    ctx: Context, *, cursor: Cursor = "", limit: Limit = 20, user: User
) -> Annotated[CallToolResult, Sessions]:
    """List conversations with their ids, in time order."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.sessions(limit=limit, cursor=given(cursor))
    data = Sessions(
        note=NOTE, sessions=[session_of(one) for one in page], total=page.total, next_cursor=page.next_cursor
    )
    lines = [f"{quote(one.session_id)}: {one.turns} turns, {one.start:%Y-%m-%d}" for one in page]
    return said_result(data, quoted(lines, "There are no sessions."))


async def browse_tree(
    ctx: Context,
    *,
    scope: Annotated[Id, Field(description="A session or entity; all if left out")] = "",
    index: Id = "",
    depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)] = 1,
    limit: Annotated[int, Field(ge=1, le=MAX_NODES)] = 50,
    user: User,
) -> Annotated[CallToolResult, Trees]:
    """Return summaries as trees over time, each node before those below it."""
    async with memory_of(ctx, user, "read") as memory:
        trees = await memory.tree(given(scope), index=given(index), depth=depth, limit=limit)
    data = Trees(note=NOTE, nodes=nodes_of(trees))
    lines = [
        f"{'  ' * one.depth}{one.start[:10]} to {one.end[:10]} {quote(one.title or one.summary)}"
        for one in data.nodes
    ]
    return said_result(data, quoted(lines, "There are no trees."))


async def memory_stats(ctx: Context, *, user: User) -> Annotated[CallToolResult, StatsShown]:
    """Count what is remembered."""
    async with memory_of(ctx, user, "read") as memory:
        stats = await memory.stats()
    data = StatsShown(
        sessions=stats.sessions,
        turns=stats.turns,
        facts=stats.facts,
        entities=dict(stats.entities),
        indexes=list(stats.indexes),
        failed_chunks=stats.failed_chunks,
        unfinished=stats.unfinished,
        bytes=stats.bytes,
    )
    return said_result(data, f"{stats.sessions} sessions, {stats.turns} turns, {stats.facts} facts.")
