"""The history of a statement: where it was said, what people have decided of it, and what took its place."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from memforest.errors import NotFoundError
from memforest.interval import from_ms
from memforest.language.telling import holds_many
from memforest.memory.corrected import HistoryEntry
from memforest.memory.ingest.verdicts import corrections_about
from memforest.memory.inspect.stored import turn_sources
from memforest.memory.inspect.views import ViewContext
from memforest.store import corrections as rows
from memforest.store import facts as fact_rows
from memforest.store.corrections import Correction, CorrectionKind
from memforest.store.snapshot import states_of_attribute, states_seen
from memforest.store.tx import Tx
from memforest.systems.states import segments_of
from memforest.text import cut

_DONE: dict[CorrectionKind, Literal["corrected", "pinned", "forgotten"]] = {
    "update": "corrected",
    "pin": "pinned",
    "forget": "forgotten",
}
_ORDER = ("said", "corrected", "pinned", "forgotten", "undone", "superseded")
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
    facts = [fact for one in sorted(ids) if (fact := fact_rows.fact_by_id(context.tx, one)) is not None]
    if not facts and not made:
        raise NotFoundError(f"there is no fact {cut(repr(fact_id), 60)}; ids come from lists and searches")
    entries = [entry for one in made for entry in _decided(one)]
    for fact in facts:
        entries += _said(context.tx, fact.row, fact.fact_id)
        entries += _superseded(context, fact.row, fact.fact_id)
    return sorted(entries, key=lambda one: (one.at, _ORDER.index(one.kind), one.said or one.at, one.fact_id))


def _related(tx: Tx, fact_id: str) -> tuple[list[Correction], set[str]]:
    """Return the corrections that lead to a statement and from it, and all statements on the way."""
    ids, known = {fact_id}, set[str]()
    if (fact := fact_rows.fact_by_id(tx, fact_id)) is not None:
        ids |= {one.fact_id for one in corrections_about(tx, [fact.row])[fact.row]}
    found: list[Correction] = []
    while ids != known:
        known = set(ids)
        found = rows.corrections_of(tx, ids, undone=True)
        ids |= {one for each in found for one in (each.fact_id, each.made) if one is not None}
    return found, ids


def _decided(one: Correction) -> list[HistoryEntry]:
    entry = HistoryEntry(
        kind=_DONE[one.kind],
        at=from_ms(one.made_ms),
        fact_id=one.made or one.fact_id,
        text=one.said if one.text is None else one.text,
        key=one.key,
        replaced=None if one.made is None else one.said,
    )
    if one.undone_ms is None:
        return [entry]
    return [entry, HistoryEntry("undone", from_ms(one.undone_ms), one.fact_id, one.said, key=one.key)]


def _said(tx: Tx, fact: int, fact_id: str) -> list[HistoryEntry]:
    stored = rows.stored_times(tx, fact)
    return [
        HistoryEntry(
            kind="said",
            at=from_ms(stored[one.row].stored_ms),
            fact_id=fact_id,
            text=one.text,
            said=from_ms(one.said_ms),
            speaker=one.speaker,
            quote=one.quote,
            sources=turn_sources(stored[one.row].turns),
        )
        for one in fact_rows.occurrences(tx, (fact,))[fact]
        if one.correction is None
    ]


def _superseded(context: ViewContext, fact: int, fact_id: str) -> list[HistoryEntry]:
    """Return which statements of other values took the place of what a fact asserts; of what holds many values none does."""
    told = {(state.entity, state.attribute) for state in states_seen(context.tx, [fact])}
    after = {
        (following.facts[0], segment.end_ms)
        for entity, attribute in told
        if not holds_many(attribute)
        for segments in segments_of(attribute, states_of_attribute(context.tx, entity, attribute))
        for segment, following in pairwise(segments)
        if fact in segment.facts and fact not in following.facts
    }
    found = fact_rows.facts_with_ids(context.tx, {row for row, _ in after})
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
