"""The snapshot of one memory that queries share, and the forests of its indexes, brought up to date by what was written.

The change log says which rows to read. Rows that are new, gone or different are spliced into the columns; numbers that
point at rows are renumbered as whole arrays; vectors that stay are not copied. What comes out equals a snapshot, or a
forest, that is read from nothing, which is tested on random histories.

A snapshot holds what was said; trees are views of that, and a query reads those of the index that it asks. A forest is
read in the transaction of the snapshot's state. The next snapshot begins with the forests of the one before, as they were:
at its first use, a forest reads the rows of its own trees that the change log names. What other indexes write costs it
nothing, and a forest that nobody asks for is neither read nor brought up to date.
"""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import (
    CHUNK,
    FACT,
    INNER,
    NONE,
    TURNS,
    EmbeddedForest,
    Forest,
    Nodes,
    adopt,
    embedded_ids,
    forest_without,
    item_rows,
    load_forest,
    load_vectors,
    read_nodes,
    vectors_without,
)
from memforest.search.lexical import carry_words
from memforest.search.snapshot import (
    Delta,
    FactColumns,
    Facts,
    Known,
    Snapshot,
    Splice,
    TurnColumns,
    Turns,
    all_known,
    as_array,
    by_appearance,
    carry_over,
    dated_turns,
    joined,
    load_snapshot,
    make_turns,
    muted_among,
    read_again,
    read_facts,
    read_turns,
    rows_of,
    share_all,
    sorted_splice,
    spliced,
    spliced_vectors,
)
from memforest.search.vectors import VectorTable
from memforest.store import derived, indexes, meta
from memforest.store import snapshot as snapshot_rows
from memforest.store.connections import Tx, begin_anew
from memforest.store.meta import Changes, change_position, changes_since

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
        made = replace(
            old,
            generation=meta.generation(tx),
            position=change_position(tx),
            turns=old.turns if same else replace(old.turns, muted=muted),
        )
        share_all(old, made)
        return made
    if len(changed.turn) + len(changed.fact) > SHARE * (len(old.turns.ids) + len(old.facts.ids)):
        return None
    entities = _entities(tx, old, changed.entity)
    if entities is None:
        return None
    turns, names, turn_vectors, sessions, turn_splice = _turns(tx, old, changed.turn, known)
    read = read_facts(tx, changed.fact)
    splice = sorted_splice(old.facts.ids, changed.fact, read.ids)
    facts = joined(_columns(FactColumns, old.facts), read, splice.take)
    pairs = _linked(
        old.facts.pairs,
        splice,
        turn_splice,
        snapshot_rows.supports(tx, changed.fact),
        facts.ids,
        turns.ids,
    )
    mentions = _linked(old.mentions, splice, None, snapshot_rows.mentions(tx, changed.fact), facts.ids, None)
    states, timelines = _states(tx, old, changed.fact)
    speaker, speakers = by_appearance(turns.speaker, names)
    made = Snapshot(
        generation=meta.generation(tx),
        dimension=old.dimension,
        speakers=speakers,
        entities=entities,
        names=_names(tx, old, changed.entity),
        turns=make_turns(
            replace(turns, speaker=speaker, muted=muted_among(tx, turns.ids)),
            dated_turns(len(turns.ids), pairs, facts.stated),
            turn_vectors,
        ),
        facts=Facts(
            **{field.name: getattr(facts, field.name) for field in fields(facts)},
            pairs=pairs,
            vectors=spliced_vectors(tx, "fact", old.facts.vectors, splice, facts.ids, changed.fact),
        ),
        states=states,
        mentions=mentions,
        sessions=sessions,
        position=change_position(tx),
    )
    carry_over(old, made, Delta(turn_splice.now, turn_splice.read, splice.read, timelines))
    return made


def _entities(
    tx: Tx, old: Snapshot, changed: Collection[int]
) -> Mapping[int, snapshot_rows.EntityName] | None:
    """Return the entities; None when one became or ceased to be a participant, as that changes facts' speakers."""
    found = snapshot_rows.entity_names(tx, changed)
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
    asked = snapshot_rows.keys_of(tx, changed) | {
        key for key, entity in old.names.items() if entity in changed
    }
    names = dict(old.names)
    for key in asked:
        names.pop(key, None)
    return names | snapshot_rows.entities_of(tx, asked)


