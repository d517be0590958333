"""The results of writing, searching and asking: typed, frozen, ready to print or to serialise.

Here are also the cost of a call (`usage`), and the text of evidence for a prompt, within a token budget.
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
"""Most refused statements in the report of a chunk. `ChunkReport.skipped` has the reasons of all."""


@dataclass(frozen=True, slots=True, repr=False)
class RefusedStatement(Result):
    """A statement of a model that was not kept, cut at 240 characters, with the first turn it names and the reason.

    It failed a check: `text` comes from the model, and may hold anything.
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
    """An earlier fact that a new statement may have ended.

    `fact_id` is the earlier fact, `said` its time, and `by` the turns of the new statement. `remember` with
    ``replaces=fact_id`` ends it.
    """

    fact_id: str
    text: str
    said: datetime
    by: tuple[Source, ...]


@dataclass(frozen=True, slots=True, repr=False)
class IngestResult(Result):
    """The result of writing a session. `unchanged`: nothing was new. `refused`: the turns that were not stored.

    `added`, `merged` and `superseded` name facts by their statements (`FactView.statement`), and only what is new. When
    a session grows, its last chunk is read again with the new turns, unless it was full. Facts that an earlier write
    has named are not named again. A statement about two things may be superseded in each.
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
    """Summaries that the write should have made and could not. They are made when they are read, by `flush` or by
    `resume`."""
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    redacted: int = 0
    """The number of turns that redaction has changed."""
    replayed: bool = False
    """The same idempotency key came again. Nothing was written; this is the result of the first call, as far as it
    still exists. Its cost and its warnings are not kept."""
    deferred: bool = False
    """The call only stored the turns (``defer=True``). `left` are the chunks that `resume` will read."""
    remembered: tuple[CorrectionView, ...] = ()
    """The statements that came with the turns. The `key` of each undoes it."""
    doubtful: tuple[Doubt, ...] = ()
    """Earlier facts that these turns may have ended, the likeliest first. Empty unless `doubtful` was asked for."""

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
        """The chunks that were not read: the budget was used up, or the session was deferred. `resume` reads them."""
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
    """What a flush did, with the background work since the last flush. `nodes_dirty` counts what could not be made."""

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
    r"""Return one numbered line of evidence that a model or a person worded: day, statement, speaker and quotation.

    `note` tells what became of it since.

    No statement, name or quotation can end the line or its own part of it. Quotation marks inside get a backslash. A
    name with a bracket, colon or quotation mark is put in quotation marks; with `names_quoted` every name is.

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
    r"""Return one numbered line of evidence in the speaker's own words: day, speaker and quotation.

    Args:
        number: of the line.
        said: the day on which it was said, or the days.
        spoken: a quotation, or a question and its bare answer; as in `render`, nothing in it can end its part of the line.
        stated: the time that it states, in words. It is left out if the quotation has it.
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
    """Return a quotation in quotation marks; for a question and its answer, with the speakers.

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
    """Return one numbered line of a summary: its days, what it sums up, and its text.

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

    `kind` is ``"fact"`` if a fact stands for the turn, ``"memory"`` for the summary of an inner node, else ``"turn"``.
    `text` is for people: the words of the turn, a chat model's statement, or the summary. `spoken` has the words with
    their speakers: a turn, those sentences of it that a fact was made from or that answer, or a question and its short
    answer. It is empty if a model worded the text. `quote`, `speaker` and `said` belong to the turn that was ranked,
    which may be the question. `statement` is the text of the fact. `start` and `end`
    are the valid time [start, end), aware UTC; `end` is None while it holds. `scores` are the weighted parts of
    `score`. `path` leads from a root down to the leaf or node. For a turn that is the tree of its session, or the tree
    in which browsing reached it. `why` is set if time order put it first, whatever its score, and `perhaps` if that is
    only likely. `relevance`, in 0..1, is how likely it answers the question, on one scale for all memories. It is None
    for a summary, and if there are no weights for the embedder or the language.

    A summary has no `quote` and no `speaker`. `start` and `end` are the node's interval, `said` is the time of the
    last turn below it, and `sources` are the first 50 of those turns. Five fields are None for other evidence. `turns`
    counts all turns below the node. `level` is its level, and `window` its calendar key (``"2024-W10"``), if it has
    one. `span` has the numbers of its leaves, half-open and from 1, if the tree divides the whole conversation.
    `node_id` is its number, which stays until the trees are rebuilt.

    `corrected` is the time at which a person corrected the fact: `text` is then theirs, and `quote` still the turn's.
    `pinned` evidence is shown for every question. If the search did not find it, it has no `scores`, and the `score`
    of the last piece that was found. If a turn also has a hidden statement, `quote` has only the words of this fact.

    `stated` is the time that a fact itself states, or None, and `precision` how exact it is. `dates` are the meanings
    of its time words.

    `ended_by` are the turns that ended a state at `end`; empty while it holds. `said_each` has all times at which the
    same speaker said these very words, the first one first. `echoes` is the turn that an assistant's turn only
    repeats.
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
        """Return plain values for REST and MCP: each text once, and nothing empty or about the ranking.

        It has `quote` and `statement` if they differ from `text`, and `spoken` if several turns are quoted.
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
        """The words for a later step: the turn's, or the corrected statement."""
        return self.text if self.corrected is not None or not self.quote else self.quote

    @property
    def leaves(self) -> str:
        """The leaves below a summary, in words ("leaves 4 to 9"); empty if they have no numbers."""
        return "" if self.span is None else f"leaves {ordinals(self.span)}"

    @property
    def place(self) -> tuple[str, str]:
        """Its session and its turn, the first of its sources."""
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
        """Return a numbered line of `QueryResult.context`.

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
        """Return the days its time words mean, or the time that a model read in it, if that is not its own day."""
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
    """Return the numbered lines of `QueryResult.context`; an empty line for an echo of another one.

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
    """Return the time format for turns of one day: none for a single turn, else minutes, or seconds if needed."""
    minutes = {(one.hour, one.minute) for one in times}
    return "" if len(times) < 2 else ", %H:%M" if len(minutes) == len(times) else ", %H:%M:%S"


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(Several[Evidence]):
    """The answer to `query`: ranked evidence, best first.

    Iterate over a result for its evidence. A result without evidence is false.
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
    """The time zone of the days that `context` shows."""

    @property
    def top_facts(self) -> tuple[Evidence, ...]:
        """The evidence of the kind ``"fact"``, under the name in the paper's artifact."""
        return tuple(one for one in self.evidence if one.kind == "fact")

    @property
    def question_type(self) -> str:
        """The kind of question, as planned."""
        return self.plan.kind

    def brief(self) -> dict[str, Any]:
        """Return plain values for REST and MCP, without the plan and the trace."""
        told = {name: getattr(self, name) for name in ("question", "reference_date", "index", "timezone")}
        more = {"usage": self.usage, "warnings": self.warnings}
        return {**plain({**told, **more}), "evidence": [one.brief() for one in self.evidence]}

    def context(self, max_tokens: int = 2000, *, statements: bool = False) -> str:
        r"""Return the evidence as text for a prompt: dated quotations, one numbered line each, up to `max_tokens`.

        A line has the day in the configured zone, the speaker, the quotation, and the time that it states. A short
        answer comes with its question. Turns of up to 600 characters are quoted whole, and longer ones as in
        `Evidence.text`. If a chat model made a statement, the line has the statement and then the quotation. A summary
        has its days, level and window, and how many turns it sums up. ``statements=True`` adds the statements that
        local rules made.

        Tokens are estimated (`memforest.text.count_tokens`), since the model is not known here. The text is data, and
        your prompt should say so. Nothing in it can end its line or its quotation marks; line breaks inside become
        ``\n``.
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
    """An answer with its citations. `answer` is None if the memory abstains; `reason` says why.

    `score` is how sure the answerer is, in [0, 1], or None if it does not say, as with a chat model. Without a chat
    model, `Config.answer_threshold` is compared with it, and an abstention has one too. `nearest` is then the evidence
    that came nearest to an answer. You may show it, but it is not an answer. `usage` is the cost of the query and the
    answer together. ``result.trace["answerer"]`` names the answerer. Iterate over a result for its citations; an
    abstention is false.
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
        """Return plain values for REST and MCP, without evidence that is not cited."""
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
