"""The indexes by name, with their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memforest.config import Config
from memforest.errors import ConfigError
from memforest.settings import INDEX_SETTINGS, NoSettings
from memforest.systems.base import MemoryIndex
from memforest.systems.flat import FlatIndex
from memforest.systems.memforest.index import MemForestIndex
from memforest.systems.memforest.settings import MemForestSettings
from memforest.tables import read_index_settings

__all__ = ["INDEXES", "check_indexes", "open_index"]

INDEXES: Mapping[str, Callable[[], MemoryIndex]] = {"memforest": MemForestIndex, "flat": FlatIndex}
INDEX_SETTINGS.update(memforest=MemForestSettings, flat=NoSettings)


def open_index(name: str) -> MemoryIndex:
    """Return the index with that name.

    Raises:
        ConfigError: if there is none.
    """
    make = INDEXES.get(name)
    if make is None:
        raise ConfigError(f"index={name!r} is unknown; known: {', '.join(INDEXES)}")
    return make()


def check_indexes(config: Config) -> None:
    """Refuse indexes that there are none of, and wrong settings of one; opens nothing.

    Raises:
        ConfigError: if there is one; it names the index.
    """
    for name in (*config.indexes, *config.index_settings):
        open_index(name)
        read_index_settings(name, INDEX_SETTINGS[name], config.index_settings.get(name))
