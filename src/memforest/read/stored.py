"""The values that views of a memory return, and what correcting, `verify` and `repair` return.

Pages are sequences of what is listed, with the cursor of the next page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, overload

from memforest.plain import Result, Several, T_co
from memforest.records import ResolvedDate, SpokenText, StepUsage, TimeSource
from memforest.store.corrections import Correction
from memforest.store.directory import Unreadable
from memforest.text import cut
from memforest.times import from_ms, html_table


@dataclass(frozen=True, slots=True, repr=False)
class Source(Result):
    """The turns of one session that support a text."""

    session_id: str
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class TurnView(Result):
    """A turn as it was said, `text` to the letter.

    `time_source` says where `said` came from (`memforest.records.TimeSource`), `stored` when this memory received it. A
    `damaged` turn is not what was stored (`verify` names it too).
    """

    id: str
    speaker: str
    role: str | None
    text: str
    said: datetime
    time_source: TimeSource
    stored: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    damaged: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class FactView(Result):
    """A stored fact. `superseded_by` is the value that took its place, when it asserts a state that ended.

    `text` is for people: the words in which the fact was first said, or a chat model's statement. `spoken` has the
    words with their speakers, and is empty for a model's statement. `statement` is the text that it is found by, and
    `wordings` are all of those. `dates` are what its words of time mean: "last week" as the days of that week. See `Evidence`.

    `verdict` is what a person has decided of it: ``"pinned"``; ``"forgotten"`` or ``"corrected"``, which is not shown as true
    any more; ``""`` for nothing. `corrected` is when a person put it in the place of what was said there first.
    """

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
    dates: tuple[ResolvedDate, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    statement: str = ""
    spoken: tuple[SpokenText, ...] = ()
    verdict: str = ""
    corrected: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class FactPage(Several[FactView]):
    """One page of `list`: `total` matching facts, and cursor and offset of the next page, or None.

    Iterating gives the facts of the page, and a page without any is false.
    """

    _of = "facts"
    facts: tuple[FactView, ...]
    total: int
    next_offset: int | None
    warnings: tuple[str, ...] = ()
    next_cursor: str | None = None

    def _line(self) -> str:
        return f"{len(self)} of {self.total} facts, next_offset={self.next_offset}"

    def _repr_html_(self) -> str:
        columns = ("since", "speaker", "what was said")
        rows = ((f"{one.start:%Y-%m-%d}", one.speaker, one.text) for one in self.facts)
        return html_table(columns, rows)


@dataclass(frozen=True, slots=True, repr=False)
class SessionView(Result):
    """A stored session. `origin` is the user whose memory it was merged from, None for one of this memory's own."""

    session_id: str
    status: str
    turns: int
    start: datetime
    end: datetime
    participants: tuple[str, ...]
    failed_chunks: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Ending(Result):
    """The fact that ended a state: that of the next value, which is `value` then, or one that says that it ended."""

    fact_id: str
    text: str
    value: str | None
    sources: tuple[Source, ...]
    spoken: tuple[SpokenText, ...]


