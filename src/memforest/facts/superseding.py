"""Finding what a new observation superseded from the observations around it, without reading the whole timeline.

A timeline is read from its beginning, so what stood before an observation depends on all that came earlier. But
where a value follows another one for certain, a segment begins whatever was before; from there on reading gives
what reading all would. So only the observations since such a place are read, and more when there is none or
when it matters what was earlier. The result always equals `memforest.facts.timeline.superseded`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from memforest.facts.timeline import Observation, Segment, observe, same_value

WINDOW = 16
"""Observations that are read at first; eight times as many with each further try."""


class Past(Protocol):
    """The stored observations of one attribute of one entity."""

    @property
    def values(self) -> Collection[str]:
        """Every value that was observed at any time, or named as the one before an observed value."""
        ...

    def before(self, seen: Observation, most: int) -> Sequence[Observation]:
        """Return the latest observations before another one, in time order."""
        ...

    def naming(self, seen: Observation, values: Collection[str]) -> Sequence[tuple[str, str | None]]:
        """Return (value, previous) of the observations before another one that name any of some values."""
        ...


class _Unsure(Exception):
    """The answer depends on observations before the window that was read."""


def superseded_by(seen: Observation, past: Past) -> set[int]:
    """Return the facts of the segment that an observation superseded, without its own fact.

    Args:
        seen: an observation that is stored already.
        past: of its attribute.
    """
    most = WINDOW
    while True:
        window = past.before(seen, most)
        try:
            before = _replaced(window, seen, past, whole=len(window) < most)
            return set() if before is None else {*before.facts} - {seen.fact}
        except _Unsure:
            most *= 8


def segments_since(seen: Observation, past: Past, since_ms: int) -> list[Segment]:
    """Return the last segments of the observations before one: at least the one at `since_ms`, if there is one, and those after it.

    They are as `memforest.facts.timeline.timeline` of all these observations has them.

    Args:
        seen: where reading ends; it need not be stored.
        past: of its attribute.
        since_ms: UTC ms.
    """
    most = WINDOW
    while True:
        window = past.before(seen, most)
        try:
            return _segments(window, past, whole=len(window) < most, since_ms=since_ms)[0]
        except _Unsure:
            most *= 8


def _replaced(window: Sequence[Observation], seen: Observation, past: Past, *, whole: bool) -> Segment | None:
    """Return the segment that an observation supersedes; `whole`: nothing is stored before the window."""
    segments, held = _segments(window, past, whole=whole)
    return observe(segments, seen, held)


def _segments(
    window: Sequence[Observation], past: Past, *, whole: bool, since_ms: int | None = None
) -> tuple[list[Segment], Callable[[Observation], bool]]:
    """Return the segments of a window's observations, and what says whether a value held before these."""
    segments: list[Segment] = []
    if not whole:
        first = _certain(window, past.values)
        if since_ms is not None and window[first].at_ms > since_ms:
            raise _Unsure
        # Whether what it left has a segment of its own depends on what was before.
        window = [replace(window[first], previous=None), *window[first + 1 :]]

    def held(ended: Observation) -> bool:
        return not whole and _held(ended, past)

    for one in window:
        observe(segments, one, held)
    return segments, held


def _certain(window: Sequence[Observation], values: Collection[str]) -> int:
    """Return the first observation that begins a segment, whatever the values were before it."""
    last: list[str] = list(values)
    """Values that the last segment may have, if it is open."""
    for at, one in enumerate(window):
        same = [value for value in last if same_value(value, one.value)]
        others = len(same) < len(last)
        if one.change == "end":
            last = [*last, one.value] if others else []
        elif not same:
            return at
        else:
            last = [*same, one.value] if others else same
    raise _Unsure


def _held(ended: Observation, past: Past) -> bool:
    """Return whether an earlier segment than the last has the value that an observation ends."""
    alike = [value for value in past.values if same_value(value, ended.value)]
    named = past.naming(ended, alike)
    if not named:
        return False
    # What was told in the same words has a segment, or supports one, of a value that is the same as this one.
    if any(value == ended.value for value, _ in named):
        return True
    raise _Unsure
