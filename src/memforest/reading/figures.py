"""The numbers of a text by their value, in digits or words (`memforest/data/numbers.toml`): "25k" and "twenty-five thousand".

A number has several readings, as nobody says which is meant: "1.500" is one and a half or fifteen hundred, "half" is 0.5 or 50
percent. Two may be the same when they share a reading. A time of day is hours and hundredths: 7.30.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from memforest.reading.tokens import read_toml
from memforest.text import strip_accents

_MOST_DIGITS = 24
"""A number with more digits is an identifier, and is compared exactly."""
_HAN = "〇一二三四五六七八九十百千万億"
_TOKEN = re.compile(rf"\d+(?:[.,:]\d+)*|[{_HAN}]|[^\W\d_{_HAN}]+")
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")
_AND = ("and", "y")
_HOUR = Decimal("0.6")
"""An hour, as minutes stand behind a point: half of it is 7.30."""
_SMALL = frozenset(map(Decimal, range(4)))
"""Numbers that a statement may count by itself if it writes them out: "two cats, Tom and Kit"."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a text: as written (case-folded, without accents), its possible values, and whether it is in words."""

    text: str
    readings: frozenset[Decimal]
    written: bool

    def is_among(self, known: Collection[Decimal]) -> bool:
        """Return whether it is one of some numbers, or made of two of them: "a cup and a half", "half past seven"."""
        if not self.readings.isdisjoint(known):
            return True
        parts = (divmod(one, 1) for one in self.readings if len(str(one)) < _MOST_DIGITS)
        return any(
            (whole < 2 or whole in known) and (rest in known or rest * 100 in known or rest / _HOUR in known)
            for whole, rest in parts
            if rest
        )

    @property
    def is_small(self) -> bool:
        """Whether it is up to three and in words, which anybody may count."""
        return self.written and not self.readings.isdisjoint(_SMALL)


def figures(text: str) -> tuple[Figure, ...]:
    """Return the numbers of a text in order.

    >>> [sorted(map(str, one.readings)) for one in figures("at 7:30, for twenty-five thousand or 2.5k")]
    [['19.3', '7.3'], ['25000'], ['2.5', '2500.0']]
    """
    folded = strip_accents(unicodedata.normalize("NFKC", text).casefold())
    return tuple(_read(list(_TOKEN.finditer(folded)), folded))


def _read(tokens: Sequence[re.Match[str]], text: str) -> Iterator[Figure]:
    at = 0
    while at < len(tokens):
        start, token = at, tokens[at].group()
        if token[0].isdecimal():
            at, readings = at + 1, _digits(token)
            unit = tokens[at].group() if at < len(tokens) else ""
            if unit in _factors():
                # "16 k" may be kilometres, and "2m" two metres.
                either = readings if len(unit) == 1 else frozenset[Decimal]()
                at, readings = at + 1, either.union(one * _factors()[unit] for one in readings)
        else:
            end, readings = _in_words(tokens, at, text)
            at = max(end, at + 1)
        if readings:
            written = not token[0].isdecimal()
            yield Figure(text[tokens[start].start() : tokens[at - 1].end()], readings, written)


def _digits(text: str) -> frozenset[Decimal]:
    """Return the readings of digits with separators; of a time of day in the morning and in the evening."""
    if (clock := _CLOCK.fullmatch(text)) is not None:
        hour, minutes = int(clock[1]), Decimal(clock[2]) / 100
        return frozenset((hour + minutes, (hour + 12) % 24 + minutes))
    groups = re.split(r"[.,:]", text)
    whole = Decimal("".join(groups))
    if len(groups) == 1 or len(text) > _MOST_DIGITS:
        return frozenset([whole])
    found = {whole} if all(len(one) == 3 for one in groups[1:]) and len(groups[0]) <= 3 else set()
    if not (found and "," in text):  # "1,500" is no decimal
        found.add(Decimal(f"{''.join(groups[:-1])}.{groups[-1]}"))
    return frozenset(found)


def _in_words(tokens: Sequence[re.Match[str]], at: int, text: str) -> tuple[int, frozenset[Decimal]]:
    """Return where a number in words ends, and its readings; none if there is none at a token."""
    part = _part(tokens[at].group())
    if part is None:
        return at, frozenset()
    values, end = [part], at + 1
    while end < len(tokens):
        joined = end + (tokens[end].group() in _AND)
        more = _part(tokens[joined].group()) if joined < len(tokens) else None
        gap = text[tokens[end - 1].end() : tokens[end].start()]
        if more is None or gap.strip(" -") or not _goes_on(values, more):
            break
        values, end = [*values, more], joined + 1
    alone = _values().get(tokens[at].group(), ())
    return end, frozenset(alone) if end == at + 1 and alone else frozenset([_total(values)])


_Part = tuple[Decimal, bool]
"""A value, and whether it is a factor."""


def _goes_on(before: Sequence[_Part], more: _Part) -> bool:
    """Return whether a part of a number may follow others: "twenty five", "two hundred", "hundred ten", not "seven thirty"."""
    if more[1]:
        return more not in before
    last, factor = before[-1]
    return more[0] < last if factor else 20 <= last < 100 and last % 10 == 0 and 0 < more[0] < 10


def _total(parts: Sequence[_Part]) -> Decimal:
    """Return the number that a row of values and factors makes.

    >>> str(_total([(Decimal(2), False), (Decimal(100), True), (Decimal(50), False), (Decimal(1000), True)]))
    '250000'
    """
    total, hundreds, rest = Decimal(0), Decimal(0), Decimal(0)
    for value, factor in parts:
        if not factor:
            rest += value
        elif value < 1000:
            hundreds, rest = hundreds + (rest or 1) * value, Decimal(0)
        else:
            total, hundreds, rest = total + (hundreds + rest or 1) * value, Decimal(0), Decimal(0)
    return total + hundreds + rest


def _part(word: str) -> _Part | None:
    """Return the value of a word, None if it is no number."""
    if word in _HAN:
        value = Decimal(int(unicodedata.numeric(word)))
        return value, value >= 10
    if word in _values():
        return _values()[word][0], False
    return (_factors()[word], True) if word in _factors() and len(word) > 1 else None


@lru_cache(maxsize=1)
def _values() -> Mapping[str, tuple[Decimal, ...]]:
    found: dict[str, tuple[Decimal, ...]] = {}
    for value, listed in read_toml("data", "numbers.toml")["values"].items():
        for word in listed:
            found[word] = (*found.get(word, ()), Decimal(value))
    return found


@lru_cache(maxsize=1)
def _factors() -> Mapping[str, Decimal]:
    rows = read_toml("data", "numbers.toml")["factors"].items()
    return {word: Decimal(value) for value, listed in rows for word in listed}
