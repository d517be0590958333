"""Reads the time of a turn from whatever a caller has, and keeps a memory's time zone and its order of day and month.

The parser for written dates is python-dateutil's. It fills what a string does not say from a default
day, so each string is read twice with two different defaults: if the two readings differ, the year,
the month or the day was missing, and that is an error. A zone abbreviation that is not one of the few
that RFC 2822 defines is an error too, because dateutil would drop it or ask the machine's own zone.

Windows of days, weeks and months that an index has closed must not move by themselves, so a memory's zone is kept in the
file from its first write on, and `Config.timezone` never changes it. That setting is the zone in which times without an
offset and words such as "yesterday" are read, of somebody who may have moved. Where the two differ, results say so.

"03/04/2024" is 3 April or 4 March. `Config.day_first` says which, or else what a memory's people have written: a date such
as "25/12/2023" can be read in one way only. What was proven is kept with the memory, so that no write has to read all turns;
where both orders were, nothing is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from numbers import Integral, Real
from operator import attrgetter
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil import parser as dateutil_parser

from memforest.config import Config
from memforest.errors import ConfigError, TimestampError
from memforest.reading.date_phrases import DateSpan, find_dates
from memforest.reading.date_rules import ambiguous_dates, numeric_order
from memforest.reading.tokens import Code, detect_language, has_foreign_words
from memforest.records import Precision, ResolvedDate, Turn
from memforest.settings import MAX_TIME_CHARS
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.text import cut
from memforest.times import Interval, floor_ms, format_interval, local_time, shown

_SHOWN = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

SECONDS_FROM = 10**8
"""Smallest magnitude read as a Unix time (3 March 1973): below it stands a year, a counter or a 0."""
MILLISECONDS_FROM = 10**11
"""Magnitude from which a number is milliseconds (3 March 1973 in ms; the year 5138 in seconds)."""
MICROSECONDS_FROM = 10**14
"""Magnitude from which a number is refused: micro- or nanoseconds."""

# Two days that share neither year, month nor day.
_DEFAULTS = (datetime(2000, 1, 1), datetime(2004, 3, 2))  # noqa: DTZ001 - wall times, the zone comes later

# dateutil lets these escape on malformed input, besides its own ParserError (a ValueError).
_PARSER_FAULTS = (ValueError, OverflowError, TypeError, IndexError, AttributeError, KeyError, ArithmeticError)

# Source: RFC 2822 section 4.3, the only zone names with one meaning.
_ZONE_HOURS = {
    **{"Z": 0, "UT": 0, "UTC": 0, "GMT": 0},
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
}

_EXAMPLE = 'give a datetime, Unix seconds or text such as "2023-05-08T13:56:00+00:00"'
_IN_BRACKETS = re.compile(r"\(\s*[^\W\d_]{2,12}\.?\s*\)")
_EAST_ASIAN = re.compile(r"(\d{4})\s?[年년]\s?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号號일]?")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?!\d)|\d{8}(?=T|$)")
_DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.\d{2}")
# dateutil reads "UTC+3" the POSIX way, as three hours WEST; people mean +03:00.
_NAMED_OFFSET = re.compile(r"\b(?:UTC|GMT)\s?(?=[+-]\d)", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d{9,10}(?:\.\d{1,9})?|\d{13})")


class CivilParserInfo(dateutil_parser.parserinfo):
    """dateutil's English tables, with a fixed meaning for two-digit years instead of the clock's."""

    def convertyear(self, year: int, century_specified: bool = False) -> int:
        """Return the four-digit year: 69-99 are 1969-1999, 00-68 are 2000-2068.

        Source: POSIX strptime, ``%y``.
        """
        if year < 100 and not century_specified:
            return year + (1900 if year >= 69 else 2000)
        return year


_PARSER = dateutil_parser.parser(CivilParserInfo())


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """Return the IANA time zone called `name`, e.g. ``"Europe/Berlin"`` or ``"UTC"``.

    Raises:
        ConfigError: if there is no such zone.
    """
    if name.upper() == "UTC":
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        shown = repr(name[:_SHOWN])
        raise ConfigError(f"unknown time zone {shown}; use an IANA name, e.g. 'Europe/Berlin'") from exc


def parse_timestamp(
    value: object, *, timezone: tzinfo, field: str, day_first: bool | None = None
) -> tuple[datetime, bool]:
    """Return `value` as an aware UTC datetime, and whether it was naive and read in `timezone`.

    The time is cut to the millisecond, towards the past, because that is what is stored: a session that comes again
    with microseconds is the same session.

    Accepted: aware and naive datetimes, dates (midnight in `timezone`), Unix times, and text: ISO 8601
    with ``Z``, offsets and fractions, ``1:56 pm on 8 May, 2023``, ``2023/05/20 (Sat) 02:21``, mail
    dates, and ``2023年5月20日 02:21``. What was given without an offset is read in `timezone`.

    - A number is seconds if its magnitude is in [1e8, 1e11) and milliseconds in [1e11, 1e14). Smaller
      ones (a year, a counter, a 0 for "missing") and larger ones are refused. A string of 9, 10 or 13
      digits follows the same rule; 8 digits are YYYYMMDD.
    - ``01/02/2023`` is 1 February with `day_first`; without, 2 January, and `memforest.reading.date_rules.ambiguous_dates` tells
      that it may be read both ways. A number above 12 is the day. With dots, ``01.02.2023``, the day comes first, since
      that is how dotted dates are written.
    - A two-digit year 69-99 is 19xx, 00-68 is 20xx.
    - Text without a time of day means midnight; text without a year, month or day is an error.
    - A wall time that a change to summer time skips is read with the offset before the change; one
      that occurs twice is the first of the two, unless the datetime's ``fold`` is 1 (PEP 495).

    Args:
        value: what the caller handed in.
        timezone: where a time without an offset was said.
        field: name of the input, for the message, e.g. ``"turns[3].timestamp"``.
        day_first: whether the day comes first in numeric dates; None is not known.

    Raises:
        TimestampError: if `value` is not one of these; the message names field, value and remedy.
    """
    try:
        if isinstance(value, datetime):
            moment = _plain(value)
        elif isinstance(value, date):
            moment = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - zone follows
        elif isinstance(value, str):
            moment = _from_text(value, day_first=bool(day_first))
        elif isinstance(value, Real) and not isinstance(value, bool):
            moment = _from_number(int(value) if isinstance(value, Integral) else float(value))
        else:
            raise ValueError(f"a {type(value).__name__} is not a time")
        naive = moment.utcoffset() is None
        return floor_ms(moment.replace(tzinfo=timezone) if naive else moment), naive
    except OverflowError as exc:
        raise TimestampError(_message(field, value, "it lies outside the years 1 to 9999")) from exc
    except ValueError as exc:
        raise TimestampError(_message(field, value, str(exc))) from exc


def _message(field: str, value: object, reason: str) -> str:
    # Not repr() of the whole: the value comes from a transcript and may be of any size.
    shown_value = shown(value[: _SHOWN + 1] if isinstance(value, str) else value, _SHOWN)
    return f"{field}: cannot read {shown_value} as a time: {reason}; {_EXAMPLE}"


def _plain(value: datetime) -> datetime:
    """Copy to a plain datetime: a subclass may carry its own arithmetic."""
    if value != value:  # pandas' NaT is a datetime that is not equal to itself
        raise ValueError("it is not a time")
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)


def _from_number(number: float) -> datetime:
    if not math.isfinite(number):
        raise ValueError("it is not a finite number")
    size = abs(number)
    if size < SECONDS_FROM:
        raise ValueError("it is too small for a Unix time (numbers below 1e8 are refused)")
    if size >= MICROSECONDS_FROM:
        raise ValueError("it is too large for Unix seconds or milliseconds")
    return _EPOCH + timedelta(**{"milliseconds" if size >= MILLISECONDS_FROM else "seconds": number})


def _from_text(value: str, *, day_first: bool) -> datetime:
    if len(value) > MAX_TIME_CHARS:
        raise ValueError("the text is too long for a time")
    text = _EAST_ASIAN.sub(r"\1-\2-\3 ", _IN_BRACKETS.sub(" ", value))
    text = " ".join(text.split())
    if not text:
        raise ValueError("the text is empty")
    if _NUMBER.fullmatch(text):
        return _from_number(float(text) if "." in text else int(text))
    if _ISO.match(text):
        try:
            return dateutil_parser.isoparse(text)
        except ValueError:
            pass  # a near-ISO form such as "2023-05-20 2:21 UTC"
    return _from_written(text, day_first)


def _from_written(text: str, day_first: bool) -> datetime:
    text = _NAMED_OFFSET.sub("", text)
    dotted = _DOTTED.match(text) is not None
    try:
        first, second = (
            _PARSER.parse(text, default=day, dayfirst=day_first or dotted, tzinfos=_zone_of_name)
            for day in _DEFAULTS
        )
    except _UnknownZoneError:
        raise
    except _PARSER_FAULTS as exc:
        raise ValueError("its format is not known") from exc
    if first != second or first.tzinfo != second.tzinfo:
        raise ValueError("it lacks a year, a month or a day")
    stated = _YEAR_FIRST.match(text)
    if stated and (first.year, first.month, first.day) != tuple(int(stated[i]) for i in (1, 3, 4)):
        raise ValueError("there is no such day")  # dateutil would swap day and month to make one
    return first


class _UnknownZoneError(ValueError):
    """The error of a time zone name without a single meaning."""


def _zone_of_name(name: str | None, offset: int | None) -> tzinfo | None:
    if offset is not None and (not name or name.upper() in ("UTC", "GMT", "Z", "UT")):
        return timezone(timedelta(seconds=offset))
    if name is None:
        return None
    if name.upper() not in _ZONE_HOURS:
        raise _UnknownZoneError(
            f"the time zone {name[:_SHOWN]!r} is not known; write an offset such as +02:00"
        )
    return timezone(timedelta(hours=_ZONE_HOURS[name.upper()]))


_RULED = ("en", "es")
_FURTHER = "mul"
_NAMES_YEAR = re.compile(r"\d{4}")
_BRACKETS = ("(", "（", "[")
_SHORT_ISO = ("day", "month", "year")
_TICK = timedelta(milliseconds=1)


def date_languages(text: str, language: Code) -> tuple[str, ...]:
    """Return the languages in whose words the dates of a text are looked for.

    Of a text that tells no language ("New deadline: 29 March") these are all that have rules, unless it has words of
    another one: then those of `memforest.reading.date_language`, of which there may be none. A text with a year may be in
    another language than it seems: "am 14. Juni 2019" has a word that is English too.
    """
    if language == "other":
        return (_FURTHER,) if has_foreign_words(text) else _RULED
    return (language, _FURTHER) if _NAMES_YEAR.search(text) and has_foreign_words(text) else (language,)


def resolved_dates(spans: Iterable[DateSpan]) -> tuple[ResolvedDate, ...]:
    """Return dates as they are kept with a fact: in the order of the text, each once."""
    return tuple(
        dict.fromkeys(
            ResolvedDate(one.text, one.start, None if one.direction == "for" else one.end, one.precision)
            for one in sorted(spans, key=attrgetter("start_char"))
        )
    )


def valid_time(span: DateSpan | None) -> tuple[datetime | None, datetime | None, Precision]:
    """Return the valid time that a date gives a fact: from a start, open for "since"; none for "until June"."""
    window = span.window if span and span.direction not in ("before", "until") else None
    if span is None or window is None:
        return None, None, "unknown"
    return window.start, window.end, span.precision


def show_dates(dates: Sequence[ResolvedDate], zone: tzinfo, said: datetime) -> str:
    """Return the days that words of time mean, as ``22–28 January 2024``; of several, each behind its words.

    Several are joined by semicolons. Dates whose words hold their year are left out, as is the day itself on which something
    was said, and nothing may be left.

    Args:
        dates: of a statement.
        zone: whose days are written.
        said: when it was said.
    """
    own = format_interval(Interval.at(said), "day", zone=zone)
    shown: dict[str, str] = {}
    for one in dates:
        precision: Precision = "day" if one.precision == "week" else one.precision
        days = format_interval(Interval(one.start, one.end), precision, zone=zone)
        if days != own and not _NAMES_YEAR.search(one.words):
            shown[one.words] = days
    meant = set(shown.values())
    return meant.pop() if len(meant) == 1 else "; ".join(f"{words}: {days}" for words, days in shown.items())


def further_dates(
    text: str, said: datetime, zone: tzinfo, known: Sequence[ResolvedDate]
) -> tuple[ResolvedDate, ...]:
    """Return the dates of a text that is quoted whole, in relative words that no known date has."""
    spans = find_dates(text, said, zone, date_languages(text, detect_language(text)))
    words = {one.words for one in known}
    return resolved_dates(one for one in spans if one.relative and one.text not in words)


def dated_text(text: str, said: datetime, zone: tzinfo) -> str:
    """Return a text with the ISO days of its relative dates beside them: "yesterday (2023-05-07)".

    Also beside days and months without a year. A date that says its year, one in doubt, and one with a bracket behind it
    are left as they are; so is everything in a language without rules for dates. What is said is not changed otherwise.

    Example:
        >>> from datetime import timezone
        >>> dated_text("We moved last week, after a year abroad.", datetime(2023, 5, 8, tzinfo=timezone.utc), timezone.utc)
        'We moved last week (2023-05-01/2023-05-07), after a year abroad.'

    Args:
        text: of the turn.
        said: aware; the time of the turn.
        zone: whose calendar days are meant.

    Raises:
        TimestampError: if `said` is naive.
    """
    out, done = [], 0
    for span in find_dates(text, said, zone, date_languages(text, detect_language(text))):
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


ZONE_KEY = "timezone"


def stored_zone(tx: Tx) -> str | None:
    """Return the name of the memory's zone; None before the first write."""
    return meta.get(tx, ZONE_KEY)


