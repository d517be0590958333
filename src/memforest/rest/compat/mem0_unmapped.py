"""What mem0's client may call and is not mapped: each answers 501 and names what to use instead."""

from __future__ import annotations

from fastapi import Request

from memforest.rest.compat.routing import PREFIX, facade
from memforest.rest.compat.tokens import no_such_memory
from memforest.rest.compat.wire import unmapped
from memforest.rest.deps import Who

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

router = facade()


@router.api_route("/{path:rest}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], response_model=None)
async def not_mapped(path: str, request: Request, who: Who) -> None:
    """Answer 501, so that nothing that is missing looks like a memory that is."""
    asked = request.url.path.partition(PREFIX)[2]
    for beginning, what, instead in INSTEAD:
        if asked == beginning or asked.startswith(f"{beginning}/"):
            raise unmapped(what, instead)
    if asked.strip("/").startswith("v1/memories/"):
        raise no_such_memory()  # an id with a slash, which none has
    raise unmapped(
        "This route", "docs/compat.md lists what is mapped; /openapi.json, the routes of the server."
    )
