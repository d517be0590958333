"""Terminal output. Stored text is untrusted: it is cleaned of controls and never read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memforest.display import one_line, ordinals
from memforest.search.budget import quotation

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memforest.memory.results import Evidence, FactView, Source, TimelineEntry, TreeView


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
    """Return how many leaves are below a node, and which ones if the tree has them numbered; of a leaf its number alone."""
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
    return clean(quotation(one.spoken) if one.spoken else one.text, limit)


def error_console() -> Console:
    """Return the console of standard error, which reads no markup."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


class _Console(Console):
    """A console that leaves it to `Call.show` what becomes of a reader who has gone."""

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

    def record(self, *columns: str) -> None:
        """Print columns as one line; no column has a tab or a line break of its own."""
        click.echo("\t".join(clean(column) for column in columns))

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
        """Print something made of `rich` parts; its texts must have been cleaned. A table's rows are records."""
        if self.records and isinstance(renderable, Table):
            cells = [
                [str(cell).replace("\n", " ").strip() for cell in column.cells]
                for column in renderable.columns
            ]
            for row in zip(*cells, strict=True):
                self.record(*row)
            return
        self.console.print(renderable)

    def day(self, when: datetime | None) -> str:
        """Return a time's day in the screen's zone, ISO 8601; a question mark for one that is not known."""
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