@dataclass(frozen=True, slots=True, repr=False)
class TimelineEntry(Result):
    """One line of an entity's timeline.

    A ``"state"`` is a value of `attribute` that held from `start` to `end` (None: open); an ``"event"`` is
    a fact that names the entity, at its own time. `text`, `statement` and `spoken` are those of the fact (of a state, the
    first that asserts it), as in `FactView`.

    `fact_ids` are the facts that it stands on, oldest first; `ended_by` is what ended a state. Values of an attribute that
    hold side by side (brothers, hobbies) end only where somebody says so.
    """

    kind: Literal["state", "event"]
    text: str
    start: datetime | None
    end: datetime | None
    attribute: str | None = None
    value: str | None = None
    sources: tuple[Source, ...] = ()
    statement: str = ""
    spoken: tuple[SpokenText, ...] = ()
    fact_ids: tuple[str, ...] = ()
    ended_by: Ending | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TreeView(Result):
    """A node as `memforest tree` draws it: `title` names the scope and `index` whose tree it is (roots only).

    Where trees of several indexes are shown, the title names the index too. If an index names the nodes in its trees,
    as ``"month 2024-05"``, `title` is that name. `window` is the calendar key of a node for a calendar window.
    `leaves` counts those below the node.

    The `summary` of a leaf is its text: for a fact as in `FactView`, for an exchange a line "speaker: text" for each
    turn, unless it has its own summary. `quotes` are the words that a fact was taken from, and `sources` their turns,
    or those of an exchange. `dirty` means that the summary waits for a refresh, in an index that keeps to the calendar
    for `advance`: one that is
    not written yet has none there. A node with leaves below it and no `children` was not unfolded.

    `span` is which leaves of the tree are below the node, or which one it is, as half-open ordinals from 1: (1, 4) for the
    first three. It is None in trees that are no partition of what was said, and of a tree that is one leaf.

    `node_id` is the node's number, which it keeps until the trees are made anew; `maker` is what made its summary, empty
    where it has none.
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
    index: str = ""
    span: tuple[int, int] | None = None
    window: str | None = None
    node_id: int | None = None
    maker: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class IndexView(Result):
    """An index of a memory.

    `settings` are those in use. `trees`, `nodes` (inner ones) and `leaves` are what its forest has, and `counts` is what it
    says of itself.
    """

    name: str
    settings: Mapping[str, Any]
    trees: int
    nodes: int
    leaves: int
    counts: Mapping[str, Any] = field(default_factory=dict)

    def _line(self) -> str:
        return f"{self.name}: {self.trees} trees, {self.leaves} leaves"


@dataclass(frozen=True, slots=True, repr=False)
class Stats(Result):
    """Counts of a memory. `entities` counts by kind, `trees` by index and kind; `bytes` is the file with its log.

    `indexes` has for each index its trees and what it says of itself;
    `notes` says what the memory does not have, and why.
    """

    user_id: str
    sessions: int
    turns: int
    facts: int
    occurrences: int
    entities: Mapping[str, int]
    trees: Mapping[str, Mapping[str, int]]
    nodes: int
    dirty_nodes: int
    failed_chunks: int
    vectors: Mapping[str, int]
    embedder: str | None
    schema: int
    generation: int
    bytes: int
    unfinished: int = 0
    """Sessions that were received and not read; `resume` goes on with them."""
    makers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What has made the statements of chunks, and summaries: name, version and model -> how many."""
    spent: Mapping[str, Mapping[str, StepUsage]] = field(default_factory=dict)
    """Operation (``"ingest"``, ``"query"``, …) -> step -> what it has spent on models over the memory's life."""
    indexes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    timezone: str | None = None
    """The zone in which the memory's days begin; None before the first write."""
    known: float = 1.0
    """Mean share of its first 500 turns that the configured embedder has words for; 1 without one, or where it cannot say."""
    stale: tuple[str, ...] = ()
    """What would be made otherwise now and why, as far as counting finds it; `notes` have it, too."""


@dataclass(frozen=True, slots=True, repr=False)
class Stale(Result):
    """What of a memory would be made otherwise now, and `rebuild(stale=True)` makes anew; true when there is something."""

    chunks: Mapping[str, int]
    """Why chunks would be made otherwise -> how many."""
    sessions: int
    """Sessions with such chunks, which are read again."""
    summaries: int
    """Summaries that have another request, prompt, model or version than they would have now."""
    indexes: Mapping[str, str]
    """Index -> which of its settings or thresholds are others than it was made with."""
    texts: int = 0
    """Texts that lack a vector by the configured embedder, where that is another one than the memory's; only
    ``rebuild(embedder=True)`` makes them."""
    next_embedder: str | None = None
    """An embedder that the memory is being given; ``rebuild(embedder=True)`` goes on with that."""

    def __bool__(self) -> bool:
        return bool(self.sessions or self.summaries or self.indexes)

    def _line(self) -> str:
        return f"{self.sessions} sessions, {self.summaries} summaries, {len(self.indexes)} indexes"


def turn_sources(pairs: Sequence[tuple[str, str]]) -> tuple[Source, ...]:
    """Group (session id, turn id) pairs by session, in order of first appearance."""
    found: dict[str, list[str]] = {}
    for session_id, turn_id in pairs:
        if turn_id not in found.setdefault(session_id, []):
            found[session_id].append(turn_id)
    return tuple(Source(session_id, tuple(ids)) for session_id, ids in found.items())


