"""mem0's routes for adding and finding, as its client `mem0ai` 2.2 calls them; what they mean here is in docs/compat.md."""

from __future__ import annotations

from datetime import timezone
from typing import Annotated, Any

from fastapi import Header, Query, Request

from memforest.calendar import parse_timestamp
from memforest.errors import IdempotencyError, InputError, TimestampError
from memforest.forest.handle import AsyncUserMemory
from memforest.limits import MAX_PAGE
from memforest.memory.results import IngestResult
from memforest.rest.compat import mem0_bodies as bodies
from memforest.rest.compat.filters import read_mem0
from memforest.rest.compat.records import Memories, Record
from memforest.rest.compat.routing import facade, route
from memforest.rest.compat.scope import meant, shown
from memforest.rest.compat.tokens import no_such_memory, seal, unseal
from memforest.rest.deps import Forest, Who, access_of

router = facade()


# -- adding ---------------------------------------------------------------------------------------


@route(router, "GET", "/v1/ping/", None)
async def ping(who: Who) -> dict[str, Any]:
    """Say that the key holds. The names of organisation and project are fixed: a tenant here has neither."""
    return {"status": "ok", "org_id": "memforest", "project_id": "default", "user_email": None}


@route(router, "POST", "/v3/memories/add/", "write")
async def add(
    request: Request,
    body: bodies.Add,
    forest: Forest,
    who: Who,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Add messages. It is done when this answers; the event is that of the session they were added to."""
    body.check()
    owner = body.owner()
    user = owner.get("user_id") or who.user
    if user is None:
        raise InputError("whose memory? give user_id; agent_id, app_id and run_id are kept with what is said")
    handle = forest.user(who.user_id(user))
    run = owner.get("run_id")
    session_id = run if run is None or body.infer else f"{run}-verbatim"
    async with access_of(request).ingesting(who):
        result = await _added_at_its_time(handle, body, session_id, idempotency_key)
    status = "FAILED" if result.failed else "PENDING" if result.left else "SUCCEEDED"
    return {
        "message": f"{result.turns_added} messages stored, {len(result.added)} memories added",
        "status": status,
        "event_id": seal("e", user, result.session_id),
        "results": await _added(Memories(forest, user), result),
    }


async def _added_at_its_time(
    handle: AsyncUserMemory, body: bodies.Add, session_id: str | None, key: str | None
) -> IngestResult:
    """Add to a session; what was said before its end, to one of its own beside it: mem0's clients add in any order of times.

    A write that comes again with its key is looked for in both places.
    """

    async def into(session_id: str | None) -> IngestResult:
        return await handle.add(
            body.turns(),
            session_id=session_id,
            timestamp=body.timestamp,
            infer=body.infer,
            idempotency_key=key,
        )

    try:
        return await into(session_id)
    except (TimestampError, IdempotencyError):
        if body.timestamp is None:
            raise
        said, _ = parse_timestamp(body.timestamp, timezone=timezone.utc, field="timestamp")
        beside = session_id or ("live" if body.infer else "live-verbatim")
        return await into(f"{beside}-{said.isoformat()}")


async def _added(memories: Memories, result: IngestResult) -> list[dict[str, Any]]:
    """Return the new facts of a session with their ids; of a very long one, those among its last thousand."""
    if not result.added:
        return []
    handle, new = memories.forest.user(memories.user), set(result.added)
    page = await handle.list(session_id=result.session_id, limit=MAX_PAGE)
    if page.total > MAX_PAGE:
        page = await handle.list(session_id=result.session_id, limit=MAX_PAGE, offset=page.total - MAX_PAGE)
    views = [view for view in page if new.intersection((view.statement, *view.wordings))]
    records = [record for view in views if (record := await memories.of_fact(view))]
    return [{"id": one.id, "memory": one.text, "event": "ADD"} for one in records]


@route(router, "GET", "/v1/event/{event_id}/", "read")
async def event(event_id: str, forest: Forest, who: Who) -> dict[str, Any]:
    """Say how far the session is that was added to."""
    sealed = unseal(event_id, who)
    if sealed.kind != "e":
        raise no_such_memory()
    for one in await forest.user(sealed.user).sessions():
        if one.session_id == sealed.parts[0]:
            waits = "SUCCEEDED" if one.status == "ingested" else "PENDING"
            status = "FAILED" if one.failed_chunks else waits
            return {"id": event_id, "event_type": "ADD", "status": status, "results": []}
    raise no_such_memory()


# -- finding --------------------------------------------------------------------------------------


@route(router, "POST", "/v3/memories/search/", "read")
async def search(body: bodies.Search, forest: Forest, who: Who) -> dict[str, Any]:
    """Search, best first."""
    body.check()
    wanted = read_mem0(body.condition())
    most = body.top_k if body.limit is None else body.limit
    found: list[Record] = []
    for memories in meant(forest, who, wanted):
        found += await memories.search(
            body.query,
            wanted,
            most=most,
            least=body.threshold or 0.0,
            latest=bool(body.latest_only),
            reference_date=body.reference_date,
        )
    found.sort(key=lambda record: -(record.score or 0.0))
    return {"results": [shown(record, body.fields) for record in found[:most]]}


@route(router, "POST", "/v3/memories/", "read")
async def get_all(
    request: Request,
    body: bodies.List,
    forest: Forest,
    who: Who,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> dict[str, Any]:
    """List facts in time order, a page at a time."""
    body.check()
    wanted = read_mem0(body.condition())
    offset, total, found = (page - 1) * page_size, 0, list[Record]()
    for memories in meant(forest, who, wanted):
        more, count = await memories.page(
            wanted, latest=bool(body.latest_only), offset=max(0, offset - total), limit=page_size
        )
        found += more[: page_size - len(found)]
        total += count
    path = request.url.path

    def at(number: int) -> str:
        return f"{path}?page={number}&page_size={page_size}"

    return {
        "count": total,
        "next": at(page + 1) if page * page_size < total else None,
        "previous": at(page - 1) if page > 1 else None,
        "results": [shown(record, body.fields) for record in found],
    }
