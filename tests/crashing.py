"""Runs memories in forked processes and kills them, as `kill -9` does, at one chosen write or after some time.

Started as a program by `Crasher`, once; it imports everything, then forks for every job it reads
from its standard input (a line of JSON) and answers with the signal that ended the child and the number of
writes it had begun. The children call the public surface; only the moment of death is put into the store.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.dummy_index.index import Dummy
from tests.shelf import ShelfIndex
from tests.worlds import eager_config

from memforest import AsyncMemForest
from memforest.memory.merge import run
from memforest.steps.local.extract import LocalExtractor
from memforest.store.db import Database
from memforest.store.tx import Tx
from memforest.systems import base, registry
from memforest.systems.memforest import merge as grafts

Call = tuple[str, list[dict[str, Any]], bool]


class Crasher:
    """The process that forks and kills."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, folder: str, calls: list[Call], at: int, moment: str = "after", **settings: Any
    ) -> tuple[int, int, int]:
        """Make the calls in a child that dies at write `at`; return (signal, writes begun, calls acknowledged)."""
        return self._run({"folder": folder, "calls": calls, "at": at, "moment": moment, "settings": settings})

    def index(
        self,
        folder: str,
        *,
        step: int,
        within_s: float | None = None,
        at: int = -1,
        moment: str = "after",
        drop: bool = False,
    ) -> tuple[int, int]:
        """Bring the dummy index on in a child that dies at a write or after a time; return (signal, writes begun).

        It is added, or goes on where it was left, or begins anew where it is complete, `step` notes a transaction; with
        `drop` it is dropped.
        """
        job = {"folder": folder, "step": step, "within_s": within_s, "at": at, "moment": moment, "drop": drop}
        return self._run(job)[:2]

    def merge(
        self, folder: str, source: str, target: str, *, turns: int, at: int = -1, moment: str = "after"
    ) -> tuple[int, int]:
        """Merge one user's memory into another's in a child that dies at a write; return (signal, writes begun).

        Args:
            folder: of both.
            source: whose memory.
            target: into whose.
            turns: most turns that are copied in one transaction, and leaves.
            at: number of the write; -1 for none.
            moment: before its commit, or after.
        """
        job = {"folder": folder, "merge": [source, target], "turns": turns, "at": at, "moment": moment}
        return self._run(job)[:2]

    def _run(self, job: dict[str, Any]) -> tuple[int, int, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        ended, writes, acknowledged = json.loads(self._process.stdout.readline())
        return ended, writes, acknowledged

    def close(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def die() -> None:
    """End this process without any clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(number: int, moment: str, log: int) -> None:
    """Let the process die at its write with that number: just before its commit, or just after."""
    write, numbers = Database.write, count()

    @contextmanager
    def counted(self: Database) -> Iterator[Tx]:
        mine = next(numbers)
        os.write(log, b"w")
        with write(self) as tx:
            yield tx
            if mine == number and moment == "before":
                die()
        if mine == number:
            die()

    Database.write = counted  # type: ignore[method-assign]


async def ingest(job: dict[str, Any], log: int) -> None:
    """Make the calls of a job, and note each one that came back."""
    async with AsyncMemForest(job["folder"], eager_config(**job["settings"])) as forest:
        for session_id, turns, replace in job["calls"]:
            await forest.ingest_session("u", session_id, turns, replace=replace)
            os.write(log, b"a")


async def index(job: dict[str, Any]) -> None:
    """Add the dummy index, let it go on where it was left, or begin anew; or drop it."""
    base.STEP = job["step"]
    async with AsyncMemForest(job["folder"], eager_config()) as forest:
        memory = forest.user("u")
        found = {one.name: one for one in await memory.indexes()}
        if job["drop"]:
            await memory.drop_index("dummy")
        elif "dummy" not in found:
            await memory.add_index("dummy")
        elif found["dummy"].lag:
            await forest.resume("u")
        else:
            await memory.rebuild(index="dummy")
        await memory.flush()


async def merge(job: dict[str, Any]) -> None:
    """Merge one memory into another, few turns and leaves at a time."""
    run.BATCH_TURNS = grafts.MOST_LEAVES = base.STEP = job["turns"]
    source, target = job["merge"]
    async with AsyncMemForest(job["folder"], eager_config()) as forest:
        await forest.user(target).merge(source)


def notes_of(child: int, reading: int, within_s: float | None) -> bytes:
    """Return what a child noted; it is killed if it takes longer than that."""
    noted, deadline = b"", None if within_s is None else time.monotonic() + within_s
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], left)[0]:
            os.kill(child, signal.SIGKILL)
            deadline = None
        elif part := os.read(reading, 4096):
            noted += part
        else:
            return noted


def main() -> None:
    """Answer jobs until the input ends."""
    LocalExtractor(timezone=eager_config().zone)  # loads its tables before the first fork
    for one in (Dummy, ShelfIndex):
        registry.register(one)
    for line in sys.stdin:
        job = json.loads(line)
        reading, log = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            kill_at(job["at"], job["moment"], log)
            asyncio.run(ingest(job, log) if "calls" in job else merge(job) if "merge" in job else index(job))
            os._exit(0)
        os.close(log)
        said = notes_of(child, reading, job.get("within_s"))
        os.close(reading)
        _, status = os.waitpid(child, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        sys.stdout.write(json.dumps([ended, said.count(b"w"), said.count(b"a")]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