def _turns(
    tx: Tx, old: Snapshot, changed: Collection[int], known: Known
) -> tuple[TurnColumns, list[str], VectorTable, tuple[snapshot_rows.SessionSpan, ...], Splice]:
    """Read the sessions with a changed turn anew and put them where they belong in time.

    Returns:
        The turns' columns, the names of their speakers by code, their vectors, the sessions, and how all was spliced.
    """
    was = old.turns
    touched = snapshot_rows.sessions_of(tx, changed) | set(
        was.session[np.isin(was.ids, as_array(changed))].tolist()
    )
    kept = np.flatnonzero(~np.isin(was.session, as_array(touched)))
    sessions = [span for span in old.sessions if span.id not in touched]
    codes = {name: i for i, name in enumerate(old.speakers)}
    read = read_turns(tx, codes, touched, known=known)
    kept_session = was.session[kept]
    order, at = [], []
    for span in snapshot_rows.session_spans(tx, touched):
        place = bisect.bisect(sessions, span)
        mine = np.flatnonzero(read.session == span.id)
        order.append(mine)
        behind = next((one.id for one in sessions[place:] if one.id not in touched), None)
        first = len(kept) if behind is None else int(np.argmax(kept_session == behind))
        at.append(np.full(len(mine), first, dtype=np.int64))
        sessions.insert(place, span)
    nothing = np.zeros(0, dtype=np.int64)
    none = TurnColumns(*(getattr(read, field.name)[:0] for field in fields(read)))
    arranged = joined(read, none, np.concatenate([nothing, *order]))
    splice = spliced(was.ids, kept, arranged.ids, np.concatenate([nothing, *at]))
    columns = joined(_columns(TurnColumns, was), arranged, splice.take)
    vectors = spliced_vectors(tx, "turn", was.vectors, splice, columns.ids, changed)
    return columns, list(codes), vectors, tuple(sessions), splice


def _columns(kind: type, table: Turns | Facts) -> Any:
    return kind(*(getattr(table, field.name) for field in fields(kind)))


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
) -> tuple[tuple[snapshot_rows.StateSeen, ...], frozenset[tuple[int, str]]]:
    """Return the observations of states, and the timelines that they may change."""
    read = snapshot_rows.states_seen(tx, changed)
    before = [state for state in old.states if state.fact in changed]
    touched = frozenset((state.entity, state.attribute) for state in (*before, *read))
    if not touched:
        return old.states, touched
    states = [state for state in old.states if state.fact not in changed] if before else list(old.states)
    in_order = attrgetter("entity", "attribute", "at_ms", "tie", "fact")
    for state in read:
        bisect.insort(states, state, key=in_order)
    return tuple(states), touched


OldVectors = tuple[int, Ints, VectorTable]
"""The position of the change log, the ids of the nodes, and the vectors of their summaries as they were then."""


def advance_forest(tx: Tx, snapshot: Snapshot, old: Forest, changed: Changes) -> Forest | None:
    """Return a forest made from an older one and the changes since; None when reading it anew costs less."""
    read, trees = read_nodes(tx, old.owner, changed.node), indexes.tree_rows(tx, old.owner, changed.tree)
    gone = rows_of(old.ids, as_array(changed.node))
    if max(len(read.ids), int(np.count_nonzero(gone >= 0))) > SHARE * len(old.ids):
        return None
    same = old.turns is snapshot.turns and old.facts is snapshot.facts
    if same and not (
        len(read.ids) or trees or (gone >= 0).any() or np.isin(old.tree_ids, as_array(changed.tree)).any()
    ):
        return old
    return _spliced(snapshot, old, read, trees, changed.node, changed.tree)


