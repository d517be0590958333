"""What a rule may ask about the text around a match and about the day on which it was said.

The tense rule: a month, weekday, day of the month, season or holiday that names no year is the most
recent one, because conversations look back; it is the coming one if the nearest cue in its clause is a
future one ("will", "going to", "next", ...), if it is the nearer and the clause is in the present, or if it is
very near and nothing tells the tense. The clause reaches to the next of ``. ! ? ;`` or line end,
and no more than 100 characters to either side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo

from memforest.calendar.language import Language
from memforest.calendar.period import Period, latest, soonest

__all__ = ["Scene"]

_UTC = timezone.utc
_REACH = 100
_LONG_AGO_DAYS = 90
"""In the present tense, something this far back gives way to what is coming sooner."""
_VERY_NEAR_DAYS = 14
"""Without any sign of a tense, what begins within so many days gives way to nothing long past."""
_STOP = re.compile(r"[.!?;\n。！？]")


@dataclass(frozen=True, slots=True)
class Scene:
    """One text in one language, said at one moment in one zone."""

    text: str
    now: datetime
    zone: tzinfo
    language: Language
    day_first: bool
    speakers: tuple[Language, ...]
    """Whose words may stand around a date: for a numeric date, those of every language in use."""

    @property
    def today(self) -> date:
        """The local day of the reference."""
        return self.now.date()

    def day_after(self, delta: timedelta) -> date:
        """Return the local day so much absolute time after the reference.

        Raises:
            OverflowError: if it lies outside the years 1 to 9999.
        """
        moment = self.now.astimezone(_UTC) + delta
        return moment.astimezone(self.zone).date()

    def clause(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds of the clause around a stretch of the text."""
        low = max(0, start - _REACH)
        for stop in _STOP.finditer(self.text, low, start):
            low = stop.end()
        stop_after = _STOP.search(self.text, end, end + _REACH)
        return low, stop_after.start() if stop_after else min(len(self.text), end + _REACH)

    def tense(self, start: int, end: int) -> int:
        """Return 1 if the nearest cue around a stretch is a future one, -1 for past, 0 for none."""
        if self.language.cues is None:
            return 0
        nearest, found = _REACH + 1, 0
        for cue in self.language.cues.finditer(self.text, *self.clause(start, end)):
            if cue.start() < end and cue.end() > start:
                continue  # "last" in "last May" says nothing about its surroundings
            distance = start - cue.end() if cue.end() <= start else cue.start() - end
            if distance < nearest:
                nearest, found = distance, 1 if cue.lastgroup == "future" else -1
        return found

    def perfect(self, start: int, end: int) -> bool:
        """Tell whether the clause up to a stretch says that something is still so ("have been")."""
        pattern = self.language.perfect
        return (
            pattern is not None and pattern.search(self.text, self.clause(start, end)[0], start) is not None
        )

    def choose(self, candidates: Sequence[Period], which: str, at: tuple[int, int]) -> Period | None:
        """Return the one of several like periods (all Mays) that `which` means today.

        Args:
            candidates: like periods of some years around today, in any order.
            which: ``last`` (the latest that is over), ``before_last``, ``next`` (the first that has not
                begun), ``this`` (the one in progress, else by tense, else this
                year's, of seasons the nearest) or ``bare``
                (the latest that has begun; the first not yet over if the tense is future, if it is present
                and that is the nearer, or if it is not known and that is very near).
            at: where the words stand, for the tense.
        """
        found: Period | None
        if which == "last":
            found = latest(candidates, self.today, strict=True)
        elif which == "before_last":
            last = latest(candidates, self.today, strict=True)
            found = latest([p for p in candidates if last and p.start < last.start], self.today, strict=True)
        elif which == "next":
            found = soonest(candidates, self.today, strict=True)
        elif which == "this":
            found = self._this(candidates, at)
        else:
            found = self._bare(candidates, at)
        return found.marked(relative=True, open_year=which == "bare") if found else None

    def _bare(self, candidates: Sequence[Period], at: tuple[int, int]) -> Period | None:
        tense = self.tense(*at)
        behind = latest(candidates, self.today, strict=False)
        ahead = soonest(candidates, self.today, strict=False)
        if tense == 0 and behind is not None and ahead is not None:
            days_behind, days_ahead = (self.today - behind.end).days, (ahead.start - self.today).days
            # "I move on 31 May", said on 20 May, is not about the May of last year; nor is what is said
            # without a verb, if it is very near: "9 June free at last!" on 3 June.
            near = days_ahead <= _VERY_NEAR_DAYS or self._present(*at)
            if near and days_behind > _LONG_AGO_DAYS and days_ahead < days_behind:
                return ahead
        return ahead if tense > 0 else behind

    def _present(self, start: int, end: int) -> bool:
        """Tell whether the clause up to a stretch is in a plain present tense."""
        pattern = self.language.present
        return (
            pattern is not None and pattern.search(self.text, self.clause(start, end)[0], start) is not None
        )

    def _this(self, candidates: Sequence[Period], at: tuple[int, int]) -> Period | None:
        for period in candidates:
            if period.start <= self.today < period.end:
                return period
        tense = self.tense(*at)
        if tense:
            pick = soonest if tense > 0 else latest
            return pick(candidates, self.today, strict=True)
        return min(candidates, key=self._distance, default=None)

    def _distance(self, period: Period) -> tuple[bool, timedelta]:
        # "This December" lies in this year; a winter of two years is simply the nearer one.
        other_year = period.precision != "season" and period.start.year != self.today.year
        return other_year, max(period.start - self.today, self.today - period.end)
