"""Which turn or fact holds which token, and how often: the inverted index in memory.

FTS5 has the same on disk, but one term's rows come out of it a Python object at a time, which takes a tenth of a
second for a name that half of a large memory holds. Here a term's postings are two slices of two arrays. They
are read once, from the text of the word rows, and then brought up to date with the rows that were written since.

A posting takes three to eight bytes, so all of them are a few hundredths of the vectors; a memory of more than
`MAX_TOKENS` tokens is read from FTS5 term by term instead.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.store import derived
from memforest.store.tx import Tx

Kind = Literal["turn", "fact"]
Ints = NDArray[np.int64]

MAX_TOKENS = 40_000_000
"""Tokens of one kind of item that are held in memory: some 300 MB at most, of two million turns or more."""

MAX_LATER = 2_048
"""Items that may differ from the arrays before these are made anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The postings of all turns or of all facts as they were after one change. Immutable.

    The arrays hold the items of one moment; `later` holds what became of items that have changed since, None for
    those that are gone, and takes the place of what the arrays say of them.
    """

    change: int
    """Number of the last change of a word row that is in it."""
    terms: Mapping[str, int]
    starts: Ints
    """Term number -> where its postings begin; one more at the end."""
    items: NDArray[np.integer]
    counts: NDArray[np.integer]
    later: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)
    later_terms: Mapping[str, tuple[Ints, Ints]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.starts.nbytes + self.items.nbytes + self.counts.nbytes

    @property
    def top(self) -> int:
        """The largest item, 0 when there is none."""
        return max(int(self.items.max(initial=0)), max(self.later, default=0))

    def of(self, term: str) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return the items that hold a term by the arrays, and how often; without what came later."""
        number = self.terms.get(term)
        if number is None:
            return self.items[:0], self.counts[:0]
        part = slice(self.starts[number], self.starts[number + 1])
        return self.items[part], self.counts[part]


def read_postings(tx: Tx, kind: Kind) -> Postings:
    """Read all postings of a kind."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    number_of = numbers.__getitem__
    items, lengths, tokens = array("q"), array("q"), array("q")
    for item, words in derived.all_words(tx, kind):
        found = words.split()
        tokens.extend(map(number_of, found))
        items.append(item)
        lengths.append(len(found))
    places = np.repeat(np.arange(len(items)), np.frombuffer(lengths, dtype=np.int64))
    keys = np.frombuffer(tokens, dtype=np.int64) * max(len(items), 1) + places
    keys, counts = np.unique(keys, return_counts=True)
    term, place = np.divmod(keys, max(len(items), 1))
    held = np.frombuffer(items, dtype=np.int64)[place]
    return Postings(
        change=derived.last_word_change(tx),
        terms=dict(numbers),
        starts=np.searchsorted(term, np.arange(len(numbers) + 1)),
        items=_narrow(held),
        counts=_narrow(counts),
    )


def _narrow(values: Ints) -> NDArray[np.integer]:
    """Return values in the smallest unsigned type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def bring_up_to_date(tx: Tx, kind: Kind, old: Postings) -> Postings:
    """Return the postings of a transaction's state, from those of an earlier one where that is less work."""
    if old.change == derived.last_word_change(tx):
        return old
    changed = derived.changed_words(tx, kind, old.change)
    if changed is None or len(old.later) + len(changed) > MAX_LATER:
        return read_postings(tx, kind)
    later = {**old.later, **changed}
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for item, tokens in later.items():
        for token, count in Counter(tokens or ()).items():
            found[token].append((item, count))
    return Postings(
        change=derived.last_word_change(tx),
        terms=old.terms,
        starts=old.starts,
        items=old.items,
        counts=old.counts,
        later=later,
        later_terms={token: _columns(rows) for token, rows in found.items()},
    )


def _columns(rows: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    items, counts = np.array(rows, dtype=np.int64).T
    return items, counts
