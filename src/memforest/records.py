"""The values that pass between rooms: turns, facts, entities, plans of questions.

The values that pass between the rooms: frozen, slotted, without behaviour that needs I/O.

Times are aware UTC datetimes. Intervals are half-open ``[start, end)``; an ``end`` of ``None`` is open.
Scores are higher-is-better.


How a question wants to be answered, as a planner reads it: the plan, its time operator and sub-queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from memforest.errors import InputError
from memforest.settings import STORED_ROLES

OperatorKind = Literal[
    "current", "as_of", "predecessor", "successor", "first", "last", "since", "changed_back"
]
"""What a question wants of a timeline: the entry at a time, beside another one, at an end, or one that came back."""

QuestionKind = Literal["simple", OperatorKind, "when", "list", "sessions", "events"]
"""The time operator of a question. It may also ask for a time, a list, all turns of a time or of the first or last
session (``sessions``), or all that happened at a time (``events``). ``simple`` is every other question."""

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
    UTC; an end of None is open.

    Raises:
        InputError: if the id or the text is empty, the scope unknown, or the interval no two aware times in order.
    """

    id: str
    text: str
    depends_on: tuple[str, ...] = ()
    scope: SubQueryScope | None = None
    interval: tuple[datetime, datetime | None] | None = None

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

    `speakers` are the people whose words are asked for ("What did *you* recommend?"). Empty means nobody in
    particular. None means the one participant among `entities`, if there is just one. `asker` is the participant who
    asks ("I"), where the
    memory knows one: a scope to look in, whom the evidence need not name.

    What follows is for indexes that look deeper; a planner may leave out all of it.

    - `operator`: the time operator to try on the timelines of the entities. Where it is None, `kind` and `anchor` count;
      where `kind` is another, as ``simple``, a timeline has to fit well.
    - `dates`: the stretches of the question that name the window or `as_of`, as they stand in it; they are no part of
      `topic` and `keywords`. `open_year`: all of them name days without
      their year. Where the caller gave no reference date, the window is then moved to the last such days of the memory.
    - `core`: the question without its time words ("before *moving to Miami*", "now", a date). A reader first looks for
      what answers this, and then for its time. None if the question has no such words.
    - `owners`: those of the entities whose thing is asked about ("*Ana*'s gym"). `mentions`: every name in the
      question, also one in its anchor; names in it that the catalogue lacks may be among them.
    - `topic`: words for what is asked about, without names, dates and words of change; None where nothing says.
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
    complexity: Complexity | None = None
    keywords: tuple[str, ...] = ()
    sub_queries: tuple[SubQuery, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("a plan has the kind", self.kind, QuestionKind)
        _check_choice("a plan has the complexity", self.complexity, Complexity)
        needs: dict[str, tuple[str, ...]] = {}
        for one in self.sub_queries:
            if one.id in needs:
                raise InputError(f"two sub-queries have the id {one.id!r}; give each its own")
            needs[one.id] = one.depends_on
        for id, other in ((id, one) for id, others in needs.items() for one in others if one not in needs):
            raise InputError(f"sub-query {id!r} depends on {other!r}, and no sub-query has that id")
        try:
            TopologicalSorter(needs).prepare()  # they are answered one after the other
        except CycleError as exc:
            circle = " -> ".join(reversed(exc.args[1]))
            raise InputError(f"sub-queries depend on each other in a circle: {circle}; break it") from None

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


EMPTY: Mapping[str, Any] = MappingProxyType({})

TimeSource = Literal["given", "naive", "session", "clock"]
"""Where a turn's time came from: an aware timestamp, a naive one read in the configured zone, the
session's ``timestamp=``, or the injected clock."""

EntityKind = Literal[
    "participant",
    "place",
    "organisation",
    "person",
    "event",
    "work",
    "product",
    "date",
    "time",
    "thing",
    "unknown",
]
"""What an entity is, the surest first (who speaks is known, places and firms stand behind telling words). A participant is a person who speaks; a ``"thing"`` is none of the others, and of an ``"unknown"`` nobody
said (H-Mem, arXiv 2605.15701 §3.2, has one kind, other, for both)."""

TURN_ROLES = ("", *STORED_ROLES)
"""The roles that a turn may have; the first is none."""
UNSPOKEN_ROLES = frozenset(TURN_ROLES[3:])
"""Roles of turns that are nobody's words: instructions to a model, and what tools return."""

Precision = Literal["instant", "day", "week", "month", "season", "year", "decade", "unknown"]
"""How exactly a statement's own time is known; ``unknown`` means it states none."""
UNIT_DAYS: Mapping[str, int] = {"day": 1, "week": 7, "month": 31, "season": 92, "year": 366}
"""Most days of one unit of a precision."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance of one speaker.

    `text` includes an image caption when there is one (as searchable text). `ordinal` is the position
    in the session, from 0. `said` is aware UTC, to the millisecond.
    """

    id: str
    speaker: str
    text: str
    said: datetime
    ordinal: int
    role: str | None = None
    time_source: TimeSource = "given"
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Refused:
    """A turn that was not stored, because its text is missing or cannot be text; `reason` says which and what to do.

    `position` is its place in the call, from 0, and `turn_id` the id that it has or would have.
    """

    position: int
    turn_id: str
    reason: str

    def __str__(self) -> str:
        return f"turn {self.position} {self.reason}"


@dataclass(frozen=True, slots=True)
class SpokenText:
    """Words as `speaker` said them: a whole turn, or those sentences of it that a statement was made from.

    "…" marks what is left out between them, and within a sentence.
    """

    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A dialogue chunk: `b` consecutive turns of one session, the unit of extraction (paper §4.1).

    `before` holds the turns just before the chunk, to be read (who asked what) but not extracted from.
    `participants` are the display names of everybody who speaks in the session. `day_first` says how the memory's
    people write ``03/05/2024``; None is not known. `reply` is the `ChunkOutcome.reply` that the same extractor has given for
    just this before, so that no model need be asked again; None where there is none.
    """

    session_id: str
    ordinal: int
    turns: tuple[Turn, ...]
    before: tuple[Turn, ...] = ()
    participants: tuple[str, ...] = ()
    day_first: bool | None = None
    reply: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity named in a statement. `role` is its part in the statement's main clause."""

    name: str
    kind: EntityKind = "unknown"
    role: Literal["subject", "object", "other"] = "other"


@dataclass(frozen=True, slots=True)
class State:
    """One attribute of one entity that a statement asserts, e.g. Bob / residence / Miami.

    `previous` is the value a transition names ("moved from Davis to Miami": Davis). `change` is
    ``"is"`` for a plain assertion, ``"start"`` for a transition into `value` and ``"end"`` when the
    statement says that `value` ceased to hold.
    """

    entity: str
    attribute: str
    value: str
    previous: str | None = None
    change: Literal["is", "start", "end"] = "is"


@dataclass(frozen=True, slots=True)
class Relation:
    """What a statement says of two entities that it names, e.g. Ana / visited / Porto.

    `source` and `target` are names as in `Mention`; `label` is what joins them, a few words in the language of the statement.
    A state whose value is an entity ("Ana / employer / Orrin") is a relation too, and is not given again.
    """

    source: str
    label: str
    target: str


@dataclass(frozen=True, slots=True)
class ResolvedDate:
    """Days that words of a statement mean: ``[start, end)``, aware UTC; `end` is None for what began then and goes on.

    `words` are as they were said ("last week"), without a preposition.
    """

    words: str
    start: datetime
    end: datetime | None
    precision: Precision


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A statement extracted from a chunk, before it becomes (part of) a canonical fact.

    `text` is self-contained: attributed, pronouns resolved; `dates` are what its words of time mean. `turns` are the
    ordinals of the turns that support it, and only those. `start`/`end` are the stated valid time
    [start, end), both ``None`` when the statement states none. `quote` is the supporting raw text; what does not stand
    together in the turn is on lines of its own.
    `negated` is true when the main clause is negated.
    """

    text: str
    turns: tuple[int, ...]
    speaker: str
    quote: str
    start: datetime | None = None
    end: datetime | None = None
    precision: Precision = "unknown"
    dates: tuple[ResolvedDate, ...] = ()
    negated: bool = False
    mentions: tuple[Mention, ...] = ()
    topics: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A piece of a turn that became no statement, and why ("question", "pleasantry", …)."""

    turn: int
    text: str
    reason: str
    statement: bool = False
    """Whether `text` is a statement that a model made, and not a piece of the turn."""


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What became of one chunk; `failure` is the reason when the step failed as a whole.

    With `left`, nothing was tried, because the budget was used up: the chunk stays open, and `failure` says why.
    `maker` is what has read the chunk where the extractor failed; None is the extractor itself. `reply` is what a model has
    answered, to be kept for `Chunk.reply`; None keeps nothing.
    """

    candidates: tuple[ExtractedFact, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    failure: str | None = None
    left: bool = False
    maker: str | None = field(default=None, repr=False)
    reply: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What one node's summary is to be made of, and how; all of it is in the digest that the summary is known by.

    `inputs` are its children's texts in time order, of a leaf that has a summary of its own what was said. `kind` is the tree kind (``session``, ``entity``, ``scene``), `label`
    names the scope, `start` and `end` are the node's interval, `max_words` bounds the result. `level` counts from the
    leaves, 0 for one itself, 1 for a node right above them; `root` is true for the node that stands for the whole tree.

    Some fields are for indexes whose levels are more than summaries. `instruction` is what a record of this level
    holds. `history` has its earlier records in time order, which need not be repeated. `window` is the key of the
    node's calendar window; `start` and `end` are then the window's. `participants` are the people who take part.

    `prompt` names the prompt of a level that has one of its own: ``"segment"``, ``"session"``, ``"day"``, ``"week"`` or
    ``"profile"``; ``"memory"`` is that of what is consolidated because it is alike. `statements` are what the memory holds of what the inputs tell, for who writes without a model: of a segment
    the statements that its turns support, of a profile its lines.

    `summarise` is the caller's policy: ``"kept"`` lets children's texts stand as they are while they are short, ``"every"``
    has every node summarised.
    """

    kind: str
    label: str
    start: datetime
    end: datetime
    inputs: tuple[str, ...]
    max_words: int = 60
    level: int = 1
    root: bool = False
    history: tuple[str, ...] = ()
    instruction: str = ""
    window: str = ""
    participants: tuple[str, ...] = ()
    summarise: Literal["kept", "every"] = "kept"
    prompt: str = ""
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Equivalence:
    """A question to a judge: which of the known statements, if any, says the same as the new one?"""

    statement: str
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeCard:
    """A recalled tree as a planner sees it: its kind, what it is about, its interval, leaves and root summary."""

    kind: str
    label: str
    start: datetime
    end: datetime
    leaves: int
    summary: str


@dataclass(frozen=True, slots=True)
class BrowsePlan:
    """How recalled trees are to be browsed for a question.

    `queries` has one entry per tree, in order: what to look for in it, several for questions that compare or
    order two things. `kind` and `anchor` are the question's type and the event that it is relative to, where
    the planner is sure of them; see `QuestionPlan`.
    """

    queries: tuple[tuple[str, ...], ...]
    kind: str | None = None
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class StepUsage:
    """What one step spent on models.

    `calls` counts requests that were begun, `failures` those without a usable reply and `retries` what was sent
    again on the way. `cached_tokens` are prompt tokens that the server had kept, `prefix_tokens` (estimated)
    those that are the same in every request of the step, so that it could. `seconds` is the sum over calls, which
    overlap.
    """

    calls: int = 0
    failures: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    prefix_tokens: int = 0
    seconds: float = 0.0

    def plus(self, other: StepUsage) -> StepUsage:
        """Return both together."""
        return StepUsage(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def minus(self, other: StepUsage) -> StepUsage:
        """Return what is left when a part is taken off."""
        return StepUsage(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))
