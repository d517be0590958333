"""Questions over a world's timelines, with the answer and the turns that are acceptable evidence.

A question is asked only if its answer is unambiguous to somebody who read all the chats: an anchor value
("before Lisbon") is held once, and a date ("in May 2024") lies where the chats pin the value down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random

from temporal.phrasing import Phrasing, day_and_month
from temporal.worlds import Label, Session, Turn, World

__all__ = ["KINDS", "Question", "make_questions"]

KINDS = ("current", "as_of", "predecessor", "successor", "first", "last", "since", "back")
"""Question kinds, in table order: what is so now; what was so on a date; what came before / after a
value; what was so at first; when it last changed; since when it has been so; what it went back to."""

TurnRef = tuple[str, str]
"""Session id and turn id."""

_Mentions = dict[int, list[tuple[Label, Session, Turn]]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one attribute of one person in one world.

    `answer` is a value. `acceptable` are the turns that state it for this person at the right time.
    `anchor` is the value named by a predecessor or successor question, `day` the date an as-of question
    asks about. `stated` says whether the transition it turns on is told as a change.
    """

    world: str
    kind: str
    text: str
    reference: datetime
    person: str
    attribute: str
    answer: str
    acceptable: frozenset[TurnRef]
    stated: bool
    anchor: str | None = None
    day: date | None = None


@dataclass(frozen=True, slots=True)
class _Draft:
    """A question before it is worded: the answer's interval, the deciding transition's, the slots."""

    kind: str
    index: int
    transition: int
    anchor: str | None = None
    day: date | None = None
    on: str = ""


def make_questions(phrasing: Phrasing, worlds: Iterable[World], total: int, seed: int) -> list[Question]:
    """Draw about `total` questions, balanced over kinds and over stated and unstated transitions.

    Every bucket gets ``ceil(total / buckets)`` questions or as many as there are.
    """
    buckets: dict[tuple[str, bool], list[Question]] = defaultdict(list)
    for world in worlds:
        rng = Random(f"temporal-state/questions/{seed}/{world.id}")
        for question in _all_questions(rng, phrasing, world):
            buckets[question.kind, question.stated].append(question)
    share = -(-total // (2 * len(KINDS)))
    chosen: list[Question] = []
    for kind in KINDS:
        for stated in (True, False):
            pool = buckets[kind, stated]
            rng = Random(f"temporal-state/choice/{seed}/{kind}/{stated}")
            chosen += rng.sample(pool, min(share, len(pool)))
    return chosen


def _all_questions(rng: Random, phrasing: Phrasing, world: World) -> Iterator[Question]:
    """Yield every question the world supports, each worded once."""
    by_timeline: dict[int, _Mentions] = defaultdict(lambda: defaultdict(list))
    for label, session, turn in world.mentions():
        by_timeline[label.timeline][label.index].append((label, session, turn))
    for position, timeline in enumerate(world.timelines):
        mentions = by_timeline[position]
        for draft in _drafts(rng, world, position, mentions):
            slots = {"v": draft.anchor or timeline.values[draft.index], "on": draft.on}
            yield Question(
                world=world.id,
                kind=draft.kind,
                text=phrasing.question(rng, timeline.person, timeline.attribute, draft.kind, **slots),
                reference=world.reference,
                person=timeline.person.name,
                attribute=timeline.attribute,
                answer=timeline.values[draft.index],
                acceptable=_acceptable(draft, mentions[draft.index]),
                stated=timeline.intervals[draft.transition].stated,
                anchor=draft.anchor,
                day=draft.day,
            )


def _drafts(rng: Random, world: World, position: int, mentions: _Mentions) -> Iterator[_Draft]:
    """Yield the questions one timeline supports."""
    timeline = world.timelines[position]
    values = timeline.values
    last = len(values) - 1
    yield _Draft("current", last, last)
    yield _Draft("first", 0, 1)
    yield _Draft("last", last, last)
    yield _Draft("since", last, last)
    for index in range(last):
        if timeline.once(index + 1):
            yield _Draft("predecessor", index, index + 1, anchor=values[index + 1])
        if timeline.once(index):
            yield _Draft("successor", index + 1, index + 1, anchor=values[index])
    for index in range(last + 1):
        if values[index] in values[:index]:
            yield _Draft("back", index, index)
        window = _certain_days(world, position, index, mentions)
        if window is not None:
            day, words = _day_in(rng, *window)
            yield _Draft("as_of", index, max(index, 1), day=day, on=words)


def _certain_days(world: World, position: int, index: int, mentions: _Mentions) -> tuple[date, date] | None:
    """Return the days [start, end) on which the chats leave no doubt that the interval's value held.

    A told beginning or end counts as told; an untold one counts from, or up to, the first or last
    mention. ``None`` if that leaves less than three days.
    """
    intervals = world.timelines[position].intervals
    present = [(label, turn) for label, _, turn in mentions[index] if label.kind not in ("retro", "ended")]
    told = any(label.tells_start for label, _ in present)
    start = intervals[index].start if told else min(turn.said for _, turn in present).date()
    if index == len(intervals) - 1:
        end = world.reference.date()
    elif intervals[index + 1].stated:
        end = intervals[index + 1].start
    else:
        end = max(turn.said for _, turn in present).date()
    return (start, end) if (end - start).days >= 3 else None


def _day_in(rng: Random, start: date, end: date) -> tuple[date, str]:
    """Draw a day inside [start, end) and word it, by month where the whole month lies inside."""
    day = start + timedelta(days=rng.randint(1, (end - start).days - 1))
    first = day.replace(day=1)
    next_month = (first + timedelta(days=32)).replace(day=1)
    month = day_and_month(day).split()[1]
    if start <= first and next_month <= end and rng.random() < 0.7:
        return first + timedelta(days=14), f"in {month} {day.year}"
    return day, f"on {day_and_month(day)} {day.year}"


def _acceptable(draft: _Draft, mentions: list[tuple[Label, Session, Turn]]) -> frozenset[TurnRef]:
    """Return the turns that are evidence for a question (the rule is in `temporal_state`)."""
    if draft.kind in ("since", "last"):
        chosen = [entry for entry in mentions if entry[0].tells_start]
        present = [entry for entry in mentions if entry[0].kind not in ("retro", "ended")]
        chosen = chosen or [min(present, key=lambda entry: entry[2].said)]
    elif draft.kind in ("predecessor", "successor", "first"):
        chosen = mentions
    else:
        chosen = [entry for entry in mentions if entry[0].kind != "retro"]
    return frozenset((session.id, turn.id) for _, session, turn in chosen)
