"""The rules that turn a match into days: dates with names and numbers, what comes again, and words around a date.

A language file names the operation of a rule. Each takes the match, the rule and the scene, and returns a period, or None
when the words turn out not to be a date. It may raise `ValueError` or `OverflowError` for days that do not exist; the caller
reads that as None. What counts units from now is in `memforest.reading.date_scene`.

"Last", "this", "next", "before last", "after next", "two ... ago" and "two ... from now" are read alike for all that comes
again (Fridays, Mays, summers, Christmases):

- "last Friday" is the latest Friday before today, also on a Friday; "this Friday" the coming one, or today, or in the
  past tense the latest; "next Friday" lies in the next Monday-to-Sunday week. Which a bare "Friday" or "May" is,
  `memforest.reading.date_scene` decides.
- Of a unit, "last" is the calendar unit before the current one, and "next" the one behind it.
- "Two Fridays ago" is the last but one that is over; "two Fridays from now" the second that has not begun.

Words in front of a date: "early June", "the week before 9 June", "the first Monday of May". "The week before" a day is the
seven days before it; "two weeks before" it is the Monday-to-Sunday week that contains the day a fortnight earlier, as with
"two weeks ago". Month and year are calendar units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta

from memforest.reading import date_scene, periods
from memforest.reading.date_language import Rule, fold_word
from memforest.reading.date_scene import (
    Match,
    Scene,
    at,
    capital_word,
    choose_bare,
    full_year,
    group,
    nth_from,
    number_range,
    tense_of,
    this_one,
    unit_of,
    weekday_of,
    year_of,
)
from memforest.reading.periods import Kind, Period, day, stepped, unit_period

RuleMatch = re.Match[str]

_DAY = timedelta(days=1)
_SOME, _MANY = 3, 60
"""How many weeks or years away "the last one" and "the fifth one from now" are looked for."""
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SHIFTS = {"before_last": -2, "last": -1, "this": 0, "next": 1, "coming": 1, "after_next": 2}


def cycle(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    """Return the last, this or the next unit, weekday, month, season or holiday."""
    which = str(rule.args["which"])
    if group(match, "unit"):
        unit = unit_of(match, rule, scene)
        if (unit, which) != ("weekend", "this"):
            return replace(unit_period(unit, scene.today, _SHIFTS[which]), relative=True)
    found = around(match, rule, scene, _SOME)
    if found is None:
        return None
    kind, those = found
    if which == "this":
        return this_one(those, scene, at(match), kind)
    if kind == "weekday" and which in ("next", "after_next"):
        monday = unit_period("week", scene.today, _SHIFTS[which]).start
        return replace(next(one for one in those if one.start >= monday), relative=True)
    return nth_from(those, _SHIFTS[which], scene.today)


def counted(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    """Return the second, third, ... weekday, month, season or holiday before or after today."""
    numbers, found = number_range(match, rule, scene), around(match, rule, scene, _MANY)
    if numbers is None or found is None or numbers[0] != numbers[1]:
        return None
    return nth_from(found[1], rule.args["sign"] * numbers[0], scene.today)


def named(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    """Return a weekday, weekend, month, quarter, season or holiday: that of its year, else the one that is meant."""
    found = around(match, rule, scene)
    if found is None:
        return None
    kind, those = found
    if year_of(match):
        return those[0] if those else None
    if rule.args.get("told") and tense_of(scene, *at(match)) not in ("past", "future"):
        return None
    return choose_bare(those, scene, at(match), kind, strict=kind == "weekday")


def around(
    match: RuleMatch, rule: Rule, scene: Scene, count: int = 1
) -> tuple[Kind, Sequence[Period]] | None:
    """Return the kind that a match names and its periods in order; None if its word is no date.

    They are that of the year that it names, else those of `count` weeks or years before and after today's.
    """
    language, year = scene.language, year_of(match)
    near = (year,) if year else years_near(scene, count)
    weeks = range(-count, count + 1)
    if group(match, "quarter"):
        size = 12 // int(rule.args["of"])
        first = size * (int(match["quarter"]) - 1) + 1
        return "quarter", [periods.months_from(one, first, size, "season") for one in near]
    if (word := capital_word(match, "weekday", rule, scene)) is not None:
        monday = unit_period("week", scene.today).start + (language.weekdays[word] - 1) * _DAY
        return "weekday", [day(monday + 7 * week * _DAY) for week in weeks]
    if (word := capital_word(match, "month", rule, scene)) is not None:
        number = month_number(word, scene)
        return ("month", [periods.month(one, number) for one in near]) if 1 <= number <= 12 else None
    if (word := capital_word(match, "season", rule, scene)) is not None:
        return "season", [periods.season(one, language.seasons[word]) for one in near]
    if (word := capital_word(match, "holiday", rule, scene)) is not None:
        found = (holiday(language.holidays[word], one) for one in near)
        return "holiday", [one for one in found if one is not None]
    if "weekend" in (rule.args.get("unit"), language.units.get(fold_word(group(match, "unit") or ""))):
        return "weekend", [unit_period("weekend", scene.today, week) for week in weeks]
    return None


def month_number(word: str, scene: Scene) -> int:
    """Return the number of a month that is named or written in digits."""
    return int(word) if word.isdigit() else scene.language.months[fold_word(word)]


def holiday(name: str, year: int) -> Period | None:
    """Return a holiday of a year, by its name in a language file.

    A fixed day is "12-24", one relative to Easter "easter-2", the fourth Thursday of November "11-4thu".
    """
    movable, _, offset = name.partition("easter")
    if not movable:
        return day(periods.easter(year) + int(offset or 0) * _DAY)
    month, _, which = name.partition("-")
    if which.isdigit():
        return day_in(year, int(month), int(which))
    nth, weekday = which[:-3], _WEEKDAYS.index(which[-3:])
    return periods.nth_weekday(periods.month(year, int(month)), weekday, -1 if nth == "last" else int(nth))


def years_near(scene: Scene, count: int) -> range:
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
                yield _moved_by_cycle(named, start.start)


def _moved_by_cycle(named: Period, start: date) -> Period:
    if named.kind in ("month", "quarter", "season"):
        months = (named.end.year - named.start.year) * 12 + named.end.month - named.start.month
        return periods.months_from(start.year, start.month, months, named.precision)
    return Period(start, start + (named.end - named.start), named.precision)


_NUMERIC = re.compile(r"(?<![\d.,:/#+$€£\w-])(\d{1,2})([/-])(\d{1,2})\2(?:\d{4}|\d\d)(?![\d/-]|[.,]\d)")


def day_comes_first(first: int, second: int, known: bool | None) -> bool | None:
    """Return whether the first of two numbers of a date is its day; None if they may be read both ways.

    Args:
        first: the first number.
        second: the second number.
        known: the order in use, if it is known.
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


