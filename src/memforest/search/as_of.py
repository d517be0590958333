"""A memory as it was at a moment: what had been said by then (`said_by`), and what it held by then (`known_at`).

Such a memory is a snapshot like any other, with fewer turns and facts: searches, timelines and views read it as they read
the whole one, so no ranking sees what came later. It is made from the whole one by what is *not* in it, which the store
finds by index (`memforest.store.corrections`): a turn that was said or stored later; an occurrence of which a turn is left
out, or that was stored later; a fact without an occurrence; the observations of states that these make. A fact of which some
occurrences are left out keeps its id, and is told by the earliest that is left.

What people had decided by then holds in it: a statement that was hidden at the time is left out, one that was hidden since
is there. So where anything was decided since, it is made from a snapshot that has what is hidden now as well.

A fact is worded and attributed by the first of its occurrences that has its identity, and dated by the first of all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.reading.canonical import fact_identity, speaker_key
from memforest.search.cache import SnapshotCache, Whole
from memforest.search.lexical import carry_words
from memforest.search.snapshot import (
    Delta,
    FactColumns,
    Facts,
    Snapshot,
    TurnColumns,
    as_array,
    by_appearance,
    carry_over,
    dated_turns,
    joined_entities,
    make_turns,
    rows_of,
)
from memforest.search.vectors import VectorTable
from memforest.store import corrections
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import HIDDEN, NOW, PINNED
from memforest.store.facts import EntityRow, FactRow, OccurrenceRow
from memforest.store.reads import (
    NameUse,
    RelationRow,
    muted_turns,
    turns_with_hidden_places,
)
from memforest.text import cut
from memforest.times import from_ms

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_CODE = np.array([1 << 32, 1])
"""Makes one number of a (fact row, entity) pair."""
VerdictsAt = Callable[[Tx, int], Mapping[int, int] | None]
"""Returns what was decided at a moment of facts, by row id; None if it is the same now."""


class Moment(NamedTuple):
    """A moment in UTC ms: what the memory held at `known_ms` of what had been said by `said_ms`; None is no bound.

    `having` is metadata (a JSON object): what was said in turns that do not have all of it is left out as well.
    """

    known_ms: int | None = None
    said_ms: int | None = None
    having: str | None = None


@dataclass(frozen=True, slots=True)
class MomentCache:
    """Gives readers the snapshot of a moment instead of the current one."""

    cache: SnapshotCache
    moment: Moment
    verdicts_at: VerdictsAt

    @property
    def known(self) -> Any:
        """Return which share of texts the memory's embedder has words for, as `SnapshotCache.known`."""
        return self.cache.known

    def get(self, tx: Tx) -> Snapshot:
        """Return the snapshot of the moment, in the transaction's state."""

        def make(base: Snapshot, whole: Whole) -> Snapshot:
            known_ms = self.moment.known_ms
            decided = None if known_ms is None else self.verdicts_at(tx, known_ms)
            return snapshot_at(tx, base if decided is None else whole(), self.moment, decided)

        return self.cache.earlier(tx, self.moment, make)


