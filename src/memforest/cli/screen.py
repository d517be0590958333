"""Terminal output: tables, records, and the bar of a long write.

Stored text is untrusted: it is cleaned of controls and never read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memforest.times import one_line, ordinals

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import TaskID

    from memforest.progress import IngestProgress
    from memforest.read.results import Evidence
    from memforest.read.stored import FactView, Source, TimelineEntry, TreeView


def clean(text: str, limit: int | None = None) -> str:
    r"""Return a text on one line without anything that a terminal would act on.

    Args:
        text: what a transcript, a file name or a user id holds.
        limit: most characters; an ellipsis takes the place of the rest.

    Example:
        >>> clean("a\x1b[31mred\nb"), clean("a long text", 6)
        ('a [31mred b', 'a lon…')
    """
    line = one_line(text)
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + "…"


def counted(count: int, thing: str) -> str:
    """Return a number with its noun.

    Example:
        >>> counted(1, "session"), counted(2, "session")
        ('1 session', '2 sessions')
    """
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def leaf_counts(view: TreeView) -> str:
    """Return how many leaves are below a node, with their numbers if the tree has any; for a leaf only its number."""
    if view.level == 0:
        return f"leaf {ordinals(view.span)}" if view.span else ""
    number = f"{view.leaves:,} {'leaf' if view.leaves == 1 else 'leaves'}"
    return f"{number}, {ordinals(view.span)}" if view.span else number


def size(count: int) -> str:
    """Return a number of bytes in words.

    Example:
        >>> size(512), size(5_987_654)
        ('512 B', '5.7 MB')
    """
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def sources(found: Sequence[Source], limit: int | None = 3) -> str:
    """Return sessions with their turns, e.g. ``bilbao #1``; at most `limit` of either, None for all."""
    shown = [f"{one.session_id} #{', #'.join(one.turn_ids[:limit])}" for one in found[:limit]]
    return clean("; ".join(shown)) + (" …" if limit is not None and len(found) > limit else "")


def in_words(one: Evidence | FactView | TimelineEntry, limit: int) -> str:
    """Return what was said in quotation marks; a model's statement, or a summary, as it is."""
    # Here, so that the help of a command need not wait for NumPy.
    from memforest.read.results import quotation

    return clean(quotation(one.spoken) if one.spoken else one.text, limit)


