"""The bar that a long write shows: how many turns or chunks are read, and how many summaries are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memforest.cli.screen import clean, error_console

if TYPE_CHECKING:
    from memforest.memory.progress import IngestProgress

NAME_CHARS = 22


class Tally:
    """Adds up what the sessions of a write tell of themselves.

    A session counts by its turns, as far as its chunks are read; one that was received before counts by its chunks. What
    a session was to be counted by and was not is passed over when it ends, so that a bar moves on.
    """

    def __init__(self) -> None:
        self.unit = "chunks"
        self.name = ""
        """The session that was told of last."""
        self.made, self.to_make = 0, 0
        """Summaries."""
        self._announced = 0
        self._ended = 0
        self._weights: dict[tuple[str, str], int] = {}
        self._read: dict[tuple[str, str], float] = {}

    @property
    def total(self) -> int:
        """How many turns or chunks there are, as far as is known."""
        return max(self._announced, self._ended + sum(self._weights.values()))

    @property
    def done(self) -> int:
        """How many of them are read."""
        return self._ended + int(sum(self._weights[key] * share for key, share in self._read.items()))

    def add(self, one: IngestProgress) -> None:
        """Count what a write has told."""
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


@contextmanager
def write_bar(*, quiet: bool) -> Iterator[Callable[[IngestProgress], object]]:
    """Show how far a write has come on standard error, when that is a terminal.

    Yields:
        A function for `on_progress`.
    """
    console = error_console()
    if quiet or not console.is_terminal:
        yield lambda _progress: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
    )
    tally = Tally()
    with Progress(*parts, console=console, transient=True) as bar:
        read = bar.add_task("Reading", total=None, unit="")
        made = bar.add_task(f"{'Summaries':{NAME_CHARS}}", total=None, unit="summaries", visible=False)

        def show(one: IngestProgress) -> None:
            tally.add(one)
            name = f"{clean(tally.name, NAME_CHARS) or 'Reading':{NAME_CHARS}}"
            bar.update(
                read, completed=tally.done, total=tally.total or None, description=name, unit=tally.unit
            )
            if tally.to_make:
                bar.update(made, completed=tally.made, total=tally.to_make, visible=True)

        yield show
