"""Facts: what was understood, how it came about, and its correction."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Response

from memforest.memory.corrected import CorrectionView, HistoryEntry
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.results import FactPage, FactView
from memforest.rest.answers import answer
from memforest.rest.bodies import DeleteBody, UpdateBody
from memforest.rest.params import (
    CorrectionKey,
    Cursor,
    DryRun,
    FactId,
    Filters,
    Memory,
    NameText,
    PageSize,
    TimeText,
    pair,
)
from memforest.rest.routing import operation, read_json, strict_router

router = strict_router("facts", "/v1/users/{user_id}")


@router.get("/facts", **operation("list", FactPage, "read"))
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


@router.get("/facts/{fact_id}", **operation("get", FactView, "read"))
async def get(fact_id: FactId, memory: Memory) -> Response:
    """Return one fact."""
    return answer(await memory.get(fact_id))


@router.get("/facts/{fact_id}/history", **operation("history", list[HistoryEntry], "read"))
async def history(fact_id: FactId, memory: Memory) -> Response:
    """Return what happened to a statement, in the order this memory recorded it."""
    return answer(await memory.history(fact_id))


@router.patch("/facts/{fact_id}", **operation("update", CorrectionView, "write", 409, body=True, writes=True))
async def update(fact_id: FactId, memory: Memory, body: UpdateBody) -> Response:
    """Correct a statement: hide it, and put another one in its place. What was said stays as it was said."""
    return answer(await memory.update(fact_id, **body.options()))


@router.post("/facts/{fact_id}/pin", **operation("pin", CorrectionView, "write", 409, writes=True))
async def pin(fact_id: FactId, memory: Memory) -> Response:
    """Pin a statement: it is among the evidence of every question that it passes the time filters of."""
    return answer(await memory.pin(fact_id))


@router.post("/facts/{fact_id}/forget", **operation("forget", CorrectionView, "delete", 409, writes=True))
async def forget(fact_id: FactId, memory: Memory) -> Response:
    """Forget a statement: it is not shown any more, however often it is said or extracted."""
    return answer(await memory.forget(fact_id))


@router.post("/corrections/{key}/undo", **operation("undo", CorrectionView, "write", 409, writes=True))
async def undo(key: CorrectionKey, memory: Memory) -> Response:
    """Take a correction back: an update, a pin, or a forgetting."""
    return answer(await memory.undo(key))


@router.delete("/facts/{fact_id}", **operation("delete_fact", DeleteReceipt, "delete", writes=True))
async def delete_fact(fact_id: FactId, memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a fact, the sentences that it was made from, and everything that was made of them."""
    return answer(await memory.delete(fact_id, dry_run=dry_run))


@router.post("/delete", **operation("delete", DeleteReceipt, "delete", body=True, writes=True))
async def delete(memory: Memory, body: DeleteBody) -> Response:
    """Delete one thing with everything that was made of it: a fact, turn, session, entity, or a stretch of time."""
    return answer(await memory.delete(**body.options()))
