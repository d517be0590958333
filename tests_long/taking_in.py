"""A double of a forest that takes sessions in, at a pace that a test sets, and of what lets several tenants have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests_long.worlds import fast_config

from memforest.errors import InputError, MemForestError, RateLimitError, StoreError
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import Access, Principal
from memforest.store.directory import file_name
from memforest.write.turns import check_id

__all__ = ["Taking", "Tenants", "request"]


def request(user: str, session: str, *texts: str) -> dict[str, Any]:
    """Return a request of `ingest_parallel`."""
    return {"user_id": user, "session_id": session, "turns": [{"content": text} for text in texts or ("x",)]}


@dataclass
class Taking:
    """Stands in for `AsyncMemForest`: `ingest_parallel(defer=True)` and `resume` with what they tell of their progress."""

    directory: Path
    config: Any = field(default_factory=fast_config)
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    """User -> session -> turns that are received and not memory yet."""
    made: dict[str, list[str]] = field(default_factory=dict)
    """User -> sessions of which memory was made."""
    resumed: list[str] = field(default_factory=list)
    budgets: list[Any] = field(default_factory=list)
    errors: dict[str, list[MemForestError | Exception]] = field(default_factory=dict)
    """User -> what the next calls of `resume` end with."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    """`resume` waits for it at its begin."""
    at_work: int = 0
    most_at_work: int = 0
    ingest: Callable[[], None] = lambda: None

    async def ingest_parallel(self, requests: Sequence[Mapping[str, Any]], *, defer: bool) -> list[Any]:
        """Receive sessions."""
        assert defer
        self.ingest()
        results: list[Any] = []
        for one in requests:
            try:
                for name in ("user_id", "session_id"):
                    check_id(one.get(name), name)
                if not one["turns"]:
                    raise InputError("the session has no turns")
            except InputError as exc:
                results.append(exc)
                continue
            (self.directory / file_name(one["user_id"])).touch()
            self.left.setdefault(one["user_id"], {})[one["session_id"]] = len(one["turns"])
            results.append(SimpleNamespace(turns_added=len(one["turns"])))
        return results

    async def resume(self, user_id: str, *, budget: Any = None, on_progress: Any = None) -> list[Any]:
        """Make memory of what was received."""
        self.resumed.append(user_id)
        self.budgets.append(budget)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await self.go.wait()
            if self.errors.get(user_id):
                raise self.errors[user_id].pop(0)
            for session, turns in list(self.left.get(user_id, {}).items()):
                tell = {"user_id": user_id, "session_id": session, "failed": 0, "total": turns}
                for done in range(turns + 1):
                    on_progress(SimpleNamespace(stage="extracted", done=done, **tell))
                    await asyncio.sleep(0)
                on_progress(SimpleNamespace(**{**tell, "stage": "finished", "done": 1, "total": 1}))
                del self.left[user_id][session]
                self.made.setdefault(user_id, []).append(session)
            on_progress(SimpleNamespace(stage="refreshed", session_id=None, done=2, failed=0, total=2))
        finally:
            self.at_work -= 1
        return []


class Tenants:
    """Stands in for `Access`: a forest for each tenant, and a bound of the ingests of each."""

    def __init__(self, root: Path, *, most: int = 10) -> None:
        self.root = root
        self.forests: dict[str | None, Taking] = {}
        self.most = most
        self.ingests: dict[str | None, int] = {}
        self.broken: StoreError | None = None

    def taking(self, tenant: str | None = None) -> Taking:
        """Return the double of a tenant's forest."""
        if tenant not in self.forests:
            directory = self.directory(Principal(tenant=tenant))
            directory.mkdir(parents=True, exist_ok=True)
            self.forests[tenant] = Taking(directory)
        return self.forests[tenant]

    def directory(self, principal: Principal) -> Path:
        """Return where the memories of a tenant are."""
        return self.root if principal.tenant is None else self.root / "tenants" / f"t-{principal.tenant}"

    @asynccontextmanager
    async def ingesting(self, principal: Principal) -> AsyncIterator[None]:
        """Count an ingest."""
        tenant = principal.tenant
        if self.ingests.get(tenant, 0) >= self.most:
            raise RateLimitError("too many ingests", retry_after_s=0.05)
        self.ingests[tenant] = self.ingests.get(tenant, 0) + 1
        try:
            yield
        finally:
            self.ingests[tenant] -= 1

    @asynccontextmanager
    async def forest(self, principal: Principal) -> AsyncIterator[AsyncMemForest]:
        """Give the double of a tenant's forest."""
        if self.broken is not None:
            raise self.broken
        yield cast(AsyncMemForest, self.taking(principal.tenant))

    async def close(self) -> None:
        """Close nothing: the doubles hold no file."""

    def access(self) -> Access:
        """Return this as what it stands in for."""
        return cast(Access, self)
