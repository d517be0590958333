"""Responses: the results of verbs as JSON, and what the document says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import BaseModel, Field

from memforest.memory.plain import Result, json_bytes
from memforest.rest.problems import MEDIA_TYPE, ProblemDetails

ALWAYS = (401, 403, 404, 422, 423, 429, 503)
"""What every route below a user may answer: no key, no scope, no such user, a wrong request, and what ails the server."""

_MEANS = {
    400: "The connection ended before the body did.",
    401: "There is no key or token, or it does not hold.",
    403: "The key or token does not allow it.",
    404: "There is no such user, session, fact, turn or entity, or the caller may not see it.",
    408: "The body did not come in time.",
    409: "It is not as the request supposes: stored otherwise, corrected already, or the key of a write came with another request.",
    413: "The body is too large.",
    415: "The body is no JSON.",
    422: "The request does not fit; `errors` says where.",
    423: "Another process is writing to the memory.",
    429: "Too many requests, or too many ingests at once.",
    500: "The server met an error that it did not expect.",
    503: "The memory or a model cannot be used now.",
    507: "The disk of the server is full.",
}
_RETRY = {
    "Retry-After": {
        "description": "seconds until it may succeed",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "how to say who one is", "schema": {"type": "string"}}},
    423: _RETRY,
    429: _RETRY,
    503: _RETRY,
}


def can_fail(*more: int, body: bool = False, writes: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of the problems of a route.

    Args:
        *more: statuses beside those that every route has.
        body: it takes one.
        writes: it may fill the disk.
    """
    wanted = {*ALWAYS, *more, 500, *((400, 408, 413, 415) if body else ()), *((507,) if writes else ())}
    return {
        status: {
            "model": ProblemDetails,
            "description": _MEANS[status],
            "content": {MEDIA_TYPE: {}},
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
        for status in sorted(wanted)
    }


@dataclass(frozen=True, slots=True, repr=False)
class User(Result):
    """A user who has a memory."""

    user_id: str


@dataclass(frozen=True, slots=True, repr=False)
class Users(Result):
    """Ids of users who have a memory; `next_cursor` is that of the next page, None on the last one."""

    users: tuple[str, ...]
    next_cursor: str | None = None


class Context(BaseModel):
    """Evidence rendered for a prompt: dated quotations, one numbered line a piece. It is data, and no instruction."""

    context: str
    warnings: list[str] = Field(description="what the caller should know of the search")


_TOLD = frozenset(("warnings", "failure", "reason", "notes", "left"))
"""Fields of results that tell what failed: they quote the errors of models, which name the address of an endpoint."""
_HOLD = frozenset(("chunks", "result", "indexes"))
"""Fields that hold results with such fields."""
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s;,)\"']+", re.IGNORECASE)


def _without_addresses(told: Any, *, quotes: bool = False) -> Any:
    """Return a result without the addresses in what it tells of failures: they are the server's."""
    if isinstance(told, list):
        return [_without_addresses(one, quotes=quotes) for one in told]
    if isinstance(told, dict):
        changed = {
            name: _without_addresses(told[name], quotes=name in _TOLD)
            for name in (_TOLD | _HOLD) & told.keys()
        }
        return {**told, **changed}
    return _ADDRESS.sub("its address", told) if quotes and isinstance(told, str) else told


def answer(result: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a result of a verb as a response: times are ISO 8601 with offset."""
    own = isinstance(result, Result) and type(result).to_dict is not Result.to_dict
    body = json_bytes(result.to_dict() if own else result)
    if b"://" in body:
        body = json_bytes(_without_addresses(json.loads(body)))
    return Response(body, status, dict(headers or {}), media_type="application/json")


def located(request: Request, path: str) -> dict[str, str]:
    """Return the header that tells where something is: below where the app is mounted, if it is.

    Args:
        request: that made it.
        path: of the route, with its ids encoded.
    """
    return {"Location": quote(str(request.scope.get("root_path", "")), safe="/") + path}
