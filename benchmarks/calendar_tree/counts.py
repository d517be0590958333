"""Which memories a calendar tree makes of a conversation, what each is made from, and so what it costs: by arithmetic alone.

Nothing of the package's calendar or of an index is used, so that both can be held to it. Levels are those of TiMem
(arXiv 2601.02845): L1 segments, L2 sessions, L3 days, L4 weeks, L5 months. One memory is one call of a model, unless it has
one child whose text it takes over (`Ways.pass_through`).

Weeks. ``"in-month"``: the part of an ISO week that lies in one month. ``"released"``: what the released scheduler makes: the
full week, Monday to Sunday, and of a week that the end of a month cuts, the part up to that end as well; each if it holds
something. A month with sessions is made from the windows that end in it.

Chains. A memory waits for its children and its history. The longest chain of calls that wait for one another bounds the time
of a backfill, however many may be in flight. The chain of one session is that of the memories that are made, or made anew,
because it came last: everything else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, timezone
from typing import Literal, NamedTuple

from locomo.conversations import Conversation
from memforest.reading.timestamps import parse_timestamp

__all__ = [
    "HISTORY",
    "LEVELS",
    "RELEASED",
    "Ledger",
    "Memory",
    "Talk",
    "Ways",
    "ledger",
    "memories_of",
    "session_chain",
    "talk_of",
]

LEVELS = 5
HISTORY = 3
"""Earlier memories of its level that a memory is made with (the paper's w)."""
_DAY = timedelta(days=1)

Window = tuple[date, date]
"""First and last day."""


class Talk(NamedTuple):
    """One session: the day on which it begins, and how many turns it has."""

    day: date
    turns: int


@dataclass(frozen=True, slots=True)
class Ways:
    """How the tree is made."""

    weeks: Literal["in-month", "released"] = "in-month"
    rest: bool = True
    """Keep the odd last turn of a session, as an exchange of its own."""
    segment: int = 1
    """Exchanges of a segment; the last one of a session may have fewer."""
    history: tuple[int, ...] = (HISTORY,) * LEVELS
    """By level; 0 for none."""
    history_of: Literal["memories", "children"] = "memories"
    """Whether the history of a memory is what was made of earlier windows, or what those were made from."""
    pass_through: bool = False

    def segments(self, turns: int) -> int:
        """Return the number of segments of a session."""
        exchanges = (turns + self.rest) // 2
        return -(-exchanges // self.segment)


RELEASED = Ways(weeks="released", rest=False, history=(HISTORY, 0, HISTORY, HISTORY, HISTORY))
"""The released scheduler, with the driver that leaves odd last turns out; its prompt of sessions has no place for history."""


class Memory(NamedTuple):
    """One memory: its level, its window, and the positions of what it is made from and of its history."""

    level: int
    window: Window
    children: tuple[int, ...]
    history: tuple[int, ...]
    is_written: bool
    """By a call; else it has the text of its only child."""

    @property
    def waits_for(self) -> tuple[int, ...]:
        """What has to be there before it is made."""
        return (*self.children, *self.history) if self.is_written else self.children


class Ledger(NamedTuple):
    """What a conversation costs."""

    calls: tuple[int, ...]
    """By level, from L1 on."""
    memories: tuple[int, ...]
    chain: int
    """Of a backfill."""
    session_chain: int
    """Of the session with the longest one."""

    @property
    def total(self) -> int:
        """Calls of all levels."""
        return sum(self.calls)


def talk_of(conversation: Conversation) -> list[Talk]:
    """Return the sessions of a conversation, in order; their days are UTC's."""
    return [
        Talk(parse_timestamp(one.timestamp, timezone=timezone.utc, field="-")[0].date(), len(one.turns))
        for one in conversation.sessions
    ]


def ledger(talk: Sequence[Talk], ways: Ways) -> Ledger:
    """Return what sessions cost, in whatever order they are given."""
    made = memories_of(talk, ways)
    levels = range(1, LEVELS + 1)
    sessions = [at for at, one in enumerate(made) if one.level == 2]
    return Ledger(
        calls=tuple(sum(one.is_written for one in made if one.level == level) for level in levels),
        memories=tuple(sum(one.level == level for one in made) for level in levels),
        chain=_longest(made, range(len(made))),
        session_chain=max((session_chain(made, at) for at in sessions), default=0),
    )


def session_chain(made: Sequence[Memory], session: int) -> int:
    """Return the longest chain among the memories of one session and those above it, as if it were the last."""
    touched = {session, *made[session].children}
    for at, one in enumerate(made):
        if not touched.isdisjoint(one.children):
            touched.add(at)
    return _longest(made, sorted(touched))


def _longest(made: Sequence[Memory], among: Collection[int]) -> int:
    """Return the most calls that wait for one another; each memory stands behind what it waits for."""
    depth: dict[int, int] = {}
    for at in among:
        before = max((depth.get(one, 0) for one in made[at].waits_for), default=0)
        depth[at] = before + made[at].is_written
    return max(depth.values(), default=0)


def memories_of(talk: Sequence[Talk], ways: Ways) -> list[Memory]:
    """Return the memories of sessions: level by level, in order of time, so each behind what it is made from."""
    sessions = sorted(
        (one for one in talk if one.turns // 2 + one.turns % 2 * ways.rest), key=lambda one: one.day
    )
    made: list[Memory] = []
    segments: list[range] = []
    for one in sessions:
        first = len(made)
        for at in range(ways.segments(one.turns)):
            history = range(max(first, first + at - ways.history[0]), first + at)
            told = tuple(history) if ways.history_of == "memories" else ()
            made.append(Memory(1, (one.day, one.day), (), told, True))
        segments.append(range(first, len(made)))
    below = _add(made, 2, [(one.day, one.day) for one in sessions], segments, ways)
    weeks = _released_weeks if ways.weeks == "released" else _weeks
    for level, windows in ((3, _days), (4, weeks), (5, _months)):
        groups = _grouped(made, below, windows, sessions)
        below = _add(made, level, list(groups), list(groups.values()), ways)
    return made


def _grouped(
    made: Sequence[Memory],
    below: Sequence[int],
    windows: Callable[[date], list[Window]],
    sessions: Sequence[Talk],
) -> dict[Window, list[int]]:
    """Return the windows that hold a session, with the memories whose last day lies in them, in the order in which they end."""
    groups: dict[Window, list[int]] = {
        window: [] for one in sorted({one.day for one in sessions}) for window in windows(one)
    }
    for child in below:
        for window in windows(made[child].window[1]):
            if window in groups:
                groups[window].append(child)
    return {window: groups[window] for window in sorted(groups, key=lambda one: (one[1], one[0]))}


def _add(
    made: list[Memory],
    level: int,
    windows: Sequence[Window],
    children: Sequence[Sequence[int]],
    ways: Ways,
) -> list[int]:
    """Add the memories of a level, in order, and return where they stand."""
    first, many = len(made), ways.history[level - 1]
    for at, (window, below) in enumerate(zip(windows, children, strict=True)):
        if ways.history_of == "memories":
            told: Sequence[int] = range(max(first, first + at - many), first + at)
        else:
            earlier = sorted({one for group in children[:at] for one in group} - set(below))
            told = earlier[len(earlier) - many :] if many else ()
        written = not (ways.pass_through and len(below) == 1)
        made.append(Memory(level, window, tuple(below), tuple(told), written))
    return list(range(first, len(made)))


def _days(day: date) -> list[Window]:
    return [(day, day)]


def _weeks(day: date) -> list[Window]:
    (first, last), (begins, ends) = _full_week(day), _month(day)
    return [(max(first, begins), min(last, ends))]


def _released_weeks(day: date) -> list[Window]:
    (first, last), (_, ends) = _full_week(day), _month(day)
    return [(first, last)] if last <= ends else [(first, ends), (first, last)]


def _months(day: date) -> list[Window]:
    return [_month(day)]


def _full_week(day: date) -> Window:
    monday = day - day.weekday() * _DAY
    return monday, monday + 6 * _DAY


def _month(day: date) -> Window:
    after = (day.replace(day=1) + 31 * _DAY).replace(day=1)
    return day.replace(day=1), after - _DAY
