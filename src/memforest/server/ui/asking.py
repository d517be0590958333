"""Pages that explain a question and compare two instants.

The first shows how the question was understood, what was searched, and why each piece of evidence stands where it does; the
second what was so at one instant and not at the other, or what the memory held and learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, zip_longest
from typing import Any

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.changes import ChangePage, Diff
from memforest.read.results import AskResult, QueryResult
from memforest.read.stored import TimelineEntry
from memforest.server.ui.visit import PAGE, AxisSpan, PageRequest, draw, plain
from memforest.settings import MAX_PAGE
from memforest.times import local_time

HALF = 100.0
"""Width of the drawing of a score, from its middle to either side."""
TOP_K = 10

_DONE = ("time_order", "propagation", "rerank", "guide", "explored")
"""What a search may do beside filtering, as `trace["explain"]` names it; None where it did nothing."""


def score_bars(parts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the parts of a score as bars on one scale, largest first.

    A bar begins at `x`; it is `cut` where it is longer than the drawing, as the bar of `lead` is.

    Example:
        >>> [(one["name"], one["width"]) for one in score_bars({"turn": -0.5, "fact": 1.0, "lead": 1000.0})]
        [('lead', 100.0), ('fact', 100.0), ('turn', 50.0)]
    """
    ordinary = [abs(value) for name, value in parts.items() if name != "lead"]
    most = max(ordinary, default=0.0) or max((abs(value) for value in parts.values()), default=0.0) or 1.0
    bars = []
    for name, value in sorted(parts.items(), key=lambda pair: (-abs(pair[1]), pair[0])):
        width = round(min(abs(value) / most, 1.0) * HALF, 1)
        x, cut = HALF if value >= 0 else HALF - width, abs(value) > most
        bars.append({"name": name, "value": value, "x": x, "width": width, "cut": cut})
    return bars


def steps_of(path: Sequence[str]) -> list[str]:
    """Return the steps of a path for display: a range of one day is that day, and equal steps are counted.

    Example:
        >>> steps_of(["session a", "2024-01-02..2024-03-04", "2024-01-02..2024-01-02", "2024-01-02..2024-01-02"])
        ['session a', '2024-01-02..2024-03-04', '2024-01-02 (2 levels)']
    """
    found = []
    for step, same in groupby(path):
        first, dots, last = step.partition("..")
        count = len(list(same))
        found.append(
            (first if dots and first == last else step) + (f" ({count} levels)" if count > 1 else "")
        )
    return found


_Along = tuple[int | None, str, datetime | None, datetime | None]
"""A piece of evidence by its place, or a window that was asked about, which has none: its label, start and end."""


def _along(result: QueryResult) -> list[_Along]:
    """Return the time windows and evidence of a question; nothing without evidence."""
    plan, filters = result.plan, result.trace.get("explain", {}).get("filters", {})
    found: list[_Along] = []
    if plan.start is not None or plan.end is not None:
        found.append((None, "window asked about", plan.start, plan.end))
    if (during := filters.get("during")) is not None:
        found.append((None, "kept: during", during[0], during[1]))
    for name, at in (("asked as of", plan.as_of), ("kept: so at", filters.get("as_of"))):
        if at is not None:
            found.append((None, name, at, at))
    found += [(at, plain(one.text, 200), one.start, one.end) for at, one in enumerate(result.evidence, 1)]
    return found if result.evidence else []


async def ask(visit: PageRequest) -> Response:
    """Show the form for a question and, if one is asked, its results."""
    user, question = visit.user, visit.given("q")
    names = ("as_of", "reference_date", "said_by", "known_at", "index")
    asked: dict[str, Any] = {name: visit.given(name) for name in names}
    top_k = visit.number("top_k", TOP_K, PAGE) or TOP_K
    wants_answer = visit.given("answer") is not None
    result: QueryResult | None = None
    answered: AskResult | None = None
    await visit.memory.sessions(limit=1)  # whether there is such a memory
    indexes = [one.name for one in await visit.memory.indexes()]
    if question is not None:
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        given |= {"top_k": top_k, "explain": True}
        if wants_answer:
            answered = await visit.memory.ask(question, **given)
            result = answered.result
        else:
            result = await visit.memory.search(question, **given)
    found = result.evidence if result is not None else ()
    along = _along(result) if result is not None else []
    return visit.page(
        "ask.html",
        user=user,
        here="ask",
        q=question,
        asked=asked,
        top_k=top_k,
        indexes=indexes,
        wants_answer=wants_answer,
        result=result,
        answered=answered,
        why=result.trace.get("explain", {}) if result is not None else {},
        plan=_plan_rows(result) if result is not None else [],
        done=_done_rows(result) if result is not None else [],
        bars=[score_bars(one.scores) for one in found],
        along=along,
        drawn=draw(
            [
                AxisSpan(label, start, end, "window")
                if place is None
                else AxisSpan(f"{place}. {label}", start, end, "state", label)
                for place, label, start, end in along
            ],
            visit.forest.config.zone,
        ),
        steps=[steps_of(one.path) for one in found],
    )


