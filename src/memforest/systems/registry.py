"""The indexes by name, and their settings."""

from __future__ import annotations

from typing import Any

from memforest.config import Config
from memforest.errors import ConfigError
from memforest.settings import INDEX_SETTINGS
from memforest.systems.base import Index
from memforest.systems.facts.index import FactsIndex
from memforest.systems.flat.index import FlatIndex
from memforest.systems.hmem.index import HMemIndex
from memforest.systems.memforest.index import MemForestIndex
from memforest.systems.segtree.index import SegTreeIndex
from memforest.systems.timem.index import TiMemIndex
from memforest.tables import read_index_settings

INDEXES: dict[str, type[Index]] = {
    "facts": FactsIndex,
    "flat": FlatIndex,
    "hmem": HMemIndex,
    "memforest": MemForestIndex,
    "segtree": SegTreeIndex,
    "timem": TiMemIndex,
}
"""The class of every index by name."""

INDEX_SETTINGS.update({name: kind.Settings for name, kind in INDEXES.items()})


def make_index(name: str, *settings: Any) -> Index:
    """Return the index with that name.

    Args:
        name: of an index.
        settings: objects or mappings, each laid over those before it; None says nothing.

    Raises:
        ConfigError: if there is none, or a setting is unknown or cannot be.
    """
    found = INDEXES.get(name)
    if found is None:
        raise ConfigError(f"index={name!r} is unknown; known: {', '.join(INDEXES)}")
    made: Any = None
    for given in settings or (None,):
        made = read_index_settings(name, found.Settings, given, made)
    return found(made)


def check_indexes(config: Config) -> None:
    """Raise for unknown indexes and for wrong settings of known ones; no file is opened.

    Raises:
        ConfigError: if there is one; it names the index.
    """
    for name in (*config.indexes, *config.index_settings):
        make_index(name, config.index_settings.get(name))
