"""REST routes for one memory: sessions and turns, questions, facts and their correction, entities, time, trees and upkeep.

Those that are a verb and no more are made of its signature, which says what they take, and its docstring; only the address and
the scope are said here. Those that do something else beside are functions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import Body, Query, Request, Response
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from memforest.errors import NotFoundError
from memforest.memory.user import AsyncUserMemory as Verbs
from memforest.memory.verbs import options_of
from memforest.read.receipts import DeleteReceipt
from memforest.read.results import AskResult, IngestResult, QueryResult
from memforest.read.stored import IndexView
from memforest.server.auth import Scope
from memforest.server.rest import bodies
from memforest.server.rest.bodies import DryRun, IdempotencyKey, IndexName, Memory, SessionId, UserId, encoded
from memforest.server.rest.problems import http_problem
from memforest.server.rest.routing import (
    Context,
    Forest,
    Who,
    answer,
    located,
    operation,
    read_json,
    strict_router,
)
from memforest.settings import MAX_ID_CHARS, MAX_TIME_CHARS
from memforest.trees.attached import INDEXES

routes = strict_router("/v1/users/{user_id}")

IN_PATH = {
    "fact_id": bodies.FactId,
    "session_id": SessionId,
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
    taken = [_parameter("memory", Memory), *(_parameter(name, IN_PATH[name]) for name in in_path)]
    if options and method != "GET":
        model = body or bodies.body_of(verb, in_path)
        is_needed = any(one.is_required() for one in model.model_fields.values())
        hint, default = (model, ...) if is_needed else (model | None, None)
        taken.append(_parameter("body", Annotated[hint, Body()], default))
    else:
        taken += [_in_query(name, option) for name, option in options.items()]
    if "idempotency_key" in options:
        taken.append(_parameter("idempotency_key", IdempotencyKey, None))

    async def serve(memory: Verbs, body: bodies.Body | None = None, **asked: Any) -> Response:
        given = {name: one for name, one in asked.items() if one is not None}
        if "filters" in given:
            given["filters"] = read_json(given["filters"].encode(), "filters")
        options = {**given, **bodies.given_options(body)}
        done = await verb(memory, **options)
        is_brief = isinstance(done, (QueryResult, AskResult)) and not options.get("explain")
        return answer(done.brief() if is_brief else done)

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
    routes.add_api_route(path, serve, methods=[method], name=own.__name__, description=about, **said)


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


verb_route("asking", "POST /search", Verbs.search, "read", body=bodies.SearchBody)
verb_route("asking", "POST /ask", Verbs.ask, "read")


@routes.post("/context", **operation("asking", "context", Context, "read"))
async def context(memory: Memory, body: bodies.ContextBody) -> Response:
    """Return the evidence for a question as text for a prompt, up to `max_tokens`."""
    given = body.options()
    given.pop("max_tokens", None)
    given.pop("statements", None)
    found = await memory.search(**given)
    text = found.context(body.max_tokens, statements=body.statements)
    return answer({"context": text, "warnings": found.warnings})


verb_route("entities", "GET /entities", Verbs.entities, "read")
verb_route("entities", "POST /entities/merge", Verbs.merge_entities, "write")
verb_route("entities", "POST /entities/split", Verbs.split_entity, "write")
verb_route("entities", "GET /entities/choices", Verbs.entity_choices, "read")
verb_route("entities", "GET /relations/{entity}", Verbs.relations, "read")
verb_route("entities", "GET /path", Verbs.path, "read")
verb_route("entities", "GET /graph", Verbs.graph, "read")

verb_route("facts", "GET /facts", Verbs.list, "read")
verb_route("facts", "GET /facts/{fact_id}", Verbs.get, "read")
verb_route("facts", "GET /facts/{fact_id}/history", Verbs.history, "read")
verb_route("facts", "PATCH /facts/{fact_id}", Verbs.update, "write", 409)
verb_route("facts", "POST /facts", Verbs.remember, "write", 409)
verb_route("facts", "POST /facts/{fact_id}/pin", Verbs.pin, "write", 409)
verb_route("facts", "POST /facts/{fact_id}/forget", Verbs.forget, "delete", 409)
verb_route("facts", "POST /corrections/{key}/undo", Verbs.undo, "write", 409)
verb_route("facts", "POST /delete", Verbs.delete, "delete")


@routes.delete("/facts/{fact_id}", **operation("facts", "delete_fact", DeleteReceipt, "delete", writes=True))
async def delete_fact(fact_id: bodies.FactId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a fact, the sentences it was made from, and everything that was made of them."""
    return answer(await memory.delete(fact_id, dry_run=dry_run))