def _plan_rows(result: QueryResult) -> list[tuple[str, Any]]:
    """Return the rows of a question's plan."""
    plan = result.plan
    rows: list[tuple[str, Any]] = [
        ("asks", plan.kind),
        ("about", ", ".join(plan.entities)),
        ("attribute", plan.attribute),
        ("relative to", plan.anchor),
        ("as of", plan.as_of),
        ("window from", plan.start),
        ("window to", plan.end),
        ("asked by", plan.asker),
        ("words of", ", ".join(plan.speakers or ())),
        ("operator", plan.operator.kind if plan.operator is not None else None),
        ("dates in it", ", ".join(plan.dates)),
        ("keywords", ", ".join(plan.keywords)),
        ("now is", result.reference_date),
        ("index", result.index),
        ("planner", result.trace.get("planner")),
    ]
    return [(name, value) for name, value in rows if value]


def _done_rows(result: QueryResult) -> list[tuple[str, str]]:
    """Return the rows of the search's steps beside filtering."""
    why = result.trace.get("explain", {})
    rows = []
    for name in _DONE:
        done = why.get(name)
        if isinstance(done, Mapping):
            text = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in done.items() if value)
            rows.append((name.replace("_", " "), text))
    return rows


WAYS = ("valid", "known")
"""Compared by when things were so, or by when this memory held them."""


@dataclass(frozen=True, slots=True)
class HeldPair:
    """A state of an entity as a memory held it at two instants; None where it did not hold it."""

    before: TimelineEntry | None
    after: TimelineEntry | None

    @property
    def either(self) -> TimelineEntry:
        """The later of the two states, or the only one."""
        state = self.after or self.before
        assert state is not None
        return state

    @property
    def change(self) -> str:
        """The change between the instants: new, gone, same or changed."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        times = [(one.start, one.end) for one in (self.before, self.after)]
        return "same" if times[0] == times[1] else "changed"


def side_by_side(before: Sequence[TimelineEntry], after: Sequence[TimelineEntry]) -> list[HeldPair]:
    """Pair the states of two timelines by attribute and value: first those of equal start, then in order.

    So a state that has ended meanwhile, or whose time was corrected, is one row and not two.

    Example:
        >>> entry = TimelineEntry("state", "", None, None, "residence", "Berlin")
        >>> [one.change for one in side_by_side([entry], [entry, entry])]
        ['same', 'new']
    """
    sides = [_by_value(before), _by_value(after)]
    pairs: list[HeldPair] = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        left, right = list(sides[0].get(name, ())), list(sides[1].get(name, ()))
        for one in tuple(left):
            same = next((other for other in right if other.start == one.start), None)
            if same is not None:
                pairs.append(HeldPair(one, same))
                left.remove(one)
                right.remove(same)
        pairs += [HeldPair(one, other) for one, other in zip_longest(left, right)]
    return sorted(
        pairs,
        key=lambda pair: (
            pair.either.attribute or "",
            float("-inf") if pair.either.start is None else pair.either.start.timestamp(),
            pair.either.value or "",
        ),
    )


def _by_value(entries: Sequence[TimelineEntry]) -> dict[tuple[str, str], list[TimelineEntry]]:
    found: dict[tuple[str, str], list[TimelineEntry]] = {}
    for one in entries:
        if one.kind == "state":
            found.setdefault((one.attribute or "", one.value or ""), []).append(one)
    return found


async def diff(visit: PageRequest) -> Response:
    """Show the form for two instants and, if both are given, the differences."""
    names = ("a", "b", "entity", "said_by", "known_at", "after")
    asked = {name: visit.given(name) for name in names}
    way = visit.given("by") or "valid"
    if way not in WAYS:
        raise InputError("by: give valid or known")
    memory = visit.memory
    found: Diff | None = None
    changes: ChangePage | None = None
    held: list[HeldPair] | None = None
    is_cut = False
    a, b = asked["a"], asked["b"]
    sessions = await memory.sessions(limit=1)  # and whether there is such a memory
    both = None if a is None or b is None else (a, b)
    if both is not None and way == "valid":
        found = await memory.diff(
            *both, entity=asked["entity"], said_by=asked["said_by"], known_at=asked["known_at"]
        )
    elif both is not None:
        changes = await memory.changes(both[0], until=both[1], limit=PAGE, after=asked["after"])
        if asked["entity"] is not None and asked["after"] is None:
            held, is_cut = await _held(memory, asked["entity"], asked["said_by"], both)
    return visit.page(
        "diff.html",
        user=visit.user,
        here="diff",
        asked=asked,
        way=way,
        found=found,
        changes=changes,
        held=held,
        is_cut=is_cut,
        begins=local_time(sessions[0].start, visit.forest.config.zone).date() if sessions else None,
    )


async def _held(
    memory: AsyncUserMemory, entity: str, said_by: str | None, instants: tuple[str, str]
) -> tuple[list[HeldPair], bool]:
    """Return the pairs of states that a memory held of an entity at two instants, and whether some were left out.

    Raises:
        NotFoundError: if it knew nothing of the entity at either.
    """
    sides: list[Sequence[TimelineEntry]] = []
    cut, unknown = False, None
    for instant in instants:
        try:
            page = await memory.timeline(entity, said_by=said_by, known_at=instant, limit=MAX_PAGE)
        except NotFoundError as exc:
            if unknown is not None:
                raise
            unknown = exc
            sides.append(())
            continue
        sides.append(page.entries)
        cut = cut or page.next_cursor is not None
    return side_by_side(*sides), cut
