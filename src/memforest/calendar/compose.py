"""What words in front of a date make of it: "early June", "the week before 9 June", "the first Monday of May".

"The week before" a day is the seven days before it; "two weeks before" it is the Monday-to-Sunday week
that contains the day a fortnight earlier, as with "two weeks ago". Month and year are calendar units.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from memforest.calendar import period as periods
from memforest.calendar.cycles import within
from memforest.calendar.fold import fold_word
from memforest.calendar.groups import Match, group, number_range, unit_of, weekday_of
from memforest.calendar.language import Rule
from memforest.calendar.period import Period, stepped, unit_period
from memforest.calendar.scene import Scene

Prefix = Callable[[Match, Rule, Scene, Period], "Period | None"]
_DAY = timedelta(days=1)
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
    return found.marked(doubt=True) if wrong else found


def _like(base: Period, found: Period) -> Period:
    return found.marked(
        relative=base.relative, approx=base.approx, open_year=base.open_year, doubt=base.doubt
    )


# --- "the first week of ..." ----------------------------------------------------------------------


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
    return _on_its_side(base, _like(base, found), scene) if found else None


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


# --- "the week before ..." ------------------------------------------------------------------------


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
    if weekday is not None:
        return _like(base, periods.day(_next_to(base, weekday, side))) if numbers is None else None
    if unit is None:
        return None
    if unit == "weekend":
        return _like(base, periods.days(_next_to(base, 5, side, length=2), 2)) if numbers is None else None
    if unit == "week" and numbers is None and base.precision != "week":
        start = base.start - 7 * _DAY if side < 0 else base.end
        return _like(base, periods.days(start, 7, "week"))
    low, high = numbers or (1, 1)
    edge = base.start if side < 0 else base.end - _DAY
    ends = [unit_period(unit, edge, side * low), unit_period(unit, edge, side * high)]
    found = Period(min(p.start for p in ends), max(p.end for p in ends), ends[0].precision)
    vague = low != high or bool(group(match, "approx"))
    return _like(base, found).marked(approx=base.approx or vague)


def _next_to(base: Period, weekday: int, side: int, length: int = 1) -> date:
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
    return _like(base, unit_period(unit, base.start))


# --- "a week from ..." -----------------------------------------------------------------------------


def _offset(match: Match, rule: Rule, scene: Scene, base: Period) -> Period | None:
    """Return the very day so many units from a day: "a week on Tuesday", "a month ago yesterday", "Monday week"."""
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
    found = periods.day(stepped(start, unit, sign * numbers[0])).marked(relative=True)
    if (
        base.kind == "weekday" and sign < 0 and numbers[0] > 1
    ):  # two weeks before it, or of the week two weeks ago?
        its_week = within(base, unit_period(unit, scene.today, -numbers[0]))
        return found.marked(doubt=its_week is None or its_week.start != found.start)
    return found


# --- "Tuesday of next week" ------------------------------------------------------------------------


def framed(first: Period, second: Period, *, reverse: bool) -> Period | None:
    """Return which day or month is meant that stands beside what holds it: "Tuesday" and "next week".

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
    return None if found is None else found.marked(relative=frame.relative, approx=named.approx)


# --- "between March and May 2023" -------------------------------------------------------------------


def shared_year(first: Period, second: Period, *, ordered: bool) -> tuple[Period, Period]:
    """Let the end of a range that names no year take the other's, keeping the two in order.

    If neither names one and the words say that they are `ordered` ("between June and August"), the
    first is moved to before the second.

    Raises:
        ValueError: if the day does not exist in that year.
    """
    if first.open_year and not second.relative:
        moved = in_year(first, second.start.year)
        return (moved if moved.start <= second.start else in_year(first, second.start.year - 1)), second
    if second.open_year and not first.relative:
        moved = in_year(second, first.start.year)
        return first, (moved if moved.start >= first.start else in_year(second, first.start.year + 1))
    if not (ordered and first.open_year and second.open_year):
        return first, second
    if second.doubt and not first.doubt:
        moved = in_year(second, first.start.year)
        moved = moved if moved.start >= first.start else in_year(second, first.start.year + 1)
        return first, moved.marked(relative=True)
    if first.start > second.start:
        return in_year(first, second.start.year).marked(relative=True, doubt=second.doubt), second
    return first, second


def in_year(period: Period, year: int) -> Period:
    """Return a period that names no year in the one that was found elsewhere.

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
