"""What the facades share on the wire: bodies that refuse unknown fields, and errors as their clients read them.

How the routes of facades are registered: out of the OpenAPI description; those of mem0 with and without the slash at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from memforest.errors import MemForestError
from memforest.server.auth import Scope
from memforest.server.rest import problems
from memforest.server.rest.routing import KeyedRoute, Needs


class UnmappedError(Exception):
    """Something that a client asks for and a memory here has no counterpart of; the message names what to use instead."""


def unmapped(what: str, instead: str) -> UnmappedError:
    """Return the error for what is not mapped.

    Args:
        what: that is not mapped.
        instead: what to use in its place: a sentence.
    """
    return UnmappedError(f"{what} has no counterpart in memforest. {instead}")


class StrictBody(BaseModel):
    """A body whose fields are all known."""

    model_config = ConfigDict(extra="forbid", strict=False)


class FacadeRoute(KeyedRoute):
    """A route whose errors are problems in the form that the facade's client reads."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which lets no error of ours pass."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except UnmappedError as error:
                answer: Response = problems.problem(501, "NotMapped", str(error))
            except (MemForestError, HTTPException, RequestValidationError) as error:
                answer = await _everywhere(request, error)
            return _readable(request, answer)

        return handled


async def _everywhere(request: Request, error: Exception) -> Response:
    """Return the answer that the app gives to an error on every route."""
    handlers = request.app.exception_handlers
    answer: Response = await next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)(
        request, error
    )
    return answer


def _readable(request: Request, answer: Response) -> Response:
    """Return a problem so that the client finds its text: OpenAI's reads ``error.message``, mem0's ``detail`` (see `asgi.PLAIN`)."""
    if isinstance(answer, StreamingResponse) or not isinstance(answer.body, bytes):
        return answer
    if "/compat/openai/" not in request.url.path:
        return answer
    body = json.loads(answer.body)
    kept = {
        key: value for key, value in answer.headers.items() if key not in ("content-length", "content-type")
    }
    body["error"] = _openai_error(body)
    return JSONResponse(body, answer.status_code, kept, problems.MEDIA_TYPE)


def _openai_error(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "message": body.get("detail", ""),
        "type": "invalid_request_error" if body.get("status", 500) < 500 else "server_error",
        "code": str(body.get("type", "")).rpartition(":")[2],
        "param": None,
    }


PREFIX = "/compat/mem0"


class _Rest(PathConvertor):
    """The rest of a path, whatever is in it: a user's id may hold a line break."""

    regex = "(?s:.*)"


register_url_convertor("rest", _Rest())

F = TypeVar("F", bound=Callable[..., Any])


def facade(prefix: str = PREFIX) -> APIRouter:
    """Return a router for routes of a facade, mem0's unless another beginning of their paths is given."""
    return APIRouter(prefix=prefix, route_class=FacadeRoute, include_in_schema=False)


def route(router: APIRouter, method: str, path: str, scope: Scope | None) -> Callable[[F], F]:
    """Return a decorator that makes a function the answer to a method and path.

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
