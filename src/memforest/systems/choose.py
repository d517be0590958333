"""The indexes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memforest.errors import ConfigError
from memforest.systems.base import MemoryIndex
from memforest.systems.combine import combined
from memforest.systems.flat import FlatIndex
from memforest.systems.memforest.index import MemForestIndex

__all__ = ["INDEXES", "open_index"]

INDEXES: Mapping[str, Callable[[], MemoryIndex]] = {"memforest": MemForestIndex, "flat": FlatIndex}


def open_index(names: str | Sequence[str]) -> MemoryIndex:
    """Return the index with that name, or several as one (`memforest.systems.combine`).

    Raises:
        ConfigError: if there is none with a name, a name is there twice, or there is no name.
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in INDEXES:
            raise ConfigError(f"index={names!r}: {name!r} is unknown; known: {', '.join(INDEXES)}")
        if wanted.count(name) > 1:
            raise ConfigError(f"index={names!r}: {name!r} is there twice; name each index once")
    if not wanted:
        raise ConfigError(f"index={names!r}: name at least one index; known: {', '.join(INDEXES)}")
    made = [INDEXES[name]() for name in wanted]
    return made[0] if len(made) == 1 else combined(made)
