"""OpenAI's route for searching a vector store: a user's memory is a store, what is remembered its chunks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends
from pydantic import Field

from memforest.server.rest.compat import StrictBody, facade
from memforest.server.rest.mem0_records import Mem0Memory, Memories, read_openai
from memforest.server.rest.routing import Forest, Needs, Who

router = facade("/compat/openai/v1")

MOST_ATTRIBUTES = 16
MOST_KEY_CHARS = 64
MOST_VALUE_CHARS = 512
"""How much OpenAI allows of attributes: a client may check it."""

Text = Annotated[str, Field(min_length=1)]


class Ranking(StrictBody):
    """``ranking_options``: rankers are accepted and change nothing, as the server has one of its own."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


class VectorSearch(StrictBody):
    """The body of a search."""

    query: Text | Annotated[list[Text], Field(min_length=1, max_length=16)]
    filters: Any = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: Ranking | None = None
    rewrite_query: bool = False


@router.post("/vector_stores/{user:rest}/search", dependencies=[Depends(Needs("read"))], response_model=None)
async def search(user: str, body: VectorSearch, forest: Forest, who: Who) -> dict[str, Any]:
    """Search a user's memory; several queries are searched one after the other, and each result is given once.

    Raises:
        NotFoundError: if the caller may not see that user.
    """
    wanted = read_openai(body.filters)
    least = 0.0 if body.ranking_options is None else body.ranking_options.score_threshold
    queries = [body.query] if isinstance(body.query, str) else body.query
    memories = Memories(forest, who.user_id(user))
    found: dict[str, Mem0Memory] = {}
    for query in queries:
        for record in await memories.search(query, wanted, most=body.max_num_results, least=least):
            known = found.get(record.id)
            if known is None or (record.score or 0.0) > (known.score or 0.0):
                found[record.id] = record
    best = sorted(found.values(), key=lambda record: -(record.score or 0.0))[: body.max_num_results]
    return {
        "object": "vector_store.search_results.page",
        "search_query": queries,
        "data": [_shown(record) for record in best],
        "has_more": False,
        "next_page": None,
    }


def _shown(record: Mem0Memory) -> dict[str, Any]:
    kept = {
        key[:MOST_KEY_CHARS]: value[:MOST_VALUE_CHARS] if isinstance(value, str) else value
        for key, value in list(record.attributes().items())[:MOST_ATTRIBUTES]
    }
    return {
        "file_id": record.id,
        "filename": record.session_id,
        "score": record.score or 0.0,
        "attributes": kept,
        "content": [{"type": "text", "text": record.text}],
    }