def _spliced(
    snapshot: Snapshot,
    old: Forest,
    read: Nodes,
    trees: Sequence[tuple[int, str, int, int | None]],
    changed_nodes: Collection[int],
    changed_trees: Collection[int],
) -> Forest:
    """Return a forest with the changed rows taken out, and those that were read put in."""
    splice = sorted_splice(old.ids, changed_nodes, read.ids)
    take = splice.take
    ids = np.concatenate([old.ids, read.ids])[take]
    new_trees = as_array([tree for tree, *_ in trees])
    heads = sorted_splice(old.tree_ids, changed_trees, new_trees)
    tree_ids = np.concatenate([old.tree_ids, new_trees])[heads.take]
    kinds = [*old.tree_kind, *(kind for _, kind, *_ in trees)]
    kind = np.concatenate([old.kind, read.kind])[take]
    item, item_end = _carried_items(snapshot, old)
    new_item, new_end = item_rows(snapshot, read.kind, read.first, read.last)
    parent, place = _spliced_parents(old, read, splice, ids)
    roots = rows_of(ids, as_array([root or NONE for *_, root in trees]))
    scopes = as_array([scope for _, _, scope, _ in trees])
    # Row in both tables of nodes -> row in both tables of inner nodes' columns.
    stored = np.full(len(old.ids) + len(read.ids), NONE, dtype=np.int64)
    stored[old.inner] = np.arange(len(old.inner))
    new_inner = np.flatnonzero(read.kind == INNER)
    stored[len(old.ids) + new_inner] = len(old.inner) + np.arange(len(new_inner))
    had_roots = np.append(splice.now, NONE)[old.tree_root]  # its last place is that of NONE
    inner, stays = np.flatnonzero(kind == INNER), splice.now[old.summarised]
    return Forest(
        owner=old.owner,
        ids=ids,
        tree=np.concatenate([heads.now[old.tree], rows_of(tree_ids, read.tree)])[take],
        level=np.concatenate([old.level, read.level])[take],
        parent=parent,
        place=place,
        kind=kind,
        item=np.concatenate([item, new_item])[take],
        item_end=np.concatenate([item_end, new_end])[take],
        inner=inner,
        stored=old.stored.taken(read.stored, stored[take[inner]]),
        tree_ids=tree_ids,
        tree_kind=tuple(kinds[i] for i in heads.take.tolist()),
        tree_scope=np.concatenate([old.tree_scope, scopes])[heads.take],
        tree_root=np.concatenate([had_roots, roots])[heads.take],
        turns=snapshot.turns,
        facts=snapshot.facts,
        summarised=np.union1d(stays[stays >= 0], splice.read[read.summarised]),
    )


def _carried_items(snapshot: Snapshot, old: Forest) -> tuple[Ints, Ints]:
    """Return what the leaves of an older forest stand for, in rows of the snapshot; `NONE` for what is gone."""
    item, end = old.item, old.item_end
    if not _begins_with(snapshot.facts.ids, old.facts.ids):
        item, leaves = item.copy(), np.flatnonzero(old.kind == FACT)
        item[leaves] = rows_of(snapshot.facts.ids, old.facts.ids)[old.item[leaves]]
    if not _begins_with(snapshot.turns.ids, old.turns.ids):
        item, end, leaves = item.copy(), end.copy(), np.flatnonzero((old.kind == CHUNK) | (old.kind == TURNS))
        turns = rows_of(snapshot.turns.ids, old.turns.ids)
        item[leaves] = turns[old.item[leaves]]
        end[leaves] = turns[old.item_end[leaves] - 1] + 1
    return item, end


def _begins_with(ids: Ints, old: Ints) -> bool:
    """Return whether the old rows kept their numbers, as when all new rows were said last."""
    return len(ids) >= len(old) and bool((ids[: len(old)] == old).all())


def _spliced_parents(old: Forest, read: Nodes, splice: Splice, ids: Ints) -> tuple[Ints, Ints]:
    """Return the parent and the place of every node of a spliced forest.

    Of nodes that were read the children are read too; whoever is a child of another one is so still.
    """
    again = rows_of(old.ids, read.ids)
    stays = np.append(splice.now, NONE)  # the last one is for roots
    stays[again[again >= 0]] = NONE
    new_parent = np.where(again >= 0, stays[old.parent[again]], NONE)
    parent = np.concatenate([stays[old.parent], new_parent])[splice.take]
    place = np.concatenate([old.place, np.where(again >= 0, old.place[again], 0)])[splice.take]
    inner = np.flatnonzero(read.kind == INNER)
    adopt(parent, place, splice.read[inner], rows_of(ids, read.children), read.child_count[inner], old.owner)
    place[parent < 0] = 0
    return parent, place


def advance_vectors(
    tx: Tx, snapshot: Snapshot, forest: Forest, old: OldVectors, changed: Changes
) -> VectorTable | None:
    """Return the vectors of summaries made from older ones; None when that is impossible, or costs more than reading."""
    _, before, had = old
    if had.dimension != snapshot.dimension:
        return None
    ids, noted = embedded_ids(forest), as_array(changed.node)
    own = noted[rows_of(ids, noted) >= 0].tolist()
    if len(own) > SHARE * len(before):
        return None
    if not own and np.array_equal(before, ids):
        return had
    return read_again(tx, "node", had, rows_of(before, ids), ids, own)


