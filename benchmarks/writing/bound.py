"""What a write could not be faster than, from the calls that it made and a cost model. No clock is read here.

Calls come in waves: those of a wave need nothing of each other, those of the next need a reply of the one before.
The waves of an arrival (a session, or a batch of sessions) are extraction, its repairs, judgement, and one per level
of summaries that has calls. Then

* ``bound_s`` is the sum over arrivals of the sum over waves of the longest call of the wave: nobody who makes these
  calls can be faster, with any number of them in flight;
* ``work_s`` is the sum of all calls: nobody can be faster than ``work_s / in_flight``;
* ``chain`` is the most waves of one arrival: its longest chain of calls that wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from writing.costs import CostModel

__all__ = ["Call", "bound_s", "chain", "floor_s", "work_s"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the chat model.

    `arrival` names what it belongs to, `wave` orders the waves of an arrival. `prefix_tokens` are those prompt
    tokens that are the same in every request of the step.
    """

    arrival: str
    step: str
    wave: tuple[int, int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    prefix_tokens: int = 0
    failed: bool = False


def bound_s(calls: Iterable[Call], cost: CostModel) -> float:
    """Return the seconds that the waves of all arrivals take, one after the other, with enough in flight.

    Example: two calls of one wave and one of the next, at 1 s a call and 1 ms a completion token.
        >>> cost = CostModel(1.0, 0.0, 0.001)
        >>> calls = [Call("s", "extract", (0, 0), 0, 500), Call("s", "extract", (0, 0), 0, 100)]
        >>> bound_s([*calls, Call("s", "judge", (1, 0), 0, 0)], cost)
        2.5
    """
    longest: dict[tuple[str, tuple[int, int]], float] = defaultdict(float)
    for call in calls:
        key = (call.arrival, call.wave)
        longest[key] = max(longest[key], cost.seconds(call.prompt_tokens, call.completion_tokens))
    return sum(longest.values())


def work_s(calls: Iterable[Call], cost: CostModel) -> float:
    """Return the seconds of all calls, one after the other."""
    return sum(cost.seconds(call.prompt_tokens, call.completion_tokens) for call in calls)


def floor_s(calls: Sequence[Call], cost: CostModel, in_flight: int) -> float:
    """Return the larger of the bound and of the work shared among so many in flight.

    Example:
        >>> cost = CostModel(1.0)
        >>> ten = [Call("s", "extract", (0, 0), 0, 0)] * 10
        >>> floor_s(ten, cost, 64), floor_s(ten, cost, 2)
        (1.0, 5.0)
    """
    return max(bound_s(calls, cost), work_s(calls, cost) / in_flight)


def chain(calls: Iterable[Call]) -> int:
    """Return the most waves of one arrival; 0 without calls."""
    waves: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for call in calls:
        waves[call.arrival].add(call.wave)
    return max((len(found) for found in waves.values()), default=0)