verb_route("timeline", "GET /timeline/{entity}", Verbs.timeline, "read")
verb_route("profiles", "POST /profile", Verbs.profile, "read", body=bodies.ProfileBody, writes=True)
verb_route("changes", "GET /changes", Verbs.changes, "read")
verb_route("changes", "GET /diff", Verbs.diff, "read")

verb_route("sessions", "GET /sessions", Verbs.sessions, "read")
verb_route("sessions", "GET /sessions/{session_id}", Verbs.turns, "read")
verb_route("messages", "POST /messages", Verbs.add, "write", 409, body=bodies.AddBody, ingests=True)


@routes.put(
    "/sessions/{session_id}",
    **operation(
        "sessions", "ingest_session", IngestResult, "write", 409, ingests=True, created="The session is new."
    ),
)
async def ingest_session(
    request: Request,
    user_id: UserId,
    session_id: SessionId,
    who: Who,
    forest: Forest,
    body: bodies.IngestSessionBody,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store a session and extract its facts. It is durable when this returns.

    The same session again changes nothing, a longer version appends what is new, a different one is a conflict unless
    `replace`. An unknown user is registered.
    """
    user, given = who.user_id(user_id), body.options()
    turns = given.pop("turns")
    done = await forest.ingest_session(user, session_id, turns, idempotency_key=idempotency_key, **given)
    new = False
    if done.turns_added and not (done.replaced or done.replayed):
        with suppress(NotFoundError):  # of what was too old to stay
            new = (await forest.user(user).turns(session_id, limit=1)).total == done.turns_added
    where = f"/v1/users/{encoded(user)}/sessions/{encoded(session_id)}"
    return answer(done, 201 if new else 200, located(request, where))


@routes.delete(
    "/sessions/{session_id}", **operation("sessions", "delete_session", DeleteReceipt, "delete", writes=True)
)
async def delete_session(session_id: SessionId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a session and everything that was made of it."""
    return answer(await memory.delete(session_id=session_id, dry_run=dry_run))


@routes.delete(
    "/sessions/{session_id}/turns/{turn_id}",
    **operation("sessions", "delete_turn", DeleteReceipt, "delete", writes=True),
)
async def delete_turn(
    session_id: SessionId, turn_id: bodies.TurnId, memory: Memory, dry_run: DryRun = False
) -> Response:
    """Delete one turn and everything that was made of it."""
    return answer(await memory.delete(turn=(session_id, turn_id), dry_run=dry_run))


verb_route("trees", "GET /trees", Verbs.tree, "read", writes=True)

verb_route("upkeep", "GET /stats", Verbs.stats, "read")
verb_route("upkeep", "POST /verify", Verbs.verify, "admin")
verb_route("upkeep", "POST /repair", Verbs.repair, "admin", writes=True)
verb_route("upkeep", "POST /flush", Verbs.flush, "write", ingests=True)
verb_route("upkeep", "POST /rebuild", Verbs.rebuild, "admin", ingests=True)
verb_route("upkeep", "GET /stale", Verbs.stale, "read")
verb_route("upkeep", "POST /expire", Verbs.expire, "delete")


@routes.post("/resume", **operation("upkeep", "resume", list[IngestResult], "admin", ingests=True))
async def resume(
    user_id: UserId, who: Who, forest: Forest, body: Annotated[bodies.ResumeBody | None, Body()] = None
) -> Response:
    """Finish interrupted or failed writes."""
    return answer(await forest.resume(who.user_id(user_id), **bodies.given_options(body)))


verb_route("indexes", "GET /indexes", Verbs.indexes, "read")
verb_route("indexes", "POST /advance", Verbs.advance, "write", ingests=True)


@routes.put("/indexes/{name}", **operation("indexes", "add_index", IndexView, "admin", 409, ingests=True))
async def add_index(
    name: IndexName, memory: Memory, body: Annotated[bodies.AddIndexBody | None, Body()] = None
) -> Response:
    """Add an index of the whole memory, and return its counts."""
    if name not in INDEXES:
        raise NotFoundError(f"there is no such index; known: {', '.join(INDEXES)}")
    if name in [one.name for one in await memory.indexes()]:
        return http_problem(409, "the memory has this index already; rebuild makes it anew")
    return answer(await memory.add_index(name, **bodies.given_options(body)))


@routes.delete(
    "/indexes/{name}", **operation("indexes", "drop_index", None, "admin", status=204, writes=True)
)
async def drop_index(name: IndexName, memory: Memory) -> Response:
    """Drop an index and all its data. The turns stay."""
    await memory.drop_index(name)
    return Response(status_code=204)