def snapshot_at(
    tx: Tx, base: Snapshot, moment: Moment, verdicts: Mapping[int, int] | None = None
) -> Snapshot:
    """Return the snapshot of a moment; the base itself when nothing is left out and the same is decided now.

    Args:
        tx: a read transaction of the base's state.
        base: of all that the memory holds; with `verdicts` of what is hidden now, too.
        moment: which one.
        verdicts: what was decided then of all facts of which anything ever was, by row id; None for what is decided now.
    """
    out_turns, out_facts, later, without, partly, out_states = _left_out(tx, base, moment, verdicts or {})
    choices = base.choices if moment.known_ms is None else tuple(corrections.read(tx, moment.known_ms))
    if verdicts is None and choices == base.choices and not (out_turns.any() or out_facts.any() or partly):
        return base
    joined = joined_entities(tx, choices)
    told = base if verdicts is None else _as_decided(tx, base, moment.known_ms or 0, verdicts)
    turns, facts = np.flatnonzero(~out_turns), np.flatnonzero(~out_facts)
    turn_now, fact_now = _now(out_turns), _now(out_facts)
    fact_ids = base.facts.ids[facts]
    pairs = _kept_pairs(base.facts.pairs, fact_now, turn_now)
    lost = np.array(corrections.mentions_lost(tx, partly, without), dtype=np.int64).reshape(-1, 2)
    lost[:, 0] = rows_of(base.facts.ids, lost[:, 0])
    named = base.mentions[~np.isin(base.mentions @ _CODE, lost @ _CODE)]
    mentions = _kept_pairs(named, fact_now)
    columns = _columns(FactColumns, told.facts, facts)
    retold = _tell(base, columns, partly)
    kept_facts = set(fact_ids.tolist())
    states = tuple(s for s in base.states if s.fact in kept_facts and s.row not in out_states)
    speaker, speakers = by_appearance(base.turns.speaker[turns], base.speakers)
    sessions = set(base.turns.session[turns].tolist())
    entities = _entities(base, mentions, speakers)
    made = replace(
        base,
        speakers=speakers,
        entities=entities,
        names={key: entity for key, entity in base.names.items() if entity in entities},
        turns=make_turns(
            replace(_columns(TurnColumns, told.turns, turns), speaker=speaker),
            dated_turns(len(turns), pairs, columns.stated),
            _vectors(base.turns.vectors, turns),
        ),
        facts=Facts(
            **{one.name: getattr(columns, one.name) for one in fields(columns)},
            pairs=pairs,
            vectors=_vectors(base.facts.vectors, facts),
        ),
        states=states,
        mentions=mentions,
        relations=_held(base.relations, kept_facts, without),
        name_uses=_held(base.name_uses, kept_facts, without),
        choices=choices,
        sessions=tuple(span for span in base.sessions if span.id in sessions),
        base=base,
        joined={row: first for row, first in joined.items() if row in entities and first in entities},
        without=without,
        restated=partly,
        known_ms=NOW if moment.known_ms is None else moment.known_ms,
        verdicts=verdicts,
        later=later,
        retold=frozenset()
        if verdicts is None
        else {*muted_turns(tx), *told.turns.ids[told.turns.muted].tolist()},
    )
    stayed = {s.row for s in states}
    touched = frozenset((s.entity, s.attribute) for s in base.states if s.row not in stayed)
    carry_words(base, made)
    carry_over(base, made, Delta(turn_now, turn_now[:0], retold, touched))
    return made


def _as_decided(tx: Tx, base: Snapshot, known_ms: int, verdicts: Mapping[int, int]) -> Snapshot:
    """Return the base with what was pinned and muted at a moment."""
    facts, turns = base.facts, base.turns
    muted = np.isin(turns.ids, as_array(turns_with_hidden_places(tx, known_ms)))
    muted[facts.pairs[_decided(base, verdicts, HIDDEN, NOW)[facts.pairs[:, 0]], 1]] = True
    pinned = _decided(base, verdicts, PINNED, HIDDEN)
    return replace(base, facts=replace(facts, pinned=pinned), turns=replace(turns, muted=muted))


def _decided(base: Snapshot, verdicts: Mapping[int, int], least: int, below: int) -> Flags:
    """Return the facts whose verdict is in [least, below)."""
    return np.isin(base.facts.ids, as_array([row for row, one in verdicts.items() if least <= one < below]))


def _left_out(
    tx: Tx, base: Snapshot, moment: Moment, verdicts: Mapping[int, int]
) -> tuple[Flags, Flags, Set[int], frozenset[int], dict[int, FactRow], Collection[int]]:
    """Return what was not held at a moment, and what is left of the facts that lose something.

    Returns:
        The rows of turns and of facts of the base that are left out; the facts, by row id, that were not held (others were
        hidden); the occurrences that are left out of facts that stay; the facts that lose an occurrence and not all, as the
        earliest of the others tells them, hidden ones too; and the row ids of the observations that are left out.
    """
    turns = np.zeros(len(base.turns.ids), dtype=np.bool_)
    if moment.said_ms is not None:
        turns |= base.turns.said_ms > moment.said_ms
    if moment.known_ms is not None:
        later = rows_of(base.turns.ids, as_array(corrections.later_turns(tx, moment.known_ms)))
        turns[later[later >= 0]] = True
    if moment.having is not None:
        turns |= ~np.isin(base.turns.ids, as_array(corrections.turns_having(tx, moment.having)))
    lost = corrections.later_occurrences(tx, moment.known_ms, base.turns.ids[turns].tolist())
    occurrences, touched = {row for row, _ in lost}, {fact for _, fact in lost}
    beside = set(corrections.facts_beside(tx, touched, occurrences))
    facts = np.zeros(len(base.facts.ids), dtype=np.bool_)
    later_facts = touched - beside
    gone = rows_of(base.facts.ids, as_array(later_facts))
    facts[gone[gone >= 0]] = True
    facts |= _decided(base, verdicts, HIDDEN, NOW)
    return (
        turns,
        facts,
        later_facts,
        frozenset(row for row, fact in lost if fact in beside),
        _partly(tx, beside, occurrences),
        corrections.states_of(tx, occurrences),
    )


