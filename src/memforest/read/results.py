"""What writing, searching and asking return: typed, frozen, ready to print or to serialise.

Also what a call cost (`usage`), and cutting evidence to a token budget and rendering it for a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any, Literal

from memforest.models.ledger import Ledger
from memforest.plain import Result, Several, plain
from memforest.read.stored import CorrectionView, Source
from memforest.reading.clauses import in_full
from memforest.reading.timestamps import further_dates, show_dates, zone_named
from memforest.records import Precision, QuestionPlan, Refused, ResolvedDate, SpokenText, StepUsage
from memforest.text import count_tokens, cut
from memforest.times import (
    Interval,
    escaped,
    escaped_lines,
    format_interval,
    html_paragraph,
    html_table,
    local_time,
    one_line,
    ordinals,
)


@dataclass(frozen=True, slots=True, repr=False)
class Usage(Result):
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
        none, names = StepUsage(), {**self.steps, **other.steps}
        return Usage(
            {k: self.embeds.get(k, 0) + other.embeds.get(k, 0) for k in {**self.embeds, **other.embeds}},
            {k: self.ms.get(k, 0.0) + other.ms.get(k, 0.0) for k in {**self.ms, **other.ms}},
            {k: self.steps.get(k, none).plus(other.steps.get(k, none)) for k in names},
            max(self.most_in_flight, other.most_in_flight),
        )


def usage(
    spent: Ledger,
    ms: Mapping[str, float],
    embeds: Mapping[str, int] | None = None,
    *,
    without: Sequence[Ledger] = (),
) -> Usage:
    """Return what an operation cost.

    Args:
        spent: what it asked of models behind endpoints.
        ms: wall time per step.
        embeds: texts that the embedder really ran, by kind.
        without: parts of `spent` that are counted elsewhere.
    """
    steps = dict(spent.steps)
    for part in without:
        for step, used in part.steps.items():
            steps[step] = steps[step].minus(used)
    if without:
        steps = {step: used for step, used in steps.items() if used.calls or used.failures}
    return Usage(
        embeds=dict(embeds or {}),
        ms={step: round(value, 3) for step, value in ms.items()},
        steps=steps,
        most_in_flight=spent.most_in_flight,
    )


MOST_REFUSED = 20
"""Statements of a chunk that its report names; `ChunkReport.skipped` has the reasons of all."""


@dataclass(frozen=True, slots=True, repr=False)
class RefusedStatement(Result):
    """A statement of a model that was not kept, cut at 240 characters, the first turn it names, and why.

    What it says was found wanting: `text` is the model's, and may hold anything.
    """

    text: str
    turn_id: str
    reason: str

    def __str__(self) -> str:
        return f'"{escaped(self.text)}" (turn {one_line(self.turn_id)}): {one_line(self.reason)}'


@dataclass(frozen=True, slots=True, repr=False)
class ChunkReport(Result):
    """What became of one chunk: the turn ids it spans, and its outcome."""

    turn_ids: tuple[str, ...]
    status: Literal["extracted", "verbatim", "failed", "left"]
    """``"left"``: not tried, as the budget was used up or the session was deferred."""
    skipped: tuple[tuple[str, str], ...] = ()
    """(turn id, reason) of every piece that became no statement."""
    failure: str | None = None
    refused: tuple[RefusedStatement, ...] = ()
    """The first 20 statements of a model that were not kept."""


@dataclass(frozen=True, slots=True, repr=False)
class Doubt(Result):
    """An earlier statement, the fact `fact_id`, which was `said` then, and which a new one `by` these turns may have ended.

    `remember` with ``replaces=fact_id`` says that it has.
    """

    fact_id: str
    text: str
    said: datetime
    by: tuple[Source, ...]


@dataclass(frozen=True, slots=True, repr=False)
class IngestResult(Result):
    """What became of a session. `unchanged`: nothing of it was new. `refused`: all of its turns that are not stored.

    `added`, `merged` and `superseded` name facts by their statements (`FactView.statement`), and only what is new. When a
    session grows, its last chunk is read again with the turns behind it, unless it was full; what an earlier write has named
    of that chunk is not named again. A statement of two things may be superseded in each.
    """

    session_id: str
    turns_added: int
    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    chunks: tuple[ChunkReport, ...] = ()
    refused: tuple[Refused, ...] = ()
    replaced: bool = False
    nodes_refreshed: int = 0
    """Summaries that were made before the write returned."""
    nodes_dirty: int = 0
    """Summaries that the write was to make and could not. They are made when they are read, by `flush` or by `resume`."""
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    redacted: int = 0
    """Turns that redaction has changed, of those that were given."""
    replayed: bool = False
    """The call came again with its idempotency key: nothing was written, and this is what the first one did, as far as
    that is still there. What the first one cost, and its warnings, are not kept."""
    deferred: bool = False
    """The call was to store the turns and no more (``defer=True``): `left` are the chunks that `resume` makes memory of."""
    remembered: tuple[CorrectionView, ...] = ()
    """The statements that were given with the turns; the `key` of each takes it back."""
    doubtful: tuple[Doubt, ...] = ()
    """Earlier statements that these may have ended, if they were asked for, the likeliest first."""

    @property
    def unchanged(self) -> bool:
        """Whether the session was stored already, as it came."""
        return self.turns_added == 0 and not self.replaced

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(turn id, reason) of every piece that became no statement."""
        return tuple(pair for chunk in self.chunks for pair in chunk.skipped)

    @property
    def refused_statements(self) -> tuple[RefusedStatement, ...]:
        """Statements of a model that were not kept, and why: of each chunk the first 20."""
        return tuple(one for chunk in self.chunks for one in chunk.refused)

    @property
    def failed(self) -> tuple[ChunkReport, ...]:
        """The chunks whose extraction failed; local rules have read them, until `resume` succeeds."""
        return tuple(chunk for chunk in self.chunks if chunk.status == "failed")

    @property
    def left(self) -> tuple[ChunkReport, ...]:
        """The chunks that were not tried, as the budget did not reach them or the session was deferred; `resume` goes on with them."""
        return tuple(chunk for chunk in self.chunks if chunk.status == "left")

    @property
    def chunks_extracted(self) -> int:
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

    def _line(self) -> str:
        if self.unchanged and not self.chunks:
            return f"{cut(repr(self.session_id), 60)}: unchanged"
        counts = f"{self.turns_added} turns and {self.facts_inserted} facts added, {self.facts_merged} merged"
        parts = (("chunks failed", self.failed), ("chunks left", self.left), ("warnings", self.warnings))
        more = "".join(f", {len(found)} {what}" for what, found in parts if found)
        return f"{cut(repr(self.session_id), 60)}: {counts}{more}"


