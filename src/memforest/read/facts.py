"""Views of facts: one fact, pages of facts in time order, and the history of a fact.

A plain page, and a page of what an entity or a session is about, is found by index and costs what is on it. A page of
another time, or by metadata, is chosen from the memory's arrays and reads the facts that are on it; by metadata also
the turns of those that it is chosen from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.errors import InputError, NotFoundError
from memforest.plain import Listing
from memforest.read.corrections import corrections_about
from memforest.read.quoting import Sayings, read_sayings, saying_at, told_of
from memforest.read.results import Doubt
from memforest.read.stored import FactPage, FactView, HistoryEntry, turn_sources
from memforest.read.views import ViewContext, stored_session
from memforest.reading.states import holds_many
from memforest.search.as_of import moment_notes
from memforest.search.filters import Standing, allowed_facts
from memforest.search.snapshot import OPEN, members_of
from memforest.search.succession import Reader, doubtful, open_weights
from memforest.search.timeline import segments_of
from memforest.store import corrections, meta, reads, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import HIDDEN, VERDICTS, Correction, CorrectionKind, hidden_facts
from memforest.store.facts import FactRow
from memforest.store.reads import states_of_attribute, states_seen
from memforest.store.sessions import FactKey
from memforest.text import cut, entity_key
from memforest.times import from_ms, to_ms


@dataclass(frozen=True, slots=True)
class ToldFacts:
    """Facts by row id, as they were told at the moment, with where they were said and what people read of them."""

    facts: Mapping[int, FactRow]
    said: Mapping[int, Sequence[tuple[str, str]]]
    """Row -> (session id, turn id) of each turn."""
    sayings: Sayings

    @classmethod
    def read(cls, context: ViewContext, rows: Collection[int], shown: Collection[int] = ()) -> ToldFacts:
        """Read facts, with what people read of those that are to be shown."""
        tx, then = context.tx, context.then
        facts = {one.row: one for one in context.told(facts_rows.facts_with_ids(tx, rows).values())}
        said = reads.fact_sources(tx, facts, () if then is None else then.without)
        return cls(facts, said, read_sayings(tx, facts.keys() & set(shown), then))

    def pairs(self, rows: Iterable[int]) -> list[tuple[str, str]]:
        """Return the turns behind some facts, each once."""
        return list(dict.fromkeys(pair for row in rows for pair in self.said.get(row, ())))

    def ids(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the public ids of some facts."""
        return tuple(self.facts[row].fact_id for row in rows if row in self.facts)

    def text(self, row: int) -> str:
        """Return what people read of a fact that is to be shown."""
        return told_of(self.sayings[row], self.facts[row].text)


def one_fact(context: ViewContext, fact_id: str) -> FactView:
    """Return one fact.

    Raises:
        NotFoundError: if there is none with that id.
    """
    fact = facts_rows.fact_by_id(context.tx, fact_id)
    if fact is None:
        raise NotFoundError(f"there is no fact {cut(repr(fact_id), 60)}; ids come from lists and searches")
    return fact_views(context, [fact])[0]


def fact_views(context: ViewContext, facts: Sequence[FactRow]) -> list[FactView]:
    """Return the views of facts."""
    rows, snapshot = [fact.row for fact in facts], context.then
    without = () if snapshot is None else snapshot.without
    occurrences = facts_rows.occurrences(context.tx, rows, without)
    sources = reads.fact_sources(context.tx, rows, without)
    if snapshot is None:
        standing = Standing.read(context.tx, rows)
    else:
        standing = Standing.at_moment(context.tx, snapshot, rows)
    labels = facts_rows.entities(context.tx, {one for several in standing.named.values() for one in several})
    sayings = read_sayings(context.tx, rows, snapshot)
    found = []
    for fact in facts:
        end_ms = standing.ends.get(fact.row, fact.end_ms)
        said = saying_at(sayings[fact.row])
        corrected_ms = None if said is None else said.of.corrected_ms
        found.append(
            FactView(
                fact_id=fact.fact_id,
                text=told_of(sayings[fact.row], fact.text),
                speaker=fact.speaker,
                said=from_ms(fact.said_ms),
                start=from_ms(fact.leaf_key[0]),
                end=None if end_ms is None else from_ms(end_ms),
                precision=fact.precision,
                negated=fact.negated,
                entities=tuple(sorted({labels[entity].label for entity in standing.named[fact.row]})),
                topics=fact.topics,
                sources=turn_sources(sources[fact.row]),
                wordings=tuple(dict.fromkeys(one.text for one in occurrences[fact.row])),
                stored=from_ms(fact.stored_ms),
                superseded_by=standing.after.get(fact.row) if end_ms is not None else None,
                dates=fact.dates,
                statement=fact.text,
                spoken=(None if said is None else said.shown) or (),
                verdict=VERDICTS[context.verdict(fact)],
                corrected=None if corrected_ms is None else from_ms(corrected_ms),
            )
        )
    return found


