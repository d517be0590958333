"""Bringing a snapshot up to date from the change log, without reading the whole memory again.

The change log says which rows to read. Rows that are new, gone or different are spliced into the columns;
numbers that point at rows are renumbered as whole arrays; vectors that stay are not copied. What comes out
equals a snapshot that is read from nothing, which is tested on random histories.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.search.load import (
    FactColumns,
    Known,
    TurnColumns,
    all_known,
    by_appearance,
    dated_turns,
    joined,
    make_turns,
    muted_among,
    read_facts,
    read_turns,
)
from memforest.search.snapshot import Delta, Facts, Snapshot, Turns, carry_over, share_all
from memforest.search.splice import Splice, as_array, rows_of, sorted_splice, spliced, spliced_vectors
from memforest.search.vectors import VectorTable
from memforest.store import derived, meta
from memforest.store import snapshot as rows
from memforest.store.changes import changes_since, position
from memforest.store.tx import Tx

Ints = NDArray[np.int64]

SHARE = 0.5
"""Of the rows; when more than this has changed, reading all is as quick."""


def advance(tx: Tx, old: Snapshot, known: Known = all_known) -> Snapshot | None:
    """Return the snapshot of the transaction's state, made from an older one and the changes since.

    None when that cannot be done, or would not pay: the change log does not reach back, most rows have
    changed, or who takes part in the memory has.
    """
    changed = changes_since(tx, old.position)
    if changed is None or (derived.dimension(tx) or 0) != old.dimension:
        return None
    if not (changed.turn or changed.fact or changed.entity):
        muted = muted_among(tx, old.turns.ids)
        same = np.array_equal(muted, old.turns.muted)
        turns = old.turns if same else replace(old.turns, muted=muted)
        made = replace(old, generation=meta.generation(tx), position=position(tx), turns=turns)
        share_all(old, made)
        return made
    if len(changed.turn) + len(changed.fact) > SHARE * (len(old.turns.ids) + len(old.facts.ids)):
        return None
    entities = _entities(tx, old, changed.entity)
    if entities is None:
        return None
    read = _turns(tx, old, changed.turn, known)
    facts = _facts(tx, old, changed.fact)
    pairs = _linked(
        old.facts.pairs,
        facts.splice,
        read.splice,
        rows.supports(tx, changed.fact),
        facts.columns.ids,
        read.columns.ids,
    )
    mentions = _linked(
        old.mentions, facts.splice, None, rows.mentions(tx, changed.fact), facts.columns.ids, None
    )
    states, timelines = _states(tx, old, changed.fact)
    speaker, speakers = by_appearance(read.columns.speaker, read.speakers)
    made = Snapshot(
        generation=meta.generation(tx),
        dimension=old.dimension,
        speakers=speakers,
        entities=entities,
        names=_names(tx, old, changed.entity),
        turns=make_turns(
            replace(read.columns, speaker=speaker, muted=muted_among(tx, read.columns.ids)),
            dated_turns(len(read.columns.ids), pairs, facts.columns.stated),
            read.vectors,
        ),
        facts=Facts(
            **{field.name: getattr(facts.columns, field.name) for field in fields(facts.columns)},
            pairs=pairs,
            vectors=facts.vectors,
        ),
        states=states,
        mentions=mentions,
        sessions=read.sessions,
        position=position(tx),
    )
    carry_over(old, made, Delta(read.splice.now, read.splice.read, facts.splice.read, timelines))
    return made


# -- names ----------------------------------------------------------------------------------------


def _entities(tx: Tx, old: Snapshot, changed: Collection[int]) -> Mapping[int, rows.EntityName] | None:
    """Return the entities; None when one became or ceased to be a participant, as that changes facts' speakers."""
    found = rows.entity_names(tx, changed)
    entities = dict(old.entities)
    for entity in sorted(changed):
        before, now = entities.get(entity), found.get(entity)
        if before is not None and before != now and "participant" in (before.kind, now and now.kind):
            return None
        if now is None:
            entities.pop(entity, None)
        else:
            entities[entity] = now
    return entities


def _names(tx: Tx, old: Snapshot, changed: Collection[int]) -> Mapping[str, int]:
    if not changed:
        return old.names
    asked = rows.keys_of(tx, changed) | {key for key, entity in old.names.items() if entity in changed}
    names = dict(old.names)
    for key in asked:
        names.pop(key, None)
    return names | rows.entities_of(tx, asked)


