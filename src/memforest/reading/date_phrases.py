"""Finds what a text, or a question, says about time and works out which days it means.

Patterns and tables stand in a language file. For a language without one, ISO, numeric, East Asian and bare-year dates
still work. Which of several days is meant, where the words leave it open, and when nobody can
tell, is decided in `memforest.reading.date_scene`: a date in doubt is not among those found. What stands around a date may
change it: prefixes, frames, bounds, ranges, and the year of its sentence.

Left alone on purpose: times of day, recurring days ("on Fridays"), "now", ages, durations that say
nothing about when ("for 5 years" without "have"), holidays that move, dates relative to an event
("when I was ten"). The work is linear in the length of the text, of which the first `MAX_CHARS`
characters are read; a text of more than 400 characters is read in pieces that end at a sentence end, or
after 800 characters, where a date that straddles the cut may be missed.

A question has a window where it names dates: "in May 2023", "last summer", "before June 2023", "between March and May
2023". Bounds by an event ("before moving to Miami"), durations ("for how long") and order ("the first time") are the
planner's. Several dates make one window, the smallest that covers them all, so that a date named in passing widens the
search instead of hiding evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise, product
from operator import attrgetter
from typing import Literal

from memforest.errors import TimestampError
from memforest.reading.date_language import (
    BOUNDS,
    DIGIT,
    QUOTES,
    SLASH,
    WIDE,
    Rule,
    fold_text,
    load_language,
    mended,
)
from memforest.reading.date_rules import OPERATIONS, PREFIXES, framed, in_year, shared_year
from memforest.reading.date_scene import Scene, at, is_of_fiction
from memforest.reading.periods import Period, to_utc
from memforest.records import Precision
from memforest.times import EARLIEST, Interval, hull

Direction = Literal["at", "since", "until", "before", "after", "for"]
"""How a statement relates to the days named: within them, from them on, up to and including them, up to
their start, from their end; ``for`` ("have lived here for 5 years") began within them and still holds."""

_PREFIX_REACH = 60
_JOINT_REACH = 12


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date while it is worked on; positions are those of the folded text."""

    start: int
    end: int
    period: Period
    scene: Scene
    direction: Direction = "at"


def _with_anaphors(found: list[FoundDate]) -> list[FoundDate]:
    """Add dates that are relative to the date before them: "two days later", "the following Monday"."""
    scene = found[0].scene
    words = set(_WORD.findall(scene.text.lower()))
    added: list[FoundDate] = []
    for rule, language in [(rule, one) for one in scene.speakers for rule in one.anaphors]:
        for match in () if rule.words.isdisjoint(words) else rule.regex.finditer(scene.text):
            start, end = match.span()
            before = [hit for hit in found if hit.end <= start]
            free = all(hit.end <= start or hit.start >= end for hit in found)
            if not (before and free) or before[-1].period.doubt or before[-1].direction != "at":
                continue
            spoken = replace(scene, language=language)
            period = _changed(match, rule, spoken, before[-1].period)
            if period is not None:
                added.append(FoundDate(start, end, period, spoken))
    return sorted([*found, *added], key=attrgetter("start"))


def _extended(found: Sequence[FoundDate]) -> list[FoundDate]:
    """Apply the words around each date to it; a date that becomes part of another one disappears.

    These are a suffix and up to two prefixes, the nearer first: "the end of the week before 9 June".
    """
    kept: list[FoundDate] = []
    for hit in found:
        wider, scene = hit, hit.scene
        prefixes = [(rule, one) for one in scene.speakers for rule in one.prefixes]
        for rule, language in [(rule, one) for one in scene.speakers for rule in one.suffixes]:
            match = rule.regex.match(scene.text, hit.end)
            period = match and _changed(match, rule, replace(scene, language=language), hit.period)
            if match and period:
                wider = replace(hit, end=match.end(), period=period)
                break
        for _ in range(2):
            low = max(0, wider.start - _PREFIX_REACH)
            before = scene.text[low : wider.start]
            words = set(_WORD.findall(before.lower()))
            for rule, language in prefixes:
                match = None if rule.words.isdisjoint(words) else rule.regex.search(before)
                period = match and _changed(match, rule, replace(scene, language=language), wider.period)
                if match and period:
                    wider = replace(wider, start=low + match.start(), period=period)
                    break
        while wider.start < hit.start and kept and kept[-1].start >= wider.start:
            kept.pop()
        kept.append(hit if kept and kept[-1].end > wider.start else wider)
    return kept


def _changed(match: re.Match[str], rule: Rule, scene: Scene, base: Period) -> Period | None:
    try:
        return PREFIXES[rule.op](match, rule, scene, base)
    except (ValueError, OverflowError):
        return None


