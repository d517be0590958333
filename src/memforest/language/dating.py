"""The dates of what was said: found in its language, as the valid time of a statement, and written out for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

from memforest.calendar import DateSpan
from memforest.interval import Interval, format_interval
from memforest.language.language import Code, has_foreign_words
from memforest.types import Precision, ResolvedDate

__all__ = ["date_languages", "resolved_dates", "show_dates", "valid_time"]

_RULED = ("en", "es")
_FURTHER = "mul"
_NAMES_YEAR = re.compile(r"\d{4}")


def date_languages(text: str, language: Code) -> tuple[str, ...]:
    """Return the languages in whose words the dates of a text are looked for.

    Of a text that tells no language ("New deadline: 29 March") these are all that have rules, unless it has words of
    another one: then those of `memforest.calendar.further`, of which there may be none. A text with a year may be in
    another language than it seems: "am 14. Juni 2019" has a word that is English too.
    """
    if language == "other":
        return (_FURTHER,) if has_foreign_words(text) else _RULED
    return (language, _FURTHER) if _NAMES_YEAR.search(text) and has_foreign_words(text) else (language,)


def resolved_dates(spans: Iterable[DateSpan]) -> tuple[ResolvedDate, ...]:
    """Return dates as they are kept with a statement: in the order of the text, each once."""
    found = sorted(spans, key=lambda one: one.start_char)
    return tuple(
        dict.fromkeys(
            ResolvedDate(one.text, one.start, None if one.direction == "for" else one.end, one.precision)
            for one in found
        )
    )


def valid_time(span: DateSpan | None) -> tuple[datetime | None, datetime | None, Precision]:
    """Return the valid time that a statement states: from a start, open for "since"; none for "until June"."""
    window = span.window if span and span.direction not in ("before", "until") else None
    if span is None or window is None:
        return None, None, "unknown"
    return window.start, window.end, span.precision


def show_dates(dates: Sequence[ResolvedDate], zone: tzinfo, *, english: bool = True) -> str:
    """Return what dates mean that do not say so themselves, such as ``last week: 22-28 January 2024``.

    Several are joined by semicolons; dates whose words hold their year are left out, and nothing may be left.

    Args:
        dates: of a statement.
        zone: whose days are written.
        english: in English words; else in ISO form.
    """
    shown = (
        f"{one.words}: {format_interval(Interval(one.start, one.end), one.precision, zone=zone, style='en' if english else 'iso')}"
        for one in dates
        if not _NAMES_YEAR.search(one.words)
    )
    return "; ".join(shown)
