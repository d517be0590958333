"""What other processes do to a directory of memories, and how a test starts, hears and kills them.

The children are forked from one process that has imported the package, which is the dear part of a start.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.contract.talk import opened

__all__ = ["Child", "deletes", "deletes_user", "started", "writes"]

_HOW = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_CONTEXT: Any = multiprocessing.get_context(_HOW)
if _HOW == "forkserver":
    _CONTEXT.set_forkserver_preload([__name__])


class Child:
    """A process beside this one.

    Args:
        process: it.
        hears: what it tells comes here.
    """

    def __init__(self, process: Any, hears: Connection) -> None:
        self._process, self._hears = process, hears

    def told(self) -> Any:
        """Return the next thing that it tells; None when it has ended."""
        try:
            return self._hears.recv() if self._hears.poll(50) else "nothing for a long time"
        except EOFError:
            return None

    def kill(self) -> list[Any]:
        """End it at once, and return what it told before."""
        self._process.kill()
        self._process.join()
        left = []
        while (word := self.told()) is not None:
            left.append(word)
        return left

    def ended(self) -> int | None:
        """Wait until it has ended, and return its status."""
        self._process.join(50)
        return self._process.exitcode  # type: ignore[no-any-return]


@contextmanager
def started(work: Callable[..., None], folder: Path, *args: Any) -> Iterator[Child]:
    """Run a function of this module in a process of its own, on a directory."""
    hears, tells = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=work, args=(tells, folder, *args), daemon=True)
    process.start()
    tells.close()
    try:
        yield Child(process, hears)
    finally:
        process.kill()
        process.join()
        hears.close()


def writes(tells: Connection, folder: Path, turns: int, indexes: Sequence[str] = ("memforest",)) -> None:
    """Add turns, four a session, and tell of each when the call has returned."""
    with opened(folder, indexes=tuple(indexes)) as forest:
        for at in range(turns):
            turn = {"speaker": "Bo", "content": f"I own loom {at}. I like song {at}.", "id": f"b{at}"}
            forest.user("u").add(turn, session_id=f"b{at // 4}")
            tells.send(at)


def deletes(tells: Connection, folder: Path, session: str) -> None:
    """Delete a session of Anna's, tell before and behind it, and wait to be killed."""
    with opened(folder) as forest:
        memory = forest.user("anna")
        memory.sessions()
        tells.send("begun")
        memory.delete(session_id=session)
        tells.send("done")
        multiprocessing.Event().wait(50)


def deletes_user(tells: Connection, folder: Path, text: str) -> None:
    """Delete Anna's memory and begin a new one."""
    with opened(folder) as forest:
        forest.delete_user("anna")
        forest.user("anna").add(text, session_id="new")
    tells.send("done")
