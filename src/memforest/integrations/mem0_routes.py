"""The routes of mem0's server, as its client `mem0ai` 2.2 calls them, over the verbs of memforest.

What they mean here, and what is not mapped, is told in docs/compat.md. Their bodies refuse unknown fields, and they are left out
of the OpenAPI description.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from memforest.errors import InputError, NotFoundError
from memforest.integrations import records
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import Scope
from memforest.server.rest.bodies import Id, Many
from memforest.server.rest.routing import Forest, KeyedRoute, Who, needs
from memforest.settings import MAX_PAGE, MAX_TOP_K

_REST = PathConvertor()
_REST.regex = "(?s:.*)"  # type: ignore[misc]  # of this converter alone
REST = "rest"
"""The converter of the rest of a path, whatever is in it: a user's id may hold a line break."""
register_url_convertor(REST, _REST)

MEM0 = "/compat/mem0"

_EXTRACTED = "What is extracted is set by the server's configuration."
_LEFT_OUT = "Leave out of the messages what should not be stored, or delete it."
_GRAPH = "GET /v1/users/{user_id}/graph, or entities and relations there."
_OLDER = ("An older version of the API", "Use mem0ai 2.2, which calls v3/memories.")
REFUSED = {
    "enable_graph": _GRAPH,
    "output_graph": _GRAPH,
    "custom_categories": "Statements get topics of their own, which are shown as categories; put yours into metadata.",
    "custom_instructions": _EXTRACTED,
    "agent_custom_instructions": _EXTRACTED,
    "includes": _LEFT_OUT,
    "excludes": _LEFT_OUT,
    "structured_data_schema": "Put structured data into metadata.",
    "expiration_date": "Give update a time in `valid_to` over /v1, delete what is not to be kept, or set Config.retention.",
    "immutable": "A turn never changes, and a correction can be undone.",
    "only_metadata_based_search": "List with a filter instead (get_all).",
}
"""Options that cannot be honoured, and what to use instead."""
WITHOUT_EFFECT = {
    "version", "api_version", "output_format", "async_mode", "source", "org_id", "org_name", "project_id", "project_name",
    "show_expired", "rerank", "keyword_search", "filter_memories",
}  # fmt: skip
"""Options that are accepted and change nothing."""
INSTEAD = {
    "/v1/exports": ("A memory export", "Use `memforest export`, or GET /v1/users/{user_id}/export."),
    "/v1/summary": ("A summary of an export", "Ask a question over /v1, or look at the trees of the memory."),
    "/api/v1/webhooks": ("A webhook", "Follow the events of a job: /v1/jobs/{job_id}/events."),
    "/v1/feedback": ("Feedback", "Correct the memory (update), or delete it."),
    "/v2/profiles": ("A profile by a schema", "GET /v1/users/{user_id}/profile has it in quoted lines."),
    "/api/v1/orgs": ("A project", "The server has settings; tenants are made with `memforest keys`."),
    "/v1/memories/search": _OLDER,
    "/v2/memories": _OLDER,
}
"""Beginnings of paths, what they mean, and what to use instead."""


def unmapped(what: str, instead: str) -> HTTPException:
    """Return the error of a feature without a counterpart.

    Args:
        what: that is not mapped.
        instead: what to use in its place: a sentence.
    """
    return HTTPException(501, f"{what} has no counterpart in memforest. {instead}")


