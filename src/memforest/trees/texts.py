"""What leaves and nodes say: the texts of leaves, and digests of nodes that follow from them.

A node's digest is made of its children's digests in order, of its times, and of its *salt*: index, settings, kind,
level, and the tree's name. So it is known before any text is made, it is the same in every memory that
holds the same, and a change below a node changes it and nothing beside it (cf. Merkle trees). A leaf's is that of its text,
as it may be shown: what is hidden or damaged is another text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import FACT, INNER, NONE, NOTHING, Digests, Forest, Ints, mixed
from memforest.search.snapshot import Snapshot, as_array, once_per_snapshot, ranges, rows_of
from memforest.store import reads
from memforest.store.connections import Tx
from memforest.store.meta import changes_since
from memforest.store.sessions import turns_with_ids

LANES = np.array([[0x9AE16A3B2F90404F], [0xC949D7C7509E6557]], dtype=np.uint64)
"""What sets the two numbers of a digest apart."""


def hashed(*what: object) -> tuple[int, int]:
    """Return two numbers of 64 bits for some values."""
    told = blake2b("\x1f".join(map(str, what)).encode(), digest_size=16).digest()
    return int.from_bytes(told[:8], "little"), int.from_bytes(told[8:], "little")


def hashes(texts: Iterable[str]) -> Digests:
    """Return two numbers for each text, shape (n, 2)."""
    told = b"".join(blake2b(text.encode(errors="replace"), digest_size=16).digest() for text in texts)
    return np.frombuffer(told, dtype="<u8").reshape(-1, 2).astype(np.uint64)


@dataclass(frozen=True, eq=False)
class Said:
    """The digests of what turns and facts of a snapshot say, shapes (n, 2) and (m, 2)."""

    position: int
    turn_ids: Ints
    turns: Digests
    muted: NDArray[np.bool_]
    fact_ids: Ints
    facts: Digests


@dataclass(slots=True)
class _Kept:
    """What was read for a snapshot, or for an earlier one."""

    now: Said | None = None
    older: Said | None = None


_kept = once_per_snapshot(
    lambda snapshot: _Kept(), lambda made, delta, kept: _Kept(older=kept.now or kept.older)
)


def turn_lines(tx: Tx, turns: Collection[int]) -> dict[int, list[str]]:
    """Return the lines that may be shown for turns, by row id; see `memforest.store.reads.told_lines`."""
    said = turns_with_ids(tx, turns)
    return reads.told_lines(tx, {turn: f"{one.speaker}: {one.text}" for turn, one in said.items()})


def said_of(tx: Tx, snapshot: Snapshot) -> Said:
    """Return the digests of what a snapshot's turns and facts say; those of an older one are taken over where nothing changed."""
    kept = _kept(snapshot)
    if kept.now is None:
        base = snapshot.base
        kept.now = _read(tx, snapshot, kept.older) if base is None else _earlier(snapshot, said_of(tx, base))
        kept.older = None
    return kept.now


def _read(tx: Tx, snapshot: Snapshot, older: Said | None) -> Said:
    turns, facts, changed = snapshot.turns, snapshot.facts, None
    if older is not None:
        changed = changes_since(tx, older.position)
    if older is None or changed is None:
        none = np.zeros((0, 2), dtype=np.uint64)
        older = Said(0, NOTHING, none, np.zeros(0, dtype=np.bool_), NOTHING, none)
    anew = np.r_[
        as_array(changed.turn if changed else ()), turns.ids[turns.muted], older.turn_ids[older.muted]
    ]
    of_turn, had = _taken(older.turn_ids, older.turns, turns.ids, anew)
    lines = turn_lines(tx, turns.ids[~had].tolist())
    of_turn[~had] = hashes("\n".join(lines.get(one, ())) for one in turns.ids[~had].tolist())
    of_fact, had = _taken(older.fact_ids, older.facts, facts.ids, as_array(changed.fact if changed else ()))
    texts = reads.fact_texts(tx, facts.ids[~had].tolist())
    of_fact[~had] = hashes(texts.get(one, "") for one in facts.ids[~had].tolist())
    return Said(snapshot.position, turns.ids, of_turn, turns.muted, facts.ids, of_fact)


def _earlier(snapshot: Snapshot, whole: Said) -> Said:
    """Return the digests of an earlier moment: of what was told otherwise then, nothing was made."""
    turns, facts = snapshot.turns.ids, snapshot.facts.ids
    of_turn, _ = _taken(whole.turn_ids, whole.turns, turns, NOTHING)
    of_fact, _ = _taken(whole.fact_ids, whole.facts, facts, NOTHING)
    of_turn[np.isin(turns, as_array(snapshot.retold))] = np.uint64(1)
    of_fact[np.isin(facts, as_array(snapshot.restated))] = np.uint64(1)
    return Said(snapshot.position, turns, of_turn, snapshot.turns.muted, facts, of_fact)