def _partly(tx: Tx, facts: Collection[int], without: Collection[int]) -> dict[int, FactRow]:
    """Return facts as the earliest of their other occurrences tells them, by row id."""
    stored = facts_rows.facts_with_ids(tx, facts)
    left = facts_rows.occurrences(tx, stored, without)
    return {
        row: replace(
            stored[row],
            text=first.text,
            dates=first.dates,
            speaker=first.speaker,
            topics=first.topics,
            said_ms=first.said_ms,
            tie=first.tie,
            stored_ms=min(one.stored_ms for one in (first, *more)),
        )
        for row, (first, *more) in sorted(left.items())
    }


def _now(out: Flags) -> Ints:
    """Return the row of each row when some are left out; -1 for those."""
    return np.where(out, -1, np.cumsum(~out) - 1)


def _kept_pairs(pairs: Ints, facts: Ints, others: Ints | None = None) -> Ints:
    """Return (fact, other) pairs in new rows, without those of what is left out."""
    left, right = facts[pairs[:, 0]], pairs[:, 1] if others is None else others[pairs[:, 1]]
    kept = (left >= 0) & (right >= 0)
    return np.stack([left[kept], right[kept]], axis=1)


R = TypeVar("R", RelationRow, NameUse)


def _held(rows: Sequence[R], facts: Set[int], without: Set[int]) -> tuple[R, ...]:
    """Return the rows of some facts, but for those of occurrences that are left out."""
    return tuple(one for one in rows if one.fact in facts and one.occurrence not in without)


def _columns(kind: type, table: Any, rows: Ints) -> Any:
    return kind(*(getattr(table, one.name)[rows] for one in fields(kind)))


def _vectors(table: VectorTable, rows: Ints) -> VectorTable:
    return table.changed(rows, rows[:0], np.zeros((0, table.dimension), dtype=np.float32))


def _tell(base: Snapshot, columns: FactColumns, partly: Mapping[int, FactRow]) -> Ints:
    """Date and attribute facts in columns as they are told at the moment, and return their rows."""
    rows = rows_of(columns.ids, as_array(partly))
    for row, fact in zip(rows.tolist(), partly.values(), strict=True):
        if row >= 0:
            columns.said_ms[row], columns.start_ms[row] = fact.said_ms, fact.leaf_key[0]
            columns.speaker[row] = base.names.get(speaker_key(fact.speaker) or "", 0)
    return np.sort(rows[rows >= 0])


def _entities(base: Snapshot, mentions: Ints, speakers: Sequence[str]) -> dict[int, EntityRow]:
    """Return the entities that a fact names, and those who speak."""
    named, heard = set(mentions[:, 1].tolist()), {speaker_key(name) for name in speakers}
    return {row: one for row, one in base.entities.items() if row in named or one.key in heard}


def moment_notes(tx: Tx, moment: Moment | None) -> list[str]:
    """Return warnings of a moment: metadata that no turn has, and how much of what was held then is not kept.

    That is what was deleted, or an update that was taken back.
    """
    if moment is None:
        return []
    unknown = [] if moment.having is None else corrections.keys_unknown(tx, moment.having)
    notes = [f"no turn or session has metadata {cut(repr(key), 60)}; nothing matches" for key in unknown]
    return [*notes, *_deleted(tx, moment)]


def _deleted(tx: Tx, moment: Moment) -> list[str]:
    if moment.known_ms is None:
        return []
    (turns, facts), told = corrections.deleted_since(tx, moment.known_ms), []
    if taken_back := corrections.updates_taken_back(tx, moment.known_ms):
        told.append(
            f"{taken_back} statement(s) by which others were corrected then have been taken back since, and are not among "
            "what is found; history() has them"
        )
    if not turns and not facts:
        return told
    return [
        *told,
        f"{turns} turn(s) and {facts} statement(s) that this memory held then have been deleted since, and "
        "are not among what is found",
    ]


def restated(tx: Tx, fact: FactRow, found: Sequence[OccurrenceRow]) -> FactRow:
    """Derive a fact from its occurrences, at least one, which are given in time order."""
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    identities = [fact_identity(one.text, times[0], times[1], one.dates) for one in found]
    at = identities.index(fact.fact_id) if fact.fact_id in identities else 0
    same = facts_rows.fact_by_id(tx, identities[at])
    if same is not None and same.row != fact.row:
        # Another fact has that identity: this one keeps its own, as two may not share one.
        return replace(fact, said_ms=found[0].said_ms, tie=found[0].tie)
    return replace(
        fact,
        fact_id=identities[at],
        text=found[at].text,
        dates=found[at].dates,
        speaker=found[at].speaker,
        topics=found[at].topics,
        said_ms=found[0].said_ms,
        tie=found[0].tie,
    )
