"""Forks: no SQLite connection crosses one, and no thread is inside SQLite while one happens.

SQLite keeps, per process and file, which locks it holds. A forked child inherits that knowledge but not the
locks, also for connections that it opens itself, so another process may delete the log that the child
writes to (https://www.sqlite.org/howtocorrupt.html section 2.6). Therefore a fork waits until no thread is in
a transaction, closes every connection, and both processes open theirs anew at the next use.

Transactions are short, so the wait is too. If one outlasts `WAIT_S`, or the fork is made from inside one, the
child can use every memory but those in use at that moment, which it refuses with an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S = 10.0
"""How long a fork waits for the transactions of other threads."""


class ForkGate:
    """Counts the threads inside SQLite; while a fork is under way no more get in."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset the gate in a forked child, where the parent's threads do not exist."""
        self._change = threading.Condition()
        self._inside = 0
        self._forks = 0
        self._own = threading.local()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold off forks inside the block; may be nested in one thread."""
        depth = getattr(self._own, "depth", 0)
        if not depth:
            with self._change:
                self._change.wait_for(lambda: not self._forks)
                self._inside += 1
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            if not depth:
                with self._change:
                    self._inside -= 1
                    self._change.notify_all()

    def shut(self, timeout_s: float = WAIT_S) -> bool:
        """Close the gate and wait until all threads are out; return whether they are. To be followed by `open`."""
        self._change.acquire()
        self._forks += 1
        if getattr(self._own, "depth", 0):
            return False
        return self._change.wait_for(lambda: not self._inside, timeout_s)

    def open(self) -> None:
        """Open the gate again, in the process that forked."""
        self._forks -= 1
        self._change.notify_all()
        self._change.release()


GATE = ForkGate()
"""The gate of this process."""