T = TypeVar("T")


@dataclass(slots=True)
class _CachedForest:
    """The forest of one index in one snapshot: the current one, and an older one with its position of the change log."""

    forest: Forest | None = None
    embedded: EmbeddedForest | None = None
    older_forest: tuple[int, Forest] | None = None
    older_vectors: OldVectors | None = None


@dataclass(slots=True)
class _Forests:
    """The forests of one snapshot by owner; one thread at a time makes one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    of: dict[str, _CachedForest] = field(default_factory=dict)
    changes: dict[int, Changes | None] = field(default_factory=dict)
    """What has changed since a position of the change log, as forests and their vectors mostly ask for the same."""


_forests: WeakKeyDictionary[Snapshot, _Forests] = WeakKeyDictionary()
_NO_FORESTS = _Forests()


def forest_of(tx: Tx, snapshot: Snapshot, owner: str) -> Forest:
    """Return the trees of an index as they are in a snapshot.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        owner: name of the index.

    Raises:
        ValueError: if the stored trees contradict each other, or the transaction is of another state.
    """

    def make(kept: _CachedForest) -> Forest:
        if kept.forest is None:
            older, kept.older_forest = kept.older_forest, None
            changed = None if older is None else _changes(tx, snapshot, older[0])
            if snapshot.base is not None:
                kept.forest = forest_without(forest_of(tx, snapshot.base, owner), snapshot)
            elif older is not None and changed is not None:
                kept.forest = advance_forest(tx, snapshot, older[1], changed)
            kept.forest = kept.forest or load_forest(tx, snapshot, owner)
        return kept.forest

    kept = _forests.get(snapshot, _NO_FORESTS).of.get(owner)
    return (kept and kept.forest) or _made(tx, snapshot, owner, make)


def embedded_forest(tx: Tx, snapshot: Snapshot, owner: str) -> EmbeddedForest:
    """Return the trees of an index with the vectors of their summaries.

    These are read apart, as a search that does not browse needs none of them. Arguments and errors are those of
    `forest_of`.
    """
    forest = forest_of(tx, snapshot, owner)

    def make(kept: _CachedForest) -> EmbeddedForest:
        if kept.embedded is None:
            older, kept.older_vectors = kept.older_vectors, None
            changed = None if older is None else _changes(tx, snapshot, older[0])
            table = None
            if snapshot.base is not None:
                table = vectors_without(embedded_forest(tx, snapshot.base, owner), forest)
            elif older is not None and changed is not None:
                table = advance_vectors(tx, snapshot, forest, older, changed)
            kept.embedded = EmbeddedForest(
                forest, load_vectors(tx, snapshot, forest) if table is None else table
            )
        return kept.embedded

    kept = _forests.get(snapshot, _NO_FORESTS).of.get(owner)
    return (kept and kept.embedded) or _made(tx, snapshot, owner, make)


def carry_forests(old: Snapshot, new: Snapshot) -> None:
    """Hand the forests of a snapshot to the memory's next one, which brings them up to date."""
    carried = _Forests()
    for owner, kept in dict(
        _forests.get(old, _NO_FORESTS).of
    ).items():  # a copy: another thread may be adding to it
        forest, embedded = kept.forest, kept.embedded
        vectors = kept.older_vectors
        if embedded is not None:
            vectors = old.position, embedded_ids(embedded.forest), embedded.vectors
        carried.of[owner] = _CachedForest(
            older_forest=kept.older_forest if forest is None else (old.position, forest),
            older_vectors=vectors,
        )
    _forests[new] = carried


def forest_bytes(snapshot: Snapshot) -> int:
    """Return the bytes of the forests that a snapshot has, about: those that are up to date, and older ones."""
    total = 0
    for kept in dict(_forests.get(snapshot, _NO_FORESTS).of).values():
        forest = kept.forest or (kept.older_forest and kept.older_forest[1])
        total += 0 if forest is None else forest.nbytes
        if kept.embedded is not None:
            total += kept.embedded.vectors.nbytes
        elif kept.older_vectors is not None:
            total += kept.older_vectors[1].nbytes + kept.older_vectors[2].nbytes
    return total


def _made(tx: Tx, snapshot: Snapshot, owner: str, make: Callable[[_CachedForest], T]) -> T:
    """Make something of a snapshot; other threads wait for it."""
    if meta.generation(tx) != snapshot.generation:
        raise ValueError(
            "trees are read in a transaction of the snapshot's state; begin one, and ask for both"
        )
    forests = _forests.setdefault(snapshot, _Forests())
    with forests.lock:
        return make(forests.of.setdefault(owner, _CachedForest()))


