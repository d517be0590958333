"""What comes again: the Fridays, Mays, summers and Christmases around a day, and which of them words mean.

"Last", "this", "next", "before last", "after next", "two ... ago" and "two ... from now" are read alike for all of them:

- "last Friday" is the latest Friday before today, also on a Friday; "this Friday" the coming one, or today, or in the
  past tense the latest; "next Friday" lies in the next Monday-to-Sunday week. Which a bare "Friday" is, and which a
  "May", is for `memforest.calendar.decide` to say.
- Of a unit, "last" is the calendar unit before the current one, and "next" the one behind it.
- "Two Fridays ago" is the last but one that is over; "two Fridays from now" the second that has not begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from memforest.calendar import period as periods
from memforest.calendar.decide import choose, choose_bare
from memforest.calendar.groups import at, capital_word, group, number_range, unit_of
from memforest.calendar.language import Rule
from memforest.calendar.period import Kind, Period, day, unit_period
from memforest.calendar.scene import Scene

Match = re.Match[str]

_DAY = timedelta(days=1)
_SOME_WEEKS, _SOME_YEARS = 3, 3
_WEEKS = 60
_YEARS = 60
"""How far what is counted is looked for."""
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SHIFTS = {"before_last": -2, "last": -1, "this": 0, "next": 1, "coming": 1, "after_next": 2}


def cycle(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Read the last, this or the next one of what comes again."""
    which = str(rule.args["which"])
    if group(match, "unit"):
        unit = unit_of(match, rule, scene)
        if (unit, which) != ("weekend", "this"):
            return unit_period(unit, scene.today, _SHIFTS[which]).marked(relative=True)
        weekends = [unit_period(unit, scene.today, shift) for shift in (-1, 0, 1)]
        return choose(weekends, which, scene, at(match), "weekend")
    found = around(match, rule, scene, _SOME_WEEKS, _SOME_YEARS)
    if found is None:
        return None
    kind, those = found
    if kind == "weekday" and which in ("next", "after_next"):
        monday = periods.week(scene.today).start + 7 * (_SHIFTS[which]) * _DAY
        return next(one for one in those if one.start >= monday).marked(relative=True)
    return choose(those, "next" if which == "coming" else which, scene, at(match), kind)


def counted(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Read the second, third, ... such one before or behind today."""
    numbers, found = number_range(match, rule, scene), around(match, rule, scene, _WEEKS, _YEARS)
    if numbers is None or found is None or numbers[0] != numbers[1]:
        return None
    ahead = rule.args["sign"] > 0
    those = [one for one in found[1] if (one.start > scene.today if ahead else one.end <= scene.today)]
    index = numbers[0] - 1 if ahead else -numbers[0]
    return those[index].marked(relative=True) if 0 < numbers[0] <= len(those) else None


def bare_weekday(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Read a weekday that stands alone."""
    found = around(match, rule, scene)
    if found is None:
        return None
    return choose_bare(found[1], scene, at(match), "weekday", strict=True)


# --- which there are ------------------------------------------------------------------------------


def around(
    match: Match, rule: Rule, scene: Scene, weeks: int = 1, years: int = 1
) -> tuple[Kind, Sequence[Period]] | None:
    """Return what a match names and those of them near today, in order; None if its word is something else."""
    language = scene.language
    for name in ("weekday", "month", "season", "holiday"):
        word = capital_word(match, name, rule, scene)
        if word is None:
            continue
        if name == "weekday":
            monday = periods.week(scene.today).start + (language.weekdays[word] - 1) * _DAY
            return "weekday", [day(monday + 7 * count * _DAY) for count in range(-weeks, weeks + 1)]
        near = years_near(scene, years)
        if name == "month":
            return "month", [periods.month(year, language.months[word]) for year in near]
        if name == "season":
            return "season", [periods.season(year, language.seasons[word]) for year in near]
        return "holiday", [
            one for year in near if (one := holiday(language.holidays[word], year)) is not None
        ]
    return None


def holiday(name: str, year: int) -> Period | None:
    """Return a holiday of a year, by its name in a language file.

    A fixed day is "12-24", one that goes by Easter "easter-2", the fourth Thursday of November "11-4thu".
    """
    movable, _, offset = name.partition("easter")
    if not movable:
        return day(periods.easter(year) + int(offset or 0) * _DAY)
    month, _, which = name.partition("-")
    if which.isdigit():
        return day_in(year, int(month), int(which))
    nth, weekday = which[:-3], _WEEKDAYS.index(which[-3:])
    return periods.nth_weekday(periods.month(year, int(month)), weekday, -1 if nth == "last" else int(nth))


def years_near(scene: Scene, count: int = 1) -> range:
    """Return the years around today that have dates."""
    year = scene.today.year
    return range(max(year - count, 1), min(year + count, 9998) + 1)


def day_in(year: int, month: int, number: int) -> Period | None:
    """Return a day, or None where a year has no 29 February."""
    try:
        return day(date(year, month, number))
    except ValueError:
        return None


def within(named: Period, frame: Period) -> Period | None:
    """Return the one like period that lies within a frame: the Tuesday of next week; None if none does, or several do."""
    found = [one for one in _like(named, frame) if frame.start <= one.start and one.end <= frame.end]
    return found[0] if len(found) == 1 else None


def _like(named: Period, frame: Period) -> Iterator[Period]:
    if named.kind in ("weekday", "weekend"):
        ahead = (named.start - frame.start).days % 7
        first = frame.start + ahead * _DAY
        length = named.end - named.start
        if frame.end - first < length:
            return
        for count in range(((frame.end - first - length).days // 7) + 1):
            yield periods.days(first + 7 * count * _DAY, length.days)
        return
    for year in range(frame.start.year, frame.end.year + 1):
        months = range(1, 13) if named.kind == "day_of_month" else (named.start.month,)
        for month in months:
            start = day_in(year, month, named.start.day)
            if start is not None:
                yield _moved(named, start.start)


def _moved(named: Period, start: date) -> Period:
    if named.kind in ("month", "quarter", "season"):
        months = (named.end.year - named.start.year) * 12 + named.end.month - named.start.month
        return periods.months_from(start.year, start.month, months, named.precision)
    return Period(start, start + (named.end - named.start), named.precision)
