"""REST routes for one memory: sessions and turns, questions, facts and their correction, entities, and the memory over time."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

from fastapi import Body, Query, Request, Response

from memforest.errors import NotFoundError
from memforest.read.changes import ChangePage, Diff
from memforest.read.entities import Entity, EntityChoice, EntityPage, GraphPicture, PathView, RelationView
from memforest.read.profiles import Profile
from memforest.read.receipts import DeleteReceipt
from memforest.read.results import AskResult, IngestResult, QueryResult
from memforest.read.stored import (
    CorrectionView,
    FactPage,
    FactView,
    HistoryEntry,
    SessionPage,
    TimelinePage,
    TurnPage,
)
from memforest.records import EntityKind
from memforest.server.rest import bodies
from memforest.server.rest.bodies import (
    CorrectionKey,
    Cursor,
    DryRun,
    EntityId,
    FactId,
    Filters,
    IdempotencyKey,
    Memory,
    NameText,
    PageSize,
    SessionId,
    TimeText,
    TurnId,
    encoded,
    pair,
)
from memforest.server.rest.routing import (
    Context,
    Forest,
    answer,
    located,
    operation,
    read_json,
    strict_router,
)
from memforest.settings import MAX_CURSOR_CHARS

asking_routes = strict_router("asking", "/v1/users/{user_id}")


@asking_routes.post("/search", **operation("search", QueryResult, "read", body=True))
async def search(memory: Memory, body: bodies.SearchBody) -> Response:
    """Return ranked evidence for a question, best first; the same for the same state and arguments."""
    return answer(await memory.search(**body.options()))


@asking_routes.post("/ask", **operation("ask", AskResult, "read", body=True))
async def ask(memory: Memory, body: bodies.AskBody) -> Response:
    """Answer a question from the best evidence, with citations, or abstain: `answer` is null then, and `reason` says why."""
    return answer(await memory.ask(**body.options()))


@asking_routes.post("/context", **operation("context", Context, "read", body=True))
async def context(memory: Memory, body: bodies.ContextBody) -> Response:
    """Return evidence for a question as text for a prompt, as much as fits into `max_tokens`."""
    given = body.options()
    given.pop("max_tokens", None)
    given.pop("statements", None)
    found = await memory.search(**given)
    text = found.context(body.max_tokens, statements=body.statements)
    return answer({"context": text, "warnings": found.warnings})


entity_routes = strict_router("entities", "/v1/users/{user_id}")


@entity_routes.get("/entities", **operation("entities", EntityPage, "read"))
async def entities(
    memory: Memory,
    kind: Annotated[EntityKind | None, Query(description="only of this kind")] = None,
    query: Annotated[NameText | None, Query(description="words that one name must hold")] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Response:
    """Return the entities that facts name, most often named first."""
    return answer(await memory.entities(kind, query, limit=limit, cursor=cursor))


@entity_routes.post("/entities/merge", **operation("merge_entities", Entity, "write", body=True, writes=True))
async def merge_entities(memory: Memory, body: bodies.MergeEntitiesBody) -> Response:
    """Merge two names into one entity, and return it. What was said stays; `split_entity` undoes it."""
    return answer(await memory.merge_entities(body.a, body.b))


@entity_routes.post("/entities/split", **operation("split_entity", Entity, "write", body=True, writes=True))
async def split_entity(memory: Memory, body: bodies.SplitEntityBody) -> Response:
    """Split a name off an entity, and return the entity that it is now."""
    return answer(await memory.split_entity(body.entity, body.name))


@entity_routes.get("/entities/choices", **operation("entity_choices", list[EntityChoice], "read"))
async def entity_choices(memory: Memory) -> Response:
    """Return the decisions on names and counts, oldest first."""
    return answer(await memory.entity_choices())


@entity_routes.get("/relations/{entity}", **operation("relations", list[RelationView], "read"))
async def relations(entity: EntityId, memory: Memory, as_of: TimeText | None = None) -> Response:
    """Return the relations of an entity: current ones first, then by weight."""
    return answer(await memory.relations(entity, as_of=as_of))


@entity_routes.get("/path", **operation("path", PathView, "read"))
async def path(
    memory: Memory,
    a: NameText,
    b: NameText,
    hops: Annotated[int, Query(ge=1, le=8, description="most steps")] = 4,
) -> Response:
    """Return the shortest path between two entities, each step with its evidence."""
    return answer(await memory.path(a, b, hops=hops))


@entity_routes.get("/graph", **operation("graph", GraphPicture, "read"))
async def graph(memory: Memory) -> Response:
    """Return a picture of the graph: its most named entities and the heaviest edges between them."""
    return answer(await memory.graph())


fact_routes = strict_router("facts", "/v1/users/{user_id}")


@fact_routes.get("/facts", **operation("list", FactPage, "read"))
async def list_facts(
    memory: Memory,
    offset: Annotated[
        int | None, Query(ge=0, le=2**53, description="how many matching facts to pass over")
    ] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
    filters: Filters = None,
    entity: NameText | None = None,
    session_id: NameText | None = None,
    as_of: TimeText | None = None,
    during: Annotated[
        list[str] | None, Query(min_length=2, max_length=2, description="[start, end), as two values")
    ] = None,
    said_by: TimeText | None = None,
    known_at: TimeText | None = None,
    verdict: Literal["pinned", "forgotten", "corrected"] | None = None,
) -> Response:
    """Return a page of facts in time order, without those that were corrected or forgotten."""
    page = await memory.list(
        **({} if offset is None else {"offset": offset}),
        limit=limit,
        cursor=cursor,
        filters=None if filters is None else read_json(filters.encode(), "filters"),
        entity=entity,
        session_id=session_id,
        as_of=as_of,
        during=pair(during),
        said_by=said_by,
        known_at=known_at,
        verdict=verdict,
    )
    return answer(page)


@fact_routes.get("/facts/{fact_id}", **operation("get", FactView, "read"))
async def get(fact_id: FactId, memory: Memory) -> Response:
    """Return one fact."""
    return answer(await memory.get(fact_id))


@fact_routes.get("/facts/{fact_id}/history", **operation("history", list[HistoryEntry], "read"))
async def history(fact_id: FactId, memory: Memory) -> Response:
    """Return what happened to a fact, in the order this memory recorded it."""
    return answer(await memory.history(fact_id))


@fact_routes.patch(
    "/facts/{fact_id}", **operation("update", CorrectionView, "write", 409, body=True, writes=True)
)
async def update(fact_id: FactId, memory: Memory, body: bodies.UpdateBody) -> Response:
    """Correct a fact: hide it, and put another one in its place. What was said stays as it was said."""
    return answer(await memory.update(fact_id, **body.options()))


@fact_routes.post("/facts/{fact_id}/pin", **operation("pin", CorrectionView, "write", 409, writes=True))
async def pin(fact_id: FactId, memory: Memory) -> Response:
    """Pin a fact: it is among the evidence of every question whose time filters it passes."""
    return answer(await memory.pin(fact_id))


@fact_routes.post(
    "/facts/{fact_id}/forget", **operation("forget", CorrectionView, "delete", 409, writes=True)
)
async def forget(fact_id: FactId, memory: Memory) -> Response:
    """Forget a fact: it is not shown any more, however often it is said or extracted."""
    return answer(await memory.forget(fact_id))


@fact_routes.post("/corrections/{key}/undo", **operation("undo", CorrectionView, "write", 409, writes=True))
async def undo(key: CorrectionKey, memory: Memory) -> Response:
    """Take a correction back: an update, a pin, or a forgetting."""
    return answer(await memory.undo(key))


@fact_routes.delete("/facts/{fact_id}", **operation("delete_fact", DeleteReceipt, "delete", writes=True))
async def delete_fact(fact_id: FactId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a fact, the sentences that it was made from, and everything that was made of them."""
    return answer(await memory.delete(fact_id, dry_run=dry_run))


