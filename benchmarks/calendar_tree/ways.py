"""The ways in which a calendar tree is asked: every chunk of TiMem's Tables 3 and 4, of Tables 9 and 10, and what is beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memforest.config import Recall

__all__ = ["COMPLEXITIES", "DEFAULT", "PAPER_TOKENS", "SEGMENTS", "TABLES", "WEIGHTS", "ways"]

DEFAULT = "planner, gate"
COMPLEXITIES = ("simple", "hybrid", "complex")
WEIGHTS = (1.0, 0.9, 0.8, 0.7, 0.5)
"""Of the cosine (Table 10 has the first four)."""
SEGMENTS = (1, 2, 4, 8)
"""Exchanges of a segment (Table 9)."""

PAPER_TOKENS: Mapping[str, float] = {
    "simple, no gate": 3710.30, "hybrid, no gate": 4376.40, "complex, no gate": 5658.26,
    "simple, gate": 367.68, "hybrid, gate": 691.59, "complex, gate": 4479.06,
    "planner, no gate": 4411.09, DEFAULT: 511.25,
    "L1, flat": 995.15, "L1, hierarchical": 361.23,
    "L2-L5, flat": 2348.49, "L2-L5, hierarchical": 3786.44,
    "L1-L5, flat": 1715.65, "L1-L5, hierarchical": 511.25,
}  # fmt: skip
"""Mean tokens of memories a question on LoCoMo, of a model's planner, gate and summaries (arXiv 2601.02845, Tables 3 and 4)."""

_LAYERS: Mapping[str, Any] = {"L1": (1,), "L2-L5": (2, 3, 4, 5), "L1-L5": None}


def ways() -> dict[str, Recall]:
    """Return all ways to ask one tree, by name; what is not said is the default of the index."""
    return {name: way for table in TABLES.values() for name, way in table.items()}


TABLES: Mapping[str, Mapping[str, Recall]] = {
    "Table 3: planner and gate": {
        **{
            f"{name}, {'gate' if gate == 'rules' else 'no gate'}": Recall(
                planner="off", complexity=at, gate=gate
            )
            for gate in ("off", "rules")
            for at, name in enumerate(COMPLEXITIES)
        },
        "planner, no gate": Recall(gate="off"),
        DEFAULT: Recall(),
    },
    "Table 4: levels, and flat or hierarchical": {
        f"{name}, {'flat' if flat else 'hierarchical'}": Recall(levels=levels, flat=flat)
        for name, levels in _LAYERS.items()
        for flat in (True, False)
    },
    "the same without the gate": {
        f"{name}, {'flat' if flat else 'hierarchical'}, no gate": Recall(levels=levels, flat=flat, gate="off")
        for name, levels in _LAYERS.items()
        for flat in (True, False)
    },
    "Table 10: weight of the cosine, leaves as in the paper": {
        f"paper's leaves, {weight:g}": Recall(leaves="paper", weight=weight) for weight in WEIGHTS
    },
    "beside the tables": {
        "order: level": Recall(order="level"),
        "prune: own": Recall(prune="own"),
        "leaves shown by their texts": Recall(show="texts"),
        "paper throughout": Recall(leaves="paper", order="level", show="texts"),
    },
}
"""Title of a table -> its ways."""
