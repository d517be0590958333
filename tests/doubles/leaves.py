"""A leaf before it has a place, for tests of trees."""

from __future__ import annotations

from typing import NamedTuple

from memforest.nodes import Key


class Leaf(NamedTuple):
    """Its key, its half-open interval in ms and its one payload."""

    key: Key
    start_ms: int
    end_ms: int
    item_kind: str
    item: int
