"""Pages that answer a question from evidence, and that compare two instants.

The first page shows the evidence with its relevance, dates and sources, then the answer, and how both were found. The
second page compares two times: what was true, or what the memory held and learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.changes import ChangePage, Diff
from memforest.read.results import AskResult, Evidence, QueryResult
from memforest.read.stored import TimelineEntry
from memforest.server.ui.visit import PAGE, PageRequest, Span, turns_of
from memforest.settings import MAX_PAGE

TOP_K = 10
OPTIONS = ("as_of", "reference_date", "said_by", "known_at", "index")
"""Of a search, as the fields of the form are called; beside `during`, which has two."""


async def ask(visit: PageRequest) -> Response:
    """Show the form for a question and, if one is asked, the evidence and the answer."""
    memory, question = visit.memory, visit.given("q")
    during = visit.given("from"), visit.given("to")
    if (during[0] is None) != (during[1] is None):
        raise InputError("a period needs both times; give both, or none")
    top_k = visit.number("top_k", TOP_K, PAGE) or TOP_K
    asked: dict[str, Any] = {name: visit.given(name) for name in OPTIONS}
    asked |= {"during": during if during[0] else None, "min_relevance": visit.share("min_relevance")}
    options = {name: value for name, value in asked.items() if value is not None}
    result: QueryResult | None = None
    answered: AskResult | None = None
    indexes = [one.name for one in await memory.indexes()]
    if question is not None and visit.given("answer") is not None:
        answered = await memory.ask(question, top_k=top_k, explain=True, **options)
        result = answered.result
    elif question is not None:
        result = await memory.search(question, top_k=top_k, explain=True, **options)
    if result is None:
        return visit.page("ask.html", top_k=top_k, indexes=indexes, result=None)
    evidence, windows = result.evidence, _windows(result)
    return visit.page(
        "ask.html",
        top_k=top_k,
        indexes=indexes,
        result=result,
        answered=answered,
        why=result.trace.get("explain", {}),
        endings=endings(evidence),
        windows=windows,
        axis=visit.axis([*(span for _, span in windows), *((one.start, one.end) for one in evidence)]),
    )


def endings(evidence: Sequence[Evidence]) -> list[int | None]:
    """Return for each piece of evidence the number of the one that ended it; None where that is not among them."""
    places = [turns_of(one.sources) for one in evidence]
    ends = [turns_of(one.ended_by) for one in evidence]
    return [
        next((n for n, turns in enumerate(places, 1) if turns & ended and n - 1 != at), None)
        for at, ended in enumerate(ends)
    ]


def _windows(result: QueryResult) -> list[tuple[str, Span]]:
    """Return the times that a question asked about, and those that a search kept to, each with its name."""
    plan, filters = result.plan, result.trace.get("explain", {}).get("filters", {})
    during, so_at = filters.get("during") or (None, None), filters.get("as_of")
    found = {
        "asked about": (plan.start, plan.end),
        "only during": (during[0], during[1]),
        "asked as of": (plan.as_of, plan.as_of),
        "only true at": (so_at, so_at),
    }
    return [(name, span) for name, span in found.items() if any(span)]


WAYS = ("valid", "known")
"""Compared by when things were so, or by when this memory held them."""


async def diff(visit: PageRequest) -> Response:
    """Show the form for two instants and, if both are given, the differences."""
    a, b, entity, said_by, known_at, after = (
        visit.given(name) for name in ("a", "b", "entity", "said_by", "known_at", "after")
    )
    way, memory = visit.given("by") or "valid", visit.memory
    if way not in WAYS:
        raise InputError("by: give valid or known")
    found: Diff | None = None
    changes: ChangePage | None = None
    held: list[dict[str, Any]] | None = None
    is_cut = False
    sessions = await memory.sessions(limit=1)  # and whether there is such a memory
    if a is not None and b is not None and way == "valid":
        found = await memory.diff(a, b, entity=entity, said_by=said_by, known_at=known_at)
    elif a is not None and b is not None:
        changes = await memory.changes(a, until=b, limit=PAGE, after=after)
        if entity is not None and after is None:
            sides = [await _held(memory, entity, said_by, instant) for instant in (a, b)]
            if not any(sides):  # of whom nothing is known it says so itself
                await memory.timeline(entity, said_by=said_by, known_at=b, limit=1)
            is_cut = any(len(side) == MAX_PAGE for side in sides)
            held = side_by_side(*sides)
    begins = sessions[0].start if sessions else None
    return visit.page("diff.html", found=found, changes=changes, held=held, is_cut=is_cut, begins=begins)


async def _held(
    memory: AsyncUserMemory, entity: str, said_by: str | None, instant: str
) -> Sequence[TimelineEntry]:
    """Return the states that a memory held of an entity at an instant; none if it knew nothing of it."""
    try:
        page = await memory.timeline(entity, kind="state", said_by=said_by, known_at=instant, limit=MAX_PAGE)
    except NotFoundError:
        return ()
    return page.entries


def side_by_side(before: Sequence[TimelineEntry], after: Sequence[TimelineEntry]) -> list[dict[str, Any]]:
    """Pair the states of two timelines by attribute, value and start, and name the change between them.

    So a state that has ended meanwhile is one row and not two.

    Example:
        >>> entry = TimelineEntry("state", "", None, None, "residence", "Berlin")
        >>> [one["change"] for one in side_by_side([], [entry])]
        ['added']
    """
    sides = [{_place(one): one for one in side} for side in (before, after)]
    rows = []
    for place in sorted(sides[0] | sides[1]):
        old, new = (side.get(place) for side in sides)
        same = "same" if old is not None and new is not None and old.end == new.end else "changed"
        change = "added" if old is None else "gone" if new is None else same
        rows.append({"before": old, "after": new, "either": new or old, "change": change})
    return rows


def _place(one: TimelineEntry) -> tuple[str, float, str]:
    """Return where a state stands: by attribute, in time order, what has no beginning first."""
    return one.attribute or "", float("-inf") if one.start is None else one.start.timestamp(), one.value or ""
