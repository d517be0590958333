"""The indexes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memforest.errors import ConfigError
from memforest.systems.base import MemoryIndex
from memforest.systems.flat import FlatIndex
from memforest.systems.memforest.index import MemForestIndex

__all__ = ["INDEXES", "open_index"]

INDEXES: Mapping[str, Callable[[], MemoryIndex]] = {"memforest": MemForestIndex, "flat": FlatIndex}


def open_index(name: str) -> MemoryIndex:
    """Return the index with that name.

    Raises:
        ConfigError: if there is none.
    """
    make = INDEXES.get(name)
    if make is None:
        raise ConfigError(f"index={name!r} is unknown; known: {', '.join(INDEXES)}")
    return make()
