"""What the verbs of a memory return: typed, frozen, ready to print or to serialise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from memforest.search.budget import fit, render
from memforest.types import QuestionPlan, Refused, StepUsage

__all__ = [
    "AskResult",
    "ChunkReport",
    "Evidence",
    "FactPage",
    "FactView",
    "IngestResult",
    "Problem",
    "QueryResult",
    "RepairReport",
    "SessionView",
    "Source",
    "Stats",
    "TimelineEntry",
    "TreeView",
    "Usage",
    "VerifyReport",
]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost. `ms` is wall time per step; `embeds` counts texts the model really ran, by kind.

    `steps` has what each step spent on models behind an endpoint; the counts beside it are their sums, those of
    embeddings included. `most_in_flight` is the most requests to a chat model that were under way at once.
    """

    embeds: Mapping[str, int] = field(default_factory=dict)
    ms: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, StepUsage] = field(default_factory=dict)
    most_in_flight: int = 0

    @property
    def model_calls(self) -> int:
        """Requests that were begun."""
        return sum(used.calls for used in self.steps.values())

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the requests."""
        return sum(used.prompt_tokens for used in self.steps.values())

    @property
    def completion_tokens(self) -> int:
        """Tokens of the replies."""
        return sum(used.completion_tokens for used in self.steps.values())

    @property
    def cached_tokens(self) -> int:
        """Tokens of the requests that the server had kept."""
        return sum(used.cached_tokens for used in self.steps.values())

    @property
    def failures(self) -> int:
        """Requests without a usable reply."""
        return sum(used.failures for used in self.steps.values())

    def plus(self, other: Usage) -> Usage:
        """Return the cost of both calls together."""
        return Usage(
            {k: self.embeds.get(k, 0) + other.embeds.get(k, 0) for k in {**self.embeds, **other.embeds}},
            {k: self.ms.get(k, 0.0) + other.ms.get(k, 0.0) for k in {**self.ms, **other.ms}},
            {
                k: self.steps.get(k, StepUsage()).plus(other.steps.get(k, StepUsage()))
                for k in {**self.steps, **other.steps}
            },
            max(self.most_in_flight, other.most_in_flight),
        )


@dataclass(frozen=True, slots=True)
class Source:
    """The turns of one session that support a text."""

    session_id: str
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One ranked piece of evidence.

    `kind` is ``"fact"`` when an extracted statement speaks for the turn, else ``"turn"``. `text` is the
    statement or the turn, `quote` the turn as it was said. `start` and `end` are the valid time [start,
    end), aware UTC; `end` is None while it holds. `scores` are the weighted parts of `score`. `path` leads
    from a root down to the leaf. `why` tells when time order put it first.
    """

    text: str
    quote: str
    speaker: str
    kind: Literal["fact", "turn"]
    score: float
    scores: Mapping[str, float]
    said: datetime
    start: datetime
    end: datetime | None
    sources: tuple[Source, ...]
    path: tuple[str, ...] = ()
    fact_id: str | None = None
    why: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to `query`: ranked evidence, best first.

    `top_facts` are the best facts of the whole ranking, before the cut to `top_k`.
    """

    question: str
    evidence: tuple[Evidence, ...]
    top_facts: tuple[Evidence, ...]
    plan: QuestionPlan
    reference_date: datetime
    index: str
    usage: Usage
    trace: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def question_type(self) -> str:
        """The kind of question, as planned."""
        return self.plan.kind

    def context(self, max_tokens: int = 2000) -> str:
        """Render dated, quoted evidence for a prompt, one numbered line a piece, as much as fits into `max_tokens`.

        Tokens are estimated (`memforest.tokens.count_tokens`), as the model is not known here. The text is data,
        and a prompt should treat it so: nothing in it can end its line or its quotation marks.
        """
        lines = [
            render(n, one.said, one.speaker, one.text, one.quote) for n, one in enumerate(self.evidence, 1)
        ]
        return "\n".join(fit(lines, max_tokens))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values (datetimes stay datetimes)."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AskResult:
    """An answer with what it cites. `answer` is None when the memory abstains; `reason` says why.

    `usage` is what the query and the answer cost together. ``result.trace["answerer"]`` names who answered.
    """

    question: str
    answer: str | None
    citations: tuple[Evidence, ...]
    reason: str
    result: QueryResult
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """What became of one chunk: the turn ids it spans, and its outcome."""

    turn_ids: tuple[str, ...]
    status: Literal["extracted", "verbatim", "failed", "left"]
    """``"left"``: not tried, as the budget was used up."""
    skipped: tuple[tuple[str, str], ...] = ()
    """(turn id, reason) of every piece that became no statement."""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of a session. `unchanged`: nothing of it was new. `refused`: all of its turns that are not stored."""

    session_id: str
    turns_added: int
    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    chunks: tuple[ChunkReport, ...] = ()
    refused: tuple[Refused, ...] = ()
    replaced: bool = False
    trees_updated: int = 0
    nodes_written: int = 0
    nodes_refreshed: int = 0
    nodes_dirty: int = 0
    """Nodes whose summary could not be refreshed; `resume` tries again."""
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Whether the session was stored already, as it came."""
        return self.turns_added == 0 and not self.replaced

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(turn id, reason) of every piece that became no statement."""
        return tuple(pair for chunk in self.chunks for pair in chunk.skipped)

    @property
    def failed(self) -> tuple[ChunkReport, ...]:
        """The chunks whose extraction failed; their turns are stored, and `resume` tries again."""
        return tuple(chunk for chunk in self.chunks if chunk.status == "failed")

    @property
    def left(self) -> tuple[ChunkReport, ...]:
        """The chunks that the budget did not reach; their turns are stored, and `resume` goes on with them."""
        return tuple(chunk for chunk in self.chunks if chunk.status == "left")

    @property
    def cells_extracted(self) -> int:
        """Number of chunks read without a failure."""
        return sum(chunk.status == "extracted" for chunk in self.chunks)

    @property
    def facts_inserted(self) -> int:
        """Number of new facts."""
        return len(self.added)

    @property
    def facts_merged(self) -> int:
        """Number of facts that gained an occurrence."""
        return len(self.merged)