def doubts(context: ViewContext, model: str, new: Collection[int]) -> tuple[Doubt, ...]:
    """Return the earlier statements that new facts may have ended; none where vectors of the embedder cannot be read so."""
    reader = open_weights(model, Reader)
    found = [] if reader is None else doubtful(context.snapshot, reader, new)
    rows = {row for pair in found for row in pair}
    of = ToldFacts.read(context, rows, rows)
    return tuple(
        Doubt(of.facts[row].fact_id, of.text(row), from_ms(of.facts[row].said_ms), turn_sources(of.said[by]))
        for row, by in found
    )


def naming(context: ViewContext, entity: int) -> list[int]:
    """Return the facts that name an entity at the moment, by row id."""
    mentions = context.snapshot.mentions
    found: list[int] = context.snapshot.facts.ids[mentions[mentions[:, 1] == entity, 0]].tolist()
    return found


def entity_row(context: ViewContext, name: str) -> int:
    """Return the row of the entity with a name or alias; of several that are one, of that which stands for them.

    Raises:
        NotFoundError: if nothing is known of it, or was at the moment.
    """
    found = facts_rows.entity_by_key(context.tx, entity_key(name) or "")
    timed = context.moment is not None and context.moment[:2] != (None, None)
    if found is None or (timed and found.row not in context.snapshot.unjoined.entities):
        known = ", ".join(repr(cut(one, 40)) for one in sorted(meta.most_named(context.tx, 8)))
        raise NotFoundError(
            f"nothing is known of {cut(repr(name), 60)}; known are for example: {known or 'nobody yet'}"
        )
    return context.snapshot.joined.get(found.row, found.row)


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


_Span = tuple[FactKey | None, int, int]
"""Which part of a listing: behind a key, so many on from there, and at most how many (one more than a page has)."""


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
        raise InputError(f"unknown verdict {cut(repr(wanted.verdict), 40)}; known: {known}")
    key = listing.key(cursor, int, str, int)
    span: _Span = (None if key is None else FactKey(*key), offset, limit + 1)  # type: ignore[arg-type]  # checked
    entity = None if wanted.entity is None else entity_row(context, wanted.entity)
    session = None
    if wanted.session_id is not None:
        session = stored_session(context.tx, wanted.session_id).row
    timed = wanted.as_of is not None or wanted.during is not None or context.moment is not None
    if wanted.verdict is not None:
        found, total = _decided(context, wanted, span, entity, session)
    elif timed or wanted.filters:
        found, total = _chosen(context, wanted, span, entity, session)
    else:
        found, total = _found(context, span, entity, session)
    page, following = listing.page(found, limit, _key)
    return FactPage(
        tuple(fact_views(context, page)),
        total,
        offset + limit if following is not None and key is None else None,
        tuple(moment_notes(context.tx, context.moment)),
        following,
    )


def _key(fact: FactRow) -> FactKey:
    return FactKey(*fact.leaf_key, fact.row)


def _cut_out(facts: Collection[FactRow], span: _Span) -> list[FactRow]:
    """Return the part of some facts in time order."""
    after, offset, most = span
    behind = [fact for fact in facts if after is None or _key(fact) > after]
    return sorted(behind, key=_key)[offset : offset + most]


def _found(
    context: ViewContext, span: _Span, entity: int | None, session: int | None
) -> tuple[list[FactRow], int]:
    """Return facts that are shown now, by index, and how many there are in all."""
    after, offset, most = span
    named = () if entity is None else members_of(context.snapshot.joined, entity)
    keys = sessions.shown_facts_after(context.tx, after, most, offset=offset, named=named, session=session)
    facts = facts_rows.facts_with_ids(context.tx, [key.row for key in keys])
    return [facts[key.row] for key in keys], sessions.count_facts(context.tx, named=named, session=session)


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
    rows = context.told(facts_rows.facts_with_ids(context.tx, some).values())
    return _cut_out(rows, span), len(places)


def _around(times: NDArray[np.int64], span: _Span) -> slice:
    """Return where in sorted times the items of a span are, with all others of the times at its ends."""
    key, offset, most = span
    first = after = 0
    if key is not None:
        first, after = (int(np.searchsorted(times, key.at_ms, side)) for side in ("left", "right"))
    last = min(after + offset + most, len(times))
    return slice(first, int(np.searchsorted(times, times[last - 1], "right")) if last else 0)


def _decided(
    context: ViewContext, wanted: WantedFacts, span: _Span, entity: int | None, session: int | None
) -> tuple[list[FactRow], int]:
    """Return the few facts of which a person has decided something."""
    then = None if context.then is None else context.then.verdicts
    code = VERDICTS.index(wanted.verdict or "")
    if then is not None:
        rows: Collection[int] = [row for row, one in then.items() if one == code]
    elif code >= HIDDEN:
        rows = hidden_facts(context.tx)
    else:
        rows = context.snapshot.facts.ids[context.snapshot.facts.pinned].tolist()
    stored = facts_rows.facts_with_ids(context.tx, rows).values()
    found = context.told(fact for fact in stored if context.verdict(fact) == code)
    if entity is not None:
        named = set(facts_rows.entity_facts(context.tx, members_of(context.snapshot.joined, entity)))
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
    pairs = reads.supports(context.tx, facts, hidden=True)
    held = context.snapshot.turns.ids
    turns = set(np.intersect1d(held, np.array([turn for _, turn in pairs], dtype=np.int64)).tolist())
    if session is not None:
        turns &= {*sessions.rows_at(context.tx, session).values()}
    return {fact for fact, turn in pairs if turn in turns}


