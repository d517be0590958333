"""What is so, and when: people, and per attribute the intervals in which each value held.

This is the ground truth. It knows nothing of chats or wordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from temporal.phrasing import Person, Phrasing

__all__ = ["Interval", "Timeline", "make_cast", "make_timelines"]

SHORTEST = 60
"""Days a value holds at least, so that several chats fall into every interval."""

ATTRIBUTES_PER_WORLD = 11
ATTRIBUTES_PER_PERSON = (5, 7)
POOL = 7
"""Values of one attribute in one world: few, so that several people share values."""

RETURN_RATE = 0.55
STATED_RATE = 0.5


@dataclass(frozen=True, slots=True)
class Interval:
    """A value that held in [start, end); `stated` says that its beginning is told as a change.

    The first interval of a timeline begins before the chats do and is never stated. The last one has
    no end.
    """

    value: str
    start: date
    end: date | None
    stated: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """One attribute of one person over the whole world; neighbouring intervals differ in value."""

    person: Person
    attribute: str
    intervals: tuple[Interval, ...]

    @property
    def values(self) -> list[str]:
        """The values in time order, returns included."""
        return [interval.value for interval in self.intervals]

    def once(self, index: int) -> bool:
        """Tell whether the value of an interval is held in that interval only."""
        return self.values.count(self.intervals[index].value) == 1

    def held(self, start: date, end: date) -> set[str]:
        """Return the values that held at some time in [start, end]."""
        return {i.value for i in self.intervals if i.start <= end and (i.end is None or i.end > start)}


def make_cast(rng: Random, phrasing: Phrasing, *, similar: bool) -> list[Person]:
    """Draw four to six people, two of them speakers, at least one with a non-ASCII name.

    With `similar` two of them have names that are easily confused.
    """
    names = [(name, pronoun) for pronoun in ("she", "he") for name in phrasing.people[pronoun]]
    chosen: list[tuple[str, str]] = []
    if similar:
        one, its, other, others = rng.choice(phrasing.people["similar"])
        chosen = [(one, its), (other, others)]
    pool = [entry for entry in names if entry not in chosen]
    size = rng.randint(4, 6)
    foreign = [entry for entry in pool if not entry[0].isascii()]
    chosen.append(rng.choice(foreign))
    pool.remove(chosen[-1])
    chosen += rng.sample(pool, size - len(chosen))
    rng.shuffle(chosen)
    return [Person(name, pronoun, speaker=n < 2) for n, (name, pronoun) in enumerate(chosen)]


def make_timelines(
    rng: Random, phrasing: Phrasing, cast: Sequence[Person], first: date, last: date
) -> list[Timeline]:
    """Draw the timelines of a world whose chats run from `first` to `last`."""
    attributes = rng.sample(sorted(phrasing.attribute), ATTRIBUTES_PER_WORLD)
    pools = {name: rng.sample(phrasing.values(name), POOL) for name in attributes}
    timelines = []
    for person in cast:
        for name in sorted(rng.sample(attributes, rng.randint(*ATTRIBUTES_PER_PERSON))):
            most = int(phrasing.attribute[name]["max_values"])
            timelines.append(Timeline(person, name, _intervals(rng, pools[name], most, first, last)))
    return timelines


def _intervals(rng: Random, pool: Sequence[str], most: int, first: date, last: date) -> tuple[Interval, ...]:
    """Draw two to `most` intervals, as many as the time allows; about half the long ones return."""
    begin, room = first + timedelta(days=45), (last - first).days - 45 - 40
    count = rng.randint(2, max(2, min(most, room // SHORTEST + 1)))
    values = rng.sample(list(pool), count)
    if count >= 3 and rng.random() < RETURN_RATE:
        place = rng.randrange(2, count)
        values[place] = values[rng.randrange(0, place - 1)]
    spare = room - SHORTEST * (count - 2)
    offsets = sorted(rng.randint(0, spare) for _ in range(count - 1))
    cuts = [begin + timedelta(days=offset + SHORTEST * n) for n, offset in enumerate(offsets)]
    starts = [first - timedelta(days=rng.randint(60, 700)), *cuts]
    ends = [*cuts, None]
    stated = [False, *(rng.random() < STATED_RATE for _ in cuts)]
    return tuple(Interval(*parts) for parts in zip(values, starts, ends, stated, strict=True))
