"""The dates of what was said: found in its language, as the valid time of a statement, and written out for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo

from memforest.calendar import DateSpan, find_dates
from memforest.interval import Interval, format_interval, local_time
from memforest.language.language import Code, detect_language, has_foreign_words
from memforest.types import Precision, ResolvedDate

_RULED = ("en", "es")
_FURTHER = "mul"
_NAMES_YEAR = re.compile(r"\d{4}")
_BRACKETS = ("(", "（", "[")
_SHORT_ISO = ("day", "month", "year")
_TICK = timedelta(milliseconds=1)


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


def dated_text(text: str, said: datetime, zone: tzinfo, *, day_first: bool | None = None) -> str:
    """Return a text with the days that its relative words mean written beside them, in ISO form: "yesterday (2023-05-07)".

    Also beside days and months without a year. A date that says its year, one in doubt, and one with a bracket behind it
    are left as they are; so is everything in a language without rules for dates. What is said is not changed otherwise.

    Example:
        >>> from datetime import timezone
        >>> dated_text("We moved last week, after a year abroad.", datetime(2023, 5, 8, tzinfo=timezone.utc), timezone.utc)
        'We moved last week (2023-05-01/2023-05-07), after a year abroad.'

    Args:
        text: what was said.
        said: aware; when.
        zone: whose calendar days are meant.
        day_first: whether ``01/02`` is 1 February, where the talk shows it.

    Raises:
        TimestampError: if `said` is naive.
    """
    out, done = [], 0
    for span in find_dates(
        text, said, zone, date_languages(text, detect_language(text)), day_first=day_first
    ):
        behind = text[span.end_char :].lstrip()[:1]
        if not span.relative or behind in _BRACKETS or any(mark in span.text for mark in _BRACKETS):
            continue
        out += [text[done : span.end_char], f" ({_iso_days(span, zone)})"]
        done = span.end_char
    return "".join((*out, text[done:]))


def _iso_days(span: DateSpan, zone: tzinfo) -> str:
    """Return the days that a date means: a day, month or year by its name, else the first and the last day."""
    if span.direction == "for":
        return format_interval(Interval(span.start), span.precision, zone=zone, style="iso")
    if span.precision in _SHORT_ISO:
        return format_interval(span.interval, span.precision, zone=zone, style="iso")
    first, last = (local_time(at, zone).date().isoformat() for at in (span.start, span.end - _TICK))
    return first if first == last else f"{first}/{last}"
