"""Telling how far a long operation has come.

Wall time by step, as results report it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from memforest.plain import Result

T = TypeVar("T")

Report = Callable[[str, int, int], object]
"""Called with what is being made ("vectors", "sessions", ...), how many of them are done, and how many there are in all."""


def no_report(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Progress:
    """Counts the items of one kind, and reports each step.

    Args:
        what: the kind.
        total: how many there are.
        report: called with both and the count.
    """

    what: str
    total: int
    report: Report
    done: int = 0

    def __post_init__(self) -> None:
        if self.total:
            self.report(self.what, 0, self.total)

    def add(self, count: int = 1) -> None:
        """Count so many more."""
        self.done += count
        self.total = max(self.total, self.done)
        self.report(self.what, self.done, self.total)


Stage = Literal["received", "extracted", "refreshed", "finished"]
"""What an `IngestProgress` counts."""


@dataclass(frozen=True, slots=True, repr=False)
class IngestProgress(Result):
    """How far a write has come, in counts: nothing of what was said is in it.

    ``"received"``: the turns of a session that are stored (those that were stored before among them), and those that were
    refused. ``"extracted"``: the chunks of a session that were read, and those that failed; first of all with how many were
    to be read. What the budget does not reach is neither, so the counts may end below the total. ``"refreshed"``: the
    summaries of the memory that are up to date, of those that were out of date; `session_id` is None. ``"finished"``: the
    session is written, or has failed; `total` is 1. The last sessions of a call are finished when the call has done all that
    it does. Of an import, ``"received"`` with a `session_id` of None comes first: how many turns the files hold.
    """

    stage: Stage
    user_id: str
    session_id: str | None
    done: int
    failed: int
    total: int

    def _line(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.stage} {self.done} of {self.total}{failed}"


OnProgress = Callable[[IngestProgress], object]
"""Called with how far a write has come, in the thread of its event loop; what it raises ends the write."""


class _HookRaised(Exception):
    """Carries what a caller's function has raised past those that deal with errors of a write."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(str(raised))
        self.raised = raised


async def as_raised(work: Awaitable[T]) -> T:
    """Return what a write returns; what an `OnProgress` has raised in it comes out as it was raised.

    Raises:
        Exception: just that.
    """
    try:
        return await work
    except _HookRaised as exc:
        raised = exc.raised
    raise raised


@dataclass(frozen=True, slots=True)
class Watch:
    """Tells the caller of a write how far it has come.

    To be used on the event loop alone: in the worker threads transactions are open.

    Args:
        user_id: whose memory is written.
        tell: the caller's function; None tells nobody.
    """

    user_id: str = ""
    tell: OnProgress | None = None

    def say(self, stage: Stage, session_id: str | None, done: int, failed: int, total: int) -> None:
        """Tell how far a stage has come: turns received, chunks extracted, summaries refreshed, or a session finished."""
        if self.tell is not None:
            try:
                self.tell(IngestProgress(stage, self.user_id, session_id, done, failed, total))
            except Exception as exc:
                raise _HookRaised(exc) from exc


NOBODY = Watch()
"""Tells nobody."""


@dataclass(slots=True)
class Timer:
    """Wall milliseconds per step."""

    ms: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, started: float) -> None:
        """Add the time since `started` (of `time.perf_counter`)."""
        self.ms[step] = self.ms.get(step, 0.0) + (time.perf_counter() - started) * 1000

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time that a block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(step, started)
