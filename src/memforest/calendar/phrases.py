"""Finds what a text says about time and works out which days it means.

Patterns and tables stand in a language file. For a language without one, ISO, numeric, East Asian and bare-year dates
still work: that is the fallback. Which of several days is meant, where the words leave it open, and when nobody can
tell, is decided in `memforest.calendar.decide`: a date in doubt is not among those found.

Left alone on purpose: times of day, recurring days ("on Fridays"), "now", ages, durations that say
nothing about when ("for 5 years" without "have"), holidays that move, dates relative to an event
("when I was ten"). The work is linear in the length of the text, of which the first `MAX_CHARS`
characters are read; a text of more than 400 characters is read in pieces that end at a sentence end, or
after 800 characters, where a date that straddles the cut may be missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone, tzinfo
from typing import Literal

from memforest.calendar.compose import PREFIXES, in_year, shared_year
from memforest.calendar.fold import fold_text, level_quotes
from memforest.calendar.language import DIGIT, Rule, load_language
from memforest.calendar.period import Period, to_utc
from memforest.calendar.resolve import OPERATIONS, at
from memforest.calendar.scene import Scene
from memforest.errors import TimestampError
from memforest.interval import EARLIEST, Interval
from memforest.types import Precision

__all__ = ["MAX_CHARS", "DateSpan", "Direction", "find_dates"]

Direction = Literal["at", "since", "until", "before", "after", "for"]
"""How a statement relates to the days named: within them, from them on, up to and including them, up to
their start, from their end; ``for`` ("have lived here for 5 years") began within them and still holds."""

MAX_CHARS = 1_000_000
"""How much of a text is searched; what lies behind it is not read."""

_PREFIX_REACH = 60
_JOINT_REACH = 12
_PIECE = 400
_BOUNDS: tuple[Direction, ...] = ("since", "until", "before", "after")
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?;]\s|\n")
_HAS_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A stretch of text that names a time, and the days it means.

    ``text[start_char:end_char]`` is `text`; prepositions are not part of it. `start` and `end` are the
    half-open bounds, in aware UTC, of the local days meant. `relative` is true when the reference was
    needed to find them, `approx` when the wording is vague ("a few years ago", "early June"). `decided` is false when
    nothing tells which of several days is meant; `other` is what the words may mean instead. `open_year` is true when a
    day or month is named without its year, and which of them is meant was chosen.
    """

    start_char: int
    end_char: int
    text: str
    start: datetime
    end: datetime
    precision: Precision
    relative: bool
    approx: bool = False
    direction: Direction = "at"
    decided: bool = True
    other: Interval | None = None
    open_year: bool = False

    @property
    def readings(self) -> tuple[Interval, ...]:
        """What the words may mean, first what they are taken to mean."""
        return (self.interval,) if self.other is None else (self.interval, self.other)

    @property
    def interval(self) -> Interval:
        """The days named, without regard to the direction."""
        return Interval(self.start, self.end)

    @property
    def window(self) -> Interval | None:
        """The time in which the statement holds, by its direction; None if that would be empty."""
        if self.direction in ("since", "for"):
            return Interval(self.start)
        if self.direction == "after":
            return Interval(self.end)
        end = self.start if self.direction == "before" else self.end
        start = self.start if self.direction == "at" else EARLIEST
        return Interval(start, end) if start < end else None


@dataclass(frozen=True, slots=True)
class _Found:
    """A date while it is worked on; positions are those of the folded text."""

    start: int
    end: int
    period: Period
    scene: Scene
    direction: Direction = "at"


