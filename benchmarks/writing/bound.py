"""What a write could not be faster than, from the calls that it made and a cost model. No clock is read here.

An arrival (a session, or a batch of sessions) goes through stages, each of which needs what the one before has made:
extraction, judgement, summaries. Within a stage, a call may need the reply of another one: a repair needs the reply that
it mends, a node's summary those of the nodes below it. Then

* ``bound_s`` is the sum over arrivals of the waves of calls, each as long as its longest call: extraction, repairs,
  judgement, one per level of summaries. A write that goes level by level over all trees cannot be faster;
* ``path_s`` is the sum over arrivals of the longest path through the calls that need each other. It is at most the
  bound, and nobody who makes these calls can be faster, whatever the order;
* ``work_s`` is the sum of all calls: nobody can be faster than ``work_s / in_flight``;
* ``chain`` is the most calls of one arrival that wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from writing.costs import CostModel

__all__ = ["Call", "bound_s", "chain", "floor_s", "path_s", "work_s"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the chat model.

    `arrival` names what it belongs to, `stage` and `wave` order its calls; `needs` are the places, in the list of all
    calls, of those of its stage whose replies it was made from. `prefix_tokens` are those prompt tokens that are the
    same in every request of the step.
    """

    arrival: str
    step: str
    stage: int
    wave: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    prefix_tokens: int = 0
    needs: tuple[int, ...] = ()
    failed: bool = False


def bound_s(calls: Iterable[Call], cost: CostModel) -> float:
    """Return the seconds that the waves of all arrivals take, one after the other, with enough in flight.

    Example: two calls of one wave and one of the next, at 1 s a call and 1 ms a completion token.
        >>> cost = CostModel(1.0, 0.0, 0.001)
        >>> calls = [Call("s", "extract", 0, 0, 0, 500), Call("s", "extract", 0, 0, 0, 100)]
        >>> bound_s([*calls, Call("s", "judge", 1, 0, 0, 0)], cost)
        2.5
    """
    longest: dict[tuple[str, int, int], float] = defaultdict(float)
    for call in calls:
        key = (call.arrival, call.stage, call.wave)
        longest[key] = max(longest[key], _seconds(call, cost))
    return sum(longest.values())


def path_s(calls: Sequence[Call], cost: CostModel) -> float:
    """Return the seconds of the longest paths of all arrivals, one after the other.

    Example: of two trees, one is slow below and the other above; waves add up what never waits for each other.
        >>> cost = CostModel(0.0, 0.0, 1.0)
        >>> below = [Call("s", "summarise", 2, 0, 0, 9), Call("s", "summarise", 2, 0, 0, 1)]
        >>> above = [Call("s", "summarise", 2, 1, 0, 1, needs=(0,)), Call("s", "summarise", 2, 1, 0, 9, needs=(1,))]
        >>> path_s(below + above, cost), bound_s(below + above, cost)
        (10.0, 18.0)
    """
    return sum(_longest(calls, lambda call: _seconds(call, cost)).values())


def chain(calls: Sequence[Call]) -> int:
    """Return the most calls of one arrival that wait for each other; 0 without calls."""
    return round(max(_longest(calls, lambda _: 1.0).values(), default=0))


def work_s(calls: Iterable[Call], cost: CostModel) -> float:
    """Return the seconds of all calls, one after the other."""
    return sum(_seconds(call, cost) for call in calls)


def floor_s(calls: Sequence[Call], cost: CostModel, in_flight: int) -> float:
    """Return the larger of the bound and of the work shared among so many in flight.

    Example:
        >>> ten = [Call("s", "extract", 0, 0, 0, 0)] * 10
        >>> floor_s(ten, CostModel(1.0), 64), floor_s(ten, CostModel(1.0), 2)
        (1.0, 5.0)
    """
    return max(bound_s(calls, cost), work_s(calls, cost) / in_flight)


def _seconds(call: Call, cost: CostModel) -> float:
    return cost.seconds(call.prompt_tokens, call.completion_tokens, call.cached_tokens)


def _longest(calls: Sequence[Call], weight: Callable[[Call], float]) -> dict[str, float]:
    """Return the weight of each arrival's heaviest path: stage by stage, in each along what calls need."""
    ends: list[float] = [0.0] * len(calls)
    of_stage: dict[tuple[str, int], float] = defaultdict(float)
    # A call is listed when it ends, so what it needs stands before it.
    for at, call in enumerate(calls):
        ends[at] = weight(call) + max((ends[other] for other in call.needs if other < at), default=0.0)
        key = (call.arrival, call.stage)
        of_stage[key] = max(of_stage[key], ends[at])
    found: dict[str, float] = defaultdict(float)
    for (arrival, _), longest in of_stage.items():
        found[arrival] += longest
    return found
