"""Where the entities of a picture stand: the same for the same picture, linked ones near each other, none on another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDS = 120
"""Steps until everything stands still: more change nothing that can be seen, for up to a hundred nodes."""
TURN = math.pi * (3 - math.sqrt(5))
"""The angle by which one node of the spiral follows the other (the golden one), so that none lies behind another."""
GRAVITY = 0.6
"""How strongly everything is drawn to the middle, so that what nothing links does not drift to the border."""

Floats = NDArray[np.float64]


def place(count: int, edges: Sequence[tuple[int, int, float]]) -> list[tuple[float, float]]:
    """Return a place in the unit square for each node: springs pull along edges, all nodes push one another away.

    Nodes begin on a spiral in the order they have, the first one in the middle, and move less and less.

    Args:
        count: how many nodes.
        edges: pairs of nodes, with a weight of at least 1; heavier ones pull more.

    Example:
        >>> place(1, [])
        [(0.5, 0.5)]
    """
    if count == 0:
        return []
    number = np.arange(count)
    radius = 0.5 * np.sqrt((number + 0.5) / count)
    at = 0.5 + np.stack([radius * np.cos(TURN * number), radius * np.sin(TURN * number)], axis=1)
    pull = np.zeros((count, count))
    for source, target, weight in edges:
        if source != target:
            pull[source, target] = pull[target, source] = max(
                pull[source, target], 1 + math.log(max(weight, 1))
            )
    length = 1 / math.sqrt(count)
    for step in range(ROUNDS):
        at = _moved(at, pull, length, most=0.1 * (1 - step / ROUNDS))
    return [(float(x), float(y)) for x, y in _fitted(at)]


def _moved(at: Floats, pull: Floats, length: float, most: float) -> Floats:
    """Return all places one step on, none moved further than `most`."""
    apart = at[:, None, :] - at[None, :, :]
    far = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-6)
    force = (
        length**2 / far**2 - pull * far / length
    )  # by the distance once more: `apart` is not of unit length
    move = (apart * force[:, :, None]).sum(axis=1) - GRAVITY * (at - 0.5)
    size = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-9)
    moved: Floats = at + move / size * np.minimum(size, most)
    return moved


def _fitted(at: Floats) -> Floats:
    """Return places that fill the unit square; what lies on one line stands in the middle of it."""
    low, high = at.min(axis=0), at.max(axis=0)
    room = high - low
    wide = np.where(room > 1e-9, room, 1.0)
    fitted: Floats = np.where(room > 1e-9, (at - low) / wide, 0.5)
    return fitted
