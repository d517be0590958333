"""Completion of what a person types into a resource's address: names of entities, and ids of sessions."""

from __future__ import annotations

from urllib.parse import unquote

from mcp.server.mcpserver import Context
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from memforest.display import UNSAFE
from memforest.errors import MemForestError
from memforest.mcp.desk import memory_of

MOST = 100
"""Values of one answer, as the protocol bounds it."""


async def complete(
    ctx: Context,
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion:
    """Return what an argument may go on to be; nothing where nothing is known, or where that would tell who the users are."""
    if not isinstance(ref, ResourceTemplateReference) or argument.name not in ("entity", "session_id"):
        return Completion(values=[])
    given = {} if context is None else context.arguments or {}
    begun = argument.value.casefold()
    try:
        async with memory_of(ctx, unquote(given.get("user", "")), "read") as memory:
            if argument.name == "entity":
                found = [one.name for one in await memory.entities(limit=10 * MOST)]
            else:
                found = [one.session_id for one in await memory.sessions(limit=10 * MOST)]
    except MemForestError:
        return Completion(values=[])
    values = [one for one in found if not UNSAFE.search(one) and one.casefold().startswith(begun)]
    return Completion(values=values[:MOST], total=len(values), has_more=len(values) > MOST)
