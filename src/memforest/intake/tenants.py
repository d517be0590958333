"""The tenants with jobs, found by their directory; files of jobs are kept open for a few, and for all that are busy."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memforest.access import Access, Principal
from memforest.intake.live import TenantJobs
from memforest.intake.rows import JobRows

MOST_IDLE = 32
"""Tenants whose file of jobs stays open although nothing is under way there."""
_FILE = "server/jobs.sqlite"


class Tenants:
    """The jobs of all tenants that are busy, and of those that were used last.

    Args:
        access: says where a tenant's memories are.
        most_of_tenant: users of a tenant that are worked on at once.
    """

    def __init__(self, access: Access, *, most_of_tenant: int) -> None:
        self._access = access
        self._most_of_tenant = most_of_tenant
        self._known: OrderedDict[Path, TenantJobs] = OrderedDict()
        self._inside: Counter[Path] = Counter()

    def all(self) -> list[TenantJobs]:
        """Return the tenants that are known now."""
        return list(self._known.values())

    @contextmanager
    def use(self, who: Principal) -> Iterator[TenantJobs]:
        """Give the jobs of the caller's tenant, which are kept while they are in use."""
        directory = self._access.directory(who)
        tenant = self._known.get(directory)
        if tenant is None:
            tenant = self._known[directory] = TenantJobs(
                background(who.tenant),
                directory,
                JobRows(directory / _FILE),
                asyncio.Semaphore(self._most_of_tenant),
            )
        self._known.move_to_end(directory)
        self._inside[directory] += 1
        try:
            yield tenant
        finally:
            self._inside[directory] -= 1
            self._close_idle()

    def _close_idle(self) -> None:
        surplus = len(self._known) - MOST_IDLE
        for directory, tenant in list(self._known.items()):
            if surplus <= 0:
                return
            if not (self._inside[directory] or tenant.jobs or tenant.tasks):
                tenant.rows.close()
                del self._known[directory], self._inside[directory]
                surplus -= 1

    def clear(self) -> None:
        """Forget all tenants."""
        self._known.clear()


def background(name: str | None) -> Principal:
    """Return who works on a tenant's jobs in the background."""
    return Principal(tenant=name, key="ingest")


def job_files(root: Path) -> list[Path]:
    """Return the files of jobs of a server's directory and of its tenants."""
    found = [root / _FILE, *sorted(root.glob(f"tenants/*/{_FILE}"))]
    return [path for path in found if path.is_file()]
