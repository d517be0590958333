"""Deciding who is who: that two names are one entity, or that a name is another one than it was taken for.

Only the decision is written. Which names are one follows from it, and from what was said, each time a snapshot is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memforest.errors import NotFoundError
from memforest.store import choices, meta
from memforest.store import facts as fact_rows
from memforest.store.choices import Verdict
from memforest.store.tx import Tx

Pair = tuple[int, int]


def decide_same(
    tx: Tx, one: int, other: int, groups: tuple[Collection[int], Collection[int]], now_ms: int
) -> None:
    """Decide that two entities are one, and so that no decision that two of their names are apart counts any more.

    Args:
        tx: a write transaction.
        one: row of an entity.
        other: row of another one.
        groups: the rows that were one with each of them.
        now_ms: the present.

    Raises:
        NotFoundError: if one of them has gone.
    """
    crossing = {_pair(a, b) for a in groups[0] for b in groups[1] if a != b}
    apart = {
        pair
        for each in choices.read(tx)
        if not each.same and (pair := _pair(each.entity, each.other)) in crossing
    }
    _write(tx, "same", {_pair(one, other), *apart}, now_ms)


def decide_apart(tx: Tx, one: int, others: Collection[int], now_ms: int) -> None:
    """Decide that an entity is none of some others. Those that people have decided to be one with it stay one with each other.

    Args:
        tx: a write transaction.
        one: row of the entity.
        others: rows of those that it was one with.
        now_ms: the present.

    Raises:
        NotFoundError: if one of them has gone.
    """
    linked = sorted(
        each.other if each.entity == one else each.entity
        for each in choices.read(tx)
        if each.same and one in (each.entity, each.other) and {each.entity, each.other} <= {one, *others}
    )
    _write(tx, "same", {_pair(linked[0], other) for other in linked[1:]}, now_ms)
    _write(tx, "apart", {_pair(one, other) for other in others}, now_ms)


def _write(tx: Tx, verdict: Verdict, pairs: Iterable[Pair], now_ms: int) -> None:
    for one, other in sorted(pairs):
        _require(tx, one)
        _require(tx, other)
        choices.add(tx, verdict, one, other, now_ms)
    meta.bump(tx)


def _require(tx: Tx, row: int) -> None:
    try:
        fact_rows.entity_with_row(tx, row)
    except KeyError:
        raise NotFoundError(
            "what was decided of has just been deleted; entities() has what is known"
        ) from None


def _pair(one: int, other: int) -> Pair:
    return min(one, other), max(one, other)