def _changes(tx: Tx, snapshot: Snapshot, since: int) -> Changes | None:
    """Return the changes since a position of the change log; None when the log no longer reaches back that far."""
    known = _forests.setdefault(snapshot, _Forests()).changes
    if since not in known:
        known[since] = changes_since(tx, since)
    return known[since]


MOMENTS = 4
"""Snapshots of earlier moments that are kept with the current one, those used last."""


class Snapshots(Protocol):
    """Where readers get their snapshot from: the memory as it is, or as it was at a moment."""

    @property
    def known(self) -> Known:
        """Returns which share of texts the memory's embedder has words for."""

    def get(self, tx: Tx) -> Snapshot:
        """Return the snapshot for a transaction's state; to be called before anything else is read in it."""


Check = Callable[[Tx], object]
Whole = Callable[[], Snapshot]


class SnapshotCache:
    """Keeps one memory's snapshot, and brings it up to date when the generation moves; for any thread."""

    def __init__(self, known: Known = all_known, check: Check | None = None) -> None:
        """Make a cache.

        Args:
            known: which share of texts the memory's embedder has words for.
            check: raises if the memory, as it is now, cannot be read by whom the cache is for; None to read any.
        """
        self.known = known
        self._check = check
        self._lock = threading.Lock()
        self._kept: Snapshot | None = None
        self._whole: Snapshot | None = None
        """The kept one with what is hidden now."""
        self._earlier: OrderedDict[Hashable, Snapshot] = OrderedDict()
        """Made from the kept one, by what they are of; the one used last stands last."""

    def get(self, tx: Tx) -> Snapshot:
        """Return the snapshot of the transaction's state; to be called before anything else is read in it.

        A transaction that began before the kept snapshot's moment is begun anew, so that no reader makes an
        older one. Errors are those of `check`. What has changed is read by one thread while others wait for it; a writer holds up neither.
        """
        current = meta.generation(tx)
        kept = self._kept
        if kept is not None and kept.generation == current:
            return kept
        with self._lock:
            kept = self._kept
            if kept is not None and kept.generation > current:
                begin_anew(tx)
                current = meta.generation(tx)
            if kept is not None and kept.generation == current:
                return kept
            if self._check is not None:
                self._check(tx)
            if kept is None or kept.generation > current:
                made = load_snapshot(tx, self.known)
            else:
                made = advance(tx, kept, self.known) or load_snapshot(tx, self.known)
                carry_words(kept, made)
                carry_forests(kept, made)
            self._kept, self._whole = made, None
            self._earlier = OrderedDict()
            return made

    def earlier(self, tx: Tx, key: Hashable, make: Callable[[Snapshot, Whole], Snapshot]) -> Snapshot:
        """Return a snapshot derived from the current one; it is kept as long as that is current.

        Args:
            tx: a read transaction in which nothing else was read.
            key: what is made.
            make: makes it, in one thread at a time. It is also given what returns the snapshot with what is hidden now, in
                which no turn is muted: that is kept beside the current one.
        """
        base = self.get(tx)
        with self._lock:
            current = self._kept is base
            found = self._earlier.get(key) if current else None
            if found is None:
                found = make(base, lambda: self._with_hidden(tx, base))
            if current:
                self._earlier[key] = found
                self._earlier.move_to_end(key)
                while len(self._earlier) > MOMENTS:
                    self._earlier.popitem(last=False)
            return found

    def _with_hidden(self, tx: Tx, base: Snapshot) -> Snapshot:
        if self._whole is not None and self._kept is base:
            return self._whole
        whole = load_snapshot(tx, self.known, hidden=True)
        carry_words(base, whole)
        if self._kept is base:
            self._whole = whole
        return whole

    @property
    def nbytes(self) -> int:
        """Bytes of the kept snapshots and of their forests, about; 0 when there is none."""
        kept = self._kept
        own = {one for one in (kept, self._whole, *list(self._earlier.values())) if one is not None}
        return sum(one.nbytes + forest_bytes(one) for one in own)

    def drop(self) -> int:
        """Forget the kept snapshot and return how many bytes it was; who still reads it keeps it."""
        nbytes, self._kept, self._whole, self._earlier = self.nbytes, None, None, OrderedDict()
        return nbytes