@dataclass(frozen=True, slots=True)
class FactView:
    """A stored fact. `superseded_by` is the value that took its place, when it asserts a state that ended."""

    fact_id: str
    text: str
    speaker: str
    said: datetime
    start: datetime
    end: datetime | None
    precision: str
    negated: bool
    entities: tuple[str, ...]
    topics: tuple[str, ...]
    sources: tuple[Source, ...]
    wordings: tuple[str, ...]
    stored: datetime
    superseded_by: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FactPage:
    """One page of `list`: `total` matching facts, and the offset of the next page or None."""

    facts: tuple[FactView, ...]
    total: int
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class SessionView:
    """A stored session."""

    session_id: str
    status: str
    turns: int
    start: datetime
    end: datetime
    participants: tuple[str, ...]
    failed_chunks: int
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of an entity's timeline.

    A ``"state"`` is a value of `attribute` that held from `start` to `end` (None: open); an ``"event"`` is
    a statement that names the entity, at its own time.
    """

    kind: Literal["state", "event"]
    text: str
    start: datetime | None
    end: datetime | None
    attribute: str | None = None
    value: str | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeView:
    """A node as `memforest tree` draws it: `title` names the scope (roots only), `leaves` counts below it.

    `summary` of a leaf is its item's text; `quotes` are the words that a fact was taken from, and `sources`
    the turns they are in. `dirty` means that the summary waits for a refresh. A node with leaves below it
    and no `children` was not unfolded.
    """

    title: str
    start: datetime
    end: datetime
    level: int
    leaves: int
    summary: str
    dirty: bool
    children: tuple[TreeView, ...] = ()
    quotes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a memory. `trees` and `entities` count by kind; `bytes` is the file with its log.

    `scenes` counts the scenes, the facts in one, in a second one and outside of all, and the largest's members;
    `notes` says what the memory does not have, and why.
    """

    user_id: str
    sessions: int
    turns: int
    facts: int
    occurrences: int
    entities: Mapping[str, int]
    trees: Mapping[str, int]
    nodes: int
    dirty_nodes: int
    failed_chunks: int
    vectors: Mapping[str, int]
    embedder: str | None
    schema: tuple[str, ...]
    generation: int
    bytes: int
    unfinished: int = 0
    """Sessions that were received and not read; `resume` goes on with them."""
    makers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What has made the statements of chunks, and summaries: name, version and model -> how many."""
    spent: Mapping[str, Mapping[str, StepUsage]] = field(default_factory=dict)
    """Operation (``"ingest"``, ``"query"``, …) -> step -> what it has spent on models over the memory's life."""
    scenes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that `verify` found wrong."""

    part: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`: `ok` when there are no problems; `checked` says what was looked at.

    `notes` says what there was not to look at, and why.
    """

    problems: tuple[Problem, ...]
    checked: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of `repair`: what was done, in words, and the problems that it left alone."""

    did: tuple[str, ...]
    left: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong any more."""
        return not self.left


def turn_sources(pairs: Sequence[tuple[str, str]]) -> tuple[Source, ...]:
    """Group (session id, turn id) pairs by session, in order of first appearance."""
    found: dict[str, list[str]] = {}
    for session_id, turn_id in pairs:
        if turn_id not in found.setdefault(session_id, []):
            found[session_id].append(turn_id)
    return tuple(Source(session_id, tuple(ids)) for session_id, ids in found.items())
