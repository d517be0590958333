"""The chats that tell a world's timelines, with a label on every turn that states something.

A session is two speakers' dated chat: state statements, reactions, distractors and small talk. Sessions
are handed out in a shuffled order and have ids that say nothing about time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from random import Random
from typing import Literal

from temporal.phrasing import Person, Phrasing, since_phrase, when_phrase
from temporal.timelines import Timeline, make_cast, make_timelines

__all__ = ["Label", "Session", "Turn", "World", "in_time_order", "make_world", "make_worlds"]

MentionKind = Literal["is", "start", "shift", "back", "still", "since", "reply", "retro", "ended"]

DISTRACTORS_PER_SESSION = (2, 4)
REPEATS: tuple[MentionKind, ...] = ("still", "is", "since", "reply")


@dataclass(frozen=True, slots=True)
class Label:
    """A turn states interval `index` of `timeline` (a position in the world's timelines).

    `kind` is that of the phrasing file; ``ended`` is the old value of a ``shift``.
    """

    timeline: int
    index: int
    kind: MentionKind

    @property
    def tells_start(self) -> bool:
        """Whether the turn says when the interval began."""
        return self.kind in ("start", "shift", "back", "since")


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance; `labels` is empty for everything that states no value of a timeline."""

    id: str
    speaker: str
    text: str
    said: datetime
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """A chat; turn ids are unique in it and times increase."""

    id: str
    turns: tuple[Turn, ...]

    def as_input(self) -> list[dict[str, str]]:
        """Return the turns as `ingest_session` takes them, without labels."""
        return [
            {"id": t.id, "speaker": t.speaker, "content": t.text, "timestamp": t.said.isoformat()}
            for t in self.turns
        ]


@dataclass(frozen=True, slots=True)
class World:
    """A cast, what was so, and the chats in the order in which they are to be ingested."""

    id: str
    cast: tuple[Person, ...]
    timelines: tuple[Timeline, ...]
    sessions: tuple[Session, ...]
    reference: datetime

    def mentions(self) -> Iterator[tuple[Label, Session, Turn]]:
        """Yield every label with its turn, in the order of the sessions."""
        for session in self.sessions:
            for turn in session.turns:
                for label in turn.labels:
                    yield label, session, turn


@dataclass(frozen=True, slots=True)
class _Planned:
    """A mention that is to be worded in the session of a given number."""

    timeline: int
    index: int
    kind: MentionKind


_Beat = list[tuple[str, str, tuple[Label, ...]]]
"""Consecutive lines of a chat: speaker, text, labels."""


def make_worlds(phrasing: Phrasing, count: int, seed: int) -> list[World]:
    """Generate `count` worlds; equal arguments give equal worlds, and world n does not depend on `count`."""
    return [make_world(phrasing, number, seed) for number in range(count)]


def make_world(phrasing: Phrasing, number: int, seed: int) -> World:
    """Generate world `number` of a seed. Every second world has two people with similar names."""
    rng = Random(f"temporal-state/{seed}/{number}")
    cast = make_cast(rng, phrasing, similar=number % 2 == 0)
    days = _session_days(rng)
    timelines = make_timelines(rng, phrasing, cast, days[0], days[-1])
    planned: dict[int, list[_Planned]] = defaultdict(list)
    for position, timeline in enumerate(timelines):
        for chat, mention in _plan(rng, timeline, position, days):
            planned[chat].append(mention)
    writer = _Writer(rng, phrasing, cast, timelines)
    sessions = [writer.session(f"w{number}", day, planned[chat]) for chat, day in enumerate(days)]
    rng.shuffle(sessions)
    reference = datetime(days[-1].year, days[-1].month, days[-1].day, 23, tzinfo=timezone.utc)
    return World(
        id=f"world-{number}",
        cast=tuple(cast),
        timelines=tuple(timelines),
        sessions=tuple(sessions),
        reference=reference + timedelta(days=1),
    )


def _session_days(rng: Random) -> list[date]:
    """Draw the days of the chats: one to three years, eight to eighteen days apart."""
    day = date(rng.randint(2019, 2023), rng.randint(1, 12), rng.randint(1, 28))
    end = day + timedelta(days=rng.randint(365, 3 * 365))
    days = []
    while day <= end:
        days.append(day)
        day += timedelta(days=rng.randint(8, 18))
    return days


def _plan(
    rng: Random, timeline: Timeline, position: int, days: Sequence[date]
) -> Iterator[tuple[int, _Planned]]:
    """Yield which mention of the timeline goes into which session."""
    for index, interval in enumerate(timeline.intervals):
        chats = [
            n
            for n, day in enumerate(days)
            if day >= interval.start and (interval.end is None or day < interval.end)
        ]
        spread = 4 if index == 0 else 2
        first = chats[min(rng.randrange(spread), len(chats) - 1)]
        yield first, _Planned(position, index, _first_kind(rng, timeline, index))
        later = [n for n in chats if n > first]
        for chat in rng.sample(later, min(len(later), rng.randint(0, 3))):
            kind: MentionKind = rng.choices(REPEATS, (50, 20, 12, 18))[0]
            yield chat, _Planned(position, index, kind)
        if interval.end is not None and timeline.once(index) and rng.random() < 0.25:
            after = [n for n, day in enumerate(days) if day > interval.end + timedelta(days=30)]
            if after:
                yield rng.choice(after), _Planned(position, index, "retro")


def _first_kind(rng: Random, timeline: Timeline, index: int) -> MentionKind:
    """Choose how an interval is first told."""
    if not timeline.intervals[index].stated:
        return "is"
    if timeline.values[index] in timeline.values[:index]:
        return rng.choice(("back", "back", "shift"))
    return rng.choice(("start", "start", "shift"))


class _Writer:
    """Words the planned mentions of one world as chats, with distractors and small talk between them."""

    def __init__(
        self, rng: Random, phrasing: Phrasing, cast: Sequence[Person], timelines: Sequence[Timeline]
    ) -> None:
        self._rng = rng
        self._phrasing = phrasing
        self._speakers = [person.name for person in cast if person.speaker]
        self._timelines = timelines
        self._values = sorted({(t.attribute, i.value) for t in timelines for i in t.intervals})

    def session(self, prefix: str, day: date, planned: Sequence[_Planned]) -> Session:
        """Write the chat of one day."""
        rng, chat = self._rng, self._phrasing.chat
        beats = [self._statement(mention, day) for mention in planned]
        beats += [self._distractor(day) for _ in range(rng.randint(*DISTRACTORS_PER_SESSION))]
        beats += [self._exchange(*rng.choice(chat["smalltalk"])) for _ in range(rng.randint(1, 2))]
        rng.shuffle(beats)
        if rng.random() < 0.6:
            beats.insert(0, self._exchange(rng.choice(chat["greeting"]), rng.choice(chat["greeting_reply"])))
        if rng.random() < 0.5:
            beats.append(self._exchange(rng.choice(chat["closing"]), rng.choice(chat["closing_reply"])))
        said = datetime(
            day.year, day.month, day.day, rng.randint(8, 20), rng.randrange(60), tzinfo=timezone.utc
        )
        turns = []
        for number, (speaker, text, labels) in enumerate(line for beat in beats for line in beat):
            turns.append(Turn(f"t{number}", speaker, text, said, labels))
            said += timedelta(seconds=rng.randint(15, 150))
        return Session(f"{prefix}-{rng.getrandbits(32):08x}", tuple(turns))

    def _statement(self, planned: _Planned, day: date) -> _Beat:
        """Word one mention and what the other speaker says before or after it."""
        timeline = self._timelines[planned.timeline]
        person, interval = timeline.person, timeline.intervals[planned.index]
        speaker, other = self._pair(person)
        label = Label(planned.timeline, planned.index, planned.kind)
        slots = {"v": interval.value}
        if planned.kind in ("start", "shift", "back"):
            slots["when"] = when_phrase(self._rng, interval.start, day)
            slots["old"] = timeline.intervals[planned.index - 1].value
        if planned.kind == "since":
            slots["since"] = since_phrase(self._rng, interval.start, day)
        text = self._phrasing.statement(self._rng, person, timeline.attribute, planned.kind, **slots)
        if planned.kind == "reply":
            asked = self._phrasing.statement(self._rng, person, timeline.attribute, "ask")
            return [(other, asked, ()), (speaker, text, (label,))]
        labels: tuple[Label, ...] = (label,)
        if planned.kind == "shift":
            labels += (Label(planned.timeline, planned.index - 1, "ended"),)
        return self._with_reaction(speaker, other, text, labels)

    def _distractor(self, day: date) -> _Beat:
        """Word a turn that names a value and states nothing of the timelines."""
        rng = self._rng
        if rng.random() < 0.35:
            attribute, value = rng.choice(self._values)
            speaker, other = self._pair(None)
            return self._with_reaction(speaker, other, self._phrasing.noise(rng, attribute, value), ())
        timeline = rng.choice(self._timelines)
        kind = rng.choice(("maybe", "maybe", "fell"))
        taken = timeline.held(day - timedelta(days=60), day) if kind == "maybe" else set(timeline.values)
        free = [v for v in self._phrasing.values(timeline.attribute) if v not in taken]
        known = [v for a, v in self._values if a == timeline.attribute and v not in taken]
        value = rng.choice(known if known and rng.random() < 0.7 else free)
        speaker, other = self._pair(timeline.person)
        text = self._phrasing.statement(rng, timeline.person, timeline.attribute, kind, v=value)
        return self._with_reaction(speaker, other, text, ())

    def _with_reaction(self, speaker: str, other: str, text: str, labels: tuple[Label, ...]) -> _Beat:
        """Dress a line with a lead or a tail now and then, and let the other speaker react."""
        rng, chat = self._rng, self._phrasing.chat
        if rng.random() < 0.15:
            text = f"{rng.choice(chat['lead'])} {text}"
        if rng.random() < 0.15:
            text = f"{text} {rng.choice(chat['tail'])}"
        beat: _Beat = [(speaker, text, labels)]
        if rng.random() < 0.7:
            beat.append((other, rng.choice(chat["reaction"]), ()))
        return beat

    def _exchange(self, line: str, reply: str) -> _Beat:
        speaker, other = self._pair(None)
        return [(speaker, line, ()), (other, reply, ())]

    def _pair(self, person: Person | None) -> tuple[str, str]:
        """Return who says a line about `person` and who listens; a speaker talks of themselves."""
        first, second = self._speakers
        own = person.name if person is not None and person.speaker else self._rng.choice(self._speakers)
        return (first, second) if own == first else (second, first)


def in_time_order(world: World) -> list[Session]:
    """Return the sessions by time, as they happened.

    Raises:
        ValueError: two sessions overlap, which the generator rules out.
    """
    ordered = sorted(world.sessions, key=lambda session: session.turns[0].said)
    for one, next_one in pairwise(ordered):
        if one.turns[-1].said >= next_one.turns[0].said:
            raise ValueError(f"{one.id} overlaps {next_one.id}")
    return ordered
