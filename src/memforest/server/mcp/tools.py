"""The tools of the MCP server: those that only read, and those that add, forget and correct.

`search` and `fetch` have the shape that ChatGPT's connectors want.
Source: https://developers.openai.com/apps-sdk/build/mcp-server
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, Optional, get_args, get_origin, get_type_hints
from urllib.parse import quote as percent
from urllib.parse import unquote

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.types import CallToolResult
from pydantic import AfterValidator, BaseModel, Field
from pydantic.fields import FieldInfo

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import V, options_of
from memforest.read.results import Evidence
from memforest.read.stored import Source
from memforest.reading.timestamps import zone_named
from memforest.server.mcp import shapes
from memforest.server.mcp.shapes import (
    MOST_ITEMS,
    NOTE,
    Id,
    Message,
    User,
    desk_of,
    memory_of,
    quote,
    quoted,
    said_result,
    shaped,
)
from memforest.text import cut
from memforest.times import one_line


def takes(verb: Callable[..., Any], *names: str, **own: Any) -> Callable[[V], V]:
    """Return a decorator that signs a tool with options of a verb, in the place of its ``**options``.

    Args:
        verb: of a user's memory.
        *names: options that the tool takes as the verb has them.
        **own: pydantic's fields of options of which the tool has another default or description, or a tighter range.
    """
    declared = options_of(verb).model_fields
    options = {
        name: Annotated[(*_json_type(declared[name]), own.get(name, Field(declared[name].default)))]
        for name in (*names, *own)
    }

    def decorate(tool: V) -> V:
        *first, user, _ = inspect.signature(tool).parameters.values()
        hints = get_type_hints(tool, include_extras=True) | options
        sign(tool, [*first, *(user.replace(name=name) for name in options), user], hints)
        return tool

    return decorate


def sign(function: Any, parameters: Sequence[inspect.Parameter], hints: dict[str, Any]) -> None:
    """Give a function the signature that the SDK makes a schema of; `hints` are by name, with "return"."""
    typed = [one.replace(annotation=hints[one.name]) for one in parameters]
    function.__signature__ = inspect.Signature(typed, return_annotation=hints["return"])
    function.__annotations__ = hints


def _json_type(option: FieldInfo) -> tuple[Any, ...]:
    """Return the type of an option in JSON, its range, and for a time the first clause of the docstring."""
    hint, *_ = get_args(option.annotation) or (option.annotation,)
    described = Field(description="ISO 8601; " + re.split(r"[;.](?: |$)", option.description or "")[0])
    if hint is datetime:
        return str, _LEFT_OUT, described
    if get_origin(hint) is tuple:
        return list[str], Field(min_length=2, max_length=2), described
    return (str, _LEFT_OUT) if hint is str and not option.is_required() else (hint, *option.metadata)


_LEFT_OUT = AfterValidator(lambda text: text or None)
"""Many models write an empty text for what they leave out."""


@takes(
    AsyncUserMemory.search,
    *("as_of", "during", "max_tokens", "min_relevance"),
    filters=Field(None, description="metadata"),
    top_k=Field(8, le=MOST_ITEMS),
)
async def search_memory(
    ctx: Context, *, query: str, user: User, **options: Any
) -> Annotated[CallToolResult, shapes.SearchShape]:
    """Search earlier conversations. Returns dated quotations, best first."""
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(query, **options)
    return said_result(shaped(shapes.SearchShape, result), shapes.found_text(result))


@takes(AsyncUserMemory.ask, "question", "as_of", "reference_date", "min_relevance")
async def ask_memory(
    ctx: Context, *, user: User, **options: Any
) -> Annotated[CallToolResult, shapes.AnswerShape]:
    """Answer one question from memory, with evidence, or say that there is no answer."""
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.ask(**options)
    evidence = [shaped(shapes.Citation, one) for one in result.citations]
    data = shaped(shapes.AnswerShape, result, evidence=evidence)
    if result.answer is None:
        return said_result(data, f"Memory has no answer: {data.reason}")
    lines = shapes.evidence_lines(result.citations, zone_named(result.result.timezone))
    return said_result(data, quoted([f"Answer: {quote(result.answer)}", *lines], ""))


@takes(AsyncUserMemory.timeline, "entity", "attribute", "cursor", limit=Field(50, le=MOST_ITEMS))
async def get_timeline(
    ctx: Context, *, user: User, **options: Any
) -> Annotated[CallToolResult, shapes.Timeline]:
    """Show how a person, place or thing changed: states with start and end, and events, in time order."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.timeline(**options)
    lines = [shapes.timeline_line(one) for one in page]
    return said_result(shaped(shapes.Timeline, page), quoted(lines, "Nothing is known of that."))