@dataclass(frozen=True, slots=True, repr=False)
class FlushResult(Result):
    """What a flush did, and what was done behind writes since the one before. `nodes_dirty` counts what could not be made."""

    nodes_refreshed: int = 0
    nodes_dirty: int = 0
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()

    def plus(self, later: FlushResult) -> FlushResult:
        """Return what two flushes of one memory did; the later one says what is left."""
        return replace(self.beside(later), nodes_dirty=later.nodes_dirty)

    def beside(self, other: FlushResult) -> FlushResult:
        """Return what flushes of two memories did."""
        return FlushResult(
            self.nodes_refreshed + other.nodes_refreshed,
            self.nodes_dirty + other.nodes_dirty,
            self.usage.plus(other.usage),
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
        )

    def _line(self) -> str:
        more = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"{self.nodes_refreshed} summaries made, {self.nodes_dirty} out of date{more}"


_PLAIN_NAME = re.compile(r'[^"\\():\[\]]+')


def render(
    number: int,
    said: str,
    speaker: str,
    text: str,
    quote: str,
    stated: str = "",
    note: str = "",
    *,
    names_quoted: bool = False,
) -> str:
    r"""Return one numbered line of evidence that a model or a person worded: the day it was said, the statement, and who said it how.

    `note` tells what became of it since.

    Nothing in a statement, name or quotation can end the line or its part of it: quotation marks in them have a
    backslash in front, and a name that holds a bracket, colon or quotation mark stands in quotation marks, as every name
    does with `names_quoted`.

    >>> print(render(1, "8 May 2023", "Bob (work)", "Bob has a cat.", 'I said "cat".'))
    [1] 8 May 2023: Bob has a cat. ("Bob (work)" said: "I said \"cat\".")
    """
    statement, told = escaped(text), escaped_lines(quote)
    own = "" if escaped(quote) in statement else f'{_name(speaker, names_quoted)} said: "{told}"'
    return f"[{number}] {said}: {statement}{_notes(_beside(stated, statement), note, own)}"


