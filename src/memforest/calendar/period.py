"""Civil periods: half-open runs of calendar days, and their place on the UTC time line.

Weeks start on Monday (ISO 8601). Seasons are the meteorological ones of the northern hemisphere (spring
starts on 1 March); a winter belongs to the year of its December. Nothing here knows a time zone except
`to_utc`, which alone says when a local day begins: a day is 23 or 25 hours long when the clocks change, and may begin
within the hour that they skip.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Literal

from memforest.types import Precision

Kind = Literal["weekday", "weekend", "day_of_month", "day", "month", "quarter", "season", "holiday"]
"""What is named without a year; "day" is a day with its month."""

_DAY = timedelta(days=1)
SEASON_STARTS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
"""First month of each northern meteorological season."""

# name -> (pieces, first piece, piece after the last)
_PARTS = {"early": (3, 0, 1), "mid": (3, 1, 2), "late": (3, 2, 3), "half1": (2, 0, 1), "half2": (2, 1, 2)}

_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_DAYS_IN = {"week": 7, "weekend": 7, "fortnight": 14}


@dataclass(frozen=True, slots=True)
class Period:
    """A half-open run of days ``[start, end)`` and how exactly it is meant.

    `relative` is true when the reference day was needed to find it, `approx` when the wording is vague.
    `open_year` is true when the words named no year, so that a partner ("March and May 2023") may. `doubt` is true
    when nothing tells which of several is meant: such a one counts only with a year from elsewhere.
    """

    start: date
    end: date
    precision: Precision
    relative: bool = False
    approx: bool = False
    open_year: bool = False
    doubt: bool = False
    kind: Kind | None = None
    """What stands alone and comes again, such as a bare "Friday" or "May": its partner may say which is meant."""
    ahead: bool | None = None
    """Of such one that was chosen: whether it is to come; None where that was not asked."""
    other: Period | None = None
    """What the same words may mean instead: the May before or behind this one."""

    def later(self, count: int) -> Period:
        """Return the same so many days later."""
        return replace(self, start=self.start + count * _DAY, end=self.end + count * _DAY, other=None)

    def marked(self, **flags: bool) -> Period:
        """Return a copy with some of the flags set."""
        return replace(self, **flags)  # type: ignore[arg-type]  # flags are booleans


def to_utc(local: date, zone: tzinfo) -> datetime:
    """Return the moment at which the day `local` begins in `zone`, in aware UTC: when its date is first on the clock.

    A midnight that comes twice is the first of the two. One that the clocks skip is the moment at which they do, so a
    day that is skipped begins when the next one does.

    Raises:
        OverflowError: if that moment lies outside the years 1 to 9999.
    """
    midnight = datetime.combine(local, time(), tzinfo=zone)
    moment = midnight.astimezone(timezone.utc)
    if moment.astimezone(zone).replace(tzinfo=None, fold=0) == midnight.replace(tzinfo=None):
        return moment
    # Read with the offset before the change a skipped time lies after it, with the one behind it before (PEP 495).
    before = midnight.replace(fold=1).astimezone(timezone.utc)
    seconds = range(int((moment - before).total_seconds()))
    return before + timedelta(
        seconds=bisect_left(
            seconds, local, key=lambda s: (before + timedelta(seconds=s)).astimezone(zone).date()
        )
    )


def days(start: date, count: int, precision: Precision = "day") -> Period:
    """Return `count` days from `start` on."""
    return Period(start, start + count * _DAY, precision)


def day(start: date) -> Period:
    """Return one day."""
    return days(start, 1)


def week(inside: date) -> Period:
    """Return the Monday-to-Sunday week that contains a day."""
    return days(inside - inside.weekday() * _DAY, 7, "week")


def weekend(inside: date) -> Period:
    """Return the Saturday and Sunday of the week that contains a day."""
    return days(inside + (5 - inside.weekday()) * _DAY, 2)


def months_from(first_year: int, first_month: int, count: int, precision: Precision) -> Period:
    """Return `count` calendar months from a month on; month numbers outside 1-12 carry over.

    Example:
        >>> months_from(2023, 13, 1, "month").start
        datetime.date(2024, 1, 1)
    """
    first = first_year * 12 + first_month - 1
    last = first + count
    return Period(date(first // 12, first % 12 + 1, 1), date(last // 12, last % 12 + 1, 1), precision)


def month(of_year: int, number: int) -> Period:
    """Return a calendar month; month 0 is the December before."""
    return months_from(of_year, number, 1, "month")


def year(number: int) -> Period:
    """Return a calendar year."""
    return months_from(number, 1, 12, "year")


def decade(first_year: int) -> Period:
    """Return the ten years from `first_year` on."""
    return months_from(first_year, 1, 120, "decade")


def season(of_year: int, name: str) -> Period:
    """Return a northern season by the year in which it starts."""
    return months_from(of_year, SEASON_STARTS[name], 3, "season")


def easter(of_year: int) -> date:
    """Return the Easter Sunday of the western churches.

    Source: the anonymous Gregorian algorithm, J. Meeus, Astronomical Algorithms, 2nd ed. 1998, chapter 8.

    Example:
        >>> easter(2024)
        datetime.date(2024, 3, 31)
    """
    century, of_century = divmod(of_year, 100)
    golden = of_year % 19
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (of_century // 4) - moon - of_century % 4) % 7
    late = (golden + 11 * moon + 22 * weekday) // 451
    month_, day_ = divmod(moon + weekday - 7 * late + 114, 31)
    return date(of_year, month_, day_ + 1)


def unit_period(unit: str, inside: date, shift: int = 0) -> Period:
    """Return the calendar unit `shift` units after the one that contains `inside`.

    Args:
        unit: ``hour`` (its day), ``day``, ``week``, ``weekend``, ``month``, ``quarter``, ``season``,
            ``year``, ``decade`` or ``fortnight`` (its last week).
        inside: a day.
        shift: whole units, negative for the past. A shift of hours is the caller's business.

    Example:
        >>> unit_period("week", date(2023, 6, 16), -2).start
        datetime.date(2023, 5, 29)
    """
    if unit in ("hour", "day"):
        return day(inside + shift * _DAY)
    if unit == "week":
        return week(inside + shift * 7 * _DAY)
    if unit == "fortnight":
        return week(inside + shift * 14 * _DAY)
    if unit == "weekend":
        return weekend(inside + shift * 7 * _DAY)
    if unit == "month":
        return month(inside.year, inside.month + shift)
    if unit == "quarter":
        return months_from(inside.year, (inside.month - 1) // 3 * 3 + 1 + 3 * shift, 3, "season")
    if unit == "season":
        return months_from(inside.year, inside.month // 3 * 3 + 3 * shift, 3, "season")
    if unit == "decade":
        return decade(inside.year // 10 * 10 + 10 * shift)
    return year(inside.year + shift)


def nth_weekday(base: Period, weekday: int, number: int) -> Period | None:
    """Return the first, second, ... such weekday of a period, -1 for the last; None if it has none.

    Example:
        >>> nth_weekday(month(2024, 11), 3, 4).start
        datetime.date(2024, 11, 28)
    """
    if number < 0:
        last = base.end - _DAY
        found = last - (last.weekday() - weekday) % 7 * _DAY
    else:
        found = base.start + ((weekday - base.start.weekday()) % 7 + 7 * (number - 1)) * _DAY
    return day(found) if base.start <= found < base.end else None


def stepped(inside: date, unit: str, count: int) -> date:
    """Return the day so many units after a day, cut to the last day of a shorter month.

    Example:
        >>> stepped(date(2024, 1, 31), "month", 1)
        datetime.date(2024, 2, 29)
    """
    months = _MONTHS_IN.get(unit)
    if months is None:
        return inside + _DAYS_IN.get(unit, 1) * count * _DAY
    found = month(inside.year, inside.month + count * months)
    return min(found.start + (inside.day - 1) * _DAY, found.end - _DAY)


def part(period: Period, which: str) -> Period:
    """Return the early, middle or late third, or the first or second half, of a period.

    Thirds of a season or more are whole months ("early 2022" is January to April); shorter periods are
    cut at days ("early June" is the 1st to the 10th, "late June" the 21st on).

    Args:
        period: what is divided.
        which: ``early``, ``mid``, ``late``, ``half1`` or ``half2``.
    """
    pieces, low, high = _PARTS[which]
    if period.precision in ("season", "year", "decade"):
        first = period.start.year * 12 + period.start.month
        count = period.end.year * 12 + period.end.month - first
        begin, finish = count * low // pieces, count * high // pieces
        found = months_from(period.start.year, period.start.month + begin, finish - begin, period.precision)
    else:
        length = (period.end - period.start).days
        begin, finish = length * low // pieces, length * high // pieces
        if finish <= begin:  # a single day has no parts
            return period
        found = Period(period.start + begin * _DAY, period.start + finish * _DAY, period.precision)
    vague = pieces == 3
    return replace(
        found, relative=period.relative, approx=vague, open_year=period.open_year, doubt=period.doubt
    )


def latest(candidates: Iterable[Period], today: date, *, strict: bool) -> Period | None:
    """Return the last candidate that has begun by `today`; if `strict`, the last that is over."""
    fitting = [p for p in candidates if (p.end <= today if strict else p.start <= today)]
    return max(fitting, key=lambda p: p.start, default=None)


def soonest(candidates: Iterable[Period], today: date, *, strict: bool) -> Period | None:
    """Return the first candidate not over by `today`; if `strict`, the first that begins after it."""
    fitting = [p for p in candidates if (p.start > today if strict else p.end > today)]
    return min(fitting, key=lambda p: p.start, default=None)