def error_console() -> Console:
    """Return the console of standard error, which reads no markup."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


class _Console(Console):
    """A console that leaves a closed pipe to `Call.show`."""

    def on_broken_pipe(self) -> None:
        """Raise instead of ending the process."""
        raise BrokenPipeError


@dataclass(frozen=True, slots=True)
class Screen:
    """Standard output, with the time zone in which days are shown.

    On a terminal things are laid out for reading. Into a pipe or a file they are records: one a line, whole, the
    columns separated by tabs.
    """

    zone: tzinfo = timezone.utc
    console: Console = field(
        default_factory=lambda: _Console(markup=False, highlight=False, emoji=False, soft_wrap=False)
    )
    laid_out: bool | None = None
    """Whether to lay out; None is on a terminal."""

    @property
    def records(self) -> bool:
        """Whether records are wanted."""
        return not (self.console.is_terminal if self.laid_out is None else self.laid_out)

    def record(self, *columns: object) -> None:
        """Print columns as one line; no column has a tab or a line break of its own, and None is empty."""
        click.echo("\t".join("" if column is None else clean(str(column)) for column in columns))

    def line(self, text: str = "", style: str = "", *, indent: int = 0) -> None:
        """Print a text in one style, cleaned; on a terminal long lines are wrapped within the indentation."""
        if self.records:
            self.record(text)
            return
        shown = Text(clean(text), style=style)
        self.console.print(Padding(shown, (0, 0, 0, indent)) if indent else shown)

    def heading(self, text: str) -> None:
        """Print a heading with an empty line before it."""
        self.console.print()
        self.console.print(Text(clean(text), style="bold cyan"))

    def put(self, renderable: RenderableType) -> None:
        """Print a `rich` object whose texts are clean; where records are wanted, a table as one record a row."""
        if isinstance(renderable, Table) and not renderable.row_count:
            return
        if self.records and isinstance(renderable, Table):
            cells = [
                [str(cell).replace("\n", " ").strip() for cell in column.cells]
                for column in renderable.columns
            ]
            for row in zip(*cells, strict=True):
                self.record(*row)
            return
        self.console.print(renderable)

    def table(
        self,
        styles: Sequence[str],
        rows: Iterable[Sequence[object]],
        records: Iterable[Sequence[object]] | None = None,
    ) -> None:
        """Print a table, see `columns`; where records are wanted, `records` in the place of its rows, if they differ.

        Texts are cleaned; of rows and records only those that are shown are made.
        """
        if self.records and records is not None:
            for record in records:
                self.record(*record)
            return
        table = columns(*styles)
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else clean(str(cell or "")) for cell in row))
        self.put(table)

    def fields(self, rows: Iterable[tuple[str, object]]) -> None:
        """Print what is told of one thing, each with its label."""
        self.table(("dim", ""), ((f"  {label}" if label else "", value) for label, value in rows))

    def day(self, when: datetime | None) -> str:
        """Return a time's day in the screen's zone, ISO 8601; a question mark for an unknown one."""
        if when is None or when.year in (MINYEAR, MAXYEAR):  # a statement may say only when something ended
            return "?"
        return when.astimezone(self.zone).date().isoformat()

    def minute(self, when: datetime) -> str:
        """Return a time in the screen's zone to the minute, ISO 8601."""
        return when.astimezone(self.zone).strftime("%Y-%m-%d %H:%M")

    def interval(self, start: datetime | None, end: datetime | None) -> str:
        """Return the days of a half-open interval, the last one included; without an end it is still so."""
        first = self.day(start)
        if end is None:
            return f"since {first}"
        last = self.last_day(end)
        if first == "?":
            return f"until {last}"
        return first if last <= first else f"{first} to {last}"

    def days(self, one: FactView | TimelineEntry | TreeView) -> tuple[str, str]:
        """Return the first day of something, and the last one; empty if it has no end."""
        return self.day(one.start), "" if one.end is None else self.last_day(one.end)

    def last_day(self, end: datetime) -> str:
        """Return the last day before an exclusive end."""
        return self.day(end - timedelta(microseconds=1))