def keep_zone(tx: Tx, config: Config) -> None:
    """Give a memory that has no zone the configured one; called by every write of what was said."""
    if stored_zone(tx) is None:
        meta.put(tx, ZONE_KEY, config.timezone)


def zone_of(tx: Tx, config: Config) -> tzinfo:
    """Return the memory's zone; before the first write, the one that it will get.

    Raises:
        ConfigError: if the time zone data of this machine does not know it.
    """
    stored = stored_zone(tx)
    name = config.timezone if stored is None else stored
    if (problem := _zone_problem(name)) is not None:
        raise ConfigError(problem)
    return zone_named(name)


def unknown_zone(tx: Tx) -> str | None:
    """Return a message that this machine does not know the memory's zone; None when it does."""
    name = stored_zone(tx)
    return None if name is None else _zone_problem(name)


def _zone_problem(name: str) -> str | None:
    try:
        zone_named(name)
    except ConfigError:
        return (
            f"the days of this memory are those of {cut(repr(name), 60)}, a zone that the time zone data of this machine does "
            "not know; update it (pip install -U tzdata); till then add() needs a session_id, and searching works as before"
        )
    return None


def zone_note(stored: str | None, configured: str) -> str | None:
    """Return a message if the memory's zone is not the configured one, or not known here; None when all is well."""
    if stored is None or stored == configured:
        return None
    return _zone_problem(stored) or (
        f"the days of this memory are those of {stored!r} and stay so, while times without an offset and words such as "
        f"'yesterday' are read in {configured!r}; set timezone={stored!r} to read them in the memory's days"
    )


