"""Facades for clients of other memories: what they share, and OpenAI's route for searching a vector store.

Their bodies refuse unknown fields, and their errors are problems that also have the form which each client reads. Their routes
are left out of the OpenAPI description; those of mem0 are registered with and without the slash at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from memforest.errors import MemForestError
from memforest.server.auth import Scope
from memforest.server.rest import problems
from memforest.server.rest.mem0_records import Mem0Memory, Memories, read_openai
from memforest.server.rest.routing import Forest, KeyedRoute, Needs, Who


class UnmappedError(Exception):
    """A request without a counterpart in memforest; the message names what to use instead."""


def unmapped(what: str, instead: str) -> UnmappedError:
    """Return the error of a feature without a counterpart.

    Args:
        what: that is not mapped.
        instead: what to use in its place: a sentence.
    """
    return UnmappedError(f"{what} has no counterpart in memforest. {instead}")


class StrictBody(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=False)


class FacadeRoute(KeyedRoute):
    """A route that answers errors in the form that the facade's client reads."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which answers memforest's errors itself."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except UnmappedError as error:
                answer: Response = problems.problem(501, "NotMapped", str(error))
            except (MemForestError, HTTPException, RequestValidationError) as error:
                handlers = request.app.exception_handlers
                handler = next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)
                answer = await handler(request, error)
            # mem0's client reads the text of a problem in ``detail`` (see `Around`), OpenAI's in ``error.message``.
            if "/compat/openai/" not in request.url.path or not isinstance(answer.body, bytes):
                return answer
            body = json.loads(answer.body)
            body["error"] = {
                "message": body.get("detail", ""),
                "type": "invalid_request_error" if body.get("status", 500) < 500 else "server_error",
                "code": str(body.get("type", "")).rpartition(":")[2],
                "param": None,
            }
            headers = {
                key: value
                for key, value in answer.headers.items()
                if key not in ("content-length", "content-type")
            }
            return JSONResponse(body, answer.status_code, headers, problems.MEDIA_TYPE)

        return handled


PREFIX = "/compat/mem0"


_REST = PathConvertor()
# The rest of a path, whatever is in it: a user's id may hold a line break.
_REST.regex = "(?s:.*)"  # type: ignore[misc]  # of this converter alone
register_url_convertor("rest", _REST)

F = TypeVar("F", bound=Callable[..., Any])


def facade(prefix: str = PREFIX) -> APIRouter:
    """Return a router for the routes of a facade, mem0's by default."""
    return APIRouter(prefix=prefix, route_class=FacadeRoute, include_in_schema=False)


def route(router: APIRouter, method: str, path: str, scope: Scope | None) -> Callable[[F], F]:
    """Return a decorator that registers a function for a method and path, with and without the last slash.

    Args:
        router: that gets the route.
        method: of HTTP.
        path: with the slash at the end that mem0's client sends.
        scope: what the caller must be allowed; None for whoever has a key.
    """

    def register(function: F) -> F:
        for one in (path, path.rstrip("/")):
            router.add_api_route(
                one,
                function,
                methods=[method],
                dependencies=[] if scope is None else [Depends(Needs(scope))],
                response_model=None,
            )
        return function

    return register


openai = facade("/compat/openai/v1")

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


@openai.post("/vector_stores/{user:rest}/search", dependencies=[Depends(Needs("read"))], response_model=None)
async def search(user: str, body: VectorSearch, forest: Forest, who: Who) -> dict[str, Any]:
    """Search a user's memory; several queries run one after the other, and each result is returned once.

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