_DONE: dict[CorrectionKind, Literal["corrected", "pinned", "forgotten", "remembered"]] = {
    "update": "corrected",
    "pin": "pinned",
    "forget": "forgotten",
    "remember": "remembered",
}
_ORDER = ("said", "corrected", "remembered", "pinned", "forgotten", "undone", "superseded")
"""Of what was recorded at one instant."""


def history(context: ViewContext, fact_id: str) -> list[HistoryEntry]:
    """Return what happened to a statement and to those that corrections put in its place, in the order it was recorded.

    Args:
        context: the transaction.
        fact_id: of the statement as it was said, or of one that corrects it.

    Raises:
        NotFoundError: if there is none with that id, and no correction of one.
    """
    made, ids = _related(context.tx, fact_id)
    facts = [fact for one in sorted(ids) if (fact := facts_rows.fact_by_id(context.tx, one)) is not None]
    if not facts and not made:
        raise NotFoundError(f"there is no fact {cut(repr(fact_id), 60)}; ids come from lists and searches")
    instead = {(one.fact_id, one.made_ms) for one in made if one.kind == "remember"}
    told = [one for one in made if not (one.hides and (one.fact_id, one.made_ms) in instead)]
    entries = [entry for one in told for entry in _decided_of(one)]
    for fact in facts:
        entries += _said(context.tx, fact.row, fact.fact_id)
        entries += _superseded(context, fact.row, fact.fact_id)
    return sorted(entries, key=lambda one: (one.at, _ORDER.index(one.kind), one.said or one.at, one.fact_id))


def _related(tx: Tx, fact_id: str) -> tuple[list[Correction], set[str]]:
    """Return the corrections that lead to a statement and from it, and all statements on the way."""
    ids, known = {fact_id}, set[str]()
    if (fact := facts_rows.fact_by_id(tx, fact_id)) is not None:
        ids |= {one.fact_id for one in corrections_about(tx, [fact.row])[fact.row]}
    found: list[Correction] = []
    while ids != known:
        known = set(ids)
        found = corrections.corrections_of(tx, ids, undone=True)
        ids |= {one for each in found for one in (each.fact_id, each.made) if one is not None}
    return found, ids


def _decided_of(one: Correction) -> list[HistoryEntry]:
    entry = HistoryEntry(
        kind=_DONE[one.kind],
        at=from_ms(one.made_ms),
        fact_id=one.made or one.fact_id,
        text=one.said if one.text is None else one.text,
        key=one.key,
        replaced=one.said if one.kind == "update" else None,
    )
    if one.undone_ms is None:
        return [entry]
    return [entry, HistoryEntry("undone", from_ms(one.undone_ms), one.fact_id, one.said, key=one.key)]


def _said(tx: Tx, fact: int, fact_id: str) -> list[HistoryEntry]:
    stored = corrections.stored_times(tx, fact)
    return [
        HistoryEntry(
            kind="said",
            at=from_ms(stored[one.row][0]),
            fact_id=fact_id,
            text=one.text,
            said=from_ms(one.said_ms),
            speaker=one.speaker,
            quote=one.quote,
            sources=turn_sources(stored[one.row][1]),
        )
        for one in facts_rows.occurrences(tx, (fact,))[fact]
        if one.correction is None
    ]


def _superseded(context: ViewContext, fact: int, fact_id: str) -> list[HistoryEntry]:
    """Return which statements of other values took the place of what a fact asserts; of what holds many values none does."""
    joined = context.snapshot.joined
    told = {
        (joined.get(state.entity, state.entity), state.attribute) for state in states_seen(context.tx, [fact])
    }
    after = {
        (following.facts[0], segment.end_ms)
        for entity, attribute in told
        if not holds_many(attribute)
        for segments in segments_of(
            attribute, states_of_attribute(context.tx, members_of(joined, entity), attribute)
        )
        for segment, following in pairwise(segments)
        if fact in segment.facts and fact not in following.facts
    }
    found = facts_rows.facts_with_ids(context.tx, {row for row, _ in after})
    return [
        HistoryEntry(
            kind="superseded",
            at=from_ms(found[row].stored_ms),
            fact_id=found[row].fact_id,
            text=found[row].text,
            said=None if end_ms is None else from_ms(end_ms),
            speaker=found[row].speaker,
            replaced=fact_id,
        )
        for row, end_ms in after
    ]
