"""The snapshot that a query reads: turns, facts, states and mentions of one memory as arrays, as of one moment.

It is read as a whole once (`load_snapshot`), in columns and blocks, without a copy of all rows. Then each write
updates it (`memforest.search.cache`) by splices: tables made from an older one and the new rows.
Either way the result is the same, and it never changes.

Turns are ordered by session time and position, so a turn's neighbours in its session tree are the rows beside it. Facts
point at the turns that support them. Trees are not in it: they are views of what was said, and each index's are read when
it is asked (`memforest.search.cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.records import TURN_ROLES
from memforest.search.vectors import QUESTION_MARKS, VectorTable, asks
from memforest.store import corrections, derived, meta, reads, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import NOW, ChoiceRow
from memforest.store.facts import EntityRow, FactRow

T = TypeVar("T")
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns as columns, n rows. `previous`/`following` are the row beside it in its session, or -1."""

    ids: Ints
    session: Ints
    speaker: Ints
    """Index into `Snapshot.speakers`."""
    role: NDArray[np.int8]
    """Index into `TURN_ROLES`."""
    said_ms: Ints
    length: Floats
    """Number of lexical tokens."""
    asks: NDArray[np.bool_]
    """Holds a question mark (of any script)."""
    asks_last: NDArray[np.bool_]
    """Ends with one."""
    dated: NDArray[np.bool_]
    """Supports a fact that states a time of its own."""
    known: Floats
    """Share of the text that the memory's embedder has words for, 0 to 1."""
    muted: NDArray[np.bool_]
    """Says what is hidden, so that it may be shown by the facts that it supports alone."""
    begins: NDArray[np.bool_]
    """Begins a chunk."""
    same: Ints
    """A number of this process that turns of one speaker and one text have in common."""
    previous: Ints
    following: Ints
    vectors: VectorTable


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that are not hidden as columns, m rows. `pairs` are (fact row, turn row) of every support, shape (p, 2)."""

    ids: Ints
    speaker: Ints
    start_ms: Ints
    """Start of the stated valid time, else when it was first said."""
    end_ms: Ints
    """End of the stated valid time, else `OPEN`."""
    stated: NDArray[np.bool_]
    said_ms: Ints
    pinned: NDArray[np.bool_]
    """Is evidence of every question."""
    key: Ints
    """The head of its identity: a number that depends on what it says alone."""
    pairs: Ints
    """By fact row, then by turn id."""
    length: Floats
    vectors: VectorTable


class Lists:
    """Short lists of whole numbers, one per row, in two arrays."""

    __slots__ = ("ends", "values")

    def __init__(self, values: Ints, ends: Ints) -> None:
        self.values = values
        self.ends = ends

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Lists:
        """Return the given lists."""
        found = [list(one) for one in lists]
        values = np.array([value for one in found for value in one], dtype=np.int64)
        return cls(values, np.cumsum([len(one) for one in found], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> tuple[int, ...]:
        start = self.ends[row - 1] if row else 0
        return tuple(self.values[start : self.ends[row]].tolist())

    def of_rows(self, rows: Ints) -> Ints:
        """Return the values of some rows, one list behind the other."""
        return self.values[ranges(np.where(rows > 0, self.ends[rows - 1], 0), self.ends[rows])]

    @property
    def counts(self) -> Ints:
        """Length of each list."""
        return np.diff(self.ends, prepend=0)

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return int(self.values.nbytes + self.ends.nbytes)

    @property
    def owners(self) -> Ints:
        """The row of each value."""
        counts = self.counts
        filled = np.flatnonzero(counts)
        return np.repeat(filled, counts[filled])


OPEN = np.iinfo(np.int64).max
"""The end of an interval that has none, ms."""


OBJECT_BYTES = 200
"""What the look-up tables and tuples of one row take, about (measured: 170 to 230 on CPython 3.11)."""
STATE_BYTES = 400


@dataclass(frozen=True, eq=False)
class Delta:
    """The difference of a snapshot from its base, by which values computed on the base are carried over.

    A row that was read again counts as changed, whether it differs or not.
    """

    turn_of: Ints
    """Row of a turn in the base -> its row now, -1 when it is gone."""
    turns: Ints
    """Rows of turns that are new or were read again."""
    facts: Ints
    states: frozenset[tuple[int, str]]
    """(entity, attribute) of every timeline that may differ."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One memory as arrays, as of one moment. Immutable, compared by identity, shared by concurrent readers."""

    generation: int
    dimension: int
    speakers: tuple[str, ...]
    entities: Mapping[int, EntityRow]
    names: Mapping[str, int]
    turns: Turns
    facts: Facts
    states: tuple[reads.StateSeen, ...]
    """By entity, attribute and time."""
    mentions: Ints
    """(fact row, entity id) of every mention, shape (q, 2); by fact row, then entity."""
    relations: tuple[reads.RelationRow, ...] = ()
    """By id."""
    name_uses: tuple[reads.NameUse, ...] = ()
    """By occurrence, entity and name."""
    choices: tuple[ChoiceRow, ...] = ()
    """What people decided of names, the newest of each pair."""
    sessions: tuple[reads.SessionSpan, ...] = ()
    """The sessions in the order of their turns."""
    indexes: tuple[meta.IndexRow, ...] = ()
    """The memory's indexes, by name."""
    waiting: int = 0
    """How many sessions are received but not ingested."""
    position: int = -1
    """Up to where the change log is in this; -1 when it cannot be brought up to date."""
    base: Snapshot | None = None
    """The snapshot of all that the memory holds, when this has only what was held at a moment (`memforest.search.as_of`)."""
    without: frozenset[int] = frozenset()
    """Occurrences that were not held then, of facts that were."""
    restated: Mapping[int, FactRow] = field(default_factory=dict)
    """The facts that said something else of themselves then, by row id of the store."""
    known_ms: int = NOW
    """The moment, UTC ms, whose corrections hold in this."""
    verdicts: Mapping[int, int] | None = None
    """What was decided then of facts of which anything ever was, by row id of the store; None for what is decided now."""
    later: Set[int] = frozenset()
    """Facts that were not held then, by row id of the store."""
    retold: Set[int] = frozenset()
    """Turns of which something is hidden now or was then: what is told above them is of now."""
    joined: Mapping[int, int] = field(default_factory=dict)
    """Entity -> the one that stands for it, of those that people decided to be one."""
    stored: Snapshot | None = None
    """The snapshot in which each of these stands for itself, if in this one they are one."""

    @property
    def unjoined(self) -> Snapshot:
        """The snapshot in which each stored entity stands for itself."""
        return self.stored or self

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the snapshot, with the computed values that `count_bytes` was told of."""
        return self._own_nbytes + _LARGE.get(self, 0)

    @cached_property
    def _own_nbytes(self) -> int:
        """Bytes of its arrays, and the usual size of its Python objects."""
        arrays = sum(
            value.nbytes
            for part in (self.turns, self.facts)
            for name in part.__slots__
            if isinstance(value := getattr(part, name), (np.ndarray, VectorTable))
        )
        objects = len(self.turns.ids) + len(self.facts.ids) + len(self.names)
        told = len(self.states) + len(self.relations) + len(self.name_uses)
        return arrays + self.mentions.nbytes + OBJECT_BYTES * objects + STATE_BYTES * told

    @cached_property
    def turn_row(self) -> dict[int, int]:
        """Turn id -> row."""
        return dict(zip(self.turns.ids.tolist(), range(len(self.turns.ids)), strict=True))

    @cached_property
    def fact_row(self) -> dict[int, int]:
        """Fact id -> row."""
        return dict(zip(self.facts.ids.tolist(), range(len(self.facts.ids)), strict=True))

    def rows_of_facts(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the rows of facts, in the order given, without those that are not there."""
        wanted = np.array(ids, dtype=np.int64)
        rows = np.searchsorted(self.facts.ids, wanted)
        here = rows < len(self.facts.ids)
        here[here] = self.facts.ids[rows[here]] == wanted[here]
        return tuple(rows[here].tolist())

    @cached_property
    def turns_of_fact(self) -> Lists:
        """Fact row -> rows of the turns that support it."""
        facts, turns = self.facts.pairs.T
        return Lists(turns, np.searchsorted(facts, np.arange(len(self.facts.ids)), side="right"))


