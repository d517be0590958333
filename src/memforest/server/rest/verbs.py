"""Routes that are a verb and no more: made of the verb's signature, which says what they take, and its docstring.

Only the address and the scope are said where a route is added. Routes that do something else beside are functions of
`memory_routes` and `user_routes`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Body, Query, Response
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import options_of
from memforest.server.auth import Scope
from memforest.server.rest import bodies
from memforest.server.rest.routing import answer, operation, read_json
from memforest.settings import MAX_ID_CHARS, MAX_TIME_CHARS
from memforest.trees.attached import INDEXES

IN_PATH = {
    "fact_id": bodies.FactId,
    "session_id": bodies.SessionId,
    "entity": bodies.EntityId,
    "key": bodies.CorrectionKey,
}
"""Options that a path may have."""
IN_QUERY = {
    "limit": bodies.PageSize,
    "cursor": bodies.Cursor,
    "after": bodies.Cursor,
    "filters": bodies.Filters,
}
"""Options that have another form in a query than their type tells."""
TIMES = "ISO 8601, a written date, or UNIX seconds; without an offset in the zone of the configuration."
PAGE = 50
"""Items of a page where a verb would return all."""


def verb_route(
    router: APIRouter,
    noun: str,
    where: str,
    verb: Callable[..., Any],
    scope: Scope,
    *fails: int,
    body: Any = None,
    **more: Any,
) -> None:
    """Add the route of a verb of a user's memory.

    Options that are not in the path are in the query of a GET, and in the body of any other method.

    Args:
        router: that it is added to.
        noun: what it is about: the tag in the document.
        where: its method and path, as ``"GET /facts"``; names in the path are options of the verb.
        verb: of `AsyncUserMemory`.
        scope: that a key needs.
        *fails: statuses of problems beside those that every route may answer.
        body: its model, if it is not made of the verb's options alone.
        **more: further arguments of `operation`.
    """
    method, path = where.split(" ")
    in_path = re.findall(r"{(\w+)}", path)
    options = {name: one for name, one in options_of(verb).model_fields.items() if name not in in_path}
    taken = [_parameter("memory", bodies.Memory), *(_parameter(name, IN_PATH[name]) for name in in_path)]
    if options and method != "GET":
        model = body or bodies.body_of(verb, in_path)
        is_needed = any(one.is_required() for one in model.model_fields.values())
        hint, default = (model, ...) if is_needed else (model | None, None)
        taken.append(_parameter("body", Annotated[hint, Body()], default))
    else:
        taken += [_in_query(name, option) for name, option in options.items()]
    if "idempotency_key" in options:
        taken.append(_parameter("idempotency_key", bodies.IdempotencyKey, None))

    async def serve(memory: AsyncUserMemory, body: bodies.Body | None = None, **asked: Any) -> Response:
        given = {name: one for name, one in asked.items() if one is not None}
        if "filters" in given:
            given["filters"] = read_json(given["filters"].encode(), "filters")
        return answer(await verb(memory, **given, **bodies.given_options(body)))

    serve.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]  # what FastAPI reads
    own = inspect.unwrap(verb)
    said = operation(
        noun,
        own.__name__,
        get_type_hints(own)["return"],
        scope,
        *fails,
        **{"writes": scope in ("write", "delete"), **more},
    )
    about = (inspect.getdoc(own) or "").partition("\n\n")[0]
    router.add_api_route(path, serve, methods=[method], name=own.__name__, description=about, **said)


def _parameter(name: str, hint: Any, default: Any = ...) -> inspect.Parameter:
    given = inspect.Parameter.empty if default is ... else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=given)


def _in_query(name: str, option: FieldInfo) -> inspect.Parameter:
    """Return an option as a parameter of the query, where everything is a text."""
    hint, *_ = get_args(option.annotation) or (option.annotation,)
    default: Any = ... if option.is_required() else option.default
    if name in IN_QUERY:
        return _parameter(name, IN_QUERY[name], PAGE if name == "limit" and default is None else default)
    about, form = option.description or "", list(option.metadata)
    if hint is datetime:
        hint = str
        form.append(_text(MAX_TIME_CHARS, f"{about} {TIMES}", format="date-time"))
    elif hint is str:
        told: dict[str, Any] = {"enum": list(INDEXES)} if name == "index" else {"pattern": bodies.ID_PATTERN}
        form += [AfterValidator(bodies.checked), _text(MAX_ID_CHARS, about, **told)]
    elif get_origin(hint) is tuple:
        hint = list[str]
        form.append(Query(min_length=2, max_length=2, description=f"{about} As two values."))
    elif hint is int or int in get_args(hint):
        form = [*bodies.whole((*get_args(hint)[1:], *form)), Query(description=about)]
        hint = int
    else:
        form.append(Query(description=about))
    return _parameter(name, Annotated[(hint | None if default is None else hint, *form)], default)


def _text(most: int, about: str, **told: Any) -> Any:
    return Query(min_length=1, max_length=most, description=about, json_schema_extra=told)
