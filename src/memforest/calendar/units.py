"""Units counted from now: "two weeks ago", "in a month", "for three years", "the last ten days", "later this year".

- "N units ago" is the calendar unit that contains that day ("two weeks ago": a Monday-to-Sunday week), because nobody
  means the exact day; only days and hours give a day, and so does "six weeks ago today".
- "last week/month/year" is the calendar unit before the current one (see `memforest.calendar.cycles`), "the last week"
  the seven days up to today.
"""

from __future__ import annotations

import re
from datetime import timedelta

from memforest.calendar.decide import choose_bare
from memforest.calendar.fold import fold_word
from memforest.calendar.groups import at, group, number_range, unit_of, vague
from memforest.calendar.language import Rule
from memforest.calendar.period import Period, day, stepped, unit_period
from memforest.calendar.scene import Scene
from memforest.calendar.tense import tense_of
from memforest.types import Precision

Match = re.Match[str]

_DAY = timedelta(days=1)
_CLOCK = ("minute", "hour")
_PRECISION: dict[str, Precision] = {
    **dict.fromkeys(("minute", "hour", "day", "weekend"), "day"),
    **dict.fromkeys(("week", "fortnight"), "week"),
    "month": "month",
    "quarter": "season",
    "year": "year",
    "decade": "decade",
}


def shift(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the unit that lies a fixed number of units away."""
    return unit_period(unit_of(match, rule, scene), scene.today, rule.args["shift"]).marked(relative=True)


def away(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the unit so many units away, or the day itself where the words say so ("a year ago today")."""
    exact = group(match, "exact")
    numbers = number_range(match, rule, scene) or ((1, 1) if exact else None)
    if numbers is None or not _looks_ahead(match, rule, scene):
        return None
    unit, sign = unit_of(match, rule, scene), rule.args.get("sign", -1)
    if exact:
        on = stepped(scene.today, unit, sign * numbers[0])
        wider = group(match, "wider")
        found = unit_period(scene.language.units[fold_word(wider)], on) if wider else day(on)
        return found.marked(relative=True)
    if group(match, "half") or group(match, "half2"):
        return _and_a_half(scene, unit, sign * numbers[0], sign)
    ends = [_moved(scene, unit, sign * number) for number in numbers]
    start, end = min(p.start for p in ends), max(p.end for p in ends)
    return Period(start, end, _PRECISION[unit], relative=True, approx=vague(match, rule, numbers))


def _and_a_half(scene: Scene, unit: str, count: int, sign: int) -> Period | None:
    """Return "two and a half years" in months, months in weeks, weeks in days; nothing finer is a date."""
    if unit == "year":
        found = unit_period("month", scene.today, 12 * count + 6 * sign)
    elif unit == "month":
        found = unit_period("week", stepped(scene.today, "month", count) + 15 * sign * _DAY)
    else:
        days = {"week": 7, "decade": 3652}.get(unit, 1)
        found = _moved(scene, "day", days * count + days // 2 * sign)
    return found.marked(relative=True, approx=True)


def _looks_ahead(match: Match, rule: Rule, scene: Scene) -> bool:
    """Tell whether "in two weeks" is a time to come, and not how long something took, takes or would take."""
    if rule.args.get("requires") != "future":
        return True
    tense, unit = tense_of(scene, *at(match)), unit_of(match, rule, scene)
    if unit in _CLOCK or tense in ("future", "coming"):
        return tense == "future" or (tense == "coming" and unit != "minute")
    return tense == "none" or (tense == "present" and unit != "day")


def _moved(scene: Scene, unit: str, count: int) -> Period:
    if unit in _CLOCK:
        return day(scene.day_after(timedelta(**{f"{unit}s": count})))
    return unit_period(unit, scene.today, count)


def lasting(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return when what has lasted so long began; None without a perfect tense, where the rule wants one."""
    clause = scene.clause(*match.span())[0], match.start()
    if rule.args.get("requires") == "perfect" and not scene.says(scene.language.perfect, clause):
        return None
    return away(match, Rule("away", rule.regex, {"sign": -1}), scene)


def rolling(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the days from so many units ago to today, or from today on."""
    if not _looks_ahead(match, rule, scene):
        return None
    numbers = number_range(match, rule, scene) or (1, 1)
    unit, sign = unit_of(match, rule, scene), rule.args["sign"]
    if unit in _CLOCK:
        edge = scene.day_after(timedelta(**{f"{unit}s": sign * numbers[1]}))
    else:
        edge = stepped(scene.today, unit, sign * numbers[1])
    start, end = (edge, scene.today) if sign < 0 else (scene.today, edge)
    return Period(start, end + _DAY, _PRECISION[unit], relative=True, approx=vague(match, rule, numbers))


def elapsed(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the current unit up to today."""
    whole = unit_period(unit_of(match, rule, scene), scene.today)
    return Period(whole.start, scene.today + _DAY, whole.precision, relative=True)


def remaining(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Return the current unit from today on."""
    whole = unit_period(unit_of(match, rule, scene), scene.today)
    return Period(scene.today, whole.end, whole.precision, relative=True)


def weekend(match: Match, rule: Rule, scene: Scene) -> Period | None:
    """Read "the weekend" as the latest begun in the past tense, else as the one to come or in progress."""
    near = [unit_period("weekend", scene.today, shift) for shift in (-1, 0, 1)]
    return choose_bare(near, scene, at(match), "weekend")
