"""Instants, half-open intervals, the clock, and how times are shown.

Instants as integer milliseconds and half-open intervals, exact over the years 1 to 9999.

Every time in memforest is an aware UTC datetime in memory and a count of milliseconds since
1970-01-01T00:00Z in a database. Both directions are integer arithmetic, so nothing is rounded by a
float and times before 1970 work like any other. Finer than a millisecond is cut off towards the past.

An interval is half-open ``[start, end)``; ``end=None`` means "still so". An interval that has no known
beginning starts at `EARLIEST`. The module reads no clock and knows nothing of words: see
`memforest.reading` for those.


The one place that reads the system's clock; everything else is handed a `Clock`.

What came from outside, made safe to show: in a message, on one line, in quotation marks, in JSON.

Names, texts and ids are stored and returned as they were given. Wherever they are put into a prompt, a context or
onto a terminal, they go through this module.

"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Literal

from memforest.errors import TimestampError
from memforest.records import Precision
from memforest.text import cut

DAY_MS = 86_400_000
"""Milliseconds of a day."""
_MS = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

EARLIEST = datetime(1, 1, 1, tzinfo=timezone.utc)
"""The start of an interval whose beginning is unknown ("before June 2023")."""

LATEST = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=timezone.utc)
"""The last millisecond that can be represented."""

_MIN_MS = (EARLIEST - _EPOCH) // _MS
_MAX_MS = (LATEST - _EPOCH) // _MS


def to_ms(moment: datetime) -> int:
    """Return the milliseconds from 1970-01-01T00:00Z to an aware datetime, rounded down.

    Example:
        >>> to_ms(datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc))
        -1

    Raises:
        TimestampError: if `moment` is naive, or lies outside the years 1 to 9999 in UTC.
    """
    if moment.utcoffset() is None:
        raise TimestampError(f"a time without a time zone: {moment!r}; attach one (tzinfo=timezone.utc)")
    milliseconds = (moment - _EPOCH) // _MS
    if not _MIN_MS <= milliseconds <= _MAX_MS:
        raise TimestampError(f"{moment!r} lies outside the years 1 to 9999 in UTC")
    return milliseconds


def from_ms(milliseconds: int) -> datetime:
    """Return the aware UTC datetime that lies `milliseconds` after 1970-01-01T00:00Z.

    Example:
        >>> from_ms(-1).isoformat()
        '1969-12-31T23:59:59.999000+00:00'

    Raises:
        TimestampError: if `milliseconds` is not an int or falls outside the years 1 to 9999.
    """
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int):
        raise TimestampError(f"milliseconds must be an int, not {type(milliseconds).__name__}")
    if not _MIN_MS <= milliseconds <= _MAX_MS:
        raise TimestampError(f"{milliseconds} ms lies outside the years 1 to 9999")
    return _EPOCH + timedelta(milliseconds=milliseconds)


def floor_ms(moment: datetime) -> datetime:
    """Return an aware datetime as it comes back from a database: in UTC, cut to the millisecond towards the past.

    Every time that enters memforest goes through here (`memforest.reading.timestamps.parse_timestamp`, the injected clock), so
    that what is in memory equals what is stored.

    Example:
        >>> floor_ms(datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)).isoformat()
        '1969-12-31T23:59:59.999000+00:00'

    Raises:
        TimestampError: if `moment` is naive, or lies outside the years 1 to 9999 in UTC.
    """
    return from_ms(to_ms(moment))


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open stretch of time ``[start, end)`` in aware UTC; `end` None means open.

    Times given in another zone are converted. The start is earlier than the end.

    Raises:
        TimestampError: if a bound is naive or out of range, or the interval would be empty.
    """

    start: datetime
    end: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            moment = getattr(self, name)
            if moment is not None:
                to_ms(moment)  # refuses naive and out-of-range times by name
                object.__setattr__(self, name, moment.astimezone(timezone.utc))
        if self.end is not None and self.end <= self.start:
            raise TimestampError(f"an interval must end after it starts: {self.start!r} .. {self.end!r}")

    @classmethod
    def at(cls, moment: datetime) -> Interval:
        """Return the interval of one millisecond that contains `moment`.

        Raises:
            TimestampError: if `moment` is naive or out of range.
        """
        start = min(floor_ms(moment), LATEST - _MS)
        return cls(start, start + _MS)

    def contains(self, moment: datetime) -> bool:
        """Tell whether an aware `moment` lies in the interval; the end does not."""
        return self.start <= moment and (self.end is None or moment < self.end)

    def covers(self, other: Interval) -> bool:
        """Tell whether every moment of `other` lies in this interval."""
        return self.start <= other.start and (
            self.end is None or (other.end is not None and other.end <= self.end)
        )

    def overlaps(self, other: Interval) -> bool:
        """Tell whether the two share a moment; touching intervals do not."""
        return (other.end is None or self.start < other.end) and (self.end is None or other.start < self.end)

    def intersection(self, other: Interval) -> Interval | None:
        """Return what both have in common, or None."""
        if not self.overlaps(other):
            return None
        ends = [end for end in (self.end, other.end) if end is not None]
        return Interval(max(self.start, other.start), min(ends) if ends else None)

    def hull(self, other: Interval) -> Interval:
        """Return the smallest interval that covers both."""
        end = None if self.end is None or other.end is None else max(self.end, other.end)
        return Interval(min(self.start, other.start), end)


