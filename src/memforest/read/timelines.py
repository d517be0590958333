"""Views of what is known of somebody or something over time.

The states of an entity as a timeline shows them: each with what ended it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

from memforest.graph.relations import by_value
from memforest.plain import Key, Listing
from memforest.read.facts import entity_row, fact_views, naming
from memforest.read.quoting import Quotes
from memforest.read.stored import Ending, FactView, TimelineEntry, TimelinePage, turn_sources
from memforest.read.views import ViewContext
from memforest.reading.states import holds_many
from memforest.search.snapshot import Snapshot
from memforest.search.timeline import (
    Segment,
    StateFact,
    observations,
    same_value,
    states_of_entity,
    timeline,
    timelines_of,
)
from memforest.store import evidence, sessions
from memforest.store import facts as facts_rows
from memforest.store.facts import FactRow
from memforest.store.snapshot import StateSeen
from memforest.times import from_ms


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
    endings: dict[int, list[StateFact]] = {}
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


def _said(segment: Segment, endings: Sequence[StateFact]) -> int | None:
    """Return the fact that says that a value ended: of several at that instant, the one that names it."""
    naming = [one for one in endings if same_value(one.value, segment.value)]
    return next((one.fact for one in naming or endings), None)


FIRST_MS = -(2**63)


class _TimelineKey(NamedTuple):
    """An entry of a timeline before it is read: where it stands, which it is, and what it is made from."""

    at_ms: int
    kind: str
    attribute: str
    tie: str
    name: str
    """Tells it from others that stand at the same place."""
    fact: int
    state: Shown | None = None

    @property
    def key(self) -> tuple[int, str, str, str]:
        return self[:4]


def timeline_page(
    context: ViewContext,
    name: str,
    listing: Listing,
    *,
    attribute: str | None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> TimelinePage:
    """Return what is known of an entity in time order: its states with their intervals, and its events.

    Args:
        context: the transaction.
        name: the entity's name, or one of its aliases.
        listing: what the cursor has to be of.
        attribute: only this attribute's states.
        kind: only ``"state"`` or ``"event"``.
        limit: most entries; None for all.
        cursor: of the page before; None for the first.

    Raises:
        InputError: if the cursor is none of this listing.
        NotFoundError: if nothing is known of the entity.
    """
    after = listing.key(cursor, int, str, str, str, str)
    entity = entity_row(context, name)
    places = _places(context, entity, attribute, kind)
    behind = places if after is None else _behind(places, after)
    page = behind if limit is None else behind[:limit]
    following = listing.cursor(_cursor(places, page[-1])) if len(page) < len(behind) else None
    attributes = attributes_of(context.snapshot, entity)
    return TimelinePage(tuple(_entries(context, page)), len(places), following, attributes)


def _places(context: ViewContext, entity: int, attribute: str | None, kind: str | None) -> list[_TimelineKey]:
    """Return all entries in time order.

    States of one instant stand in the order of their timeline, which knows what was said first, events in that in which they
    were told.
    """
    found: list[_TimelineKey] = []
    if kind != "event":
        for one in states_shown(context.snapshot, entity, attribute):
            began, name = _begins(one.segment), _name(one.segment)
            found.append(_TimelineKey(began, "state", one.attribute, "", name, one.segment.facts[0], one))
    if attribute is None and kind != "state":
        known = {seen.fact for seen in states_of_entity(context.snapshot, entity)}
        rows = [fact for fact in naming(context, entity) if fact not in known]
        keys = {} if context.moment is None else context.snapshot.restated
        for key, fact_id in sessions.fact_keys(context.tx, rows):
            told = keys.get(key.row)
            at_ms, tie = key[:2] if told is None else told.leaf_key
            found.append(_TimelineKey(at_ms, "event", "", tie, fact_id, key.row))
    return sorted(found, key=lambda place: place.key)


def _begins(segment: Segment) -> int:
    return next((at for at in (segment.start_ms, segment.end_ms) if at is not None), FIRST_MS)


def _name(segment: Segment) -> str:
    told = f"{segment.value}\0{segment.start_ms is None}"
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _cursor(places: Sequence[_TimelineKey], last: _TimelineKey) -> Key:
    """Return the key of an entry with the names of all up to it that stand at the same place."""
    beside = [place for place in places if place.key == last.key]
    return (*last.key, ",".join(place.name for place in beside[: beside.index(last) + 1]))


def _behind(places: Sequence[_TimelineKey], after: Key) -> list[_TimelineKey]:
    key, seen, found = after[:4], str(after[4]).split(","), []
    for place in places:
        if place.key == key and place.name in seen:
            seen.remove(place.name)
        elif place.key >= key:
            found.append(place)
    return found


def _entries(context: ViewContext, places: Sequence[_TimelineKey]) -> list[TimelineEntry]:
    events = [place.fact for place in places if place.state is None]
    states = [place.state for place in places if place.state is not None]
    views = _views(context, [*events, *(one.ended_by for one in states if one.ended_by is not None)])
    told = _StateFacts.read(context, {fact for one in states for fact in one.segment.facts})
    found = []
    for place in places:
        if place.state is not None:
            found.append(_state(place.state, told, views))
            continue
        view = views[place.fact]
        found.append(
            TimelineEntry(
                "event",
                view.text,
                view.start,
                view.end,
                sources=view.sources,
                statement=view.statement,
                spoken=view.spoken,
                fact_ids=(view.fact_id,),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _StateFacts:
    """The facts that the states of a page stand on, each read once: of a value that comes again they are the same."""

    facts: Mapping[int, FactRow]
    quotes: Quotes
    sources: Mapping[int, Sequence[tuple[str, str]]]

    @classmethod
    def read(cls, context: ViewContext, rows: Collection[int]) -> _StateFacts:
        facts = context.told(facts_rows.facts_with_ids(context.tx, rows).values())
        return cls(
            {one.row: one for one in facts},
            Quotes.read(context.tx, rows, context.snapshot),
            evidence.fact_sources(context.tx, rows, context.snapshot.without),
        )


def _views(context: ViewContext, rows: Sequence[int]) -> dict[int, FactView]:
    """Return the views of facts by row id, each read once."""
    facts = context.told(facts_rows.facts_with_ids(context.tx, list(dict.fromkeys(rows))).values())
    return {fact.row: view for fact, view in zip(facts, fact_views(context, facts), strict=True)}


def _state(shown: Shown, told: _StateFacts, views: Mapping[int, FactView]) -> TimelineEntry:
    segment = shown.segment
    fact = told.facts[segment.facts[0]]
    return TimelineEntry(
        kind="state",
        text=told.quotes.text(fact.row, fact.text),
        start=None if segment.start_ms is None else from_ms(segment.start_ms),
        end=None if segment.end_ms is None else from_ms(segment.end_ms),
        attribute=shown.attribute,
        value=segment.value,
        sources=turn_sources([pair for row in segment.facts for pair in told.sources[row]]),
        statement=fact.text,
        spoken=told.quotes.of(fact.row) or (),
        fact_ids=tuple(told.facts[row].fact_id for row in segment.facts),
        ended_by=None if shown.ended_by is None else _ending(views[shown.ended_by], shown.next_value),
    )


def _ending(view: FactView, next_value: str | None) -> Ending:
    return Ending(view.fact_id, view.text, next_value, view.sources, view.spoken)
