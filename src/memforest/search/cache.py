"""The snapshot of one memory that queries share, and the forests of its indexes, brought up to date by what was written.

The change log says which rows to read. Rows that are new, gone or different are spliced into the columns; numbers that
point at rows are renumbered as whole arrays; vectors that stay are not copied. What comes out equals a snapshot that is read
from nothing, which is tested on random histories.

Trees are functions of a snapshot. The forests of an index are grown when a query first asks for them, and kept with
the snapshot. The next snapshot begins with the forests of the one before, and an index may reuse parts of them.
"""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.errors import IndexStateError
from memforest.search.forest import (
    FACT,
    INNER,
    NONE,
    Digests,
    EmbeddedForest,
    Forest,
    Ints,
    as_keys,
    numbers_of,
)
from memforest.search.lexical import carry_words
from memforest.search.snapshot import (
    STATE_ORDER,
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
    as_one,
    by_appearance,
    carry_over,
    dated_turns,
    joined,
    load_snapshot,
    make_turns,
    muted_among,
    of_now,
    ranges,
    read_facts,
    read_turns,
    rows_of,
    share_all,
    sorted_splice,
    spliced,
    spliced_vectors,
)
from memforest.search.vectors import VectorTable
from memforest.store import artifacts, derived, meta, reads
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx, begin_anew, described, is_of_file
from memforest.store.facts import EntityRow
from memforest.store.meta import changes_since

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
            **of_now(tx),
            turns=old.turns if same else replace(old.turns, muted=muted),
        )
        if made.choices == old.choices:
            share_all(old, made)
        else:
            everywhere = np.arange(len(old.turns.ids))
            carry_over(old, made, Delta(everywhere, everywhere[:0], everywhere[:0], frozenset()))
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
        old.facts.pairs, splice, turn_splice, reads.supports(tx, changed.fact), facts.ids, turns.ids
    )
    mentions = _linked(old.mentions, splice, None, reads.mentions(tx, changed.fact), facts.ids, None)
    states, timelines = _states(tx, old, changed.fact)
    speaker, speakers = by_appearance(turns.speaker, names)
    made = Snapshot(
        **of_now(tx),
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
        relations=_again(old.relations, reads.relations(tx, changed.fact), changed.fact),
        name_uses=_again(old.name_uses, reads.name_uses(tx, changed.fact), changed.fact, 1),
        sessions=sessions,
    )
    carry_over(old, made, Delta(turn_splice.now, turn_splice.read, splice.read, timelines))
    return made


def _entities(tx: Tx, old: Snapshot, changed: Collection[int]) -> Mapping[int, EntityRow] | None:
    """Return the entities; None when one became or ceased to be a participant, as that changes facts' speakers."""
    found = facts_rows.entities(tx, changed)
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
    asked = reads.keys_of(tx, changed) | {key for key, entity in old.names.items() if entity in changed}
    names = dict(old.names)
    for key in asked:
        names.pop(key, None)
    return names | reads.entities_of(tx, asked)


def _turns(
    tx: Tx, old: Snapshot, changed: Collection[int], known: Known
) -> tuple[TurnColumns, list[str], VectorTable, tuple[reads.SessionSpan, ...], Splice]:
    """Read the sessions with a changed turn anew and put them where they belong in time.

    Returns:
        The turns' columns, the names of their speakers by code, their vectors, the sessions, and how all was spliced.
    """
    was = old.turns
    touched = reads.sessions_of(tx, changed) | set(was.session[np.isin(was.ids, as_array(changed))].tolist())
    kept = np.flatnonzero(~np.isin(was.session, as_array(touched)))
    sessions = [span for span in old.sessions if span.id not in touched]
    codes = {name: i for i, name in enumerate(old.speakers)}
    read = read_turns(tx, codes, touched, known=known)
    kept_session = was.session[kept]
    order, at = [], []
    for span in reads.session_spans(tx, touched):
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
) -> tuple[tuple[reads.StateSeen, ...], frozenset[tuple[int, str]]]:
    """Return the observations of states, and the timelines that they may change."""
    read = reads.states_seen(tx, changed)
    before = [state for state in old.states if state.fact in changed]
    touched = frozenset((state.entity, state.attribute) for state in (*before, *read))
    if not touched:
        return old.states, touched
    states = [state for state in old.states if state.fact not in changed] if before else list(old.states)
    for state in read:
        bisect.insort(states, state, key=STATE_ORDER)
    return tuple(states), touched


T = TypeVar("T")
R = TypeVar("R", bound=reads.RelationRow | reads.NameUse)


