"""Pages of facts in time order.

A plain page, and one of what an entity or a session is about, is found by index and costs what is on it. One of another time,
or by metadata, is chosen from the memory's arrays and reads the facts that are on it; by metadata also the turns of those
that it is chosen from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import InputError, NotFoundError
from memforest.interval import to_ms
from memforest.memory.cursors import Listing
from memforest.memory.inspect.fact_views import entity_row, fact_views, naming
from memforest.memory.inspect.stored import FactPage
from memforest.memory.inspect.views import ViewContext
from memforest.search.snapshot import OPEN
from memforest.store import facts as fact_rows
from memforest.store import paging, sessions
from memforest.store import snapshot as snapshot_rows
from memforest.store.corrections import HIDDEN, VERDICTS, hidden_facts
from memforest.store.facts import FactRow
from memforest.store.paging import FactKey
from memforest.systems.filters import allowed_facts
from memforest.systems.moments import moment_notes
from memforest.text import cut


@dataclass(frozen=True, slots=True)
class WantedFacts:
    """Which facts are listed: those that are shown, or those with a verdict."""

    filters: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that all supporting turns of a statement have; the moment leaves out all others."""
    entity: str | None = None
    """Name of an entity that the fact must mention."""
    session_id: str | None = None
    """A session that must support the fact."""
    as_of: datetime | None = None
    """Keep what was so at that time."""
    during: tuple[datetime, datetime] | None = None
    """Keep what overlaps [start, end)."""
    verdict: str | None = None
    """Keep what a person has decided so of; see `FactView`."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Which part of a listing: behind a key, or so many on from the start; one more is asked for than a page has."""

    after: FactKey | None
    offset: int
    most: int


def facts_page(
    context: ViewContext,
    wanted: WantedFacts,
    listing: Listing,
    *,
    cursor: str | None,
    offset: int,
    limit: int,
) -> FactPage:
    """Return one page of facts in time order.

    Args:
        context: the transaction.
        wanted: which facts.
        listing: what the cursor has to be of.
        cursor: of the page before; None for the first.
        offset: how many matching facts to pass over.
        limit: most facts on the page.

    Raises:
        InputError: if there is no such verdict, or the cursor is none of this listing.
        NotFoundError: if there is no such entity or session.
    """
    if wanted.verdict not in (None, *VERDICTS[1:]):
        known = ", ".join(VERDICTS[1:])
        raise InputError(f"there is no verdict {cut(repr(wanted.verdict), 40)}; there are {known}")
    key = listing.key(cursor, int, str, int)
    span = _Span(None if key is None else FactKey(*key), offset, limit + 1)  # type: ignore[arg-type]  # checked
    entity = None if wanted.entity is None else entity_row(context, wanted.entity)
    session = None
    if wanted.session_id is not None:
        stored = sessions.find_session(context.tx, wanted.session_id)
        if stored is None:
            raise NotFoundError(
                f"there is no session {cut(repr(wanted.session_id), 60)}; list the sessions for their ids"
            )
        session = stored.row
    timed = wanted.as_of is not None or wanted.during is not None or context.moment is not None
    if wanted.verdict is not None:
        found, total = _decided(context, wanted, span, entity, session)
    elif timed or wanted.filters:
        found, total = _chosen(context, wanted, span, entity, session)
    else:
        found, total = _found(context, span, entity, session)
    page, more = found[:limit], len(found) > limit
    return FactPage(
        tuple(fact_views(context, page)),
        total,
        offset + limit if more and key is None else None,
        tuple(moment_notes(context.tx, context.moment)),
        listing.cursor(_key(page[-1])) if more else None,
    )


def _key(fact: FactRow) -> FactKey:
    return FactKey(*fact.leaf_key, fact.row)


def _cut_out(facts: Collection[FactRow], span: _Span) -> list[FactRow]:
    """Return the part of some facts in time order."""
    behind = [fact for fact in facts if span.after is None or _key(fact) > span.after]
    return sorted(behind, key=_key)[span.offset : span.offset + span.most]


def _found(
    context: ViewContext, span: _Span, entity: int | None, session: int | None
) -> tuple[list[FactRow], int]:
    """Return facts that are shown now, by index, and how many there are in all."""
    keys = paging.shown_facts_after(
        context.tx, span.after, span.most, offset=span.offset, entity=entity, session=session
    )
    facts = fact_rows.facts_with_ids(context.tx, [key.row for key in keys])
    return [facts[key.row] for key in keys], paging.count_facts(context.tx, entity=entity, session=session)


