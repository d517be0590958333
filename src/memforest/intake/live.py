"""The jobs of one tenant that have not ended: which users they wait for, what was made since it was stored, and who watches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from memforest.access import Principal
from memforest.endpoint import Budget
from memforest.intake.rows import JobRows
from memforest.intake.stored import JobRow
from memforest.keys import Key
from memforest.memory.directory import file_name, is_own_name, memory_files, owner_of


def hash_of(user_id: str) -> str:
    """Return what a user is called in a job: the hash that ends the name of the memory's file.

    Example:
        >>> file_name("Alice Example").endswith(hash_of("Alice Example") + ".db"), len(hash_of("x"))
        (True, 20)
    """
    return _hash(file_name(user_id))


def _hash(name: str) -> str:
    return name.removesuffix(".db").rpartition("-")[2]


def digest_of(user_id: str, session_id: str) -> str:
    """Return what a session is called in a job."""
    whose = blake2b(user_id.encode(), digest_size=32, person=b"session").digest()  # of ids of any length
    return blake2b(session_id.encode(), digest_size=12, key=whose, person=b"session").hexdigest()


def user_of(directory: Path, found: str, key: Key | None) -> str | None:
    """Return the user with a hash, read from the memory's file; None when there is no such memory any more.

    Raises:
        StoreError: if the file cannot be read.
    """
    for path in memory_files(directory):
        if is_own_name(path.name) and _hash(path.name) == found:
            return owner_of(path, key)
    return None


@dataclass(slots=True)
class LiveJob:
    """A job that has not ended."""

    number: int
    id: str
    digests: frozenset[str]
    budget: Budget | None = None
    state: str = "queued"
    chunks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Digest of a session -> chunks done, failed and in all; like the two that follow, what is not stored yet."""
    finished: set[str] = field(default_factory=set)
    refreshed: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    flushing: asyncio.Task[None] | None = None
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, row: JobRow, digests: frozenset[str]) -> LiveJob:
        """Return a job as it was stored."""
        bounds = (row.max_calls, row.max_tokens)
        budget = None if bounds == (None, None) else Budget(*bounds)
        return cls(row.number, row.id, digests, budget)

    def notify(self) -> None:
        """Wake all who watch the job."""
        woken, self.wake = self.wake, asyncio.Event()
        woken.set()


@dataclass(slots=True)
class Run:
    """Memory is being made of what was received of one user, for these jobs."""

    jobs: set[int]
    work: asyncio.Future[object] | None = None
    refreshed: int = 0
    """Summaries that it has made."""


@dataclass(slots=True)
class TenantJobs:
    """The jobs of one tenant that have not ended. Users are called by their hash."""

    who: Principal
    directory: Path
    rows: JobRows
    gate: asyncio.Semaphore
    jobs: dict[int, LiveJob] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    """Hash -> user id, in this process's memory alone."""
    pending: dict[str, set[int]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def forget(self, number: int) -> list[Run]:
        """Take a job out of everything that is to be done; return the runs that nobody needs any more."""
        for waiting in self.pending.values():
            waiting.discard(number)
        idle = []
        for run in self.runs.values():
            if number in run.jobs:
                run.jobs.discard(number)
                if not run.jobs:
                    idle.append(run)
        return idle