class StrictBody(BaseModel):
    """A body that refuses unknown fields, and mem0's options that cannot be honoured unless they ask for nothing."""

    model_config = ConfigDict(extra="forbid")
    refused: ClassVar[Mapping[str, str]] = REFUSED

    @model_validator(mode="before")
    @classmethod
    def _options(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        for name in cls.refused.keys() & given.keys():
            if given[name] not in (None, False, "", [], {}):
                raise unmapped(f"The option {name}", cls.refused[name])
        return {name: one for name, one in given.items() if name not in {*cls.refused, *WITHOUT_EFFECT}}


class Ids(StrictBody):
    """Whose memories are meant."""

    user_id: Id | None = None
    agent_id: Id | None = None
    app_id: Id | None = None
    run_id: Id | None = None

    def ids(self) -> dict[str, str]:
        """Return those that are given."""
        return {name: value for name in records.IDS if (value := getattr(self, name)) is not None}


class Add(Ids):
    """The body of ``v3/memories/add``."""

    filters: Ids = Ids()
    messages: str | dict[str, Any] | Many[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    infer: bool = True
    timestamp: int | float | str | None = None

    def owner(self) -> dict[str, str]:
        """Return the given ids, those in ``filters`` included."""
        return {**self.filters.ids(), **self.ids()}

    def turns(self) -> list[dict[str, Any]]:
        """Return the messages as turns with the owner's ids and metadata."""
        given = [self.messages] if isinstance(self.messages, (str, dict)) else self.messages
        turns = [{"role": "user", "content": one} if isinstance(one, str) else one for one in given]
        return records.labelled(turns, self.owner(), self.metadata)


class List(Ids):
    """The body of ``v3/memories/``."""

    filters: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    categories: Many[str] | None = None
    fields: Many[str] | None = None
    start_date: str | None = None
    end_date: str | None = None
    latest_only: bool = False

    def wanted(self) -> records.Filter:
        """Return all conditions as one filter; ids beside the filter are conditions too."""
        created: dict[str, str | None] = {"gte": self.start_date, **_until(self.end_date)}
        dated = {op: time for op, time in created.items() if time is not None}
        parts: list[Any] = [
            self.filters,
            self.ids(),
            self.metadata and {"metadata": self.metadata},
            self.categories and {"categories": {"in": self.categories}},
            dated and {"created_at": dated},
        ]
        given = records.read_mem0({"AND": found} if (found := [part for part in parts if part]) else None)
        latest = records.Filter("eq", (), ("superseded",), False)
        return records.Filter("all", (given, latest)) if self.latest_only else given


def _until(end: str | None) -> dict[str, str | None]:
    """Return the condition of an end date, which includes that day, or of an end time."""
    try:
        return {"lt": (date.fromisoformat(end or "") + timedelta(days=1)).isoformat()}
    except (ValueError, OverflowError):  # a time, the last day that there is, or neither
        return {"lte": end}


class Search(List):
    """The body of ``v3/memories/search``."""

    query: Annotated[str, Field(min_length=1)]
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, validation_alias=AliasChoices("top_k", "limit"))] = 10
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    reference_date: int | float | str | None = None


MOST_QUERY_CHARS = 4_000
"""Longest filter in an address."""


def _literal(text: str) -> Any:
    """Return the value of JSON, or of a Python literal, as mem0's client sends a dict in an address."""
    if len(text) <= MOST_QUERY_CHARS:
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                return read(text)
    raise ValueError("give a JSON object")


class DeleteAll(List):
    """The query of a deletion."""

    filters: Annotated[Mapping[str, Any] | None, BeforeValidator(_literal)] = None


class Update(StrictBody):
    """The body of a PUT to one memory."""

    refused = {
        **REFUSED,
        "metadata": "Metadata belongs to the turn; delete the turn and add it again with other metadata.",
    }
    text: str | None = None
    timestamp: int | float | str | None = None


class One(Update):
    """One memory of a batch."""

    memory_id: str


class Batch(StrictBody):
    """The body of a batch."""

    memories: Annotated[Many[One], Field(min_length=1, max_length=1000)]


routes = APIRouter(prefix=MEM0, route_class=KeyedRoute, include_in_schema=False)

Page = Annotated[int, Query(ge=1, le=1_000_000)]


def _needs(scope: Scope) -> dict[str, Any]:
    return {"dependencies": [needs(scope)], "response_model": None}


@routes.get("/v1/ping/")
async def ping(who: Who) -> dict[str, Any]:
    """Confirm that the key is valid. Organisation and project are fixed: a tenant here has neither."""
    return {"status": "ok", "org_id": "memforest", "project_id": "default", "user_email": None}