Operation = Callable[[RuleMatch, Rule, Scene], "Period | None"]

_A_YEAR = timedelta(days=366)
_SOME_MONTHS = timedelta(days=70)
"""Within so many days a weekday has the same day of the month twice at most."""
_ORDINAL_DAY = re.compile(r"\d(?:st|nd|rd|th)(?!\w)", re.IGNORECASE)


def _month_day(match: RuleMatch, scene: Scene, month: int, number: int) -> Period | None:
    year = year_of(match)
    if year:
        return day(date(year, month, number))
    near = years_near(scene, 8 if (month, number) == (2, 29) else 1)
    candidates = [one for year_ in near if (one := day_in(year_, month, number)) is not None]
    if not candidates:
        raise ValueError("there is no such day")
    return _on_weekday(match, candidates, _A_YEAR, scene, "day")


def _on_weekday(
    match: RuleMatch, candidates: Sequence[Period], reach: timedelta, scene: Scene, kind: Kind
) -> Period | None:
    """Return which of several like days is meant: the one near today on the given weekday, if there is one."""
    named = group(match, "dayname")
    if named is None:
        return choose_bare(candidates, scene, at(match), kind)
    weekday = scene.language.weekdays[fold_word(named)] - 1
    near = [one for one in candidates if abs(one.start - scene.today) < reach]
    found = [one for one in near if one.start.weekday() == weekday]
    if len(found) > 1:
        return choose_bare(found, scene, at(match), kind)
    return replace(found[0] if found else replace(near[0], doubt=True), relative=True)


