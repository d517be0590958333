"""How a question wants to be answered, as a planner reads it: the plan, its time operator and sub-queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, cast, get_args

from memforest.errors import InputError

OperatorKind = Literal[
    "current", "as_of", "predecessor", "successor", "first", "last", "since", "changed_back"
]
"""What a question wants of a timeline: the entry at a time, beside another one, at an end, or one that came back."""

QuestionKind = Literal["simple", OperatorKind, "when", "list", "sessions", "events"]
"""Which time operator a question applies, or that it asks for a time or a list, for all that was said at a time or in the
first or last session (``sessions``), or for all that happened at a time (``events``); ``simple`` is every other one."""

Complexity = Literal["simple", "hybrid", "complex"]
"""How much of a memory a question needs: one recorded fact, several put together, or a judgement over many
(TiMem, arXiv 2601.02845: complexity 0, 1, 2)."""

SubQueryScope = Literal["short", "long", "mixed"]
"""Which memories answer a sub-query: what was said, its summaries, or both (H-Mem, arXiv 2605.15701)."""


@dataclass(frozen=True, slots=True)
class TimeOperator:
    """A time operator, and what a question says of the timeline that it is to be applied to.

    `anchor` is the text that it is relative to ("before *the oolong*"), empty if there is none. With `begins` the
    question is about the day on which something began ("when did she move"), which only a statement that tells a
    beginning answers. With `manner` it asks how or why, which no state answers. An unknown kind is an `InputError`.
    """

    kind: OperatorKind
    anchor: str = ""
    begins: bool = False
    manner: bool = False

    def __post_init__(self) -> None:
        _check_choice("a time operator has the kind", self.kind, OperatorKind)


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One of the questions that a question is made of (H-Mem, arXiv 2605.15701: its query planner).

    `depends_on` are the ids of those whose answers it needs. `interval` is the time [start, end) that it is about, aware
    UTC; an end of None is open. `coverage` says in the planner's words how much of the memory it is about, e.g. ``"global"``.

    Raises:
        InputError: if the id or the text is empty, the scope unknown, or the interval no two aware times in order.
    """

    id: str
    text: str
    depends_on: tuple[str, ...] = ()
    scope: SubQueryScope | None = None
    interval: tuple[datetime, datetime | None] | None = None
    coverage: str | None = None

    def __post_init__(self) -> None:
        for name in ("id", "text"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"a sub-query's {name} is {value!r}; give some text")
        _check_choice(f"sub-query {self.id!r} has the scope", self.scope, SubQueryScope)
        if self.interval is not None and not _is_interval(self.interval):
            raise InputError(f"sub-query {self.id!r}: give (start, end), aware and the end later or None")


def _is_interval(value: Any) -> bool:
    start, end = value if isinstance(value, tuple) and len(value) == 2 else (None, None)
    aware = all(isinstance(one, datetime) and one.tzinfo is not None for one in (start, end or start))
    return aware and (end is None or start < end)


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """How a question wants to be answered: all that an index knows of its text, beside search tokens and vectors.

    `entities` are names as they stand
    in the catalogue handed to the planner. `attribute` is a state attribute (see `State`) when the
    question asks about one. `anchor` is the text of the event or value that the question is relative
    to ("before *moving to Miami*"). `start`/`end` is a time window stated in the question, and
    `as_of` the instant it asks about, both resolved against the reference date. Of the kind ``sessions`` without a window,
    `operator` says whether the first or the last session is meant.

    `speakers` are those whose words are asked for ("What did *you* recommend?"): nobody in particular if empty, and where
    it is None, the one participant among `entities`, if it is one. `asker` is the participant who asks ("I"), where the
    memory knows one: a scope to look in, whom the evidence need not name.

    What follows is for indexes that look deeper; a planner may leave out all of it.

    - `operator`: the time operator to try on the timelines of the entities. Where it is None, `kind` and `anchor` count;
      where `kind` is another, as ``simple``, a timeline has to fit well.
    - `dates`: the stretches of the question that name the window or `as_of`, as they stand in it; they are no part of
      `topic` and `keywords`. `open_year`: all of them name days without
      their year. Where the caller gave no reference date, the window is then moved to the last such days of the memory.
    - `core`: the question without the words for its time ("before *moving to Miami*", "now", a date), for a reader who is to
      say what answers before it is asked when that was; None where the question has no such words.
    - `owners`: those of the entities whose thing is asked about ("*Ana*'s gym"). `mentions`: every name in the
      question, also one in its anchor; names in it that the catalogue lacks may be among them.
    - `topic`: words for what is asked about, without names, dates and words of change; None where nothing says.
      `gap`: the
      prepositions behind which the thing asked for would stand ("What does she work *on*").
    - `complexity`, `keywords` (lower case, without names) and `sub_queries`: None or empty where nothing says.

    Raises:
        InputError: if kind or complexity is unknown, two sub-queries share an id, or one depends on itself, directly or by
            others, or on one that is not there.
    """

    kind: QuestionKind = "simple"
    entities: tuple[str, ...] = ()
    attribute: str | None = None
    anchor: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    as_of: datetime | None = None
    speakers: tuple[str, ...] | None = None
    asker: str | None = None
    operator: TimeOperator | None = None
    dates: tuple[str, ...] = ()
    open_year: bool = False
    core: str | None = None
    owners: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    topic: tuple[str, ...] | None = None
    gap: tuple[str, ...] = ()
    complexity: Complexity | None = None
    keywords: tuple[str, ...] = ()
    sub_queries: tuple[SubQuery, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("a plan has the kind", self.kind, QuestionKind)
        _check_choice("a plan has the complexity", self.complexity, Complexity)
        _check_sub_queries(self.sub_queries)

    @property
    def kind_operator(self) -> TimeOperator | None:
        """The time operator that `kind` names, with `anchor` where it is relative to something; None if it names none."""
        if self.kind not in get_args(OperatorKind):
            return None
        relative = self.kind in ("predecessor", "successor", "since", "changed_back")
        return TimeOperator(cast("OperatorKind", self.kind), (self.anchor or "") if relative else "")


def _check_choice(what: str, value: Any, choices: Any) -> None:
    if value is not None and value not in get_args(choices):
        raise InputError(f"{what} {value!r}; known: {', '.join(get_args(choices))}")


def _check_sub_queries(sub_queries: tuple[SubQuery, ...]) -> None:
    """Refuse sub-queries that cannot be answered one after the other."""
    needs: dict[str, tuple[str, ...]] = {}
    for one in sub_queries:
        if one.id in needs:
            raise InputError(f"two sub-queries have the id {one.id!r}; give each its own")
        needs[one.id] = one.depends_on
    for id, other in ((id, one) for id, others in needs.items() for one in others if one not in needs):
        raise InputError(f"sub-query {id!r} depends on {other!r}, and no sub-query has that id")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as exc:
        circle = " -> ".join(reversed(exc.args[1]))
        raise InputError(f"sub-queries depend on each other in a circle: {circle}; break it") from None
