"""What is told of the states of one entity by an instant: those in force then, and what changed since another.

Timelines are read from their ends (`memforest.facts.superseding.segments_since`), so a state costs about as much in an old memory
as in a young one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from memforest.facts.superseding import segments_since
from memforest.facts.timeline import Observation, Segment, same_value
from memforest.language.telling import UNSPECIFIED, holds_many
from memforest.store.snapshot import StateSeen
from memforest.store.tx import Tx
from memforest.systems.states import observations
from memforest.systems.timem import profile_rows as rows

MOST_OBSERVED = 256
"""Latest observations that are read of an attribute of which several values hold at once."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value in force: since when it is known, whether it was told as a beginning, and the facts that tell it, oldest first.

    `last_ms` is of when the last of them tells.
    """

    attribute: str
    value: str
    start_ms: int
    last_ms: int
    began: bool
    facts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that came, went, or took another's place; None where there was none. `facts` tell of the change."""

    attribute: str
    before: str | None
    after: str | None
    at_ms: int
    facts: tuple[int, ...]


@dataclass(slots=True)
class Then:
    """The states of an entity: those in force, by attribute, and what changed, in time order."""

    held: list[Held] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)


def then(tx: Tx, entity: int, start_ms: int, end_ms: int) -> Then:
    """Return the states of an entity as far as they had been told by the end of [start_ms, end_ms), and what changed in it.

    A first value is no change unless it was told as a beginning. What is not told to be of something is left out here.
    """
    found = Then()
    for attribute in rows.attributes(tx, entity):
        if attribute == UNSPECIFIED:
            continue
        past = _Past(tx, entity, attribute, end_ms)
        if holds_many(attribute):
            _beside(attribute, past, start_ms, found)
        else:
            _one_at_a_time(attribute, past, start_ms, found)
    found.changed.sort(key=lambda one: (one.at_ms, one.attribute, one.before or "", one.after or ""))
    return found


@dataclass
class _Past:
    """The observations of an attribute that had been told by an instant, as `memforest.facts.superseding.Past`."""

    tx: Tx
    entity: int
    attribute: str
    end_ms: int
    read: Sequence[StateSeen] = ()

    @property
    def end(self) -> Observation:
        """Where reading ends."""
        return Observation(self.end_ms, "", 0, "")

    @cached_property
    def _named(self) -> list[tuple[str, str | None]]:
        return rows.values_named_before(self.tx, self.entity, self.attribute, self.end_ms, self.end_ms)

    @property
    def values(self) -> Collection[str]:
        return {value for row in self._named for value in row if value is not None}

    def before(self, seen: Observation, most: int) -> Sequence[Observation]:
        self.read = rows.observed_before(self.tx, self.entity, self.attribute, seen.at_ms, self.end_ms, most)
        return observations(self.read)

    def naming(self, seen: Observation, values: Collection[str]) -> Sequence[tuple[str, str | None]]:
        known = rows.values_named_before(self.tx, self.entity, self.attribute, seen.at_ms, self.end_ms)
        return [row for row in known if row[0] in values or row[1] in values]


def _one_at_a_time(attribute: str, past: _Past, start_ms: int, found: Then) -> None:
    """Read an attribute that has one value at a time."""
    segments = segments_since(past.end, past, start_ms)
    told = {(seen.fact, seen.at_ms): seen.change for seen in past.read}
    if segments and segments[-1].end_ms is None:
        found.held.append(_held(attribute, segments[-1], told, past.read[-1].at_ms))
    for before, after in zip([None, *segments], [*segments, None], strict=True):
        change = _change(attribute, before, after, told)
        if change is not None and change.at_ms >= start_ms:
            found.changed.append(change)


def _held(attribute: str, segment: Segment, told: Mapping[tuple[int, int], str], last_ms: int) -> Held:
    start = segment.start_ms
    assert start is not None, "a value that has not ended began when it was observed"
    began = told.get((segment.facts[0], start)) == "start"
    return Held(attribute, segment.value, start, last_ms, began, segment.facts)


def _change(
    attribute: str, before: Segment | None, after: Segment | None, told: Mapping[tuple[int, int], str]
) -> Changed | None:
    """Return the change between two segments beside each other, the last one's end, or the first one's beginning."""
    if after is None:
        if before is None or before.end_ms is None:
            return None
        return Changed(attribute, before.value, None, before.end_ms, (before.facts[-1],))
    if after.start_ms is None:
        return None  # when it began is not known
    left = before if before is not None and before.end_ms == after.start_ms else None
    if left is None and told.get((after.facts[0], after.start_ms)) != "start":
        return None
    if left is not None and same_value(left.value, after.value):
        return None
    return Changed(
        attribute, None if left is None else left.value, after.value, after.start_ms, (after.facts[0],)
    )


def _beside(attribute: str, past: _Past, start_ms: int, found: Then) -> None:
    """Read an attribute of which several values hold at once: each has a beginning, and an end if one is told."""
    past.before(past.end, MOST_OBSERVED)
    for seen in _by_value(past.read):
        first, last = seen[0], seen[-1]
        if last.change == "end":
            if last.at_ms >= start_ms:
                found.changed.append(Changed(attribute, last.value, None, last.at_ms, (last.fact,)))
            continue
        facts = tuple(dict.fromkeys(one.fact for one in seen))
        began = first.change == "start"
        found.held.append(Held(attribute, last.value, first.at_ms, last.at_ms, began, facts))
        if began and first.at_ms >= start_ms:
            found.changed.append(Changed(attribute, None, first.value, first.at_ms, (first.fact,)))


def _by_value(states: Sequence[StateSeen]) -> Iterator[list[StateSeen]]:
    """Yield the observations of each value, in order; what follows the end of a value is another stretch of it."""
    open_: list[list[StateSeen]] = []
    for state in states:
        same = next((one for one in open_ if same_value(one[-1].value, state.value)), None)
        if same is None:
            open_.append([state])
        elif same[-1].change == "end" and state.change != "end":
            yield list(same)
            same[:] = [state]
        else:
            same.append(state)
    yield from open_
