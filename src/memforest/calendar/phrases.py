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
from datetime import datetime, timezone, tzinfo

from memforest.calendar.decide import is_of_fiction
from memforest.calendar.fold import fold_text, level_quotes
from memforest.calendar.groups import at
from memforest.calendar.language import DIGIT, SLASH, WIDE, Language, Rule, load_language
from memforest.calendar.neighbours import Direction, Found, read_together
from memforest.calendar.period import Period, to_utc
from memforest.calendar.resolve import OPERATIONS
from memforest.calendar.scene import Scene
from memforest.calendar.spelling import mended
from memforest.errors import TimestampError
from memforest.interval import EARLIEST, Interval
from memforest.types import Precision

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
        """What the words may mean, first what they are taken to mean."""
        return (self.interval,) if self.other is None else (self.interval, self.other)

    def moved(self, count: int) -> DateSpan:
        """Return the same so many characters further on."""
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
        doubtful: also return those of which two days may be meant, with `DateSpan.decided` false; for who can ask which.

    Raises:
        TimestampError: if `reference` is naive.
    """
    if reference.utcoffset() is None:
        raise TimestampError(f"reference has no time zone: {reference!r}; attach one (tzinfo=timezone.utc)")
    known = [language for code in languages if (language := load_language(code)) is not None]
    if before and _leans_on(text, before, known):
        spans = find_dates(
            whole := f"{before}\n{text}", reference, tz, languages, day_first=day_first, doubtful=doubtful
        )
        skipped = len(whole) - len(text)
        return [one.moved(-skipped) for one in spans if one.start_char >= skipped]
    folded, positions = mended(*fold_text(text[:MAX_CHARS]), [one.spelling for one in known if one.spelling])
    said = folded if positions is not None else level_quotes(text[:MAX_CHARS])
    scenes = _scenes(folded, said, reference, tz, known, day_first)
    found = _without_overlaps(
        [hit for low, high in _pieces(folded) for scene in scenes for hit in _hits(scene, low, high)]
    )
    if not found:
        return []
    found = [hit for hit in found if not is_of_fiction(hit.scene, (hit.start, hit.end), hit.period)]
    found = read_together(found)
    if not doubtful:
        found = [hit for hit in found if not hit.period.doubt]
    made = (_span(text, hit, positions, tz) for hit in found if not hit.period.doubt or hit.period.other)
    return [span for span in made if span is not None]


def _leans_on(text: str, before: str, known: Sequence[Language]) -> bool:
    """Tell whether dates of a text may hang on what was said before it."""
    if before.rstrip().endswith("?"):
        return True
    words = set(_WORD.findall(text[:MAX_CHARS].lower()))
    return any(not rule.words.isdisjoint(words) for one in known for rule in one.anaphors)


def _scenes(
    text: str, said: str, reference: datetime, tz: tzinfo, known: Sequence[Language], day_first: bool | None
) -> list[Scene]:
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


def _hits(scene: Scene, low: int, high: int) -> list[Found]:
    words = set(_WORD.findall(scene.text[low:high].lower()))
    if _HAS_DIGIT.search(scene.text, low, high):
        words.add(DIGIT)
        words |= {
            name
            for name, present in ((SLASH, "/" in scene.text), (WIDE, not scene.text.isascii()))
            if present
        }
    hits: list[Found] = []
    for rule in scene.language.rules_for(words):
        if rule.args.get("fallback") and scene.speakers:
            continue
        direction: Direction = "for" if rule.op == "lasting" else "at"
        for match in rule.regex.finditer(scene.text, low, high):
            start, end = at(match)
            if any(one.start <= start and end <= one.end for one in hits):
                continue  # the longer one counts
            period = _resolved(match, rule, scene)
            if period is not None:
                hits.append(Found(start, end, period, scene, direction))
    return hits


def _resolved(match: re.Match[str], rule: Rule, scene: Scene) -> Period | None:
    try:
        return OPERATIONS[rule.op](match, rule, scene)
    except (ValueError, OverflowError):  # 31 June, or a day outside the years 1 to 9999
        return None


def _without_overlaps(hits: list[Found]) -> list[Found]:
    """Keep the leftmost of overlapping hits, and of those the longest."""
    kept: list[Found] = []
    for hit in sorted(hits, key=lambda h: (h.start, -h.end)):
        if not kept or hit.start >= kept[-1].end:
            kept.append(hit)
    return kept


def _span(text: str, hit: Found, positions: Sequence[int] | None, tz: tzinfo) -> DateSpan | None:
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
