"""Routes that are strict about what comes: JSON bodies as JSON, and no query parameter that there is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, get_args, get_origin
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from memforest.access import Scope
from memforest.errors import InputError
from memforest.rest.answers import can_fail
from memforest.rest.deps import Ingesting, needs

__all__ = ["SCOPES", "StrictRoute", "operation", "read_json", "strict_router"]

SCOPES = "x-scopes"
"""Where the document says what a key needs: the schemes of OpenAPI have scopes for OAuth alone."""
MOST_DIGITS = 400
"""Of a number in JSON; longer ones are nothing that a memory could hold, and slow to read."""


class StrictRoute(APIRoute):
    """A route that refuses what others pass over.

    Query parameters that there are not, or twice; names in JSON twice, and NaN; bodies of another type.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers requests."""
        answer = super().get_route_handler()
        known = dict(_query_names(self.dependant))
        takes_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            _check_query(request, known)
            if takes_body:
                _require_json(request)
                request = _StrictRequest(request.scope, request.receive)
                await request.read()
            return await answer(request)

        return strict


def strict_router(noun: str, prefix: str = "/v1") -> APIRouter:
    """Return a router for the routes of one noun.

    Args:
        noun: the tag of its operations.
        prefix: of their paths.
    """
    return APIRouter(prefix=prefix, tags=[noun], route_class=StrictRoute)


def operation(
    verb: str,
    answers: Any,
    scope: Scope,
    *fails: int,
    status: int = 200,
    body: bool = False,
    writes: bool = False,
    ingests: bool = False,
    scopes: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the arguments of a route's decorator.

    Args:
        verb: its name in Python.
        answers: type of the result.
        scope: that a key needs.
        *fails: statuses of problems beside those that every route may answer.
        status: of the answer.
        body: it takes one.
        writes: it may write to the memory.
        ingests: it counts among the ingests of the tenant.
        scopes: what the document says of the scopes that a key needs, where `dependencies` decide on them.
        **more: further arguments; `responses` are added to those that are made here.
    """
    responses = {**can_fail(*fails, body=body, writes=writes or ingests), **more.pop("responses", {})}
    return {
        "operation_id": verb,
        "response_model": answers,
        "dependencies": [Depends(needs(scope)), *((Ingesting,) if ingests else ())],
        "status_code": status,
        "responses": responses,
        "openapi_extra": {SCOPES: scopes or scope, **more.pop("openapi_extra", {})},
        **more,
    }


def _query_names(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Return the names of query parameters, each with whether it may come more than once."""
    for one in dependant.query_params:
        kind = one.field_info.annotation
        yield one.alias, any(get_origin(part) is list for part in (kind, *get_args(kind)))
    for below in dependant.dependencies:
        yield from _query_names(below)


def _check_query(request: Request, known: Mapping[str, bool]) -> None:
    """Raise if a query has a parameter that there is not, one twice that is one, or is not in UTF-8.

    Raises:
        RequestValidationError: if so; the message names the parameter.
    """
    try:
        unquote_to_bytes(request.scope["query_string"]).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("percent-encode the query as UTF-8") from None
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        what = None
        if name not in known:
            listed = f"; known: {', '.join(sorted(known))}" if known else ""
            what = f"there is no such parameter{listed}"
        elif name in seen and not known[name]:
            what = "it is there twice; give it once"
        seen.add(name)
        if what is not None:
            raise RequestValidationError(
                [{"type": "extra_forbidden", "loc": ("query", name), "msg": what, "input": None}]
            )


def _require_json(request: Request) -> None:
    """Raise unless a body says that it is JSON.

    A page of another origin may send any other type to a server on loopback without asking first; JSON it may not.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
    if given or (has_body and request.headers.get("content-length") != "0"):
        kind, _, sub = given.partition("/")
        if kind != "application" or not (sub == "json" or sub.endswith("+json")):
            raise HTTPException(415, "the body must be JSON, with Content-Type: application/json")


class _StrictRequest(Request):
    """A request whose body is read as strict JSON, before anything else is done with it."""

    _read: Any = None

    async def read(self) -> None:
        """Read the body.

        Raises:
            InputError: if it is no JSON.
        """
        try:
            body = await self.body()
        except ClientDisconnect:
            raise HTTPException(400, "the connection ended before the body did") from None
        if body:
            self._read = read_json(body)

    async def json(self) -> Any:
        return self._read


def read_json(body: bytes, what: str = "the body") -> Any:
    """Return what bytes say in JSON, as RFC 8259 has it.

    Args:
        body: in UTF-8.
        what: names it in messages.

    Raises:
        InputError: if it is none; nothing of it is shown.
    """
    try:
        return json.loads(
            body.decode("utf-8"), parse_constant=_no_constant, parse_int=_whole, object_pairs_hook=_object
        )
    except RecursionError:
        raise InputError(f"{what} is nested too deeply") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} is no JSON: it is not in UTF-8") from None
    except json.JSONDecodeError as exc:
        raise InputError(f"{what} is no JSON: {exc.msg} at character {exc.pos}") from None
    except ValueError as exc:
        raise InputError(f"{what} is no JSON: {exc}") from None


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of two members of one name, readers differ in which of them counts (RFC 8259, 4)."""
    made = dict(members)
    if len(made) < len(members):
        raise ValueError("an object has two members of one name")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"there is no {name} in JSON")


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)
