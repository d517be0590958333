"""The views of what has changed: what was written since a time, and what was so at one time and not at another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal

from memforest.errors import InputError
from memforest.facts.timeline import Segment
from memforest.interval import LATEST, from_ms, to_ms
from memforest.memory.inspect.changed import Change, ChangeKind, ChangePage, Diff, DiffEntry
from memforest.memory.inspect.fact_views import entity_row
from memforest.memory.inspect.stored import Source, turn_sources
from memforest.memory.inspect.views import ViewContext
from memforest.memory.quoting import Quotes
from memforest.store import evidence as texts
from memforest.store import facts as fact_rows
from memforest.store import held, written
from memforest.store.written import Place, Written
from memforest.systems.moments import moment_notes
from memforest.systems.states import Difference, differences, superseded_facts
from memforest.text import cut


def changes_since(
    context: ViewContext, since: datetime, until: datetime | None, limit: int, after: str | None
) -> ChangePage:
    """Return one page of what was written in [since, until), by stored time.

    Raises:
        InputError: if `after` is no `ChangePage.next`.
    """
    place = None if after is None else _place(after)
    end_ms = to_ms(LATEST) if until is None else to_ms(until)
    found = written.written_since(context.tx, to_ms(since), end_ms, place, limit + 1)
    page = found[:limit]
    following = ".".join(map(str, page[-1].place)) if len(found) > limit else None
    return ChangePage(tuple(_changes(context, page)), following)


def _place(text: str) -> Place:
    try:
        at_ms, kind, row = map(int, text.split("."))
    except ValueError:
        raise InputError(f"after={cut(repr(text), 60)}: give `next` of the page before") from None
    return Place(at_ms, kind, row)


def _changes(context: ViewContext, page: Sequence[Written]) -> Iterator[Change]:
    of = {kind: [one.item for one in page if one.kind == kind] for kind in written.KINDS}
    sessions = written.session_ids(context.tx, of["stored"])
    merged = written.occurrence_sources(context.tx, of["merged"])
    facts = {*of["learnt"], *(one.fact for one in merged.values())}
    told = _Told(context, facts)
    corrections = written.corrections(context.tx, {*of["corrected"], *of["undone"]})
    for one in page:
        at = from_ms(one.place.at_ms)
        if one.kind == "stored":
            yield Change("stored", at, one.items, session_id=sessions[one.item])
        elif one.kind == "learnt":
            yield told.change("learnt", at, one.item, told.first(one.item))
        elif one.kind == "merged":
            yield told.change("merged", at, merged[one.item].fact, one.item, merged[one.item].turns)
        elif one.kind == "deleted":
            yield Change("deleted", at, one.items, what=one.what)
        else:
            kind: ChangeKind = "corrected" if one.kind == "corrected" else "undone"
            found = corrections[one.item]
            yield Change(kind, at, fact_id=found.fact_id, text=found.text, what=one.what)


class _Told:
    """Facts as people read them, and what each occurrence of them has superseded."""

    def __init__(self, context: ViewContext, facts: set[int]) -> None:
        self._tx = context.tx
        self._facts = fact_rows.facts_with_ids(context.tx, facts)
        self._quotes = Quotes.read(context.tx, facts)
        self._sources = texts.fact_sources(context.tx, facts)

    def first(self, fact: int) -> int:
        """Return the occurrence with which a fact was stored; 0 if it is gone."""
        return written.first_occurrence(self._tx, fact)

    def change(
        self,
        kind: ChangeKind,
        at: datetime,
        fact: int,
        occurrence: int,
        turns: Sequence[tuple[str, str]] | None = None,
    ) -> Change:
        """Return what one occurrence of a fact has changed."""
        stored = self._facts[fact]
        ended = superseded_facts(self._tx, sorted(held.states_of(self._tx, [occurrence])))
        before = fact_rows.facts_with_ids(self._tx, {row for row, _ in ended})
        quotes = Quotes.read(self._tx, before)
        return Change(
            kind,
            at,
            fact_id=stored.fact_id,
            text=self._quotes.text(fact, stored.text),
            superseded=tuple(quotes.text(row, before[row].text) for row in sorted(before)),
            sources=turn_sources(self._sources[fact] if turns is None else turns),
        )


# -- what is so at one time and not at another -----------------------------------------------------


def diff_between(context: ViewContext, a: datetime, b: datetime, entity: str | None) -> Diff:
    """Return what was so at one of two times and not at the other, in the states of the memory or of one entity.

    Raises:
        NotFoundError: if nothing is known of the entity.
    """
    of = None if entity is None else entity_row(context, entity)
    found = differences(context.snapshot, min(to_ms(a), to_ms(b)), max(to_ms(a), to_ms(b)), of)
    facts = {fact for one in found for side in (one.before, one.after) if side for fact in side.facts}
    sources = texts.fact_sources(context.tx, facts, context.snapshot.without)
    entries = [_entry(context, one, sources, turned=a > b) for one in found]
    entries.sort(
        key=lambda one: (one.entity.lower(), one.entity, one.attribute, one.after or "", one.before or "")
    )
    return Diff(a, b, tuple(entries), tuple(moment_notes(context.tx, context.moment)))


def _entry(
    context: ViewContext, one: Difference, sources: Mapping[int, Sequence[tuple[str, str]]], *, turned: bool
) -> DiffEntry:
    before, after = (one.after, one.before) if turned else (one.before, one.after)

    def said(side: Segment | None) -> tuple[Source, ...]:
        return turn_sources([pair for fact in side.facts for pair in sources[fact]]) if side else ()

    at_ms = one.after.start_ms if one.after else one.before.end_ms if one.before else None
    change: Literal["begun", "ended", "changed"] = (
        "begun" if before is None else "ended" if after is None else "changed"
    )
    return DiffEntry(
        entity=context.snapshot.entities[one.key[0]].label,
        attribute=one.key[1],
        change=change,
        before=None if before is None else before.value,
        after=None if after is None else after.value,
        at=None if at_ms is None else from_ms(at_ms),
        sources=said(after) or said(before),
        sources_before=said(before),
    )
