"""Routes that are strict about what comes: JSON bodies as JSON, and no query parameter that there is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, get_args, get_origin
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Request, Response
from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from memforest.access import Scope
from memforest.errors import InputError
from memforest.limits import MAX_BODY_ITEMS, has_too_many_items
from memforest.rest.answers import can_fail
from memforest.rest.deps import Ingesting, Needs, caller

SCOPES = "x-scopes"
"""Where the document says what a key needs: the schemes of OpenAPI have scopes for OAuth alone."""
SHORT_BYTES = 64 * 1024
"""A body up to this is read at once: that takes less than the way to a thread and back may."""
MOST_MEMBERS = 10_000
"""Of an object in JSON: each name that there is not costs a message."""
MOST_DIGITS = 400
"""Of a number in JSON; longer ones are nothing that a memory could hold, and slow to read."""


class KeyedRoute(APIRoute):
    """A route that looks at the key, and at what it allows, before anything else of a request, and reads bodies within bounds.

    A long body is read and checked in a worker thread; what FastAPI would do with it after that is done already.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers requests."""
        answer, field = super().get_route_handler(), self.body_field
        calls = list(_calls(self.dependant))
        scopes = [one.scope for one in calls if isinstance(one, Needs)]
        is_checked = any(one is field for one in self.dependant.body_params)  # else it is one of several

        async def handled(request: Request) -> Response:
            if caller in calls:
                who = await caller(request)
                for scope in scopes:
                    who.require(scope)
            self.look(request)
            if field is not None:
                request = _ReadRequest(request.scope, request.receive)
                await request.read(field if is_checked else None)
            return await answer(request)

        return handled

    def look(self, request: Request) -> None:
        """Raise if something beside the body is wrong; everything is right here."""


class StrictRoute(KeyedRoute):
    """A route that refuses what others pass over.

    Query parameters that there are not, or twice; names in JSON twice, and NaN; bodies of another type.
    """

    def look(self, request: Request) -> None:
        """Raise if the query or the type of the body is wrong."""
        _check_query(request, dict(_query_names(self.dependant)))
        if self.body_field is not None:
            _require_json(request)


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
        "dependencies": [Depends(Needs(scope)), *((Ingesting,) if ingests else ())],
        "status_code": status,
        "responses": responses,
        "openapi_extra": {SCOPES: scopes or scope, **more.pop("openapi_extra", {})},
        **more,
    }


def _calls(dependant: Dependant) -> Iterator[object]:
    """Return what a route depends on, directly or not."""
    for one in dependant.dependencies:
        yield one.call
        yield from _calls(one)


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


class _ReadRequest(Request):
    """A request whose body is read as strict JSON, before anything else is done with it."""

    _read: Any = None

    async def read(self, field: ModelField | None) -> None:
        """Read the body.

        Args:
            field: what it must be; None where FastAPI checks that.

        Raises:
            InputError: if it is no JSON, or holds too much.
            RequestValidationError: if it is not as the field has it.
        """
        try:
            body = await self.body()
        except ClientDisconnect:
            raise HTTPException(400, "the connection ended before the body did") from None
        if len(body) > SHORT_BYTES:
            self._read = await asyncio.to_thread(_checked, body, field)
        elif body:
            self._read = _checked(body, field)

    async def json(self) -> Any:
        return self._read


def _checked(body: bytes, field: ModelField | None) -> Any:
    """Return what a body says, as what it must be if that is known."""
    if has_too_many_items(body):
        raise InputError(f"the body has more than {MAX_BODY_ITEMS:,} values; send it in parts")
    given = read_json(body)
    if field is None or given is None:
        return given
    made, wrong = field.validate(given, loc=("body",))
    if wrong:
        raise RequestValidationError(wrong, body=given)
    return made


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
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"an object has more than {MOST_MEMBERS:,} members")
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
