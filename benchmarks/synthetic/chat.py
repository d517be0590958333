"""Years of synthetic chat: one user, friends, places, things and days, all drawn from a seed.

Words come from the vocabulary that the package carries (its entries stand roughly in order of frequency) and are
drawn with Zipf's weights, so that a few words are in a large share of all turns and most are in a handful, as
in real text. People and places have made-up names, drawn the same way. Sessions are some days apart; most turns
state something, some ask, some only answer. It is text with the statistics of chat, not with its sense: use it
to time things, never to judge retrieval.

Source of the exponent: Zipf's law for words has an exponent of about 1
(Piantadosi 2014, https://doi.org/10.3758/s13423-014-0585-6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from itertools import accumulate
from random import Random
from typing import Any

__all__ = ["Chat", "Session", "vocabulary"]

Session = tuple[str, list[dict[str, Any]]]
"""A session's id and its turns."""

USER = "Ana"
BEGIN = datetime(2000, 1, 3, 9, tzinfo=timezone.utc)
TURNS = (12, 28)
SENTENCES = (1, 2, 2, 3)
"""Of a turn that tells something: so that a turn gives 1.4 facts, as it does in written dialogues (LoCoMo)."""
HOURS = 20
"""Between the beginnings of two sessions."""
FRIENDS, PLACES, SHORTEST_WORD = 2_000, 3_000, 4
SPEAKING_FRIENDS = 40
"""Friends who chat themselves; the others are only talked about."""

_SYLLABLES = (
    "ba be bri ca da del dor el fa fen ga gi hal ho ir ja ka ki la lo "
    "mar mi na no or pa per qui ra ren sa so ta tu ul va vi wen ya zo"
)
_PARTS = tuple(_SYLLABLES.split())

_TELL = (
    "I went to {place} with {friend} to look at a {a} {b}.",
    "{friend} bought a {a} {b} for the {c}.",
    "I talked with {friend} about the {a} and the {b} in {place}.",
    "We visited {place} last week because {friend} wanted a {a} {b}.",
    "{friend} works with {a} and {b} in {place} now.",
    "I finished the {a} {b} on {day}.",
    "My {a} broke, so {friend} lent me a {b}.",
    "{friend} told me that the {a} {b} in {place} is closed.",
    "I started a course about {a} and {b} with {friend}.",
    "I moved to {place} in {month}.",
    "I am reading about {a}, {b} and {c}.",
    "{friend} found a {a} near the {b} in {place} yesterday.",
    "I do not like the {a} {b} any more.",
    "On {day} {friend} and I saw a {a} at the {b}.",
)
_ASK = ("What happened with the {a}?", "Did {friend} like {place}?", "How was the {a} {b}?")
_ANSWER = ("Thanks, that is great!", "Wow, really?", "I see.", "Ha, good luck with that!")
_SHARES = (0.70, 0.85)
"""Up to the first, a turn tells; up to the second, it asks; else it only answers."""
_QUESTIONS = (
    "What did {friend} say about the {a} {b}?",
    "When did {user} go to {place} with {friend}?",
    "Who bought the {a} for the {b}?",
    "What happened with the {a} in {place}?",
    "Where did {user} see the {a} {b}?",
    "What is {friend} doing with {a}?",
)


@dataclass(frozen=True, slots=True)
class _Drawer:
    """Draws values by Zipf's law: the one at rank r with a weight of 1/r."""

    values: Sequence[str]
    weights: Sequence[float]

    @classmethod
    def of(cls, values: Sequence[str]) -> _Drawer:
        """Return a drawer of values in order of frequency."""
        return cls(values, list(accumulate(1 / rank for rank in range(1, len(values) + 1))))

    def draw(self, random: Random) -> str:
        """Return one value."""
        return random.choices(self.values, cum_weights=self.weights)[0]


class Chat:
    """An endless conversation; equal seeds give equal ones, and every session is drawn by itself."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = Random(f"{seed} names")
        self._words = _Drawer.of(vocabulary())
        friends = _names(random, FRIENDS, 2)
        self._friends = _Drawer.of(friends)
        self._speakers = _Drawer.of(friends[:SPEAKING_FRIENDS])
        self._places = _Drawer.of(_names(random, PLACES, 3))

    def session(self, number: int) -> Session:
        """Return a session; those with higher numbers are later."""
        random = Random(f"{self._seed} session {number}")
        return f"s{number:07d}", self._turns(random, number, random.randint(*TURNS))

    def fact(self, number: int, at: int) -> Session:
        """Return a session of one turn that states one thing, said on the day of session `at`."""
        random = Random(f"{self._seed} fact {number} {at}")
        text = self._filled(random, _TELL[number % len(_TELL)])
        return f"f{number:07d}", [{"speaker": USER, "text": text, "timestamp": _time(at).isoformat()}]

    def questions(self, count: int) -> Iterator[str]:
        """Yield questions about names and words that are drawn as those of the sessions are."""
        random = Random(f"{self._seed} questions")
        for number in range(count):
            yield self._filled(random, _QUESTIONS[number % len(_QUESTIONS)])

    def _turns(self, random: Random, number: int, count: int) -> list[dict[str, Any]]:
        said = _time(number)
        pair = (USER, self._speakers.draw(random))
        turns = []
        for ordinal in range(count):
            said += timedelta(seconds=random.randint(20, 200))
            share = random.random()
            kind = _TELL if share < _SHARES[0] else _ASK if share < _SHARES[1] else _ANSWER
            sentences = random.choice(SENTENCES) if kind is _TELL else 1
            text = " ".join(self._filled(random, random.choice(kind)) for _ in range(sentences))
            turns.append({"speaker": pair[ordinal % 2], "text": text, "timestamp": said.isoformat()})
        return turns

    def _filled(self, random: Random, template: str) -> str:
        day = BEGIN + timedelta(days=random.randint(0, 9_000))
        return template.format(
            user=USER,
            friend=self._friends.draw(random),
            place=self._places.draw(random),
            a=self._words.draw(random),
            b=self._words.draw(random),
            c=self._words.draw(random),
            day=f"{day.day} {day:%B} {day.year}",
            month=f"{day:%B} {day.year}",
        )


def _time(number: int) -> datetime:
    return BEGIN + timedelta(hours=number * HOURS, minutes=number % 60)


def vocabulary() -> list[str]:
    """Return the whole words of the package's vocabulary, the frequent ones first."""
    listed = files("memforest.data").joinpath("vocab.txt").read_text(encoding="utf-8").split("\n")
    return [word for word in listed if len(word) >= SHORTEST_WORD and word.isascii() and word.isalpha()]


def _names(random: Random, count: int, syllables: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(random.choices(_PARTS, k=syllables + random.randint(0, 1))).capitalize()] = None
    return list(found)
