"""mem0's routes for adding and finding, as its client `mem0ai` 2.2 calls them; docs/compat.md says what they mean here.

Their bodies have every option of the client: some work, some change nothing, and some are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta, timezone
from typing import Annotated, Any

from fastapi import Header, Query, Request
from pydantic import Field

from memforest.errors import IdempotencyError, InputError, TimestampError
from memforest.memory.user import AsyncUserMemory
from memforest.read.results import IngestResult
from memforest.reading.timestamps import parse_timestamp
from memforest.server.rest import mem0_records as records
from memforest.server.rest.bodies import Many
from memforest.server.rest.compat import StrictBody, facade, route, unmapped
from memforest.server.rest.routing import Forest, Who
from memforest.settings import MAX_PAGE, MAX_TOP_K

TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
Share = Annotated[float, Field(ge=0, le=1)]

_INSTEAD = {
    "enable_graph": "Entities and relations are kept always: GET /v1/users/{user_id}/graph.",
    "output_graph": "GET /v1/users/{user_id}/graph, or entities and relations there.",
    "custom_categories": "Statements get topics of their own, which are shown as categories; put yours into metadata.",
    "custom_instructions": "What is extracted is set by the server's configuration.",
    "agent_custom_instructions": "What is extracted is set by the server's configuration.",
    "includes": "Leave out of the messages what is not to be kept, or delete it.",
    "excludes": "Leave out of the messages what is not to be kept, or delete it.",
    "structured_data_schema": "Put structured data into metadata.",
    "expiration_date": "Give update a time in `valid_to` over /v1, delete what is not to be kept, or set Config.retention.",
    "immutable": "What was said is never changed; a correction can be undone.",
    "only_metadata_based_search": "List with a filter instead (get_all).",
}


class Ids(StrictBody):
    """A body with ids beside those in ``filters``, and with options that are accepted without effect."""

    version: Any = None
    api_version: Any = None
    output_format: Any = None
    async_mode: Any = None
    source: Any = None
    org_id: Any = None
    org_name: Any = None
    project_id: Any = None
    project_name: Any = None
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None

    def check(self) -> None:
        """Raise if an option is set that cannot be honoured.

        Raises:
            UnmappedError: naming the first one and what to use instead.
        """
        for name, instead in _INSTEAD.items():
            if getattr(self, name, None) not in (None, False, "", [], {}):
                raise unmapped(f"The option {name}", instead)


class Add(Ids):
    """The body of ``v3/memories/add``."""

    filters: Mapping[str, Any] | None = None
    messages: str | dict[str, Any] | Many[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    infer: bool = True
    timestamp: int | float | str | None = None
    enable_graph: Any = None
    output_graph: Any = None
    custom_categories: Any = None
    custom_instructions: Any = None
    agent_custom_instructions: Any = None
    includes: Any = None
    excludes: Any = None
    structured_data_schema: Any = None
    expiration_date: Any = None
    immutable: Any = None

    def owner(self) -> dict[str, str]:
        """Return the given ids, those in ``filters`` included.

        Raises:
            InputError: if ``filters`` holds anything else than ids here.
        """
        if unknown := [name for name in self.filters or {} if name not in records.IDS]:
            raise InputError(
                f"filters: {unknown[0][:40]!r} is no id; what is added belongs to {', '.join(records.IDS)}"
            )
        both = {
            **(self.filters or {}),
            **{name: value for name in records.IDS if (value := getattr(self, name))},
        }
        if wrong := [
            name for name, value in both.items() if value is not None and not isinstance(value, str)
        ]:
            raise InputError(f"filters: {wrong[0]} takes one text here")
        return {name: value for name, value in both.items() if value}

    def turns(self) -> list[dict[str, Any]]:
        """Return the messages as turns with the owner's ids and metadata."""
        given = self.messages
        if isinstance(given, str):
            messages: list[dict[str, Any]] = [{"role": "user", "content": given}]
        else:
            messages = [given] if isinstance(given, dict) else given
        owner = self.owner()
        labels = {name: owner[name] for name in records.LABELS if name in owner}
        kept = {} if not self.metadata else {"metadata": self.metadata}
        return [{**one, **labels, "run_id": labels.get("run_id"), **kept} for one in messages]


class List(Ids):
    """The body of ``v3/memories/``."""

    filters: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    categories: Many[str] | None = None
    fields: Many[str] | None = None
    start_date: str | None = None
    end_date: str | None = None
    latest_only: bool | None = None
    show_expired: bool | None = None
    enable_graph: Any = None
    output_graph: Any = None

    def condition(self) -> dict[str, Any] | None:
        """Return all conditions as one mem0 filter; None without any."""
        created = {"gte": self.start_date, **_until(self.end_date)}
        dated = {name: value for name, value in created.items() if value is not None}
        ids = {name: one for name in records.IDS if (one := getattr(self, name)) is not None}
        parts: list[Any] = [
            self.filters,
            ids,
            self.metadata and {"metadata": self.metadata},
            self.categories and {"categories": {"in": self.categories}},
            dated and {"created_at": dated},
        ]
        found = [part for part in parts if part]
        return {"AND": found} if found else None


def _until(end: str | None) -> dict[str, str | None]:
    """Return the condition of an end date, which includes that day, or of an end time."""
    try:
        return {"lt": (date.fromisoformat(end or "") + timedelta(days=1)).isoformat()}
    except (ValueError, OverflowError):  # a time, the last day that there is, or neither
        return {"lte": end}