def _again(old: tuple[R, ...], read: list[R], changed: Collection[int], first: int = 0) -> tuple[R, ...]:
    """Return rows with those of changed facts read anew, in the order of their columns from `first` on."""
    kept = tuple(one for one in old if one.fact not in changed)
    if not kept or not read or kept[-1][first:] < read[0][first:]:
        return (*kept, *read)
    return tuple(sorted((*kept, *read), key=lambda one: one[first:]))


class Grower(Protocol):
    """An index, as far as its trees are read here."""

    name: str

    @property
    def grows_by_artifacts(self) -> bool:
        """Whether its trees depend on what was made of them, too."""

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the trees of a snapshot; `old` are those of an earlier one, of which parts may be taken over."""

    def digests(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> Digests:
        """Return what each node of a forest says, as far as that follows from what is stored, shape (N, 2)."""


@dataclass(slots=True)
class _Grown:
    """What was grown of one index for one snapshot; `old` and `was` are of the snapshot before."""

    forest: Forest | None = None
    grown_by: int = -1
    """Of the artifacts by which it was grown, if it depends on them."""
    digests: Digests | None = None
    embedded: EmbeddedForest | None = None
    state: int = -1
    """Of the artifacts whose vectors `embedded` has."""
    missing: Ints | None = None
    missing_by: int = -1
    """Of the artifacts that `missing` has no part in."""
    stored: Digests = field(default_factory=lambda: numbers_of(()))
    """Of the artifacts that there were when they were last looked up."""
    last: int = 0
    """Number of the last one of these."""
    old: Forest | None = None
    was: EmbeddedForest | None = None


@dataclass(slots=True)
class _Forests:
    """The forests of one snapshot by index; one thread at a time grows one."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    of: dict[Grower, _Grown] = field(default_factory=dict)


_forests: WeakKeyDictionary[Snapshot, _Forests] = WeakKeyDictionary()
_NO_FORESTS = _Forests()


@contextmanager
def _named(index: Grower) -> Iterator[None]:
    """Name the index whose own code raises.

    Raises:
        IndexStateError: in the place of what is not the file's error.
    """
    try:
        yield
    except Exception as exc:
        if is_of_file(exc):
            raise
        raise IndexStateError(
            f"the trees of the index {index.name!r} cannot be made: it {described(exc)}; the other indexes still work"
        ) from exc


def forest_of(tx: Tx, snapshot: Snapshot, index: Grower) -> Forest:
    """Return the trees of an index as they are in a snapshot.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: what the trees are of.
        index: whose trees.

    Raises:
        ValueError: if the transaction is of another state.
        IndexStateError: if the index raises.
    """

    def make(kept: _Grown) -> Forest:
        state = artifacts.state(tx) if index.grows_by_artifacts else -1
        if kept.forest is None or kept.grown_by != state:
            with _named(index):
                forest = index.grow(tx, snapshot, kept.forest or kept.old)
            kept.forest, kept.old, kept.grown_by = forest, None, state
            kept.digests, kept.embedded, kept.was = None, None, kept.embedded or kept.was
            kept.missing = None
        return kept.forest

    kept = None if index.grows_by_artifacts else _forests.get(snapshot, _NO_FORESTS).of.get(index)
    return (kept and kept.forest) or _made(tx, snapshot, index, make)


def digests_of(tx: Tx, snapshot: Snapshot, index: Grower) -> Digests:
    """Return what each node of an index's trees says, shape (N, 2); see `forest_of` and `Grower.digests`."""
    forest = forest_of(tx, snapshot, index)

    def make(kept: _Grown) -> Digests:
        if kept.digests is None:
            with _named(index):
                kept.digests = index.digests(tx, snapshot, forest)
        return kept.digests

    return _made(tx, snapshot, index, make)


def missing_of(tx: Tx, snapshot: Snapshot, index: Grower) -> Ints:
    """Return the rows of the nodes of an index's trees whose summaries are not stored, ascending; see `forest_of`."""
    forest = forest_of(tx, snapshot, index)
    if not artifacts.any_stored(tx):
        return forest.told
    digests = digests_of(tx, snapshot, index)

    def make(kept: _Grown) -> Ints:
        state = artifacts.state(tx)
        if kept.missing is None or kept.missing_by != state:
            kept.missing = forest.told[_places(_stored(tx, kept), digests[forest.told]) < 0]
            kept.missing_by = state
        return kept.missing

    return _made(tx, snapshot, index, make)


def _stored(tx: Tx, kept: _Grown) -> Digests:
    """Return the digests of all artifacts; where none was deleted only those are read that are new."""
    new = artifacts.written_since(tx, kept.last)
    if len(kept.stored) + len(new) != artifacts.count(tx):
        kept.stored, new = kept.stored[:0], artifacts.written_since(tx, 0)
    kept.stored = np.concatenate([kept.stored, numbers_of(new)])
    kept.last = artifacts.last(tx)
    return kept.stored