@takes(
    AsyncUserMemory.list,
    *("entity", "session_id", "as_of", "cursor"),
    filters=Field(None, description="metadata"),
    limit=Field(20, le=MOST_ITEMS),
)
async def list_facts(ctx: Context, *, user: User, **options: Any) -> Annotated[CallToolResult, shapes.Facts]:
    """List facts with their ids, in time order."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.list(**options)
    none = " ".join(["There are no such facts.", *map(one_line, page.warnings)])
    return said_result(shaped(shapes.Facts, page), quoted([shapes.fact_line(one) for one in page], none))


TITLE_CHARS = 80
AROUND = 2
"""Turns that are fetched before and behind the one that was found."""
TOP_K = 10


async def search(ctx: Context, *, query: str, user: User) -> Annotated[CallToolResult, shapes.Hits]:
    """Search memory; returns ids for fetch."""
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(query, top_k=TOP_K)
        user_id = memory.user_id
    data = shapes.Hits(results=[_hit(one, user_id) for one in result.evidence if one.sources])
    return said_result(data)


async def fetch(ctx: Context, *, id: str, user: User) -> Annotated[CallToolResult, shapes.Fetched]:
    """Return the quoted text behind an id from search."""
    kind, _, rest = id.partition(":")
    parts = [unquote(one) for one in rest.split(":")]
    async with memory_of(ctx, user, "read") as memory:
        if kind == "fact" and len(parts) == 1:
            fact = await memory.get(parts[0])
            title, lines, said = fact.text, [shapes.fact_line(fact)], fact.said
            url = _url(memory.user_id, fact.sources)
        elif kind == "turn" and len(parts) == 2:
            session_id, turn_id = parts
            turns = list(await memory.turns(session_id))
            at = next((at for at, one in enumerate(turns) if one.id == turn_id), None)
            if at is None:
                raise NotFoundError("there is no such turn; give an id that search returned")
            shown = turns[max(0, at - AROUND) : at + AROUND + 1]
            title, said = turns[at].text, turns[at].said
            lines = [shapes.turn_line(one) for one in shown]
            url = _url(memory.user_id, (Source(session_id, (turn_id,)),))
        else:
            raise NotFoundError("there is no such id; give one that search returned")
    data = shapes.Fetched(
        id=id,
        title=cut(one_line(title), TITLE_CHARS),
        text=quoted(lines, ""),
        url=url,
        metadata={"said": said.isoformat()},
    )
    return said_result(data)


def _hit(one: Evidence, user_id: str) -> shapes.ConnectorHit:
    source = one.sources[0]
    parts = (source.session_id, source.turn_ids[0])
    place = (
        "fact:" + percent(one.fact_id, safe="")
        if one.fact_id
        else "turn:" + ":".join(percent(part, safe="") for part in parts)
    )
    title = cut(f"{one.said:%Y-%m-%d} {one_line(one.speaker)}: {one_line(one.text)}", TITLE_CHARS)
    return shapes.ConnectorHit(id=place, title=title, url=_url(user_id, one.sources))


def _url(user_id: str, sources: tuple[Source, ...]) -> str:
    session = percent(sources[0].session_id, safe="") if sources else ""
    return f"memory://{percent(user_id, safe='')}/sessions/{session}"


MAX_DEPTH = 10
MAX_NODES = 200


async def get_fact(ctx: Context, *, fact_id: Id, user: User) -> Annotated[CallToolResult, shapes.FactShown]:
    """Return one fact with its sources and its history."""
    async with memory_of(ctx, user, "read") as memory:
        fact = await memory.get(fact_id)
        history = await memory.history(fact_id)
    happened = [shaped(shapes.Event, one) for one in history]
    data = shaped(shapes.FactShown, fact, fact=shaped(shapes.Fact, fact), history=happened)
    events = [f"{one.at:%Y-%m-%d} {one.kind}: {quote(one.text)}" for one in history]
    return said_result(data, quoted([shapes.fact_line(fact), *events], ""))


@takes(AsyncUserMemory.sessions, "cursor", limit=Field(20, le=MOST_ITEMS))
async def list_sessions(
    ctx: Context, *, user: User, **options: Any
) -> Annotated[CallToolResult, shapes.Sessions]:
    """List conversations with their ids, in time order."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.sessions(**options)
    lines = [f"{quote(one.session_id)}: {one.turns} turns, {one.start:%Y-%m-%d}" for one in page]
    return said_result(shaped(shapes.Sessions, page), quoted(lines, "There are no sessions."))


