"""Jobs of an owner that have failed: why, and trying them again now."""

from __future__ import annotations

from memforest.store.jobs import MOST_TRIES, REOPEN, DueJob
from memforest.store.tx import Tx

# The first condition is that of the index of jobs that are not done, and `+` keeps the one of owners from being taken.
_FAILED = "state != 'done' AND (state = 'failed' OR (state = 'waiting' AND tries > 0 AND reason IS NOT NULL))"


def hurry(tx: Tx, owner: str, *, now_ms: int) -> int:
    """Make the jobs of an owner due now that have failed, also those that were given up; return how many. Reasons are kept."""
    return tx.execute(
        f"""{REOPEN}, tries = min(tries, :tries), due_ms = min(due_ms, :now) WHERE +owner = :owner AND {_FAILED}""",
        {"tries": MOST_TRIES - 1, "now": now_ms, "owner": owner},
    ).rowcount


def failures(tx: Tx, owner: str) -> list[DueJob]:
    """Return the jobs of an owner that have failed and are not done, also those that were given up, with the reason for a payload."""
    rows = tx.execute(
        f"""SELECT key, kind, due_ms, reason, tries FROM job
            WHERE +owner = ? AND {_FAILED} ORDER BY due_ms, id""",
        (owner,),
    )
    return [DueJob(key, kind, ms, {"reason": reason}, tries) for key, kind, ms, reason, tries in rows]
