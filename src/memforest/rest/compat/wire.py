"""What the facades share on the wire: bodies that refuse unknown fields, and errors as their clients read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from memforest.errors import MemForestError
from memforest.rest import problems
from memforest.rest.routing import KeyedRoute


class UnmappedError(Exception):
    """Something that a client asks for and a memory here has no counterpart of; the message names what to use instead."""


def unmapped(what: str, instead: str) -> UnmappedError:
    """Return the error for what is not mapped.

    Args:
        what: that is not mapped.
        instead: what to use in its place: a sentence.
    """
    return UnmappedError(f"{what} has no counterpart in memforest. {instead}")


class Given(BaseModel):
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