def hull(intervals: Iterable[Interval]) -> Interval | None:
    """Return the smallest interval that covers all of `intervals`; None if there are none."""
    found: Interval | None = None
    for interval in intervals:
        found = interval if found is None else found.hull(interval)
    return found


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SEASONS = {12: "winter", 3: "spring", 6: "summer", 9: "autumn"}

Style = Literal["en", "iso"]


def format_interval(
    interval: Interval, precision: Precision, *, zone: tzinfo = timezone.utc, style: Style = "en"
) -> str:
    """Return a short text for an interval, as exact as `precision` and no more.

    Calendar days are those of `zone`. ``style="iso"`` avoids words, for readers who do not read
    English. A beginning at `EARLIEST` is shown as "before ...", an open end as "since ...".

    Example:
        >>> day = Interval(datetime(2023, 5, 7, tzinfo=timezone.utc), datetime(2023, 5, 8, tzinfo=timezone.utc))
        >>> format_interval(day, "day"), format_interval(day, "month"), format_interval(day, "week", style="iso")
        ('7 May 2023', 'May 2023', '2023-W18')
    """
    iso = style == "iso"
    if interval.end is None:
        text = _point(local_time(interval.start, zone), precision, iso)
        return f"{text}/.." if iso else f"since {text}"
    if interval.start == EARLIEST:
        text = _point(local_time(interval.end, zone), precision, iso)
        return f"../{text}" if iso else f"before {text}"
    first = local_time(interval.start, zone)
    if precision == "instant":
        return _point(first, precision, iso)
    last = local_time(interval.end - _MS, zone)
    return _range(first, last, precision, iso)


def local_time(moment: datetime, zone: tzinfo) -> datetime:
    """Return an aware moment as the clocks of a zone show it; as it is where that is outside the years 1 to 9999."""
    try:
        return moment.astimezone(zone)
    except OverflowError:  # the first and last hours of the calendar have no local date
        return moment


def _range(first: datetime, last: datetime, precision: Precision, iso: bool) -> str:
    begin, finish = _point(first, precision, iso), _point(last, precision, iso)
    if begin == finish or (precision == "season" and (last - first).days < 100):
        return begin
    if iso:
        return f"{begin}/{finish}"
    if precision in ("day", "unknown") and first.year == last.year:
        if first.month == last.month:
            return f"{first.day}–{finish}"
        return f"{first.day} {MONTHS[first.month - 1]} – {finish}"
    return f"{begin} – {finish}"


def _point(moment: datetime, precision: Precision, iso: bool) -> str:
    year, month = moment.year, moment.month
    if precision == "week":
        monday = moment - timedelta(days=moment.weekday()) if moment.toordinal() > 7 else moment
        week = moment.isocalendar()
        return f"{week.year:04d}-W{week.week:02d}" if iso else f"week of {_day(monday, iso)}"
    if precision == "month":
        return f"{year:04d}-{month:02d}" if iso else f"{MONTHS[month - 1]} {year}"
    if precision == "season":
        return f"{year:04d}-{month:02d}" if iso else _season(year, month)
    if precision == "year":
        return f"{year:04d}" if iso else str(year)
    if precision == "decade":
        return f"{year // 10 * 10}s"
    if precision == "instant":
        return f"{_day(moment, iso)}{'T' if iso else ', '}{moment.hour:02d}:{moment.minute:02d}"
    return _day(moment, iso)


def _day(moment: datetime, iso: bool) -> str:
    if iso:
        return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"


