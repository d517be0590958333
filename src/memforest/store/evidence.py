"""Reads of the texts behind ranked hits, and of facts for listing."""

from __future__ import annotations

import json
from collections.abc import Collection
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from memforest.store.dates import read_dates
from memforest.store.dialect import AMONG
from memforest.store.trees import nodes_with_ids
from memforest.store.tx import Tx
from memforest.types import Precision, ResolvedDate


class TurnText(NamedTuple):
    """A turn with its session's public id."""

    session_id: str
    turn_id: str
    speaker: str
    text: str
    said_ms: int
    metadata: dict[str, Any]


class FactText(NamedTuple):
    """A fact's text, times, and what its words of time mean."""

    fact_id: str
    text: str
    start_ms: int | None
    end_ms: int | None
    said_ms: int
    dates: tuple[ResolvedDate, ...]
    precision: Precision


class Saying(NamedTuple):
    """One occurrence of a fact: what made the statement, and the turns it was made from, by row id, in their order.

    `quote` is None when it is all of the only turn. `before` is the turn before the last one, None for a session's first.
    `first` is whether the fact has its wording from here. `corrected_ms` is when the fact was put in the place of what was said
    here, and `shown` whether it is not hidden.
    """

    maker: str
    quote: str | None
    first: bool
    turns: tuple[int, ...]
    before: int | None
    corrected_ms: int | None = None
    shown: bool = True


def turn_texts(tx: Tx, turns: Collection[int]) -> dict[int, TurnText]:
    """Return turns by row id."""
    found = tx.execute(
        f"""SELECT t.id, s.session_id, t.turn_id, t.speaker, t.text, t.said_ms, t.metadata FROM turn t
            JOIN session s ON s.id = t.session WHERE t.id {AMONG}""",
        (tx.ids(turns),),
    )
    return {row[0]: TurnText(row[1], row[2], row[3], row[4], row[5], json.loads(row[6])) for row in found}


def turn_names(tx: Tx, turns: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return (session id, turn id) of turns by row id; their texts are not read."""
    found = tx.execute(
        f"SELECT t.id, s.session_id, t.turn_id FROM turn t JOIN session s ON s.id = t.session WHERE t.id {AMONG}",
        (tx.ids(turns),),
    )
    return {row[0]: (row[1], row[2]) for row in found}


def turns_before(
    tx: Tx, turns: Collection[tuple[str, str]], muted: Collection[int]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (session id, turn id) -> speaker and text of the turn before it in its session, where there is one.

    Those of the `muted` ones are left out.
    """
    found = {}
    for session_id, turn_id in turns:
        row = tx.execute(
            """SELECT p.speaker, p.text, p.id FROM turn t JOIN session s ON s.id = t.session
               JOIN turn p ON p.session = t.session AND p.ordinal = t.ordinal - 1
               WHERE s.session_id = ? AND t.turn_id = ?""",
            (session_id, turn_id),
        ).fetchone()
        if row is not None and row[2] not in muted:
            found[session_id, turn_id] = (row[0], row[1])
    return found


def fact_texts(tx: Tx, facts: Collection[int]) -> dict[int, FactText]:
    """Return facts by row id."""
    found = tx.execute(
        f"SELECT id, fact_id, text, start_ms, end_ms, said_ms, dates, precision FROM fact WHERE id {AMONG}",
        (tx.ids(facts),),
    )
    return {row[0]: FactText._make((*row[1:6], read_dates(row[6]), row[7])) for row in found}


def fact_sayings(tx: Tx, facts: Collection[int], without: Collection[int] = ()) -> dict[int, list[Saying]]:
    """Return the occurrences of each fact, in the order they were said; no text of a turn is read.

    Those with the ids `without` are left out.
    """
    found = tx.execute(
        f"""SELECT o.fact, o.id, coalesce(c.maker, ''), CAST(o.quote AS BLOB), o.text IS NULL,
                k.made_ms, f.verdict < 2, t.id, p.id FROM occurrence o
            JOIN fact f ON f.id = o.fact JOIN cell c ON c.id = o.cell
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            LEFT JOIN turn p ON p.session = t.session AND p.ordinal = t.ordinal - 1
            LEFT JOIN correction k ON k.id = o.correction
            WHERE o.fact {AMONG} AND o.id NOT {AMONG}
            ORDER BY o.fact, o.said_ms, coalesce(o.tie, f.tie), o.id, t.ordinal""",
        (tx.ids(facts), tx.ids(without)),
    )
    sayings: dict[int, list[Saying]] = {fact: [] for fact in facts}
    for (fact, _), rows in groupby(found, key=itemgetter(0, 1)):
        several = list(rows)
        _, _, maker, raw, first, corrected_ms, shown, _, before = several[-1]
        quote = None if raw is None else raw.decode(errors="replace")  # it is looked for in the turn
        turns = tuple(turn for *_, turn, _ in several)
        sayings[fact].append(Saying(maker, quote, bool(first), turns, before, corrected_ms, bool(shown)))
    return sayings


def fact_sources(
    tx: Tx, facts: Collection[int], without: Collection[int] = ()
) -> dict[int, list[tuple[str, str]]]:
    """Return the (session id, turn id) pairs that support each fact, in the order they were said.

    Occurrences with the ids `without` are left out.
    """
    found = tx.execute(
        f"""SELECT o.fact, s.session_id, t.turn_id FROM occurrence o
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            JOIN session s ON s.id = t.session WHERE o.fact {AMONG} AND o.id NOT {AMONG}
            ORDER BY o.fact, o.said_ms, s.session_id, t.ordinal""",
        (tx.ids(facts), tx.ids(without)),
    )
    sources: dict[int, list[tuple[str, str]]] = {fact: [] for fact in facts}
    for fact, session_id, turn_id in found:
        sources[fact].append((session_id, turn_id))
    return sources


def leaf_sources(tx: Tx, leaves: Collection[int]) -> dict[int, list[tuple[str, str]]]:
    """Return the (session id, turn id) pairs of the turns that each leaf of a run stands for, in order."""
    found = tx.execute(
        f"""SELECT l.id, s.session_id, t.turn_id FROM leaf l JOIN turn a ON a.id = l.turn
            JOIN turn b ON b.id = coalesce(l.last, l.turn) JOIN session s ON s.id = a.session
            JOIN turn t ON t.session = a.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal
            WHERE l.id {AMONG} ORDER BY l.id, t.ordinal""",
        (tx.ids(leaves),),
    )
    sources: dict[int, list[tuple[str, str]]] = {leaf: [] for leaf in leaves}
    for leaf, session_id, turn_id in found:
        sources[leaf].append((session_id, turn_id))
    return sources


def node_spans(tx: Tx, nodes: Collection[int]) -> dict[int, tuple[int, int]]:
    """Return the intervals [start, end) of nodes and leaves in ms."""
    return {node.id: (node.start_ms, node.end_ms) for node in nodes_with_ids(tx, nodes).values()}