def find_dates(
    text: str,
    reference: datetime,
    tz: tzinfo,
    languages: Sequence[str] = ("en", "es"),
    *,
    day_first: bool | None = None,
    doubtful: bool = False,
) -> list[DateSpan]:
    """Return the dates that a text names, in order and without overlaps.

    Args:
        text: what was said, in any language.
        reference: aware; when it was said, what "yesterday" is relative to.
        tz: the zone whose calendar days are meant.
        languages: BCP 47 codes of the tables to use. Unknown codes are skipped; if none is known, a bare year counts as
            a date.
        day_first: whether ``01/02/2023`` is 1 February; None is as the first language of the list writes it, and no
            date where it is written both ways, as in English.
        doubtful: also return those of which two days may be meant, with `DateSpan.decided` false; for who can ask which.

    Raises:
        TimestampError: if `reference` is naive.
    """
    if reference.utcoffset() is None:
        raise TimestampError(f"reference has no time zone: {reference!r}; attach one (tzinfo=timezone.utc)")
    folded, positions = fold_text(text[:MAX_CHARS])
    said = folded if positions is not None else level_quotes(text[:MAX_CHARS])
    scenes = _scenes(folded, said, reference, tz, languages, day_first)
    found = _without_overlaps(
        [hit for low, high in _pieces(folded) for scene in scenes for hit in _hits(scene, low, high)]
    )
    if not found:
        return []
    found = _in_told_years(_joined([_bounded(hit) for hit in _extended(found)]))
    if not doubtful:
        found = [hit for hit in found if not hit.period.doubt]
    spans = (_span(text, hit, positions, tz) for hit in found if not hit.period.doubt or hit.period.other)
    return [span for span in spans if span is not None]


