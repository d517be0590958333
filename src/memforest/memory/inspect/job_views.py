"""Jobs as `stats` and `verify` show them."""

from __future__ import annotations

from datetime import datetime

from memforest.interval import from_ms, to_ms
from memforest.memory.inspect.stored import FailedJobView, JobsView
from memforest.store import job_checks
from memforest.store.tx import Tx
from memforest.text import cut


def jobs_view(tx: Tx, now: datetime) -> JobsView:
    """Return the counts of jobs as of a time, and the first that were given up."""
    found = job_checks.count(tx, now_ms=to_ms(now))
    return JobsView(
        states=found.states,
        oldest_due=None if found.oldest_due_ms is None else from_ms(found.oldest_due_ms),
        expired=found.expired,
        due=found.due,
        failed=tuple(FailedJobView(*one) for one in found.failed),
    )


def given_up(tx: Tx) -> list[str]:
    """Return the first jobs that were given up, in words, each with its reason."""
    return [
        f"job {cut(repr(one.key), 60)} of {cut(repr(one.owner), 60)} was given up after {one.tries} tries: "
        f"{one.reason}; resume() tries once more"
        for one in job_checks.given_up(tx)
    ]
