"""What forms do: correct a fact, take that back, and delete what was said."""

from __future__ import annotations

from starlette.responses import Response

from memforest.errors import InputError
from memforest.memory.erase.receipt import LAYERS
from memforest.ui.visit import Visit


async def pin(visit: Visit) -> Response:
    """Pin a fact."""
    done = await visit.memory.pin(visit.needed("id"))
    return visit.go("fact", user=visit.user, id=done.fact_id, done="pinned")


async def forget(visit: Visit) -> Response:
    """Forget a fact."""
    done = await visit.memory.forget(visit.needed("id"))
    return visit.go("fact", user=visit.user, id=done.fact_id, done="forgotten")


async def update(visit: Visit) -> Response:
    """Correct a fact: its text, its time, or both."""
    done = await visit.memory.update(
        visit.needed("id"),
        visit.given("text"),
        valid_from=visit.given("valid_from"),
        valid_to=visit.given("valid_to"),
    )
    return visit.go("fact", user=visit.user, id=done.new_fact_id or done.fact_id, done="corrected")


async def undo(visit: Visit) -> Response:
    """Take a correction back."""
    done = await visit.memory.undo(visit.needed("key"))
    return visit.go("fact", user=visit.user, id=done.fact_id, done="undone")


async def delete(visit: Visit) -> Response:
    """Delete a fact, a turn or a session; first say what would go, and ask."""
    fact_id, session_id, turn_id = (visit.given(name) for name in ("id", "session", "turn"))
    if (fact_id is None) == (session_id is None):
        raise InputError("name a fact or a session to delete")
    sure = visit.given("sure") == "yes"
    memory = visit.memory
    if turn_id is not None and session_id is not None:
        receipt = await memory.delete(turn=(session_id, turn_id), dry_run=not sure)
    else:
        receipt = await memory.delete(fact_id, session_id=session_id, dry_run=not sure)
    return visit.page(
        "delete.html",
        user=visit.user,
        here="",
        receipt=receipt,
        layers=LAYERS,
        sure=sure,
        fact_id=fact_id,
        session_id=session_id,
        turn_id=turn_id,
    )
