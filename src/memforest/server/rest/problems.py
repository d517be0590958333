"""Errors as ``application/problem+json`` (RFC 9457): one type for each class of `memforest.errors`.

What a problem says is for whoever asked, and may be shown to them: it names no file of the server, no address of a model
and no line of code. Where the message of an error may hold one of these, a fixed sentence stands in its place.

Source: https://www.rfc-editor.org/rfc/rfc9457
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from memforest import errors
from memforest.server.auth import detail_of, place_of, status_of, told_of

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
MOST_FIELDS = 20
"""Most wrong fields that one problem lists."""
RETRY_S = 5
"""When to try again where nothing better is known, in seconds."""
LOCKED_S = 1
UNEXPECTED = "unexpected error in the server; its log says where"


class WrongField(BaseModel):
    """An error in one field of a request."""

    pointer: str = Field(description="where it is: `/body/turns/0/role`, `/query/limit`, `/path/user_id`")
    detail: str = Field(description="what is wrong with it; never its value")


class ProblemDetails(BaseModel):
    """An error, after RFC 9457. `type` is one for each class of error, or `about:blank` where only the status says more."""

    model_config = ConfigDict(extra="forbid", title="ProblemDetails")

    type: str = Field(description="`urn:memforest:error:` and the name of the class, or `about:blank`")
    title: str = Field(description="what kind of error it is")
    status: int = Field(description="the status of the response")
    detail: str = Field(description="what was wrong, and what to do about it")
    errors: list[WrongField] | None = Field(None, description="the wrong fields of the request")


def type_of(kind: type[errors.MemForestError]) -> str:
    """Return the URI of a class of error.

    Example:
        >>> type_of(errors.NotFoundError)
        'urn:memforest:error:NotFoundError'
    """
    return f"urn:memforest:error:{kind.__name__}"


def title_of(kind: type[errors.MemForestError]) -> str:
    """Return the title of an error class, from its docstring."""
    return (kind.__doc__ or kind.__name__).strip().split("\n")[0].rstrip(".")


def headers_of(error: errors.MemForestError) -> dict[str, str]:
    """Return the headers of an error: ``Retry-After`` and ``WWW-Authenticate``."""
    status = status_of(error)
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="memforest"'}
    if isinstance(error, errors.RateLimitError):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    if status == 423:
        return {"Retry-After": str(LOCKED_S)}
    return {"Retry-After": str(RETRY_S)} if status == 503 else {}


def _respond(
    kind: str,
    title: str,
    status: int,
    detail: str,
    wrong: Sequence[WrongField] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body: dict[str, Any] = {
        "type": kind,
        "title": title,
        "status": status,
        # What came with a request may hold what UTF-8 has no form for.
        "detail": _sendable(detail),
    }
    if wrong:
        body["errors"] = [one.model_dump() for one in wrong]
    return JSONResponse(body, status, dict(headers or {}), MEDIA_TYPE)


def answer_of(error: errors.MemForestError) -> JSONResponse:
    """Return the problem of an error of memforest."""
    kind = type(error)
    headers = headers_of(error)
    return _respond(type_of(kind), title_of(kind), status_of(error), detail_of(error), headers=headers)


def problem_of(
    kind: type[errors.MemForestError], detail: str, wrong: Sequence[WrongField] = ()
) -> JSONResponse:
    """Return the problem of an error class with a given detail.

    Args:
        kind: the class.
        detail: for people: what was wrong and what to do.
        wrong: the fields that are.
    """
    return _respond(type_of(kind), title_of(kind), told_of(kind)[0], detail, wrong)


def http_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a problem without an error class, told by its status alone."""
    title = "Content Too Large" if status == 413 else HTTPStatus(status).phrase
    return _respond("about:blank", title, status, detail, headers=headers)


def unexpected(error: BaseException) -> JSONResponse:
    """Log an unexpected error by type and place alone, and return a problem without details."""
    _log.error("unexpected %s at %s", type(error).__name__, place_of(error))
    return http_problem(500, UNEXPECTED)


_STATED = {
    404: "there is no such route",
    405: "the route does not have this method; Allow names those that it has",
}


def methods_of(request: Request) -> list[str]:
    """Return the methods that the path of a request has, sorted."""
    found: set[str] = set()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            found.add(method)
    if "GET" in found:
        found.add("HEAD")
    return sorted(found | {"OPTIONS"}) if found else []


async def _of_memforest(_request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.MemForestError)
    if status_of(error) >= 500:
        _log.warning("%s at %s", type(error).__name__, place_of(error))
    return answer_of(error)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ", ".join(methods_of(request))})
        headers["Allow"] = ", ".join(methods_of(request))
    detail = _STATED.get(error.status_code) or str(error.detail)
    return http_problem(error.status_code, detail, headers)


async def _of_fields(_request: Request, error: Exception) -> Response:
    """Answer a request that does not fit its schema: name the place and what would fit, not the value."""
    assert isinstance(error, RequestValidationError)
    wrong = [
        WrongField(
            pointer=_sendable("".join(f"/{part}" for part in _place(one, error.body))),
            detail=_sendable(str(one["msg"]).removeprefix("Value error, ")[:200]),
        )
        for one in error.errors()[:MOST_FIELDS]
    ]
    detail = "; ".join(f"{one.pointer}: {one.detail}" for one in wrong[:3])
    return problem_of(errors.InputError, detail or "the request does not fit its schema", wrong)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _place(one: Mapping[str, Any], body: Any) -> list[str]:
    """Return the parts of the JSON pointer (RFC 6901) to a field, without pydantic's names of union members.

    They are cut: names of fields come from the request too.
    """
    top, *below = one["loc"]
    place, at = [top], body
    if top != "body":
        place, below = [top, *below], []
    for depth, part in enumerate(below, 1):
        is_there = part in at if isinstance(at, dict) else isinstance(at, list) and part in range(len(at))
        if is_there:
            at = at[part]
        elif one["type"] != "missing" or depth < len(below):
            continue
        place.append(part)
    return [str(part)[:60].replace("~", "~0").replace("/", "~1") for part in place]


def install(app: FastAPI) -> None:
    """Make an app answer every error as a problem."""
    app.add_exception_handler(errors.MemForestError, _of_memforest)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_fields)