def render_quote(
    number: int,
    said: str,
    spoken: Sequence[SpokenText],
    *,
    stated: str = "",
    statement: str = "",
    note: str = "",
    names_quoted: bool = False,
) -> str:
    r"""Return one numbered line of evidence that is what was said: the day, who said it, and the words.

    Args:
        number: of the line.
        said: the day on which it was said, or the days.
        spoken: a quotation, or a question and its bare answer; as in `render`, nothing in it can end its part of the line.
        stated: the time that it states, in words; left out where the quotation has it.
        statement: what it is found by, if that is to be shown.
        note: what else is to be known of it.
        names_quoted: put every name in quotation marks, as a name may read like an instruction.

    >>> print(render_quote(1, "8 May 2023", [SpokenText("Bob", 'I said "cat" yesterday.')], stated="7 May 2023"))
    [1] 8 May 2023, Bob: "I said \"cat\" yesterday." (7 May 2023)
    """
    words = " – ".join(f'{_name(one.speaker, names_quoted)}: "{escaped_lines(one.text)}"' for one in spoken)
    found_by = f'statement: "{escaped(statement)}"' if statement else ""
    return f"[{number}] {said}, {words}{_notes(_beside(stated, words), note, found_by)}"


def quotation(spoken: Sequence[SpokenText]) -> str:
    """Return what was said in quotation marks; a question and its answer with their speakers.

    >>> print(quotation([SpokenText("Ana", "Is it the 12th?"), SpokenText("Bob", "Yes.")]), quotation([SpokenText("Bob", "Hi.")]))
    Ana: "Is it the 12th?" – Bob: "Yes." "Hi."
    """
    if len(spoken) == 1:
        return f'"{spoken[0].text}"'
    return " – ".join(f'{one.speaker}: "{one.text}"' for one in spoken)


def _name(speaker: str, always_quoted: bool = False) -> str:
    name = one_line(speaker)
    plain = _PLAIN_NAME.fullmatch(name) and not always_quoted
    return name if plain else f'"{escaped(speaker)}"'


def _beside(stated: str, text: str) -> str:
    return "" if stated in text else stated


def _notes(*notes: str) -> str:
    told = "; ".join(note for note in notes if note)
    return f" ({told})" if told else ""


def render_summary(
    number: int, start: datetime, end: datetime | None, about: Sequence[str], turns: int, text: str
) -> str:
    """Return one numbered line of a summary: its days, what it is a summary of, and the text, which nobody said.

    Args:
        number: of the line.
        start: where the interval of the summary begins.
        end: where it ends, exclusive; None for an interval that goes on.
        about: its level, calendar window and the like.
        turns: how many turns it sums up.
        text: the summary; as in `render`, nothing in it can end the line.

    Example:
        >>> day = datetime(2024, 3, 4)
        >>> print(render_summary(2, day, day + timedelta(days=7), ["level 4", "2024-W10"], 12, "Ana moved."))
        [2] 4 Mar 2024 to 10 Mar 2024, level 4, 2024-W10, summary of 12 turns: Ana moved.
    """
    first, last = day_of(start), "" if end is None else day_of(max(start, end - timedelta(microseconds=1)))
    days = f"since {first}" if end is None else first if last == first else f"{first} to {last}"
    count = "1 turn" if turns == 1 else f"{turns} turns"
    names = [_name(one) for one in about]
    return f"[{number}] {', '.join([days, *names, f'summary of {count}'])}: {escaped(text)}"


