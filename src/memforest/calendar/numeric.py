"""The order of day and month in numeric dates: what proves it, and what leaves it open."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMERIC = re.compile(r"(?<![\d.,:/#+$€£\w-])(\d{1,2})([/-])(\d{1,2})\2(?:\d{4}|\d\d)(?![\d/-]|[.,]\d)")


def day_comes_first(first: int, second: int, known: bool | None) -> bool | None:
    """Return whether the first of two numbers of a date is its day; None if they may be read both ways.

    Args:
        first: the first number.
        second: the second number.
        known: the order that is used, if it is known.
    """
    if first == second or second > 12:
        return False
    return True if first > 12 else known


def ambiguous_dates(text: str) -> list[str]:
    """Return the numeric dates of a text that may be read both ways.

    Example:
        >>> ambiguous_dates("Paid on 03/04/2024, due 25/04/2024, sent 05/05/2024.")
        ['03/04/2024']
    """
    return [
        one[0]
        for one in _NUMERIC.finditer(text)
        if max(int(one[1]), int(one[3])) <= 12 and day_comes_first(int(one[1]), int(one[3]), None) is None
    ]


def numeric_order(texts: Iterable[str]) -> bool | None:
    """Return whether the numeric dates of texts have the day first; None if none tells, or they differ.

    Example:
        >>> numeric_order(["due 25/04/2024"]), numeric_order(["due 04/25/2024"]), numeric_order(["due 03/04/2024"])
        (True, False, None)
    """
    found = set()
    for text in texts:
        for one in _NUMERIC.finditer(text):
            first, second = int(one[1]), int(one[3])
            if 12 < max(first, second) <= 31 and min(first, second) <= 12:
                found.add(first > 12)
    return found.pop() if len(found) == 1 else None
