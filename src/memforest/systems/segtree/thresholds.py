"""How like a node a leaf must be to join it, per embedder: measured by `scripts/calibrate_segments.py`.

An embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Any


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("memforest.data").joinpath("segment_thresholds.json").read_text(encoding="utf-8")
    models: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return models


def least_likeness(model_id: str, placer: str, leaf_vector: str) -> float:
    """Return the likeness from which on a leaf joins a node, -1 to 1.

    Args:
        model_id: of the embedder.
        placer: ``"centroid"`` or ``"cosine"``.
        leaf_vector: ``"mean"`` or ``"text"``.
    """
    name = f"{placer}_{leaf_vector}"
    found = _table().get(model_id)
    return float(median(float(one[name]) for one in _table().values()) if found is None else found[name])