def day_of(when: datetime, clock: str = "") -> str:
    """Return a day as it is written in evidence, with the time of day in a format of `strftime` behind."""
    return f"{when.day} {when:%b %Y}{when.strftime(clock)}"


def fit(lines: Sequence[str], max_tokens: int, first: Sequence[int] = ()) -> list[int]:
    """Return the places of the longest prefix of lines whose estimated tokens stay within the budget.

    The lines in `first`, in order, get their tokens before all others, as far as they fit.
    """
    kept: set[int] = set()
    used = 0
    for group in (first, [at for at in range(len(lines)) if at not in first]):
        for at in group:
            tokens = count_tokens(lines[at]) + 1
            if used + tokens > max_tokens:
                break
            used += tokens
            kept.add(at)
    return sorted(kept)


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
    the session it was said in, or of the tree where browse reached it, where that counts. `why` tells when time order put it first,
    whatever its score is, and `perhaps` whether that is no more than likely. `relevance`, in 0..1, is how likely it answers the
    question, on one scale for all memories; None of a summary, and where the embedder or the language has no weights for it.

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

    `ended_by` are the turns that told what took the place of a state, which `end` is the end of; empty while it holds.
    `said_each` is when the same speaker said these very words, the first time first. `echoes` is the turn that an
    assistant's repeats without another word of content.
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
    spoken: tuple[SpokenText, ...] = ()
    stated: Interval | None = None
    precision: Precision = "unknown"
    corrected: datetime | None = None
    pinned: bool = False
    span: tuple[int, int] | None = None
    ended_by: tuple[Source, ...] = ()
    said_each: tuple[datetime, ...] = ()
    echoes: tuple[Source, ...] = ()
    perhaps: bool = False
    relevance: float | None = None

    def brief(self) -> dict[str, Any]:
        """Return it for the wire as plain values: each text once, and nothing that is empty or explains the ranking.

        `quote` and `statement` are there where `text` is another, and `spoken` where several turns were quoted.
        """
        left = {"scores", "path", "node_id", "span"}
        if self.quote == self.text:
            left.add("quote")
        if self.text in self.statement:
            left.add("statement")
        if len(self.spoken) < 2:
            left.add("spoken")
        if len(self.said_each) < 2:
            left.add("said_each")
        if self.stated is None:
            left.add("precision")
        return {
            one.name: plain(value)
            for one in fields(self)
            if one.name not in left and ((value := getattr(self, one.name)) or type(value) in (int, float))
        }

    @property
    def read(self) -> str:
        """The words that a step may rest on: the turn's, or of what was corrected the statement that holds."""
        return self.text if self.corrected is not None or not self.quote else self.quote

    @property
    def leaves(self) -> str:
        """Which leaves of its tree are beneath a summary, in words ("leaves 4 to 9"); empty where they have no numbers."""
        return "" if self.span is None else f"leaves {ordinals(self.span)}"

    @property
    def place(self) -> tuple[str, str]:
        """The session and the turn in which it was said, which stand first among its sources."""
        return self.sources[0].session_id, self.sources[0].turn_ids[0]

    def line(
        self,
        number: int,
        *,
        zone: tzinfo = timezone.utc,
        clock: str = "",
        until: str = "",
        statements: bool = False,
        names_quoted: bool = False,
    ) -> str:
        """Return it as a numbered line of `QueryResult.context`.

        Args:
            number: of the line.
            zone: whose days are shown.
            clock: how the time of day is shown behind the day (`strftime`).
            until: when what it says ended, in words.
            statements: add the statement that local rules made.
            names_quoted: put the names of speakers in quotation marks, whatever they hold.
        """
        if self.kind == "memory":
            about = (f"level {self.level}", self.window, self.leaves)
            end = None if self.end is None else local_time(self.end, zone)
            named = [one for one in about if one]
            start = local_time(self.start, zone)
            return render_summary(number, start, end, named, self.turns or 0, self.text)
        said = self._when(zone, clock)
        notes = ["pinned"] if self.pinned else []
        if self.corrected is not None:
            notes.append(f"corrected on {day_of(local_time(self.corrected, zone))}")
        note = "; ".join(notes)
        if not self.spoken:
            told = (said, self.speaker, self.text, self.quote, self._stated(zone), note)
            line = render(number, *told, names_quoted=names_quoted)
        else:
            words = in_full(self.spoken, self.speaker, self.quote, WHOLE_CHARS)
            stated, found_by = self._stated(zone, words[-1].text), self.statement if statements else ""
            more = {"stated": stated, "statement": found_by, "note": note}
            line = render_quote(number, said, words, **more, names_quoted=names_quoted)
        return f"{line} – until {until}" if until else line

    def _when(self, zone: tzinfo, clock: str) -> str:
        """Return the day on which it was said; the first and the last one where these words were said on several."""
        times = [local_time(moment, zone) for moment in self.said_each or (self.said,)]
        days = list(dict.fromkeys(day_of(moment) for moment in times))
        if len(days) == 1:
            return day_of(local_time(self.said, zone), clock)
        return " and ".join(days) if len(days) == 2 else f"{days[0]} to {days[-1]} ({len(times)} times)"

    def _stated(self, zone: tzinfo, words: str = "") -> str:
        """Return the days that its words of time mean, or the time that a model took it to state, if that is not its own day."""
        if self.dates or self.stated is None:
            return show_dates(
                (*self.dates, *further_dates(words, self.said, zone, self.dates)), zone, self.said
            )
        text = format_interval(self.stated, self.precision, zone=zone)
        return "" if text == format_interval(Interval.at(self.said), "day", zone=zone) else text

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, [self._row()])

    def _row(self, zone: tzinfo = timezone.utc) -> tuple[str, ...]:
        """Return its chunks of a table for people."""
        said = quotation(self.spoken) if self.spoken else self.text
        return f"{local_time(self.said, zone):%Y-%m-%d}", self.speaker, said, self.why, f"{self.score:.2f}"

    def _line(self) -> str:
        return f"{cut(repr(self.text), 100)}, {self.kind}, {self.score:.2f}, said {self.said:%Y-%m-%d}"