def columns(*styles: str) -> Table:
    """Return a table without lines, one style per column; the last column takes the room that is left."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for style in styles[:-1]:
        table.add_column(style=style, no_wrap=True)
    table.add_column(style=styles[-1], ratio=1, overflow="fold")
    return table


def draw_facts(
    screen: Screen, found: Sequence[FactView], *, statements: bool = False, ids: bool = False
) -> None:
    """Print facts with their days and sources, and with `statements` the statements that they are found by.

    Records have their ids; a table has them with `ids`.
    """

    def extra(one: FactView) -> list[str]:
        return [one.statement] if statements else []

    screen.table(
        ("green", ""),
        ((screen.day(fact.start), _fact(screen, fact, statements, ids)) for fact in found),
        (
            (*screen.days(one), one.text, one.speaker, sources(one.sources, None), one.fact_id, *extra(one))
            for one in found
        ),
    )


def _fact(screen: Screen, fact: FactView, statements: bool, ids: bool) -> Text:
    parts = _details(screen, fact) + ([fact.fact_id] if ids else [])
    body = with_origin(in_words(fact, 300), " · ".join(parts))
    if statements and fact.spoken:
        body.append(f"\nstatement: {clean(fact.statement, 300)}", style="dim")
    return body


def with_origin(text: str, origin: str = "") -> Text:
    """Return a text with where it comes from on the line below it, if that is told."""
    return Text.assemble(text, (f"\n{origin}" if origin else "", "dim"))


def _details(screen: Screen, fact: FactView) -> list[str]:
    """Return the details of a fact: speaker, sources, end, verdict and wordings."""
    parts = [clean(fact.speaker, 40), sources(fact.sources)]
    if fact.end is not None and screen.last_day(fact.end) > screen.day(fact.start):
        parts.append(f"until {screen.last_day(fact.end)}")
    if fact.superseded_by:
        parts.append(f"then {clean(fact.superseded_by, 40)}")
    if fact.verdict or fact.corrected is not None:
        since = "" if fact.corrected is None else f" on {screen.day(fact.corrected)}"
        parts.append(f"{fact.verdict or 'corrected'}{since if fact.verdict != 'corrected' else ''}")
    if len(fact.wordings) > 1:
        parts.append(f"{len(fact.wordings)} wordings")
    return parts


NAME_CHARS = 22


class Tally:
    """The progress of a write, added up over its sessions.

    A session counts by its turns, as far as its chunks are read; one that was received before counts by its chunks. What
    a session was to be counted by and was not is passed over when it ends, so that a bar moves on.
    """

    def __init__(self) -> None:
        self.unit = "chunks"
        self.name = ""
        """The session of the last report."""
        self.made, self.to_make = 0, 0
        """Summaries."""
        self._announced = 0
        self._ended = 0
        self._weights: dict[tuple[str, str], int] = {}
        self._read: dict[tuple[str, str], float] = {}

    @property
    def total(self) -> int:
        """The number of turns or chunks known so far."""
        return max(self._announced, self._ended + sum(self._weights.values()))

    @property
    def done(self) -> int:
        """The number of turns or chunks that are read."""
        return self._ended + int(sum(self._weights[key] * share for key, share in self._read.items()))

    def add(self, one: IngestProgress) -> None:
        """Count a report of a write."""
        if one.stage == "received":
            self.unit = "turns"
        if one.stage == "refreshed":
            self.made, self.to_make = one.done, one.total
        elif one.session_id is None:
            self._announced += one.total
        else:
            self.name = one.session_id
            self._add_session((one.user_id, one.session_id), one)

    def _add_session(self, key: tuple[str, str], one: IngestProgress) -> None:
        if one.stage == "finished":
            self._read.pop(key, None)
            self._ended += self._weights.pop(key, 0)
            return
        self._weights.setdefault(key, one.total)
        if one.stage == "extracted":
            self._read[key] = (one.done + one.failed) / one.total


Show = Callable[..., None]
"""Shows how far a piece of work has come: its name, how much is done, how much there is, and optionally a text and a unit."""


def _no_bar(*_progress: object, **_more: object) -> None:
    """Show nothing."""


@contextmanager
def progress_bars(*, quiet: bool) -> Iterator[Show]:
    """Show a bar for each piece of work on standard error, if that is a terminal.

    Yields:
        A function to call with what is being done, see `Show`.
    """
    console = error_console()
    if quiet or not console.is_terminal:
        yield _no_bar
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*parts, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int, text: str = "", unit: str = "") -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=None, unit=unit)
            shown = f"{clean(text or name, NAME_CHARS):{NAME_CHARS}}"
            bars.update(tasks[name], completed=done, total=total or None, description=shown, unit=unit)

        yield show


@contextmanager
def write_bar(*, quiet: bool) -> Iterator[Callable[[IngestProgress], object]]:
    """Show the progress of a write on standard error, if that is a terminal.

    Yields:
        A function for `on_progress`.
    """
    with progress_bars(quiet=quiet) as show:
        if show is _no_bar:
            yield _no_bar
            return
        tally = Tally()
        show("Reading", 0, 0)

        def report(one: IngestProgress) -> None:
            tally.add(one)
            show("Reading", tally.done, tally.total, tally.name, tally.unit)
            if tally.to_make:
                show("Summaries", tally.made, tally.to_make, unit="summaries")

        yield report
