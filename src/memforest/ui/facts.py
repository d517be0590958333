"""Facts: a page of them, and one with its wordings, its sources in their turns, and its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from memforest.errors import NotFoundError
from memforest.forest.handle import AsyncUserMemory
from memforest.limits import MAX_PAGE
from memforest.memory.inspect.stored import TurnView
from memforest.memory.results import FactView, Source
from memforest.ui.paging import Found
from memforest.ui.visit import PAGE, Visit

MOST_SOURCES = 20
"""Most turns of sources that are quoted whole."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A turn that supports a fact; `turn` is None where it is no longer there, or is one too many to quote."""

    session_id: str
    turn_id: str
    turn: TurnView | None


async def facts(visit: Visit) -> Response:
    """Show facts in time order, those that mention an entity or come from a session, as things were at a time."""
    asked = {
        name: visit.given(name)
        for name in ("entity", "session_id", "as_of", "said_by", "known_at", "verdict")
    }
    cursor = visit.given("from")
    page = await visit.memory.list(limit=PAGE, cursor=cursor, **asked)  # type: ignore[arg-type]  # checked there
    found = Found(page.facts, page.total, page.next_cursor, cursor is None)
    return visit.page(
        "facts.html", user=visit.user, here="facts", found=found, asked=asked, warnings=page.warnings
    )


async def fact(visit: Visit) -> Response:
    """Show one fact."""
    memory, fact_id = visit.memory, visit.needed("id")
    view: FactView | None
    try:
        view = await memory.get(fact_id)
    except NotFoundError:
        view = None  # a correction that was taken back has a history and is no fact any more
    history = await memory.history(fact_id)
    undone = {entry.key for entry in history if entry.kind == "undone"}
    sources = await _quoted(memory, view.sources) if view is not None else []
    return visit.page(
        "fact.html",
        user=visit.user,
        here="facts",
        fact_id=fact_id,
        fact=view,
        history=history,
        undone=undone,
        sources_=sources,
        done=visit.given("done"),
    )


async def _quoted(memory: AsyncUserMemory, sources: Sequence[Source]) -> list[Quoted]:
    """Return the turns of sources, the first of them with what was said."""
    found: list[Quoted] = []
    for source in sources:
        turns: dict[str, TurnView] = {}
        if len(found) < MOST_SOURCES:
            turns = {one.id: one for one in await memory.turns(source.session_id, limit=MAX_PAGE)}
        for turn_id in source.turn_ids:
            turn = turns.get(turn_id) if len(found) < MOST_SOURCES else None
            found.append(Quoted(source.session_id, turn_id, turn))
    return found
