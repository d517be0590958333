"""Reading a snapshot from the store: columns of turns and facts, in blocks, without a copy of all rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.search.snapshot import OPEN, Facts, Snapshot, Turns
from memforest.search.splice import rows_of
from memforest.search.texts import QUESTION_MARKS, asks
from memforest.search.vectors import VectorTable
from memforest.store import changes, derived, meta
from memforest.store import snapshot as rows
from memforest.store.tx import Tx
from memforest.types import TURN_ROLES

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
C = TypeVar("C", "TurnColumns", "FactColumns")
Known = Callable[[Sequence[str]], Sequence[float]]
"""Returns which share of each text an embedder has words for."""

BLOCK = 4096
"""Rows turned into columns at a time."""


@dataclass(frozen=True, slots=True)
class TurnColumns:
    """Turns by session and position. `speaker` is a code given by the reader."""

    ids: Ints
    session: Ints
    speaker: Ints
    role: NDArray[np.int8]
    said_ms: Ints
    asks: Bools
    asks_last: Bools
    known: Floats
    length: Floats
    muted: Bools


@dataclass(frozen=True, slots=True)
class FactColumns:
    """Facts by id, as in `Facts`."""

    ids: Ints
    speaker: Ints
    start_ms: Ints
    end_ms: Ints
    stated: Bools
    said_ms: Ints
    pinned: Bools
    key: Ints
    length: Floats


def joined(first: C, second: C, take: Ints) -> C:
    """Return the columns of two tables one behind the other, in the order of `take`."""
    return type(first)(
        *(
            np.concatenate([getattr(first, field.name), getattr(second, field.name)])[take]
            for field in fields(first)
        )
    )


# -- reading columns ------------------------------------------------------------------------------


def _blocks(found: Iterable[Any]) -> Iterable[list[Any]]:
    source = iter(found)
    while block := list(islice(source, BLOCK)):
        yield block


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def all_known(texts: Sequence[str]) -> Sequence[float]:
    """Return 1 for every text: what holds of an embedder that cannot say."""
    return [1.0] * len(texts)


def read_turns(
    tx: Tx, codes: dict[str, int], only: Collection[int] | None = None, *, known: Known = all_known
) -> TurnColumns:
    """Return the turns of sessions, of all when `only` is None; new speakers get the next codes. None is muted yet."""
    parts = []
    for block in _blocks(rows.turn_rows(tx, only)):
        n = len(block)
        parts.append(
            TurnColumns(
                ids=_ints(row.id for row in block),
                session=_ints(row.session for row in block),
                speaker=_ints(codes.setdefault(row.speaker, len(codes)) for row in block),
                role=np.fromiter((_ROLE_CODES.get(row.role or "", 0) for row in block), np.int8, n),
                said_ms=_ints(row.said_ms for row in block),
                asks=np.fromiter((any(m in row.text for m in QUESTION_MARKS) for row in block), np.bool_, n),
                asks_last=np.fromiter((asks(row.text) for row in block), np.bool_, n),
                known=np.fromiter(known([row.text for row in block]), np.float32, n),
                length=np.zeros(n, dtype=np.float32),
                muted=np.zeros(n, dtype=np.bool_),
            )
        )
    found = _together(TurnColumns, parts)
    return replace(found, length=_lengths(tx, "turn", found.ids, only is None))


def read_facts(tx: Tx, only: Collection[int] | None = None, *, hidden: bool = False) -> FactColumns:
    """Return facts, all of them when `only` is None; with `hidden` those too that are hidden."""
    parts = []
    for block in _blocks(rows.fact_rows(tx, only, hidden=hidden)):
        parts.append(
            FactColumns(
                ids=_ints(row.id for row in block),
                speaker=_ints(row.speaker for row in block),
                start_ms=_ints(row.said_ms if row.start_ms is None else row.start_ms for row in block),
                end_ms=_ints(OPEN if row.end_ms is None else row.end_ms for row in block),
                stated=np.array([row.start_ms is not None for row in block], dtype=np.bool_),
                said_ms=_ints(row.said_ms for row in block),
                pinned=np.array([row.pinned for row in block], dtype=np.bool_),
                key=_ints(int(row.fact_id[-15:], 16) for row in block),
                length=np.zeros(len(block), dtype=np.float32),
            )
        )
    found = _together(FactColumns, parts)
    return replace(found, length=_lengths(tx, "fact", found.ids, only is None))


_ROLE_CODES = {role: code for code, role in enumerate(TURN_ROLES)}
_TYPES: Mapping[str, Any] = {
    "role": np.int8,
    "asks": np.bool_,
    "asks_last": np.bool_,
    "stated": np.bool_,
    "pinned": np.bool_,
    "muted": np.bool_,
    "known": np.float32,
    "length": np.float32,
}


def _together(kind: type[C], parts: Sequence[C]) -> C:
    """Return columns one behind the other; none of them when there are no parts."""
    return kind(*_columns(kind, parts))


def _columns(kind: Any, parts: Sequence[Any]) -> list[NDArray[Any]]:
    columns = []
    for field in fields(kind):
        empty = np.zeros(0, dtype=_TYPES.get(field.name, np.int64))
        columns.append(np.concatenate([empty, *(getattr(part, field.name) for part in parts)]))
    return columns


def _lengths(tx: Tx, kind: Literal["turn", "fact"], ids: Ints, everything: bool) -> Floats:
    """Return the number of lexical tokens of items."""
    counts = derived.word_counts(tx, kind, None if everything else ids.tolist())
    return np.array([counts.get(i, 0) for i in ids.tolist()], dtype=np.float32)


# -- from columns to a snapshot -------------------------------------------------------------------


def by_appearance(codes: Ints, names: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return codes and their names renumbered by first appearance, without names that do not appear."""
    first = np.full(len(names), len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the first one is written last
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    number = np.full(len(names), -1, dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[codes], tuple(names[i] for i in order.tolist())


def make_turns(columns: TurnColumns, dated: Bools, vectors: VectorTable) -> Turns:
    """Return the turns of columns that are in their final order."""
    n, session = len(columns.ids), columns.session
    same = session[1:] == session[:-1]
    previous, following = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    previous[1:][same] = np.flatnonzero(same)
    following[:-1][same] = np.flatnonzero(same) + 1
    values = {field.name: getattr(columns, field.name) for field in fields(columns)}
    return Turns(**values, dated=dated, previous=previous, following=following, vectors=vectors)


def muted_among(tx: Tx, ids: Ints) -> Bools:
    """Return which turns, by id, are muted now; few ever are."""
    return np.isin(ids, _ints(rows.muted_turns(tx)))


def dated_turns(n: int, pairs: Ints, stated: Bools) -> Bools:
    """Return which of `n` turns support a fact that states a time."""
    dated = np.zeros(n, dtype=np.bool_)
    dated[pairs[stated[pairs[:, 0]], 1]] = True
    return dated


def _pairs(found: Sequence[tuple[int, int]]) -> Ints:
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _vectors(tx: Tx, kind: derived.ItemKind, ids: Ints, dimension: int) -> VectorTable:
    table = VectorTable.blank(len(ids), dimension)
    for items, vectors in derived.vector_blocks(tx, kind):
        at = rows_of(ids, items)
        table.fill(at[at >= 0], vectors[at >= 0])
    return table


def load_snapshot(tx: Tx, known: Known = all_known, *, hidden: bool = False) -> Snapshot:
    """Read the searchable state of a memory, all of it.

    Args:
        tx: a read transaction.
        known: which share of texts the memory's embedder has words for.
        hidden: read what is hidden now as well, and mute nothing: for what was held at an earlier moment.
    """
    dimension = derived.dimension(tx) or 0
    spans = rows.session_spans(tx)
    codes: dict[str, int] = {}
    turns = read_turns(tx, codes, known=known)
    rank = rows_of(_ints(span.id for span in spans), turns.session)
    turns = joined(turns, _together(TurnColumns, ()), np.argsort(rank, kind="stable"))
    speaker, speakers = by_appearance(turns.speaker, list(codes))
    facts = read_facts(tx, hidden=hidden)
    pairs = _pairs(rows.supports(tx, hidden=hidden))
    pairs = np.stack([rows_of(facts.ids, pairs[:, 0]), rows_of(turns.ids, pairs[:, 1])], axis=1)
    mentions = _pairs(rows.mentions(tx, hidden=hidden))
    mentions[:, 0] = rows_of(facts.ids, mentions[:, 0])
    return Snapshot(
        generation=meta.generation(tx),
        dimension=dimension,
        speakers=speakers,
        entities=rows.entity_names(tx),
        names=rows.names(tx),
        turns=make_turns(
            replace(turns, speaker=speaker, muted=turns.muted if hidden else muted_among(tx, turns.ids)),
            dated_turns(len(turns.ids), pairs, facts.stated),
            _vectors(tx, "turn", turns.ids, dimension),
        ),
        facts=Facts(
            **{field.name: getattr(facts, field.name) for field in fields(facts)},
            pairs=pairs,
            vectors=_vectors(tx, "fact", facts.ids, dimension),
        ),
        states=tuple(rows.states_seen(tx, hidden=hidden)),
        mentions=mentions,
        sessions=tuple(spans),
        position=changes.position(tx),
    )
