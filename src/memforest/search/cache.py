"""The snapshot of one memory that queries share, brought up to date when something was written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol

from memforest.search.advance import advance
from memforest.search.forests import carry_forests, forest_bytes
from memforest.search.lexical import carry_words
from memforest.search.load import Known, all_known, load_snapshot
from memforest.search.snapshot import Snapshot
from memforest.store import meta
from memforest.store.tx import Tx, begin_anew

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
        """Return what is made from the snapshot of the transaction's state, kept for as long as that is the current one.

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