def ranges(starts: Ints, ends: Ints) -> Ints:
    """Return the numbers of [start, end) of each pair, one range behind the other.

    Example:
        >>> ranges(np.array([5, 0]), np.array([7, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    counts = ends - starts
    before = np.cumsum(counts) - counts
    found: Ints = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return found


_LARGE: WeakKeyDictionary[Snapshot, int] = WeakKeyDictionary()


def count_bytes(snapshot: Snapshot, nbytes: int) -> None:
    """Add the bytes of a value that was computed on a snapshot, and is kept with it."""
    _LARGE[snapshot] = _LARGE.get(snapshot, 0) + nbytes


Carry = Callable[[Snapshot, Delta, T], T]

_REMEMBERED: list[tuple[WeakKeyDictionary[Snapshot, Any], Carry[Any] | None]] = []


def once_per_snapshot(
    make: Callable[[Snapshot], T], carry: Carry[T] | None = None
) -> Callable[[Snapshot], T]:
    """Make a function of a snapshot remember its result for as long as the snapshot is in use.

    The result is shared: nobody may change it. Two threads may both make it the first time.

    Args:
        make: makes the result.
        carry: makes it from that of the snapshot which this one came of; used when that one had a result.
    """
    made: WeakKeyDictionary[Snapshot, T] = WeakKeyDictionary()
    _REMEMBERED.append((made, carry))

    @wraps(make)
    def remembered(snapshot: Snapshot) -> T:
        try:
            return made[snapshot]
        except KeyError:
            return made.setdefault(snapshot, make(snapshot))

    return remembered


def carry_over(base: Snapshot, made: Snapshot, delta: Delta) -> None:
    """Carry values computed on a snapshot's base over to it."""
    for results, carry in _REMEMBERED:
        if carry is not None and base in results:
            results[made] = carry(made, delta, results[base])