def embedded_forest(tx: Tx, snapshot: Snapshot, index: Grower) -> EmbeddedForest:
    """Return the trees of an index with the vectors of their summaries; see `forest_of`."""
    forest = forest_of(tx, snapshot, index)
    if not artifacts.any_stored(tx):  # then nothing need be known of what nodes say
        none = np.zeros((len(forest.told), 2), dtype=np.uint64)
        return EmbeddedForest(forest, _no_vectors(len(none), snapshot.dimension), none)
    own = digests_of(tx, snapshot, index)[forest.told]

    def make(kept: _Grown) -> EmbeddedForest:
        state = artifacts.state(tx)
        if kept.embedded is None or kept.state != state:
            kept.embedded, kept.state = _embedded(tx, snapshot, forest, own, kept.embedded or kept.was), state
            kept.was = None
        return kept.embedded

    return _made(tx, snapshot, index, make)


FEW = 2_048
"""Most summaries whose vectors are looked up by their digests; of more, all are read."""


def _no_vectors(rows: int, dimension: int) -> VectorTable:
    none = np.full(rows, NONE, dtype=np.int64)
    return VectorTable.blank(0, dimension).changed(none, none[:0], np.zeros((0, dimension), np.float32))


def _embedded(
    tx: Tx, snapshot: Snapshot, forest: Forest, digests: Digests, old: EmbeddedForest | None
) -> EmbeddedForest:
    """Return trees with the vectors of their summaries.

    Those of nodes that say the same in `old` are taken over, others are read; a node that keeps its children's texts gets the
    mean of their vectors.
    """
    table, take = _no_vectors(len(digests), snapshot.dimension), np.full(len(digests), NONE, dtype=np.int64)
    if old is not None and old.vectors.dimension == snapshot.dimension:
        anew = numbers_of(artifacts.written_since(tx, old.last))
        if not (_places(old.digests[old.vectors.filled], anew) >= 0).any():  # else it says something else now
            table, take = old.vectors, _places(old.digests, digests)
            take[take >= 0] = np.where(table.filled[take[take >= 0]], take[take >= 0], NONE)
    lacking = np.flatnonzero(take < 0)
    found: list[tuple[Ints, NDArray[np.float32]]] = [
        (lacking[:0], np.zeros((0, snapshot.dimension), np.float32))
    ]
    means = np.zeros(len(digests), dtype=np.bool_)
    wanted = set(as_keys(digests[lacking])) if len(lacking) <= FEW else None
    for stored, vectors, of_children in artifacts.vector_blocks(tx, snapshot.dimension, wanted):
        at = _places(numbers_of(stored), digests[lacking])
        rows, at = lacking[at >= 0], at[at >= 0]
        means[rows] = of_children[at]
        found.append((rows[~of_children[at]], vectors[at[~of_children[at]]]))
    rows, vectors = (np.concatenate(part) for part in zip(*found, strict=True))
    table = table.changed(take, rows, vectors)
    if means.any():
        table = _with_means(snapshot, forest, table, means)
    return EmbeddedForest(forest, table, digests, artifacts.last(tx))


def _places(known: Digests, wanted: Digests) -> Ints:
    """Return the row of each wanted digest among known ones, -1 where it is not there."""
    rows = rows_of(known[:, 0].view(np.int64), wanted[:, 0].view(np.int64))
    here = rows >= 0
    here[here] = known[rows[here], 1] == wanted[here, 1]
    return np.where(here, rows, NONE)


def _with_means(
    snapshot: Snapshot, forest: Forest, table: VectorTable, means: NDArray[np.bool_]
) -> VectorTable:
    """Set the vectors of nodes to the unit mean of their children's; of a leaf it is that of what it stands for."""
    place = np.full(len(forest), NONE, dtype=np.int64)
    place[forest.told] = every = np.arange(len(forest.told))
    rows = forest.told[means]
    for level in np.unique(forest.level[rows]).tolist():
        now = rows[forest.level[rows] == level]
        if level:
            below, counts = forest.children.of_rows(now), forest.children.counts[now]
        else:
            below, counts = now, np.ones(len(now), dtype=np.int64)
        told = place[below] >= 0
        vectors = np.zeros((len(below), snapshot.dimension), dtype=np.float32)
        vectors[told] = table[place[below[told]]]
        bare = np.flatnonzero(~vectors.any(axis=1) & (forest.kind[below] != INNER))
        vectors[bare] = _of_leaves(snapshot, forest, below[bare])
        made = unit_means(vectors, counts)
        has = made.any(axis=1)
        table = table.changed(every, place[now[has]], made[has])
    return table


