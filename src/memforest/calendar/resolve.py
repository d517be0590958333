"""The operations that the rules of a language file name: from a match to a run of days.

Each takes the match, the rule and the scene, and returns a period, or None when the words turn out not
to be a date. They may raise `ValueError` or `OverflowError` for days that do not exist; the caller
reads that as None.

- "N units ago" is the calendar unit that contains that day ("two weeks ago": a Monday-to-Sunday week),
  because nobody means the exact day; only days and hours give a day.
- "last Friday" is the latest Friday before today, also on a Friday; "this Friday" the coming one, or today, or in the
  past tense the latest; "next Friday" lies in the next Monday-to-Sunday week. Which a bare "Friday" is, and which a
  "May", is for `memforest.calendar.decide` to say.
- "last week/month/year" is the calendar unit before the current one, "the last week" the seven days up
  to today.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

from memforest.calendar import period as periods
from memforest.calendar.decide import Kind, choose, choose_bare
from memforest.calendar.fold import fold_word
from memforest.calendar.language import Rule
from memforest.calendar.numeric import day_comes_first
from memforest.calendar.period import Period, day, unit_period
from memforest.calendar.scene import Scene
from memforest.calendar.tense import tense_of
from memforest.types import Precision

__all__ = ["OPERATIONS", "Operation", "number_range", "unit_of", "weekday_of"]

Match = re.Match[str]
Operation = Callable[[Match, Rule, Scene], "Period | None"]

_DAY = timedelta(days=1)
_A_YEAR = timedelta(days=366)
_PRECISION: dict[str, Precision] = {
    "minute": "day",
    "hour": "day",
    "day": "day",
    "week": "week",
    "weekend": "day",
    "month": "month",
    "quarter": "season",
    "year": "year",
    "decade": "decade",
}
_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_ORDINAL_DAY = re.compile(r"\d(?:st|nd|rd|th)(?!\w)", re.IGNORECASE)


# --- reading the groups ---------------------------------------------------------------------------


def group(match: Match, name: str) -> str | None:
    """Return a named group, or None if the pattern lacks it or it took no part in the match."""
    return match.group(name) if name in match.re.groupindex else None


def at(match: Match) -> tuple[int, int]:
    """Return where the date itself stands: the group ``span``, else the whole match."""
    return match.span("span") if "span" in match.re.groupindex else match.span()


def unit_of(match: Match, rule: Rule, scene: Scene) -> str:
    """Return the unit that the rule fixes or the words name."""
    named = rule.args.get("unit")
    return str(named) if named else scene.language.units[fold_word(match["unit"])]


def number_range(match: Match, rule: Rule, scene: Scene) -> tuple[int, int] | None:
    """Return the number as a range (twice the same unless it is vague); None if there is none."""
    fixed = rule.args.get("number")
    if fixed:
        return int(fixed[0]), int(fixed[1])
    word = group(match, "number")
    if not word:
        return None
    if word.isdigit():
        return int(word), int(word)
    return scene.language.numbers[fold_word(word)]


def weekday_of(match: Match, rule: Rule, scene: Scene) -> int | None:
    """Return the weekday (0 is Monday), or None if the word is something else ("sat down")."""
    word = _unless_doubtful(match, "weekday", rule, scene)
    return None if word is None else scene.language.weekdays[word] - 1


def _unless_doubtful(match: Match, name: str, rule: Rule, scene: Scene) -> str | None:
    word = group(match, name)
    if word is None:
        return None
    folded = fold_word(word)
    doubtful = folded in scene.language.capital and not rule.args.get("any_case") and not word[0].isupper()
    return None if doubtful else folded


def _vague(match: Match, numbers: tuple[int, int]) -> bool:
    return numbers[0] != numbers[1] or bool(group(match, "approx") or group(match, "approx2"))


# --- units ----------------------------------------------------------------------------------------


def _shift(match: Match, rule: Rule, scene: Scene) -> Period | None:
    return unit_period(unit_of(match, rule, scene), scene.today, rule.args["shift"]).marked(relative=True)


def _away(match: Match, rule: Rule, scene: Scene) -> Period | None:
    numbers = number_range(match, rule, scene)
    if numbers is None or (rule.args.get("requires") == "future" and tense_of(scene, *at(match)) != "coming"):
        return None
    unit, sign = unit_of(match, rule, scene), rule.args.get("sign", -1)
    if rule.args.get("exact"):
        return day(_stepped(scene, unit, sign * numbers[0])).marked(relative=True)
    ends = [_moved(scene, unit, sign * number) for number in numbers]
    start, end = min(p.start for p in ends), max(p.end for p in ends)
    return Period(start, end, _PRECISION[unit], relative=True, approx=_vague(match, numbers))


def _moved(scene: Scene, unit: str, count: int) -> Period:
    if unit in ("hour", "minute"):
        return day(scene.day_after(timedelta(**{f"{unit}s": count})))
    return unit_period(unit, scene.today, count)


def _lasting(match: Match, rule: Rule, scene: Scene) -> Period | None:
    clause = scene.clause(*match.span())[0], match.start()
    if rule.args.get("requires") == "perfect" and not scene.says(scene.language.perfect, clause):
        return None
    return _away(match, Rule("away", rule.regex, {"sign": -1}), scene)


def _rolling(match: Match, rule: Rule, scene: Scene) -> Period | None:
    numbers = number_range(match, rule, scene) or (1, 1)
    unit, sign = unit_of(match, rule, scene), rule.args["sign"]
    edge = _stepped(scene, unit, sign * numbers[1])
    start, end = (edge, scene.today) if sign < 0 else (scene.today, edge)
    return Period(start, end + _DAY, _PRECISION[unit], relative=True, approx=_vague(match, numbers))


def _stepped(scene: Scene, unit: str, count: int) -> date:
    """Return the day so many units away, cut to the last day of a shorter month."""
    today = scene.today
    if unit in _MONTHS_IN:
        month = periods.month(today.year, today.month + count * _MONTHS_IN[unit])
        return min(month.start + (today.day - 1) * _DAY, month.end - _DAY)
    if unit in ("week", "weekend"):
        return today + 7 * count * _DAY
    return _moved(scene, unit, count).start


def _elapsed(match: Match, rule: Rule, scene: Scene) -> Period | None:
    whole = unit_period(unit_of(match, rule, scene), scene.today)
    return Period(whole.start, scene.today + _DAY, whole.precision, relative=True)


def _remaining(match: Match, rule: Rule, scene: Scene) -> Period | None:
    whole = unit_period(unit_of(match, rule, scene), scene.today)
    return Period(scene.today, whole.end, whole.precision, relative=True)


def _weekend(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Read "this weekend" as the one to come or in progress, in the past tense as the latest begun."""
    saturdays = [periods.weekend(scene.today + shift * 7 * _DAY) for shift in (-1, 0, 1)]
    which = "bare" if group(match, "bare") is not None else "this"
    found = choose(saturdays, which, scene, at(match), "weekend")
    return found.marked(open_year=False) if found else None


