"""Runs memories in forked processes and kills them, as `kill -9` does, at one chosen write.

Started as a program by `test_memory_crash`, once; it imports everything, then forks for every job it reads
from its standard input (a line of JSON) and answers with the signal that ended the child and the number of
writes it had begun. The children call the public surface; only the moment of death is put into the store.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.worlds import eager_config

from memforest import AsyncMemForest
from memforest.steps.local.extract import LocalExtractor
from memforest.store.db import Database, Tx


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
    async with AsyncMemForest(job["folder"], eager_config()) as forest:
        for session_id, turns, replace in job["calls"]:
            await forest.ingest_session("u", session_id, turns, replace=replace)
            os.write(log, b"a")


def main() -> None:
    """Answer jobs until the input ends."""
    LocalExtractor(timezone=eager_config().zone)  # loads its tables before the first fork
    for line in sys.stdin:
        job = json.loads(line)
        reading, log = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            kill_at(job["at"], job["moment"], log)
            asyncio.run(ingest(job, log))
            os._exit(0)
        os.close(log)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as notes:
            said = notes.read()
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        sys.stdout.write(json.dumps([ended, said.count(b"w"), said.count(b"a")]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
