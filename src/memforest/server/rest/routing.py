"""Parts of every REST route: who asks and with which memories, strict reading of requests, and results as JSON.

A `StrictRoute` takes JSON bodies alone, and no query parameter that it does not know.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, cast, get_args, get_origin
from urllib.parse import quote, unquote_to_bytes

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi._compat import ModelField
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from memforest.errors import InputError
from memforest.memory.forest import AsyncMemForest
from memforest.plain import Result, json_bytes
from memforest.server.auth import PRINCIPAL, Access, Principal, Scope, credential_of
from memforest.server.rest.problems import MEDIA_TYPE, ProblemDetails
from memforest.settings import MAX_BODY_ITEMS, has_too_many_items


async def caller(request: Request, needed: SecurityScopes) -> Principal:
    """Return the caller of a request, identified and counted once, who has the scopes that are needed.

    How one says who one is stands in the document (`memforest.server.rest.openapi.SECURITY`). FastAPI's own dependencies for that
    would be solved anew wherever this one is asked for, and look at nothing that is used.

    Raises:
        UnauthenticatedError: if no key or token is there that is needed, or it does not hold.
        RateLimitError: if it is one request too many.
        ForbiddenError: if a scope is lacking.
    """
    found = request.scope.get(PRINCIPAL)
    if not isinstance(found, Principal):
        access: Access = request.app.state.access
        found = await access.identify(credential_of(request.headers))
        await access.count(found)
        request.scope[PRINCIPAL] = found
    for scope in needed.scopes:
        found.require(cast(Scope, scope))
    return found


Who = Annotated[Principal, Depends(caller)]
"""Who asks."""


def needs(scope: Scope) -> Any:
    """Return the dependency of a route for whose callers need a scope."""
    return Security(caller, scopes=[scope])


async def forest_of(request: Request, who: Who) -> AsyncIterator[AsyncMemForest]:
    """Yield the memories of the caller's tenant while the request lasts."""
    access: Access = request.app.state.access
    async with access.forest(who) as forest:
        yield forest


Forest = Annotated[AsyncMemForest, Depends(forest_of)]
"""The memories of the caller's tenant."""


async def ingesting_of(request: Request, who: Who) -> AsyncIterator[None]:
    """Count the request as an ingest of the caller's tenant while it lasts."""
    access: Access = request.app.state.access
    async with access.ingesting(who):
        yield


Ingesting = Depends(ingesting_of)
"""Of a route that ingests: one too many is refused."""


async def again_of(request: Request) -> Callable[[], Awaitable[Principal]]:
    """Return a function that identifies the caller again, for a long answer; it raises as at first."""
    access: Access = request.app.state.access
    return partial(access.identify, credential_of(request.headers))


Again = Annotated[Callable[[], Awaitable[Principal]], Depends(again_of)]
"""Who asks, asked anew."""


ALWAYS = (401, 403, 404, 422, 423, 429, 503)
"""What every route below a user may answer: no key, no scope, no such user, a wrong request, and what ails the server."""

_MEANS = {
    400: "The connection ended before the whole body had arrived.",
    401: "The key or token is missing or not valid.",
    403: "The key or token does not allow this.",
    404: "The user, session, fact, turn or entity does not exist, or the caller may not see it.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with the state: other turns are stored, the fact was corrected, or the idempotency key was used.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is not valid; `errors` says where.",
    423: "Another process is writing to the memory.",
    429: "Too many requests, or too many ingests at once.",
    500: "Unexpected error in the server.",
    503: "The memory or a model cannot be used now.",
    507: "The disk of the server is full.",
}
_RETRY = {
    "Retry-After": {
        "description": "seconds to wait before the next try",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "how to authenticate", "schema": {"type": "string"}}},
    423: _RETRY,
    429: _RETRY,
    503: _RETRY,
}


def can_fail(*more: int, body: bool = False, writes: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a route for the OpenAPI document.

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
    """Ids of users who have a memory. `next_cursor` leads to the next page; it is None on the last one."""

    users: tuple[str, ...]
    next_cursor: str | None = None


class Context(BaseModel):
    """Evidence as text for a prompt: dated quotations, one numbered line each. It is data, not instructions."""

    context: str
    warnings: list[str] = Field(description="what the caller should know about the search")


_TOLD = frozenset(("warnings", "failure", "reason", "notes", "left"))
"""Fields of results that tell what failed: they quote the errors of models, which name the address of an endpoint."""
_HOLD = frozenset(("chunks", "result", "indexes"))
"""Fields that hold results with such fields."""
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s;,)\"']+", re.IGNORECASE)


def _without_addresses(value: Any, *, quotes: bool = False) -> Any:
    """Return a result without the server's addresses in its messages about failures."""
    if isinstance(value, list):
        return [_without_addresses(one, quotes=quotes) for one in value]
    if isinstance(value, dict):
        changed = {
            name: _without_addresses(value[name], quotes=name in _TOLD)
            for name in (_TOLD | _HOLD) & value.keys()
        }
        return {**value, **changed}
    return _ADDRESS.sub("its address", value) if quotes and isinstance(value, str) else value


