"""Bringing a snapshot up to date by what was written since, instead of reading all of it again.

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
    NodeColumns,
    TurnColumns,
    by_appearance,
    dated_turns,
    joined,
    make_turns,
    parents,
    read_facts,
    read_nodes,
    read_turns,
    rows_of,
)
from memforest.search.snapshot import Delta, Facts, Forest, Lists, Snapshot, Turns, carry_over, ranges
from memforest.search.vectors import VectorTable
from memforest.store import derived, meta
from memforest.store import snapshot as rows
from memforest.store.changes import Changes, changes_since, position
from memforest.store.db import Tx

__all__ = ["advance"]

Ints = NDArray[np.int64]

SHARE = 0.5
"""Of the rows; when more than this has changed, reading all is as quick."""


@dataclass(frozen=True, slots=True)
class _Splice:
    """How a table came of an older one: `take` has, per row, the old row, or the old length + the row read."""

    take: Ints
    old: int
    now: Ints
    """Old row -> row now, -1 when it is gone; a row that was read again keeps its identity by its id."""

    @property
    def read(self) -> Ints:
        """Rows that were read."""
        return np.flatnonzero(self.take >= self.old)

    @property
    def source(self) -> Ints:
        """Row -> old row of the same id, -1 for a new one."""
        found = np.full(len(self.take), -1, dtype=np.int64)
        kept = np.flatnonzero(self.now >= 0)
        found[self.now[kept]] = kept
        return found


def _splice(old_ids: Ints, kept: Ints, read_ids: Ints, at: Ints) -> _Splice:
    """Return the splice of read rows into the kept ones, each before the kept row at its place in `at`."""
    take = np.insert(kept, at, len(old_ids) + np.arange(len(read_ids)))
    now = np.full(len(old_ids), -1, dtype=np.int64)
    stays = take < len(old_ids)
    now[take[stays]] = np.flatnonzero(stays)
    again = rows_of(old_ids, read_ids)
    read = np.flatnonzero(~stays)
    order = np.empty(len(read_ids), dtype=np.int64)
    order[take[read] - len(old_ids)] = read
    now[again[again >= 0]] = order[again >= 0]
    return _Splice(take, len(old_ids), now)


def _sorted_splice(old_ids: Ints, gone: Collection[int], read_ids: Ints) -> _Splice:
    """Return the splice of a table that is in the order of its ids."""
    kept = np.flatnonzero(~np.isin(old_ids, _array(gone)))
    return _splice(old_ids, kept, read_ids, np.searchsorted(old_ids[kept], read_ids))


def _array(values: Collection[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64, count=len(values))


def advance(tx: Tx, old: Snapshot) -> Snapshot | None:
    """Return the snapshot of the transaction's state, made from an older one by what has changed.

    None when that cannot be done, or would not pay: the change log does not reach back, most rows have
    changed, or who takes part in the memory has.
    """
    changed = changes_since(tx, old.position)
    if changed is None or (derived.dimension(tx) or 0) != old.dimension:
        return None
    size = len(old.turns.ids) + len(old.facts.ids) + len(old.forest.ids)
    if sum(len(ids) for ids in changed) > SHARE * size:
        return None
    entities = _entities(tx, old, changed.entity)
    if entities is None:
        return None
    turns = _turns(tx, old, changed.turn)
    facts = _facts(tx, old, changed.fact)
    pairs = _linked(
        old.facts.pairs,
        facts.splice,
        turns.splice,
        rows.supports(tx, changed.fact),
        facts.columns.ids,
        turns.columns.ids,
    )
    mentions = _linked(
        old.mentions, facts.splice, None, rows.mentions(tx, changed.fact), facts.columns.ids, None
    )
    states, timelines = _states(tx, old, changed.fact)
    speaker, speakers = by_appearance(turns.columns.speaker, turns.speakers)
    made = Snapshot(
        generation=meta.generation(tx),
        dimension=old.dimension,
        speakers=speakers,
        entities=entities,
        names=_names(tx, old, changed.entity),
        turns=make_turns(
            replace(turns.columns, speaker=speaker),
            dated_turns(len(turns.columns.ids), pairs, facts.columns.stated),
            turns.vectors,
        ),
        facts=Facts(
            **{field.name: getattr(facts.columns, field.name) for field in fields(facts.columns)},
            pairs=pairs,
            vectors=facts.vectors,
        ),
        forest=_forest(tx, old.forest, changed, turns, facts),
        states=states,
        mentions=mentions,
        sessions=turns.sessions,
        position=position(tx),
    )
    carry_over(
        old, made, Delta(turns.splice.now, facts.splice.now, turns.splice.read, facts.splice.read, timelines)
    )
    return made


# -- names ----------------------------------------------------------------------------------------


def _entities(tx: Tx, old: Snapshot, changed: Collection[int]) -> Mapping[int, rows.EntityName] | None:
    """Return the entities; None when one has become a participant or is none any more: that re-attributes facts."""
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
    splice: _Splice


@dataclass(frozen=True, slots=True)
class _NewFacts:
    columns: FactColumns
    vectors: VectorTable
    splice: _Splice


def _turns(tx: Tx, old: Snapshot, changed: Collection[int]) -> _NewTurns:
    """Read the sessions with a changed turn anew and put them where they belong in time."""
    was = old.turns
    touched = rows.sessions_of(tx, changed) | set(was.session[np.isin(was.ids, _array(changed))].tolist())
    kept = np.flatnonzero(~np.isin(was.session, _array(touched)))
    sessions = [span for span in old.sessions if span.id not in touched]
    codes = {name: i for i, name in enumerate(old.speakers)}
    read = read_turns(tx, codes, touched)
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
    splice = _splice(was.ids, kept, arranged.ids, np.concatenate([nothing, *at]))
    columns = joined(_columns(TurnColumns, was), arranged, splice.take)
    return _NewTurns(
        columns,
        list(codes),
        _vectors(tx, "turn", was.vectors, splice, columns.ids, changed),
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
    splice = _sorted_splice(old.facts.ids, changed, read.ids)
    columns = joined(_columns(FactColumns, old.facts), read, splice.take)
    return _NewFacts(columns, _vectors(tx, "fact", old.facts.vectors, splice, columns.ids, changed), splice)


def _columns(kind: type, table: Turns | Facts) -> Any:
    return kind(*(getattr(table, field.name) for field in fields(kind)))


def _none(columns: TurnColumns) -> TurnColumns:
    return TurnColumns(*(getattr(columns, field.name)[:0] for field in fields(columns)))


def _vectors(
    tx: Tx, kind: derived.ItemKind, table: VectorTable, splice: _Splice, ids: Ints, changed: Collection[int]
) -> VectorTable:
    """Return the vectors of a spliced table: those of changed items are read, the others stay where they are."""
    if not changed:
        return table
    source = splice.source
    source[np.isin(ids, _array(changed))] = -1
    return _with_read(tx, kind, table, source, ids, changed)


def _with_read(
    tx: Tx, kind: derived.ItemKind, table: VectorTable, source: Ints, ids: Ints, changed: Collection[int]
) -> VectorTable:
    items, found = [np.zeros(0, dtype=np.int64)], [np.zeros((0, table.dimension), dtype=np.float32)]
    for block, vectors in derived.vector_blocks(tx, kind, changed):
        items.append(block)
        found.append(vectors)
    at = rows_of(ids, np.concatenate(items))
    return table.changed(source, at[at >= 0], np.concatenate(found)[at >= 0])


def _linked(
    had: Ints,
    facts: _Splice,
    others: _Splice | None,
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


# -- the forest -----------------------------------------------------------------------------------


def _forest(tx: Tx, old: Forest, changed: Changes, turns: _NewTurns, facts: _NewFacts) -> Forest:
    read, flat = read_nodes(tx, changed.node)
    splice = _sorted_splice(old.ids, changed.node, read.ids)
    take = splice.take
    ids = np.concatenate([old.ids, read.ids])[take]
    trees = rows.tree_rows(tx, changed.tree)
    heads = _sorted_splice(old.tree_ids, changed.tree, np.array([tree.id for tree in trees], dtype=np.int64))
    tree_ids = np.concatenate([old.tree_ids, np.array([tree.id for tree in trees], dtype=np.int64)])[
        heads.take
    ]
    kinds = [*old.tree_kind, *(tree.kind for tree in trees)]
    kind = np.concatenate([old.kind, read.kind])[take]
    item, item_end = _items(old, read, turns, facts)
    children = _children(old.children, read, rows_of(ids, flat), splice)
    inner = np.flatnonzero(kind == 0)
    roots = rows_of(ids, np.array([tree.root or -1 for tree in trees], dtype=np.int64))
    return Forest(
        ids=ids,
        tree=np.concatenate([heads.now[old.tree], rows_of(tree_ids, read.tree)])[take],
        level=np.concatenate([old.level, read.level])[take],
        parent=parents(len(ids), children),
        kind=kind,
        item=item[take],
        item_end=item_end[take],
        children=children,
        inner=inner,
        vectors=_inner_vectors(tx, old, splice, inner, ids, changed.node),
        tree_ids=tree_ids,
        tree_kind=tuple(kinds[i] for i in heads.take.tolist()),
        tree_scope=np.concatenate([old.tree_scope, np.array([t.scope for t in trees], dtype=np.int64)])[
            heads.take
        ],
        tree_root=np.concatenate([_renumbered(splice.now, old.tree_root), roots])[heads.take],
    )


def _renumbered(now: Ints, values: Ints) -> Ints:
    """Return row numbers renumbered; -1 stays."""
    if not len(now):
        return np.full(len(values), -1, dtype=np.int64)
    return np.where(values >= 0, now[values], -1)


def _items(old: Forest, read: NodeColumns, turns: _NewTurns, facts: _NewFacts) -> tuple[Ints, Ints]:
    """Return what the leaves stand for, in rows: of the old nodes, then of those read."""
    was_fact, was_cell = old.kind == 2, old.kind == 1
    item, end = np.full(len(old.ids), -1, dtype=np.int64), np.full(len(old.ids), -1, dtype=np.int64)
    item[was_fact] = facts.splice.now[old.item[was_fact]]
    item[was_cell] = turns.splice.now[old.item[was_cell]]
    end[was_cell] = turns.splice.now[old.item_end[was_cell] - 1] + 1
    is_fact, is_cell = read.kind == 2, read.kind == 1
    new, new_end = np.full(len(read.ids), -1, dtype=np.int64), np.full(len(read.ids), -1, dtype=np.int64)
    new[is_fact] = rows_of(facts.columns.ids, read.item[is_fact])
    new[is_cell] = rows_of(turns.columns.ids, read.item[is_cell])
    new_end[is_cell] = rows_of(turns.columns.ids, read.last[is_cell]) + 1
    return np.concatenate([item, new]), np.concatenate([end, new_end])


def _children(old: Lists, read: NodeColumns, flat: Ints, splice: _Splice) -> Lists:
    """Return the children of a spliced forest; `flat` are those of the nodes read, in rows."""
    counts = np.concatenate([old.counts, read.child_count])
    values = np.concatenate([splice.now[old.values], flat])
    ends = np.cumsum(counts)
    taken = counts[splice.take]
    filled = splice.take[taken > 0]
    return Lists(values[ranges((ends - counts)[filled], ends[filled])], np.cumsum(taken))


def _inner_vectors(
    tx: Tx, old: Forest, splice: _Splice, inner: Ints, ids: Ints, changed: Collection[int]
) -> VectorTable:
    place = np.full(splice.old + 1, -1, dtype=np.int64)  # the last one is for nodes without an old row
    place[old.inner] = np.arange(len(old.inner))
    source = splice.source
    source[splice.read] = -1
    source = place[source[inner]]
    return _with_read(tx, "node", old.vectors, source, ids[inner], changed)
