"""How much of the package one call goes through: the functions that it enters, and the files that they stand in.

Counted are functions of the package with a name or `lambda`, each once however often it is called, in all threads that the call
sets to work; comprehensions are not, as they are part of a function in newer Pythons. The call is made twice before, so
that what is done once (imports, caches) is not in the figures.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

import httpx

from gating.rows import Row, counted
from gating.spent import config
from sizes import PACKAGE

__all__ = ["rows"]

USER = "ana"
SAID = (
    "I moved to Bergen in May and rent a flat near the harbour.",
    "My sister Ines works as a nurse in Porto.",
    "I sold my kayak last week.",
)
QUESTION = "Where did Ana live before Bergen?"


def rows() -> list[Row]:
    """Return the rows of an add, a search, and a delete over REST. To be run in a process that has no thread yet."""
    seen: set[CodeType] = set()
    with recorded(seen), tempfile.TemporaryDirectory(prefix="gates-entered-") as folder:
        made = {
            "one add": _added(folder, seen),
            "one search": _searched(folder, seen),
            "one delete of a session over REST": asyncio.run(_deleted(folder, seen)),
        }
    return [row for name, codes in made.items() for row in _rows(name, codes)]


@contextmanager
def recorded(seen: set[CodeType]) -> Iterator[None]:
    """Put the code of every function that is entered into a set, in this thread and in those that begin meanwhile."""

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def entered(call: Callable[[], object], seen: set[CodeType]) -> set[CodeType]:
    """Return the functions of the package that a call enters."""
    seen.clear()
    call()
    return ours(seen)


def ours(codes: set[CodeType]) -> set[CodeType]:
    """Return those of the package that are functions."""
    return {
        code
        for code in list(codes)
        if code.co_filename.startswith(str(PACKAGE))
        and (code.co_name == "<lambda>" or not code.co_name.startswith("<"))
    }


def _added(folder: str, seen: set[CodeType]) -> set[CodeType]:
    from memforest import MemForest

    with MemForest(folder, config()) as forest:
        user = forest.user(USER)
        for said in SAID[:2]:
            user.add(said)
        return entered(lambda: user.add(SAID[2]), seen)


def _searched(folder: str, seen: set[CodeType]) -> set[CodeType]:
    from memforest import MemForest

    with MemForest(folder, config()) as forest:
        user = forest.user(USER)
        for _ in range(2):
            user.search(QUESTION)
        return entered(lambda: user.search(QUESTION), seen)


async def _deleted(folder: str, seen: set[CodeType]) -> set[CodeType]:
    from memforest import AsyncMemForest
    from memforest.server.rest.app import create_app

    async with AsyncMemForest(folder, config()) as forest:
        app = create_app(forest)
        names = ("first", "second", "third")
        for name in names:
            await forest.user(USER).add(f"{name}: {SAID[1]}", session_id=name)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://here") as client,
        ):
            for name in names:
                seen.clear()
                answer = await client.delete(f"/v1/users/{USER}/sessions/{name}")
                found = ours(seen)
                answer.raise_for_status()
    return found


def _rows(name: str, codes: set[CodeType]) -> Iterator[Row]:
    yield counted(f"{name}: functions entered", "functions", len(codes))
    yield counted(f"{name}: files entered", "files", len({code.co_filename for code in codes}))
