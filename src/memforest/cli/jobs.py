"""Due work of a memory's indexes, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest.cli.screen import clean

if TYPE_CHECKING:
    from memforest.memory.results import JobsView

REASON_CHARS = 160


def job_lines(found: JobsView) -> list[str]:
    """Return the counts of jobs in a line, and a line for each of the first that were given up; none without jobs."""
    if not found.states:
        return []
    counts = ", ".join(f"{count} {state}" for state, count in found.states.items())
    due = ""
    if found.oldest_due is not None:
        number = f"{found.due} " if found.due else ""
        due = f", {number}due since {found.oldest_due:%Y-%m-%d %H:%M} UTC"
    ended = f", {found.expired} left by a process that ended" if found.expired else ""
    failed = [
        f"gave up {one.kind} {one.key} of {one.owner} after {one.tries} tries: {one.reason}"
        for one in found.failed
    ]
    return [clean(counts + due + ended), *(clean(line, REASON_CHARS) for line in failed)]
