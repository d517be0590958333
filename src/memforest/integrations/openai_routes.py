"""OpenAI's search of a vector store, as its client `openai` calls it: the store is a user's memory.

What it means here is told in docs/compat.md. Its errors are problems that this client can read too; the route is left out of the
OpenAPI description.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from memforest.errors import MemForestError
from memforest.integrations import records
from memforest.integrations.mem0_routes import REST
from memforest.server.rest import problems
from memforest.server.rest.bodies import Many
from memforest.server.rest.routing import Forest, KeyedRoute, Who, needs

OPENAI = "/compat/openai/v1"


class OpenAIRoute(KeyedRoute):
    """A route whose errors are problems that OpenAI's client can read too, in ``error``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which answers errors itself."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except (MemForestError, HTTPException, RequestValidationError) as error:
                handlers = request.app.exception_handlers
                answer = await next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)(
                    request, error
                )
            body = json.loads(answer.body)
            body["error"] = {
                "message": body["detail"],
                "type": "invalid_request_error" if answer.status_code < 500 else "server_error",
                "code": body["type"].rpartition(":")[2],
                "param": None,
            }
            del answer.headers["content-length"]
            return JSONResponse(body, answer.status_code, answer.headers, problems.MEDIA_TYPE)

        return handled


routes = APIRouter(prefix=OPENAI, route_class=OpenAIRoute, include_in_schema=False)

MOST_ATTRIBUTES = 16
MOST_KEY_CHARS = 64
MOST_VALUE_CHARS = 512
"""How much OpenAI allows of attributes: a client may check it."""

Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Comparison(_Strict):
    """A filter on an attribute."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Text
    value: Any

    def read(self) -> records.Filter:
        """Return it as a filter."""
        return records.condition(("attributes", self.key), self.type, self.value)


class Compound(_Strict):
    """Filters of which all or any have to pass."""

    type: Literal["and", "or"]
    filters: Annotated[Many[Comparison | Compound], Field(min_length=1)]

    def read(self) -> records.Filter:
        """Return it as a filter."""
        op = "all" if self.type == "and" else "any"
        return records.Filter(op, tuple(one.read() for one in self.filters))


class Ranking(_Strict):
    """``ranking_options``: rankers are accepted and change nothing, as the server has one of its own."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


class VectorSearch(_Strict):
    """The body of a search."""

    query: Annotated[list[Text], Field(min_length=1, max_length=16), BeforeValidator(_listed)]
    filters: Annotated[Comparison | Compound | None, BeforeValidator(records.bounded)] = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: Ranking = Ranking()
    rewrite_query: bool = False


@routes.post(f"/vector_stores/{{user:{REST}}}/search", dependencies=[needs("read")], response_model=None)
async def search_store(user: str, body: VectorSearch, forest: Forest, who: Who) -> dict[str, Any]:
    """Search a user's memory; several queries run one after the other, and each result is returned once.

    Raises:
        NotFoundError: if the caller may not see that user.
    """
    found = await records.search(
        [records.Memories(forest, who.user_id(user))],
        body.query,
        records.Filter() if body.filters is None else body.filters.read(),
        body.max_num_results,
        least=body.ranking_options.score_threshold,
    )
    return {
        "object": "vector_store.search_results.page",
        "search_query": body.query,
        "data": [_result(record) for record in found],
        "has_more": False,
        "next_page": None,
    }


def _result(record: records.Memory) -> dict[str, Any]:
    kept = {
        key[:MOST_KEY_CHARS]: value[:MOST_VALUE_CHARS] if isinstance(value, str) else value
        for key, value in list(record.fields["attributes"].items())[:MOST_ATTRIBUTES]
    }
    return {
        "file_id": record.fields["id"],
        "filename": record.session_id,
        "score": record.score,
        "attributes": kept,
        "content": [{"type": "text", "text": record.fields["memory"]}],
    }
