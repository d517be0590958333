"""What the verbs of a memory return: typed, frozen, ready to print or to serialise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone, tzinfo
from typing import Any, Literal

from memforest.calendar import zone_named
from memforest.display import html_paragraph, html_table, ordinals
from memforest.interval import Interval, format_interval, local_time
from memforest.language.dating import show_dates
from memforest.language.quoting import in_full
from memforest.memory.chunks import ChunkReport, RefusedStatement
from memforest.memory.inspect.changed import Change, ChangePage, Diff, DiffEntry
from memforest.memory.inspect.entities import (
    Entity,
    EntityChoice,
    EntityDecision,
    EntityPage,
    GraphEdge,
    GraphNode,
    GraphPicture,
    PathStep,
    PathView,
    RelationView,
)
from memforest.memory.inspect.paged import SessionPage, TimelinePage, TurnPage, UserPage
from memforest.memory.inspect.profiled import (
    DatedQuote,
    Profile,
    ProfileLine,
    ProfileSection,
)
from memforest.memory.inspect.stored import (
    FactPage,
    FactView,
    FailedJobView,
    IndexView,
    JobsView,
    SessionView,
    Source,
    Stats,
    TimelineEntry,
    TreeView,
)
from memforest.memory.plain import Result
from memforest.memory.reports import Problem, RepairReport, VerifyReport
from memforest.memory.spending import Usage
from memforest.memory.written import FlushResult, IngestResult
from memforest.search.budget import day_of, fit, quotation, render, render_quote, render_summary
from memforest.text import cut
from memforest.types import Precision, QuestionPlan, ResolvedDate, Spoken

__all__ = [
    "AskResult",
    "Change",
    "ChangePage",
    "ChunkReport",
    "DatedQuote",
    "Diff",
    "DiffEntry",
    "Entity",
    "EntityChoice",
    "EntityDecision",
    "EntityPage",
    "Evidence",
    "FactPage",
    "FactView",
    "FailedJobView",
    "FlushResult",
    "GraphEdge",
    "GraphNode",
    "GraphPicture",
    "IndexView",
    "IngestResult",
    "JobsView",
    "PathStep",
    "PathView",
    "Problem",
    "Profile",
    "ProfileLine",
    "ProfileSection",
    "QueryResult",
    "RefusedStatement",
    "RelationView",
    "RepairReport",
    "SessionPage",
    "SessionView",
    "Source",
    "Stats",
    "TimelineEntry",
    "TimelinePage",
    "TreeView",
    "TurnPage",
    "Usage",
    "UserPage",
    "VerifyReport",
]


WHOLE_CHARS = 600
"""Longest turn that `QueryResult.context` quotes whole; of a longer one, the sentences that were found."""
_COLUMNS = ("said", "speaker", "what was said", "why", "score")


@dataclass(frozen=True, slots=True, repr=False)
class Evidence(Result):
    """One ranked piece of evidence.

    `kind` is ``"fact"`` when an extracted statement speaks for the turn, ``"memory"`` when it is the summary of an inner
    node, else ``"turn"``. `text` is what a person reads: what was said, a chat model's statement, or the summary. `spoken`
    has what was said with its speakers: a turn, the sentences of it that local rules made a statement from, with those of a
    long turn that answer, or a question and its bare answer; it is empty where a model worded the text. `quote`, `speaker` and `said` are those of the turn that
    was ranked, which may be the question. `statement` is the text that a fact is found by. `start` and `end`
    are the valid time [start, end), aware UTC; `end` is None while it holds. `scores` are the weighted parts of
    `score`. `path` leads from a root down to the leaf or node: of a turn, in the tree of
    the session it was said in, or of the tree where browse reached it, where that counts. `why` tells when time order put it first.

    Nobody said a summary: its `quote` and `speaker` are empty. `start` and `end` are the node's interval, `said` is when
    the last turn beneath it was said, and `sources` are the first 50 of the turns beneath it. `turns` counts them
    all, `level` is the node's, `window` its calendar key (``"2024-W10"``) if it has one, `span` which leaves of its tree are beneath it,
    as half-open ordinals from 1, if the tree is a partition of what was said, and `node_id` its number, which it keeps until the
    trees are made anew; for other evidence these five are None.

    `corrected` is when a person put the statement in the place of what was said: `text` is theirs then, and `quote` what
    was said. `pinned` is whether a person wants it among the evidence of every question; such a one that was not found has no
    `scores`, and the `score` of the last one that was. Of a turn that also says what is hidden, `quote` is no more than what the fact was made from.

    `stated` is the time that a fact itself states, None when it states none, `precision` how exactly, and `dates` are what
    its words of time mean.
    """

    text: str
    quote: str
    speaker: str
    kind: Literal["fact", "turn", "memory"]
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
    dates: tuple[ResolvedDate, ...] = ()
    level: int | None = None
    window: str | None = None
    turns: int | None = None
    node_id: int | None = None
    statement: str = ""
    spoken: tuple[Spoken, ...] = ()
    stated: Interval | None = None
    precision: Precision = "unknown"
    corrected: datetime | None = None
    pinned: bool = False
    span: tuple[int, int] | None = None

    @property
    def read(self) -> str:
        """The words that a step may rest on: the turn's, or of what was corrected the statement that holds."""
        return self.text if self.corrected is not None or not self.quote else self.quote

    @property
    def leaves(self) -> str:
        """Which leaves of its tree are beneath a summary, in words ("leaves 4 to 9"); empty where they have no numbers."""
        return "" if self.span is None else f"leaves {ordinals(self.span)}"

    def line(
        self,
        number: int,
        *,
        zone: tzinfo = timezone.utc,
        statements: bool = False,
        names_quoted: bool = False,
    ) -> str:
        """Return it as a numbered line of `QueryResult.context`.

        Args:
            number: of the line.
            zone: whose days are shown.
            statements: add the statement that local rules made.
            names_quoted: put the names of speakers in quotation marks, whatever they hold.
        """
        if self.kind == "memory":
            about = (f"level {self.level}", self.window, self.leaves)
            end = None if self.end is None else local_time(self.end, zone)
            named = [one for one in about if one]
            start = local_time(self.start, zone)
            return render_summary(number, start, end, named, self.turns or 0, self.text)
        said = local_time(self.said, zone)
        stated = self._stated(zone)
        notes = ["pinned"] if self.pinned else []
        if self.corrected is not None:
            notes.append(f"corrected on {day_of(local_time(self.corrected, zone))}")
        note = "; ".join(notes)
        if not self.spoken:
            return render(
                number,
                said,
                self.speaker,
                self.text,
                self.quote,
                stated=stated,
                note=note,
                names_quoted=names_quoted,
            )
        words = in_full(self.spoken, self.speaker, self.quote, WHOLE_CHARS)
        found_by = self.statement if statements else ""
        return render_quote(
            number,
            said,
            words,
            stated=stated,
            statement=found_by,
            note=note,
            names_quoted=names_quoted,
        )

    def _stated(self, zone: tzinfo) -> str:
        """Return the time that it states in words, if that is not the day on which it was said."""
        if self.dates or self.stated is None:
            return show_dates(self.dates, zone)
        text = format_interval(self.stated, self.precision, zone=zone)
        return "" if text == format_interval(Interval.at(self.said), "day", zone=zone) else text

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, [self._row()])

    def _row(self, zone: tzinfo = timezone.utc) -> tuple[str, ...]:
        """Return its cells of a table for people."""
        said = quotation(self.spoken) if self.spoken else self.text
        return f"{local_time(self.said, zone):%Y-%m-%d}", self.speaker, said, self.why, f"{self.score:.2f}"

    def _line(self) -> str:
        return f"{cut(repr(self.text), 100)}, {self.kind}, {self.score:.2f}, said {self.said:%Y-%m-%d}"


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(Result):
    """The answer to `query`: ranked evidence, best first.

    Iterating gives the evidence, and a result without any is false.
    """

    question: str
    evidence: tuple[Evidence, ...]
    plan: QuestionPlan
    reference_date: datetime
    index: str
    usage: Usage
    trace: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    timezone: str = "UTC"
    """Whose days `context` shows."""

    @property
    def top_facts(self) -> tuple[Evidence, ...]:
        """The evidence for which a fact speaks, as the paper's artifact names it."""
        return tuple(one for one in self.evidence if one.kind == "fact")

    @property
    def question_type(self) -> str:
        """The kind of question, as planned."""
        return self.plan.kind

    def context(self, max_tokens: int = 2000, *, statements: bool = False) -> str:
        r"""Render dated, quoted evidence for a prompt, one numbered line a piece, as much as fits into `max_tokens`.

        A line has the day in the memory's configured zone, who said it, and what was said in quotation marks, with the
        question in front of a bare answer, and the time that it states behind. Turns of up to 600 characters are quoted
        whole, longer ones as in `Evidence.text`. What a chat model has made of it is shown as its statement, with the
        quotation behind. A summary has its days, its level and window, and how many turns it stands for in front, and no
        quotation. ``statements=True`` adds the statements that local rules have made, by which evidence is found.

        Tokens are estimated (`memforest.tokens.count_tokens`), as the model is not known here. The text is data,
        and a prompt should treat it so: nothing in it can end its line or its quotation marks; its own line breaks are written
        out as ``\n``.
        """
        zone = zone_named(self.timezone)
        lines = [one.line(n, zone=zone, statements=statements) for n, one in enumerate(self.evidence, 1)]
        pinned = [at for at, one in enumerate(self.evidence) if one.pinned]
        return "\n".join(lines[at] for at in fit(lines, max_tokens, first=pinned))

    def _repr_html_(self) -> str:
        zone = zone_named(self.timezone)
        return html_table(_COLUMNS, [one._row(zone) for one in self.evidence])

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self.evidence)

    def __len__(self) -> int:
        return len(self.evidence)

    def _line(self) -> str:
        best = f", best {cut(repr(self.evidence[0].text), 60)} {self.evidence[0].score:.2f}" if self else ""
        return f"{len(self)} evidence{best}"


