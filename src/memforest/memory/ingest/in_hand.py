"""Which sessions the writes of this process are at work on: `resume` leaves those to them, as two would pay twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class InHand:
    """The sessions of one memory that are being written, by row id; for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: dict[int, set[int]] = {}
        self._next = 0

    @contextmanager
    def write(self) -> Iterator[int]:
        """Hold sessions inside the block; yield the number of the write, for `hold`."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._writes[number] = set()
        try:
            yield number
        finally:
            with self._lock:
                del self._writes[number]

    def hold(self, number: int, *rows: int) -> None:
        """Say that a write is at work on sessions, until it ends."""
        with self._lock:
            self._writes[number].update(rows)

    def rows(self) -> frozenset[int]:
        """Return the sessions that a write is at work on."""
        with self._lock:
            return frozenset[int]().union(*self._writes.values())
