"""The snapshot that a query reads: turns, facts, states and mentions of one memory as arrays, as of one moment.

It is read as a whole once (`memforest.search.load`) and from then on brought up to date by what was written
(`memforest.search.advance`); either way the result is the same, and it never changes. Turns are ordered by session time and position, so a turn's neighbours in its session tree are the rows
beside it. Facts point at the turns that support them. Trees are not in it: they are views of what was said, and each
index's are read when it is asked (`memforest.search.forests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.vectors import VectorTable
from memforest.store import snapshot as rows
from memforest.store.corrections import NOW
from memforest.store.facts import FactRow

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
    entities: Mapping[int, rows.EntityName]
    names: Mapping[str, int]
    turns: Turns
    facts: Facts
    states: tuple[rows.StateSeen, ...]
    """By entity, attribute and time."""
    mentions: Ints
    """(fact row, entity id) of every mention, shape (q, 2); by fact row, then entity."""
    sessions: tuple[rows.SessionSpan, ...] = ()
    """The sessions in the order of their turns."""
    position: int = -1
    """Up to where the change log is in this; -1 when it cannot be brought up to date."""
    base: Snapshot | None = None
    """The snapshot of all that the memory holds, when this has only what was held at a moment (`memforest.systems.moments`)."""
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
        return arrays + self.mentions.nbytes + OBJECT_BYTES * objects + STATE_BYTES * len(self.states)

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
