"""The values of `profile`: what is known of participants by a month's end, or of anything by now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from memforest.memory.inspect.stored import Source
from memforest.memory.plain import Result
from memforest.systems.profiling import LineKind
from memforest.text import cut


@dataclass(frozen=True, slots=True, repr=False)
class DatedQuote(Result):
    """A turn as it was said, with when and where."""

    said: datetime
    speaker: str
    text: str
    session_id: str
    turn_id: str

    def _line(self) -> str:
        return f"{self.said:%Y-%m-%d} {self.speaker}: {cut(self.text, 80)}"


@dataclass(frozen=True, slots=True, repr=False)
class ProfileLine(Result):
    """One line of a participant's profile.

    `kind`: a ``"state"`` in force, a ``"change"`` of the month, an ``"event"`` of their past, what recurs (``"entity"``,
    ``"topic"``), what they ``"said"``, where no statement is known of them, or a line that a chat model has ``"written"``. The
    graph tells besides of a ``"relation"`` with somebody or something, and of each ``"fact"`` that was said last.
    `sources` are the turns that it rests on, of more than 32 the first and the last 16, and `quotes` some of them: the first
    and the last ones. `fact_ids` are the statements that a line was composed of; a written one has none.
    """

    text: str
    kind: LineKind
    sources: tuple[Source, ...]
    quotes: tuple[DatedQuote, ...] = ()
    fact_ids: tuple[str, ...] = ()

    def _line(self) -> str:
        return f"{self.kind}: {cut(self.text, 120)}"


@dataclass(frozen=True, slots=True, repr=False)
class ProfileSection(Result):
    """The profile of one participant. Iterating gives the lines."""

    participant: str
    lines: tuple[ProfileLine, ...]

    def __iter__(self) -> Iterator[ProfileLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def _line(self) -> str:
        return f"{self.participant}: {len(self)} lines"


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Result):
    """The profile in force: a section a participant, of the last month that had ended. An empty one is false.

    With the maker ``"graph"`` it is of no month: its sections tell what the graph has of entities by the time asked for.
    `month` is its calendar key (``"2024-05"``) and [start, end) its time; None without a profile, and `warnings` say why.
    `maker` is what made the lines: rules, a prompt with its model, or ``"composed"`` where the month's text is no profile and
    its lines were made of the statements. `out_of_date` is whether something was said, corrected or deleted below the month
    that is not written yet. `since` quotes what they have said since it ended, the last of `said_since` turns.
    `unsupported` are lines of the month's text that are not shown, because no turn supports them as that participant's.

    Iterating gives the sections.
    """

    month: str | None
    start: datetime | None
    end: datetime | None
    sections: tuple[ProfileSection, ...]
    maker: str = ""
    out_of_date: bool = False
    since: tuple[DatedQuote, ...] = ()
    said_since: int = 0
    unsupported: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[ProfileSection]:
        return iter(self.sections)

    def __len__(self) -> int:
        return len(self.sections)

    def _line(self) -> str:
        who = ", ".join(f"{one.participant} ({len(one)} lines)" for one in self)
        when = self.month or ("now" if self.maker == "graph" else "no month yet")
        return f"{when}: {who or 'nobody'}"
