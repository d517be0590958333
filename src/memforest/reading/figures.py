"""The numbers of a text by their value, in digits or words: "25k" and "twenty-five thousand", "7:30" and "half past seven".

A number has several readings, as nobody says which is meant: "1.500" is one and a half or fifteen hundred, "half" is 0.5 or
30 minutes. Two numbers may be the same when they share a reading. A time of day is hours and hundredths: 7.30. Words are
those of `memforest/data/numbers.toml`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from memforest.reading.tokens import read_toml
from memforest.text import strip_accents

_MOST_DIGITS = 24
"""A number with more digits is an identifier, and is compared exactly."""
_MOST_LETTERS = 65
"""A longer word is no number below a million."""
_NOUN_CHARS = 4
_HAN = "〇一二三四五六七八九十百千万億"
_TOKEN = re.compile(rf"\d+(?:[.,:]\d+)*|[{_HAN}]+|[^\W\d_{_HAN}]+")
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")
_AND = ("and", "y")
_LESS = ("to", "vor", "menos")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a text: as written (case-folded, without accents), its possible values, and whether it is in words.

    `noun` is the beginning of the word behind it, so that "boats" and "boat" are the same; "" if there is none.
    """

    text: str
    readings: frozenset[Decimal]
    written: bool
    noun: str


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
        around = {tokens[one].group() for one in (start - 1, at) if 0 <= one < len(tokens)}
        if not around.isdisjoint(_LESS):
            readings = readings.union(*map(_one_less, readings))
        if readings:
            behind = tokens[at].group() if at < len(tokens) else ""
            noun = behind[:_NOUN_CHARS] if len(behind) > 2 else ""  # "two of the boats" are none of it
            written = not token[0].isdecimal()
            yield Figure(text[tokens[start].start() : tokens[at - 1].end()], readings, written, noun)


def _one_less(value: Decimal) -> set[Decimal]:
    """Return what an hour and minutes may mean in "quarter to eight": 7, and 0.75 or 45."""
    if value > 60:
        return set()
    minutes = {1 - value} if value < 1 else {60 - value} if value % 5 == 0 else set()
    return minutes | ({value - 1} if 1 <= value <= 12 else set())


def _digits(text: str) -> frozenset[Decimal]:
    """Return the readings of digits with separators."""
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
    values = list(_parts(tokens[at].group()))
    if not values:
        return at, frozenset()
    end = at + 1
    while end < len(tokens):
        joined = end + (tokens[end].group() in _AND)
        more = _parts(tokens[joined].group()) if joined < len(tokens) else ()
        gap = text[tokens[end - 1].end() : tokens[end].start()]
        if not more or gap.strip(" -") or not _goes_on(values, more[0]):
            break
        values, end = [*values, *more], joined + 1
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


def _total(parts: Iterable[_Part]) -> Decimal:
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


def _parts(word: str) -> Sequence[_Part]:
    """Return the values and factors of a word, of which a German compound and a Han numeral have several; none if it is no number."""
    if word[0] in _HAN:
        return [(Decimal(int(unicodedata.numeric(ch))), unicodedata.numeric(ch) >= 10) for ch in word]
    if word in _values():
        return [(_values()[word][0], False)]
    if word in _factors():
        return [(_factors()[word], True)] if len(word) > 1 else ()
    piece = _compound()
    if len(word) > _MOST_LETTERS or not re.fullmatch(f"(?:{piece})+", word):
        return ()
    found = [one for one in re.findall(piece, word) if one != "und"]
    return [
        (_factors()[one], True)
        if one in _factors()
        else (Decimal(1) if one == "ein" else _values()[one][0], False)
        for one in found
    ]


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


@lru_cache(maxsize=1)
def _compound() -> str:
    """Return the pattern of a piece of a German number, longer ones first."""
    pieces = [word for word in (*_values(), *_factors(), "ein", "und") if len(word) > 2]
    return "|".join(sorted(pieces, key=len, reverse=True))
