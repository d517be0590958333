"""What export, import and backup return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memforest.memory.plain import Result


@dataclass(frozen=True, slots=True, repr=False)
class ExportResult(Result):
    """What an export wrote: sessions, turns, facts, bytes; `rows` counts all of its records by name.

    `path` is None when it went to a stream.
    """

    user_id: str
    path: str | None
    sessions: int
    turns: int
    facts: int
    bytes: int
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryImport(Result):
    """What an import stored; `rows` counts all records of the file by name.

    `embedded` counts the texts whose vectors were made here. `damaged` names turns that were damaged before they were
    exported; they are stored as they were, and left out of evidence.
    """

    user_id: str
    sessions: int
    turns: int
    facts: int
    embedded: int = 0
    damaged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class BackupResult(Result):
    """What a backup holds, as read back from it: sessions, turns, facts, bytes.

    `damaged` names turns that are damaged in the memory too (`verify`).
    """

    user_id: str
    path: str
    sessions: int
    turns: int
    facts: int
    bytes: int
    damaged: tuple[str, ...] = ()
