"""`verify(deleted=...)`: looks for texts that were deleted, in all files of a memory and in its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memforest.memory.reports import Problem, VerifyReport
from memforest.store.faults import mapped_errors
from memforest.store.residue import bytes_with, rows_with
from memforest.store.tx import Tx


def with_residue(tx: Tx, path: Path, report: VerifyReport, deleted: Sequence[str]) -> VerifyReport:
    """Return a report with a problem for each place where one of the texts is; texts are named by their number, from 0.

    Args:
        tx: a read transaction.
        path: the memory's file.
        report: what was found otherwise.
        deleted: texts that nothing in the memory is to say.

    Raises:
        StoreError: if a file cannot be read.
    """
    with mapped_errors(path):
        problems = [
            Problem("residue", f"deleted text {at} is in {name!r}, at byte {place}")
            for at, name, place in bytes_with(path, deleted)
        ]
    problems += [
        Problem("residue", f"deleted text {at} is in {place}") for at, place in rows_with(tx, deleted)
    ]
    checked = {**report.checked, "deleted texts": len(deleted)}
    return replace(report, problems=(*report.problems, *problems), checked=checked)
