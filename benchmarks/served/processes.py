"""Servers of memforest as processes of their own, and what the system says of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Server", "command", "serving"]

STOP_S = 40.0


def command(*words: str) -> list[str]:
    """Return a command of memforest as the words of a process."""
    return [sys.executable, "-m", "memforest", *words]


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    pid: int
    host: str
    port: int

    @property
    def resident_mb(self) -> float:
        """The resident set of its process, in MB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def open_files(self) -> int:
        """Files that its process holds open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@contextmanager
def serving(directory: Path, options: Sequence[str] = (), **environment: str) -> Iterator[Server]:
    """Run `memforest serve` on a free port for as long as the context lasts.

    Raises:
        RuntimeError: if it does not start.
    """
    process = subprocess.Popen(
        command("serve", "--dir", str(directory), "--port", "0", "--json", *options),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start; it ended with {process.wait()}")
        told = json.loads(line)
        data = told.get("data", told)
        yield Server(process.pid, data["host"], data["port"])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
