"""The states of an entity as a timeline shows them: each with what ended it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from memforest.facts.timeline import Observation, Segment, same_value, timeline
from memforest.graph.relations import by_value
from memforest.language.telling import holds_many
from memforest.search.snapshot import Snapshot
from memforest.store.snapshot import StateSeen
from memforest.systems.states import observations, states_of_entity, timelines_of


class Shown(NamedTuple):
    """A state, and the fact that ended it, by row id; `next_value` is the one that took its place, if one did."""

    attribute: str
    segment: Segment
    ended_by: int | None = None
    next_value: str | None = None


def attributes_of(snapshot: Snapshot, entity: int) -> tuple[str, ...]:
    """Return the attributes of which something was said, in order."""
    return tuple(sorted({state.attribute for state in states_of_entity(snapshot, entity)}))


def states_shown(snapshot: Snapshot, entity: int, attribute: str | None = None) -> list[Shown]:
    """Return the states of an entity, of one attribute or of all, in the order of their timelines.

    Values that hold side by side (brothers, hobbies) have a timeline each: naming one ends no other.
    """
    seen = groupby(states_of_entity(snapshot, entity), key=lambda state: state.attribute)
    told = {name: list(states) for name, states in seen if attribute in (None, name)}
    found: list[Shown] = []
    for name, states in told.items():
        if holds_many(name):
            for group in by_value(states):
                found += _line(name, timeline(observations(group)), group)
    for key, segments in timelines_of(snapshot, entity).items():
        if key[1] in told and not holds_many(key[1]):
            found += _line(key[1], segments, told[key[1]])
    return found


def _line(attribute: str, segments: Sequence[Segment], states: Iterable[StateSeen]) -> Iterable[Shown]:
    """Yield the states of one timeline: what ends one is the next that begins there, or what was said of its end."""
    endings: dict[int, list[Observation]] = {}
    for seen in observations(states):
        if seen.change == "end":
            endings.setdefault(seen.at_ms, []).append(seen)
    following: Segment | None = None
    shown: list[Shown] = []
    for one in reversed(segments):
        if one.end_ms is None:
            shown.append(Shown(attribute, one))
        elif following is not None and following.start_ms == one.end_ms:
            shown.append(Shown(attribute, one, following.facts[0], following.value))
        else:
            shown.append(Shown(attribute, one, _said(one, endings.get(one.end_ms, ()))))
        if one.start_ms is not None:
            following = one
    return reversed(shown)


def _said(segment: Segment, endings: Sequence[Observation]) -> int | None:
    """Return the fact that says that a value ended: of several at that instant, the one that names it."""
    naming = [one for one in endings if same_value(one.value, segment.value)]
    return next((one.fact for one in naming or endings), None)
