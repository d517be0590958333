"""Pages that explain a question and compare two instants.

The first shows how the question was understood, what was searched, and why each piece of evidence stands where it does; the
second what was so at one instant and not at the other, or what the memory held and learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.changes import ChangePage, Diff
from memforest.read.results import AskResult, QueryResult
from memforest.read.stored import TimelineEntry
from memforest.server.ui.visit import PAGE, AxisSpan, PageRequest, plain
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


def _windows(result: QueryResult) -> list[AxisSpan]:
    """Return the time windows that a question asked about, and those that a search kept to."""
    plan, filters = result.plan, result.trace.get("explain", {}).get("filters", {})
    during, so_at = filters.get("during") or (None, None), filters.get("as_of")
    found = (
        ("window asked about", plan.start, plan.end),
        ("kept: during", during[0], during[1]),
        ("asked as of", plan.as_of, plan.as_of),
        ("kept: so at", so_at, so_at),
    )
    return [AxisSpan(name, start, end, "window") for name, start, end in found if start or end]


async def ask(visit: PageRequest) -> Response:
    """Show the form for a question and, if one is asked, its results."""
    memory, question = visit.memory, visit.given("q")
    names = ("as_of", "reference_date", "said_by", "known_at", "index")
    asked: dict[str, Any] = {name: visit.given(name) for name in names}
    options = {name: value for name, value in asked.items() if value is not None}
    top_k = visit.number("top_k", TOP_K, PAGE) or TOP_K
    result: QueryResult | None = None
    answered: AskResult | None = None
    await memory.sessions(limit=1)  # whether there is such a memory
    if question is not None and visit.given("answer") is not None:
        answered = await memory.ask(question, top_k=top_k, explain=True, **options)
        result = answered.result
    elif question is not None:
        result = await memory.search(question, top_k=top_k, explain=True, **options)
    why = result.trace.get("explain", {}) if result is not None else {}
    windows = _windows(result) if result is not None else []
    texts = [(one, plain(one.text, 200)) for one in (result.evidence if result is not None else ())]
    evidence = [
        AxisSpan(f"{place}. {text}", one.start, one.end, "state", text)
        for place, (one, text) in enumerate(texts, 1)
    ]
    return visit.page(
        "ask.html",
        top_k=top_k,
        indexes=[one.name for one in await memory.indexes()],
        result=result,
        answered=answered,
        done=[(name, why[name]) for name in _DONE if isinstance(why.get(name), Mapping)],
        score_bars=score_bars,
        steps_of=steps_of,
        windows=windows,
        drawn=visit.draw([*windows, *evidence]),
    )


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
    sides: dict[tuple[str, str], tuple[list[TimelineEntry], list[TimelineEntry]]] = {}
    for side, entries in enumerate((before, after)):
        for one in entries:
            if one.kind == "state":
                sides.setdefault((one.attribute or "", one.value or ""), ([], []))[side].append(one)
    pairs: list[HeldPair] = []
    for left, right in sides.values():
        for one in tuple(left):
            same = next((other for other in right if other.start == one.start), None)
            if same is not None:
                pairs.append(HeldPair(one, same))
                left.remove(one)
                right.remove(same)
        pairs += [HeldPair(*pair) for pair in zip_longest(left, right)]
    return sorted(
        pairs,
        key=lambda pair: (
            pair.either.attribute or "",
            float("-inf") if pair.either.start is None else pair.either.start.timestamp(),
            pair.either.value or "",
        ),
    )


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
    held: list[HeldPair] | None = None
    is_cut = False
    sessions = await memory.sessions(limit=1)  # and whether there is such a memory
    if a is not None and b is not None and way == "valid":
        found = await memory.diff(a, b, entity=entity, said_by=said_by, known_at=known_at)
    elif a is not None and b is not None:
        changes = await memory.changes(a, until=b, limit=PAGE, after=after)
        if entity is not None and after is None:
            held, is_cut = await _held(memory, entity, said_by, (a, b))
    return visit.page(
        "diff.html",
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
