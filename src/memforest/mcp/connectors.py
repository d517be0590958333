"""`search` and `fetch` in the shape that ChatGPT's connectors want.

Source: https://developers.openai.com/apps-sdk/build/mcp-server
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote as percent
from urllib.parse import unquote

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult

from memforest.display import one_line
from memforest.errors import NotFoundError
from memforest.mcp.arguments import User
from memforest.mcp.desk import memory_of
from memforest.mcp.quoted import fact_line, quoted, turn_line
from memforest.mcp.shapes import Fetched, Hit, Hits, said_result
from memforest.memory.results import Evidence, Source
from memforest.text import cut

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


def _hit(one: Evidence, user_id: str) -> Hit:
    source = one.sources[0]
    parts = (source.session_id, source.turn_ids[0])
    place = (
        "fact:" + percent(one.fact_id, safe="")
        if one.fact_id
        else "turn:" + ":".join(percent(part, safe="") for part in parts)
    )
    title = cut(f"{one.said:%Y-%m-%d} {one_line(one.speaker)}: {one_line(one.text)}", TITLE_CHARS)
    return Hit(id=place, title=title, url=_url(user_id, one.sources))


def _url(user_id: str, sources: tuple[Source, ...]) -> str:
    session = percent(sources[0].session_id, safe="") if sources else ""
    return f"memory://{percent(user_id, safe='')}/sessions/{session}"
