"""The times that facts state, and the words in which they do."""

from __future__ import annotations

from collections.abc import Collection

from memforest.store.dates import read_dates
from memforest.store.dialect import AMONG
from memforest.store.tx import Tx
from memforest.types import Precision


def dated_words(tx: Tx, facts: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the words of facts that tell a date, of those that have some."""
    rows = tx.execute(f"SELECT id, dates FROM fact WHERE dates != '[]' AND id {AMONG}", (tx.ids(facts),))
    return {fact: tuple(one.words for one in read_dates(dates)) for fact, dates in rows}


def spans_of(tx: Tx, facts: Collection[int]) -> dict[int, tuple[int | None, int | None, Precision]]:
    """Return the time that facts state, [start, end), and how exactly; None where there is none."""
    rows = tx.execute(f"SELECT id, start_ms, end_ms, precision FROM fact WHERE id {AMONG}", (tx.ids(facts),))
    return {row[0]: row[1:] for row in rows}
