"""mem0's routes for one memory, for changing and deleting, and for users, as its client `mem0ai` 2.2 calls them.

What that client may call and is not mapped answers 501 and names what to use instead; see docs/compat.md.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timezone
from typing import Annotated, Any

from fastapi import Query, Request

from memforest.errors import InputError, NotFoundError
from memforest.memory.forest import AsyncMemForest
from memforest.read.stored import HistoryEntry
from memforest.reading.timestamps import parse_timestamp
from memforest.server.rest import mem0
from memforest.server.rest import mem0_records as records
from memforest.server.rest.compat import PREFIX, facade, route, unmapped
from memforest.server.rest.routing import Forest, Who

router = facade()

MOST_QUERY_CHARS = 4_000
"""Longest filter in an address."""


@route(router, "GET", "/v1/memories/{memory_id}/", "read")
async def get(memory_id: str, forest: Forest, who: Who) -> dict[str, Any]:
    """Return one memory under its id; a corrected one with its newest text."""
    record, _ = await _one(records.unseal(memory_id, who), forest)
    return {**records.shown_scope(record), "id": memory_id}


@route(router, "GET", "/v1/memories/{memory_id}/history/", "read")
async def history(memory_id: str, forest: Forest, who: Who) -> list[dict[str, Any]]:
    """Return the history of one memory, oldest first."""
    sealed = records.unseal(memory_id, who)
    if sealed.kind == "f":
        with _one_answer():
            entries = await forest.user(sealed.user).history(sealed.fact_id)
    else:
        entries = []
    record, _ = await _one(sealed, forest)
    events = list(_told(entries)) or [{"event": "ADD", "old_memory": None, "new_memory": record.text}]
    return [
        {
            "id": f"{memory_id}:{number}",
            "memory_id": memory_id,
            "user_id": sealed.user,
            "input": [],
            "metadata": dict(record.metadata),
            "created_at": record.created.isoformat(),
            "updated_at": record.created.isoformat(),
            **event,
        }
        for number, event in enumerate(events)
    ]


@route(router, "PUT", "/v1/memories/{memory_id}/", "write")
async def update(memory_id: str, body: mem0.Update, forest: Forest, who: Who) -> dict[str, Any]:
    """Correct the text or the start time of a memory."""
    body.check()
    sealed = records.unseal(memory_id, who)
    await _update(sealed, body, forest)
    record, _ = await _one(sealed, forest)
    return {**records.shown_scope(record), "id": memory_id}


@route(router, "DELETE", "/v1/memories/{memory_id}/", "delete")
async def delete(
    memory_id: str, forest: Forest, who: Who, delete_linked: Annotated[bool, Query()] = False
) -> dict[str, str]:
    """Delete a memory with the words that it was made from."""
    if delete_linked:
        raise unmapped(
            "The option delete_linked", "Delete each memory, or all that was said of an entity over /v1."
        )
    await _delete(records.unseal(memory_id, who), forest)
    return {"message": "Memory deleted successfully!"}


@route(router, "PUT", "/v1/batch/", "write")
async def batch_update(body: mem0.MemoryBatch, forest: Forest, who: Who) -> dict[str, str]:
    """Correct several memories, one after the other; all have to exist."""
    for one in body.memories:
        one.check()
        if one.text is None and one.timestamp is None:
            raise InputError("each memory of the batch needs a text or a timestamp")
    sealed = [records.unseal(one.memory_id, who) for one in body.memories]
    for each in sealed:
        await _one(each, forest)
    for each, given in zip(sealed, body.memories, strict=True):
        await _update(each, given, forest)
    return {"message": f"Successfully updated {len(sealed)} memories"}


@route(router, "DELETE", "/v1/batch/", "delete")
async def batch_delete(body: mem0.MemoryBatch, forest: Forest, who: Who) -> dict[str, str]:
    """Delete several memories, one after the other; all have to exist."""
    sealed = [records.unseal(one.memory_id, who) for one in body.memories]
    for each in sealed:
        await _one(each, forest)
    for each in dict.fromkeys(sealed):
        # Deleting one deletes its words, and with them what else was made of those.
        with suppress(NotFoundError):
            await _delete(each, forest)
    return {"message": f"Successfully deleted {len(sealed)} memories"}


@route(router, "DELETE", "/v1/memories/", "delete")
async def delete_all(request: Request, forest: Forest, who: Who) -> dict[str, str]:
    """Delete the turns that pass a filter; refuse without a filter."""
    wanted = records.read_mem0(_of_query(request))
    if wanted == records.Filter() or (
        records.fields_in(wanted) == {"user_id"} and records.users_of(wanted) is None
    ):
        raise InputError(
            "delete_all without a filter would delete everything and is refused; give user_id, or more ids beside it"
        )
    if beyond := sorted(records.fields_in(wanted) & {"categories", "memory_ids", "keywords", "updated_at"}):
        raise unmapped(f"Deleting by {beyond[0]}", "Find the memories with get_all and delete them by id.")
    gone = 0
    for memories in records.meant(forest, who, wanted):
        with suppress(NotFoundError):  # there may be no such user
            gone += await _delete_matching(memories, wanted)
    return {"message": f"Memories deleted successfully! ({gone} messages)"}


@contextmanager
def _one_answer() -> Iterator[None]:
    """Raise the same error for every id that leads nowhere."""
    try:
        yield
    except NotFoundError:
        raise records.no_such_memory() from None


async def _one(sealed: records.Sealed, forest: AsyncMemForest) -> tuple[records.Mem0Memory, str | None]:
    """Return the record of a decoded id, and the id of its current fact; None for a turn."""
    memories = records.Memories(forest, sealed.user)
    with _one_answer():
        if sealed.kind == "t":
            return await memories.of_turn(*sealed.parts), None
        view = await memories.fact(sealed.fact_id)
        record = await memories.of_fact(view)
    if record is None:
        raise records.no_such_memory()
    return record, view.fact_id


async def _update(sealed: records.Sealed, body: mem0.Update, forest: AsyncMemForest) -> None:
    record, fact_id = await _one(sealed, forest)
    if fact_id is None:
        raise unmapped("Changing what was said", "It stays as it was said; delete it and add what holds.")
    # The same update sent again has nothing left to change.
    text = None if body.text is not None and body.text.strip() == record.text else body.text
    start = body.timestamp
    if start is not None:
        view = await records.Memories(forest, sealed.user).fact(fact_id)
        same = parse_timestamp(start, timezone=timezone.utc, field="timestamp")[0] == view.start
        start = None if same else start
    if text is not None or start is not None:
        await forest.user(sealed.user).update(fact_id, text, valid_from=start)


async def _delete(sealed: records.Sealed, forest: AsyncMemForest) -> None:
    _, fact_id = await _one(sealed, forest)
    handle = forest.user(sealed.user)
    with _one_answer():
        if fact_id is None:
            await handle.delete(turn=(sealed.parts[0], sealed.parts[1]))
        else:
            await handle.delete(fact_id)


async def _delete_matching(memories: records.Memories, wanted: records.Filter) -> int:
    """Delete the turns that pass a filter, or the whole user if it names only the user; return the number of turns."""
    handle = memories.forest.user(memories.user)
    if records.fields_in(wanted) == {"user_id"}:
        receipt = await handle.delete_all() if records.matches(wanted, {"user_id": memories.user}) else None
        return 0 if receipt is None else receipt.gone.get("turns", 0)
    gone = 0
    for session in await handle.sessions():
        turns = await handle.turns(session.session_id)
        hit = [
            turn.id
            for turn in turns
            if records.matches(wanted, (await memories.of_turn(session.session_id, turn.id)).fields())
        ]
        if len(hit) == len(turns) and hit:
            await handle.delete(session_id=session.session_id)
        else:
            for turn_id in hit:
                await handle.delete(turn=(session.session_id, turn_id))
        gone += len(hit)
    return gone


def _of_query(request: Request) -> dict[str, Any]:
    """Return the filter in a query: ids, and ``filters`` as JSON or as a Python dict, which mem0's client sends.

    Raises:
        InputError: if there is anything else in it.
    """
    found: list[Any] = []
    for name, value in request.query_params.multi_items():
        if name in ("org_id", "project_id", "org_name", "project_name"):
            continue
        if name in ("user_id", *records.LABELS) and not value.strip():
            # Left out, it would delete more than was meant.
            raise InputError(f"{name} is empty; leave it out, or say which")
        if name == "filters":
            if (read := _literal(value)) != {}:
                found.append(read)
        elif name in ("user_id", *records.LABELS):
            found.append({name: value})
        else:
            raise InputError(
                f"there is no parameter {name[:40]!r}; known: user_id, {', '.join(records.LABELS)}, filters"
            )
    return {"AND": found} if found else {}


def _literal(text: str) -> Any:
    if len(text) <= MOST_QUERY_CHARS:
        for read in (json.loads, ast.literal_eval):
            try:
                return read(text)
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                continue
    raise InputError("filters: give a JSON object")


def _told(entries: Iterable[HistoryEntry]) -> Iterable[Mapping[str, Any]]:
    """Yield the mem0 events of a history."""
    begun = False
    for one in entries:
        at = {"created_at": one.at.isoformat(), "updated_at": one.at.isoformat()}
        if one.kind == "said" and not begun:
            begun = True
            words = [{"role": one.speaker, "content": one.quote}]
            yield {"event": "ADD", "old_memory": None, "new_memory": one.text, "input": words, **at}
        elif one.kind in ("corrected", "undone"):
            yield {"event": "UPDATE", "old_memory": one.replaced, "new_memory": one.text, **at}
        elif one.kind == "forgotten":
            yield {"event": "DELETE", "old_memory": one.text, "new_memory": None, **at}


KINDS = ("user", "agent", "app", "run")


@route(router, "GET", "/v1/entities/", None)
async def entities(
    forest: Forest,
    who: Who,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
) -> dict[str, Any]:
    """List the users: a user's key lists that user, other keys need the scope admin."""
    who.require("admin" if who.user is None else "read")
    if who.user is None:
        users = await forest.list_users()
    else:
        users = [who.user] if await forest.has_user(who.user) else []
    start = (page - 1) * page_size
    shown = users[start : start + page_size]
    return {
        "count": len(users),
        "next": page + 1 if start + page_size < len(users) else None,
        "previous": page - 1 if page > 1 else None,
        "results": [{"id": user, "name": user, "type": "user", "metadata": None} for user in shown],
    }


