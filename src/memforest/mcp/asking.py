"""The tools that only read: search, ask, timelines and facts."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memforest.calendar import zone_named
from memforest.display import one_line
from memforest.forest.options import QueryOptions
from memforest.mcp.arguments import (
    AsOf,
    Cursor,
    During,
    Filters,
    Id,
    Limit,
    Tokens,
    TopK,
    User,
    given,
    window,
)
from memforest.mcp.desk import memory_of
from memforest.mcp.quoted import evidence_lines, fact_line, found_text, quote, quoted, timeline_line
from memforest.mcp.shapes import (
    NOTE,
    Answered,
    Facts,
    Found,
    Timeline,
    citation_of,
    entry_of,
    evidence_of,
    fact_of,
    said_result,
)


async def search_memory(
    ctx: Context,
    *,
    query: str,
    as_of: AsOf = "",
    during: During = None,
    filters: Filters = None,
    top_k: TopK = 8,
    max_tokens: Tokens = None,
    user: User,
) -> Annotated[CallToolResult, Found]:
    """Find what was said or learnt in earlier conversations: dated quotations, best first."""
    options: QueryOptions = {
        "as_of": given(as_of),
        "during": window(during),
        "filters": filters,
        "top_k": top_k,
        "max_tokens": max_tokens,
    }
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(query, **options)
    warnings = [one_line(one) for one in result.warnings]
    data = Found(note=NOTE, evidence=[evidence_of(one) for one in result.evidence], warnings=warnings)
    return said_result(data, found_text(result))


async def ask_memory(
    ctx: Context,
    *,
    question: str,
    as_of: AsOf = "",
    reference_date: Annotated[str, Field(description="ISO 8601; the present of the question")] = "",
    user: User,
) -> Annotated[CallToolResult, Answered]:
    """Answer one question from memory, with evidence, or abstain."""
    options: QueryOptions = {"as_of": given(as_of), "reference_date": given(reference_date)}
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.ask(question, **options)
    evidence = [citation_of(one) for one in result.citations]
    if result.answer is None:
        reason = one_line(result.reason)
        data = Answered(note=NOTE, abstained=True, reason=reason, evidence=evidence)
        return said_result(data, f"Memory has no answer: {reason}")
    lines = evidence_lines(result.citations, zone_named(result.result.timezone))
    data = Answered(note=NOTE, answer=one_line(result.answer), abstained=False, evidence=evidence)
    return said_result(data, quoted([f"Answer: {quote(result.answer)}", *lines], ""))


async def get_timeline(
    ctx: Context,
    *,
    entity: Id,
    attribute: Id = "",
    cursor: Cursor = "",
    limit: Limit = 50,
    user: User,
) -> Annotated[CallToolResult, Timeline]:
    """Return how a person, place or thing changed: states with start and end, and events, in time order."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.timeline(entity, attribute=given(attribute), limit=limit, cursor=given(cursor))
    data = Timeline(note=NOTE, entries=[entry_of(one) for one in page], next_cursor=page.next_cursor)
    return said_result(data, quoted([timeline_line(one) for one in page], "Nothing is known of that."))


async def list_facts(
    ctx: Context,
    *,
    entity: Id = "",
    session_id: Id = "",
    as_of: AsOf = "",
    filters: Filters = None,
    cursor: Cursor = "",
    limit: Limit = 20,
    user: User,
) -> Annotated[CallToolResult, Facts]:
    """List facts with their ids, in time order."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.list(
            cursor=given(cursor),
            entity=given(entity),
            session_id=given(session_id),
            as_of=given(as_of),
            filters=filters,
            limit=limit,
        )
    data = Facts(
        note=NOTE, facts=[fact_of(one) for one in page], total=page.total, next_cursor=page.next_cursor
    )
    none = " ".join(["There are no such facts.", *map(one_line, page.warnings)])
    return said_result(data, quoted([fact_line(one) for one in page], none))
