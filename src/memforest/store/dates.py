"""What a statement's words of time mean, as one column holds it: JSON, times in UTC ms."""

from __future__ import annotations

import json
from collections.abc import Iterable

from memforest.interval import from_ms, to_ms
from memforest.types import ResolvedDate

NO_DATES = "[]"


def write_dates(dates: Iterable[ResolvedDate]) -> str:
    """Return dates as they are stored: a list of words, start, end (or null) and precision each."""
    rows = [
        [one.words, to_ms(one.start), None if one.end is None else to_ms(one.end), one.precision]
        for one in dates
    ]
    return json.dumps(rows, ensure_ascii=False) if rows else NO_DATES


def read_dates(stored: str) -> tuple[ResolvedDate, ...]:
    """Return stored dates.

    Raises:
        ValueError: if it is not what `write_dates` writes.
    """
    if stored == NO_DATES:
        return ()
    return tuple(
        ResolvedDate(words, from_ms(start), None if end is None else from_ms(end), precision)
        for words, start, end, precision in json.loads(stored)
    )
