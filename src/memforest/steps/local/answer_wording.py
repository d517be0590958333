"""What the local answerer knows of a language: how questions begin, word lists, dates and durations in words.

The data are `memforest/data/answer/*.toml`. A question in a language without data has none of this: its
answer is the evidence itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from importlib import resources
from typing import Any, Literal, cast

from dateutil.relativedelta import relativedelta

from memforest.interval import EARLIEST
from memforest.text import fold, lexical_tokens, snowball_stem, strip_accents, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Form",
    "Wording",
    "elapsed",
    "is_calendar_window",
    "load_wording",
    "plain",
    "read_wording",
    "stems",
]

Form = Literal[
    "when", "since", "ago", "how_long", "times", "how_many", "who", "where", "what", "yes_no", "statement"
]
"""What kind of answer the words of a question ask for; ``statement`` when they do not say."""

_CODES = ("en", "es")
_DAY = timedelta(days=1)


def plain(text: str) -> str:
    """Return `text` folded, without accents, with straight apostrophes: the form that word lists are compared in."""
    return strip_accents(fold(text)).replace("’", "'")


@dataclass(frozen=True, slots=True)
class Wording:
    """The word lists and wordings of one language, in `plain` form except for what is printed."""

    code: str
    beginnings: tuple[tuple[tuple[str, ...], Form], ...]
    lists: Mapping[str, frozenset[str]]
    ceased: tuple[tuple[str, ...], ...]
    stop: frozenset[str]
    numbers: Mapping[str, int]
    units: Mapping[str, str]
    attributes: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    """Attribute -> the words that ask for it or state it, and those that only state it (things of its kind)."""
    phrases: Mapping[str, str]
    dates: Mapping[str, str]
    months: tuple[str, ...]
    calendar_words: frozenset[str]
    durations: Mapping[str, Any]

    def form(self, asked: tuple[str, ...], marked: bool) -> Form:
        """Return the form that a question's `plain` words ask for.

        Up to two words may stand before the question word ("And in which year ..."). In a language without
        auxiliaries for it, a question (`marked` as one) without a question word is a yes-no question.
        """
        for skip in range(min(3, len(asked))):
            for beginning, form in self.beginnings:
                if (skip == 0 or form != "yes_no") and asked[skip : skip + len(beginning)] == beginning:
                    return form
        return "yes_no" if marked and self.code == "es" else "statement"

    def day(self, moment: datetime) -> str:
        """Return a calendar day (UTC) in words, e.g. "7 May 2023"."""
        return self._point("day", moment)

    def date(self, start: datetime | None, end: datetime | None) -> str:
        """Return the stated time ``[start, end)`` in words, as exact as its bounds and no more.

        A whole day, week, calendar month or year is named as such; other intervals as first to last day. An
        open end is named by its start, and a start at `EARLIEST` by its end. One of the two must be given.
        """
        if start is None or start == EARLIEST:
            return self.dates["before"].format(last=self.day(end or EARLIEST))
        unit = is_calendar_window(start, end)
        if end is None or end - start <= _DAY or unit == "day":
            return self.day(start)
        if unit == "week":
            return self.dates["week"].format(first=self.day(start))
        if unit:
            return self._point(unit, start)
        last = end - timedelta(microseconds=1)
        exact = "month" if start.day == 1 and end.day == 1 and _at_midnight(start, end) else "day"
        return self.dates["range"].format(first=self._point(exact, start), last=self._point(exact, last))

    def _point(self, unit: str, moment: datetime) -> str:
        utc = moment.astimezone(timezone.utc) if moment.year not in (1, 9999) else moment
        return self.dates[unit].format(day=utc.day, month=self.months[utc.month - 1], year=utc.year)

    def duration(self, start: datetime, end: datetime) -> str:
        """Return the time from `start` to `end` in at most two units, e.g. "2 years and 3 months"."""
        parts = [self.amount(unit, number) for unit, number in elapsed(start, end)]
        if not parts:
            return str(self.durations["none"])
        return str(self.durations["and"]).format(a=parts[0], b=parts[1]) if len(parts) > 1 else parts[0]

    def amount(self, unit: str, number: int) -> str:
        """Return a number of calendar units in words, e.g. ``amount("weeks", 3)`` -> "3 weeks"."""
        one, many = self.durations[unit]
        return str(one) if number == 1 else str(many).format(n=number)


def elapsed(start: datetime, end: datetime) -> list[tuple[str, int]]:
    """Return a stretch of time as at most two (unit, number) pairs, rounded down; empty below one day.

    Years with months; months alone; from two weeks to two months weeks, if whole, else days.
    """
    if end <= start:
        return []
    gap = relativedelta(end, start)
    if gap.years:
        return [("years", gap.years)] + ([("months", gap.months)] if gap.months else [])
    if gap.months >= 2 or (gap.months and not gap.days):
        return [("months", gap.months)]
    days = (end - start).days
    if days >= 14 and days % 7 == 0:
        return [("weeks", days // 7)]
    return [("days", days)] if days else []


def is_calendar_window(start: datetime, end: datetime | None) -> str:
    """Return which calendar unit ``[start, end)`` is exactly: "day", "week", "month", "year", or ""."""
    if end is None or not _at_midnight(start, end):
        return ""
    days = (end - start).days
    if days == 1:
        return "day"
    if days == 7:
        return "week"
    if start.day == 1 and end.day == 1 and 28 <= days <= 31:
        return "month"
    return "year" if (start.month, start.day, end.month, end.day) == (1, 1, 1, 1) and days <= 366 else ""


def _at_midnight(*moments: datetime) -> bool:
    return all((moment.hour, moment.minute, moment.second) == (0, 0, 0) for moment in moments)


def read_wording(question: str) -> Wording | None:
    """Return the wording of a question's language, or None when it is neither English nor Spanish.

    The language with more of its question words, auxiliaries and function words in the question; "¿" is
    Spanish, and a tie is English when the question is plain ASCII. None of these words means no language.
    """
    found = set(plain(question).replace("¿", " ").split()) | {plain(word) for word in words(question)}
    scores = {code: len(found & load_wording(code).lists["detect"]) for code in _CODES}
    if "¿" in question:
        scores["es"] += 3
    if not any(scores.values()):
        return None
    if scores["en"] == scores["es"]:
        return load_wording("en" if question.isascii() else "es")
    return load_wording(max(_CODES, key=lambda code: scores[code]))


@lru_cache(maxsize=4)
def load_wording(code: str) -> Wording:
    """Return the wording of a language, read once per process from the package's data.

    Raises:
        FileNotFoundError: if the package carries no data for `code`.
    """
    path = resources.files("memforest") / "data" / "answer" / f"{code}.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    beginnings = [
        (tuple(plain(text).split()), cast(Form, form))
        for form, texts in raw["forms"].items()
        for text in texts
    ]
    lists = {
        name: frozenset(plain(text).split()) for name, text in raw["words"].items() if isinstance(text, str)
    }
    first_words = frozenset(word for beginning, _ in beginnings for word in beginning if len(word) > 1)
    lists["detect"] = first_words | lists["function"]
    dates = raw["dates"]
    return Wording(
        code=code,
        beginnings=tuple(sorted(beginnings, key=lambda pair: -len(pair[0]))),
        lists=lists,
        ceased=tuple(tuple(plain(text).split()) for text in raw["words"]["ceased"]),
        stop=frozenset(stem for word in lists["stop"] for stem in stems(word, code)),
        numbers={plain(word): value for word, value in raw["numbers"].items()},
        units={word: unit for unit, text in raw["units"].items() for word in plain(text).split()},
        attributes={name: _attribute(text, code) for name, text in raw["attributes"].items()},
        phrases=raw["phrases"],
        dates=dates,
        months=tuple(dates["months"].split()),
        calendar_words=frozenset(plain(dates["months"] + " " + dates["weekdays"]).split()),
        durations=raw["durations"],
    )


def _attribute(text: str, code: str) -> tuple[frozenset[str], frozenset[str]]:
    asking, _, kinds = text.partition("|")
    return frozenset(stems(asking, code)), frozenset(stems(kinds, code))


@lru_cache(maxsize=4)
def _irregular(code: str) -> Mapping[str, str]:
    path = resources.files("memforest") / "data" / "answer" / f"{code}.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))["irregular"]
    return {form: plain(base) for base, text in table.items() for form in plain(text).split()}


def stems(text: str, code: str) -> list[str]:
    """Return the content words of a text as comparable stems, in order, repeats included.

    English and unknown languages: `memforest.text.lexical_tokens`. Irregular forms are first replaced by
    their base form. Spanish: its own Snowball stemmer, accents ignored.

    >>> stems("Bob bought two cars", "en")
    ['bob', 'buy', 'two', 'car']
    """
    if code == "en":
        return [stem for word in words(text) for stem in _english(word.casefold())]
    if code == "es":
        return [stem for word in words(text) if (stem := _spanish(plain(word)))]
    return lexical_tokens(text)


@lru_cache(maxsize=16_384)
def _english(word: str) -> tuple[str, ...]:
    base = _irregular("en").get(word.removesuffix("'s").removesuffix("’s"), word)
    return tuple(lexical_tokens(base))


@lru_cache(maxsize=16_384)
def _spanish(word: str) -> str:
    base = _irregular("es").get(word, word)
    return base if base.isdigit() else snowball_stem(base, "spanish")