class Search(List):
    """The body of ``v3/memories/search``."""

    query: Annotated[str, Field(min_length=1)]
    top_k: TopK = 10
    limit: TopK | None = None
    threshold: Share | None = None
    reference_date: int | float | str | None = None
    rerank: bool | None = None
    keyword_search: bool | None = None
    filter_memories: bool | None = None
    only_metadata_based_search: Any = None


class Update(StrictBody):
    """The body of a PUT to one memory."""

    text: str | None = None
    metadata: Any = None
    timestamp: int | float | str | None = None
    expiration_date: Any = None

    def check(self) -> None:
        """Raise if it sets something that cannot be changed.

        Raises:
            UnmappedError: naming it and what to use instead.
        """
        if self.metadata is not None:
            raise unmapped(
                "Changing metadata",
                "It is kept with what was said; delete that and add it again with other metadata.",
            )
        if self.expiration_date is not None:
            raise unmapped("The option expiration_date", _INSTEAD["expiration_date"])


class One(Update):
    """One memory of a batch."""

    memory_id: str


class MemoryBatch(StrictBody):
    """The body of a batch."""

    memories: Annotated[Many[One], Field(min_length=1, max_length=1000)]


router = facade()


@route(router, "GET", "/v1/ping/", None)
async def ping(who: Who) -> dict[str, Any]:
    """Confirm that the key is valid. Organisation and project are fixed: a tenant here has neither."""
    return {"status": "ok", "org_id": "memforest", "project_id": "default", "user_email": None}


@route(router, "POST", "/v3/memories/add/", "write")
async def add(
    request: Request,
    body: Add,
    forest: Forest,
    who: Who,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Add messages, synchronously; the returned event is that of their session."""
    body.check()
    owner = body.owner()
    user = owner.get("user_id") or who.user
    if user is None:
        raise InputError("whose memory? give user_id; agent_id, app_id and run_id are kept with what is said")
    handle = forest.user(who.user_id(user))
    run = owner.get("run_id")
    session_id = run if run is None or body.infer else f"{run}-verbatim"
    async with request.app.state.access.ingesting(who):
        result = await _added_at_its_time(handle, body, session_id, idempotency_key)
    status = "FAILED" if result.failed else "PENDING" if result.left else "SUCCEEDED"
    return {
        "message": f"{result.turns_added} messages stored, {len(result.added)} memories added",
        "status": status,
        "event_id": records.seal("e", user, result.session_id),
        "results": await _added(records.Memories(forest, user), result),
    }


async def _added_at_its_time(
    handle: AsyncUserMemory, body: Add, session_id: str | None, key: str | None
) -> IngestResult:
    """Add to a session, or to a new one beside it if the messages are older than its end: mem0's clients add in any order.

    A repeated write with the same key is looked for in both sessions.
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


async def _added(memories: records.Memories, result: IngestResult) -> list[dict[str, Any]]:
    """Return a write's new facts with their ids; of a very long session, those among its last thousand."""
    if not result.added:
        return []
    handle, new = memories.forest.user(memories.user), set(result.added)
    page = await handle.list(session_id=result.session_id, limit=MAX_PAGE)
    if page.total > MAX_PAGE:
        page = await handle.list(session_id=result.session_id, limit=MAX_PAGE, offset=page.total - MAX_PAGE)
    views = [view for view in page if new.intersection((view.statement, *view.wordings))]
    added = [record for view in views if (record := await memories.of_fact(view))]
    return [{"id": one.id, "memory": one.text, "event": "ADD"} for one in added]


@route(router, "GET", "/v1/event/{event_id}/", "read")
async def event(event_id: str, forest: Forest, who: Who) -> dict[str, Any]:
    """Return the status of the session that was added to."""
    sealed = records.unseal(event_id, who)
    if sealed.kind != "e":
        raise records.no_such_memory()
    for one in await forest.user(sealed.user).sessions():
        if one.session_id == sealed.parts[0]:
            waits = "SUCCEEDED" if one.status == "ingested" else "PENDING"
            status = "FAILED" if one.failed_chunks else waits
            return {"id": event_id, "event_type": "ADD", "status": status, "results": []}
    raise records.no_such_memory()


@route(router, "POST", "/v3/memories/search/", "read")
async def search(body: Search, forest: Forest, who: Who) -> dict[str, Any]:
    """Return the memories that answer a query and pass a filter, best first."""
    body.check()
    wanted = records.read_mem0(body.condition())
    most = body.top_k if body.limit is None else body.limit
    found: list[records.Mem0Memory] = []
    for memories in records.meant(forest, who, wanted):
        found += await memories.search(
            body.query,
            wanted,
            most=most,
            least=body.threshold or 0.0,
            latest=bool(body.latest_only),
            reference_date=body.reference_date,
        )
    found.sort(key=lambda record: -(record.score or 0.0))
    return {"results": [records.shown_scope(record, body.fields) for record in found[:most]]}


@route(router, "POST", "/v3/memories/", "read")
async def get_all(
    request: Request,
    body: List,
    forest: Forest,
    who: Who,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> dict[str, Any]:
    """List facts in time order, a page at a time."""
    body.check()
    wanted = records.read_mem0(body.condition())
    offset, total, found = (page - 1) * page_size, 0, list[records.Mem0Memory]()
    for memories in records.meant(forest, who, wanted):
        more, count = await memories.page(
            wanted, latest=bool(body.latest_only), offset=max(0, offset - total), limit=page_size
        )
        found += more[: page_size - len(found)]
        total += count
    at = f"{request.url.path}?page={{}}&page_size={page_size}"
    return {
        "count": total,
        "next": at.format(page + 1) if page * page_size < total else None,
        "previous": at.format(page - 1) if page > 1 else None,
        "results": [records.shown_scope(record, body.fields) for record in found],
    }
