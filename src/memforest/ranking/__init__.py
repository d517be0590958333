"""Pure scoring over arrays; higher is better everywhere.

`scores` standardises, fuses and orders; `propagation` sends relevance along the edges of any forest, and `ascent` goes from leaves
to their ancestors; `parts` has single parts of a score; `by_time` chooses one of several
answers. Nothing here knows a snapshot, an index or a file.
"""

from memforest.ranking.ascent import Ancestors, Ascent, ancestors, means_below, sums_below
from memforest.ranking.by_time import choose_by_time
from memforest.ranking.parts import activation, robustness, time_overlap
from memforest.ranking.propagation import (
    Policy,
    bounded,
    decay_sum,
    propagate,
    relevance_shares,
)
from memforest.ranking.scores import (
    Groups,
    Levels,
    Scores,
    best_first,
    bm25_idf,
    bm25_weight,
    cosines,
    cosines_of_two,
    group_place,
    leading,
    order,
    stable_order,
    standardise,
)

__all__ = [
    "Ancestors",
    "Ascent",
    "Groups",
    "Levels",
    "Policy",
    "Scores",
    "activation",
    "ancestors",
    "best_first",
    "bm25_idf",
    "bm25_weight",
    "bounded",
    "choose_by_time",
    "cosines",
    "cosines_of_two",
    "decay_sum",
    "group_place",
    "leading",
    "means_below",
    "order",
    "propagate",
    "relevance_shares",
    "robustness",
    "stable_order",
    "standardise",
    "sums_below",
    "time_overlap",
]
