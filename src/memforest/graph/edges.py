"""The edges between entities as arrays: what relates two, what names them together, and names that look alike.

Two entities have one edge, whatever joins them. Its weight is the number of statements that name both, and of occurrences
that relate them; names that look alike weigh less than any of these. Edges lie in both directions, those of one entity side
by side, the heaviest first; of equal ones the latest, then by the key of the other end, so that no row id decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.search.snapshot import Ints, ranges

Weights = NDArray[np.float64]

RELATION, TOGETHER, OVERLAP = 1, 2, 4
"""What an edge is made of, as bits of `Edges.kinds`: a relation, statements that name both, names that look alike."""
ALIKE = 0.5
"""Weight of names that look alike."""
MOST_TOGETHER = 32
"""Entities that a statement names at most for all of them to be joined; of one that names more, each is joined with who said it."""


class Pairs(NamedTuple):
    """Pairs of places with what joins them: in any order, a pair as often as it was seen."""

    one: Ints
    other: Ints
    weight: Weights
    first_ms: Ints
    latest_ms: Ints
    kind: NDArray[np.int8]

    @classmethod
    def of(
        cls,
        ends: Sequence[tuple[int, int]],
        weights: Sequence[float],
        times: Sequence[tuple[int, int]],
        kind: int,
    ) -> Pairs:
        """Return pairs of one kind."""
        one, other = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        first, latest = np.array(times, dtype=np.int64).reshape(-1, 2).T
        return cls(
            one,
            other,
            np.array(weights, dtype=np.float64),
            first,
            latest,
            np.full(len(one), kind, dtype=np.int8),
        )


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges by the place they begin at: those of place `p` are the columns [ends[p - 1], ends[p])."""

    ends: Ints
    targets: Ints
    weights: Weights
    first_ms: Ints
    """When something first told of it."""
    latest_ms: Ints
    """When something last did; 0 where nothing but their names joins two."""
    kinds: NDArray[np.int8]
    """Bits: `RELATION`, `TOGETHER`, `OVERLAP`."""

    def span(self, place: int) -> slice:
        """Return the columns of a place."""
        return slice(int(self.ends[place - 1]) if place else 0, int(self.ends[place]))

    def between(self, one: int, other: int) -> int:
        """Return the column of the edge from one place to another, -1 when there is none."""
        span = self.span(one)
        found = np.flatnonzero(self.targets[span] == other)
        return span.start + int(found[0]) if len(found) else -1

    def starts_of(self, places: Ints) -> tuple[Ints, Ints]:
        """Return where the columns of some places begin and end."""
        ends = self.ends[places]
        return np.where(places > 0, self.ends[places - 1], 0), ends

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(sum(getattr(self, name).nbytes for name in self.__slots__))


def pairs_within(
    owners: Ints, members: Ints, hubs: Ints, most: int = MOST_TOGETHER
) -> tuple[Ints, Ints, Ints]:
    """Return every pair of members of one owner, each once: the owner, the smaller member, the larger one.

    In no order that may be relied on.

    Args:
        owners: ascending.
        members: those of one owner are different.
        hubs: by owner; where an owner has more than `most` members, each is paired with this one alone, if it is among them.
        most: see there.

    Example:
        >>> [pairs.tolist() for pairs in pairs_within(np.array([4, 4, 4]), np.array([2, 7, 9]), np.zeros(5, dtype=np.int64))]
        [[4, 4, 4], [2, 2, 7], [7, 9, 9]]
    """
    starts = np.flatnonzero(np.diff(owners, prepend=-1)) if len(owners) else np.zeros(0, dtype=np.int64)
    counts = np.diff(starts, append=len(owners))
    found: list[tuple[Ints, Ints, Ints]] = []
    for size in np.unique(counts[(counts > 1) & (counts <= most)]).tolist():
        left, right = np.triu_indices(size, 1)
        at = starts[counts == size][:, None]
        found.append(
            (np.repeat(owners[at[:, 0]], len(left)), members[at + left].ravel(), members[at + right].ravel())
        )
    for start, count in zip(starts[counts > most].tolist(), counts[counts > most].tolist(), strict=True):
        hub, beside = int(hubs[owners[start]]), members[start : start + count]
        if hub in beside:
            beside = beside[beside != hub]
            found.append((np.full(len(beside), owners[start]), np.full(len(beside), hub), beside))
    owner, one, other = (
        (np.concatenate([owners[:0], *(column)]) for column in zip(*found, strict=True))
        if found
        else (owners[:0],) * 3
    )
    return owner, np.minimum(one, other), np.maximum(one, other)


def join_pairs(count: int, order: Ints, *parts: Pairs) -> Edges:
    """Return the edges that pairs make; a pair of a place with itself makes none.

    Args:
        count: how many places there are.
        order: place -> where it stands among all by its key.
        parts: the pairs.
    """
    one, other, weight, first, latest, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
    apart = one != other
    code = (np.minimum(one, other) * count + np.maximum(one, other))[apart]
    by_code = np.argsort(code, kind="stable")
    code = code[by_code]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    low, high = np.divmod(code[starts], max(count, 1))
    columns = [column[apart][by_code] for column in (weight, first, latest, kind)]
    if len(starts):
        gather = (np.add, np.minimum, np.maximum, np.bitwise_or)
        columns = [how.reduceat(column, starts) for how, column in zip(gather, columns, strict=True)]
    weight, first, latest, kind = (np.concatenate([column, column]) for column in columns)
    source, target = np.concatenate([low, high]), np.concatenate([high, low])
    first[kind == OVERLAP] = 0  # names look alike whenever
    best = np.lexsort((order[target], -latest, -weight, source))
    ends = np.cumsum(np.bincount(source, minlength=count)[:count], dtype=np.int64)
    return Edges(ends, target[best], weight[best], first[best], latest[best], kind[best])


def columns_of(edges: Edges, places: Ints) -> tuple[Ints, Ints]:
    """Return every edge of some places: the place each begins at, and its column."""
    starts, ends = edges.starts_of(places)
    return np.repeat(places, ends - starts), ranges(starts, ends)
