"""The events that a memory holds: statements, or turns, with their vectors, times and how often they were told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from memforest.store.corrections import HIDDEN
from memforest.store.dialect import AMONG, place_tie
from memforest.store.snapshot import muted_turns
from memforest.store.tx import Tx

EventKind = Literal["fact", "turn"]

KINDS: Mapping[str, EventKind] = MappingProxyType({"facts": "fact", "turns": "turn"})
"""Setting `events` -> the kind of item that a leaf stands for."""


class Event(NamedTuple):
    """An event: its row, when it was first told, what orders it among those of one instant, its leaf's interval, and its state.

    `r_ms` is when it was last told, and `n` how often again.
    """

    item: int
    said_ms: int
    tie: str
    start_ms: int
    end_ms: int
    r_ms: int
    n: int


_START = "coalesce(f.start_ms, f.said_ms)"
_FACTS = f"""SELECT f.id, f.said_ms, f.tie || ' ' || f.fact_id, {_START},
    CASE WHEN f.start_ms IS NULL OR f.end_ms IS NULL THEN {_START} + 1 ELSE max(f.end_ms, f.start_ms + 1) END,
    (SELECT max(o.said_ms) FROM occurrence o WHERE o.fact = f.id),
    (SELECT count(*) FROM occurrence o WHERE o.fact = f.id) - 1
    FROM fact f WHERE f.verdict < {HIDDEN} AND EXISTS (SELECT 1 FROM derived_fact_vector v WHERE v.item = f.id)"""

_TURNS = f"""SELECT t.id, t.said_ms, {place_tie("s.session_id", "t.ordinal")},
    t.said_ms, t.said_ms + 1, t.said_ms, 0
    FROM turn t JOIN session s ON s.id = t.session
    WHERE EXISTS (SELECT 1 FROM derived_turn_vector v WHERE v.item = t.id)"""


def events(tx: Tx, kind: EventKind, items: Collection[int]) -> dict[int, Event]:
    """Return those of some items that are events: stored, not hidden, and with a vector."""
    if kind == "fact":
        found = tx.execute(f"{_FACTS} AND f.id {AMONG}", (tx.ids(items),))
    else:
        shown = set(items) - set(muted_turns(tx))
        found = tx.execute(f"{_TURNS} AND t.id {AMONG}", (tx.ids(shown),))
    return {row[0]: Event(*row) for row in found if row[5] is not None}


def items_of(tx: Tx, kind: EventKind) -> list[int]:
    """Return the rows of all events, for a check."""
    if kind == "fact":
        return [row[0] for row in tx.execute(_FACTS)]
    muted = set(muted_turns(tx))
    return [row[0] for row in tx.execute(_TURNS) if row[0] not in muted]
