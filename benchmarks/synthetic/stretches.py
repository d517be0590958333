"""Conversations whose turns of topic are known: stretches of a few exchanges, each about one thing in somebody's life.

Two people talk. A stretch is about one attribute of one person (where she lives, his dog) and is worded by the templates
of the temporal benchmark's first phrasing; now and then there is an exchange of small talk, which is a stretch by itself.
The next stretch is about another attribute. Use it to see whether an index parts talk where its topic turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from temporal.phrasing import Person, Phrasing, load_phrasing, since_phrase, when_phrase
from temporal.timelines import make_cast

__all__ = ["Talk", "make_talk"]

Turn = tuple[str, str]
"""Who speaks, and what is said."""

LENGTHS = (2, 9)
"""Exchanges of a stretch, at least and at most; all lengths between are as likely."""
SMALL_TALK, DRESSED, ONLY_REACTS = 0.15, 0.15, 0.6
"""Shares of stretches that are small talk, of statements with a lead or a tail, and of replies that only react."""
KINDS = ("is", "is", "start", "shift", "still", "since", "maybe", "fell", "retro", "noise", "reply")
POOL = 7
"""Values of an attribute in one conversation."""
DAYS_APART, EVERY = 10, 12
"""Days between two sessions, and exchanges of a session."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: its exchanges, of two turns each, and the number of the stretch that each belongs to."""

    exchanges: tuple[tuple[Turn, ...], ...]
    stretches: tuple[int, ...]

    @property
    def turns_at(self) -> list[bool]:
        """Whether the topic turns with an exchange, for each but the first."""
        return [one != before for before, one in zip(self.stretches, self.stretches[1:], strict=False)]


def make_talk(seed: int, exchanges: int) -> Talk:
    """Generate a conversation; equal arguments give an equal one."""
    rng, phrasing = Random(f"stretches/{seed}"), load_phrasing()
    writer = _Writer(rng, phrasing)
    found: list[tuple[Turn, ...]] = []
    stretches: list[int] = []
    while len(found) < exchanges:
        number = stretches[-1] + 1 if stretches else 0
        for exchange in writer.stretch(len(found)):
            found.append(exchange)
            stretches.append(number)
    return Talk(tuple(found[:exchanges]), tuple(stretches[:exchanges]))


class _Writer:
    """Words the stretches of one conversation."""

    def __init__(self, rng: Random, phrasing: Phrasing) -> None:
        self._rng, self._phrasing = rng, phrasing
        self._cast = make_cast(rng, phrasing, similar=False)
        self._speakers = [person.name for person in self._cast if person.speaker]
        self._attributes = sorted(phrasing.attribute)
        self._values = {name: rng.sample(phrasing.values(name), POOL) for name in self._attributes}
        self._last = ""

    def stretch(self, before: int) -> Iterator[tuple[Turn, ...]]:
        """Yield the exchanges of the next stretch; `before` many have been."""
        rng = self._rng
        attribute = rng.choice([name for name in self._attributes if name != self._last])
        person, length = rng.choice(self._cast), rng.randint(*LENGTHS)
        self._last = attribute
        if rng.random() < SMALL_TALK:
            yield self._said(rng.choice(self._phrasing.chat["smalltalk"]))
            return
        day = date(2024, 1, 5) + timedelta(days=DAYS_APART * (before // EVERY))
        value, old = rng.sample(self._values[attribute], 2)
        kinds = rng.sample(KINDS, len(KINDS))
        for kind in kinds[:length]:
            named = value if rng.random() < 0.7 else rng.choice(self._values[attribute])
            if kind == "reply":
                asked = self._statement(person, attribute, "ask", named, old, day)
                yield self._said((asked, self._statement(person, attribute, kind, named, old, day)))
            else:
                said = self._statement(person, attribute, kind, named, old, day)
                yield self._said((self._dressed(said), self._answer(person, attribute, old, day)))

    def _said(self, lines: Sequence[str]) -> tuple[Turn, ...]:
        return tuple(zip(self._speakers, lines, strict=True))

    def _dressed(self, text: str) -> str:
        rng, chat = self._rng, self._phrasing.chat
        lead = f"{rng.choice(chat['lead'])} " if rng.random() < DRESSED else ""
        tail = f" {rng.choice(chat['tail'])}" if rng.random() < DRESSED else ""
        return f"{lead}{text}{tail}"

    def _answer(self, person: Person, attribute: str, old: str, day: date) -> str:
        """Word a reply: mostly a reaction, else something about the same thing."""
        rng = self._rng
        if rng.random() < ONLY_REACTS:
            return str(rng.choice(self._phrasing.chat["reaction"]))
        kind = "noise" if person.speaker else rng.choice(("noise", "maybe", "is"))
        return self._statement(person, attribute, kind, rng.choice(self._values[attribute]), old, day)

    def _statement(self, person: Person, attribute: str, kind: str, value: str, old: str, day: date) -> str:
        rng = self._rng
        if kind == "noise":
            return self._phrasing.noise(rng, attribute, value)
        changed = day - timedelta(days=rng.randint(2, 80))
        return self._phrasing.statement(
            rng,
            person,
            attribute,
            kind,
            v=value,
            old=old,
            when=when_phrase(rng, changed, day),
            since=since_phrase(rng, changed, day),
        )
