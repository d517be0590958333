"""A whole memory as a file of JSON Lines: out, and in."""

from __future__ import annotations

import io
from typing import Annotated, Any, BinaryIO, cast

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from memforest.access import Shares
from memforest.memory.transfer.results import MemoryImport
from memforest.rest.answers import answer
from memforest.rest.deps import Who, access_of
from memforest.rest.fields import read_budget
from memforest.rest.params import BudgetText, Memory, UserId
from memforest.rest.routing import operation, strict_router
from memforest.rest.streams import Pipe, PipeResponse

FILE = "application/octet-stream"
LINES = ("application/jsonl", "application/x-ndjson")
"""Other names of the same."""
router = strict_router("transfer", "/v1/users/{user_id}")

_FILE: dict[str, Any] = {"content": {FILE: {"schema": {"type": "string", "format": "binary"}}}}


@router.get(
    "/export",
    **operation(
        "export",
        None,
        "read",
        responses={200: {"description": "JSON Lines; docs/export.md has the schema.", **_FILE}},
        response_class=StreamingResponse,
    ),
)
async def export(
    user_id: UserId,
    request: Request,
    who: Who,
    vectors: Annotated[bool, Query(description="vectors too, so that the import need not make them")] = False,
    summaries: Annotated[bool, Query(description="the summaries of trees too")] = True,
) -> Response:
    """Return everything that the memory holds, of one moment, from which `import_` makes an equal one.

    The connection is cut where it fails on the way: the file is whole if it ends with its last record.
    """
    user = who.user_id(user_id)
    downloads = cast(Shares, request.app.state.downloads)

    async def work(pipe: Pipe) -> None:
        with downloads.one(who.tenant):
            async with access_of(request).forest(who) as forest:
                await forest.user(user).export(cast(BinaryIO, pipe), vectors=vectors, summaries=summaries)

    return await PipeResponse.of(Pipe(work), FILE)


@router.post(
    "/import",
    **operation(
        "import_",
        MemoryImport,
        "write",
        400,
        413,
        415,
        ingests=True,
        openapi_extra={"requestBody": {"required": True, **_FILE}},
    ),
)
async def import_(memory: Memory, request: Request, budget: BudgetText = None) -> Response:
    """Make this user's memory from what `export` returned; the user must have none. Larger files are imported where they are."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in (FILE, *LINES):
        raise HTTPException(415, f"the body must be an export, with Content-Type: {FILE}")
    spends = None if budget is None else read_budget(budget)
    return answer(await memory.import_(io.BytesIO(await request.body()), budget=spends))
