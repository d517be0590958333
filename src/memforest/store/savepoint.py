"""Work in a savepoint, which may fail without its transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
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
