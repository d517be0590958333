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
    return "cosine" in (settings.scorer, settings.placer) or settings.cross_links > 0


def request_of(
    node: Node, inputs: tuple[str, ...], *, vector: bool, history: tuple[str, ...] = ()
) -> NodeWork:
    """Return the request for what a stretch says, made of texts in order; a stretch of one leaf says what that says.

    It is not told whether the stretch is the whole tree: what was so is a part later, and says the same.

    Args:
        node: the stretch.
        inputs: what is below it, or with a `history` what has come to it.
        vector: whether it is compared.
        history: what it said before.
    """
    request = SummaryRequest(
        kind=KIND,
        label=LABEL,
        start=from_ms(node.start_ms),
        end=from_ms(node.end_ms),
        inputs=inputs,
        level=node.level,
        history=history,
    )
    return NodeWork(node.id, request, vector=vector, kept=len(node.children) == 1, whole=bool(history))
