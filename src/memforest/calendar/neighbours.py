"""What dates make of the words and dates beside them: prefixes, frames, bounds, ranges and the year of the sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from memforest.calendar.compose import PREFIXES, framed, in_year, shared_year
from memforest.calendar.language import Rule
from memforest.calendar.period import Period
from memforest.calendar.scene import Scene

Direction = Literal["at", "since", "until", "before", "after", "for"]
"""How a statement relates to the days named: within them, from them on, up to and including them, up to
their start, from their end; ``for`` ("have lived here for 5 years") began within them and still holds."""

_PREFIX_REACH = 60
_JOINT_REACH = 12
_BOUNDS: tuple[Direction, ...] = ("since", "until", "before", "after")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Found:
    """A date while it is worked on; positions are those of the folded text."""

    start: int
    end: int
    period: Period
    scene: Scene
    direction: Direction = "at"


def read_together(found: Sequence[Found]) -> list[Found]:
    """Return the dates of a text, in order, as the words and dates around them change them."""
    return _with_anaphors(_in_told_years(_joined([_bounded(hit) for hit in _framed(_extended(found))])))


def _with_anaphors(found: list[Found]) -> list[Found]:
    """Add what is said by the date before it: "two days later", "the following Monday"."""
    if not found:
        return found
    scene = found[0].scene
    words = set(_WORD.findall(scene.text.lower()))
    added: list[Found] = []
    for language in scene.speakers:
        for rule in language.anaphors:
            if not rule.words.isdisjoint(words):
                added += _anaphors(rule, replace(scene, language=language), found)
    return sorted([*found, *added], key=lambda hit: hit.start) if added else found


def _anaphors(rule: Rule, scene: Scene, found: Sequence[Found]) -> Iterator[Found]:
    for match in rule.regex.finditer(scene.text):
        start, end = match.span()
        before = [hit for hit in found if hit.end <= start]
        free = all(hit.end <= start or hit.start >= end for hit in found)
        if not (before and free) or before[-1].period.doubt or before[-1].direction != "at":
            continue
        period = _changed(match, rule, scene, before[-1].period)
        if period is not None:
            yield Found(start, end, period, scene)


def _extended(found: Sequence[Found]) -> list[Found]:
    """Let the words before each date change it; a date they swallow whole disappears."""
    kept: list[Found] = []
    for hit in found:
        wider = _widened(hit)
        while wider.start < hit.start and kept and kept[-1].start >= wider.start:
            kept.pop()
        if kept and kept[-1].end > wider.start:
            wider = hit
        kept.append(wider)
    return kept


def _widened(hit: Found) -> Found:
    """Apply up to two prefixes, the nearer first: "the end of the week before 9 June"."""
    hit = _with_suffix(hit)
    for _ in range(2):
        wider = _with_prefix(hit)
        if wider is None:
            break
        hit = wider
    return hit


def _with_suffix(hit: Found) -> Found:
    scene = hit.scene
    for language in scene.speakers:
        for rule in language.suffixes:
            match = rule.regex.match(scene.text, hit.end)
            period = match and _changed(match, rule, replace(scene, language=language), hit.period)
            if match and period:
                return replace(hit, end=match.end(), period=period)
    return hit


def _with_prefix(hit: Found) -> Found | None:
    scene, low = hit.scene, max(0, hit.start - _PREFIX_REACH)
    before = scene.text[low : hit.start]
    words = set(_WORD.findall(before.lower()))
    for language in scene.speakers:
        for rule in language.prefixes:
            match = None if rule.words.isdisjoint(words) else rule.regex.search(before)
            period = match and _changed(match, rule, replace(scene, language=language), hit.period)
            if match and period:
                return replace(hit, start=low + match.start(), period=period)
    return None


def _changed(match: re.Match[str], rule: Rule, scene: Scene, base: Period) -> Period | None:
    try:
        return PREFIXES[rule.op](match, rule, scene, base)
    except (ValueError, OverflowError):
        return None


def _framed(found: list[Found]) -> list[Found]:
    """Make one date of a day and what holds it: "Tuesday of next week", "next month on the 3rd", "May last year"."""
    kept: list[Found] = []
    for hit in found:
        whole = _whole(kept[-1], hit) if kept else None
        if whole is None:
            kept.append(hit)
        else:
            kept[-1] = whole
    return kept


def _whole(first: Found, second: Found) -> Found | None:
    if second.start - first.end > _JOINT_REACH:
        return None
    text = first.scene.text
    for language in first.scene.speakers:
        for between, reverse in ((language.frame_before, True), (language.frame_behind, False)):
            if between is not None and between.fullmatch(text, first.end, second.start):
                period = framed(first.period, second.period, reverse=reverse)
                if period is not None:
                    return replace(first, end=second.end, period=period)
    return None


def _bounded(hit: Found) -> Found:
    """Read the direction from the words before a date ("since") or behind it ("from May on")."""
    if hit.direction != "at":
        return hit
    text = hit.scene.text
    before = text[max(0, hit.start - _PREFIX_REACH) : hit.start]
    for language in hit.scene.speakers:
        match = language.before.search(before) if language.before else None
        for way in _BOUNDS:
            if match and match[way]:
                return replace(hit, direction=way)
        if language.onwards and language.onwards.match(text, hit.end):
            return replace(hit, direction="since")
    return hit


def _joined(found: list[Found]) -> list[Found]:
    """Join neighbours: "March" in "between March and May 2023" takes its partner's year, and both are one stretch.

    The ends of a range ("from March until May") are no longer bounds of their own. What only stands together ("March
    and May 2023") stays two dates.
    """
    kept: list[Found] = []
    for hit in found:
        if not kept or hit.start - kept[-1].end > _JOINT_REACH or not _stand_in(hit, kept[-1], "joint"):
            kept.append(hit)
            continue
        kept[-1:] = _pair(kept[-1], hit)
    return kept


def _pair(first: Found, second: Found) -> list[Found]:
    opened = _opens_range(first)
    ranged = opened or _stand_in(second, first, "through")
    try:
        one, two = shared_year(first.period, second.period, ordered=opened)
    except (ValueError, OverflowError):
        return [first, second]
    one, two = _in_turn(one, two, first.scene.today)
    if opened:
        first, second = replace(first, direction="at"), replace(second, direction="at")
    of_two_months = one.kind == two.kind == "day_of_month" and one.start > two.start
    if ranged and (two.doubt or of_two_months):  # "from the 28th to the 3rd": of which months?
        one, two = one.marked(doubt=True), two.marked(doubt=True)
    if not ranged or one.doubt or two.doubt or one.start >= two.start:
        return [replace(first, period=one), replace(second, period=two)]
    whole = Period(
        one.start,
        two.end,
        two.precision,
        relative=one.relative or two.relative,
        approx=one.approx or two.approx,
        open_year=one.open_year and two.open_year,
    )
    return [replace(first, end=second.end, period=whole, direction="at")]


def _in_turn(first: Period, second: Period, today: date) -> tuple[Period, Period]:
    """Return the days of "Monday to Thursday" in this order: on a Wednesday, both next week or both before today."""
    known = first.kind == second.kind == "weekday" and not (first.doubt or second.doubt)
    if not known or first.start <= second.start:
        return first, second
    return (first, second.later(7)) if first.start > today else (first.later(-7), second)


def _in_told_years(found: list[Found]) -> list[Found]:
    """Give days and months without a year the one that their sentence tells: "In 2018 we married on 4 August".

    When it tells several, all are in doubt.
    """
    years = [hit for hit in found if hit.period.precision == "year" and hit.direction == "at"]
    if not years:
        return found
    return [_in_told_year(hit, years) if hit.period.open_year else hit for hit in found]


def _in_told_year(hit: Found, years: list[Found]) -> Found:
    low, high = hit.scene.sentence(hit.start, hit.end)
    told = {one.period for one in years if low <= one.start and one.end <= high}
    if not told:
        return hit
    (year, *others) = told
    if others or year.approx or year.end.year - year.start.year != 1:
        return replace(hit, period=hit.period.marked(doubt=True))
    try:
        return replace(hit, period=in_year(hit.period, year.start.year).marked(relative=year.relative))
    except ValueError:
        return replace(hit, period=hit.period.marked(doubt=True))


def _stand_in(second: Found, first: Found, name: Literal["joint", "through"]) -> bool:
    """Tell whether nothing but a word that joins stands between two dates."""
    patterns = (getattr(language, name) for language in first.scene.speakers)
    return any(
        one is not None and one.fullmatch(first.scene.text, first.end, second.start) for one in patterns
    )


def _opens_range(first: Found) -> bool:
    before = first.scene.text[max(0, first.start - _PREFIX_REACH) : first.start]
    return first.direction == "since" or any(
        language.between is not None and language.between.search(before) for language in first.scene.speakers
    )
