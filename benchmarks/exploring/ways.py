"""The ways in which questions are asked: the switches of Table 5, scopes, and the paper's own form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memforest.config import Explore

__all__ = ["ABLATIONS", "BASE", "DEFAULT", "FORMS", "PAPER", "SCOPES", "Way", "named"]

BASE = "memforest"
"""The index that others are compared with: the default one."""
DEFAULT = "hmem"
"""The index with what it does by default."""


@dataclass(frozen=True, slots=True)
class Way:
    """The index that is asked, and how hmem explores."""

    index: str
    explore: Explore | None = None


def _hmem(changes: Mapping[str, Explore]) -> dict[str, Way]:
    return {name: Way(DEFAULT, explore) for name, explore in changes.items()}


ABLATIONS = _hmem(
    {
        "w/o tree": Explore(tree=False),
        "w/o long memory": Explore(scope="short"),
        "w/o robustness": Explore(robustness=0),
        "w/o follow-up": Explore(follow_up="off"),
        "w/o profile": Explore(known=0),
    }
)
"""Table 5 of the paper."""
PAPER: Mapping[str, float] = {
    "hmem": 92.01,
    "w/o tree": 82.73,
    "w/o long memory": 89.48,
    "w/o robustness": 89.09,
    "w/o follow-up": 90.97,
    "w/o profile": 90.32,
    "always mixed": 92.21,
}
"""Accuracy of answers on LoCoMo, by a model that judges them (Table 5, and App. A.4 for always mixed): another measure."""

SCOPES = _hmem(
    {
        "always short": Explore(scope="short"),
        "always long": Explore(scope="long"),
        "always mixed": Explore(scope="mixed"),
    }
)

FORMS = _hmem(
    {
        "one sub-query, mixed": Explore(planner="off"),
        "without T": Explore(time=0),
        "entities lead only": Explore(entity=0, known=0),
        "reach=graph": Explore(reach="graph"),
        "S=cosine": Explore(similarity_of="cosine"),
        "as in the paper": Explore(similarity_of="cosine", reach="graph", entity=0, known=0),
    }
)
"""What this package does otherwise than the paper, each by itself and together."""


def named(indexes: Iterable[str]) -> dict[str, Way]:
    """Return a way for each index by itself."""
    return {name: Way(name) for name in indexes}
