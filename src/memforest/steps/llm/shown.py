"""How days, trees and nodes are shown to a model: rows of data, with days of the memory's zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

from memforest.interval import EARLIEST, local_time
from memforest.text import cut
from memforest.types import TreeCard

__all__ = ["head_and_tail", "shown_cards", "shown_day", "shown_days"]

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def shown_day(when: datetime, zone: tzinfo) -> str:
    """Return a day with its weekday, which no model should have to work out.

    Example:
        >>> from datetime import timezone
        >>> shown_day(datetime(2024, 6, 1, tzinfo=timezone.utc), timezone.utc)
        'Saturday 2024-06-01'
    """
    day = local_time(when, zone).date()
    return f"{_WEEKDAYS[day.weekday()]} {day.isoformat()}"


def shown_days(start: datetime, end: datetime | None, zone: tzinfo) -> str:
    """Return the days of the half-open interval [start, end): the only one, first and last, or what is bounded.

    Example:
        >>> from datetime import timezone
        >>> day = datetime(2024, 6, 1, tzinfo=timezone.utc)
        >>> shown_days(day, day + timedelta(days=2), timezone.utc)
        '2024-06-01 to 2024-06-02'
        >>> shown_days(day, None, timezone.utc), shown_days(EARLIEST, day, timezone.utc)
        ('since 2024-06-01', 'until 2024-05-31')
    """
    first = local_time(start, zone).date()
    if end is None:
        return f"since {first.isoformat()}"
    last = local_time(end - timedelta(microseconds=1), zone).date()
    if start == EARLIEST:
        return f"until {last.isoformat()}"
    return first.isoformat() if last <= first else f"{first.isoformat()} to {last.isoformat()}"


def head_and_tail(text: str, chars: int) -> str:
    """Return a text in about `chars` characters: of a longer one its beginning and its end, an ellipsis between them.

    >>> head_and_tail("one two three four", 8), head_and_tail("one two", 8)
    ('one  … four', 'one two')
    """
    half = max(1, chars // 2)
    return text if len(text) <= 2 * half else f"{text[:half]} … {text[-half:]}"


def shown_cards(
    cards: Sequence[TreeCard], zone: tzinfo, *, number: str, chars: int, scope: bool
) -> list[dict[str, Any]]:
    """Return cards of trees or nodes as rows, numbered from 1.

    Args:
        cards: trees, or nodes of one tree.
        zone: whose days are shown.
        number: what the number is called.
        chars: most characters of a summary.
        scope: show the kind of the tree and what it is about.
    """
    rows = []
    for at, card in enumerate(cards, 1):
        row: dict[str, Any] = {number: at}
        if scope:
            row |= {"kind": card.kind, "about": cut(card.label, 80)}
        row |= {
            "days": shown_days(card.start, card.end, zone),
            "leaves": card.leaves,
            "text": cut(card.summary, chars),
        }
        rows.append(row)
    return rows