def _season(year: int, month: int) -> str:
    """Name a northern season by the year it begins in: January 2024 is "winter 2023–24"."""
    name = _SEASONS[month // 3 * 3 or 12]
    if name != "winter":
        return f"{name} {year}"
    begins = year if month == 12 else year - 1
    return f"winter {begins}–{(begins + 1) % 100:02d}"


Clock = Callable[[], datetime]
"""A function without arguments that returns the present as an aware UTC datetime."""


def system_clock() -> datetime:
    """Return the present as an aware UTC datetime."""
    return datetime.now(timezone.utc)  # noqa: TID251 - this is the injected clock's default


_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL, _UNSEEN = re.compile(f"[{_CONTROLS}]+"), re.compile(f"[{_INVISIBLE}]+")
UNSAFE = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
"""Characters that a terminal or a reader acts on without showing them: C0 and C1 controls, line separators,
directional marks and overrides, and characters without width. Tags and variant selectors are here too: they can carry
hidden text. The joiners that
scripts and emoji are written with, and the two selectors of emoji, are not among them.

Source: https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point"""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def one_line(text: str) -> str:
    r"""Return what came from outside on one line, white space folded and without characters of `UNSAFE`.

    >>> one_line("a\x1b[31mred\u2028b \u202e c")
    'a [31mred b c'
    """
    if not (text.isascii() and text.isprintable()):  # such a text holds nothing of `UNSAFE`
        text = _UNSEEN.sub("", _CONTROL.sub(" ", text))
    return " ".join(text.split())


def visible(text: str) -> str:
    r"""Return a text of several lines without characters of `UNSAFE` other than the ends of its lines.

    >>> visible("a\u200b  b\nc\u202e")
    'a  b\nc'
    """
    return "\n".join(UNSAFE.sub("", line) for line in text.split("\n"))


def escaped(text: str) -> str:
    r"""Return `one_line` of a text with a backslash before quotation marks and backslashes: no end of a quotation.

    >>> print(escaped('She said "no".'))
    She said \"no\".
    """
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def escaped_lines(text: str) -> str:
    r"""Return `escaped` of a text with its line breaks written out as ``\n``, and the blanks with which its lines begin.

    A list, a table or code can be read off it, and it is one line.

    >>> print(escaped_lines('server:\n  port: 80'))
    server:\n  port: 80
    """
    rows = [row.rstrip() for row in text.strip().splitlines()]
    return r"\n".join(f"{' ' * (len(row) - len(row.lstrip()))}{escaped(row)}" for row in rows if row)


def html_text(text: str) -> str:
    """Return `one_line` of a text as it may stand in HTML, between tags or in an attribute in quotation marks.

    >>> print(html_text('<b title="x">'))
    &lt;b title=&quot;x&quot;&gt;
    """
    return html.escape(one_line(text))


def html_paragraph(text: str) -> str:
    """Return a text as a paragraph of HTML."""
    return f'<p dir="auto">{html_text(text)}</p>'


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML, for a notebook: no style, script or address of its own, and every chunk `html_text`."""
    head = "".join(f"<th>{html_text(one)}</th>" for one in columns)
    body = "".join(
        f"<tr>{''.join(chunks)}</tr>"
        for row in rows
        for chunks in [[f'<td dir="auto">{html_text(chunk)}</td>' for chunk in row]]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def json_escape(char: str) -> str:
    r"""Return the JSON escape of a character; of one beyond the basic plane, those of its two surrogates.

    >>> print(json_escape("<"), json_escape("\U000e0041"))
    \u003c \udb40\udc41
    """
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def ordinals(span: tuple[int, int]) -> str:
    """Return the first and the last of half-open ordinals, in words.

    >>> ordinals((1, 4)), ordinals((7, 8))
    ('1 to 3', '7')
    """
    first, last = span[0], span[1] - 1
    return str(first) if last <= first else f"{first} to {last}"


def printable(text: str) -> str:
    r"""Return `text` without control characters other than tab and line breaks, and without lone surrogates.

    A terminal obeys the former, and no file or database takes the latter, or NUL.

    Example:
        >>> printable("Ann\x00 lives\x1b[2J in\ud800 Porto.\n")
        'Ann lives[2J in Porto.\n'
    """
    return _UNPRINTABLE.sub("", text)


def listed(keys: Iterable[object], most: int = 6) -> str:
    """Return the names of some keys for a message.

    Example:
        >>> listed(["type", "data"]), listed([])
        ("the keys 'type', 'data'", 'no keys')
    """
    found = [shown(str(key), 24) for key in keys]
    names = ", ".join(found[:most]) + (" …" if len(found) > most else "")
    return f"the keys {names}" if found else "no keys"


def shown(value: object, n: int = 60) -> str:
    """Return any value for a message, in at most about `n` characters; by its type, when Python cannot write it.

    Example:
        >>> shown("Ann"), shown(10**5000)
        ("'Ann'", 'a value of type int')
    """
    try:
        return cut(repr(value), n)
    except (RecursionError, ValueError):  # nested too deep, or too many digits
        return f"a value of type {type(value).__name__}"
