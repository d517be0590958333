"""Whether the server lives, and whether it can serve: for whoever starts and stops it. Without a key."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import cast

from fastapi import Request
from fastapi.responses import JSONResponse

from memforest.access import Access, Principal
from memforest.errors import MemForestError
from memforest.forest.readiness import Readiness
from memforest.rest.routing import strict_router

_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""How long a check may take."""
KEEP_S = 5.0
"""How long its outcome holds, however often it is asked for."""

router = strict_router("health", "")


class Health:
    """Checks whether the server can serve, at most every few seconds, and once however many ask at once.

    Args:
        access: whose memories.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._readiness = Readiness()
        self._looked: float | None = None
        self._problem: str | None = None
        self._one = asyncio.Lock()
        self.draining = False
        """The server is ending."""

    async def problem(self) -> str | None:
        """Return what keeps the server from serving, or None. It names no file and nobody."""
        if self.draining:
            return "draining"
        async with self._one:
            if self._looked is None or time.monotonic() - self._looked > KEEP_S:
                self._problem = await self._check()
                self._looked = time.monotonic()
        return "draining" if self.draining else self._problem

    async def _check(self) -> str | None:
        try:
            await asyncio.wait_for(self._try(), CHECK_S)
        except MemForestError as exc:
            problem = type(exc).__name__
        except asyncio.TimeoutError:
            problem = "Timeout"
        else:
            return None
        _log.warning("not ready: %s", problem)
        return problem

    async def _try(self) -> None:
        async with self._access.forest(Principal()) as forest:
            await self._readiness.check(forest)


@router.get("/livez", operation_id="livez")
async def livez() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    operation_id="readyz",
    response_model=dict[str, str],
    responses={503: {"description": "not ready, or about to end", "model": dict[str, str]}},
)
async def readyz(request: Request) -> JSONResponse:
    """Open a memory and embed one word; say whether both went well, and that the server is not about to end."""
    problem = await cast(Health, request.app.state.health).problem()
    if problem is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "reason": problem}, 503, {"Retry-After": "5"})
