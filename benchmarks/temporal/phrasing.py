"""Wordings as data: load one of the sets and fill its slots.

`phrasing.toml` says what slots and kinds mean. Nothing here knows about timelines or questions.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "AUTHORED",
    "OWN",
    "SETS",
    "Person",
    "Phrasing",
    "contains",
    "day_and_month",
    "fold",
    "load_phrasing",
    "since_phrase",
    "when_phrase",
]

OWN, SWAPPED, SECOND, THIRD = "own", "swapped", "second", "third"
SETS = (OWN, SWAPPED, SECOND, THIRD)
"""The set that the rules were written beside; its sentences with other values and people; and other attributes,
values, people and sentences, twice. The last three are by other hands, for measuring only."""
AUTHORED = ("home", "work", "leisure", "services")
"""Sets of `data/timelines`, each by a hand that saw nothing of the others: what is learnt of time may be fitted to them."""
DATA = Path(__file__).resolve().parents[2] / "data" / "timelines"

PRONOUNS = {
    "he": {"he": "he", "his": "his", "him": "him", "himself": "himself"},
    "she": {"he": "she", "his": "her", "him": "her", "himself": "herself"},
}
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COUNTS = ("no", "a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody of a world; `pronoun` is ``he`` or ``she``; a speaker takes part in the chats."""

    name: str
    pronoun: str
    speaker: bool = False


@dataclass(frozen=True, slots=True)
class Phrasing:
    """The loaded phrasing file: name pools, chat filler, generic questions, attributes by name."""

    people: Mapping[str, Any]
    chat: Mapping[str, Sequence[Any]]
    generic: Mapping[str, Sequence[str]]
    attribute: Mapping[str, Mapping[str, Any]]

    def values(self, attribute: str) -> list[str]:
        """Return the pool of values of an attribute."""
        return list(self.attribute[attribute]["values"])

    def statement(self, rng: Random, person: Person, attribute: str, kind: str, **slots: str) -> str:
        """Word a statement of `kind` about `person`, in the first person when they speak themselves.

        Raises:
            KeyError: the attribute has no such kind, or a template names a slot that was not given.
        """
        own = "self" if person.speaker else "other"
        template = rng.choice(self.attribute[attribute][f"{kind}_{own}"])
        before, names = "", _names(person, pronoun=False)
        if not person.speaker and "{S" in template and rng.random() < 0.3:
            before = rng.choice(self.chat["opener"]).format(P=person.name) + " "
            names = _names(person, pronoun=True)
        when = slots.get("when", "")
        body = template.format(**names, **slots, when_cap=_capital(when))
        return _capital(before + body)

    def noise(self, rng: Random, attribute: str, value: str) -> str:
        """Word a turn that names `value` in connection with nobody of the cast."""
        return _capital(rng.choice(self.attribute[attribute]["noise"]).format(v=value))

    def question(self, rng: Random, person: Person, attribute: str, kind: str, **slots: str) -> str:
        """Word a question of `kind` about a person."""
        data = self.attribute[attribute]
        template = rng.choice([*data[f"q_{kind}"], *self.generic[kind]])
        return _capital(template.format(**_names(person, pronoun=False), noun=data["noun"], **slots))


def load_phrasing(which: str = OWN) -> Phrasing:
    """Read one of `SETS` from the files beside this module, or one of `AUTHORED`.

    Raises:
        ValueError: there is no set of that name.
    """
    if which not in (*SETS, *AUTHORED):
        raise ValueError(f"no set {which!r}; there are {', '.join((*SETS, *AUTHORED))}")
    beside = f"{which}_phrasing.toml" if which in (SECOND, THIRD) else "phrasing.toml"
    data = _read(DATA / f"{which}.toml" if which in AUTHORED else Path(__file__).with_name(beside))
    if which == SWAPPED:
        other = _read(Path(__file__).with_name("swapped_values.toml"))
        data["people"] = other["people"]
        for name, attribute in data["attribute"].items():
            attribute["values"] = other["values"][name]
    return Phrasing(data["people"], data["chat"], data["generic"], data["attribute"])


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def _names(person: Person, *, pronoun: bool) -> dict[str, str]:
    """Return the slots that name a person; with `pronoun` an earlier sentence has named them."""
    forms = PRONOUNS[person.pronoun]
    subject, possessive = (forms["he"], forms["his"]) if pronoun else (person.name, f"{person.name}'s")
    shown = {
        "S": _capital(subject),
        "s": subject,
        "Ss": _capital(possessive),
        "ss": possessive,
        "P": person.name,
        "Ps": f"{person.name}'s",
    }
    return {**forms, **shown}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def fold(text: str) -> str:
    """Return `text` without case and accents, so that "Café" equals "CAFE".

    Examples:
        >>> fold("Łódź, Café")
        'łodz, cafe'
    """
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def contains(text: str, value: str) -> bool:
    """Tell whether `text` names `value`, ignoring case and accents."""
    return fold(value) in fold(text)


def day_and_month(day: date) -> str:
    """Return a date in words without the year, e.g. ``3 May`` (no locale is consulted)."""
    return f"{day.day} {_month(day)}"


def _month(day: date) -> str:
    return MONTHS[day.month - 1]


def _weekday(day: date) -> str:
    return WEEKDAYS[day.weekday()]


def when_phrase(rng: Random, day: date, said: date) -> str:
    """Word a past `day` as somebody who speaks on `said` would, true to the day, week or month.

    Raises:
        ValueError: `day` lies after `said`.
    """
    gap = (said - day).days
    if gap < 0:
        raise ValueError(f"{day} is after {said}")
    if gap <= 1:
        return ("this morning", "yesterday")[gap]
    options = [f"on {day_and_month(day)}", f"on the {_ordinal(day.day)} of {_month(day)}"]
    if gap <= 6:
        options += [f"last {_weekday(day)}", "a few days ago"]
    if _weeks_apart(day, said) == 1:
        options += ["last week"] * 2
    if 13 <= gap <= 15:
        options += ["two weeks ago"] * 3
    if 20 <= gap <= 22:
        options += ["three weeks ago"] * 3
    if gap > 10 and (said.year - day.year) * 12 + said.month - day.month == 1:
        options += ["last month"]
        if day.day <= 4:
            options += [f"at the start of {_month(day)}"]
    return rng.choice(options)


def _ordinal(number: int) -> str:
    suffix = "th" if 11 <= number <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _weeks_apart(day: date, said: date) -> int:
    return (said.toordinal() - 1) // 7 - (day.toordinal() - 1) // 7


def since_phrase(rng: Random, day: date, said: date) -> str:
    """Word how long something has been so that began on `day`: "since March", "for four months now"."""
    months = (said.year - day.year) * 12 + said.month - day.month
    named = f"since {_month(day)}" if months < 11 else f"since {_month(day)} {day.year}"
    options = [named, named]
    if 2 <= months < len(COUNTS):
        options.append(f"for about {COUNTS[months]} months now")
    if months == 12:
        options.append("for about a year now")
    if 23 <= months <= 25:
        options.append("for about two years now")
    return rng.choice(options)
