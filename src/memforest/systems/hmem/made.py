"""What the trees were made by: the least likenesses, and the levels that they have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from memforest.store import meta
from memforest.store.tx import Tx
from memforest.systems.hmem.levels import WEEK
from memforest.systems.hmem.settings import HMemSettings
from memforest.systems.hmem.thresholds import least_likenesses

_MADE = "ix_hmem_made"
"""Entry of `meta`: what the trees were made by, as JSON."""


@dataclass(frozen=True, slots=True)
class Made:
    """The least likenesses, and the highest level."""

    alphas: Sequence[float]
    top: int = WEEK


def made_by(tx: Tx) -> Made | None:
    """Return what the trees were made by; None before the first event."""
    stored = meta.get(tx, _MADE)
    return None if stored is None else Made(**json.loads(stored))


def now(tx: Tx, settings: HMemSettings) -> Made | None:
    """Return what trees would be made by now; None of a memory without an embedder."""
    model = meta.get(tx, "embedder")
    if model is None:
        return None
    return Made(list(least_likenesses(settings, model)))


def note(tx: Tx, made: Made) -> None:
    """Note what the trees are made by."""
    if made_by(tx) != made:
        meta.put(tx, _MADE, json.dumps(asdict(made)))


def forget(tx: Tx) -> None:
    """Forget what the trees were made by, as there are none."""
    meta.remove(tx, _MADE)
