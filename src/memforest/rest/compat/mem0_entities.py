"""mem0's routes for entities: here these are the users."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from memforest.errors import InputError, NotFoundError
from memforest.rest.compat.routing import facade, route
from memforest.rest.compat.wire import unmapped
from memforest.rest.deps import Forest, Who

router = facade()

KINDS = ("user", "agent", "app", "run")


@route(router, "GET", "/v1/entities/", None)
async def entities(
    forest: Forest,
    who: Who,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
) -> dict[str, Any]:
    """List the users; a key that is bound to one lists that one, others need the scope admin."""
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
    """Refuse: a profile here has sections of quoted lines, not the fields of a schema."""
    raise unmapped(
        "A profile by a schema", "GET /v1/users/{user_id}/profile has the profile in quoted lines."
    )


@route(router, "DELETE", "/v2/entities/{kind}/{name:rest}", "delete")
async def delete_entity(kind: str, name: str, forest: Forest, who: Who) -> dict[str, str]:
    """Delete a user with everything that was said; of a key that is bound to a user, also one run of theirs.

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
