"""The tenth migration: due work as rows."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0010_jobs"]

_JOBS = (
    # A key names a piece of work among those of one owner for ever, so a job that is done stays. A state that cannot be
    # is found by `verify` and mended; a CHECK would make it damage of the file, of which nothing is mended.
    """CREATE TABLE job (
        id INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        key TEXT NOT NULL,
        kind TEXT NOT NULL,
        payload TEXT NOT NULL,
        due_ms INTEGER NOT NULL,
        state TEXT NOT NULL,
        tries INTEGER NOT NULL,
        holder TEXT,
        lease_until_ms INTEGER,
        reason TEXT,
        UNIQUE (owner, key)
    ) STRICT""",
    "CREATE INDEX job_open ON job (state, due_ms) WHERE state != 'done'",
)


def m0010_jobs(tx: Tx) -> None:
    """Make the table of jobs."""
    for statement in _JOBS:
        tx.execute(statement)
