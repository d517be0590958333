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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from memforest.text import words

__all__ = ["Observation", "Segment", "same_value", "timeline"]


@dataclass(frozen=True, slots=True)
class Observation:
    """A fact that asserts a value at a time. `tie` orders observations of one instant."""

    at_ms: int
    tie: str
    fact: int
    value: str
    previous: str | None = None
    change: Literal["is", "start", "end"] = "is"


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


def _content(value: str) -> frozenset[str]:
    return frozenset(words(value)) - {"a", "an", "the", "el", "la", "un", "una"}


def same_value(a: str, b: str) -> bool:
    """Return whether two wordings name one value: the words of one are among the other's.

    Example:
        >>> same_value("Lisbon", "Lisbon, Portugal"), same_value("a Tesla", "Tesla"), same_value("Rome", "Davis")
        (True, True, False)
    """
    left, right = _content(a), _content(b)
    if not left or not right:
        return a.strip().casefold() == b.strip().casefold()
    return left <= right or right <= left


def timeline(observations: Iterable[Observation]) -> list[Segment]:
    """Return the segments of one attribute that holds one value at a time, in time order."""
    segments: list[Segment] = []
    for seen in sorted(observations, key=lambda o: (o.at_ms, o.tie, o.fact)):
        _observe(segments, seen)
    return segments


def _observe(segments: list[Segment], seen: Observation) -> None:
    last = segments[-1] if segments else None
    if seen.change == "end":
        if last is not None and last.end_ms is None and same_value(last.value, seen.value):
            segments[-1] = _supported(replace(last, end_ms=seen.at_ms), seen.fact)
        elif last is None or not same_value(last.value, seen.value):
            before = next(
                (i for i in range(len(segments) - 2, -1, -1) if same_value(segments[i].value, seen.value)),
                None,
            )
            if before is not None:
                segments[before] = _supported(segments[before], seen.fact)
                return
            _close(segments, seen.at_ms)
            segments.append(Segment(seen.value, None, seen.at_ms, (seen.fact,)))
        return
    if last is not None and last.end_ms is None and same_value(last.value, seen.value):
        segments[-1] = _supported(last, seen.fact)
        return
    _close(segments, seen.at_ms)
    left = None if seen.previous is None or same_value(seen.previous, seen.value) else seen.previous
    if left and not (last is not None and same_value(last.value, left)):
        # "moved from Davis to Miami" tells of Davis too, when nothing else has.
        segments.append(Segment(left, None, seen.at_ms, (seen.fact,)))
    segments.append(Segment(seen.value, seen.at_ms, None, (seen.fact,)))


def _close(segments: list[Segment], at_ms: int) -> None:
    if segments and segments[-1].end_ms is None:
        segments[-1] = replace(segments[-1], end_ms=at_ms)


def _supported(segment: Segment, fact: int) -> Segment:
    return segment if fact in segment.facts else replace(segment, facts=(*segment.facts, fact))
