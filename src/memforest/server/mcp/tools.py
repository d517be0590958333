"""The tools that only read: search, ask, timelines and facts.

`search` and `fetch` in the shape that ChatGPT's connectors want.

Source: https://developers.openai.com/apps-sdk/build/mcp-server


The tools of the profile "full" that look into a memory: a fact, sessions, trees, counts.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote as percent
from urllib.parse import unquote

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memforest.errors import NotFoundError
from memforest.read.results import Evidence
from memforest.read.stored import Source
from memforest.reading.timestamps import zone_named
from memforest.server.mcp.shapes import (
    NOTE,
    AnswerShape,
    AsOf,
    ConnectorHit,
    Cursor,
    During,
    Event,
    Facts,
    FactShown,
    Fetched,
    Filters,
    Hits,
    Id,
    Limit,
    SearchShape,
    Sessions,
    StatsShown,
    Timeline,
    Tokens,
    TopK,
    Trees,
    User,
    citation_of,
    entry_of,
    evidence_lines,
    evidence_of,
    fact_line,
    fact_of,
    found_text,
    given,
    memory_of,
    nodes_of,
    quote,
    quoted,
    said_result,
    session_of,
    timeline_line,
    turn_line,
    window,
)
from memforest.text import cut
from memforest.times import one_line


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
) -> Annotated[CallToolResult, SearchShape]:
    """Find what was said or learnt in earlier conversations: dated quotations, best first."""
    options: dict[str, Any] = {
        "as_of": given(as_of),
        "during": window(during),
        "filters": filters,
        "top_k": top_k,
        "max_tokens": max_tokens,
    }
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(query, **options)
    warnings = [one_line(one) for one in result.warnings]
    data = SearchShape(note=NOTE, evidence=[evidence_of(one) for one in result.evidence], warnings=warnings)
    return said_result(data, found_text(result))


async def ask_memory(
    ctx: Context,
    *,
    question: str,
    as_of: AsOf = "",
    reference_date: Annotated[str, Field(description="ISO 8601; the present of the question")] = "",
    user: User,
) -> Annotated[CallToolResult, AnswerShape]:
    """Answer one question from memory, with evidence, or abstain."""
    options: dict[str, Any] = {"as_of": given(as_of), "reference_date": given(reference_date)}
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.ask(question, **options)
    evidence = [citation_of(one) for one in result.citations]
    if result.answer is None:
        reason = one_line(result.reason)
        data = AnswerShape(note=NOTE, abstained=True, reason=reason, evidence=evidence)
        return said_result(data, f"Memory has no answer: {reason}")
    lines = evidence_lines(result.citations, zone_named(result.result.timezone))
    data = AnswerShape(note=NOTE, answer=one_line(result.answer), abstained=False, evidence=evidence)
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


TITLE_CHARS = 80
AROUND = 2
"""Turns that are fetched before and behind the one that was found."""
TOP_K = 10


async def search(ctx: Context, *, query: str, user: User) -> Annotated[CallToolResult, Hits]:
    """Search memory; returns ids for fetch."""
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(query, top_k=TOP_K)
        user_id = memory.user_id
    data = Hits(results=[_hit(one, user_id) for one in result.evidence if one.sources])
    return said_result(data)


async def fetch(ctx: Context, *, id: str, user: User) -> Annotated[CallToolResult, Fetched]:
    """Return what an id of search stands for, quoted."""
    kind, _, rest = id.partition(":")
    parts = [unquote(one) for one in rest.split(":")]
    async with memory_of(ctx, user, "read") as memory:
        if kind == "fact" and len(parts) == 1:
            fact = await memory.get(parts[0])
            title, lines, said = fact.text, [fact_line(fact)], fact.said
            url = _url(memory.user_id, fact.sources)
        elif kind == "turn" and len(parts) == 2:
            session_id, turn_id = parts
            turns = list(await memory.turns(session_id))
            at = next((at for at, one in enumerate(turns) if one.id == turn_id), None)
            if at is None:
                raise NotFoundError("there is no such turn; give an id that search returned")
            shown = turns[max(0, at - AROUND) : at + AROUND + 1]
            title, said = turns[at].text, turns[at].said
            lines = [turn_line(one) for one in shown]
            url = _url(memory.user_id, (Source(session_id, (turn_id,)),))
        else:
            raise NotFoundError("there is no such id; give one that search returned")
    data = Fetched(
        id=id,
        title=cut(one_line(title), TITLE_CHARS),
        text=quoted(lines, ""),
        url=url,
        metadata={"said": said.isoformat()},
    )
    return said_result(data)


def _hit(one: Evidence, user_id: str) -> ConnectorHit:
    source = one.sources[0]
    parts = (source.session_id, source.turn_ids[0])
    place = (
        "fact:" + percent(one.fact_id, safe="")
        if one.fact_id
        else "turn:" + ":".join(percent(part, safe="") for part in parts)
    )
    title = cut(f"{one.said:%Y-%m-%d} {one_line(one.speaker)}: {one_line(one.text)}", TITLE_CHARS)
    return ConnectorHit(id=place, title=title, url=_url(user_id, one.sources))


def _url(user_id: str, sources: tuple[Source, ...]) -> str:
    session = percent(sources[0].session_id, safe="") if sources else ""
    return f"memory://{percent(user_id, safe='')}/sessions/{session}"


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
