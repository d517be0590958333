"""Two instants compared: what was so at one and not at the other, or what the memory learnt between them."""

from __future__ import annotations

from starlette.responses import Response

from memforest.errors import InputError
from memforest.memory.results import ChangePage, Diff
from memforest.ui.visit import PAGE, Visit

__all__ = ["diff"]

WAYS = ("valid", "known")
"""Compared by when things were so, or by when this memory held them."""


async def diff(visit: Visit) -> Response:
    """Show the form for two instants, and what differs when both are given."""
    names = ("a", "b", "entity", "said_by", "known_at", "after")
    asked = {name: visit.given(name) for name in names}
    way = visit.given("by") or "valid"
    if way not in WAYS:
        raise InputError("by: give valid or known")
    memory = visit.memory
    found: Diff | None = None
    changes: ChangePage | None = None
    a, b = asked["a"], asked["b"]
    if a is None or b is None:
        await memory.entities(limit=1)  # whether there is such a memory
    elif way == "valid":
        found = await memory.diff(
            a, b, entity=asked["entity"], said_by=asked["said_by"], known_at=asked["known_at"]
        )
    else:
        changes = await memory.changes(a, until=b, limit=PAGE, after=asked["after"])
    return visit.page(
        "diff.html", user=visit.user, here="diff", asked=asked, way=way, found=found, changes=changes
    )
