"""The registry of indexes by name: each is one folder beside this module."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import memforest.systems
from memforest.config import Config
from memforest.errors import ConfigError, IndexStateError
from memforest.settings import INDEX_SETTINGS
from memforest.systems.base import MemoryIndex
from memforest.tables import read_index_settings, with_kept

_REGISTERED: dict[str, type[Any]] = {}

_NAME = re.compile(r"[a-z][a-z0-9]*")
"""No underscore: the tables of one index begin with ``ix_NAME_``, and are no other's."""


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, type[Any]]:
    """Return the class of every index that comes with the package: the name `INDEX` of `systems/NAME/index.py`."""
    found: dict[str, type[Any]] = {}
    for one in pkgutil.iter_modules(memforest.systems.__path__):
        if one.ispkg:
            made = importlib.import_module(f"{memforest.systems.__name__}.{one.name}.index").INDEX
            found[made.name] = made
            INDEX_SETTINGS[made.name] = made.Settings
    return found


def known() -> Mapping[str, type[Any]]:
    """Return the class of every index by name."""
    return {**_shipped(), **_REGISTERED}


def register(index: type[Any]) -> type[Any]:
    """Register an index from outside of the package; usable as a class decorator.

    Raises:
        ConfigError: if there is one of that name, or the name is not of small letters and digits.
    """
    if _NAME.fullmatch(index.name) is None:
        raise ConfigError(
            f"an index cannot be called {index.name!r}; use small letters and digits, a letter first"
        )
    if known().get(index.name, index) is not index:
        raise ConfigError(f"there is an index {index.name!r} already; give yours another name")
    _REGISTERED[index.name] = index
    INDEX_SETTINGS[index.name] = index.Settings
    return index


def unregister(name: str) -> None:
    """Remove an index that was added by `register`."""
    if _REGISTERED.pop(name, None) is not None:
        del INDEX_SETTINGS[name]


def make_index(name: str, *settings: Any) -> MemoryIndex:
    """Return the index with that name.

    Args:
        name: of an index.
        settings: objects or mappings, each laid over those before it; None says nothing.

    Raises:
        ConfigError: if there is none, or a setting is unknown or cannot be.
    """
    found = known().get(name)
    if found is None:
        raise ConfigError(f"index={name!r} is unknown; known: {', '.join(sorted(known()))}")
    made: Any = None
    for given in settings or (None,):
        made = read_index_settings(name, found.Settings, given, made)
    index: MemoryIndex = found(made)
    return index


def check_indexes(config: Config) -> None:
    """Raise for unknown indexes and for wrong settings of known ones; no file is opened.

    Raises:
        ConfigError: if there is one; it names the index.
    """
    for name in (*config.indexes, *config.index_settings):
        make_index(name, config.index_settings.get(name))


def open_stored(name: str, stored: str, given: Any = None) -> MemoryIndex:
    """Return an index with the settings that its file keeps, and the given ones for the others.

    Raises:
        ConfigError: if there is no index of that name, or the settings given cannot be.
        IndexStateError: if those in the file are of another version of the index.
    """
    index = make_index(name, given)
    try:
        return make_index(name, with_kept(name, index.settings, stored))
    except (ValueError, RecursionError) as exc:  # ConfigError is one, and so is an error of JSON
        raise IndexStateError(
            f"the settings of the index {name!r} in the file are of another version of it: {exc}; "
            f"add_index({name!r}) makes it anew"
        ) from exc
