"""Reads of the texts behind ranked hits, and of facts for listing."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.trees import nodes_with_ids
from memforest.store.tx import Tx

__all__ = [
    "FactText",
    "TurnText",
    "fact_sources",
    "fact_texts",
    "node_spans",
    "turn_texts",
    "turns_before",
]


class TurnText(NamedTuple):
    """A turn with its session's public id."""

    session_id: str
    turn_id: str
    speaker: str
    text: str
    said_ms: int
    metadata: dict[str, Any]


class FactText(NamedTuple):
    """A fact's text and times."""

    fact_id: str
    text: str
    start_ms: int | None
    end_ms: int | None
    said_ms: int


def turn_texts(tx: Tx, turns: Collection[int]) -> dict[int, TurnText]:
    """Return turns by row id."""
    found = tx.execute(
        f"""SELECT t.id, s.session_id, t.turn_id, t.speaker, t.text, t.said_ms, t.metadata FROM turn t
            JOIN session s ON s.id = t.session WHERE t.id {AMONG}""",
        (tx.ids(turns),),
    )
    return {row[0]: TurnText(row[1], row[2], row[3], row[4], row[5], json.loads(row[6])) for row in found}


def turns_before(tx: Tx, turns: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (session id, turn id) -> speaker and text of the turn before it in its session, where there is one."""
    found = {}
    for session_id, turn_id in turns:
        row = tx.execute(
            """SELECT p.speaker, p.text FROM turn t JOIN session s ON s.id = t.session
               JOIN turn p ON p.session = t.session AND p.ordinal = t.ordinal - 1
               WHERE s.session_id = ? AND t.turn_id = ?""",
            (session_id, turn_id),
        ).fetchone()
        if row is not None:
            found[session_id, turn_id] = (row[0], row[1])
    return found


def fact_texts(tx: Tx, facts: Collection[int]) -> dict[int, FactText]:
    """Return facts by row id."""
    found = tx.execute(
        f"SELECT id, fact_id, text, start_ms, end_ms, said_ms FROM fact WHERE id {AMONG}",
        (tx.ids(facts),),
    )
    return {row[0]: FactText(*row[1:]) for row in found}


def fact_sources(tx: Tx, facts: Collection[int]) -> dict[int, list[tuple[str, str]]]:
    """Return the (session id, turn id) pairs that support each fact, in the order they were said."""
    found = tx.execute(
        f"""SELECT o.fact, s.session_id, t.turn_id FROM occurrence o
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            JOIN session s ON s.id = t.session WHERE o.fact {AMONG}
            ORDER BY o.fact, o.said_ms, s.session_id, t.ordinal""",
        (tx.ids(facts),),
    )
    sources: dict[int, list[tuple[str, str]]] = {fact: [] for fact in facts}
    for fact, session_id, turn_id in found:
        sources[fact].append((session_id, turn_id))
    return sources


def node_spans(tx: Tx, nodes: Collection[int]) -> dict[int, tuple[int, int]]:
    """Return the intervals [start, end) of nodes and leaves in ms."""
    return {node.id: (node.start_ms, node.end_ms) for node in nodes_with_ids(tx, nodes).values()}
