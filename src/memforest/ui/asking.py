"""A question explained: how it was understood, what was searched, and why each piece of evidence stands where it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from memforest.forest.handle import AsyncUserMemory
from memforest.memory.results import AskResult, QueryResult
from memforest.ui.visit import PAGE, Visit

__all__ = ["ask", "score_bars"]

HALF = 100.0
"""Width of the drawing of a score, from its middle to either side."""
TOP_K = 10

_DONE = ("fusion", "time_order", "propagation", "diversity", "rerank", "guide", "explored")
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


async def ask(visit: Visit) -> Response:
    """Show the form for a question, and what became of it when there is one."""
    user, question = visit.user, visit.given("q")
    names = ("as_of", "reference_date", "said_by", "known_at", "index")
    asked: dict[str, Any] = {name: visit.given(name) for name in names}
    top_k = visit.number("top_k", TOP_K, PAGE) or TOP_K
    wants_answer = visit.given("answer") is not None
    result: QueryResult | None = None
    answered: AskResult | None = None
    if question is None:
        await visit.memory.sessions(limit=1)  # whether there is such a memory
    else:
        given = {name: value for name, value in asked.items() if value is not None}
        result, answered = await _asked(
            visit.memory, question, wants_answer, top_k=top_k, explain=True, **given
        )
    found = result.evidence if result is not None else ()
    return visit.page(
        "ask.html",
        user=user,
        here="ask",
        q=question,
        asked=asked,
        top_k=top_k,
        wants_answer=wants_answer,
        result=result,
        answered=answered,
        why=result.trace.get("explain", {}) if result is not None else {},
        plan=_plan_rows(result) if result is not None else [],
        done=_done_rows(result) if result is not None else [],
        bars=[score_bars(one.scores) for one in found],
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
