"""Views of facts: one, a page of them, and what is known of somebody or something over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from memforest.errors import InputError, NotFoundError
from memforest.interval import from_ms, to_ms
from memforest.limits import MAX_PAGE
from memforest.memory.inspect.stored import (
    FactPage,
    FactView,
    TimelineEntry,
    turn_sources,
)
from memforest.memory.inspect.views import ViewContext
from memforest.memory.quoting import Quotes
from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot
from memforest.store import counts, sessions
from memforest.store import evidence as texts
from memforest.store import facts as fact_rows
from memforest.store import snapshot as snapshot_rows
from memforest.store.corrections import HIDDEN, VERDICTS
from memforest.store.facts import FactRow
from memforest.store.held import mentions_without
from memforest.systems.filters import allowed_facts, valid_end
from memforest.systems.moments import deleted_warning
from memforest.systems.states import states_of_entity, timelines, timelines_of
from memforest.text import cut, entity_key

__all__ = ["entity_row", "facts_page", "one_fact", "timeline_of"]


def one_fact(context: ViewContext, fact_id: str) -> FactView:
    """Return one fact.

    Raises:
        NotFoundError: if there is none with that id.
    """
    fact = fact_rows.fact_by_id(context.tx, fact_id)
    if fact is None:
        raise NotFoundError(f"there is no fact {cut(repr(fact_id), 60)}; ids come from list() and query()")
    return _views(context, [fact])[0]


def facts_page(
    context: ViewContext,
    *,
    offset: int,
    limit: int,
    filters: Mapping[str, Any],
    entity: str | None,
    session_id: str | None,
    as_of: datetime | None,
    verdict: str | None = None,
    during: tuple[datetime, datetime] | None = None,
) -> FactPage:
    """Return one page of facts in time order: of those that are shown, or of those with a verdict.

    Args:
        context: the transaction.
        offset: how many matching facts to pass over.
        limit: most facts on the page, 1 to 1000.
        filters: metadata keys and values that a supporting turn must have, all of them.
        entity: name of an entity that the fact must mention.
        session_id: a session that must support the fact.
        as_of: keep what was so at that time.
        verdict: keep what a person has decided so of; see `FactView`.
        during: keep what overlaps [start, end).

    Raises:
        InputError: if `offset` or `limit` is out of range, or there is no such verdict.
        NotFoundError: if there is no such entity or session.
    """
    if verdict not in (None, *VERDICTS[1:]):
        raise InputError(f"there is no verdict {cut(repr(verdict), 40)}; there are {', '.join(VERDICTS[1:])}")
    if offset < 0 or not 1 <= limit <= MAX_PAGE:
        raise InputError(
            f"offset={offset}, limit={limit}: give an offset of 0 or more and a limit of 1 to {MAX_PAGE}"
        )
    decided = ((fact, context.verdict(fact)) for fact in fact_rows.iter_facts(context.tx))
    if verdict is None:
        facts = (fact for fact, code in decided if code < HIDDEN)
    else:
        facts = (fact for fact, code in decided if VERDICTS[code] == verdict)
    found = sorted(context.told(facts), key=lambda f: f.leaf_key)
    if entity is not None:
        row = entity_row(context, entity)
        named = set(_naming(context, row) if verdict is None else fact_rows.entity_facts(context.tx, row))
        found = [fact for fact in found if fact.row in named]
    if session_id is not None and sessions.find_session(context.tx, session_id) is None:
        raise NotFoundError(f"there is no session {cut(repr(session_id), 60)}; see sessions()")
    if as_of is not None or during is not None:
        at, window = None if as_of is None else to_ms(as_of), None
        if during is not None:
            window = (to_ms(during[0]), to_ms(during[1]))
        kept, shown = allowed_facts(context.snapshot, at, window), context.snapshot.fact_row
        found = [f for f in found if (kept[shown[f.row]] if f.row in shown else _was_so(f, at, window))]
    if session_id is not None or filters:
        found = _supported(context, found, session_id, filters)
    page = found[offset : offset + limit]
    following = offset + limit if offset + limit < len(found) else None
    warnings = deleted_warning(context.tx, context.moment)
    return FactPage(tuple(_views(context, page)), len(found), following, tuple(warnings))


def _was_so(fact: FactRow, at_ms: int | None, window: tuple[int, int] | None) -> bool:
    """Return whether a fact that is hidden was so at a time, and in a window; None is any."""
    start, end = fact.leaf_key[0], OPEN if fact.end_ms is None else fact.end_ms
    return (at_ms is None or start <= at_ms < end) and (
        window is None or (start < window[1] and window[0] < end)
    )


def _supported(
    context: ViewContext, facts: Sequence[FactRow], session_id: str | None, filters: Mapping[str, Any]
) -> list[FactRow]:
    """Keep the facts that have one supporting turn in the session and with all the metadata."""
    matching = {
        row
        for row, turn in texts.turn_texts(context.tx, context.snapshot.turns.ids.tolist()).items()
        if (session_id is None or turn.session_id == session_id)
        and all(key in turn.metadata and turn.metadata[key] == value for key, value in filters.items())
    }
    pairs = snapshot_rows.supports(context.tx, [fact.row for fact in facts], hidden=True)
    kept = {fact for fact, turn in pairs if turn in matching}
    return [fact for fact in facts if fact.row in kept]


def _views(context: ViewContext, facts: Sequence[FactRow]) -> list[FactView]:
    rows, without = [fact.row for fact in facts], context.snapshot.without
    occurrences = fact_rows.occurrences(context.tx, rows, without)
    sources = texts.fact_sources(context.tx, rows, without)
    labels = {entity.row: entity.label for entity in fact_rows.entities(context.tx)}
    until = valid_end(context.snapshot)
    after = _successors(context.snapshot)
    quotes = Quotes.read(context.tx, rows, context.snapshot)
    named = _named(context, rows)
    found = []
    for fact in facts:
        place = context.snapshot.fact_row.get(fact.row)  # none of what is hidden
        own_end = OPEN if fact.end_ms is None else fact.end_ms
        end = own_end if place is None else int(until[place])
        corrected_ms = quotes.corrected_ms(fact.row)
        found.append(
            FactView(
                fact_id=fact.fact_id,
                text=quotes.text(fact.row, fact.text),
                speaker=fact.speaker,
                said=from_ms(fact.said_ms),
                start=from_ms(fact.leaf_key[0]),
                end=None if end == OPEN else from_ms(end),
                precision=fact.precision,
                negated=fact.negated,
                entities=tuple(sorted({labels[entity] for entity in named[fact.row]})),
                topics=fact.topics,
                sources=turn_sources(sources[fact.row]),
                wordings=tuple(dict.fromkeys(one.text for one in occurrences[fact.row])),
                stored=from_ms(fact.stored_ms),
                superseded_by=after.get(fact.row) if end != OPEN else None,
                dates=fact.dates,
                statement=fact.text,
                spoken=quotes.of(fact.row) or (),
                verdict=VERDICTS[context.verdict(fact)],
                corrected=None if corrected_ms is None else from_ms(corrected_ms),
            )
        )
    return found


def _named(context: ViewContext, facts: Sequence[int]) -> dict[int, list[int]]:
    """Return the entities that facts name."""
    snapshot = context.snapshot
    found: dict[int, list[int]] = {fact: [] for fact in facts}
    hidden = [fact for fact in facts if fact not in snapshot.fact_row]
    for fact, entity in mentions_without(context.tx, hidden, snapshot.without):
        found[fact].append(entity)
    for fact in found.keys() - hidden:
        row = snapshot.fact_row[fact]
        first, end = np.searchsorted(snapshot.mentions[:, 0], (row, row + 1))
        found[fact] = snapshot.mentions[first:end, 1].tolist()
    return found


def _naming(context: ViewContext, entity: int) -> list[int]:
    """Return the facts that name an entity, by row id."""
    mentions = context.snapshot.mentions
    found: list[int] = context.snapshot.facts.ids[mentions[mentions[:, 1] == entity, 0]].tolist()
    return found


@once_per_snapshot
def _successors(snapshot: Snapshot) -> dict[int, str]:
    """Return, per fact of a value that ended, the value that took its place; of several, where it held longest."""
    found: dict[int, tuple[int, str, str, str]] = {}
    for (entity, attribute, _), segments in timelines(snapshot).items():
        key = snapshot.entities[entity].key
        for segment, following in pairwise(segments):
            ended = (segment.end_ms or 0, key, attribute, following.value)
            found.update((fact, max(found.get(fact, ended), ended)) for fact in segment.facts)
    return {fact: ended[-1] for fact, ended in found.items()}


# -- timelines ------------------------------------------------------------------------------------


def entity_row(context: ViewContext, name: str) -> int:
    """Return the row of the entity with a name or alias.

    Raises:
        NotFoundError: if nothing is known of it, or was at the moment.
    """
    found = fact_rows.entity_by_key(context.tx, entity_key(name) or "")
    if found is None or found.row not in context.snapshot.entities:
        known = ", ".join(sorted(counts.most_named(context.tx, 8)))
        raise NotFoundError(
            f"nothing is known of {cut(repr(name), 60)}; known are for example: {known or 'nobody yet'}"
        )
    return found.row


def timeline_of(context: ViewContext, name: str, *, attribute: str | None) -> list[TimelineEntry]:
    """Return what is known of an entity in time order: its states with their intervals, and its events.

    Args:
        context: the transaction.
        name: the entity's name, or one of its aliases.
        attribute: only this attribute's states.

    Raises:
        NotFoundError: if nothing is known of the entity.
    """
    entity = entity_row(context, name)
    entries = [
        _state(context, key[1], segment)
        for key, segments in timelines_of(context.snapshot, entity).items()
        if attribute in (None, key[1])
        for segment in segments
    ]
    if attribute is None:
        known = {seen.fact for seen in states_of_entity(context.snapshot, entity)}
        rows = [fact for fact in _naming(context, entity) if fact not in known]
        entries += [
            TimelineEntry(
                "event",
                view.text,
                view.start,
                view.end,
                sources=view.sources,
                statement=view.statement,
                spoken=view.spoken,
            )
            for view in _views(context, context.told(fact_rows.facts_with_ids(context.tx, rows).values()))
        ]
    least = datetime.min.replace(tzinfo=context.config.clock().tzinfo)
    # States of one instant stand in the order of their timeline, which knows what was said first.
    return sorted(
        entries,
        key=lambda e: (
            e.start or e.end or least,
            e.kind,
            e.attribute or "",
            e.statement if e.kind == "event" else "",
        ),
    )


def _state(context: ViewContext, attribute: str, segment: Any) -> TimelineEntry:
    row, without = segment.facts[0], context.snapshot.without
    [fact] = context.told(fact_rows.facts_with_ids(context.tx, [row]).values())
    quotes = Quotes.read(context.tx, [row], context.snapshot)
    sources = texts.fact_sources(context.tx, segment.facts, without)
    pairs = [pair for row in segment.facts for pair in sources[row]]
    return TimelineEntry(
        kind="state",
        text=quotes.text(row, fact.text),
        start=None if segment.start_ms is None else from_ms(segment.start_ms),
        end=None if segment.end_ms is None else from_ms(segment.end_ms),
        attribute=attribute,
        value=segment.value,
        sources=turn_sources(pairs),
        statement=fact.text,
        spoken=quotes.of(row) or (),
    )


# -- counts ---------------------------------------------------------------------------------------