def _date(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    """Return a day of a month, or the days from it up to another one of the month."""
    ordinal, last = group(match, "ordinal"), int(group(match, "day2") or 0)
    number = scene.language.ordinals[fold_word(ordinal)] if ordinal else int(match["day"])
    firm = ordinal or (not last and _ORDINAL_DAY.search(match[0]))
    if number < 1 or not (firm or capital_word(match, "month", rule, scene)):
        return None
    first = _month_day(match, scene, month_number(match["month"], scene), number)
    if first is None or not last:
        return first
    if last <= number or (group(match, "next") and last != number + 1):  # "3 and 5 May" are no range
        return None
    return replace(first, end=first.start.replace(day=last) + _DAY)


def _day_of_month(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    near = (unit_period("month", scene.today, shift) for shift in range(-3, 4))
    days = ((one.start + (int(match["day"]) - 1) * _DAY, one) for one in near)
    candidates = [day(found) for found, month in days if found < month.end]
    return _on_weekday(match, candidates, _SOME_MONTHS, scene, "day_of_month")


def _numeric(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    order = rule.args["order"]
    a, b = int(match["a"]), int(match["b"])
    if order == "ymd":
        return day(date(a, b, int(match["c"])))
    day_first = True if order == "dmy" else day_comes_first(a, b, scene.day_first)
    month, number = (b, a) if day_first else (a, b)
    if not group(match, "c"):
        return _month_day(match, scene, month, number) if day_first is not None else None
    year = full_year(match["c"])
    if day_first is None:
        return replace(day(date(year, a, b)), doubt=True, other=day(date(year, b, a)))
    return day(date(year, month, number))


def _year(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    year = year_of(match)
    return None if year is None else periods.year(year)


def _year_range(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    first, last = int(match["year"]), int(match["year2"])
    last += first // 100 * 100 if last < 100 else 0
    return Period(date(first, 1, 1), date(last + 1, 1, 1), "year") if first < last else None


def _decade(match: RuleMatch, rule: Rule, scene: Scene) -> Period | None:
    digits = group(match, "decade")
    if not digits:
        return periods.decade(scene.language.decades[fold_word(match["decadename"])])
    number = int(digits)
    if number < 100:
        number += 1900 if number >= 30 else 2000
    elif number % 100 == 0 and number < 2000:
        return None  # "the 1800s" is a century
    return periods.decade(number)


OPERATIONS: dict[str, Operation] = {
    "away": date_scene.away,
    "counted": counted,
    "current": date_scene.current,
    "cycle": cycle,
    "date": _date,
    "day_of_month": _day_of_month,
    "decade": _decade,
    "named": named,
    "numeric": _numeric,
    "rolling": date_scene.rolling,
    "year": _year,
    "year_range": _year_range,
}


Prefix = Callable[[Match, Rule, Scene, Period], "Period | None"]
_NIGHTS = frozenset({"night", "evening", "morning", "noche"})


def _part(match: Match, rule: Rule, scene: Scene, base: Period) -> Period | None:
    if base.approx or base.end - base.start <= 2 * _DAY:
        return None
    found = periods.part(base, scene.language.parts[fold_word(match["part"])])
    return _on_its_side(base, found, scene)


def _on_its_side(base: Period, found: Period, scene: Scene) -> Period:
    """Return a part of a May that was chosen by a tense; in doubt if it is over and should come, or the other way round.

    "The fair is on the first Friday of May", said on the 20th, is not of this May, and the next one is far.
    """
    if base.ahead is None or not base.start <= scene.today < base.end:
        return found
    wrong = found.end <= scene.today if base.ahead else found.start > scene.today
    return replace(found, doubt=True) if wrong else found


def _like_span(base: Period, found: Period) -> Period:
    return replace(
        found, relative=base.relative, approx=base.approx, open_year=base.open_year, doubt=base.doubt
    )


def _nth(match: Match, rule: Rule, scene: Scene, base: Period) -> Period | None:
    number = scene.language.ordinals[fold_word(match["ordinal"])]
    weekday = weekday_of(match, rule, scene)
    unit = "weekday" if weekday is not None else _unit(match, rule, scene)
    if base.end - base.start < 7 * _DAY or unit is None:
        return None
    if unit in ("weekday", "weekend"):
        found = periods.nth_weekday(base, 5 if weekday is None else weekday, number)
        found = periods.days(found.start, 2) if found and unit == "weekend" else found
    elif unit in ("month", "quarter"):
        found = _nth_months(base, number, 3 if unit == "quarter" else 1)
    else:
        counted = number_range(match, rule, scene) or (1, 1)
        found = _nth_days(base, number, 7 if unit == "week" else 1, counted)
    return _on_its_side(base, _like_span(base, found), scene) if found else None


def _nth_months(base: Period, number: int, size: int) -> Period | None:
    if base.precision not in ("season", "year", "decade"):
        return None
    first = base.end.month - size if number < 0 else base.start.month + size * (number - 1)
    year = base.end.year if number < 0 else base.start.year
    found = periods.months_from(year, first, size, "month" if size == 1 else "season")
    return found if base.start <= found.start and found.end <= base.end else None


def _nth_days(base: Period, number: int, size: int, counted: tuple[int, int]) -> Period | None:
    """Return the first, second, ... or last such week or day, or the first or last few of them."""
    length = counted[0] * size
    start = base.end - length * _DAY if number < 0 else base.start + size * (number - 1) * _DAY
    if not base.start <= start < base.end or counted[0] != counted[1]:
        return None
    return periods.days(start, length, "week" if size == 7 else "day")


def _unit(match: Match, rule: Rule, scene: Scene) -> str | None:
    word = group(match, "unit")
    if word is None:
        return None
    return "day" if fold_word(word) in _NIGHTS else unit_of(match, rule, scene)


def _beside(match: Match, rule: Rule, scene: Scene, base: Period) -> Period | None:
    side: int = rule.args["side"]
    weekday = weekday_of(match, rule, scene)
    numbers = number_range(match, rule, scene)
    unit = _unit(match, rule, scene)
    if weekday is not None or unit == "weekend":
        first, length = (5, 2) if weekday is None else (weekday, 1)
        found = periods.days(_next_to(base, first, side, length), length)
        return _like_span(base, found) if numbers is None else None
    if unit is None:
        return None
    if unit == "week" and numbers is None and base.precision != "week":
        start = base.start - 7 * _DAY if side < 0 else base.end
        return _like_span(base, periods.days(start, 7, "week"))
    low, high = numbers or (1, 1)
    edge = base.start if side < 0 else base.end - _DAY
    ends = [unit_period(unit, edge, side * low), unit_period(unit, edge, side * high)]
    found = Period(min(p.start for p in ends), max(p.end for p in ends), ends[0].precision)
    vague = low != high or bool(group(match, "approx"))
    return replace(_like_span(base, found), approx=base.approx or vague)


def _next_to(base: Period, weekday: int, side: int, length: int) -> date:
    """Return the nearest such weekday whose run of `length` days lies wholly beside the base."""
    if side > 0:
        return base.end + (weekday - base.end.weekday()) % 7 * _DAY
    latest = base.start - length * _DAY
    return latest - (latest.weekday() - weekday) % 7 * _DAY


def _inside(match: Match, rule: Rule, scene: Scene, base: Period) -> Period | None:
    unit = _unit(match, rule, scene) or "week"
    if unit == base.precision:
        return base
    if base.end - base.start != _DAY:
        return None
    return _like_span(base, unit_period(unit, base.start))


def _offset(match: Match, rule: Rule, scene: Scene, base: Period) -> Period | None:
    """Return the day a number of units away from a day: "a week on Tuesday", "a month ago yesterday", "Monday week"."""
    numbers, sign = number_range(match, rule, scene), rule.args["sign"]
    if numbers is None or numbers[0] != numbers[1] or base.end - base.start != _DAY:
        return None
    start = base.start
    if base.kind == "weekday":  # counted from the next such day, or back from the latest
        ahead = (start - scene.today).days % 7 or 7
        start = scene.today + (ahead if sign > 0 else ahead - 7) * _DAY
    elif base.doubt:
        return None
    unit = _unit(match, rule, scene) or "day"
    found = replace(periods.day(stepped(start, unit, sign * numbers[0])), relative=True)
    # Two weeks before it, or of the week two weeks ago?
    if base.kind == "weekday" and sign < 0 and numbers[0] > 1:
        its_week = within(base, unit_period(unit, scene.today, -numbers[0]))
        return replace(found, doubt=its_week is None or its_week.start != found.start)
    return found


def framed(first: Period, second: Period, *, reverse: bool) -> Period | None:
    """Return the day or month within a frame: "Tuesday" and "next week".

    Args:
        first: what stands first.
        second: what stands behind it.
        reverse: whether the first is the frame.
    """
    frame, named = (first, second) if reverse else (second, first)
    if named.kind is None or frame.kind is not None or frame.doubt or frame.approx:
        return None
    if frame.end - frame.start < named.end - named.start:
        return None
    found = within(named, frame)
    return None if found is None else replace(found, relative=frame.relative, approx=named.approx)


def shared_year(first: Period, second: Period, *, ordered: bool) -> tuple[Period, Period]:
    """Give the end of a range without a year the year of the other end, keeping the two in order.

    If neither names one and the words say that they are `ordered` ("between June and August"), the
    first is moved to before the second.

    Raises:
        ValueError: if the day does not exist in that year.
    """
    if first.open_year and not second.relative:
        moved = in_year(first, second.start.year)
        return (moved if moved.start <= second.start else in_year(first, second.start.year - 1)), second
    if second.open_year and not first.relative:
        return first, _not_before(second, first)
    if not (ordered and first.open_year and second.open_year):
        return first, second
    if second.doubt and not first.doubt:
        return first, replace(_not_before(second, first), relative=True)
    if first.start > second.start:
        return replace(in_year(first, second.start.year), relative=True, doubt=second.doubt), second
    return first, second


def _not_before(second: Period, first: Period) -> Period:
    moved = in_year(second, first.start.year)
    return moved if moved.start >= first.start else in_year(second, first.start.year + 1)


def in_year(period: Period, year: int) -> Period:
    """Return a period without a year, moved into a given year.

    Raises:
        ValueError: if the day does not exist in that year.
    """
    shift = year - period.start.year
    start = period.start.replace(year=year)
    return Period(
        start, period.end.replace(year=period.end.year + shift), period.precision, approx=period.approx
    )


PREFIXES: dict[str, Prefix] = {
    "beside": _beside,
    "inside": _inside,
    "nth": _nth,
    "offset": _offset,
    "part": _part,
}
