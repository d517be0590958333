"""The timeline of an entity: its states with their intervals, each with what ended it, and its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

from memforest.graph.relations import by_value
from memforest.plain import Key, Listing
from memforest.read.facts import ToldFacts, entity_row, fact_views, naming
from memforest.read.stored import Ending, TimelineEntry, TimelinePage, turn_sources
from memforest.read.views import ViewContext
from memforest.reading.states import holds_many
from memforest.search.snapshot import Snapshot
from memforest.search.timeline import (
    Segment,
    states_of_entity,
    timeline,
    timelines_of,
)
from memforest.store import facts as facts_rows
from memforest.store import sessions
from memforest.times import from_ms


class Shown(NamedTuple):
    """A state; `next_value` is the one that took its place, if one did."""

    attribute: str
    segment: Segment
    next_value: str | None = None


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
                found += _line(name, timeline(group))
    for key, segments in timelines_of(snapshot, entity).items():
        if key[1] in told and not holds_many(key[1]):
            found += _line(key[1], segments)
    return found


def _line(attribute: str, segments: Sequence[Segment]) -> Iterable[Shown]:
    """Yield the states of one timeline, each with the next value where that begins when it ends."""
    begun = {one.start_ms: one.value for one in reversed(segments)}
    for one in segments:
        yield Shown(attribute, one, None if one.end_ms is None else begun.get(one.end_ms))


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
    page, following = listing.page(behind, limit, partial(_cursor, places))
    attributes = tuple(sorted({state.attribute for state in states_of_entity(context.snapshot, entity)}))
    return TimelinePage(tuple(_entries(context, page)), len(places), following, attributes)


def _places(context: ViewContext, entity: int, attribute: str | None, kind: str | None) -> list[_TimelineKey]:
    """Return all entries in time order.

    States of one instant stand in the order of their timeline, which knows what was said first, events in that in which they
    were told.
    """
    found: list[_TimelineKey] = []
    if kind != "event":
        for one in states_shown(context.snapshot, entity, attribute):
            segment = one.segment
            begins = (at for at in (segment.start_ms, segment.end_ms) if at is not None)
            told = f"{segment.value}\0{segment.start_ms is None}".encode("utf-8", "surrogatepass")
            name = blake2b(told, digest_size=4).hexdigest()
            at_ms = next(begins, FIRST_MS)
            found.append(_TimelineKey(at_ms, "state", one.attribute, "", name, segment.facts[0], one))
    if attribute is None and kind != "state":
        known = {seen.fact for seen in states_of_entity(context.snapshot, entity)}
        rows = [fact for fact in naming(context, entity) if fact not in known]
        keys = {} if context.moment is None else context.snapshot.restated
        for key, fact_id in sessions.fact_keys(context.tx, rows):
            now = keys.get(key.row)
            at_ms, tie = key[:2] if now is None else now.leaf_key
            found.append(_TimelineKey(at_ms, "event", "", tie, fact_id, key.row))
    return sorted(found, key=lambda place: place.key)


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
    """Return the entries of a page; what they stand on is read once, as a value that comes again has the same facts."""
    states = [place.state for place in places if place.state is not None]
    wanted = {place.fact for place in places} | {
        one.segment.ended_by for one in states if one.segment.ended_by is not None
    }
    viewed = context.told(facts_rows.facts_with_ids(context.tx, wanted).values())
    views = {fact.row: view for fact, view in zip(viewed, fact_views(context, viewed), strict=True)}
    told = ToldFacts.read(context, {fact for one in states for fact in one.segment.facts})
    found = []
    for place in places:
        view, state = views[place.fact], place.state
        entry = TimelineEntry(
            "event",
            view.text,
            view.start,
            view.end,
            sources=view.sources,
            statement=view.statement,
            spoken=view.spoken,
            fact_ids=(view.fact_id,),
        )
        if state is not None:
            segment = state.segment
            end = None if segment.ended_by is None else views[segment.ended_by]
            entry = replace(
                entry,
                kind="state",
                start=None if segment.start_ms is None else from_ms(segment.start_ms),
                end=None if segment.end_ms is None else from_ms(segment.end_ms),
                attribute=state.attribute,
                value=segment.value,
                sources=turn_sources(told.pairs(segment.facts)),
                fact_ids=told.ids(segment.facts),
                ended_by=None
                if end is None
                else Ending(end.fact_id, end.text, state.next_value, end.sources, end.spoken),
            )
        found.append(entry)
    return found
