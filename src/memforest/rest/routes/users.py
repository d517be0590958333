"""Users: whose memories there are."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends, Request, Response

from memforest.forest.pool import no_memory
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.merge.report import ForestMergeResult, MergeResult
from memforest.rest.answers import User, Users, answer, located
from memforest.rest.bodies import MergeBody, MergeUserForestsBody, RegisterUserBody
from memforest.rest.deps import Forest, Who
from memforest.rest.params import Cursor, DryRun, Memory, PageSize, UserId, encoded
from memforest.rest.problems import http_problem
from memforest.rest.routing import operation, strict_router

router = strict_router("users")


async def may_list(who: Who) -> None:
    """Let those pass who may read, of a key for one user, or else those with the scope `admin`."""
    who.require("admin" if who.user is None else "read")


@router.get(
    "/users",
    **operation(
        "list_users",
        Users,
        "admin",
        scopes="admin, of a key for one user read",
        dependencies=[Depends(may_list)],
    ),
)
async def list_users(forest: Forest, who: Who, limit: PageSize = 50, cursor: Cursor = None) -> Response:
    """List who has a memory, in no order that means anything: a key of one user sees that user alone, others need the scope `admin`."""
    if who.user is not None:
        return answer(Users((who.user,) if await forest.has_user(who.user) else ()))
    page = await forest.users(limit=limit, cursor=cursor)
    return answer(Users(page.users, page.next_cursor))


@router.put(
    "/users/{user_id}",
    **operation(
        "register_user",
        User,
        "write",
        409,
        body=True,
        writes=True,
        responses={201: {"model": User, "description": "The user had no memory."}},
    ),
)
async def register_user(
    request: Request,
    user_id: UserId,
    forest: Forest,
    who: Who,
    body: Annotated[RegisterUserBody | None, Body()] = None,
) -> Response:
    """Make a user's memory, or open it when there is one."""
    user = who.user_id(user_id)
    known = await forest.has_user(user)
    if known and body is not None and not body.load_existing:
        return http_problem(409, "the user has a memory already; leave load_existing out to open it")
    await forest.register_user(user, **({} if body is None else body.options()))
    return answer(User(user), 200 if known else 201, located(request, f"/v1/users/{encoded(user)}"))


@router.get("/users/{user_id}", **operation("has_user", User, "read"))
async def has_user(user_id: UserId, forest: Forest, who: Who) -> Response:
    """Tell whether a user has a memory: 404 if not."""
    user = who.user_id(user_id)
    if not await forest.has_user(user):
        raise no_memory(user)
    return answer(User(user))


@router.delete("/users/{user_id}", **operation("delete_user", DeleteReceipt, "delete", writes=True))
async def delete_user(memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a user's memory with all of its files, whatever state they are in, or count what is in it."""
    return answer(await memory.delete_all(dry_run=dry_run))


@router.post(
    "/users/{user_id}/merge",
    **operation("merge", MergeResult, "admin", body=True, ingests=True),
)
async def merge(memory: Memory, who: Who, body: MergeBody) -> Response:
    """Merge another user's memory into this one; the other stays as it is."""
    given = body.options()
    return answer(await memory.merge(who.user_id(given.pop("from_user")), **given))


@router.post(
    "/merge_user_forests",
    **operation("merge_user_forests", ForestMergeResult, "admin", body=True, ingests=True),
)
async def merge_user_forests(forest: Forest, who: Who, body: MergeUserForestsBody) -> Response:
    """Merge several users' memories into one, which is made if there is none; the others stay as they are."""
    given = body.options()
    for user in (*given["source_user_ids"], given["target_user_id"]):
        who.user_id(user)
    return answer(await forest.merge_user_forests(**given))