def _framed(found: list[FoundDate]) -> list[FoundDate]:
    """Join a day and its frame into one date: "Tuesday of next week", "next month on the 3rd", "May last year"."""
    kept: list[FoundDate] = []
    for hit in found:
        first = kept[-1] if kept and hit.start - kept[-1].end <= _JOINT_REACH else None
        for language in first.scene.speakers if first else ():
            for between, reverse in (("frame_before", True), ("frame_behind", False)):
                if first and language.beside[between].fullmatch(first.scene.text, first.end, hit.start):
                    period = framed(first.period, hit.period, reverse=reverse)
                    if period is not None:
                        kept.pop()
                        hit, first = replace(first, end=hit.end, period=period), None
        kept.append(hit)
    return kept


def _bounded(hit: FoundDate) -> FoundDate:
    """Read the direction from the words before a date ("since") or behind it ("from May on")."""
    if hit.direction != "at":
        return hit
    text = hit.scene.text
    before = text[max(0, hit.start - _PREFIX_REACH) : hit.start]
    for language in hit.scene.speakers:
        match = language.beside["bound"].search(before)
        for way in BOUNDS:
            if match and match[way]:
                return replace(hit, direction=way)
        if language.beside["onwards"].match(text, hit.end):
            return replace(hit, direction="since")
    return hit


def _joined(found: list[FoundDate]) -> list[FoundDate]:
    """Join neighbours: "March" in "between March and May 2023" takes its partner's year, and both are one stretch.

    The ends of a range ("from March until May") are no longer bounds of their own. What only stands together ("March
    and May 2023") stays two dates.
    """
    kept: list[FoundDate] = []
    for hit in found:
        if not kept or hit.start - kept[-1].end > _JOINT_REACH or not _stand_in(hit, kept[-1], "joint"):
            kept.append(hit)
            continue
        kept[-1:] = _pair(kept[-1], hit)
    return kept


def _pair(first: FoundDate, second: FoundDate) -> list[FoundDate]:
    """Return two dates that a word joins, as one stretch if they are a range."""
    scene = first.scene
    before = scene.text[max(0, first.start - _PREFIX_REACH) : first.start]
    opened = first.direction == "since" or any(one.beside["between"].search(before) for one in scene.speakers)
    ranged = opened or _stand_in(second, first, "through")
    try:
        one, two = shared_year(first.period, second.period, ordered=opened)
    except (ValueError, OverflowError):
        return [first, second]
    weekdays = one.kind == two.kind == "weekday" and not (one.doubt or two.doubt)
    if weekdays and one.start > two.start:  # on a Wednesday, both next week or both before today
        one, two = (one, two.later(7)) if one.start > scene.today else (one.later(-7), two)
    if opened:
        first, second = replace(first, direction="at"), replace(second, direction="at")
    of_two_months = one.kind == two.kind == "day_of_month" and one.start > two.start
    if ranged and (two.doubt or of_two_months):  # "from the 28th to the 3rd": of which months?
        one, two = replace(one, doubt=True), replace(two, doubt=True)
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


def _in_named_years(found: list[FoundDate]) -> list[FoundDate]:
    """Give days and months the year that their sentence names: "In 2018 we married on 4 August".

    When it names several, all are in doubt.
    """
    years = [hit for hit in found if hit.period.precision == "year" and hit.direction == "at"]
    dated: list[FoundDate] = []
    for hit in found:
        low, high = hit.scene.sentence(hit.start, hit.end)
        named = {one.period for one in years if low <= one.start and one.end <= high}
        if named and hit.period.open_year:
            (year, *others) = named
            period = replace(hit.period, doubt=True)
            if not others and not year.approx and year.end.year - year.start.year == 1:
                with suppress(ValueError):  # a 29 February that the year lacks stays in doubt
                    period = replace(in_year(hit.period, year.start.year), relative=year.relative)
            hit = replace(hit, period=period)
        dated.append(hit)
    return dated


def _stand_in(second: FoundDate, first: FoundDate, name: Literal["joint", "through"]) -> bool:
    """Return whether only a joining word stands between two dates."""
    patterns = (language.beside[name] for language in first.scene.speakers)
    return any(one.fullmatch(first.scene.text, first.end, second.start) for one in patterns)


MAX_CHARS = 1_000_000
"""How much of a text is searched; what lies behind it is not read."""

_PIECE = 400
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
        """The possible meanings of the words, the chosen one first."""
        return (self.interval,) if self.other is None else (self.interval, self.other)

    def read_as(self, days: Interval) -> DateSpan:
        """Return the span in one of its readings."""
        return replace(self, start=days.start, end=days.end or self.end, decided=True, other=None)

    def moved(self, count: int) -> DateSpan:
        """Return the span moved by `count` characters."""
        return replace(self, start_char=self.start_char + count, end_char=self.end_char + count)

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


