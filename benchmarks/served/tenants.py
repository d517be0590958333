"""Many tenants with some users each: files held open, and the resident set, while all are used."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Mapping
from pathlib import Path

from memforest import Config
from memforest.server.auth import Scope
from memforest.server.keys import KeyStore
from served.http import Connection, call
from served.processes import Server, serving

__all__ = ["crowd"]

LANES = 8
LOOKS = 20


async def crowd(
    directory: Path, tenants: int, users: int, config: Config, minutes: float = math.inf
) -> list[Mapping[str, object]]:
    """Let each tenant's users add a turn and ask for it, in a shuffled order, and return what was seen on the way.

    Args:
        directory: of the server.
        tenants: how many, with a key each.
        users: of each tenant.
        config: of the server.
        minutes: begin no further tenth of them after that.
    """
    store = KeyStore(directory)
    scopes = frozenset[Scope](("read", "write"))
    keys = [store.create(f"key {n}", tenant=f"tenant {n}", scopes=scopes).key for n in range(tenants)]
    store.close()
    calls = [(key, f"user {n}") for key in keys for n in range(users)]
    rng = random.Random(5)
    rng.shuffle(calls)
    rows: list[Mapping[str, object]] = []
    options = ["--rate", "none", "--tenant-rate", "none"]
    with serving(directory, options, MEMFOREST_EMBEDDER=str(config.embedder)) as server:
        began = time.perf_counter()
        size = max(len(calls) // LOOKS, 1)
        for at in range(0, len(calls), size):
            if time.perf_counter() - began > minutes * 60:
                break
            waiting = calls[at : at + size]
            await asyncio.gather(*(_lane(server, waiting) for _ in range(LANES)))
            rows.append(
                {
                    "memories used": min(at + size, len(calls)),
                    "open files": server.open_files,
                    "resident MB": server.resident_mb,
                    "seconds": time.perf_counter() - began,
                }
            )
    return rows


async def _lane(server: Server, waiting: list[tuple[str, str]]) -> None:
    while waiting:
        key, user = waiting.pop()
        name = user.replace(" ", "%20")
        async with Connection(server.host, server.port, key) as connection:
            body = {"content": f"I live in {user}burg.", "timestamp": "2025-05-05T10:00:00Z"}
            await call(connection, "POST", f"/v1/users/{name}/messages", body)
            found = await call(connection, "POST", f"/v1/users/{name}/search", {"question": "live where?"})
            if not found["evidence"]:
                raise RuntimeError(f"{user} was not found again")
