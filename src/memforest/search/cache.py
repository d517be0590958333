"""The snapshot of one memory that queries share, brought up to date when something was written."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memforest.search.advance import advance
from memforest.search.forests import carry_forests, forest_bytes
from memforest.search.lexical import carry_words
from memforest.search.load import Known, all_known, load_snapshot
from memforest.search.snapshot import Snapshot
from memforest.store import meta
from memforest.store.tx import Tx, begin_anew

__all__ = ["SnapshotCache"]

Check = Callable[[Tx], object]


def _no_check(_tx: Tx) -> None:
    """Accept any memory."""


class SnapshotCache:
    """Keeps one memory's snapshot, and brings it up to date when the generation moves; for any thread."""

    def __init__(self, known: Known = all_known, check: Check = _no_check) -> None:
        """Make a cache.

        Args:
            known: which share of texts the memory's embedder has words for.
            check: raises if the memory, as it is now, cannot be read by whom the cache is for.
        """
        self.known = known
        self._check = check
        self._lock = threading.Lock()
        self._kept: Snapshot | None = None

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
            self._check(tx)
            if kept is None or kept.generation > current:
                made = load_snapshot(tx, self.known)
            else:
                made = advance(tx, kept, self.known) or load_snapshot(tx, self.known)
                carry_words(kept, made)
                carry_forests(kept, made)
            self._kept = made
            return made

    @property
    def nbytes(self) -> int:
        """Bytes of the kept snapshot and of its forests, about; 0 when there is none."""
        kept = self._kept
        return 0 if kept is None else kept.nbytes + forest_bytes(kept)

    def drop(self) -> int:
        """Forget the kept snapshot and return how many bytes it was; who still reads it keeps it."""
        nbytes, self._kept = self.nbytes, None
        return nbytes