@dataclass(frozen=True, slots=True, repr=False)
class AskResult(Result):
    """An answer with what it cites. `answer` is None when the memory abstains; `reason` says why.

    `score` is how sure the answerer is, in [0, 1]; None where it does not say, as a chat model. Without one it is the score
    that `Config.answer_threshold` is compared with, also of an abstention. `nearest` is then the evidence that came nearest
    to an answer, if there was any: something to show, and no answer. `usage` is what the query and the answer cost together. ``result.trace["answerer"]`` names who answered. Iterating
    gives the citations, and an abstention is false.
    """

    question: str
    answer: str | None
    citations: tuple[Evidence, ...]
    reason: str
    result: QueryResult
    usage: Usage = field(default_factory=Usage)
    score: float | None = None
    nearest: Evidence | None = None

    @property
    def abstained(self) -> bool:
        """Whether the memory has no answer."""
        return self.answer is None

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self.citations)

    def __len__(self) -> int:
        return len(self.citations)

    def __bool__(self) -> bool:
        return self.answer is not None

    def _line(self) -> str:
        if self.answer is None:
            return f"no answer: {cut(repr(self.reason), 120)}"
        return f"{cut(repr(self.answer), 120)}, {len(self)} citations"

    def _repr_html_(self) -> str:
        told = f"No answer: {self.reason}" if self.answer is None else self.answer
        zone = zone_named(self.result.timezone)
        return html_paragraph(told) + html_table(_COLUMNS, [one._row(zone) for one in self.citations])
