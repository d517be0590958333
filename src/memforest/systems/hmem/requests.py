"""What the memory of a week, a month or a year is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memforest.interval import from_ms
from memforest.refresh.requests import NodeWork
from memforest.systems.hmem.grow import KIND
from memforest.systems.hmem.levels import ROOT, WEEK
from memforest.systems.hmem.settings import HMemSettings
from memforest.tree import Node
from memforest.types import SummaryRequest


def requests_of(
    nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]], settings: HMemSettings
) -> list[NodeWork]:
    """Return how the memories of nodes are consolidated; one with a single child says what that says. Roots say nothing."""
    return [
        NodeWork(
            node.id,
            SummaryRequest(
                kind=KIND,
                label="",
                start=from_ms(node.start_ms),
                end=from_ms(node.end_ms),
                inputs=inputs[node.id],
                max_words=int(settings.words[node.level - WEEK]),
                level=node.level,
                window=node.window or "",
                prompt="memory",
            ),
            kept=len(node.children) == 1,
            words=True,
        )
        for node in nodes
        if WEEK <= node.level < ROOT
    ]