@fact_routes.post("/delete", **operation("delete", DeleteReceipt, "delete", body=True, writes=True))
async def delete(memory: Memory, body: bodies.DeleteBody) -> Response:
    """Delete one thing with everything that was made of it: a fact, turn, session, entity, or a stretch of time."""
    return answer(await memory.delete(**body.options()))


PREFIX = "/v1/users/{user_id}"
timeline = strict_router("timeline", PREFIX)
profiles = strict_router("profiles", PREFIX)
changes = strict_router("changes", PREFIX)


@timeline.get("/timeline/{entity}", **operation("timeline", TimelinePage, "read"))
async def timeline_of(
    entity: EntityId,
    memory: Memory,
    attribute: NameText | None = None,
    kind: Literal["state", "event"] | None = None,
    said_by: TimeText | None = None,
    known_at: TimeText | None = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Response:
    """Return what is known of an entity in time order: states with their intervals, and events."""
    found = await memory.timeline(
        entity, attribute=attribute, kind=kind, said_by=said_by, known_at=known_at, limit=limit, cursor=cursor
    )
    return answer(found)


@profiles.post("/profile", **operation("profile", Profile, "read", body=True, writes=True))
async def profile(memory: Memory, body: Annotated[bodies.ProfileBody | None, Body()] = None) -> Response:
    """Return the profile in force, each line with its sources: of who takes part, or of anything else that is named."""
    return answer(await memory.profile(**({} if body is None else body.options())))


@changes.get("/changes", **operation("changes", ChangePage, "read"))
async def changes_since(
    memory: Memory,
    since: TimeText,
    until: TimeText | None = None,
    limit: PageSize = 100,
    after: Annotated[
        str | None, Query(max_length=MAX_CURSOR_CHARS, description="`next` of the page before")
    ] = None,
) -> Response:
    """Return what this memory has stored, learnt, merged, superseded, corrected and deleted in [since, until), in order."""
    return answer(await memory.changes(since, until, limit=limit, after=after))


@changes.get("/diff", **operation("diff", Diff, "read"))
async def diff(
    memory: Memory,
    a: TimeText,
    b: TimeText,
    entity: NameText | None = None,
    said_by: TimeText | None = None,
    known_at: TimeText | None = None,
) -> Response:
    """Return what was so at `a` and not at `b`, and the other way round: the states of entities, by valid time."""
    return answer(await memory.diff(a, b, entity=entity, said_by=said_by, known_at=known_at))


session_routes = strict_router("sessions", "/v1/users/{user_id}/sessions")
messages = strict_router("messages", "/v1/users/{user_id}/messages")


@session_routes.get("", **operation("sessions", SessionPage, "read"))
async def sessions(memory: Memory, limit: PageSize = 50, cursor: Cursor = None) -> Response:
    """List the stored sessions in time order."""
    return answer(await memory.sessions(limit=limit, cursor=cursor))


@session_routes.put(
    "/{session_id}",
    **operation(
        "ingest_session",
        IngestResult,
        "write",
        409,
        body=True,
        ingests=True,
        responses={201: {"model": IngestResult, "description": "The session is new."}},
    ),
)
async def ingest_session(
    request: Request,
    session_id: SessionId,
    memory: Memory,
    forest: Forest,
    body: bodies.IngestSessionBody,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store a session and make memory of it; durable when it returns.

    The same session again changes nothing, a longer version appends what is new, a different one is a conflict unless
    `replace`. An unknown user is registered.
    """
    given = body.options()
    turns = given.pop("turns")
    done = await forest.ingest_session(
        memory.user_id, session_id, turns, idempotency_key=idempotency_key, **given
    )
    new = False
    if done.turns_added and not (done.replaced or done.replayed):
        with suppress(NotFoundError):  # of what was too old to stay
            new = (await memory.turns(session_id, limit=1)).total == done.turns_added
    where = f"/v1/users/{encoded(memory.user_id)}/sessions/{encoded(session_id)}"
    return answer(done, 201 if new else 200, located(request, where))


@session_routes.get("/{session_id}", **operation("turns", TurnPage, "read"))
async def turns(
    session_id: SessionId, memory: Memory, limit: PageSize = 50, cursor: Cursor = None
) -> Response:
    """List the turns of a session, in order, as they were said."""
    return answer(await memory.turns(session_id, limit=limit, cursor=cursor))


@session_routes.delete("/{session_id}", **operation("delete_session", DeleteReceipt, "delete", writes=True))
async def delete_session(session_id: SessionId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a session with everything that was made of it."""
    return answer(await memory.delete(session_id=session_id, dry_run=dry_run))


@session_routes.delete(
    "/{session_id}/turns/{turn_id}", **operation("delete_turn", DeleteReceipt, "delete", writes=True)
)
async def delete_turn(
    session_id: SessionId, turn_id: TurnId, memory: Memory, dry_run: DryRun = False
) -> Response:
    """Delete one turn with everything that was made of it."""
    return answer(await memory.delete(turn=(session_id, turn_id), dry_run=dry_run))


@messages.post("", **operation("add", IngestResult, "write", 409, body=True, ingests=True))
async def add(memory: Memory, body: bodies.AddBody, idempotency_key: IdempotencyKey = None) -> Response:
    """Add something said just now: a text by the user, a message, or several. What has no time is stamped with the clock's.

    A request that is sent again with its `Idempotency-Key` writes nothing and answers what the first one did.
    """
    return answer(await memory.add(idempotency_key=idempotency_key, **body.options()))