# --- weekdays -------------------------------------------------------------------------------------


def _weekday(match: Match, rule: Rule, scene: Scene) -> Period | None:
    number = weekday_of(match, rule, scene)
    if number is None:
        return None
    today, which = scene.today, rule.args["which"]
    if which == "next":
        return day(today + (7 - today.weekday() + number) * _DAY).marked(relative=True)
    same = [day(today + ((number - today.weekday()) % 7 + 7 * weeks) * _DAY) for weeks in (-2, -1, 0, 1)]
    if which == "bare":
        found = choose_bare(same, scene, at(match), "weekday", strict=True)
        doubt = found is not None and (found.doubt or number == today.weekday())
        return found.marked(open_year=False, doubt=doubt, weekday=True) if found else None
    return choose(same, "next" if which == "coming" else which, scene, at(match), "weekday")


# --- dates with a month ---------------------------------------------------------------------------


def _month_day(
    match: Match, rule: Rule, scene: Scene, month: int, number: int, kind: Kind = "day"
) -> Period | None:
    year = group(match, "year")
    if year:
        return day(date(int(year), month, number))
    candidates = [
        one for year_ in _years_near(scene, 8) if (one := _day_in(year_, month, number)) is not None
    ]
    if not candidates:
        raise ValueError("there is no such day")
    named = group(match, "dayname")
    if named is not None:  # "Monday 5 May": at most one of the years near has it
        weekday = scene.language.weekdays[fold_word(named)] - 1
        near = [one for one in candidates if abs(one.start - scene.today) < _A_YEAR]
        candidates = [one for one in near if one.start.weekday() == weekday]
        found = candidates[0] if candidates else near[0].marked(doubt=True)
        return found.marked(relative=True)
    return choose(candidates, rule.args.get("which", "bare"), scene, at(match), kind)


def _day_in(year: int, month: int, number: int) -> Period | None:
    try:
        return day(date(year, month, number))
    except ValueError:  # 29 February
        return None


def _date(match: Match, rule: Rule, scene: Scene) -> Period | None:
    firm = group(match, "year") or _ORDINAL_DAY.search(match[0])
    if not firm and _unless_doubtful(match, "month", rule, scene) is None:
        return None
    return _month_day(match, rule, scene, scene.language.months[fold_word(match["month"])], int(match["day"]))


