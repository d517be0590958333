"""Work in a savepoint, which may fail without its transaction."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from memforest.store.faults import is_of_file
from memforest.store.tx import Tx
from memforest.text import cut

REASON_CHARS = 300
"""Most of an error that is kept with an index."""


def described(error: Exception) -> str:
    """Return an error of such code in words."""
    return f"failed: {cut(f'{type(error).__name__}: {error}', REASON_CHARS)}"


def named(error: BaseException) -> str:
    """Return an error of such code as a log may have it: its type and where it was raised, without what it says."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    if found is None:
        return type(error).__name__
    return (
        f"{type(error).__name__} in {found.tb_frame.f_globals.get('__name__', '?')}, line {found.tb_lineno}"
    )


class IndexProblem(str):
    """A problem as a caller is told it; `logged` is what a log may have of it, which holds no words of a memory."""

    __slots__ = ("logged",)
    logged: str

    @classmethod
    def of(cls, told: str, logged: str) -> IndexProblem:
        """Return a problem in both forms."""
        made = cls(told)
        made.logged = logged
        return made


def attempt(tx: Tx, work: Callable[[], object]) -> Exception | None:
    """Run work in a savepoint; if it raises, undo what it wrote and return the error.

    It is for code that is not ours: errors of the file go through.

    Raises:
        Error: of the library, if the file cannot be read or written.
        StoreError: if the file cannot be used.
    """
    tx.execute("SAVEPOINT work")
    try:
        work()
    except Exception as exc:  # whatever somebody's code raises, it is returned
        if is_of_file(exc):
            raise
        # A statement that was not read to its end would outlive the savepoint: the frames hold it.
        traceback.clear_frames(exc.__traceback__)
        tx.execute("ROLLBACK TO work")
        tx.execute("RELEASE work")
        return exc
    tx.execute("RELEASE work")
    return None


@contextmanager
def undone(tx: Tx) -> Iterator[None]:
    """Undo at the end of the block what was written in it; an error undoes the transaction as always."""
    tx.execute("SAVEPOINT undone")
    yield
    tx.execute("ROLLBACK TO undone")
    tx.execute("RELEASE undone")


async def attempted(work: Awaitable[object]) -> Exception | None:
    """Await an index's work, which makes its own transactions; return the error that it raises.

    Raises:
        StoreError: if the file cannot be used.
    """
    try:
        await work
    except Exception as exc:
        if is_of_file(exc):
            raise
        return exc
    return None
