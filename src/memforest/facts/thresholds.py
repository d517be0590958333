"""The least cosine at which two statements may be one fact, per embedder.

A cosine means different things to different models, so the values come from `scripts/calibrate_merge.py`,
which measures each on pairs that must merge and pairs that must not. An embedder without a calibration
merges exact matches only.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

JUDGE_BELOW = 0.03
"""How far below the least merging cosine a pair may be and still be put to a judge, who reads what rules cannot."""
UNMEASURED = 0.93
"""Least cosine that is put to a judge with an embedder that was not measured (reference configuration:
fact_manager.similarity_threshold)."""


@cache
def _table() -> dict[str, float]:
    text = files("memforest.data").joinpath("merge_thresholds.json").read_text(encoding="utf-8")
    return {model: float(entry["threshold"]) for model, entry in json.loads(text)["models"].items()}


def merge_threshold(model_id: str) -> float | None:
    """Return the calibrated threshold of an embedder in [0, 1], or None when it has none."""
    return _table().get(model_id)


def judge_threshold(model_id: str) -> float:
    """Return the least cosine at which two statements are put to a judge, in [0, 1]."""
    merging = merge_threshold(model_id)
    return UNMEASURED if merging is None else merging - JUDGE_BELOW