ORDER_KEY = "day_first"
_DIGIT = re.compile(r"\d")
_STORED = {"true": True, "false": False}
_BOTH = "both"


def order_of(tx: Tx, config: Config) -> bool | None:
    """Return whether numeric dates have the day first: as configured, else as the memory's people write; None if unknown."""
    return config.day_first if config.day_first is not None else _STORED.get(meta.get(tx, ORDER_KEY) or "")


def learn_order(tx: Tx, config: Config, turns: Sequence[Turn]) -> list[str]:
    """Keep the order of day and month that new turns prove, and warn of a date whose order is still unknown."""
    dated = [turn for turn in turns if _DIGIT.search(turn.text)]
    proven = numeric_order(turn.text for turn in dated) if dated else None
    if proven is not None:
        now, known = "true" if proven else "false", meta.get(tx, ORDER_KEY)
        if known != now:
            meta.put(tx, ORDER_KEY, now if known is None else _BOTH)
    if not dated or order_of(tx, config) is not None:
        return []
    found = [
        (one, turn)
        for turn in dated
        for one in ambiguous_dates(turn.text)
        if detect_language(turn.text) != "es"
    ]
    if not found:
        return []
    (words, turn), more = found[0], f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [
        f"{cut(repr(words), 40)} in turn {cut(repr(turn.id), 60)}{more}: it is unclear whether the day or the month comes "
        "first, so it dates nothing; set day_first (MEMFOREST_DAY_FIRST) to true or false"
    ]


def month_first_warning(times: Sequence[str], day_first: bool | None) -> tuple[str, ...]:
    """Return a warning about a timestamp with an unknown order of day and month; none if there is no such timestamp."""
    found = [] if day_first is not None else [time for time in times if ambiguous_dates(time)]
    if not found:
        return ()
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"timestamp {shown(found[0])}{more}: it is unclear whether the day or the month comes first, and it was read "
        "month first; set day_first (MEMFOREST_DAY_FIRST) to true or false",
    )