def answer(result: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a verb's result as a JSON response, with times in ISO 8601 with offset."""
    own = isinstance(result, Result) and type(result).to_dict is not Result.to_dict
    body = json_bytes(result.to_dict() if own else result)
    if b"://" in body:
        body = json_bytes(_without_addresses(json.loads(body)))
    return Response(body, status, dict(headers or {}), media_type="application/json")


def located(request: Request, path: str) -> dict[str, str]:
    """Return the ``Location`` header of a path below the app's mount point.

    Args:
        request: that made it.
        path: of the route, with its ids encoded.
    """
    return {"Location": quote(str(request.scope.get("root_path", "")), safe="/") + path}


SCOPES = "x-scopes"
"""Where the document says what a key needs: the schemes of OpenAPI have scopes for OAuth alone."""
SHORT_BYTES = 64 * 1024
"""A body up to this is read at once: that takes less than the way to a thread and back may."""
MOST_MEMBERS = 10_000
"""Of an object in JSON: each name that there is not costs a message."""
MOST_DIGITS = 400
"""Of a number in JSON; longer ones are nothing that a memory could hold, and slow to read."""


class KeyedRoute(APIRoute):
    """A route that checks key and scopes before anything else of a request, and reads bodies within bounds.

    A long body is read and checked in a worker thread; what FastAPI would do with it after that is done already.
    """

    parameters: Mapping[str, bool]
    """Name of a query parameter -> whether it may come more than once."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        answer, field = super().get_route_handler(), self.body_field
        dependants = [self.dependant]
        for dependant in dependants:  # which grows: what a route depends on, directly or not
            dependants += dependant.dependencies
        callers = [one for one in dependants if one.call is caller]
        needed = SecurityScopes([scope for one in callers for scope in one.own_oauth_scopes or ()])
        self.parameters = {
            one.alias: any(
                get_origin(part) is list
                for part in (one.field_info.annotation, *get_args(one.field_info.annotation))
            )
            for dependant in dependants
            for one in dependant.query_params
        }
        is_checked = any(one is field for one in self.dependant.body_params)  # else it is one of several

        async def handled(request: Request) -> Response:
            if callers:
                await caller(request, needed)
            self.look(request)
            if field is not None:
                request = _ReadRequest(request.scope, request.receive)
                await request.read(field if is_checked else None)
            return await answer(request)

        return handled

    def look(self, request: Request) -> None:
        """Raise if something beside the body is wrong; nothing is by default."""


class StrictRoute(KeyedRoute):
    """A route that refuses what others ignore.

    Query parameters that there are not, or twice; names in JSON twice, and NaN; bodies of another type.
    """

    def look(self, request: Request) -> None:
        """Raise if the query or the type of the body is wrong.

        A page of another origin may send any type but JSON to a server on loopback without asking first.

        Raises:
            InputError: if the query is not in UTF-8.
            RequestValidationError: if a parameter is unknown, or comes twice and may not; the message names it.
        """
        try:
            unquote_to_bytes(request.scope["query_string"]).decode("utf-8")
        except UnicodeDecodeError:
            raise InputError("percent-encode the query as UTF-8") from None
        known = self.parameters
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
        if self.body_field is None:
            return
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        if given or (has_body and request.headers.get("content-length") != "0"):
            kind, _, sub = given.partition("/")
            if kind != "application" or not (sub == "json" or sub.endswith("+json")):
                raise HTTPException(415, "the body must be JSON, with Content-Type: application/json")


def strict_router(prefix: str = "") -> APIRouter:
    """Return a router of strict routes; `prefix` is that of their paths."""
    return APIRouter(prefix=prefix, route_class=StrictRoute)


def operation(
    noun: str,
    verb: str,
    answers: Any,
    scope: Scope,
    *fails: int,
    status: int = 200,
    created: str = "",
    writes: bool = False,
    ingests: bool = False,
    scopes: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the arguments of a route's decorator for a verb.

    Args:
        noun: what it is about: the tag in the document.
        verb: its name in Python.
        answers: type of the result.
        scope: that a key needs.
        *fails: statuses of problems beside those that every route may answer.
        status: of the answer.
        created: what is new where it answers 201.
        writes: it may write to the memory.
        ingests: it counts among the ingests of the tenant.
        scopes: what the document says of the scopes that a key needs, where `dependencies` decide on them.
        **more: further arguments; `responses` are added to those that are made here.
    """
    responses = {**can_fail(*fails, writes=writes or ingests), **more.pop("responses", {})}
    if created:
        responses[201] = {"model": answers, "description": created}
    return {
        "tags": [noun],
        "operation_id": verb,
        "response_model": answers,
        "dependencies": [needs(scope), *((Ingesting,) if ingests else ())],
        "status_code": status,
        "responses": responses,
        "openapi_extra": {SCOPES: scopes or scope, **more.pop("openapi_extra", {})},
        **more,
    }


class _ReadRequest(Request):
    """A request whose body is read as strict JSON first."""

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
            raise HTTPException(400, "the connection ended before the whole body had arrived") from None
        if len(body) > SHORT_BYTES:
            self._read = await asyncio.to_thread(_checked, body, field)
        elif body:
            self._read = _checked(body, field)

    async def json(self) -> Any:
        return self._read


def _checked(body: bytes, field: ModelField | None) -> Any:
    """Return the JSON of a body, validated by its field if there is one."""
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
    """Return the value of JSON bytes, read strictly by RFC 8259.

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
        raise InputError(f"{what} is not JSON: it is not in UTF-8") from None
    except json.JSONDecodeError as exc:
        raise InputError(f"{what} is not JSON: {exc.msg} at character {exc.pos}") from None
    except ValueError as exc:
        raise InputError(f"{what} is not JSON: {exc}") from None


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise for duplicate names, which readers treat differently (RFC 8259, 4)."""
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"an object has more than {MOST_MEMBERS:,} members")
    made = dict(members)
    if len(made) < len(members):
        raise ValueError("an object has two members of the same name")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"there is no {name} in JSON")


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)