# -- turns and facts ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NewTurns:
    columns: TurnColumns
    speakers: list[str]
    vectors: VectorTable
    sessions: tuple[rows.SessionSpan, ...]
    splice: Splice


@dataclass(frozen=True, slots=True)
class _NewFacts:
    columns: FactColumns
    vectors: VectorTable
    splice: Splice


def _turns(tx: Tx, old: Snapshot, changed: Collection[int], known: Known) -> _NewTurns:
    """Read the sessions with a changed turn anew and put them where they belong in time."""
    was = old.turns
    touched = rows.sessions_of(tx, changed) | set(was.session[np.isin(was.ids, as_array(changed))].tolist())
    kept = np.flatnonzero(~np.isin(was.session, as_array(touched)))
    sessions = [span for span in old.sessions if span.id not in touched]
    codes = {name: i for i, name in enumerate(old.speakers)}
    read = read_turns(tx, codes, touched, known=known)
    kept_session = was.session[kept]
    order, at = [], []
    for span in rows.session_spans(tx, touched):
        place = bisect.bisect(sessions, span)
        mine = np.flatnonzero(read.session == span.id)
        order.append(mine)
        at.append(np.full(len(mine), _first_row(kept_session, sessions, place, touched), dtype=np.int64))
        sessions.insert(place, span)
    nothing = np.zeros(0, dtype=np.int64)
    arranged = joined(read, _none(read), np.concatenate([nothing, *order]))
    splice = spliced(was.ids, kept, arranged.ids, np.concatenate([nothing, *at]))
    columns = joined(_columns(TurnColumns, was), arranged, splice.take)
    return _NewTurns(
        columns,
        list(codes),
        spliced_vectors(tx, "turn", was.vectors, splice, columns.ids, changed),
        tuple(sessions),
        splice,
    )


def _first_row(session: Ints, sessions: list[rows.SessionSpan], place: int, touched: Collection[int]) -> int:
    """Return the first row of the sessions from a place on that were not touched."""
    for span in sessions[place:]:
        if span.id not in touched:
            return int(np.argmax(session == span.id))
    return len(session)


def _facts(tx: Tx, old: Snapshot, changed: Collection[int]) -> _NewFacts:
    read = read_facts(tx, changed)
    splice = sorted_splice(old.facts.ids, changed, read.ids)
    columns = joined(_columns(FactColumns, old.facts), read, splice.take)
    return _NewFacts(
        columns, spliced_vectors(tx, "fact", old.facts.vectors, splice, columns.ids, changed), splice
    )


def _columns(kind: type, table: Turns | Facts) -> Any:
    return kind(*(getattr(table, field.name) for field in fields(kind)))


def _none(columns: TurnColumns) -> TurnColumns:
    return TurnColumns(*(getattr(columns, field.name)[:0] for field in fields(columns)))


def _linked(
    had: Ints,
    facts: Splice,
    others: Splice | None,
    read: list[tuple[int, int]],
    fact_ids: Ints,
    other_ids: Ints | None,
) -> Ints:
    """Return (fact row, other) pairs by fact row: renumbered, with those of changed facts read anew."""
    left, right = had.T
    kept = np.isin(facts.now[left], facts.read, invert=True) & (facts.now[left] >= 0)
    old = np.stack(
        [facts.now[left[kept]], right[kept] if others is None else others.now[right[kept]]], axis=1
    )
    new = np.array(read, dtype=np.int64).reshape(-1, 2)
    new[:, 0] = rows_of(fact_ids, new[:, 0])
    if other_ids is not None:
        new[:, 1] = rows_of(other_ids, new[:, 1])
    return np.insert(old, np.searchsorted(old[:, 0], new[:, 0]), new, axis=0)


def _states(
    tx: Tx, old: Snapshot, changed: Collection[int]
) -> tuple[tuple[rows.StateSeen, ...], frozenset[tuple[int, str]]]:
    """Return the observations of states, and the timelines that they may change."""
    read = rows.states_seen(tx, changed)
    before = [state for state in old.states if state.fact in changed]
    touched = frozenset((state.entity, state.attribute) for state in (*before, *read))
    if not touched:
        return old.states, touched
    states = [state for state in old.states if state.fact not in changed] if before else list(old.states)
    for state in read:
        bisect.insort(states, state, key=_order)
    return tuple(states), touched


def _order(state: rows.StateSeen) -> tuple[int, str, int, str, int]:
    return state.entity, state.attribute, state.at_ms, state.tie, state.fact
