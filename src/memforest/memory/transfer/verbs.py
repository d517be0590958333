"""Export and import of one memory: the file outside, the transaction inside, in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memforest.concurrency import in_thread
from memforest.errors import InputError
from memforest.memory.memory import Memory
from memforest.memory.transfer.export import write_export
from memforest.memory.transfer.lines import LineReader
from memforest.memory.transfer.results import ExportResult, MemoryImport
from memforest.memory.transfer.take_in import TakeIn
from memforest.store.faults import mapped_errors
from memforest.store.publish import new_file

Target = str | Path | BinaryIO
Source = str | Path | BinaryIO


def exported_user(path: Path) -> str:
    """Return the id of the user whose memory an export is of.

    Raises:
        InputError: if it is no export.
    """
    with _opened_for_reading(path) as (file, name):
        user = LineReader(file, name).header.get("user_id")
    if not isinstance(user, str) or not user:
        raise InputError(f"{name} does not say whose memory it is; name a user")
    return user


async def export_memory(
    memory: Memory, target: Target, *, version: str, vectors: bool, summaries: bool, overwrite: bool
) -> ExportResult:
    """Write a memory into a file; see `AsyncUserMemory.export`."""

    def work(check: Callable[[], None]) -> ExportResult:
        with _opened_for_writing(target, overwrite) as out, memory.db.read() as tx:
            written = write_export(
                tx,
                out,
                memory.attached,
                version=version,
                now=memory.config.clock(),
                vectors=vectors,
                summaries=summaries,
                check=check,
            )
        path = str(target) if isinstance(target, (str, Path)) else None
        sessions, turns, facts = _counts(written.rows)
        return ExportResult(memory.user_id, path, sessions, turns, facts, written.bytes, written.rows)

    return await in_thread(work)


@contextmanager
def _opened_for_writing(target: Target, overwrite: bool) -> Iterator[BinaryIO]:
    if not isinstance(target, (str, Path)):
        with mapped_errors(Path(_name_of(target))):
            yield target
            target.flush()
        return
    with new_file(Path(target), overwrite=overwrite) as path, path.open("wb") as out:
        yield out


async def import_memory(
    memory: Memory, source: Source, embedder: Callable[[str], str | None]
) -> tuple[MemoryImport, bool]:
    """Read an export into a memory that was never written; see `AsyncUserMemory.import_`.

    Args:
        memory: a new one.
        source: the export.
        embedder: returns the id of the embedder with which a memory made with a given one is opened.

    Returns:
        What was stored, and whether the memory had vectors where it was exported.
    """

    def work(check: Callable[[], None]) -> tuple[MemoryImport, bool]:
        with _opened_for_reading(source) as (file, name):
            lines = LineReader(file, name)
            made_with = (lines.header.get("settings") or {}).get("embedder")
            here = embedder(made_with) if isinstance(made_with, str) else None
            with memory.db.write() as tx:
                job = TakeIn(tx, memory.attached, lines, here, check)
                rows = job.run()
        damaged, warnings = tuple(job.damaged), tuple(job.warnings)
        result = MemoryImport(memory.user_id, *_counts(rows), damaged=damaged, warnings=warnings, rows=rows)
        return result, made_with is not None

    return await in_thread(work)


def _name_of(stream: BinaryIO) -> str:
    return str(getattr(stream, "name", "the stream"))


def _counts(rows: Mapping[str, int]) -> tuple[int, int, int]:
    """Return how many sessions, turns and facts there are."""
    return rows.get("session", 0), rows.get("turn", 0), rows.get("fact", 0)


@contextmanager
def _opened_for_reading(source: Source) -> Iterator[tuple[BinaryIO, str]]:
    """Open an export; give the file, and what it is called in messages.

    Raises:
        InputError: if there is none.
        StoreWriteError: if it cannot be read.
    """
    if not isinstance(source, (str, Path)):
        with mapped_errors(Path(_name_of(source))):
            yield source, _name_of(source)
        return
    path = Path(source)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    with mapped_errors(path), path.open("rb") as file:
        yield file, repr(path.name)
