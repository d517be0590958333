"""Sessions and their turns."""

from __future__ import annotations

from contextlib import suppress

from fastapi import Request, Response

from memforest.errors import NotFoundError
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.inspect.paged import SessionPage, TurnPage
from memforest.memory.results import IngestResult
from memforest.rest.answers import answer, located
from memforest.rest.bodies import AddBody, IngestSessionBody
from memforest.rest.deps import Forest
from memforest.rest.params import Cursor, DryRun, IdempotencyKey, Memory, PageSize, SessionId, TurnId, encoded
from memforest.rest.routing import operation, strict_router

router = strict_router("sessions", "/v1/users/{user_id}/sessions")
messages = strict_router("messages", "/v1/users/{user_id}/messages")


@router.get("", **operation("sessions", SessionPage, "read"))
async def sessions(memory: Memory, limit: PageSize = 50, cursor: Cursor = None) -> Response:
    """List the stored sessions in time order."""
    return answer(await memory.sessions(limit=limit, cursor=cursor))


@router.put(
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
    body: IngestSessionBody,
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


@router.get("/{session_id}", **operation("turns", TurnPage, "read"))
async def turns(
    session_id: SessionId, memory: Memory, limit: PageSize = 50, cursor: Cursor = None
) -> Response:
    """List the turns of a session, in order, as they were said."""
    return answer(await memory.turns(session_id, limit=limit, cursor=cursor))


@router.delete("/{session_id}", **operation("delete_session", DeleteReceipt, "delete", writes=True))
async def delete_session(session_id: SessionId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a session with everything that was made of it."""
    return answer(await memory.delete(session_id=session_id, dry_run=dry_run))


@router.delete(
    "/{session_id}/turns/{turn_id}", **operation("delete_turn", DeleteReceipt, "delete", writes=True)
)
async def delete_turn(
    session_id: SessionId, turn_id: TurnId, memory: Memory, dry_run: DryRun = False
) -> Response:
    """Delete one turn with everything that was made of it."""
    return answer(await memory.delete(turn=(session_id, turn_id), dry_run=dry_run))


@messages.post("", **operation("add", IngestResult, "write", 409, body=True, ingests=True))
async def add(memory: Memory, body: AddBody, idempotency_key: IdempotencyKey = None) -> Response:
    """Add something said just now: a text by the user, a message, or several. What has no time is stamped with the clock's.

    A request that is sent again with its `Idempotency-Key` writes nothing and answers what the first one did.
    """
    return answer(await memory.add(idempotency_key=idempotency_key, **body.options()))