def _taken(had_ids: Ints, had: Digests, ids: Ints, anew: Ints) -> tuple[Digests, NDArray[np.bool_]]:
    """Return the digests that are known by id, zeros for others and for those of `anew`, and which are known."""
    at = rows_of(had_ids, ids)
    known = (at >= 0) & ~np.isin(ids, anew)
    out = np.zeros((len(ids), 2), dtype=np.uint64)
    out[known] = had[at[known]]
    return out, known


Finish = Callable[[Ints, Digests, Digests], Digests]
"""Returns the digests of some nodes of one level, given their rows, what they have so far, and those of all rows before."""


def node_digests(said: Said, forest: Forest, salt: Digests, finish: Finish | None = None) -> Digests:
    """Return the digest of every node, shape (N, 2).

    Args:
        said: of the forest's snapshot.
        forest: the trees.
        salt: of every node: how it is asked for.
        finish: mixes in what nodes are made of besides their children, level by level from the leaves.
    """
    out = np.zeros((len(forest), 2), dtype=np.uint64)
    if not len(out):
        return out
    facts = np.flatnonzero(forest.kind == FACT)
    runs = np.flatnonzero((forest.kind != FACT) & (forest.kind != INNER))
    out[facts] = said.facts[forest.item[facts]]
    if len(runs):
        first, end = forest.item[runs], forest.item_end[runs]
        starts = np.cumsum(end - first) - (end - first)
        place = np.arange(int((end - first).sum())) - np.repeat(starts, end - first)
        out[runs] = _summed(said.turns[ranges(first, end)], place, starts)
    for level in np.unique(forest.level).tolist():
        rows = np.flatnonzero(forest.level == level)
        inner = rows[forest.kind[rows] == INNER]
        if len(inner):
            kids, counts = forest.children.of_rows(inner), forest.children.counts[inner]
            starts = np.cumsum(counts) - counts
            out[inner] = _summed(out[kids], np.arange(len(kids)) - np.repeat(starts, counts), starts)
        told = _salted(out[rows], salt[rows], forest.start_ms[rows], forest.end_ms[rows])
        out[rows] = told if finish is None else finish(rows, told, out)
    return out


def _summed(of: Digests, place: Ints, starts: Ints) -> Digests:
    """Return the sums of runs of digests, each mixed with its place."""
    mixed_in = mixed(np.ascontiguousarray(of.T) ^ LANES, place)
    return np.asarray(np.add.reduceat(mixed_in, starts, axis=1).T)


def _salted(of: Digests, salt: Digests, start_ms: Ints | int, end_ms: Ints | int) -> Digests:
    """Return digests mixed with how their nodes are asked for, and when they are."""
    return mixed(mixed(np.ascontiguousarray((of ^ salt).T), start_ms), end_ms).T


def leaf_texts(tx: Tx, forest: Forest, rows: Sequence[int]) -> dict[int, str]:
    """Return the texts of leaves, by row: what a fact says; the turns of a chunk or a run, a line each."""
    facts = {row: int(forest.facts.ids[forest.item[row]]) for row in rows if forest.kind[row] == FACT}
    runs = {
        row: forest.turns.ids[forest.item[row] : forest.item_end[row]].tolist()
        for row in rows
        if forest.kind[row] not in (FACT, INNER)
    }
    said = reads.fact_texts(tx, set(facts.values())) if facts else {}
    lines = turn_lines(tx, {turn for turns in runs.values() for turn in turns}) if runs else {}
    return {row: said.get(fact, "") for row, fact in facts.items()} | {
        row: "\n".join(line for turn in turns for line in lines.get(turn, ())) for row, turns in runs.items()
    }


def salts(forest: Forest, asked: Sequence[object], names: Sequence[str], *, of_root: bool = True) -> Digests:
    """Return how every node is asked for, shape (N, 2).

    Args:
        forest: the trees.
        asked: what is the same for all nodes of the index, settings among them.
        names: what each tree is of.
        of_root: whether a root is asked for otherwise than other nodes.
    """
    trees = np.array(
        [hashed(*asked, kind, name) for kind, name in zip(forest.tree_kind, names, strict=True)],
        dtype=np.uint64,
    )
    windows = np.array([_of_window(key) for key in ("", *forest.windows)], dtype=np.uint64)
    made = mixed(trees.reshape(-1, 2).T[:, forest.tree], forest.level)
    if of_root:
        made = mixed(made, forest.parent == NONE)
    if len(forest.window):
        made ^= windows.T[:, forest.window + 1]
    return made.T


@lru_cache(maxsize=1 << 14)  # trees have the same windows again after every write
def _of_window(key: str) -> tuple[int, int]:
    return hashed(key)


def inner_digest(kids: Digests, asked: tuple[int, int], level: int, start_ms: int, end_ms: int) -> Digests:
    """Return the digest of one inner node, shape (1, 2), as `node_digests` makes it where roots are not set apart.

    Args:
        kids: of its children in order.
        asked: `hashed` of how the nodes of its tree are asked for.
        level: of the node.
        start_ms: when it starts.
        end_ms: when it ends.
    """
    summed = _summed(kids, np.arange(len(kids)), np.zeros(1, dtype=np.int64))
    salt = mixed(np.array([asked], dtype=np.uint64), level)
    return _salted(summed, salt, start_ms, end_ms)