def find_dates(
    text: str,
    reference: datetime,
    tz: tzinfo,
    languages: Sequence[str] = ("en", "es"),
    *,
    day_first: bool | None = None,
    doubtful: bool = False,
    before: str = "",
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
        before: what was said just before the text: a question whose tense an answer has ("When did you move?" "In March"),
            and dates of which the text says "two days later". None of its own dates is returned.
        doubtful: also return dates that may mean either of two days, with `DateSpan.decided` false.

    Raises:
        TimestampError: if `reference` is naive.
    """
    if reference.utcoffset() is None:
        raise TimestampError(f"reference has no time zone: {reference!r}; attach one (tzinfo=timezone.utc)")
    known = [language for code in languages if (language := load_language(code)) is not None]
    words = set(_WORD.findall(text[:MAX_CHARS].lower())) if before else set()
    anaphors = [rule for one in known for rule in one.anaphors if not rule.words.isdisjoint(words)]
    if before and (anaphors or before.rstrip().endswith("?")):  # its dates may refer to the text before
        spans = find_dates(
            whole := f"{before}\n{text}", reference, tz, languages, day_first=day_first, doubtful=doubtful
        )
        skipped = len(whole) - len(text)
        return [one.moved(-skipped) for one in spans if one.start_char >= skipped]
    read = text[:MAX_CHARS]
    spellings = [one.spelling for one in known if one.spelling]
    folded, positions = mended(*((read, None) if read.isascii() else fold_text(read)), spellings)
    said = folded if positions is not None else read.translate(QUOTES)
    try:
        now = reference.astimezone(tz)
    except OverflowError:
        now = reference.astimezone(timezone.utc)
    if day_first is None and known:
        day_first = known[0].day_first
    ruled = tuple(one for one in known if one.verbs is not None)
    spoken = [(one, (one,)) for one in known] + [(one, ruled) for one in (load_language("any"),) if one]
    # A long text is cut at sentence ends, so that a word triggers its rules near itself only.
    ends = [0]
    while len(folded) - ends[-1] > _PIECE:
        stop = _SENTENCE_END.search(folded, ends[-1] + _PIECE, ends[-1] + 2 * _PIECE)
        ends.append(stop.end() if stop else min(ends[-1] + 2 * _PIECE, len(folded)))
    found = _hits(
        [Scene(folded, said, now, now.date(), tz, one, day_first, by) for one, by in spoken],
        list(pairwise([*ends, len(folded)])),
    )
    found = [hit for hit in found if not is_of_fiction(hit.scene, (hit.start, hit.end), hit.period)]
    found = _extended(found) if found else []
    if len(found) > 1:
        found = _framed(found)
    found = [_bounded(hit) for hit in found]
    if len(found) > 1:
        found = _in_named_years(_joined(found))
    found = _with_anaphors(found) if found else []
    made = (
        _span(text, hit, positions, tz)
        for hit in found
        if not hit.period.doubt or (doubtful and hit.period.other)
    )
    return [span for span in made if span is not None]


def _hits(scenes: Sequence[Scene], pieces: Sequence[tuple[int, int]]) -> list[FoundDate]:
    """Return what the rules of all languages match in pieces of one text: of overlapping dates the leftmost, then the longest."""
    text = scenes[0].text if scenes else ""
    every = {name for name, present in ((SLASH, "/" in text), (WIDE, not text.isascii())) if present} | {
        DIGIT
    }
    hits: list[FoundDate] = []
    for (low, high), scene in product(pieces, scenes):
        words = set(_WORD.findall(text[low:high].lower()))
        if _HAS_DIGIT.search(text, low, high):
            words |= every
        own: list[FoundDate] = []
        rules, triggers = scene.language.rules, scene.language.triggers
        woken = {
            index
            for word in words & triggers.keys()
            for index, others in triggers[word]
            if not others or others <= words
        }
        for rule in [rules[index] for index in sorted(woken)]:
            fallback = rule.args.get("fallback") and scene.speakers
            for match in () if fallback else rule.regex.finditer(text, low, high):
                start, end = at(match)
                if any(one.start <= start and end <= one.end for one in own):
                    continue  # the longer one counts
                try:
                    period = OPERATIONS[rule.op](match, rule, scene)
                except (ValueError, OverflowError):  # 31 June, or a day outside the years 1 to 9999
                    continue
                if period is not None:
                    own.append(FoundDate(start, end, period, scene, rule.args.get("direction", "at")))
        hits += own
    kept: list[FoundDate] = []
    hits.sort(key=attrgetter("end"), reverse=True)
    for hit in sorted(hits, key=attrgetter("start")):
        if not kept or hit.start >= kept[-1].end:
            kept.append(hit)
    return kept


def _span(text: str, hit: FoundDate, positions: Sequence[int] | None, tz: tzinfo) -> DateSpan | None:
    first, last = (hit.start, hit.end) if positions is None else (positions[hit.start], positions[hit.end])
    period, bounds = hit.period, _bounds(hit.period, tz)
    if bounds is None:
        return None
    other = period.other and _bounds(period.other, tz)
    return DateSpan(
        *(first, last, text[first:last], *bounds),
        precision=period.precision,
        relative=period.relative,
        approx=period.approx,
        direction=hit.direction,
        decided=not period.doubt,
        other=Interval(*other) if other else None,
        open_year=period.open_year,
    )


def _bounds(period: Period, tz: tzinfo) -> tuple[datetime, datetime] | None:
    """Return where the days of a period begin and end; None if they are outside the years 1 to 9999, or were skipped."""
    try:
        start, end = to_utc(period.start, tz), to_utc(period.end, tz)
    except OverflowError:
        return None
    return (start, end) if start < end else None


_MS = timedelta(milliseconds=1)
_REACH = 24
_ASKED_IN = ("en", "es")
"""Languages whose dates are read in a question."""
_MOST_YEARS = 200
"""How far back a day without a year is looked for; what a memory holds was said within a lifetime or two."""


@dataclass(frozen=True, slots=True)
class QuestionTime:
    """The window that a question states and the instant that it asks about; either may be None.

    `words` are the stretches of the question that name them, in order, and `places` where they stand, in characters.
    `open_year` is true when all days named lack their year, so that another year's may be meant.
    """

    window: Interval | None = None
    as_of: datetime | None = None
    words: tuple[str, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    open_year: bool = False


def question_time(question: str, reference: datetime, tz: tzinfo) -> QuestionTime:
    """Return the window and the instant that a question names.

    - "before June 2023" starts at `EARLIEST` and ends where June begins; "until" and "by" include the
      days named; "since 2016" includes them and is open; "after 2016" begins where they end.
    - "as of 1 June 2024" is an instant and no window: the last millisecond of the days named, since
      what began on that day counts; or the reference itself, if it lies within those days.
    - "6 May", "Friday" are chosen as in a turn; in doubt the latest past ones are meant, as a memory holds the past.

    Args:
        question: as it was typed.
        reference: aware; what "last summer" is relative to.
        tz: the zone whose calendar days are meant.

    Raises:
        TimestampError: if `reference` is naive.
    """
    windows: list[Interval] = []
    as_of: datetime | None = None
    read: list[DateSpan] = []
    for found in find_dates(question, reference, tz, _ASKED_IN, doubtful=True):
        span = found if found.decided else _last_by(found, reference)
        before, _ = fold_text(question[: span.start_char][-_REACH:])
        if any(one and one.beside["as_of"].search(before) for one in map(load_language, _ASKED_IN)):
            moment = reference.astimezone(timezone.utc)
            as_of = moment if span.start <= moment < span.end else span.end - _MS
        elif span.direction == "for" or span.window is None:
            continue
        else:
            windows.append(span.window)
        read.append(span)
    return QuestionTime(
        window=hull(windows),
        as_of=as_of,
        words=tuple(span.text for span in read),
        places=tuple((span.start_char, span.end_char) for span in read),
        open_year=bool(read) and all(span.open_year for span in read),
    )


def _last_by(span: DateSpan, moment: datetime) -> DateSpan:
    """Return a date in its last reading that has begun by a moment; unchanged if none has."""
    begun = [days for days in span.readings if days.start <= moment]
    if not begun:
        return span
    return span.read_as(max(begun, key=lambda one: one.start))


def latest_within(
    start: datetime | None, end: datetime | None, first: datetime, last: datetime, tz: tzinfo
) -> int | None:
    """Return how many years to move ``[start, end)`` back to the latest such days that a memory covers.

    Covered are days that begin no later than `last` and end after `first`; of a bound that is open, or the beginning
    of time, the other one decides. None if no year's are; bounds move with `years_back`.
    """
    for years in range(_MOST_YEARS):
        low, high = years_back(start, years, tz), years_back(end, years, tz, ends=True)
        bound = high if low is None or low == EARLIEST else low
        if (start is None) != (low is None) or bound is None:
            continue  # that year has no such day
        if bound <= last and (high or bound) > first:
            return years
    return None


def years_back(moment: datetime | None, years: int, tz: tzinfo, *, ends: bool = False) -> datetime | None:
    """Return a moment moved back by some years; None if that year has no such day.

    With `ends` the moment is the end of a window: what ends where 29 February begins then ends with February.
    """
    if moment is None or years == 0 or moment == EARLIEST:
        return moment
    local = moment.astimezone(tz)
    try:
        day = local.date().replace(year=local.year - years)
    except ValueError:  # there is no 29 February
        if not ends:
            return None
        day = date(local.year - years, 3, 1)
    begins = to_utc(local.date(), tz)
    return to_utc(day, tz) + (moment - begins)