def _scenes(
    text: str, said: str, reference: datetime, tz: tzinfo, languages: Sequence[str], day_first: bool | None
) -> list[Scene]:
    known = [language for code in languages if (language := load_language(code)) is not None]
    everywhere = load_language("any")
    try:
        now = reference.astimezone(tz)
    except OverflowError:
        now = reference.astimezone(timezone.utc)
    if day_first is None and known:
        day_first = known[0].day_first
    scenes = [Scene(text, said, now, tz, language, day_first, (language,)) for language in known]
    if everywhere is not None:
        ruled = tuple(language for language in known if language.verbs is not None)
        scenes.append(Scene(text, said, now, tz, everywhere, day_first, ruled))
    return scenes


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Cut a long text at sentence ends, so that a word in one place does not wake its rules in all."""
    low = 0
    while len(text) - low > _PIECE:
        stop = _SENTENCE_END.search(text, low + _PIECE, low + 2 * _PIECE)
        high = stop.end() if stop else min(low + 2 * _PIECE, len(text))
        yield low, high
        low = high
    yield low, len(text)


def _hits(scene: Scene, low: int, high: int) -> list[_Found]:
    words = set(_WORD.findall(scene.text[low:high].lower()))
    if _HAS_DIGIT.search(scene.text, low, high):
        words.add(DIGIT)
    hits = []
    for rule in scene.language.rules_for(words):
        if rule.args.get("fallback") and scene.speakers:
            continue
        direction: Direction = "for" if rule.op == "lasting" else "at"
        for match in rule.regex.finditer(scene.text, low, high):
            period = _resolved(match, rule, scene)
            if period is not None:
                hits.append(_Found(*at(match), period, scene, direction))
    return hits


def _resolved(match: re.Match[str], rule: Rule, scene: Scene) -> Period | None:
    try:
        return OPERATIONS[rule.op](match, rule, scene)
    except (ValueError, OverflowError):  # 31 June, or a day outside the years 1 to 9999
        return None


def _without_overlaps(hits: list[_Found]) -> list[_Found]:
    """Keep the leftmost of overlapping hits, and of those the longest."""
    kept: list[_Found] = []
    for hit in sorted(hits, key=lambda h: (h.start, -h.end)):
        if not kept or hit.start >= kept[-1].end:
            kept.append(hit)
    return kept


def _extended(found: list[_Found]) -> list[_Found]:
    """Let the words before each date change it; a date they swallow whole disappears."""
    kept: list[_Found] = []
    for hit in found:
        wider = _widened(hit)
        while wider.start < hit.start and kept and kept[-1].start >= wider.start:
            kept.pop()
        if kept and kept[-1].end > wider.start:
            wider = hit
        kept.append(wider)
    return kept


def _widened(hit: _Found) -> _Found:
    """Apply up to two prefixes, the nearer first: "the end of the week before 9 June"."""
    for _ in range(2):
        wider = _with_prefix(hit)
        if wider is None:
            break
        hit = wider
    return hit


def _with_prefix(hit: _Found) -> _Found | None:
    scene, low = hit.scene, max(0, hit.start - _PREFIX_REACH)
    before = scene.text[low : hit.start]
    for language in scene.speakers:
        for rule in language.prefixes:
            match = rule.regex.search(before)
            if match is None:
                continue
            try:
                period = PREFIXES[rule.op](match, rule, replace(scene, language=language), hit.period)
            except (ValueError, OverflowError):
                continue
            if period is not None:
                return replace(hit, start=low + match.start(), period=period)
    return None


def _bounded(hit: _Found) -> _Found:
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


def _joined(found: list[_Found]) -> list[_Found]:
    """Make ranges of neighbours: "March" in "between March and May 2023" takes its partner's year.

    The ends of a range ("from March until May") are no longer bounds of their own.
    """
    for index in range(len(found) - 1):
        first, second = found[index], found[index + 1]
        if second.start - first.end > _JOINT_REACH or not _are_joined(first, second):
            continue
        ranged = _opens_range(first)
        try:
            one, two = shared_year(first.period, second.period, ordered=ranged)
        except (ValueError, OverflowError):
            continue
        one, two = _in_turn(one, two, first.scene.today)
        first, second = replace(first, period=one), replace(second, period=two)
        if ranged:
            first, second = replace(first, direction="at"), replace(second, direction="at")
        found[index : index + 2] = first, second
    return found


def _in_turn(first: Period, second: Period, today: date) -> tuple[Period, Period]:
    """Return the days of "Monday to Thursday" in this order: on a Wednesday, both next week or both before today."""
    known = first.weekday and second.weekday and not (first.doubt or second.doubt)
    if not known or first.start <= second.start:
        return first, second
    return (first, second.later(7)) if first.start > today else (first.later(-7), second)


def _in_told_years(found: list[_Found]) -> list[_Found]:
    """Give days and months without a year the one that their sentence tells: "In 2018 we married on 4 August".

    When it tells several, all are in doubt.
    """
    years = [hit for hit in found if hit.period.precision == "year" and hit.direction == "at"]
    if not years:
        return found
    return [_in_told_year(hit, years) if hit.period.open_year else hit for hit in found]


def _in_told_year(hit: _Found, years: list[_Found]) -> _Found:
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


def _are_joined(first: _Found, second: _Found) -> bool:
    text = first.scene.text
    return any(
        language.joint is not None and language.joint.fullmatch(text, first.end, second.start)
        for language in first.scene.speakers
    )


def _opens_range(first: _Found) -> bool:
    before = first.scene.text[max(0, first.start - _PREFIX_REACH) : first.start]
    return first.direction == "since" or any(
        language.between is not None and language.between.search(before) for language in first.scene.speakers
    )


def _span(text: str, hit: _Found, positions: list[int] | None, tz: tzinfo) -> DateSpan | None:
    first, last = (hit.start, hit.end) if positions is None else (positions[hit.start], positions[hit.end])
    try:
        start, end = to_utc(hit.period.start, tz), to_utc(hit.period.end, tz)
    except OverflowError:
        return None
    if start >= end:
        return None
    period, other = hit.period, hit.period.other
    try:
        instead = None if other is None else Interval(to_utc(other.start, tz), to_utc(other.end, tz))
    except OverflowError:
        instead = None
    return DateSpan(
        first,
        last,
        text[first:last],
        start,
        end,
        period.precision,
        period.relative,
        period.approx,
        hit.direction,
        not period.doubt,
        instead,
        period.open_year,
    )