@takes(
    AsyncUserMemory.tree,
    "index",
    scope=Field(None, description="A session or entity; all if left out"),
    depth=Field(1, le=MAX_DEPTH),
    limit=Field(50, le=MAX_NODES),
)
async def browse_tree(ctx: Context, *, user: User, **options: Any) -> Annotated[CallToolResult, shapes.Trees]:
    """Return summaries as trees over time, each node before its children."""
    async with memory_of(ctx, user, "read") as memory:
        trees = await memory.tree(**options)
    data = shapes.Trees(note=NOTE, nodes=shapes.nodes_of(trees))
    lines = [
        f"{'  ' * one.depth}{one.start[:10]} to {one.end[:10]} {quote(one.title or one.summary)}"
        for one in data.nodes
    ]
    return said_result(data, quoted(lines, "There are no trees."))


async def memory_stats(ctx: Context, *, user: User) -> Annotated[CallToolResult, shapes.StatsShown]:
    """Count the sessions, turns and facts in memory."""
    async with memory_of(ctx, user, "read") as memory:
        stats = await memory.stats()
    data = shaped(shapes.StatsShown, stats, indexes=list(stats.indexes))
    return said_result(data, f"{stats.sessions} sessions, {stats.turns} turns, {stats.facts} facts.")


TELL_S = 5.0
"""How long the end of a write waits for a client that is slow to take what it is told."""
ASKED_CHARS = 300
"""Characters of a fact that a person is asked about."""


@takes(
    AsyncUserMemory.add,
    *("timestamp", "session_id"),
    idempotency_key=Field(None, description="A second call with the same key adds nothing"),
)
async def add_memory(
    ctx: Context,
    *,
    content: Annotated[str, Field(description="One text by the user; or give messages")] = "",
    messages: Optional[list[Message]] = None,  # noqa: UP045  # no | on Python 3.10
    user: User,
    **options: Any,
) -> Annotated[CallToolResult, shapes.Added]:
    """Store messages, and the facts in them."""
    if bool(content) == (messages is not None):
        raise InputError("give either content or messages")
    said = content if messages is None else [one.plain() for one in messages]
    desk = desk_of(ctx)
    async with (
        memory_of(ctx, user, "write") as memory,
        desk.access.ingesting(await desk.who(ctx)),
        _progress(ctx) as tell,
    ):
        result = await memory.add(said, on_progress=tell, doubtful=True, **options)
    failed = len(result.failed) + len(result.left)
    data = shaped(shapes.Added, result, skipped=shapes.skipped_of(result), failed=failed)
    counts = (
        f"{len(result.added)} facts added, {len(result.merged)} merged, {len(result.superseded)} superseded"
    )
    later = f"; {failed} parts are stored and will be read later" if failed else ""
    text = f"Session {quote(result.session_id)}: {result.turns_added} turns stored, {counts}{later}."
    asks = "Is this still true? If not, remember the new state, with replaces"
    lines = (f"{asks}={one.fact_id}: {quote(one.text)}" for one in data.doubtful)
    return said_result(data, "\n".join((text, *lines, *(f"Warning: {one}" for one in data.warnings))))