def _of_leaves(snapshot: Snapshot, forest: Forest, rows: Ints) -> NDArray[np.float32]:
    """Return the vectors of what leaves stand for: of a fact its own, of turns the unit mean of theirs."""
    found = np.zeros((len(rows), snapshot.dimension), dtype=np.float32)
    facts = forest.kind[rows] == FACT
    found[facts] = snapshot.facts.vectors[forest.item[rows[facts]]]
    first, end = forest.item[rows[~facts]], forest.item_end[rows[~facts]]
    found[~facts] = unit_means(snapshot.turns.vectors[ranges(first, end)], end - first)
    return found


def unit_means(vectors: NDArray[np.float32], counts: Ints) -> NDArray[np.float32]:
    """Return the unit mean of each run of vectors; zeros where one of them is missing, or they cancel out."""
    if not len(counts):
        return np.zeros((0, vectors.shape[1]), dtype=np.float32)
    starts = np.cumsum(counts) - counts
    sums = np.add.reduceat(vectors, starts, axis=0)
    whole = np.logical_and.reduceat(vectors.any(axis=1), starts)
    lengths = np.linalg.norm(sums, axis=1)
    made = sums / np.where(lengths, lengths, 1.0)[:, None]
    return np.asarray(np.where((whole & (lengths > 0))[:, None], made, 0), dtype=np.float32)


def carry_forests(old: Snapshot, new: Snapshot) -> None:
    """Hand the forests of a snapshot to the memory's next one, whose forests may take parts of them over."""
    of = dict(_forests.get(old, _NO_FORESTS).of)  # a copy: another thread may add to it
    if old.turns is new.turns and old.facts is new.facts and old.mentions is new.mentions:
        carried = {index: replace(kept) for index, kept in of.items()}
    else:
        carried = {
            index: _Grown(
                old=kept.forest or kept.old, was=kept.embedded or kept.was, stored=kept.stored, last=kept.last
            )
            for index, kept in of.items()
        }
    _forests[new] = _Forests(of=carried)


def forest_bytes(snapshot: Snapshot) -> int:
    """Return the bytes of the forests that a snapshot has, about: those that are up to date, and older ones."""
    total = 0
    for kept in dict(_forests.get(snapshot, _NO_FORESTS).of).values():
        forest = kept.forest or kept.old
        total += 0 if forest is None else forest.nbytes
        total += 0 if kept.embedded is None else kept.embedded.vectors.nbytes
    return total


def _made(tx: Tx, snapshot: Snapshot, index: Grower, make: Callable[[_Grown], T]) -> T:
    """Make something of a snapshot; other threads wait for it."""
    if meta.generation(tx) != snapshot.generation:
        raise ValueError(
            "trees are read in a transaction of the snapshot's state; begin one, and ask for both"
        )
    forests = _forests.setdefault(snapshot, _Forests())
    with forests.lock:
        return make(forests.of.setdefault(index, _Grown()))


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
        self._given: Snapshot | None = None
        """The kept one with those as one whom people decided to be one."""
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
        given = self._given
        if given is not None and given.generation == current:
            return given
        with self._lock:
            kept, given = self._kept, self._given
            if kept is not None and kept.generation > current:
                begin_anew(tx)
                current = meta.generation(tx)
            if given is not None and given.generation == current:
                return given
            if self._check is not None:
                self._check(tx)
            if kept is None or kept.generation > current:
                made = load_snapshot(tx, self.known)
            else:
                made = advance(tx, kept, self.known) or load_snapshot(tx, self.known)
                carry_words(kept, made)
                carry_forests(kept, made)
            now = as_one(made)
            if given is not None and (now is not made or given is not kept):
                carry_words(given, now)
                carry_forests(given, now)
            self._kept, self._given, self._whole = made, now, None
            self._earlier = OrderedDict()
            return now

    def earlier(self, tx: Tx, key: Hashable, make: Callable[[Snapshot, Whole], Snapshot]) -> Snapshot:
        """Return a snapshot derived from the current one; it is kept as long as that is current.

        Args:
            tx: a read transaction in which nothing else was read.
            key: what is made.
            make: makes it, in one thread at a time, of the snapshot in which each stored entity stands for itself. It is also
                given what returns that with what is hidden now, in which no turn is muted: that is kept beside the current one.
        """
        given = self.get(tx)
        base = given.unjoined
        with self._lock:
            current = self._given is given
            found = self._earlier.get(key) if current else None
            if found is None:
                made = make(base, lambda: self._with_hidden(tx, base))
                found = given if made is base else as_one(made)
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
        own = {
            one for one in (kept, self._given, self._whole, *list(self._earlier.values())) if one is not None
        }
        return sum(one.nbytes + forest_bytes(one) for one in own)

    def drop(self) -> int:
        """Forget the kept snapshot and return how many bytes it was; who still reads it keeps it."""
        nbytes, self._kept, self._given = self.nbytes, None, None
        self._whole, self._earlier = None, OrderedDict()
        return nbytes
