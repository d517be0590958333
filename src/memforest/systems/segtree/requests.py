"""What the summary of a stretch of conversation is made of."""

from __future__ import annotations

from memforest.interval import from_ms
from memforest.refresh.requests import NodeWork
from memforest.systems.segtree.grow import KIND
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.tree import Node
from memforest.types import SummaryRequest

LABEL = "of all sessions"
"""Name of the scope of the only tree."""


def compared(settings: SegTreeSettings) -> bool:
    """Return whether anything is compared with what nodes say, so that it gets vectors."""
    return "cosine" in (settings.scorer, settings.placer)


def request_of(node: Node, inputs: tuple[str, ...], *, vector: bool) -> NodeWork:
    """Return the request for what a stretch says, made of what is below it, in order.

    It is not told whether the stretch is the whole tree: what was so is a part later, and says the same.

    Args:
        node: the stretch.
        inputs: what is below it.
        vector: whether it is compared.
    """
    request = SummaryRequest(
        kind=KIND,
        label=LABEL,
        start=from_ms(node.start_ms),
        end=from_ms(node.end_ms),
        inputs=inputs,
        level=node.level,
    )
    return NodeWork(node.id, request, vector=vector)
