"""What has changed in a memory: `changes`, written since a time, and `diff`, so at one time and not at another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memforest.errors import InputError
from memforest.plain import Result, Several
from memforest.read.facts import ToldFacts, entity_row
from memforest.read.stored import Source, turn_sources
from memforest.read.views import ViewContext
from memforest.reading.states import labelled
from memforest.search.as_of import moment_notes
from memforest.search.timeline import Difference, Segment, differences, superseded_facts
from memforest.store import corrections as corrections_rows
from memforest.store import reads
from memforest.store.reads import WritePosition, Written
from memforest.text import cut
from memforest.times import LATEST, from_ms, to_ms

ChangeKind = Literal["stored", "learnt", "merged", "corrected", "undone", "deleted"]


@dataclass(frozen=True, slots=True, repr=False)
class Change(Result):
    """One write to a memory.

    `kind`: turns of a session were ``"stored"``, a statement was ``"learnt"``, or heard again and ``"merged"`` with what was
    known, ``"corrected"`` (`what`: update, pin or forget), such a correction ``"undone"``, or items (`what`: session, turn or
    fact) were ``"deleted"``. `count` is how many turns were stored, or items deleted. `text` is what people read of the
    statement as it is told now, and `superseded` are the texts of those whose value this one took the place of. What was
    learnt and deleted since is counted by the deletion alone.
    """

    kind: ChangeKind
    at: datetime
    count: int = 1
    session_id: str | None = None
    fact_id: str | None = None
    text: str = ""
    superseded: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    what: str = ""

    def _line(self) -> str:
        about = self.text or self.session_id or self.what
        return f"{self.kind} {self.at:%Y-%m-%d %H:%M}: {cut(repr(about), 80)}"


@dataclass(frozen=True, slots=True, repr=False)
class ChangePage(Several[Change]):
    """One page of `changes`, oldest first; `next` is given to ``after=`` for the next one, None behind the last.

    Iterating gives the changes of the page, and a page without any is false.
    """

    _of = "changes"
    changes: tuple[Change, ...]
    next: str | None = None

    def _line(self) -> str:
        return f"{len(self)} changes, next={self.next!r}"


@dataclass(frozen=True, slots=True, repr=False)
class DiffEntry(Result):
    """One value that was so at one of two times and not at the other.

    ``"begun"``: only `after` was so, ``"ended"``: only `before`, ``"changed"``: one took the other's place. `at` is when `after`
    began, or `before` ended; None where nobody said. `sources` support `after`, or where there is none `before`, with which
    `sources_before` has its own.
    """

    entity: str
    attribute: str
    change: Literal["begun", "ended", "changed"]
    before: str | None
    after: str | None
    at: datetime | None
    sources: tuple[Source, ...] = ()
    sources_before: tuple[Source, ...] = ()

    def _line(self) -> str:
        return f"{self.entity}, {labelled(self.attribute, f'{self.before!r} -> {self.after!r}')}"


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Several[DiffEntry]):
    """What was so at `a` and not at `b`, and the other way round, by entity and attribute.

    Iterating gives the entries, and a diff without any is false.
    """

    _of = "entries"
    a: datetime
    b: datetime
    entries: tuple[DiffEntry, ...]
    warnings: tuple[str, ...] = ()

    def _line(self) -> str:
        return f"{len(self)} differences between {self.a:%Y-%m-%d} and {self.b:%Y-%m-%d}"


def changes_since(
    context: ViewContext, since: datetime, until: datetime | None, limit: int, after: str | None
) -> ChangePage:
    """Return one page of what was written in [since, until), by stored time.

    Raises:
        InputError: if `after` is no `ChangePage.next`.
    """
    place = None if after is None else _place(after)
    end_ms = to_ms(LATEST) if until is None else to_ms(until)
    found = reads.written_since(context.tx, to_ms(since), end_ms, place, limit + 1)
    page = found[:limit]
    following = ".".join(map(str, page[-1].place)) if len(found) > limit else None
    return ChangePage(tuple(_changes(context, page)), following)


def _place(text: str) -> WritePosition:
    try:
        at_ms, kind, row = map(int, text.split("."))
    except ValueError:
        raise InputError(f"after={cut(repr(text), 60)}: give `next` of the previous page") from None
    return WritePosition(at_ms, kind, row)


def _changes(context: ViewContext, page: Sequence[Written]) -> Iterator[Change]:
    of = {kind: [one.item for one in page if one.kind == kind] for kind in reads.WRITTEN_KINDS}
    sessions = reads.session_ids(context.tx, of["stored"])
    merged = reads.occurrence_sources(context.tx, of["merged"])
    facts = {*of["learnt"], *(fact for fact, _ in merged.values())}
    told = ToldFacts.read(context, facts, facts)

    def change(
        kind: ChangeKind, at: datetime, fact: int, occurrence: int, turns: Sequence[tuple[str, str]]
    ) -> Change:
        """Return what one occurrence of a fact has changed."""
        ended = superseded_facts(context.tx, sorted(corrections_rows.states_of(context.tx, [occurrence])))
        before = sorted({row for row, _ in ended})
        old = ToldFacts.read(context, before, before)
        return Change(
            kind,
            at,
            fact_id=told.facts[fact].fact_id,
            text=told.text(fact),
            superseded=tuple(map(old.text, before)),
            sources=turn_sources(turns),
        )

    corrections = reads.corrections(context.tx, {*of["corrected"], *of["undone"]})
    for one in page:
        at = from_ms(one.place.at_ms)
        if one.kind == "stored":
            yield Change("stored", at, one.items, session_id=sessions[one.item])
        elif one.kind == "learnt":
            first = reads.first_occurrence(context.tx, one.item)  # 0 if it is gone
            yield change("learnt", at, one.item, first, told.said[one.item])
        elif one.kind == "merged":
            fact, turns = merged[one.item]
            yield change("merged", at, fact, one.item, turns)
        elif one.kind == "deleted":
            yield Change("deleted", at, one.items, what=one.what)
        else:
            kind: ChangeKind = "corrected" if one.kind == "corrected" else "undone"
            fact_id, text = corrections[one.item]
            yield Change(kind, at, fact_id=fact_id, text=text, what=one.what)


def diff_between(context: ViewContext, a: datetime, b: datetime, entity: str | None) -> Diff:
    """Return what was so at one of two times and not at the other, in the states of the memory or of one entity.

    Raises:
        NotFoundError: if nothing is known of the entity.
    """
    of = None if entity is None else entity_row(context, entity)
    found = differences(context.snapshot, min(to_ms(a), to_ms(b)), max(to_ms(a), to_ms(b)), of)
    facts = {fact for one in found for side in (one.before, one.after) if side for fact in side.facts}
    sources = reads.fact_sources(context.tx, facts, context.snapshot.without)
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
