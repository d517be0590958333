"""A memory over time: timelines, profiles, changes, and the difference between two times."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Body, Query, Response

from memforest.limits import MAX_CURSOR_CHARS
from memforest.memory.inspect.paged import TimelinePage
from memforest.memory.results import ChangePage, Diff, Profile
from memforest.rest.answers import answer
from memforest.rest.bodies import ProfileBody
from memforest.rest.params import Cursor, EntityId, Memory, NameText, PageSize, TimeText
from memforest.rest.routing import operation, strict_router

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
        entity,
        attribute=attribute,
        kind=kind,
        said_by=said_by,
        known_at=known_at,
        limit=limit,
        cursor=cursor,
    )
    return answer(found)


@profiles.post("/profile", **operation("profile", Profile, "read", body=True, writes=True))
async def profile(memory: Memory, body: Annotated[ProfileBody | None, Body()] = None) -> Response:
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