def _chosen(
    context: ViewContext, wanted: WantedFacts, span: _Span, entity: int | None, session: int | None
) -> tuple[list[FactRow], int]:
    """Return facts of another time, or with metadata, from the arrays of the memory at the moment."""
    facts, at, window = context.snapshot.facts, *_times(wanted)
    kept = allowed_facts(context.snapshot, at, window)
    if entity is not None:
        kept &= np.isin(facts.ids, np.array(naming(context, entity), dtype=np.int64))
    if session is not None or wanted.filters:
        ids: list[int] = facts.ids[kept].tolist()
        kept &= np.isin(
            facts.ids, np.array(sorted(_supported(context, ids, session, wanted)), dtype=np.int64)
        )
    places = np.flatnonzero(kept)
    places = places[np.argsort(facts.start_ms[places], kind="stable")]
    some = facts.ids[places[_around(facts.start_ms[places], span)]].tolist()
    rows = context.told(fact_rows.facts_with_ids(context.tx, some).values())
    return _cut_out(rows, span), len(places)


def _around(times: NDArray[np.int64], span: _Span) -> slice:
    """Return where in sorted times the items of a span are, with all others of the times at its ends."""
    first = after = 0
    if span.after is not None:
        first, after = (int(np.searchsorted(times, span.after.at_ms, side)) for side in ("left", "right"))
    last = min(after + span.offset + span.most, len(times))
    return slice(first, int(np.searchsorted(times, times[last - 1], "right")) if last else 0)


def _decided(
    context: ViewContext, wanted: WantedFacts, span: _Span, entity: int | None, session: int | None
) -> tuple[list[FactRow], int]:
    """Return the few facts of which a person has decided something."""
    then = None if context.moment is None else context.snapshot.verdicts
    code = VERDICTS.index(wanted.verdict or "")
    if then is not None:
        rows: Collection[int] = [row for row, one in then.items() if one == code]
    elif code >= HIDDEN:
        rows = hidden_facts(context.tx)
    else:
        rows = context.snapshot.facts.ids[context.snapshot.facts.pinned].tolist()
    stored = fact_rows.facts_with_ids(context.tx, rows).values()
    found = context.told(fact for fact in stored if context.verdict(fact) == code)
    if entity is not None:
        named = set(fact_rows.entity_facts(context.tx, entity))
        found = [fact for fact in found if fact.row in named]
    at, window = _times(wanted)
    if at is not None or window is not None:
        kept, shown = allowed_facts(context.snapshot, at, window), context.snapshot.fact_row
        found = [f for f in found if (kept[shown[f.row]] if f.row in shown else _was_so(f, at, window))]
    if session is not None or wanted.filters:
        supported = _supported(context, [fact.row for fact in found], session, wanted)
        found = [fact for fact in found if fact.row in supported]
    return _cut_out(found, span), len(found)


def _times(wanted: WantedFacts) -> tuple[int | None, tuple[int, int] | None]:
    """Return the instant and the window of what is wanted, in ms."""
    window = None if wanted.during is None else (to_ms(wanted.during[0]), to_ms(wanted.during[1]))
    return None if wanted.as_of is None else to_ms(wanted.as_of), window


def _was_so(fact: FactRow, at_ms: int | None, window: tuple[int, int] | None) -> bool:
    """Return whether a fact that is hidden was so at a time, and in a window; None is any."""
    start, end = fact.leaf_key[0], OPEN if fact.end_ms is None else fact.end_ms
    return (at_ms is None or start <= at_ms < end) and (
        window is None or (start < window[1] and window[0] < end)
    )


def _supported(
    context: ViewContext, facts: Sequence[int], session: int | None, wanted: WantedFacts
) -> set[int]:
    """Return which facts have one supporting turn in the session, of the turns that there are at the moment."""
    pairs = snapshot_rows.supports(context.tx, facts, hidden=True)
    held = context.snapshot.turns.ids
    turns = set(np.intersect1d(held, np.array([turn for _, turn in pairs], dtype=np.int64)).tolist())
    if session is not None:
        turns &= sessions.turn_rows(context.tx, session)
    return {fact for fact, turn in pairs if turn in turns}