def context_lines(
    evidence: Sequence[Evidence],
    zone: tzinfo,
    *,
    statements: bool = False,
    names_quoted: bool = False,
    shown: Collection[int] | None = None,
) -> list[str]:
    """Return evidence as the numbered lines of `QueryResult.context`; an empty one for an echo of what another line quotes.

    Args:
        evidence: best first.
        zone: whose days are shown.
        statements: see `Evidence.line`.
        names_quoted: likewise.
        shown: places of the lines that will be shown, the only ones to which a line may refer; None for all.
    """
    spoken = [(n, one) for n, one in enumerate(evidence, 1) if one.kind != "memory"]
    numbers = {one.place: n for n, one in reversed(spoken)}
    days: dict[date, set[datetime]] = {}
    for said in (local_time(one.said, zone) for _, one in spoken):
        days.setdefault(said.date(), set()).add(said)
    lines = []
    for number, one in enumerate(evidence, 1):
        until, ending = "", _places(one.ended_by)
        if one.end is not None and ending and one.place not in ending:
            until = format_interval(Interval.at(one.end), "day", zone=zone)
            later = [numbers[place] for place in ending if place in numbers]
            seen = [n for n in later if shown is None or n - 1 in shown]
            until += f" (see [{min(seen)}])" if seen else ""
        clock = _exact_enough(days.get(local_time(one.said, zone).date(), ()))
        more = {"clock": clock, "until": until}
        line = one.line(number, zone=zone, **more, statements=statements, names_quoted=names_quoted)
        lines.append(line if numbers.keys().isdisjoint(_places(one.echoes)) else "")
    return lines


