"""A question explained: how it was understood, what was searched, and why each piece of evidence stands where it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from starlette.responses import Response

from memforest.forest.handle import AsyncUserMemory
from memforest.memory.results import AskResult, Evidence, QueryResult
from memforest.ui.axis import Piece, draw
from memforest.ui.showing import plain
from memforest.ui.visit import PAGE, Visit

HALF = 100.0
"""Width of the drawing of a score, from its middle to either side."""
TOP_K = 10

_DONE = ("time_order", "propagation", "rerank", "guide", "explored")
"""What a search may do beside filtering, as `trace["explain"]` names it; None where it did nothing."""


@dataclass(frozen=True, slots=True)
class ScoreBar:
    """A part of a score: its value, and the bar from `x` on; `cut` where it is longer than the drawing."""

    name: str
    value: float
    x: float
    width: float
    cut: bool


def score_bars(parts: Mapping[str, float]) -> list[ScoreBar]:
    """Return the parts of a score, the heaviest first, on one scale; what lifts an answer over all others is cut.

    Example:
        >>> [(one.name, one.width, one.cut) for one in score_bars({"turn": -0.5, "fact": 1.0, "lead": 1000.0})]
        [('lead', 100.0, True), ('fact', 100.0, False), ('turn', 50.0, False)]
    """
    ordinary = [abs(value) for name, value in parts.items() if name != "lead"]
    most = max(ordinary, default=0.0) or max((abs(value) for value in parts.values()), default=0.0) or 1.0
    bars = []
    for name, value in sorted(parts.items(), key=lambda pair: (-abs(pair[1]), pair[0])):
        width = round(min(abs(value) / most, 1.0) * HALF, 1)
        bars.append(ScoreBar(name, value, HALF if value >= 0 else HALF - width, width, abs(value) > most))
    return bars


def steps_of(path: Sequence[str]) -> list[str]:
    """Return a path as it is read: a day stands once, and what is the same some steps long is counted.

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


@dataclass(frozen=True, slots=True)
class Along:
    """A window that was asked about (`place` is None), or a piece of evidence, along the time."""

    label: str
    start: datetime | None
    end: datetime | None
    place: int | None = None


def _along(result: QueryResult) -> list[Along]:
    """Return the windows and the evidence of a question; nothing where there is no evidence."""
    plan, filters = result.plan, result.trace.get("explain", {}).get("filters", {})
    found: list[Along] = []
    if plan.start is not None or plan.end is not None:
        found.append(Along("window asked about", plan.start, plan.end))
    if (during := filters.get("during")) is not None:
        found.append(Along("kept: during", during[0], during[1]))
    for name, at in (("asked as of", plan.as_of), ("kept: so at", filters.get("as_of"))):
        if at is not None:
            found.append(Along(name, at, at))
    found += [Along(_label(one), one.start, one.end, at) for at, one in enumerate(result.evidence, 1)]
    return found if result.evidence else []


def _label(one: Evidence) -> str:
    return plain(one.text, 200)


def _piece(one: Along) -> Piece:
    if one.place is None:
        return Piece(one.label, one.start, one.end, "window")
    return Piece(f"{one.place}. {one.label}", one.start, one.end, "state", one.label)


async def ask(visit: Visit) -> Response:
    """Show the form for a question, and what became of it when there is one."""
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
        given = {name: value for name, value in asked.items() if value is not None}
        result, answered = await _asked(
            visit.memory, question, wants_answer, top_k=top_k, explain=True, **given
        )
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
        drawn=draw([_piece(one) for one in along], visit.forest.config.zone),
        steps=[steps_of(one.path) for one in found],
    )


async def _asked(
    memory: AsyncUserMemory, question: str, wants_answer: bool, **options: Any
) -> tuple[QueryResult, AskResult | None]:
    if wants_answer:
        answered = await memory.ask(question, **options)
        return answered.result, answered
    return await memory.search(question, **options), None


def _plan_rows(result: QueryResult) -> list[tuple[str, Any]]:
    """Return how a question was understood, in rows."""
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
    """Return what the search did beside filtering, in rows."""
    why = result.trace.get("explain", {})
    rows = []
    for name in _DONE:
        done = why.get(name)
        if isinstance(done, Mapping):
            told = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in done.items() if value)
            rows.append((name.replace("_", " "), told))
    return rows
