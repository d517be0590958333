"""What a write tells of each chunk: how it was read, and what was not kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memforest.display import escaped, one_line
from memforest.memory.plain import Result

MOST_REFUSED = 20
"""Statements of a chunk that its report names; `ChunkReport.skipped` has the reasons of all."""


@dataclass(frozen=True, slots=True, repr=False)
class RefusedStatement(Result):
    """A statement of a model that was not kept, cut at 240 characters, the first turn it names, and why.

    What it says was found wanting: `text` is the model's, and may hold anything.
    """

    text: str
    turn_id: str
    reason: str

    def __str__(self) -> str:
        return f'"{escaped(self.text)}" (turn {one_line(self.turn_id)}): {one_line(self.reason)}'


@dataclass(frozen=True, slots=True, repr=False)
class ChunkReport(Result):
    """What became of one chunk: the turn ids it spans, and its outcome."""

    turn_ids: tuple[str, ...]
    status: Literal["extracted", "verbatim", "failed", "left"]
    """``"left"``: not tried, as the budget was used up or the session was deferred."""
    skipped: tuple[tuple[str, str], ...] = ()
    """(turn id, reason) of every piece that became no statement."""
    failure: str | None = None
    refused: tuple[RefusedStatement, ...] = ()
    """The first 20 statements of a model that were not kept."""