def share_all(base: Snapshot, made: Snapshot) -> None:
    """Share all computed values between two snapshots of equal content."""
    for results, _ in _REMEMBERED:
        if base in results:
            results[made] = results[base]
    count_bytes(made, _LARGE.get(base, 0))


@dataclass(frozen=True, slots=True)
class Splice:
    """A table made from an older one: `take` has, per row, the old row, or the old length + the row read."""

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


def rows_of(ids: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted id in a column of ids in any order, -1 where it is missing."""
    if not len(ids) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    if (ids[1:] > ids[:-1]).all():
        found = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        return np.where(ids[found] == wanted, found, -1)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    found = order[at]
    return np.where(ids[found] == wanted, found, -1)


def spliced(old_ids: Ints, kept: Ints, read_ids: Ints, at: Ints) -> Splice:
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
    return Splice(take, len(old_ids), now)


def sorted_splice(old_ids: Ints, gone: Collection[int], read_ids: Ints) -> Splice:
    """Return the splice of a table that is in the order of its ids."""
    out = rows_of(old_ids, as_array(gone))
    kept = np.delete(np.arange(len(old_ids)), out[out >= 0])
    return spliced(old_ids, kept, read_ids, np.searchsorted(old_ids[kept], read_ids))


def as_array(values: Collection[int]) -> Ints:
    """Return whole numbers as an array."""
    return np.fromiter(values, dtype=np.int64, count=len(values))


def spliced_vectors(
    tx: Tx, kind: derived.ItemKind, table: VectorTable, splice: Splice, ids: Ints, changed: Collection[int]
) -> VectorTable:
    """Return the vectors of a spliced table: those of changed items are read, the others stay where they are."""
    if not changed:
        return table
    return read_again(tx, kind, table, splice.source, ids, changed)


def read_again(
    tx: Tx, kind: derived.ItemKind, table: VectorTable, source: Ints, ids: Ints, changed: Collection[int]
) -> VectorTable:
    """Return the vectors of the items with the given ids.

    Args:
        tx: a read transaction.
        kind: of the items.
        table: the vectors that there were.
        source: for each item its row in that table, -1 for none.
        ids: of the items.
        changed: items whose vectors are read instead.
    """
    at = rows_of(ids, as_array(changed))
    source[at[at >= 0]] = -1
    items, found = [np.zeros(0, dtype=np.int64)], [np.zeros((0, table.dimension), dtype=np.float32)]
    for block, vectors in derived.vector_blocks(tx, kind, changed):
        items.append(block)
        found.append(vectors)
    at = rows_of(ids, np.concatenate(items))
    return table.changed(source, at[at >= 0], np.concatenate(found)[at >= 0])


Bools = NDArray[np.bool_]
C = TypeVar("C", "TurnColumns", "FactColumns")
Known = Callable[[Sequence[str]], Sequence[float]]
"""Returns which share of each text an embedder has words for."""

BLOCK = 4096
"""Rows turned into columns at a time."""


@dataclass(frozen=True, slots=True)
class TurnColumns:
    """Turns by session and position. `speaker` is a code given by the reader."""

    ids: Ints
    session: Ints
    speaker: Ints
    role: NDArray[np.int8]
    said_ms: Ints
    asks: Bools
    asks_last: Bools
    known: Floats
    length: Floats
    muted: Bools
    begins: Bools
    same: Ints


@dataclass(frozen=True, slots=True)
class FactColumns:
    """Facts by id, as in `Facts`."""

    ids: Ints
    speaker: Ints
    start_ms: Ints
    end_ms: Ints
    stated: Bools
    said_ms: Ints
    pinned: Bools
    key: Ints
    length: Floats


def joined(first: C, second: C, take: Ints) -> C:
    """Return the columns of two tables one behind the other, in the order of `take`."""
    return type(first)(
        *(
            np.concatenate([getattr(first, field.name), getattr(second, field.name)])[take]
            for field in fields(first)
        )
    )


def blocks(found: Iterable[Any]) -> Iterable[list[Any]]:
    """Yield rows in blocks of at most `BLOCK`."""
    source = iter(found)
    while block := list(islice(source, BLOCK)):
        yield block


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def all_known(texts: Sequence[str]) -> Sequence[float]:
    """Return 1 for every text: what holds of an embedder that cannot say."""
    return [1.0] * len(texts)


def read_turns(
    tx: Tx, codes: dict[str, int], only: Collection[int] | None = None, *, known: Known = all_known
) -> TurnColumns:
    """Return the turns of sessions, of all when `only` is None; new speakers get the next codes. None is muted yet."""
    parts = []
    for block in blocks(reads.turn_rows(tx, only)):
        n = len(block)
        ids, sessions, speakers, said_ms, texts, roles = zip(*block, strict=True)
        parts.append(
            TurnColumns(
                ids=_ints(ids),
                session=_ints(sessions),
                speaker=_ints(codes.setdefault(name, len(codes)) for name in speakers),
                role=np.fromiter((_ROLE_CODES.get(role or "", 0) for role in roles), np.int8, n),
                said_ms=_ints(said_ms),
                asks=np.fromiter(
                    (any(mark in text for mark in QUESTION_MARKS) for text in texts), np.bool_, n
                ),
                asks_last=np.fromiter(map(asks, texts), np.bool_, n),
                known=np.fromiter(known(list(texts)), np.float32, n),
                length=np.zeros(n, dtype=np.float32),
                muted=np.zeros(n, dtype=np.bool_),
                begins=np.zeros(n, dtype=np.bool_),
                same=_ints(map(hash, zip(speakers, texts, strict=True))),
            )
        )
    found: TurnColumns = _together(TurnColumns, parts)
    return replace(
        found,
        length=_lengths(tx, "turn", found.ids, only is None),
        begins=np.isin(found.ids, _ints(reads.first_of_chunks(tx, only))),
    )


def read_facts(tx: Tx, only: Collection[int] | None = None, *, hidden: bool = False) -> FactColumns:
    """Return facts, all of them when `only` is None; with `hidden` those too that are hidden."""
    parts = []
    for block in blocks(reads.fact_rows(tx, only, hidden=hidden)):
        ids, speakers, starts, ends, said, fact_ids, pinned = zip(*block, strict=True)
        parts.append(
            FactColumns(
                ids=_ints(ids),
                speaker=_ints(speakers),
                start_ms=_ints(first if ms is None else ms for ms, first in zip(starts, said, strict=True)),
                end_ms=_ints(OPEN if ms is None else ms for ms in ends),
                stated=np.array([ms is not None for ms in starts], dtype=np.bool_),
                said_ms=_ints(said),
                pinned=np.array(pinned, dtype=np.bool_),
                key=_ints(int(one[-15:], 16) for one in fact_ids),
                length=np.zeros(len(block), dtype=np.float32),
            )
        )
    found: FactColumns = _together(FactColumns, parts)
    return replace(found, length=_lengths(tx, "fact", found.ids, only is None))


_ROLE_CODES = {role: code for code, role in enumerate(TURN_ROLES)}
_TYPES: Mapping[str, Any] = {
    "role": np.int8,
    "asks": np.bool_,
    "asks_last": np.bool_,
    "stated": np.bool_,
    "pinned": np.bool_,
    "muted": np.bool_,
    "begins": np.bool_,
    "known": np.float32,
    "length": np.float32,
}


def _together(kind: Any, parts: Sequence[Any]) -> Any:
    """Return columns one behind the other; none of them when there are no parts."""
    columns = (
        np.concatenate([np.zeros(0, dtype=_TYPES.get(one.name, np.int64)), *map(attrgetter(one.name), parts)])
        for one in fields(kind)
    )
    return kind(*columns)


def _lengths(tx: Tx, kind: Literal["turn", "fact"], ids: Ints, everything: bool) -> Floats:
    """Return the number of lexical tokens of items."""
    counts = derived.word_counts(tx, kind, None if everything else ids.tolist())
    return np.array([counts.get(i, 0) for i in ids.tolist()], dtype=np.float32)


def by_appearance(codes: Ints, names: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return codes and their names renumbered by first appearance, without names that do not appear."""
    first = np.full(len(names), len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the first one is written last
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    number = np.full(len(names), -1, dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[codes], tuple(names[i] for i in order.tolist())


def make_turns(columns: TurnColumns, dated: Bools, vectors: VectorTable) -> Turns:
    """Return the turns of columns that are in their final order."""
    n, session = len(columns.ids), columns.session
    same = session[1:] == session[:-1]
    previous, following = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    previous[1:][same] = np.flatnonzero(same)
    following[:-1][same] = np.flatnonzero(same) + 1
    values = {field.name: getattr(columns, field.name) for field in fields(columns)}
    return Turns(**values, dated=dated, previous=previous, following=following, vectors=vectors)


def muted_among(tx: Tx, ids: Ints) -> Bools:
    """Return which turns, by id, are muted now; few ever are."""
    return np.isin(ids, _ints(reads.muted_turns(tx)))


def dated_turns(n: int, pairs: Ints, stated: Bools) -> Bools:
    """Return which of `n` turns support a fact that states a time."""
    dated = np.zeros(n, dtype=np.bool_)
    dated[pairs[stated[pairs[:, 0]], 1]] = True
    return dated


def _vectors(tx: Tx, kind: derived.ItemKind, ids: Ints, dimension: int) -> VectorTable:
    table = VectorTable.blank(len(ids), dimension)
    for items, vectors in derived.vector_blocks(tx, kind):
        at = rows_of(ids, items)
        table.fill(at[at >= 0], vectors[at >= 0])
    return table


def of_now(tx: Tx) -> dict[str, Any]:
    """Return the fields of a snapshot that are read anew whenever the generation moves."""
    choices = corrections.read(tx)
    return {
        "generation": meta.generation(tx),
        "indexes": tuple(meta.index_rows(tx)),
        "waiting": sessions.waiting(tx),
        "position": meta.change_position(tx),
        "choices": tuple(choices),
        "joined": joined_entities(tx, choices),
    }


def groups_of(
    choices: Iterable[ChoiceRow], keys: Mapping[int, str]
) -> tuple[dict[int, frozenset[int]], dict[int, set[int]], list[tuple[int, int]]]:
    """Return which entities people decided to be one: newest first, each decision unless a newer one contradicts it.

    Of two of one moment that two are apart comes first. Decisions about an entity without a key wait for it.

    Returns:
        Entity -> all that it is one with, itself too; entity -> those that it is not; and the pairs that made the groups, by key.
    """
    known = [one for one in choices if one.entity in keys and one.other in keys and one.entity != one.other]
    known.sort(key=lambda one: (-one.made_ms, one.same, *sorted((keys[one.entity], keys[one.other]))))
    groups: dict[int, frozenset[int]] = {}
    apart: dict[int, set[int]] = {}
    pairs = []
    for one in known:
        first, second = (groups.get(end, frozenset((end,))) for end in (one.entity, one.other))
        if one.same:
            if one.other in first or any(not apart.get(end, set()).isdisjoint(second) for end in first):
                continue
            groups.update(dict.fromkeys(first | second, first | second))
            into, gone = sorted((one.entity, one.other), key=keys.__getitem__)
            pairs.append((gone, into))
        elif one.other not in first:
            apart.setdefault(one.entity, set()).add(one.other)
            apart.setdefault(one.other, set()).add(one.entity)
    return groups, apart, pairs


def joined_entities(tx: Tx, choices: Sequence[ChoiceRow] | None = None) -> dict[int, int]:
    """Return entity -> the one that stands for it, of those that people decided to be one; by some choices, else by those of now.

    Who takes part stands for others, else the longest name, as it says most; so it does not matter which was stored first.
    """
    choices = corrections.read(tx) if choices is None else choices
    if not any(one.same for one in choices):
        return {}
    named = facts_rows.entities(tx, {end for one in choices for end in (one.entity, one.other)})
    joined = {}
    for row, group in groups_of(choices, {row: one.key for row, one in named.items()})[0].items():
        ends = [named[end] for end in group]
        first = min(ends, key=lambda one: (one.kind != "participant", -len(one.key), one.key)).row
        if first != row:
            joined[row] = first
    return joined


def members_of(joined: Mapping[int, int], entity: int) -> list[int]:
    """Return the stored entities that an entity stands for, itself first."""
    return [entity, *(row for row, first in joined.items() if first == entity)]


def as_one(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot in which the entities that people decided to be one are one; itself where there are none."""
    joined = snapshot.joined
    if not joined:
        return snapshot
    mentions, speaker = snapshot.mentions.copy(), snapshot.facts.speaker.copy()
    for row, first in joined.items():
        mentions[mentions[:, 1] == row, 1] = first
        speaker[speaker == row] = first
    states = (one._replace(entity=joined.get(one.entity, one.entity)) for one in snapshot.states)
    return replace(
        snapshot,
        entities={row: one for row, one in snapshot.entities.items() if row not in joined},
        names={key: joined.get(row, row) for key, row in snapshot.names.items()},
        facts=replace(snapshot.facts, speaker=speaker),
        states=tuple(sorted(states, key=STATE_ORDER)),
        mentions=np.unique(mentions, axis=0),
        stored=snapshot,
    )


STATE_ORDER = attrgetter("entity", "attribute", "at_ms", "tie", "fact")


def load_snapshot(tx: Tx, known: Known = all_known, *, hidden: bool = False) -> Snapshot:
    """Read the searchable state of a memory, all of it.

    Args:
        tx: a read transaction.
        known: which share of texts the memory's embedder has words for.
        hidden: read what is hidden now as well, and mute nothing: for what was held at an earlier moment.
    """
    dimension = derived.dimension(tx) or 0
    spans = reads.session_spans(tx)
    codes: dict[str, int] = {}
    turns = read_turns(tx, codes, known=known)
    rank = rows_of(_ints(span.id for span in spans), turns.session)
    turns = joined(turns, _together(TurnColumns, ()), np.argsort(rank, kind="stable"))
    speaker, speakers = by_appearance(turns.speaker, list(codes))
    facts = read_facts(tx, hidden=hidden)
    pairs = np.array(reads.supports(tx, hidden=hidden), dtype=np.int64).reshape(-1, 2)
    pairs = np.stack([rows_of(facts.ids, pairs[:, 0]), rows_of(turns.ids, pairs[:, 1])], axis=1)
    mentions = np.array(reads.mentions(tx, hidden=hidden), dtype=np.int64).reshape(-1, 2)
    mentions[:, 0] = rows_of(facts.ids, mentions[:, 0])
    return Snapshot(
        **of_now(tx),
        dimension=dimension,
        speakers=speakers,
        entities=facts_rows.entities(tx),
        names=reads.names(tx),
        turns=make_turns(
            replace(turns, speaker=speaker, muted=turns.muted if hidden else muted_among(tx, turns.ids)),
            dated_turns(len(turns.ids), pairs, facts.stated),
            _vectors(tx, "turn", turns.ids, dimension),
        ),
        facts=Facts(
            **{field.name: getattr(facts, field.name) for field in fields(facts)},
            pairs=pairs,
            vectors=_vectors(tx, "fact", facts.ids, dimension),
        ),
        states=tuple(reads.states_seen(tx, hidden=hidden)),
        mentions=mentions,
        relations=tuple(reads.relations(tx, hidden=hidden)),
        name_uses=tuple(reads.name_uses(tx, hidden=hidden)),
        sessions=tuple(spans),
    )
