"""The lexical leg: BM25 over the tokens that FTS5 indexes, with its postings held in memory.

FTS5 is the durable, incremental inverted index. The scores are ours, because its own ``bm25()`` has fixed constants
(k1 1.2, b .75). k1 .9 and b .4 are the values tuned for short passages in Anserini
(https://github.com/castorini/anserini). On conversations they measured 0.7 recall@10 better than 1.2/.75.

One term's rows come out of FTS5 a Python object at a time, which takes a tenth of a second for a name that half of a large
memory holds. In memory a term's postings are two slices of two arrays. They are read once, from the text of the word
rows, and then brought up to date with the rows that were written since. A posting takes three to eight bytes, so all of
them are a few hundredths of the vectors; a memory of more than `MAX_TOKENS` tokens is read from FTS5 term by term.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.scores import Scores, term_scores
from memforest.search.snapshot import Snapshot
from memforest.store import derived
from memforest.store.connections import Tx

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
    later_terms: Mapping[str, tuple[Ints, ...]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.starts.nbytes + self.items.nbytes + self.counts.nbytes


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
        items=held.astype(np.min_scalar_type(int(held.max(initial=0)))),  # the smallest type that holds them
        counts=counts.astype(np.min_scalar_type(int(counts.max(initial=0)))),
    )


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
        later_terms={token: tuple(np.array(rows, dtype=np.int64).T) for token, rows in found.items()},
    )


K1 = 0.9
B = 0.4

Kind = Literal["turn", "fact"]
_Rows = NDArray[np.int64]


def bm25(
    tx: Tx, snapshot: Snapshot, kind: Kind, tokens: Sequence[str], *, max_tokens: int = MAX_TOKENS
) -> Scores:
    """Return the BM25 score of every turn or fact for the tokens of a question, shape (n,).

    Args:
        tx: a read transaction of the snapshot's generation.
        snapshot: of the memory.
        kind: which index.
        tokens: of the question; repeats count once.
        max_tokens: a memory of more is not held in memory, but read from disk term by term.
    """
    lengths = (snapshot.turns if kind == "turn" else snapshot.facts).length.astype(np.float64)
    scores = np.zeros(len(lengths))
    if not len(lengths):
        return scores
    mean = float(lengths.mean())
    for rows, counts in _found(tx, snapshot, kind, tokens, max_tokens):
        times = counts.astype(np.float64)
        scores[rows] += term_scores(times, lengths[rows], mean, len(lengths), k1=K1, b=B)
    return scores


def bm25_of_runs(
    tx: Tx,
    snapshot: Snapshot,
    tokens: Sequence[str],
    run_of: _Rows,
    count: int,
    *,
    k1: float = K1,
    b: float = B,
) -> Scores:
    """Return the BM25 score of every run of turns, each taken as one document, shape (count,).

    Args:
        tx: a read transaction of the snapshot's generation.
        snapshot: of the memory.
        tokens: of the question; repeats count once.
        run_of: number of the run that each turn is in, -1 for none, shape (n,).
        count: how many runs there are.
        k1: how fast more of one word stops to count.
        b: how far longer runs are held to be so.
    """
    scores = np.zeros(count)
    placed = run_of >= 0
    if not placed.any():
        return scores
    lengths: Scores = np.zeros(count)
    np.add.at(lengths, run_of[placed], snapshot.turns.length[placed])
    mean = float(lengths.mean())
    for rows, counts in _found(tx, snapshot, "turn", tokens, MAX_TOKENS):
        here = placed[rows]
        runs, where = np.unique(run_of[rows[here]], return_inverse=True)
        if len(runs):
            times: Scores = np.zeros(len(runs))
            np.add.at(times, where, counts[here])
            scores[runs] += term_scores(times, lengths[runs], mean, count, k1=k1, b=b)
    return scores


def _found(
    tx: Tx, snapshot: Snapshot, kind: Kind, tokens: Sequence[str], max_tokens: int
) -> Iterator[tuple[_Rows, NDArray[np.integer]]]:
    """Yield, for each token that something holds, the rows that hold it, and how often."""
    lengths = (snapshot.turns if kind == "turn" else snapshot.facts).length
    wanted = sorted(set(tokens))
    if not wanted:
        return
    words = None if float(lengths.astype(np.float64).sum()) > max_tokens else _words(tx, snapshot, kind)
    rows: _Rows
    counts: NDArray[np.integer]
    for token in wanted:
        if words is None:  # read from disk
            row_of = snapshot.turn_row if kind == "turn" else snapshot.fact_row
            found = [(row_of[item], n) for item, n in derived.postings(tx, kind, token) if item in row_of]
            rows, counts = np.array(found, dtype=np.int64).reshape(-1, 2).T
        else:
            held, item_rows, unchanged = words
            number = held.terms.get(token)
            part = slice(0) if number is None else slice(held.starts[number], held.starts[number + 1])
            rows, counts = unchanged[held.items[part]], held.counts[part]
            if (later := held.later_terms.get(token)) is not None:
                rows = np.concatenate([rows, item_rows[later[0]]])
                counts = np.concatenate([counts, later[1]])
            here = rows >= 0
            rows, counts = (rows, counts) if here.all() else (rows[here], counts[here])
        if len(rows):
            yield rows, counts


def word_shares(tx: Tx, snapshot: Snapshot, tokens: Sequence[str]) -> Scores:
    """Return the share of a question's words that each turn has, rare ones counting more, shape (n,).

    A word that no turn has counts as the rarest.
    """
    total = len(snapshot.turns.ids)
    missing, known = len(set(tokens)), 0.0
    found = np.zeros(total)
    for rows, _ in _found(tx, snapshot, "turn", tokens, MAX_TOKENS):
        rarity = float(np.log1p((total - len(rows) + 0.5) / (len(rows) + 0.5)))
        found[rows] += rarity
        missing, known = missing - 1, known + rarity
    return found / max(known + missing * float(np.log1p((total + 0.5) / 0.5)), 1e-9)


_PostingRows = tuple[Postings, _Rows, _Rows]
"""The postings of one kind, the row of each item in a snapshot (or -1), and the same with -1 for items of which the arrays of
the postings hold an older state."""

_known: WeakKeyDictionary[Snapshot, dict[Kind, _PostingRows]] = WeakKeyDictionary()
_before: WeakKeyDictionary[Snapshot, dict[Kind, Postings]] = WeakKeyDictionary()


def carry_words(old: Snapshot, new: Snapshot) -> None:
    """Hand the postings of a snapshot to the memory's next one, which brings them up to date."""
    had = dict(_known.get(old, {}))  # a copy, as another thread may be adding to it
    _before[new] = {**_before.get(old, {}), **{kind: words[0] for kind, words in had.items()}}


def _words(tx: Tx, snapshot: Snapshot, kind: Kind) -> _PostingRows:
    """Return the postings for a snapshot, read or brought up to date at the first question that needs them."""
    known = _known.setdefault(snapshot, {})
    if (found := known.get(kind)) is None:
        old = _before.get(snapshot, {}).get(kind)
        postings = read_postings(tx, kind) if old is None else bring_up_to_date(tx, kind, old)
        ids = (snapshot.turns if kind == "turn" else snapshot.facts).ids
        row_of = np.full(
            1
            + max(
                int(ids.max(initial=0)), int(postings.items.max(initial=0)), max(postings.later, default=0)
            ),
            -1,
            dtype=np.int64,
        )
        row_of[ids] = np.arange(len(ids))
        unchanged = row_of
        if postings.later:
            unchanged = row_of.copy()
            unchanged[list(postings.later)] = -1
        found = known.setdefault(kind, (postings, row_of, unchanged))
        _before.get(snapshot, {}).pop(kind, None)
    return found
