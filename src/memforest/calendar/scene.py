"""What a rule may ask about the text around a match and about the day on which it was said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo

from memforest.calendar.language import Language

_UTC = timezone.utc
_REACH = 160
"""Most characters of a sentence to either side of a date that are looked at."""
_STOP = re.compile(r"(?<!\b\w)[.!?]+(?=[\s\"'”’)]|$)|[;\n。！？]")

_QUOTED = re.compile(
    r"""["“«]([^"“”«»\n]{1,80})["”»]|(?<!\w)'([^'\n]{1,80})'(?!\w)|(?<![\w*])[*_]([^*_\n]{1,80})[*_](?![\w*])"""
)
_TITLE_WORD = re.compile(r"[^\W\d_]{2,}")
_SHORT_WORD = 4


@dataclass(frozen=True, slots=True)
class Scene:
    """One text in one language, said at one moment in one zone."""

    text: str
    """Folded: see `memforest.calendar.fold`."""
    said: str
    """The same with its accents, which tell tenses apart ("llegó", "llego"); as long as `text`."""
    now: datetime
    zone: tzinfo
    language: Language
    day_first: bool | None
    """Whether ``03/05/2023`` is 3 May; None when that is not known."""
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

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds of the sentence around a stretch of the text, at most so far as is looked."""
        return self._within(_STOP, start, end, max(0, start - _REACH), min(len(self.text), end + _REACH))

    def clause(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds of the clause around a stretch of the text."""
        bounds = self.language.clause
        low, high = self.sentence(start, end)
        return (low, high) if bounds is None else self._within(bounds, start, end, low, high)

    def _within(self, bound: re.Pattern[str], start: int, end: int, low: int, high: int) -> tuple[int, int]:
        for one in bound.finditer(self.text, low, start):
            low = one.end()
        behind = bound.search(self.text, end, high)
        return low, behind.start() if behind else high

    def in_title(self, start: int, end: int) -> bool:
        """Tell whether a stretch of the text stands in quotation marks, alone or among capitalised words.

        "One Day in December" is a title, and "See you in December" what somebody said.
        """
        for quoted in _QUOTED.finditer(self.text, max(0, start - _REACH), min(len(self.text), end + _REACH)):
            low, high = quoted.span(quoted.lastindex or 0)
            if not low <= start < end <= high:
                continue
            others = [
                word[0]
                for word in _TITLE_WORD.finditer(self.text, low, high)
                if word.end() <= start or word.start() >= end
            ]
            capital = [word for word in others[1:] if word[0].isupper()]
            small = [word for word in others if word[0].islower() and len(word) > _SHORT_WORD]
            return not others or (bool(capital) and not small)
        return False

    def says(self, pattern: re.Pattern[str] | None, bounds: tuple[int, int]) -> bool:
        """Tell whether a pattern stands within bounds of the text."""
        return pattern is not None and pattern.search(self.text, *bounds) is not None
