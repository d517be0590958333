"""How days, trees and nodes are shown to a model: rows of data, with days of the memory's zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

from memforest.interval import EARLIEST, local_time
from memforest.language.counting import count_words, cut_words
from memforest.language.sentences import split_sentences
from memforest.text import cut, shorten_runs
from memforest.types import TreeCard

MAX_CHARS = 64_000
"""Characters shown of all children of a node together; of longer ones, head and tail."""

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


def not_blank(texts: Sequence[str]) -> list[str]:
    """Return texts trimmed and without runs of data, those that are blank left out."""
    return [shorten_runs(text) for one in texts if (text := one.strip())]


def numbered(name: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return texts as rows, numbered from 1; `name` is what the number is called."""
    return [{name: number, "text": text} for number, text in enumerate(texts, 1)]


def readable(texts: Sequence[str]) -> list[str]:
    """Return texts within `MAX_CHARS` together."""
    if not texts or sum(map(len, texts)) <= MAX_CHARS:
        return list(texts)
    return [head_and_tail(text, MAX_CHARS // len(texts)) for text in texts]


def within(text: str, most: int) -> str:
    """Return a text in at most so many words: whole sentences of it, or what there is room for of the first.

    >>> within("Ann sails. Bo rows on Sundays.", 3), within("Bo rows on Sundays.", 3)
    ('Ann sails.', 'Bo rows on…')
    """
    text = text.strip()
    if count_words(text) <= most:
        return text
    kept, room = 0, most
    for piece in split_sentences(text):
        room -= count_words(piece.text)
        if room < 0:
            break
        kept = piece.end
    return text[:kept] or cut_words(text, most)


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