@asynccontextmanager
async def _progress(ctx: Context) -> AsyncIterator[Any]:
    """Yield the progress callback of a write; reports reach the client in order, and a slow client delays nothing."""
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
    """The form that a person answers before something is forgotten."""

    forget: bool = Field(title="Forget it", description="Yes, forget this.")


def can_ask(ctx: Context) -> bool:
    """Return whether the client and its connection can ask a person by a form."""
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
    if bool(fact_id) == bool(session_id) or (turn_id and not session_id):
        raise InputError("give either fact_id, or session_id, or session_id with turn_id")
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
) -> Annotated[CallToolResult, shapes.Receipt]:
    """Hide one fact, or erase a session or turn with all facts from it."""
    if not isinstance(answer, AcceptedElicitation) or not answer.data.forget:
        return said_result(
            shapes.Receipt(done=False, action="kept"), "The person said no; nothing was forgotten."
        )
    async with memory_of(ctx, user, "delete") as memory:
        if fact_id:
            forgotten = await memory.forget(fact_id)
            data = shapes.Receipt(done=True, action="forgotten", undo_key=forgotten.key)
            return said_result(data, f"Forgotten; the key {quote(forgotten.key)} takes that back.")
        receipt = await memory.delete(**_target(session_id, turn_id))
    gone = {name: count for name, count in receipt.gone.items() if count}
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in gone.items())
    return said_result(
        shapes.Receipt(done=True, action="deleted", gone=gone), f"Erased: {counts or 'nothing'}."
    )


@takes(
    AsyncUserMemory.remember,
    *("statement", "about", "attribute", "value", "since", "until"),
    replaces=Field(None, description="fact_id of the fact that ends"),
)
async def remember(
    ctx: Context, *, user: User, **options: Any
) -> Annotated[CallToolResult, shapes.Remembered]:
    """Store one statement in your own words; add_memory stores the speaker's words.

    Use it when something began, changed or ended, above all if it was said in passing ("boxes unpacked, York it is").
    First search for the old fact, and give its id as replaces: it stays true for its time. Write names, not "I". Give
    attribute and value ("residence", "York") as in get_timeline.
    """
    async with memory_of(ctx, user, "write") as memory:
        made = await memory.remember(**options)
    data = shapes.Remembered(fact_id=made.new_fact_id, undo_key=made.key)
    return said_result(data, f"Remembered as fact {data.fact_id}; the key {quote(made.key)} takes that back.")


@takes(AsyncUserMemory.update, "text", "valid_from", "valid_to", fact_id=Field(None))
async def correct_memory(
    ctx: Context,
    *,
    undo: Annotated[Id, Field(description="Key of a correction to undo; give nothing else")] = "",
    user: User,
    **options: Any,
) -> Annotated[CallToolResult, shapes.Corrected]:
    """Correct the text or the time of a fact, or undo a correction or a forget."""
    if bool(options["fact_id"]) == bool(undo):
        raise InputError("give either fact_id with the correction, or undo")
    async with memory_of(ctx, user, "write") as memory:
        made = await (memory.undo(undo) if undo else memory.update(**options))
    data = shaped(shapes.Corrected, made, undone=made.undone is not None)
    done = "Taken back" if data.undone else "Corrected"
    return said_result(data, f"{done}; the key of the correction is {quote(made.key)}.")
