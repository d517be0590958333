"""Vectors by row, for snapshots that share what has not changed.

The numbers stand in one array that only ever grows at its end; a table says which place of it each of its rows
has. So a table that differs from another in a few rows costs those rows and one array of places, and
whoever still reads the older one is not disturbed. When more than half of the places are unused, or the
array is full, the next table gets an array of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, cosines, cosines_of_two

T = TypeVar("T")
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

ROOM = 1.25
"""A new array has room for this many times what it must hold; pages that are not written to take no memory."""
SPARE = 1024


SIDE_BY_SIDE = 32_768
"""Rows from which two threads share a comparison. Below, starting one and waiting for it costs more than it saves."""


class Side(Generic[T]):
    """One piece of work in a thread of its own, which ends with its block: no thread outlives it into a fork or exit.

    Raises:
        Exception: from `result`, whatever the work raised.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(work,), name="memforest-side", daemon=True)

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - it is raised again where the result is asked for
            self._future.set_exception(exc)

    def __enter__(self) -> Side[T]:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._thread.join()

    def result(self) -> T:
        """Return the result of the work; to be called after the block."""
        return self._future.result(timeout=0)


class _Shared:
    """The growing array; place 0 is the zero vector, for rows that have none."""

    def __init__(self, capacity: int, dimension: int) -> None:
        self.array = np.empty((capacity, dimension), dtype=np.float32)
        self.array[0] = 0
        self.filled = 1
        self._lock = threading.Lock()

    def append(self, vectors: Floats) -> int | None:
        """Append vectors and return the place of the first; None when there is no room."""
        with self._lock:
            first, end = self.filled, self.filled + len(vectors)
            if end > len(self.array):
                return None
            self.array[first:end] = vectors
            self.filled = end
            return first


class VectorTable:
    """Unit vectors of shape (rows, dimension); immutable. A row without a vector is zero."""

    __slots__ = ("_places", "_plain", "_shared", "_used")
    __array_ufunc__ = None  # arithmetic with arrays is an error, not a slow loop over rows

    def __init__(self, shared: _Shared, places: Ints, used: int) -> None:
        self._shared = shared
        self._places = places
        self._used = used
        self._plain = bool(len(places) + 1 == used and (places == np.arange(1, used)).all())

    @classmethod
    def of(cls, vectors: Any) -> VectorTable:
        """Return a table of an array of shape (rows, dimension), which is copied."""
        rows = np.asarray(vectors, dtype=np.float32)
        made = cls.blank(len(rows), rows.shape[1])
        made.fill(np.arange(len(rows)), rows)
        return made

    @classmethod
    def blank(cls, rows: int, dimension: int) -> VectorTable:
        """Return a table of zero vectors; its maker may `fill` it before anybody reads it."""
        shared = _Shared(round((rows + SPARE) * ROOM), dimension)
        shared.array[1 : rows + 1] = 0
        shared.filled = rows + 1
        return cls(shared, np.arange(1, rows + 1, dtype=np.int64), rows + 1)

    def fill(self, rows: Ints, vectors: Floats) -> None:
        """Set the vectors of rows; for the maker of a blank table only."""
        self._shared.array[self._places[rows]] = vectors

    def __len__(self) -> int:
        return len(self._places)

    @property
    def dimension(self) -> int:
        """Length of the vectors, 0 while there are none."""
        return int(self._shared.array.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes that are in use."""
        return int(self._shared.filled * self.dimension * 4 + self._places.nbytes)

    @property
    def rows(self) -> Floats:
        """The vectors as one array of shape (rows, dimension), read-only; copied when rows were changed."""
        if self._plain:
            view: Floats = self._shared.array[1 : self._used]
            view.flags.writeable = False
            return view
        return np.take(self._shared.array, self._places, axis=0)

    def __getitem__(self, rows: Any) -> Floats:
        """Return the vectors of some rows, copied."""
        return np.take(self._shared.array, np.asarray(self._places[rows]), axis=0)

    def cosines(self, vector: Floats) -> Scores:
        """Return the cosine of every row with a unit vector, shape (rows,).

        Each is summed by itself, so it does not depend on where the row stands.
        """
        (found,) = self._compared(lambda part: (cosines(part, vector),))
        return found

    def cosines_of_two(self, one: Floats, other: Floats) -> tuple[Scores, Scores]:
        """Return `cosines` with two unit vectors; the rows are read once."""
        first, second = self._compared(lambda part: cosines_of_two(part, one, other))
        return first, second

    def _compared(self, compare: Callable[[Floats], tuple[Scores, ...]]) -> tuple[Scores, ...]:
        """Return the result of a comparison for every row; rows are independent, so two halves may run in parallel."""
        array = self._shared.array[int(self._plain) : self._used]
        if len(array) < SIDE_BY_SIDE or (os.cpu_count() or 1) < 2:
            found = compare(array)
        else:
            middle = len(array) // 2
            with Side(partial(compare, array[middle:])) as side:
                head = compare(array[:middle])
            found = tuple(np.concatenate(pair) for pair in zip(head, side.result(), strict=True))
        return found if self._plain else tuple(np.take(one, self._places) for one in found)

    def cosines_at(self, rows: Ints, vector: Floats) -> Scores:
        """Return `cosines` of some rows, shape (len(rows),), at the cost of those."""
        return cosines(self[rows], vector)

    def changed(self, take: Ints, rows: Sequence[int] | Ints, vectors: Floats) -> VectorTable:
        """Return a table that differs from this one in some rows.

        Args:
            take: for each new row the old row whose vector it keeps, -1 for none.
            rows: new rows that get a vector.
            vectors: theirs, shape (len(rows), dimension).
        """
        places = np.zeros(len(take), dtype=np.int64)
        kept = take >= 0
        places[kept] = self._places[take[kept]]
        places[rows] = 0
        live = int(np.count_nonzero(places)) + len(rows)
        sparse = self._used + len(rows) > 2 * live + SPARE
        first = None if sparse else self._shared.append(vectors)
        if first is None:
            return self._moved(places, rows, vectors)
        places[rows] = np.arange(first, first + len(rows))
        return VectorTable(self._shared, places, first + len(rows))

    def _moved(self, places: Ints, rows: Sequence[int] | Ints, vectors: Floats) -> VectorTable:
        """Return a table with an array of its own."""
        made = VectorTable.blank(len(places), self.dimension)
        np.take(self._shared.array, places, axis=0, out=made._shared.array[1 : len(places) + 1])
        made.fill(np.asarray(rows, dtype=np.int64), vectors)
        return made
