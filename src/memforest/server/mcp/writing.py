"""The tools that write: add, forget, correct."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Optional

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from memforest.errors import InputError
from memforest.server.mcp.shapes import (
    Added,
    Corrected,
    Id,
    Message,
    Receipt,
    User,
    desk_of,
    memory_of,
    quote,
    said_result,
    shaped,
    skipped_of,
)
from memforest.text import cut

TELL_S = 5.0
"""How long the end of a write waits for a client that is slow to take what it is told."""
ASKED_CHARS = 300
"""Characters of a fact that a person is asked about."""


async def add_memory(
    ctx: Context,
    *,
    content: Annotated[str, Field(description="One text by the user; or give messages")] = "",
    messages: Optional[list[Message]] = None,  # noqa: UP045  # as in `arguments`
    timestamp: Annotated[str, Field(description="ISO 8601; now if left out")] = "",
    session_id: Id = "",
    idempotency_key: Annotated[Id, Field(description="The same again adds nothing")] = "",
    user: User,
) -> Annotated[CallToolResult, Added]:
    """Remember what was said, with what can be learnt from it."""
    if bool(content) == (messages is not None):
        raise InputError("give either content or messages")
    said = content if messages is None else [one.plain() for one in messages]
    desk = desk_of(ctx)
    async with (
        memory_of(ctx, user, "write") as memory,
        desk.access.ingesting(await desk.who(ctx)),
        _progress(ctx) as tell,
    ):
        result = await memory.add(
            said,
            session_id=session_id or None,
            timestamp=timestamp or None,
            idempotency_key=idempotency_key or None,
            on_progress=tell,
        )
    failed = len(result.failed) + len(result.left)
    lists = {name: list(getattr(result, name)) for name in ("added", "merged", "superseded")}
    data = shaped(Added, result, skipped=skipped_of(result), failed=failed, **lists)
    counts = (
        f"{len(result.added)} facts added, {len(result.merged)} merged, {len(result.superseded)} superseded"
    )
    later = f"; {failed} parts are stored and will be read later" if failed else ""
    text = f"Session {quote(result.session_id)}: {result.turns_added} turns stored, {counts}{later}."
    return said_result(data, "\n".join((text, *(f"Warning: {one}" for one in data.warnings))))


@asynccontextmanager
async def _progress(ctx: Context) -> AsyncIterator[Any]:
    """Give what the core calls as a write goes on; the client is told in order, and a slow one holds nothing up."""
    came: asyncio.Queue[Any] = asyncio.Queue()

    async def tell() -> None:
        number = 0
        while True:
            step = await came.get()
            number += 1
            await ctx.report_progress(number, None, f"{step.stage}: {step.done} of {step.total}")
            came.task_done()

    teller, joined = asyncio.create_task(tell()), None
    try:
        yield came.put_nowait
        joined = asyncio.create_task(came.join())
        await asyncio.wait({teller, joined}, timeout=TELL_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        tasks = [one for one in (teller, joined) if one is not None]
        for one in tasks:
            one.cancel()
        # What telling has failed with, as when the client has gone, is no failure of the write.
        await asyncio.gather(*tasks, return_exceptions=True)


class Consent(BaseModel):
    """What a person is asked before something is forgotten."""

    forget: bool = Field(title="Forget it", description="Yes, forget this.")


def can_ask(ctx: Context) -> bool:
    """Return whether the client lets a person answer a form, and the connection can carry it."""
    capabilities = ctx.client_capabilities
    asks = None if capabilities is None else capabilities.elicitation
    if asks is None or (asks.form is None and asks.url is not None):
        return False
    return ctx.session.can_send_request or (ctx.protocol_version or "") >= "2026-07-28"


async def consent(ctx: Context) -> Consent | Elicit[Consent]:
    """Ask the person where the client can; elsewhere the host decides, by the hint that the tool is destructive."""
    params: Mapping[str, Any] = ctx.request_context.params or {}
    arguments: Mapping[str, Any] = params.get("arguments") or {}
    fact_id, session_id, turn_id = (
        str(arguments.get(name) or "") for name in ("fact_id", "session_id", "turn_id")
    )
    _check_target(fact_id, session_id, turn_id)
    if not can_ask(ctx):
        return Consent(forget=True)
    async with memory_of(ctx, str(arguments.get("user") or ""), "delete") as memory:
        if fact_id:
            fact = await memory.get(fact_id)
            return Elicit(f"Forget {quote(cut(fact.text, ASKED_CHARS))}?", Consent)
        gone = (await memory.delete(**_target(session_id, turn_id), dry_run=True)).gone
    what = (
        f"turn {quote(turn_id)} of session {quote(session_id)}" if turn_id else f"session {quote(session_id)}"
    )
    counts = f"{gone.get('turns', 0)} turns and {gone.get('facts', 0)} facts go"
    return Elicit(f"Erase {what} for good? {counts}.", Consent)


def _check_target(fact_id: str, session_id: str, turn_id: str) -> None:
    if bool(fact_id) == bool(session_id) or (turn_id and not session_id):
        raise InputError("give either fact_id, or session_id, or session_id with turn_id")


def _target(session_id: str, turn_id: str) -> dict[str, Any]:
    return {"turn": (session_id, turn_id)} if turn_id else {"session_id": session_id}


async def forget_memory(
    ctx: Context,
    *,
    fact_id: Annotated[Id, Field(description="Hides this fact; can be undone")] = "",
    session_id: Annotated[Id, Field(description="Erases this session for good")] = "",
    turn_id: Annotated[Id, Field(description="Only this turn of it")] = "",
    answer: Annotated[ElicitationResult[Consent], Resolve(consent)],
    user: User,
) -> Annotated[CallToolResult, Receipt]:
    """Forget one fact, or erase a session or turn with all that was learnt from it."""
    if not isinstance(answer, AcceptedElicitation) or not answer.data.forget:
        return said_result(Receipt(done=False, action="kept"), "The person said no; nothing was forgotten.")
    async with memory_of(ctx, user, "delete") as memory:
        if fact_id:
            forgotten = await memory.forget(fact_id)
            data = Receipt(done=True, action="forgotten", undo_key=forgotten.key)
            return said_result(data, f"Forgotten; the key {quote(forgotten.key)} takes that back.")
        receipt = await memory.delete(**_target(session_id, turn_id))
    gone = {name: count for name, count in receipt.gone.items() if count}
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in gone.items())
    return said_result(Receipt(done=True, action="deleted", gone=gone), f"Erased: {counts or 'nothing'}.")


async def correct_memory(
    ctx: Context,
    *,
    fact_id: Id = "",
    text: Annotated[str, Field(description="What holds instead")] = "",
    valid_from: Annotated[str, Field(description="ISO 8601")] = "",
    valid_to: Annotated[str, Field(description="ISO 8601, exclusive")] = "",
    undo: Annotated[Id, Field(description="Key of a correction to take back, instead of all else")] = "",
    user: User,
) -> Annotated[CallToolResult, Corrected]:
    """Put another statement or time in the place of a fact, or take such a correction, or a forgetting, back."""
    if bool(fact_id) == bool(undo):
        raise InputError("give either fact_id with what holds instead, or undo")
    async with memory_of(ctx, user, "write") as memory:
        if undo:
            made = await memory.undo(undo)
        else:
            made = await memory.update(
                fact_id, text or None, valid_from=valid_from or None, valid_to=valid_to or None
            )
    data = shaped(Corrected, made, undone=made.undone is not None)
    done = "Taken back" if data.undone else "Corrected"
    return said_result(data, f"{done}; the key of the correction is {quote(made.key)}.")
