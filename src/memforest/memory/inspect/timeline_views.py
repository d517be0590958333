"""Views of what is known of somebody or something over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from memforest.facts.timeline import Segment
from memforest.interval import from_ms
from memforest.memory.cursors import Key, Listing
from memforest.memory.inspect.fact_views import entity_row, fact_views, naming
from memforest.memory.inspect.paged import TimelinePage
from memforest.memory.inspect.stored import Ending, FactView, TimelineEntry, turn_sources
from memforest.memory.inspect.timeline_lines import Shown, attributes_of, states_shown
from memforest.memory.inspect.views import ViewContext
from memforest.memory.quoting import Quotes
from memforest.store import evidence as texts
from memforest.store import facts as fact_rows
from memforest.store import paging
from memforest.store.facts import FactRow
from memforest.systems.states import states_of_entity

FIRST_MS = -(2**63)


class _Place(NamedTuple):
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


def _places(context: ViewContext, entity: int, attribute: str | None, kind: str | None) -> list[_Place]:
    """Return all entries in time order.

    States of one instant stand in the order of their timeline, which knows what was said first, events in that in which they
    were told.
    """
    found: list[_Place] = []
    if kind != "event":
        for one in states_shown(context.snapshot, entity, attribute):
            began, name = _begins(one.segment), _name(one.segment)
            found.append(_Place(began, "state", one.attribute, "", name, one.segment.facts[0], one))
    if attribute is None and kind != "state":
        known = {seen.fact for seen in states_of_entity(context.snapshot, entity)}
        rows = [fact for fact in naming(context, entity) if fact not in known]
        keys = {} if context.moment is None else context.snapshot.restated
        for key, fact_id in paging.fact_keys(context.tx, rows):
            told = keys.get(key.row)
            at_ms, tie = key[:2] if told is None else told.leaf_key
            found.append(_Place(at_ms, "event", "", tie, fact_id, key.row))
    return sorted(found, key=lambda place: place.key)


def _begins(segment: Segment) -> int:
    return next((at for at in (segment.start_ms, segment.end_ms) if at is not None), FIRST_MS)


def _name(segment: Segment) -> str:
    told = f"{segment.value}\0{segment.start_ms is None}"
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _cursor(places: Sequence[_Place], last: _Place) -> Key:
    """Return the key of an entry with the names of all up to it that stand at the same place."""
    beside = [place for place in places if place.key == last.key]
    return (*last.key, ",".join(place.name for place in beside[: beside.index(last) + 1]))


def _behind(places: Sequence[_Place], after: Key) -> list[_Place]:
    key, seen, found = after[:4], str(after[4]).split(","), []
    for place in places:
        if place.key == key and place.name in seen:
            seen.remove(place.name)
        elif place.key >= key:
            found.append(place)
    return found


def _entries(context: ViewContext, places: Sequence[_Place]) -> list[TimelineEntry]:
    events = [place.fact for place in places if place.state is None]
    states = [place.state for place in places if place.state is not None]
    views = _views(context, [*events, *(one.ended_by for one in states if one.ended_by is not None)])
    told = _Told.read(context, {fact for one in states for fact in one.segment.facts})
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
class _Told:
    """The facts that the states of a page stand on, each read once: of a value that comes again they are the same."""

    facts: Mapping[int, FactRow]
    quotes: Quotes
    sources: Mapping[int, Sequence[tuple[str, str]]]

    @classmethod
    def read(cls, context: ViewContext, rows: Collection[int]) -> _Told:
        facts = context.told(fact_rows.facts_with_ids(context.tx, rows).values())
        return cls(
            {one.row: one for one in facts},
            Quotes.read(context.tx, rows, context.snapshot),
            texts.fact_sources(context.tx, rows, context.snapshot.without),
        )


def _views(context: ViewContext, rows: Sequence[int]) -> dict[int, FactView]:
    """Return the views of facts by row id, each read once."""
    facts = context.told(fact_rows.facts_with_ids(context.tx, list(dict.fromkeys(rows))).values())
    return {fact.row: view for fact, view in zip(facts, fact_views(context, facts), strict=True)}


def _state(shown: Shown, told: _Told, views: Mapping[int, FactView]) -> TimelineEntry:
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
