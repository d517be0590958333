"""One row of the write path: what a system took to write the sessions, in the words of the table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BATCH", "ONE_BY_ONE", "TARGETS", "Measured", "StepCost", "breakdown", "load", "rows", "verdicts"]

ONE_BY_ONE = "one by one"
BATCH = "one batch"
TARGETS = {ONE_BY_ONE: {"ratio": 1.0, "calls per turn": 0.6}, BATCH: {"ratio": 1.25, "calls per turn": 0.6}}
"""Most that the project allows itself, at the reference cost."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step cost: `busy_s` is the sum over its calls, which overlap, `wall_s` the time until it was done."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    busy_s: float = 0.0
    wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. What cannot be said of a system is None.

    `cached_share` and `prefix_share` are shares of the prompt tokens: those that the server had kept, and those that
    are the same in every request of a step. `wall_s` is the time until the write had returned, `flushed_s` until
    its summaries were made as well; for `floor_s`, `path_s` and `chain` see `writing.bound`.
    """

    system: str
    cost: str
    arrival: str
    in_flight: int
    turns: int
    wall_s: float
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_share: float
    most_in_flight: int
    embedding_calls: int
    late_s: float
    memories: int
    failed: int = 0
    prefix_share: float | None = None
    chain: int | None = None
    flushed_s: float | None = None
    path_s: float | None = None
    work_s: float | None = None
    floor_s: float | None = None
    steps: Mapping[str, StepCost] = field(default_factory=dict)
    load: float = 0.0
    """Of this machine when the run began: processes that wanted a core, mean over a minute."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the floor the run took, its summaries included; None where there is no floor."""
        return None if not self.floor_s or self.flushed_s is None else self.flushed_s / self.floor_s

    @property
    def calls_per_turn(self) -> float:
        """Calls to the chat model per turn."""
        return self.calls / max(self.turns, 1)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Measured:
        """Return a row from what `dataclasses.asdict` made of it."""
        steps = {name: StepCost(**one) for name, one in value["steps"].items()}
        return cls(**{**value, "steps": steps})


def load() -> float:
    """Return how many processes want a core of this machine, mean over a minute; 0 where nobody knows."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


HEAD = (
    f"{'':30}{'wall s':>8}{'flushed':>9}{'floor s':>9}{'ratio':>7}{'path s':>9}{'work/fl':>9}{'chain':>7}{'calls':>7}{'/turn':>7}"
    f"{'prompt':>10}{'compl.':>9}{'cached':>8}{'prefix':>8}{'flight':>8}{'emb.':>6}{'memories':>10}{'late s':>8}{'load':>6}"
)


def rows(found: Iterable[Measured]) -> list[str]:
    """Return the lines of a table, its head first."""
    return [HEAD, *(_row(one) for one in found)]


def _row(one: Measured) -> str:
    work = None if one.work_s is None else one.work_s / one.in_flight
    return (
        f"{one.system:30}{one.wall_s:8.2f}{_number(one.flushed_s, 9)}{_number(one.floor_s, 9)}"
        f"{_number(one.ratio, 7)}{_number(one.path_s, 9)}"
        f"{_number(work, 9)}{_number(one.chain, 7, 0)}{one.calls:7}{one.calls_per_turn:7.2f}"
        f"{one.prompt_tokens:10}{one.completion_tokens:9}{one.cached_share:8.0%}{_share(one.prefix_share):>8}"
        f"{one.most_in_flight:8}{one.embedding_calls:6}{one.memories:10}{one.late_s:8.2f}{one.load:6.1f}"
        + (f"  ({one.failed} failed)" if one.failed else "")
        + (f"  {one.note}" if one.note else "")
    )


def breakdown(one: Measured) -> list[str]:
    """Return the lines of a run's steps."""
    lines = [f"{'':14}{'calls':>7}{'prompt':>10}{'compl.':>9}{'busy s':>9}{'wall s':>9}"]
    for name, step in one.steps.items():
        lines.append(
            f"{name:14}{step.calls:7}{step.prompt_tokens:10}{step.completion_tokens:9}{step.busy_s:9.2f}"
            f"{_number(step.wall_s, 9)}"
        )
    return lines


def verdicts(one: Measured) -> str:
    """Say beside a row whether it keeps the targets of its arrival; nothing of a row that has no floor."""
    if one.ratio is None:
        return ""
    values = {"ratio": one.ratio, "calls per turn": one.calls_per_turn}
    return ", ".join(
        f"{name} {values[name]:.2f} {'<=' if values[name] <= most else '>'} {most}"
        for name, most in TARGETS[one.arrival].items()
    )


def _number(value: float | None, width: int, digits: int = 2) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
