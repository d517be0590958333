"""What was true when: the values an attribute of an entity had, as intervals in time order.

A timeline is derived from observations ("Bob lives in Davis", said on a day or dated by itself). An
observation of another value ends the one before: that is what *superseded* means here, and why it is
reversible - take the observation away and the interval grows back.

Example:
    >>> from memforest.facts.timeline import Observation, timeline
    >>> for s in timeline([Observation(10, "a", 1, "Davis", previous="Boston"), Observation(30, "b", 2, "Miami")]):
    ...     print(s.value, s.start_ms, s.end_ms, s.facts)
    Boston None 10 (1,)
    Davis 10 30 (1,)
    Miami 30 None (2,)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from memforest.text import fold, words

Change = Literal["is", "start", "end"]


@dataclass(frozen=True, slots=True)
class Observation:
    """A fact that asserts a value at a time. `tie` orders observations of one instant, `row` those of one `tie`."""

    at_ms: int
    tie: str
    fact: int
    value: str
    previous: str | None = None
    change: Change = "is"
    row: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """One value and the half-open interval it held for; None is open. `facts` support it, oldest first."""

    value: str
    start_ms: int | None
    end_ms: int | None
    facts: tuple[int, ...]

    def holds_at(self, at_ms: int) -> bool:
        """Return whether the value held at an instant."""
        return (self.start_ms is None or self.start_ms <= at_ms) and (
            self.end_ms is None or at_ms < self.end_ms
        )


@lru_cache(maxsize=4096)  # a timeline compares the same few values over and over
def _content(value: str) -> frozenset[str]:
    return frozenset(words(fold(value))) - {"a", "an", "the", "el", "la", "un", "una"}


@lru_cache(maxsize=65_536)
def same_value(a: str, b: str) -> bool:
    """Return whether two wordings name one value: the words of one are among the other's, in any case.

    Example:
        >>> same_value("Lisbon", "Lisbon, Portugal"), same_value("a Tesla", "Tesla"), same_value("Rome", "Davis")
        (True, True, False)
    """
    left, right = _content(a), _content(b)
    if not left or not right:
        return fold(a) == fold(b)
    return left <= right or right <= left


def time_order(seen: Observation) -> tuple[int, str, int, int]:
    """Return the sort key of observations: by time, then by tie, fact and row."""
    return seen.at_ms, seen.tie, seen.fact, seen.row


def timeline(observations: Iterable[Observation]) -> list[Segment]:
    """Return the segments of one attribute that holds one value at a time, in time order."""
    segments: list[Segment] = []
    for seen in sorted(observations, key=time_order):
        observe(segments, seen)
    return segments


def superseded(observations: Iterable[Observation], new: Iterable[Observation]) -> set[int]:
    """Return the facts of the segments that new observations superseded.

    Args:
        observations: of one attribute, the new ones among them.
        new: those that were written last.
    """
    wanted, segments, found = set(new), list[Segment](), set[int]()
    for seen in sorted(observations, key=time_order):
        before = observe(segments, seen)
        if before is not None and seen in wanted:
            found |= {*before.facts} - {seen.fact}
    return found


def _never_held(_seen: Observation) -> bool:
    return False


def observe(
    segments: list[Segment], seen: Observation, held: Callable[[Observation], bool] = _never_held
) -> Segment | None:
    """Read the next observation, in time order, into the segments of those before it.

    Args:
        segments: changed in place.
        seen: the observation.
        held: whether an ended value held in some segment that is not among `segments`.

    Returns:
        The segment that was the last one, if a new one takes its place.
    """
    last = segments[-1] if segments else None
    if seen.change == "end":
        return _end(segments, last, seen, held)
    if last is not None and last.end_ms is None and same_value(last.value, seen.value):
        segments[-1] = _supported(last, seen.fact)
        return None
    _close(segments, seen.at_ms)
    left = None if seen.previous is None or same_value(seen.previous, seen.value) else seen.previous
    if left and not (last is not None and same_value(last.value, left)):
        # "moved from Davis to Miami" tells of Davis too, when nothing else has.
        segments.append(Segment(left, None, seen.at_ms, (seen.fact,)))
    segments.append(Segment(seen.value, seen.at_ms, None, (seen.fact,)))
    return last


def _end(
    segments: list[Segment], last: Segment | None, seen: Observation, held: Callable[[Observation], bool]
) -> Segment | None:
    """End a value: that of the last segment, of an earlier one, or one that no observation has named yet."""
    if last is not None and same_value(last.value, seen.value):
        if last.end_ms is None:
            segments[-1] = _supported(replace(last, end_ms=seen.at_ms), seen.fact)
        return None
    before = next(
        (i for i in range(len(segments) - 2, -1, -1) if same_value(segments[i].value, seen.value)), None
    )
    if before is not None:
        segments[before] = _supported(segments[before], seen.fact)
        return None
    if held(seen):
        return None
    _close(segments, seen.at_ms)
    segments.append(Segment(seen.value, None, seen.at_ms, (seen.fact,)))
    return last


def _close(segments: list[Segment], at_ms: int) -> None:
    if segments and segments[-1].end_ms is None:
        last = segments[-1]
        segments[-1] = Segment(last.value, last.start_ms, at_ms, last.facts)


def _supported(segment: Segment, fact: int) -> Segment:
    if fact in segment.facts:
        return segment
    return Segment(segment.value, segment.start_ms, segment.end_ms, (*segment.facts, fact))
