"""Facts and their occurrences as they are inserted, many rows at once: by a write, and by a merge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from memforest.store import meta
from memforest.store.dates import write_dates
from memforest.store.facts import FactRow, OccurrenceRef
from memforest.store.tx import Tx
from memforest.types import ResolvedDate


class StoredOccurrence(NamedTuple):
    """An occurrence as it is stored: topics and dates as JSON, None for what it shares with its fact or its turn."""

    row: int
    fact: int
    cell: int
    speaker: str
    said_ms: int
    topics: str
    cosine: float | None
    text: str | None
    quote: str | None
    tie: str | None
    dates: str | None
    correction: int | None
    stored_ms: int | None


def add_facts(tx: Tx, new: Sequence[FactRow]) -> list[int]:
    """Insert facts (`row` is ignored) and return their row ids, in order."""
    first = meta.take_ids(tx, "fact", len(new))
    tx.executemany(
        """INSERT INTO fact (id, fact_id, text, speaker, start_ms, end_ms, precision, negated, said_ms, tie,
           topics, stored_ms, dates) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [
            (
                row,
                fact.fact_id,
                fact.text,
                fact.speaker,
                fact.start_ms,
                fact.end_ms,
                fact.precision,
                int(fact.negated),
                fact.said_ms,
                fact.tie,
                json.dumps(fact.topics, ensure_ascii=False),
                fact.stored_ms,
                write_dates(fact.dates),
            )
            for row, fact in enumerate(new, first)
        ],
    )
    return list(range(first, first + len(new)))


def add_occurrences(tx: Tx, new: Sequence[StoredOccurrence], turns: Sequence[Sequence[int]]) -> list[int]:
    """Insert occurrences (`row` is ignored), each with the turns that support it; return their row ids, in order.

    A wording, dates, a tie and a stored time that are the fact's, and a quote that is all of the only turn, are not stored
    again. An occurrence without a stored time was stored with its fact.
    """
    (last,) = tx.execute("SELECT coalesce(max(id), 0) FROM occurrence").fetchone()
    rows = list(range(last + 1, last + 1 + len(new)))
    tx.executemany(
        """INSERT INTO occurrence (id, fact, cell, speaker, text, quote, said_ms, tie, topics, cosine, dates, correction,
           stored_ms) VALUES (:row, :fact, :cell, :speaker, nullif(:text, (SELECT text FROM fact WHERE id = :fact)),
           nullif(:quote, (SELECT text FROM turn WHERE id = :turn)), :said_ms,
           nullif(:tie, (SELECT tie FROM fact WHERE id = :fact)), :topics, :cosine,
           nullif(:dates, (SELECT dates FROM fact WHERE id = :fact)), :correction,
           nullif(:stored_ms, (SELECT stored_ms FROM fact WHERE id = :fact)))""",
        [
            {**one._asdict(), "row": row, "turn": said[0] if len(said) == 1 else None}
            for row, one, said in zip(rows, new, turns, strict=True)
        ],
    )
    tx.executemany(
        "INSERT INTO occurrence_turn VALUES (?, ?)",
        [(row, turn) for row, said in zip(rows, turns, strict=True) for turn in said],
    )
    return rows


def add_occurrence(
    tx: Tx,
    fact: int,
    cell: int,
    *,
    speaker: str,
    text: str,
    quote: str,
    dates: Sequence[ResolvedDate] = (),
    said_ms: int,
    tie: str,
    topics: Sequence[str],
    cosine: float | None,
    turns: Sequence[int],
    correction: int | None = None,
    stored_ms: int | None = None,
) -> OccurrenceRef:
    """Record where a fact was said, and by which turns; return what its mentions and states hang on.

    `correction` is what put the fact there.
    """
    one = StoredOccurrence(
        row=0,
        fact=fact,
        cell=cell,
        speaker=speaker,
        said_ms=said_ms,
        topics=json.dumps(topics, ensure_ascii=False),
        cosine=cosine,
        text=text,
        quote=quote,
        tie=tie,
        dates=write_dates(dates),
        correction=correction,
        stored_ms=stored_ms,
    )
    (row,) = add_occurrences(tx, [one], [turns])
    return fact, row
