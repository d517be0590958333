"""The operations that the rules of a language file name: from a match to a run of days.

Each takes the match, the rule and the scene, and returns a period, or None when the words turn out not
to be a date. They may raise `ValueError` or `OverflowError` for days that do not exist; the caller
reads that as None.

Here are the dates with numbers and names; what counts units from now is in `memforest.calendar.units`, and what comes
again, such as Fridays and summers, in `memforest.calendar.cycles`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta

from memforest.calendar import period as periods
from memforest.calendar import units
from memforest.calendar.cycles import around, bare_weekday, counted, cycle, day_in, holiday, years_near
from memforest.calendar.decide import choose_bare
from memforest.calendar.fold import fold_word
from memforest.calendar.groups import at, capital_word, full_year, group, year_of
from memforest.calendar.language import Rule
from memforest.calendar.numeric import day_comes_first
from memforest.calendar.period import Kind, Period, day
from memforest.calendar.scene import Scene
from memforest.calendar.tense import tense_of

Match = re.Match[str]
Operation = Callable[[Match, Rule, Scene], "Period | None"]

_DAY = timedelta(days=1)
_A_YEAR = timedelta(days=366)
_SOME_MONTHS = timedelta(days=70)
"""Within so many days a weekday has the same day of the month twice at most."""
_ORDINAL_DAY = re.compile(r"\d(?:st|nd|rd|th)(?!\w)", re.IGNORECASE)


# --- dates with a month ---------------------------------------------------------------------------


def _month_day(
    match: Match, rule: Rule, scene: Scene, month: int, number: int, kind: Kind = "day"
) -> Period | None:
    year = year_of(match)
    if year:
        return day(date(year, month, number))
    near = years_near(scene, 8 if (month, number) == (2, 29) else 1)
    candidates = [one for year_ in near if (one := day_in(year_, month, number)) is not None]
    if not candidates:
        raise ValueError("there is no such day")
    return _on_weekday(match, candidates, _A_YEAR, scene, kind)


def _on_weekday(
    match: Match, candidates: Sequence[Period], reach: timedelta, scene: Scene, kind: Kind
) -> Period | None:
    """Return which of several like days is meant: the one near today on the weekday beside it, where there is one."""
    named = group(match, "dayname")
    if named is None:
        return choose_bare(candidates, scene, at(match), kind)
    weekday = scene.language.weekdays[fold_word(named)] - 1
    near = [one for one in candidates if abs(one.start - scene.today) < reach]
    found = [one for one in near if one.start.weekday() == weekday]
    if len(found) > 1:
        return choose_bare(found, scene, at(match), kind)
    return (found[0] if found else near[0].marked(doubt=True)).marked(relative=True)


def _date(match: Match, rule: Rule, scene: Scene) -> Period | None:
    firm = group(match, "year") or _ORDINAL_DAY.search(match[0])
    if not firm and capital_word(match, "month", rule, scene) is None:
        return None
    return _month_day(match, rule, scene, scene.language.months[fold_word(match["month"])], int(match["day"]))


def _ordinal_date(match: Match, rule: Rule, scene: Scene) -> Period | None:
    number = scene.language.ordinals[fold_word(match["ordinal"])]
    if number < 1:
        return None
    return _month_day(match, rule, scene, scene.language.months[fold_word(match["month"])], number)


def _day_range(match: Match, rule: Rule, scene: Scene) -> Period | None:
    if capital_word(match, "month", rule, scene) is None and not group(match, "year"):
        return None
    first = _month_day(
        match, rule, scene, scene.language.months[fold_word(match["month"])], int(match["day"])
    )
    last = int(match["day2"])
    if first is None or last <= first.start.day:
        return None
    if group(match, "next") and last != first.start.day + 1:  # "3 and 5 May" are no range
        return None
    return replace(first, end=first.start.replace(day=last) + _DAY)


def _day_of_month(match: Match, rule: Rule, scene: Scene) -> Period | None:
    candidates = []
    for shift in range(-3, 4):
        month = periods.month(scene.today.year, scene.today.month + shift)
        found = month.start + (int(match["day"]) - 1) * _DAY
        if found < month.end:
            candidates.append(day(found))
    return _on_weekday(match, candidates, _SOME_MONTHS, scene, "day_of_month")


def _numeric(match: Match, rule: Rule, scene: Scene) -> Period | None:
    order = rule.args["order"]
    a, b = int(match["a"]), int(match["b"])
    if order == "ymd":
        return day(date(a, b, int(match["c"])))
    day_first = True if order == "dmy" else day_comes_first(a, b, scene.day_first)
    month, number = (b, a) if day_first else (a, b)
    if not group(match, "c"):
        return _month_day(match, rule, scene, month, number) if day_first is not None else None
    year = full_year(match["c"])
    if day_first is None:
        return replace(day(date(year, a, b)), doubt=True, other=day(date(year, b, a)))
    return day(date(year, month, number))


def _east_asian(match: Match, rule: Rule, scene: Scene) -> Period | None:
    year, month, number = year_of(match), group(match, "month"), group(match, "day")
    if month and number:
        return _month_day(match, rule, scene, int(month), int(number))
    if month:
        return _of_month(int(month), year, match, rule, scene)
    return periods.year(year) if year else None


# --- months, years, seasons, holidays -------------------------------------------------------------


def _of_month(month: int, year: int | None, match: Match, rule: Rule, scene: Scene) -> Period | None:
    if not 1 <= month <= 12:
        return None
    if year is not None:
        return periods.month(year, month)
    candidates = [periods.month(near, month) for near in years_near(scene)]
    return choose_bare(candidates, scene, at(match), "month")


def _month(match: Match, rule: Rule, scene: Scene) -> Period | None:
    word, year = match["month"], year_of(match)
    if word.isdigit():
        return _of_month(int(word), year, match, rule, scene)
    if not year and capital_word(match, "month", rule, scene) is None:
        return None
    number = scene.language.months[fold_word(word)]
    return _of_month(number, year, match, rule, scene)


def _year(match: Match, rule: Rule, scene: Scene) -> Period | None:
    year = year_of(match)
    return None if year is None else periods.year(year)


def _year_range(match: Match, rule: Rule, scene: Scene) -> Period | None:
    first, last = int(match["year"]), int(match["year2"])
    last += first // 100 * 100 if last < 100 else 0
    return Period(date(first, 1, 1), date(last + 1, 1, 1), "year") if first < last else None


def _decade(match: Match, rule: Rule, scene: Scene) -> Period | None:
    digits = group(match, "decade")
    if not digits:
        return periods.decade(scene.language.decades[fold_word(match["decadename"])])
    number = int(digits)
    if number < 100:
        number += 1900 if number >= 30 else 2000
    elif number % 100 == 0 and number < 2000:
        return None  # "the 1800s" is a century
    return periods.decade(number)


def _season(match: Match, rule: Rule, scene: Scene) -> Period | None:
    year = year_of(match)
    if year:
        return periods.season(year, scene.language.seasons[fold_word(match["season"])])
    kind, candidates = around(match, rule, scene) or ("season", ())
    return choose_bare(candidates, scene, at(match), kind)


def _quarter(match: Match, rule: Rule, scene: Scene) -> Period | None:
    number, size = int(match["quarter"]), 12 // int(rule.args["of"])
    year = year_of(match)
    if year:
        return periods.months_from(year, size * (number - 1) + 1, size, "season")
    candidates = [
        periods.months_from(near, size * (number - 1) + 1, size, "season") for near in years_near(scene)
    ]
    return choose_bare(candidates, scene, at(match), "quarter")


def _holiday(match: Match, rule: Rule, scene: Scene) -> Period | None:
    year, name = year_of(match), scene.language.holidays[fold_word(match["holiday"])]
    if year:
        return holiday(name, year)
    if rule.args.get("told") and tense_of(scene, *at(match)) not in ("past", "future"):
        return None
    found = around(match, rule, scene)
    return choose_bare(found[1], scene, at(match), "holiday") if found else None


OPERATIONS: dict[str, Operation] = {
    "away": units.away,
    "counted": counted,
    "cycle": cycle,
    "date": _date,
    "day_of_month": _day_of_month,
    "day_range": _day_range,
    "decade": _decade,
    "east_asian": _east_asian,
    "elapsed": units.elapsed,
    "holiday": _holiday,
    "lasting": units.lasting,
    "month": _month,
    "numeric": _numeric,
    "ordinal_date": _ordinal_date,
    "quarter": _quarter,
    "remaining": units.remaining,
    "rolling": units.rolling,
    "season": _season,
    "shift": units.shift,
    "weekday": bare_weekday,
    "weekend": units.weekend,
    "year": _year,
    "year_range": _year_range,
}
