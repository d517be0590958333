"""What a write could not be faster than, from the calls that it made and a cost model. No clock is read here.

An arrival (a session, or a batch of sessions) goes through stages, each of which needs what the one before has made:
extraction, judgement, summaries. Within a stage, a call may need the reply of another one: a repair needs the reply that
it mends, a node's summary those of the nodes below it. Then

* ``waves_s`` is what a write takes that asks for all chunks of an arrival at once and then for one level of summaries
  after the other, of a tree with `FAN_OUT` children a node over the chunks, and does nothing else: no repair, no
  judgement, no second tree. A wave of chunks is as long as its longest call, a level as long as a summary's call is at
  the median. The order in which calls were made does not come into it, so that needless order does not raise it;
* ``path_s`` is the sum over arrivals of the longest path through the calls that need each other: nobody who makes these
  calls can be faster, whatever the order;
* ``work_s`` is the sum of all calls: nobody can be faster than ``work_s / in_flight``;
* ``floor_s`` is the larger of ``waves_s`` and ``work_s / in_flight``;
* ``chain`` is the most calls of one arrival that wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from writing.costs import CostModel

__all__ = ["FAN_OUT", "Call", "chain", "floor_s", "levels_over", "path_s", "waves_s", "work_s"]

FAN_OUT = 8
"""Children of a node in the tree of the floor: the most that a tree of memforest's own has over facts."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the chat model.

    `arrival` names what it belongs to, and is empty for a call that was made beside later writes, and so held up none;
    `stage` orders its calls; `needs` are the places, in the list of all
    calls, of those of its stage whose replies it was made from. `prefix_tokens` are those prompt tokens that are the
    same in every request of the step.
    """

    arrival: str
    step: str
    stage: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    prefix_tokens: int = 0
    needs: tuple[int, ...] = ()
    failed: bool = False


def levels_over(leaves: int) -> int:
    """Return how many levels a tree has above so many leaves.

    Example:
        >>> [levels_over(leaves) for leaves in (0, 1, 8, 9, 64, 65)]
        [0, 0, 1, 2, 2, 3]
    """
    levels, reach = 0, 1
    while reach < leaves:
        levels, reach = levels + 1, reach * FAN_OUT
    return levels


def waves_s(calls: Sequence[Call], cost: CostModel) -> float:
    """Return the seconds of one wave of chunks and of the levels of summaries over them, for all arrivals.

    Example: two chunks at 1 s a call and 1 ms a completion token, and one level over them; repairs do not count.
        >>> cost = CostModel(1.0, 0.0, 0.001)
        >>> chunks = [Call("s", "extract", 0, 0, 500), Call("s", "extract", 0, 0, 100)]
        >>> repair = Call("s", "extract", 0, 0, 900, needs=(0,))
        >>> waves_s([*chunks, repair, Call("s", "summarise", 2, 0, 1000)], cost)
        3.5
    """
    chunks: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        if call.step == "extract" and not call.needs:
            chunks[call.arrival].append(_seconds(call, cost))
    summaries = [_seconds(call, cost) for call in calls if call.step == "summarise" and not call.failed]
    level = median(summaries) if summaries else 0.0
    return sum(max(own) + level * levels_over(len(own)) for own in chunks.values())


def path_s(calls: Sequence[Call], cost: CostModel) -> float:
    """Return the seconds of the longest paths of all arrivals, one after the other.

    Example: of two trees, one is slow below and the other above; they do not wait for each other.
        >>> cost = CostModel(0.0, 0.0, 1.0)
        >>> below = [Call("s", "summarise", 2, 0, 9), Call("s", "summarise", 2, 0, 1)]
        >>> above = [Call("s", "summarise", 2, 0, 1, needs=(0,)), Call("s", "summarise", 2, 0, 9, needs=(1,))]
        >>> path_s(below + above, cost)
        10.0
    """
    return sum(_longest(calls, lambda call: _seconds(call, cost)).values())


def chain(calls: Sequence[Call]) -> int:
    """Return the most calls of one arrival that wait for each other; 0 without calls."""
    return round(max(_longest(calls, lambda _: 1.0).values(), default=0))


def work_s(calls: Iterable[Call], cost: CostModel) -> float:
    """Return the seconds of all calls, one after the other."""
    return sum(_seconds(call, cost) for call in calls)


def floor_s(calls: Sequence[Call], cost: CostModel, in_flight: int) -> float:
    """Return the larger of the waves and of the work shared among so many in flight.

    Example:
        >>> ten = [Call("s", "extract", 0, 0, 0)] * 10
        >>> floor_s(ten, CostModel(1.0), 64), floor_s(ten, CostModel(1.0), 2)
        (1.0, 5.0)
    """
    return max(waves_s(calls, cost), work_s(calls, cost) / in_flight)


def _seconds(call: Call, cost: CostModel) -> float:
    return cost.seconds(call.prompt_tokens, call.completion_tokens, call.cached_tokens)


def _longest(calls: Sequence[Call], weight: Callable[[Call], float]) -> dict[str, float]:
    """Return the weight of each arrival's heaviest path: stage by stage, in each along what calls need."""
    ends: list[float] = [0.0] * len(calls)
    of_stage: dict[tuple[str, int], float] = defaultdict(float)
    # A call is listed when it ends, so what it needs stands before it.
    for at, call in enumerate(calls):
        if not call.arrival:
            continue
        ends[at] = weight(call) + max((ends[other] for other in call.needs if other < at), default=0.0)
        key = (call.arrival, call.stage)
        of_stage[key] = max(of_stage[key], ends[at])
    found: dict[str, float] = defaultdict(float)
    for (arrival, _), longest in of_stage.items():
        found[arrival] += longest
    return found
