"""The ways to rank that are measured, by name, and the questions' values for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locomo.conversations import Conversation
from locomo.measures import interval
from memforest.config import Ranking
from memforest.systems.segtree.settings import SegTreeSettings
from segments.ranked import LEVELS, MEASURES, Cell, Walked

__all__ = [
    "ADMISSIBLE",
    "ALPHAS",
    "HORIZONS",
    "LINKS",
    "POLICIES",
    "SCORERS",
    "Table",
    "cell",
    "extra_cells",
    "grid",
    "name_of",
    "tree_cells",
]

ALPHAS = (0.05, 0.10, 0.20, 0.30, 0.50, 0.70, 0.95)
HORIZONS = (1, 2, 3)
"""Beside 0, which is retrieval from a collapsed tree whatever the policy and alpha."""
EXPANDED = (0.05, 0.10, 0.20, 0.30, 0.50)
"""Alphas with which nodes are handed back as the turns below them."""
LINKS = (0.05, 0.1, 0.3)
"""Weights of links between like stretches."""
POLICIES = ("top-down", "bottom-up")
ADMISSIBLE = ("leaves", "bounded", "all")
SCORERS = ("cosine", "fused")

Row = NDArray[np.float64]
Key = tuple[str, str, str, float, int]
"""Scorer, admissible set, policy, alpha and horizon."""


def cell(
    scorer: str, admissible: str, policy: str, alpha: float = 0.10, horizon: int = 2, **more: Any
) -> Cell:
    """Return a way to rank, with nodes as evidence; `more` are other settings."""
    settings: dict[str, Any] = {
        "scorer": scorer,
        "admissible": admissible,
        "propagate": policy,
        "expand": False,
        **more,
    }
    return Cell(replace(SegTreeSettings(), **settings), replace(Ranking(), alpha=alpha, horizon=horizon))


def name_of(key: Key) -> str:
    """Return the name of a cell of the grid."""
    scorer, admissible, policy, alpha, horizon = key
    where = "collapsed (H 0)" if not horizon else f"{policy} {alpha:.2f} H{horizon}"
    return f"{scorer}, {admissible}, {where}"


def grid() -> dict[Key, Cell]:
    """Return the whole grid: alpha x H x policy x admissible x scorer, the collapsed tree once.

    Leaves have nothing below them: bottom-up, those alone are ranked as in the collapsed tree, and are left out here.
    """
    found: dict[Key, Cell] = {}
    for scorer in SCORERS:
        for admissible in ADMISSIBLE:
            found[scorer, admissible, "top-down", 0.10, 0] = cell(scorer, admissible, "top-down", horizon=0)
            for policy in POLICIES[: 1 if admissible == "leaves" else 2]:
                for alpha in ALPHAS:
                    for horizon in HORIZONS:
                        key = (scorer, admissible, policy, alpha, horizon)
                        found[key] = cell(*key)
    return found


def extra_cells() -> Iterator[tuple[str, Cell]]:
    """Yield what is measured beside the grid, at the paper's alpha and horizon: expand, by-question, links, the bound."""
    for scorer in SCORERS:
        yield f"{scorer}, bounded, none, expand", cell(scorer, "bounded", "none", expand=True)
        for policy in POLICIES:
            for alpha in EXPANDED:
                name = f"{scorer}, bounded, {policy} {alpha:.2f}, expand"
                yield name, cell(scorer, "bounded", policy, alpha, expand=True)
        for share in (0.02, 0.10):
            name = f"{scorer}, bounded {share:.2f}, bottom-up 0.10, expand"
            yield name, cell(scorer, "bounded", "bottom-up", share_max=share, expand=True)
        yield f"{scorer}, all, bottom-up 0.10, expand", cell(scorer, "all", "bottom-up", expand=True)
        yield f"{scorer}, bounded, by-question, expand", cell(scorer, "bounded", "by-question", expand=True)
        for admissible in ADMISSIBLE:
            yield f"{scorer}, {admissible}, by-question", cell(scorer, admissible, "by-question")
            yield f"{scorer}, {admissible}, by-question a.30", cell(scorer, admissible, "by-question", 0.3)
        for weight in LINKS:
            for policy in ("none", "top-down"):
                yield (
                    f"{scorer}, bounded, {policy}, links {weight}",
                    cell(scorer, "bounded", policy, cross_links=weight),
                )
        for share in (0.02, 0.10, 0.20):
            yield f"{scorer}, bounded {share}, top-down", cell(scorer, "bounded", "top-down", share_max=share)


