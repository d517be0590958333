"""The first page: who has a memory here, and how large it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response

from memforest.memory.directory import file_name
from memforest.ui.paging import Found
from memforest.ui.visit import PAGE, Visit


@dataclass(frozen=True, slots=True)
class Owner:
    """A user, and the bytes of the memory's file with its log; None where that cannot be told."""

    user: str
    bytes: int | None


async def users(visit: Visit) -> Response:
    """Show the users that who looks may see."""
    only = visit.who.user
    if only is not None:
        return visit.go("forest", user=only)
    if not visit.may("admin"):
        return visit.page("users.html", found=Found((), None, None, True), unreadable=0, here="users")
    cursor = visit.given("from")
    page = await visit.forest.users(limit=PAGE, cursor=cursor)
    owners = await asyncio.to_thread(_owners, visit.forest.directory, page.users)
    found = Found(owners, None, page.next_cursor, cursor is None)
    return visit.page("users.html", found=found, unreadable=len(page.unreadable), here="users")


def _owners(directory: Path, users: Sequence[str]) -> list[Owner]:
    """Return users with the sizes of their files; no memory is opened for that."""
    return [Owner(one, _size(directory / file_name(one))) for one in users]


def _size(path: Path) -> int | None:
    total = 0
    try:
        total = path.stat().st_size
        total += path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return total or None
    except OSError:
        return None
    return total