class _Page(Several[T_co], Sequence[T_co]):
    """A result that is a sequence of what is on it, and equal to a list or tuple of the same."""

    __slots__ = ()
    next_cursor: str | None

    @overload
    def __getitem__(self, at: int) -> T_co: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T_co]: ...
    def __getitem__(self, at: int | slice) -> T_co | Sequence[T_co]:
        return self._items()[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Page):
            return (
                type(self) is type(other)
                and self._items() == other._items()
                and self.next_cursor == other.next_cursor
            )
        return list(self._items()) == list(other) if isinstance(other, (list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._items()))

    def _line(self) -> str:
        more = "" if self.next_cursor is None else ", and more"
        return f"{len(self)}{more}"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SessionPage(_Page[SessionView]):
    """Stored sessions in time order, of `total`; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them.
    """

    _of = "sessions"
    sessions: tuple[SessionView, ...]
    total: int
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TurnPage(_Page[TurnView]):
    """Turns of a session in order, of `total`; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them.
    """

    _of = "turns"
    turns: tuple[TurnView, ...]
    total: int
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TimelinePage(_Page[TimelineEntry]):
    """Entries of an entity's timeline, of `total`; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them. `attributes` are all of which the entity has states, whatever is on the page.
    """

    _of = "entries"
    entries: tuple[TimelineEntry, ...]
    total: int
    next_cursor: str | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UserPage(_Page[str]):
    """Ids of users, by the names of their files; `next_cursor` is that of the next page, None on the last one.

    It is a sequence of them. `unreadable` are the files of this page whose user could not be read.
    """

    _of = "users"
    users: tuple[str, ...]
    next_cursor: str | None = None
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class CorrectionView(Result):
    """What was decided of a statement: an ``"update"``, a ``"pin"`` or a ``"forget"``; or one that a caller told to ``"remember"``.

    `key` takes it back (`undo`). `fact_id` is the statement that it is about, and `said` how that was worded when the correction
    was `made`; it is `undone` since then, or None. Of an update `new_fact_id` is the statement that holds instead, `text` what
    it says, and `start` and `end` the time that it states, [start, end), if any. These are those of a remembered one too, which
    is about itself where it replaces none.
    """

    key: str
    kind: Literal["update", "pin", "forget", "remember"]
    fact_id: str
    said: str
    made: datetime
    undone: datetime | None = None
    new_fact_id: str | None = None
    text: str | None = None
    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def of(cls, stored: Correction) -> CorrectionView:
        """Return a stored correction as people see it."""
        return cls(
            key=stored.key,
            kind=stored.kind,
            fact_id=stored.fact_id,
            said=stored.said,
            made=from_ms(stored.made_ms),
            undone=None if stored.undone_ms is None else from_ms(stored.undone_ms),
            new_fact_id=stored.made,
            text=stored.text,
            start=None if stored.start_ms is None else from_ms(stored.start_ms),
            end=None if stored.end_ms is None else from_ms(stored.end_ms),
        )

    def _line(self) -> str:
        gone = "" if self.undone is None else ", undone"
        now = "" if self.text is None else f" -> {cut(repr(self.text), 60)}"
        return f"{self.kind} {self.key}{gone}: {cut(repr(self.said), 60)}{now}"


@dataclass(frozen=True, slots=True, repr=False)
class HistoryEntry(Result):
    """One thing that happened to a statement, at the time `at` when this memory recorded it.

    - ``"said"``: it was said, by `speaker` at the time `said`; `quote` are the words, and `sources` the turns.
    - ``"remembered"``: a caller told the memory to remember `text`, as the fact `fact_id`.
    - ``"corrected"``: a person put `text` in the place of `replaced`, and the fact `fact_id` in that of the fact before.
    - ``"pinned"``, ``"forgotten"``: a person decided so of `fact_id`.
    - ``"undone"``: the correction with this `key` was taken back.
    - ``"superseded"``: another value took its place: what `text` says, from `said` on.
    """

    kind: Literal["said", "remembered", "corrected", "pinned", "forgotten", "undone", "superseded"]
    at: datetime
    fact_id: str
    text: str
    key: str | None = None
    replaced: str | None = None
    said: datetime | None = None
    speaker: str = ""
    quote: str = ""
    sources: tuple[Source, ...] = ()

    def _line(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.kind}: {cut(repr(self.text), 80)}"


@dataclass(frozen=True, slots=True, repr=False)
class Problem(Result):
    """One thing that `verify` found wrong."""

    part: str
    message: str
    index: str | None = None
    """The index that it is wrong with; None for the memory itself."""


class _Problems(Several[Problem]):
    """A result that is true when it has no problems."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self._items()

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, and `ok`."""
        return {"ok": self.ok, **Result.to_dict(self)}


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(_Problems):
    """The result of `verify`: `ok` when there are no problems; `checked` says what was looked at.

    `notes` says what there was not to look at, and why. Iterating gives the problems; the report is true when it is ok.
    """

    _of = "problems"
    problems: tuple[Problem, ...]
    checked: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def _line(self) -> str:
        first = f", first {cut(repr(self.problems[0].message), 120)}" if self.problems else ""
        return f"{'ok' if self.ok else f'{len(self)} problems'}{first}"


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(_Problems):
    """The result of `repair`: what was done, in words, and the problems that it left alone.

    Iterating gives those problems; the report is true when there are none.
    """

    _of = "left"
    did: tuple[str, ...]
    left: tuple[Problem, ...]

    def _line(self) -> str:
        return f"{len(self.did)} things done, {len(self.left)} problems left"
