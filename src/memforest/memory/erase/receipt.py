"""What a deletion returns: how many of each layer went, and how many were changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from memforest.memory.plain import Result

LAYERS = (
    "sessions",
    "turns",
    "cells",
    "facts",
    "occurrences",
    "mentions",
    "states",
    "relations",
    "entities",
    "aliases",
    "choices",
    "trees",
    "leaves",
    "nodes",
    "summaries",
    "vectors",
    "word_rows",
    "corrections",
    "write_keys",
    "jobs",
    "files",
)
"""What is counted, from what was said to what was made of it."""


@dataclass(frozen=True, slots=True, repr=False)
class DeleteReceipt(Result):
    """The result of a deletion. It holds no words and no ids of what went.

    `gone` counts, by layer, the rows that are no longer there: of leaves and nodes, how many fewer there are; of summaries,
    vectors and word rows, those that went, also where they are made anew from what is left. `changed` counts rows that stay and were
    changed: sessions that lost something, turns that lost a sentence, facts that are worded, dated or attributed
    otherwise now, corrections that lost one of their places or words. `indexes` has the
    counts of each index.

    `secure_delete` is what the file says of that pragma: whether what is freed is overwritten at once; None where nothing
    was written. If it is not, the file was written anew (`vacuumed`). `wal_pending` is true while another connection reads an older state: then the
    log still holds it, and `save()`, or closing the memory, finishes. A dry run has written nothing: its counts are
    those that the deletion would have.
    """

    target: str
    gone: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)
    indexes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    dry_run: bool = False
    secure_delete: bool | None = None
    wal_pending: bool = False
    vacuumed: bool = False
    warnings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self.gone.values()) or any(self.changed.values())

    def counts(self) -> DeleteReceipt:
        """Return the counts alone, as they are the same for a dry run and the deletion."""
        return replace(
            self, dry_run=False, wal_pending=False, vacuumed=False, secure_delete=None, warnings=()
        )

    def _line(self) -> str:
        gone = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.gone.items() if count)
        marks = [word for word in ("dry_run", "wal_pending", "vacuumed") if getattr(self, word)]
        return f"{self.target}: {gone or 'nothing'} gone{''.join(f', {mark}' for mark in marks)}"
