"""How alike nodes must be to join, per embedder and level: measured by `scripts/calibrate_memories.py`.

An embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from statistics import median

from memforest.systems.hmem.settings import SCHEDULES, HMemSettings

_LEVELS = ("week", "month", "year")


@cache
def _table() -> dict[str, dict[str, float]]:
    text = files("memforest.data").joinpath("memory_thresholds.json").read_text(encoding="utf-8")
    models: dict[str, dict[str, float]] = json.loads(text)["models"]
    return models


def calibrated(model_id: str) -> tuple[float, ...]:
    """Return the likenesses that are measured for an embedder, for weeks, months and years."""
    table = _table()
    found = table.get(model_id)
    if found is None:
        return tuple(float(median(one[level] for one in table.values())) for level in _LEVELS)
    return tuple(float(found[level]) for level in _LEVELS)


def least_likenesses(settings: HMemSettings, model_id: str) -> Sequence[float]:
    """Return the least likenesses with which events, weeks and months join, -1 to 1."""
    if settings.schedule == "calibrated":
        return calibrated(model_id)
    return SCHEDULES[settings.schedule] if isinstance(settings.schedule, str) else settings.schedule
