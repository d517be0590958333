"""The values that pass between the rooms: frozen, slotted, without behaviour that needs I/O.

Times are aware UTC datetimes. Intervals are half-open ``[start, end)``; an ``end`` of ``None`` is open.
Scores are higher-is-better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from memforest.limits import STORED_ROLES
from memforest.plans import (
    Complexity,
    OperatorKind,
    QuestionKind,
    QuestionPlan,
    SubQuery,
    SubQueryScope,
    TimeOperator,
)

__all__ = [
    "TURN_ROLES",
    "UNSPOKEN_ROLES",
    "BrowsePlan",
    "Candidate",
    "Chunk",
    "ChunkOutcome",
    "Complexity",
    "EntityKind",
    "Equivalence",
    "Mention",
    "OperatorKind",
    "Precision",
    "QuestionKind",
    "QuestionPlan",
    "Refused",
    "Relation",
    "ResolvedDate",
    "Skipped",
    "Spoken",
    "State",
    "StepUsage",
    "SubQuery",
    "SubQueryScope",
    "SummaryRequest",
    "TimeOperator",
    "TimeSource",
    "TreeCard",
    "Turn",
]

EMPTY: Mapping[str, Any] = MappingProxyType({})

TimeSource = Literal["given", "naive", "session", "clock"]
"""Where a turn's time came from: an aware timestamp, a naive one read in the configured zone, the
session's ``timestamp=``, or the injected clock."""

EntityKind = Literal[
    "participant",
    "person",
    "place",
    "organisation",
    "event",
    "product",
    "work",
    "date",
    "time",
    "thing",
    "unknown",
]
"""What an entity is. A participant is a person who speaks; a ``"thing"`` is none of the others, and of an ``"unknown"`` nobody
said (H-Mem, arXiv 2605.15701 §3.2, has one kind, other, for both)."""

TURN_ROLES = ("", *STORED_ROLES)
"""The roles that a turn may have; the first is none."""
UNSPOKEN_ROLES = frozenset(TURN_ROLES[3:])
"""Roles of turns that are nobody's words: instructions to a model, and what tools return."""

Precision = Literal["instant", "day", "week", "month", "season", "year", "decade", "unknown"]
"""How exactly a statement's own time is known; ``unknown`` means it states none."""


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
class Spoken:
    """Words as `speaker` said them: a whole turn, or those sentences of it that a statement was made from.

    "…" marks what is left out between them, and within a sentence.
    """

    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A dialogue cell: `b` consecutive turns of one session, the unit of extraction (paper §4.1).

    `before` holds the turns just before the chunk, to be read (who asked what) but not extracted from.
    `participants` are the display names of everybody who speaks in the session. `day_first` says how the memory's
    people write ``03/05/2024``; None is not known.
    """

    session_id: str
    ordinal: int
    turns: tuple[Turn, ...]
    before: tuple[Turn, ...] = ()
    participants: tuple[str, ...] = ()
    day_first: bool | None = None


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
class Candidate:
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
    `maker` is what has read the chunk where the extractor failed; None is the extractor itself.
    """

    candidates: tuple[Candidate, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    failure: str | None = None
    left: bool = False
    maker: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What one node's summary is to be made of, and how; all of it is in the digest that the summary is known by.

    `inputs` are its children's texts in time order, of a leaf that has a summary of its own what was said. `kind` is the tree kind (``session``, ``entity``, ``scene``), `label`
    names the scope, `start` and `end` are the node's interval, `max_words` bounds the result. `level` counts from the
    leaves, 0 for one itself, 1 for a node right above them; `root` is true for the node that stands for the whole tree.

    An index whose levels are more than a summary of what is below them says so: `instruction` is what a record of this
    level holds, `history` the earlier records of it in time order, which need not be told again, `window` the key of the
    calendar window that the node stands for (`start` and `end` are then the window's), and `participants` who takes part.

    Of a stretch of conversation (kind ``"conversation"``) the `history` is what its record says so far, and the inputs are
    what comes to it: the summary tells both.

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
