"""What a memory is opened with."""

from __future__ import annotations

from dataclasses import dataclass

from memforest.models import Embedder
from memforest.steps.choose import Steps


@dataclass(frozen=True, slots=True)
class Opened:
    """The models and warnings with which a memory is opened. `embedder` is None when there is none, and `warnings` say why."""

    embedder: Embedder | None
    steps: Steps
    threshold: float | None
    warnings: tuple[str, ...] = ()
    cell_turns: int | None = None
    """Configured turns per chunk, where the memory has another number."""