def _places(sources: Sequence[Source]) -> list[tuple[str, str]]:
    return [(one.session_id, turn_id) for one in sources for turn_id in one.turn_ids]


def _exact_enough(times: Collection[datetime]) -> str:
    """Return how times of one day are written: one alone not at all, several to the minute, or to the second if need be."""
    minutes = {(one.hour, one.minute) for one in times}
    return "" if len(times) < 2 else ", %H:%M" if len(minutes) == len(times) else ", %H:%M:%S"


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(Several[Evidence]):
    """The answer to `query`: ranked evidence, best first.

    Iterating gives the evidence, and a result without any is false.
    """

    _of = "evidence"
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

    def brief(self) -> dict[str, Any]:
        """Return it for the wire as plain values, without the plan and the trace, which explain it."""
        told = {name: getattr(self, name) for name in ("question", "reference_date", "index", "timezone")}
        more = {"usage": self.usage, "warnings": self.warnings}
        return {**plain({**told, **more}), "evidence": [one.brief() for one in self.evidence]}

    def context(self, max_tokens: int = 2000, *, statements: bool = False) -> str:
        r"""Render dated, quoted evidence for a prompt, one numbered line a piece, as much as fits into `max_tokens`.

        A line has the day in the memory's configured zone, who said it, and what was said in quotation marks, with the
        question in front of a bare answer, and the time that it states behind. Turns of up to 600 characters are quoted
        whole, longer ones as in `Evidence.text`. What a chat model has made of it is shown as its statement, with the
        quotation behind. A summary has its days, its level and window, and how many turns it stands for in front, and no
        quotation. ``statements=True`` adds the statements that local rules have made, by which evidence is found.

        Tokens are estimated (`memforest.text.count_tokens`), as the model is not known here. The text is data,
        and a prompt should treat it so: nothing in it can end its line or its quotation marks; its own line breaks are written
        out as ``\n``.
        """
        zone = zone_named(self.timezone)
        lines = context_lines(self.evidence, zone, statements=statements)
        pinned = [at for at, one in enumerate(self.evidence) if one.pinned]
        kept = fit(lines, max_tokens, first=pinned)
        lines = context_lines(self.evidence, zone, statements=statements, shown=kept)
        return "\n".join(lines[at] for at in kept if lines[at])

    def _repr_html_(self) -> str:
        zone = zone_named(self.timezone)
        return html_table(_COLUMNS, [one._row(zone) for one in self.evidence])

    def _line(self) -> str:
        best = f", best {cut(repr(self.evidence[0].text), 60)} {self.evidence[0].score:.2f}" if self else ""
        return f"{len(self)} evidence{best}"


@dataclass(frozen=True, slots=True, repr=False)
class AskResult(Several[Evidence]):
    """An answer with what it cites. `answer` is None when the memory abstains; `reason` says why.

    `score` is how sure the answerer is, in [0, 1]; None where it does not say, as a chat model. Without one it is the score
    that `Config.answer_threshold` is compared with, also of an abstention. `nearest` is then the evidence that came nearest
    to an answer, if there was any: something to show, and no answer. `usage` is what the query and the answer cost together. ``result.trace["answerer"]`` names who answered. Iterating
    gives the citations, and an abstention is false.
    """

    _of = "citations"
    question: str
    answer: str | None
    citations: tuple[Evidence, ...]
    reason: str
    result: QueryResult
    usage: Usage = field(default_factory=Usage)
    score: float | None = None
    nearest: Evidence | None = None

    def brief(self) -> dict[str, Any]:
        """Return it for the wire as plain values, without the evidence that it does not cite."""
        told = {name: getattr(self, name) for name in ("question", "answer", "reason", "score", "usage")}
        return {
            **plain({**told, "warnings": self.result.warnings}),
            "citations": [one.brief() for one in self.citations],
            "nearest": None if self.nearest is None else self.nearest.brief(),
        }

    @property
    def abstained(self) -> bool:
        """Whether the memory has no answer."""
        return self.answer is None

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