@route(router, "GET", "/v2/entities/user/{name:rest}/profile/", "read")
async def profile(name: str) -> None:
    """Refuse with 501: a profile here has sections of quoted lines, not the fields of a schema."""
    raise unmapped(
        "A profile by a schema", "GET /v1/users/{user_id}/profile has the profile in quoted lines."
    )


@route(router, "DELETE", "/v2/entities/{kind}/{name:rest}", "delete")
async def delete_entity(kind: str, name: str, forest: Forest, who: Who) -> dict[str, str]:
    """Delete a user with everything that was said; refuse other kinds of entities.

    The slash that mem0's client sends at the end is no part of the name.
    """
    if kind not in KINDS:
        raise InputError(f"there is no such type of entity; known: {', '.join(KINDS)}")
    name = name.removesuffix("/")
    try:
        if kind == "user":
            await forest.user(who.user_id(name)).delete_all()
        else:
            raise unmapped(
                f"Deleting a{'n' if kind[0] == 'a' else ''} {kind} of all users",
                f"Use delete_all(user_id=…, {kind}_id=…), for each user.",
            )
    except NotFoundError:
        raise NotFoundError("there is no such entity") from None
    return {"message": "Entity deleted successfully!"}


INSTEAD: tuple[tuple[str, str, str], ...] = (
    ("/v1/exports", "A memory export", "Use `memforest export`, or GET /v1/users/{user_id}/export."),
    ("/v1/summary", "A summary of an export", "Ask a question over /v1, or look at the trees of the memory."),
    ("/api/v1/webhooks", "A webhook", "Follow the events of a job: /v1/jobs/{job_id}/events."),
    ("/v1/webhooks", "A webhook", "Follow the events of a job: /v1/jobs/{job_id}/events."),
    ("/v1/feedback", "Feedback", "Correct the memory (update), or delete it."),
    ("/v1/events", "A list of events", "Ask for one event by its id, or follow a job: /v1/jobs/{job_id}."),
    (
        "/v2/profiles",
        "A profile by a schema",
        "GET /v1/users/{user_id}/profile has the profile in quoted lines.",
    ),
    (
        "/api/v1/orgs",
        "A project",
        "Settings are those of the server; tenants are made with `memforest keys`.",
    ),
    ("/v1/graph", "The graph of mem0", "GET /v1/users/{user_id}/graph, or entities and relations there."),
    ("/v2/graph", "The graph of mem0", "GET /v1/users/{user_id}/graph, or entities and relations there."),
    ("/v1/memories/search", "The old search", "Use search of mem0ai 2.2 (v3/memories/search)."),
    ("/v2/memories", "An older version of the API", "Use mem0ai 2.2, which calls v3/memories."),
)
"""Beginnings of paths, what they mean, and what to use instead."""


@router.api_route("/{path:rest}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], response_model=None)
async def not_mapped(path: str, request: Request, who: Who) -> None:
    """Answer 501 to unmapped paths, so that a missing feature does not look like a missing memory."""
    asked = request.url.path.partition(PREFIX)[2]
    for beginning, what, instead in INSTEAD:
        if asked == beginning or asked.startswith(f"{beginning}/"):
            raise unmapped(what, instead)
    if asked.strip("/").startswith("v1/memories/"):
        raise records.no_such_memory()  # an id with a slash, which none has
    raise unmapped(
        "This route", "docs/compat.md lists what is mapped; /openapi.json, the routes of the server."
    )