def _ordinal_date(match: Match, rule: Rule, scene: Scene) -> Period | None:
    number = scene.language.ordinals[fold_word(match["ordinal"])]
    if number < 1:
        return None
    return _month_day(match, rule, scene, scene.language.months[fold_word(match["month"])], number)


def _day_range(match: Match, rule: Rule, scene: Scene) -> Period | None:
    if _unless_doubtful(match, "month", rule, scene) is None and not group(match, "year"):
        return None
    first = _month_day(
        match, rule, scene, scene.language.months[fold_word(match["month"])], int(match["day"])
    )
    last = int(match["day2"])
    if first is None or last <= first.start.day:
        return None
    return replace(first, end=first.start.replace(day=last) + _DAY)


def _day_of_month(match: Match, rule: Rule, scene: Scene) -> Period | None:
    candidates = []
    for shift in range(-3, 4):
        month = periods.month(scene.today.year, scene.today.month + shift)
        found = month.start + (int(match["day"]) - 1) * _DAY
        if found < month.end:
            candidates.append(day(found))
    chosen = choose_bare(candidates, scene, at(match), "day_of_month")
    return chosen.marked(open_year=False) if chosen else None


def _numeric(match: Match, rule: Rule, scene: Scene) -> Period | None:
    order = rule.args["order"]
    a, b = int(match["a"]), int(match["b"])
    if order == "ymd":
        return day(date(a, b, int(match["c"])))
    day_first = True if order == "dmy" else day_comes_first(a, b, scene.day_first)
    month, number = (b, a) if day_first else (a, b)
    if not group(match, "c"):
        return _month_day(match, rule, scene, month, number) if day_first is not None else None
    year = _full_year(match["c"])
    if day_first is None:
        return replace(day(date(year, a, b)), doubt=True, other=day(date(year, b, a)))
    return day(date(year, month, number))


def _full_year(digits: str) -> int:
    """Return a year of four or two digits: 69-99 are 1969-1999, 00-68 are 2000-2068 (POSIX strptime, ``%y``)."""
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= 69 else 2000)


def _east_asian(match: Match, rule: Rule, scene: Scene) -> Period | None:
    year, month, number = (group(match, name) for name in ("year", "month", "day"))
    if month and number:
        return _month_day(match, rule, scene, int(month), int(number))
    if month:
        return _of_month(int(month), int(year) if year else None, match, rule, scene)
    return periods.year(int(year)) if year else None


# --- months, years, seasons, holidays -------------------------------------------------------------


def _years_near(scene: Scene, count: int = 3) -> range:
    year = scene.today.year
    return range(max(year - count, 1), min(year + count, 9998) + 1)


def _of_month(month: int, year: int | None, match: Match, rule: Rule, scene: Scene) -> Period | None:
    if not 1 <= month <= 12:
        return None
    if year is not None:
        return periods.month(year, month)
    candidates = [periods.month(near, month) for near in _years_near(scene)]
    return choose(candidates, rule.args.get("which", "bare"), scene, at(match), "month")


def _month(match: Match, rule: Rule, scene: Scene) -> Period | None:
    word, year = match["month"], group(match, "year")
    if word.isdigit():
        return _of_month(int(word), int(year or 0), match, rule, scene)
    if not year and _unless_doubtful(match, "month", rule, scene) is None:
        return None
    number = scene.language.months[fold_word(word)]
    return _of_month(number, int(year) if year else None, match, rule, scene)


def _year(match: Match, rule: Rule, scene: Scene) -> Period | None:
    return periods.year(_full_year(match["year"]))


def _year_range(match: Match, rule: Rule, scene: Scene) -> Period | None:
    first, last = int(match["year"]), int(match["year2"])
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
    name, year = scene.language.seasons[fold_word(match["season"])], group(match, "year")
    if year:
        return periods.season(int(year), name)
    candidates = [periods.season(near, name) for near in _years_near(scene)]
    return choose(candidates, rule.args["which"], scene, at(match), "season")


def _holiday(match: Match, rule: Rule, scene: Scene) -> Period | None:
    month, number = scene.language.holidays[fold_word(match["holiday"])]
    return _month_day(match, rule, scene, month, number, "holiday")


OPERATIONS: dict[str, Operation] = {
    "away": _away,
    "date": _date,
    "day_of_month": _day_of_month,
    "day_range": _day_range,
    "decade": _decade,
    "east_asian": _east_asian,
    "elapsed": _elapsed,
    "holiday": _holiday,
    "lasting": _lasting,
    "month": _month,
    "numeric": _numeric,
    "ordinal_date": _ordinal_date,
    "remaining": _remaining,
    "rolling": _rolling,
    "season": _season,
    "shift": _shift,
    "weekday": _weekday,
    "weekend": _weekend,
    "year": _year,
    "year_range": _year_range,
}