def tree_cells() -> dict[str, Cell]:
    """Return the ways in which trees that are made otherwise are ranked: with nothing propagated and at the paper's alpha and H."""
    return {
        f"{scorer}, {admissible}, {policy}": cell(scorer, admissible, policy)
        for scorer in SCORERS
        for admissible, policy in (
            ("leaves", "none"),
            ("bounded", "none"),
            ("all", "none"),
            ("bounded", "top-down"),
            ("bounded", "bottom-up"),
        )
    }


class Table:
    """The values of every question for every way to rank.

    Args:
        conversations: with the questions, in order.
        seed: of the bootstrap's draws.
    """

    def __init__(self, conversations: Sequence[Conversation], seed: int) -> None:
        sizes = [len(one.questions) for one in conversations]
        self.conversation = np.repeat(np.arange(len(conversations)), sizes)
        self.category = np.array([q.category for one in conversations for q in one.questions])
        self.seed = seed
        self._rows: dict[str, list[Walked]] = {}
        self._made: dict[str, tuple[Row, Row]] = {}

    def add(self, name: str, walked: Walked) -> None:
        """Add what came of the next question ranked in one way."""
        self._rows.setdefault(name, []).append(walked)

    def names(self) -> list[str]:
        """Return the ways, as they were added."""
        return list(self._rows)

    def values(self, name: str) -> Row:
        """Return the values of one way, shape (questions, measures)."""
        return self._both(name)[0]

    def levels(self, name: str) -> Row:
        """Return the mean share of each level among the first nodes, shape (`LEVELS`,)."""
        counts = self._both(name)[1]
        return np.asarray(counts.sum(axis=0) / max(counts.sum(), 1))

    def _both(self, name: str) -> tuple[Row, Row]:
        if name not in self._made:
            rows = self._rows[name]
            self._made[name] = (
                np.array([one.values for one in rows], dtype=np.float64).reshape(-1, len(MEASURES)),
                np.array([one.levels for one in rows], dtype=np.float64).reshape(-1, LEVELS),
            )
        return self._made[name]

    def column(self, name: str, measure: str) -> Row:
        """Return a measure of every question: one of `MEASURES`, or ``"said"`` or ``"below"`` for the mean over all budgets."""
        at = [i for i, one in enumerate(MEASURES) if one == measure or one.startswith(f"{measure} ")]
        return np.asarray(self.values(name)[:, at].mean(axis=1))

    def mean(self, name: str, measure: str) -> float:
        """Return a mean, in percent but for tokens."""
        scale = 1 if measure.endswith("tokens") else 100
        return scale * float(self.column(name, measure).mean())

    def spread(self, values: Row) -> dict[str, Any]:
        """Return the mean of a value per question, in percent, with its intervals over questions and over conversations."""
        return {
            "mean": 100 * float(values.mean()),
            "questions": [100 * x for x in interval(values, None, self.seed)],
            "conversations": [100 * x for x in interval(values, self.conversation, self.seed)],
        }

    def cell(self, name: str, measure: str) -> dict[str, Any]:
        """Return the mean of a measure with its intervals."""
        return self.spread(self.column(name, measure))

    def gap(self, name: str, other: str, measure: str) -> dict[str, Any]:
        """Return the paired difference of two ways in points, with its intervals."""
        return self.spread(self.column(name, measure) - self.column(other, measure))
