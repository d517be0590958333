"""The likenesses at which facts are one scene, per embedder.

They come from `scripts/calibrate_scenes.py`, as quantiles of the likeness of facts that have nothing to do
with one another. An embedder without a calibration gets the strictest of those measured: what is taken off
as background makes likenesses of different models comparable, and a scene too many costs nothing but tidiness.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files

from memforest.systems.memforest.clusters import SceneThresholds
from memforest.systems.memforest.settings import DEFAULTS, MemForestSettings

_FIELDS = ("join", "second", "merge", "time")


@cache
def _table() -> dict[str, SceneThresholds]:
    text = files("memforest.data").joinpath("scene_thresholds.json").read_text(encoding="utf-8")
    return {
        model: SceneThresholds(**{name: float(entry[name]) for name in _FIELDS})
        for model, entry in json.loads(text)["models"].items()
    }


def scene_thresholds(model_id: str, settings: MemForestSettings = DEFAULTS) -> SceneThresholds:
    """Return the thresholds that are set; where none is, that of the embedder, or that for embedders not measured."""
    table = _table()
    found = table.get(model_id)
    if found is None:
        found = SceneThresholds(*(max(getattr(one, name) for one in table.values()) for name in _FIELDS))
    given = {name: getattr(settings, f"scene_{name}") for name in _FIELDS}
    return replace(found, **{name: value for name, value in given.items() if value is not None})