@routes.post("/v3/memories/add/", **_needs("write"))
async def add(
    request: Request,
    body: Add,
    forest: Forest,
    who: Who,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Add messages, synchronously; the returned event is that of their session."""
    user = body.owner().get("user_id") or who.user
    if user is None:
        raise InputError("the user is missing: give user_id; agent_id, app_id and run_id are only labels")
    memories = records.Memories(forest, who.user_id(user))
    async with request.app.state.access.ingesting(who):
        run = body.owner().get("run_id")
        when = (run, body.timestamp, body.infer, idempotency_key)
        result = await records.add_at_its_time(forest.user(user), body.turns(), *when)
    new = [one.fields for one in await records.made_by(memories, result)]
    return {
        "message": f"{result.turns_added} messages stored, {len(result.added)} memories added",
        "status": "FAILED" if result.failed else "PENDING" if result.left else "SUCCEEDED",
        "event_id": records.seal("e", user, result.session_id),
        "results": [{"id": one["id"], "memory": one["memory"], "event": "ADD"} for one in new],
    }


@routes.get("/v1/event/{event_id}/", **_needs("read"))
async def event(event_id: str, forest: Forest, who: Who) -> dict[str, Any]:
    """Return the status of the session that was added to."""
    sealed = records.unseal(event_id, who, "e")
    for one in await forest.user(sealed.user).sessions():
        if one.session_id == sealed.parts[0]:
            waits = "SUCCEEDED" if one.status == "ingested" else "PENDING"
            status = "FAILED" if one.failed_chunks else waits
            return {"id": event_id, "event_type": "ADD", "status": status, "results": []}
    raise records.no_such_memory()


@routes.post("/v3/memories/search/", **_needs("read"))
async def search(body: Search, forest: Forest, who: Who) -> dict[str, Any]:
    """Return the memories that answer a query and pass a filter, best first."""
    wanted = body.wanted()
    found = await records.search(
        records.meant(forest, who, wanted),
        [body.query],
        wanted,
        body.top_k,
        least=body.threshold,
        reference_date=body.reference_date,
    )
    return {"results": [record.shown(body.fields, score=record.score) for record in found]}


@routes.post("/v3/memories/", **_needs("read"))
async def get_all(
    request: Request,
    body: List,
    forest: Forest,
    who: Who,
    page: Page = 1,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> dict[str, Any]:
    """List facts in time order, a page at a time."""
    wanted = body.wanted()
    offset, total, found = (page - 1) * page_size, 0, list[records.Memory]()
    for memories in records.meant(forest, who, wanted):
        more, count = await memories.page(wanted, max(0, offset - total), page_size)
        found += more[: page_size - len(found)]
        total += count
    at = f"{request.url.path}?page={{}}&page_size={page_size}"
    return {
        "count": total,
        "next": at.format(page + 1) if page * page_size < total else None,
        "previous": at.format(page - 1) if page > 1 else None,
        "results": [record.shown(body.fields) for record in found],
    }


@routes.get("/v1/memories/{memory_id}/", **_needs("read"))
async def get(memory_id: str, forest: Forest, who: Who) -> dict[str, Any]:
    """Return one memory under its id; a corrected one with its newest text."""
    return {**(await _found(memory_id, forest, who)).shown(), "id": memory_id}


@routes.get("/v1/memories/{memory_id}/history/", **_needs("read"))
async def history(memory_id: str, forest: Forest, who: Who) -> list[dict[str, Any]]:
    """Return the history of one memory, oldest first."""
    sealed = records.unseal(memory_id, who)
    return await records.history(records.Memories(forest, sealed.user), memory_id, sealed)


@routes.put("/v1/memories/{memory_id}/", **_needs("write"))
async def update(memory_id: str, body: Update, forest: Forest, who: Who) -> dict[str, Any]:
    """Correct the text or the start time of a memory."""
    await _update(await _found(memory_id, forest, who), body, forest)
    return await get(memory_id, forest, who)


@routes.delete("/v1/memories/{memory_id}/", **_needs("delete"))
async def delete(memory_id: str, forest: Forest, who: Who, delete_linked: bool = False) -> dict[str, str]:
    """Delete a memory with the words that it was made from."""
    if delete_linked:
        raise unmapped(
            "The option delete_linked", "Delete each memory, or all that was said of an entity over /v1."
        )
    await records.delete(forest, await _found(memory_id, forest, who))
    return {"message": "Memory deleted successfully!"}


@routes.put("/v1/batch/", **_needs("write"))
async def batch_update(body: Batch, forest: Forest, who: Who) -> dict[str, str]:
    """Correct several memories, one after the other; all have to exist."""
    if any(one.text is None and one.timestamp is None for one in body.memories):
        raise InputError("each memory of the batch needs a text or a timestamp")
    found = [await _found(one.memory_id, forest, who) for one in body.memories]
    for record, one in zip(found, body.memories, strict=True):
        await _update(record, one, forest)
    return {"message": f"Successfully updated {len(body.memories)} memories"}


@routes.delete("/v1/batch/", **_needs("delete"))
async def batch_delete(body: Batch, forest: Forest, who: Who) -> dict[str, str]:
    """Delete several memories, one after the other; all have to exist."""
    for record in [await _found(one.memory_id, forest, who) for one in body.memories]:
        # Deleting one deletes its words, and with them what else was made of those.
        with suppress(NotFoundError):
            await records.delete(forest, record)
    return {"message": f"Successfully deleted {len(body.memories)} memories"}


@routes.delete("/v1/memories/", **_needs("delete"))
async def delete_all(
    request: Request, query: Annotated[DeleteAll, Query()], forest: Forest, who: Who
) -> dict[str, str]:
    """Delete the turns that pass a filter, or the whole user if it names only the user; refuse without a filter."""
    if twice := [name for name in DeleteAll.model_fields if len(request.query_params.getlist(name)) > 1]:
        raise InputError(f"delete_all has {', '.join(twice)} more than once; give each once")
    wanted = query.wanted()
    named = records.fields_in(wanted)
    if not named or (named == {"user_id"} and records.users_of(wanted) is None):
        raise InputError(
            "delete_all without a filter would delete everything and is refused; give user_id, and more ids if you like"
        )
    if named & {"categories", "id", "memory", "updated_at", "superseded"}:
        raise unmapped(
            "Deleting by categories, keywords, memory_ids or updated_at",
            "Find the memories with get_all and delete them by id.",
        )
    gone = 0
    for memories in records.meant(forest, who, wanted):
        gone += await records.delete_matching(memories, wanted)
    return {"message": f"Memories deleted successfully! ({gone} messages)"}


async def _found(memory_id: str, forest: AsyncMemForest, who: Who) -> records.Memory:
    sealed = records.unseal(memory_id, who)
    return await records.Memories(forest, sealed.user).find(sealed)


async def _update(record: records.Memory, body: Update, forest: AsyncMemForest) -> None:
    if record.fact is None:
        raise unmapped("Changing a turn", "A turn never changes; delete it and add the right one.")
    await records.correct(forest, record, body.text, body.timestamp)


@routes.get("/v1/entities/")
async def entities(
    forest: Forest, who: Who, page: Page = 1, page_size: Annotated[int, Query(ge=1, le=10_000)] = 10_000
) -> dict[str, Any]:
    """List the users: a user's key lists that user, other keys need the scope admin."""
    who.require("admin" if who.user is None else "read")
    if who.user is None:
        users = await forest.list_users()
    else:
        users = [who.user] if await forest.has_user(who.user) else []
    end = page * page_size
    return {
        "count": len(users),
        "next": page + 1 if end < len(users) else None,
        "previous": page - 1 if page > 1 else None,
        "results": [
            {"id": user, "name": user, "type": "user", "metadata": None}
            for user in users[end - page_size : end]
        ],
    }


@routes.delete("/v2/entities/{kind}/{name:rest}", **_needs("delete"))
async def delete_entity(
    kind: Literal["user", "agent", "app", "run"], name: str, forest: Forest, who: Who
) -> dict[str, str]:
    """Delete a user with everything that was said; refuse other kinds of entities.

    The slash that mem0's client sends at the end is no part of the name.
    """
    if kind != "user":
        raise unmapped(
            f"Deleting the {kind} of all users", f"Use delete_all(user_id=…, {kind}_id=…), for each user."
        )
    try:
        await forest.user(who.user_id(name.removesuffix("/"))).delete_all()
    except NotFoundError:
        raise NotFoundError("unknown entity") from None
    return {"message": "Entity deleted successfully!"}


@routes.api_route("/{path:rest}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def not_mapped(path: str, who: Who) -> None:
    """Answer 501 to unmapped paths, so that a missing feature does not look like a missing memory."""
    for beginning, (what, instead) in INSTEAD.items():
        if f"/{path}/".startswith(f"{beginning}/"):
            raise unmapped(what, instead)
    if path.startswith("v1/memories/"):
        raise records.no_such_memory()  # an id with a slash, which none has
    raise unmapped(
        "This route", "docs/compat.md lists what is mapped; /openapi.json, the routes of the server."
    )
