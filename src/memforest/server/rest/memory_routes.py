"""REST routes for one memory: sessions and turns, questions, facts and their correction, entities, time, trees and upkeep."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import Body, Request, Response

from memforest.errors import NotFoundError
from memforest.memory.user import AsyncUserMemory as Verbs
from memforest.read.receipts import DeleteReceipt
from memforest.read.results import IngestResult
from memforest.read.stored import IndexView
from memforest.server.rest import bodies
from memforest.server.rest.bodies import (
    DryRun,
    FactId,
    IdempotencyKey,
    IndexName,
    Memory,
    SessionId,
    TurnId,
    UserId,
    encoded,
)
from memforest.server.rest.problems import http_problem
from memforest.server.rest.routing import Context, Forest, Who, answer, located, operation, strict_router
from memforest.server.rest.verbs import verb_route
from memforest.trees.attached import INDEXES

routes = strict_router("/v1/users/{user_id}")

verb_route(routes, "asking", "POST /search", Verbs.search, "read", body=bodies.SearchBody)
verb_route(routes, "asking", "POST /ask", Verbs.ask, "read")


@routes.post("/context", **operation("asking", "context", Context, "read"))
async def context(memory: Memory, body: bodies.ContextBody) -> Response:
    """Return evidence for a question as text for a prompt, as much as fits into `max_tokens`."""
    given = body.options()
    given.pop("max_tokens", None)
    given.pop("statements", None)
    found = await memory.search(**given)
    text = found.context(body.max_tokens, statements=body.statements)
    return answer({"context": text, "warnings": found.warnings})


verb_route(routes, "entities", "GET /entities", Verbs.entities, "read")
verb_route(routes, "entities", "POST /entities/merge", Verbs.merge_entities, "write")
verb_route(routes, "entities", "POST /entities/split", Verbs.split_entity, "write")
verb_route(routes, "entities", "GET /entities/choices", Verbs.entity_choices, "read")
verb_route(routes, "entities", "GET /relations/{entity}", Verbs.relations, "read")
verb_route(routes, "entities", "GET /path", Verbs.path, "read")
verb_route(routes, "entities", "GET /graph", Verbs.graph, "read")

verb_route(routes, "facts", "GET /facts", Verbs.list, "read")
verb_route(routes, "facts", "GET /facts/{fact_id}", Verbs.get, "read")
verb_route(routes, "facts", "GET /facts/{fact_id}/history", Verbs.history, "read")
verb_route(routes, "facts", "PATCH /facts/{fact_id}", Verbs.update, "write", 409)
verb_route(routes, "facts", "POST /facts/{fact_id}/pin", Verbs.pin, "write", 409)
verb_route(routes, "facts", "POST /facts/{fact_id}/forget", Verbs.forget, "delete", 409)
verb_route(routes, "facts", "POST /corrections/{key}/undo", Verbs.undo, "write", 409)
verb_route(routes, "facts", "POST /delete", Verbs.delete, "delete")


@routes.delete("/facts/{fact_id}", **operation("facts", "delete_fact", DeleteReceipt, "delete", writes=True))
async def delete_fact(fact_id: FactId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a fact, the sentences that it was made from, and everything that was made of them."""
    return answer(await memory.delete(fact_id, dry_run=dry_run))


verb_route(routes, "timeline", "GET /timeline/{entity}", Verbs.timeline, "read")
verb_route(routes, "profiles", "POST /profile", Verbs.profile, "read", body=bodies.ProfileBody, writes=True)
verb_route(routes, "changes", "GET /changes", Verbs.changes, "read")
verb_route(routes, "changes", "GET /diff", Verbs.diff, "read")

verb_route(routes, "sessions", "GET /sessions", Verbs.sessions, "read")
verb_route(routes, "sessions", "GET /sessions/{session_id}", Verbs.turns, "read")
verb_route(routes, "messages", "POST /messages", Verbs.add, "write", 409, body=bodies.AddBody, ingests=True)


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
    """Store a session and make memory of it; durable when it returns.

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
    """Delete a session with everything that was made of it."""
    return answer(await memory.delete(session_id=session_id, dry_run=dry_run))


@routes.delete(
    "/sessions/{session_id}/turns/{turn_id}",
    **operation("sessions", "delete_turn", DeleteReceipt, "delete", writes=True),
)
async def delete_turn(
    session_id: SessionId, turn_id: TurnId, memory: Memory, dry_run: DryRun = False
) -> Response:
    """Delete one turn with everything that was made of it."""
    return answer(await memory.delete(turn=(session_id, turn_id), dry_run=dry_run))


verb_route(routes, "trees", "GET /trees", Verbs.tree, "read", writes=True)

verb_route(routes, "upkeep", "GET /stats", Verbs.stats, "read")
verb_route(routes, "upkeep", "POST /verify", Verbs.verify, "admin")
verb_route(routes, "upkeep", "POST /repair", Verbs.repair, "admin", writes=True)
verb_route(routes, "upkeep", "POST /flush", Verbs.flush, "write", ingests=True)
verb_route(routes, "upkeep", "POST /rebuild", Verbs.rebuild, "admin", ingests=True)
verb_route(routes, "upkeep", "GET /stale", Verbs.stale, "read")
verb_route(routes, "upkeep", "POST /expire", Verbs.expire, "delete")


@routes.post("/resume", **operation("upkeep", "resume", list[IngestResult], "admin", ingests=True))
async def resume(
    user_id: UserId, who: Who, forest: Forest, body: Annotated[bodies.ResumeBody | None, Body()] = None
) -> Response:
    """Finish interrupted or failed writes."""
    return answer(await forest.resume(who.user_id(user_id), **bodies.given_options(body)))


verb_route(routes, "indexes", "GET /indexes", Verbs.indexes, "read")
verb_route(routes, "indexes", "POST /advance", Verbs.advance, "write", ingests=True)


@routes.put("/indexes/{name}", **operation("indexes", "add_index", IndexView, "admin", 409, ingests=True))
async def add_index(
    name: IndexName, memory: Memory, body: Annotated[bodies.AddIndexBody | None, Body()] = None
) -> Response:
    """Add an index, let it place everything that the memory holds, and return what is there then."""
    if name not in INDEXES:
        raise NotFoundError(f"there is no such index; known: {', '.join(INDEXES)}")
    if name in [one.name for one in await memory.indexes()]:
        return http_problem(409, "the memory has this index already; rebuild makes it anew")
    return answer(await memory.add_index(name, **bodies.given_options(body)))


@routes.delete(
    "/indexes/{name}", **operation("indexes", "drop_index", None, "admin", status=204, writes=True)
)
async def drop_index(name: IndexName, memory: Memory) -> Response:
    """Take an index away with everything that it has in the file; what was said stays as it is."""
    await memory.drop_index(name)
    return Response(status_code=204)
