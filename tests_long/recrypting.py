"""Encrypts, decrypts or rekeys a file in a process that is killed at one chosen step, as `kill -9` does.

Started as a program: `recrypting.py FILE KEY NEW_KEY STEP`, with keys in hexadecimal digits and ``-`` for none. A step is
something that the process does in the file system, or a statement of SQL of the copy; it dies before the one with that
number. It prints the number of steps when it lives.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from memforest.protection import Key
from memforest.store import upkeep

__all__ = ["watch"]

EVENTS = ("open", "os.rename", "os.link", "os.remove", "sqlcipher3.connect")


def watch(folder: Path, step: Callable[[], None]) -> None:
    """Call a function before each of the steps that this process takes in a directory, and before each fsync."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in EVENTS and str(folder) in str(args[0]):
            step()

    def counted(number: int) -> None:
        step()
        fsync(number)

    def within(*args: Any) -> Any:
        step()
        made = attached(*args)
        step()
        return made

    fsync, attached = os.fsync, upkeep._attached
    os.fsync = counted  # type: ignore[assignment]
    upkeep._attached = within  # type: ignore[assignment]
    sys.addaudithook(hook)


def main() -> None:
    """Do it, and say how many steps it took."""
    path, last, numbers = Path(sys.argv[1]), int(sys.argv[4]), count()

    def step() -> None:
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    have, want = (None if one == "-" else Key(one) for one in sys.argv[2:4])
    watch(path.parent, step)
    upkeep.recrypt(path, have, want, timeout_s=5)
    sys.stdout.write(str(next(numbers)))


if __name__ == "__main__":
    main()
