"""The state of a memory: trees, counts, checks, indexes, and what is made anew."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Query, Response

from memforest.errors import NotFoundError
from memforest.limits import MAX_PAGE, MAX_TREE_DEPTH
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.inspect.stored import Stale
from memforest.memory.results import (
    FlushResult,
    IndexView,
    IngestResult,
    RepairReport,
    Stats,
    TreeView,
    Usage,
    VerifyReport,
)
from memforest.rest.answers import answer
from memforest.rest.bodies import AddIndexBody, AdvanceBody, DryRunBody, RebuildBody, SpendBody, VerifyBody
from memforest.rest.deps import Forest
from memforest.rest.fields import MOST
from memforest.rest.fields import Body as Options
from memforest.rest.params import IndexName, IndexText, Memory, NameText
from memforest.rest.problems import http_problem
from memforest.rest.routing import operation, strict_router
from memforest.systems.registry import INDEXES

PREFIX = "/v1/users/{user_id}"
trees = strict_router("trees", PREFIX)
upkeep = strict_router("upkeep", PREFIX)
indexes = strict_router("indexes", PREFIX)


def _options(body: Options | None) -> dict[str, object]:
    return {} if body is None else body.options()


@trees.get("/trees", **operation("tree", list[TreeView], "read", writes=True))
async def tree(
    memory: Memory,
    scope: Annotated[NameText | None, Query(description="name of a session, entity or scene")] = None,
    index: IndexText | None = None,
    depth: Annotated[
        int, Query(ge=0, le=MOST, description=f"levels below the root; {MAX_TREE_DEPTH} are unfolded at most")
    ] = 1,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="most nodes")] = 50,
    node: Annotated[
        int | None, Query(ge=1, le=MOST, description="`node_id` of a node: only this one is unfolded")
    ] = None,
) -> Response:
    """Return the trees, those of one scope, or one node, unfolded `depth` levels below the root."""
    return answer(await memory.tree(scope, index=index, depth=depth, limit=limit, node=node))


@upkeep.get("/stats", **operation("stats", Stats, "read"))
async def stats(memory: Memory) -> Response:
    """Return counts, the embedder, the schema and the size on disk."""
    return answer(await memory.stats())


@upkeep.post("/verify", **operation("verify", VerifyReport, "admin", body=True))
async def verify(memory: Memory, body: Annotated[VerifyBody | None, Body()] = None) -> Response:
    """Check every invariant that the store can state of itself."""
    return answer(await memory.verify(**_options(body)))  # type: ignore[arg-type]  # as the model has them


@upkeep.post("/repair", **operation("repair", RepairReport, "admin", writes=True))
async def repair(memory: Memory) -> Response:
    """Repair what can be made anew from what was said, and finish what an interrupted write left."""
    return answer(await memory.repair())


@upkeep.post("/resume", **operation("resume", list[IngestResult], "admin", body=True, ingests=True))
async def resume(
    memory: Memory, forest: Forest, body: Annotated[SpendBody | None, Body()] = None
) -> Response:
    """Finish what interrupted or failed writes left."""
    return answer(await forest.resume(memory.user_id, **_options(body)))  # type: ignore[arg-type]  # likewise


@upkeep.post("/flush", **operation("flush", FlushResult, "write", body=True, ingests=True))
async def flush(memory: Memory, body: Annotated[SpendBody | None, Body()] = None) -> Response:
    """Wait for the summaries that are made behind writes, make those that are left, and return what that did."""
    return answer(await memory.flush(**_options(body)))  # type: ignore[arg-type]  # likewise


@upkeep.post("/rebuild", **operation("rebuild", Usage, "admin", body=True, ingests=True))
async def rebuild(memory: Memory, body: Annotated[RebuildBody | None, Body()] = None) -> Response:
    """Make what is derived anew from what is stored, and return what it cost."""
    return answer(await memory.rebuild(**_options(body)))  # type: ignore[arg-type]  # likewise


@upkeep.get("/stale", **operation("stale", Stale, "read"))
async def stale(memory: Memory) -> Response:
    """Return what would be made otherwise now, and why. Nothing is written."""
    return answer(await memory.stale())


@upkeep.post("/expire", **operation("expire", DeleteReceipt, "delete", body=True, writes=True))
async def expire(memory: Memory, body: Annotated[DryRunBody | None, Body()] = None) -> Response:
    """Delete the turns that were said longer ago than the configured retention, with everything that was made of them."""
    return answer(await memory.expire(**_options(body)))  # type: ignore[arg-type]  # likewise


@indexes.get("/indexes", **operation("indexes", list[IndexView], "read"))
async def list_indexes(memory: Memory) -> Response:
    """Return the memory's indexes, by name: how far each lags behind, what it owns, what it says of itself."""
    return answer(await memory.indexes())


@indexes.put("/indexes/{name}", **operation("add_index", IndexView, "admin", 409, body=True, ingests=True))
async def add_index(
    name: IndexName, memory: Memory, body: Annotated[AddIndexBody | None, Body()] = None
) -> Response:
    """Add an index, let it place everything that the memory holds, and return what is there then."""
    if name not in INDEXES:
        raise NotFoundError(f"there is no such index; known: {', '.join(INDEXES)}")
    if name in [one.name for one in await memory.indexes()]:
        return http_problem(409, "the memory has this index already; rebuild makes it anew")
    return answer(await memory.add_index(name, **_options(body)))  # type: ignore[arg-type]  # likewise


@indexes.delete("/indexes/{name}", **operation("drop_index", None, "admin", status=204, writes=True))
async def drop_index(name: IndexName, memory: Memory) -> Response:
    """Take an index away with everything that it has in the file; what was said stays as it is."""
    await memory.drop_index(name)
    return Response(status_code=204)


@indexes.post("/advance", **operation("advance", list[IndexView], "write", body=True, ingests=True))
async def advance(memory: Memory, body: Annotated[AdvanceBody | None, Body()] = None) -> Response:
    """Let indexes go on that are not placed by the writes themselves, or are behind, and return how all stand."""
    return answer(await memory.advance(**_options(body)))  # type: ignore[arg-type]  # likewise
