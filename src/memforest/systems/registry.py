"""The indexes that there are, by name: each is one folder beside this module."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import lru_cache
from typing import Any

import memforest.systems
from memforest.config import Config
from memforest.errors import ConfigError, IndexStateError
from memforest.systems.base import MemoryIndex

__all__ = ["kept_settings", "known", "make_index", "open_stored", "register", "settings_of", "unregister"]

_REGISTERED: dict[str, type[Any]] = {}


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, type[Any]]:
    """Return the class of every index that comes with the package: the name `INDEX` of `systems/NAME/index.py`."""
    found: dict[str, type[Any]] = {}
    for one in pkgutil.iter_modules(memforest.systems.__path__):
        if one.ispkg:
            made = importlib.import_module(f"{memforest.systems.__name__}.{one.name}.index").INDEX
            found[made.name] = made
    return found


def known() -> Mapping[str, type[Any]]:
    """Return the class of every index by name."""
    return {**_shipped(), **_REGISTERED}


def register(index: type[Any]) -> type[Any]:
    """Add an index of one's own, from outside of the package; usable as a class decorator.

    Raises:
        ConfigError: if there is one of that name.
    """
    if known().get(index.name, index) is not index:
        raise ConfigError(f"there is an index {index.name!r} already; give yours another name")
    _REGISTERED[index.name] = index
    return index


def unregister(name: str) -> None:
    """Take an index of one's own away again."""
    _REGISTERED.pop(name, None)


def make_index(name: str, settings: Any = None) -> MemoryIndex:
    """Return the index with that name and those settings, an object or a mapping; None are its defaults.

    Raises:
        ConfigError: if there is none, or a setting is unknown or cannot be.
    """
    found = known().get(name)
    if found is None:
        raise ConfigError(f"index={name!r} is unknown; known: {', '.join(sorted(known()))}")
    index: MemoryIndex = found(_settings(name, found.Settings, settings))
    return index


def settings_of(config: Config, name: str) -> Any:
    """Return what a configuration says of an index, or None."""
    return config.index_settings.get(name)


def kept_settings(index: MemoryIndex) -> str:
    """Return as JSON what a file keeps of an index's settings."""
    values = asdict(index.settings)
    return json.dumps({key: values[key] for key in index.settings.KEPT}, sort_keys=True)


def open_stored(name: str, stored: str, given: Any = None) -> MemoryIndex:
    """Return an index as a file has it: with the settings that the file keeps, and else those given.

    Raises:
        ConfigError: if there is no index of that name, or the settings given cannot be.
        IndexStateError: if those in the file are of another version of the index.
    """
    index = make_index(name, given)
    try:
        values = json.loads(stored)
        if unknown := sorted(set(values) - set(index.settings.KEPT)):
            raise ValueError(f"there is no setting {unknown[0]!r}")
        kept = replace(index.settings, **values)
    except (ValueError, TypeError, ConfigError) as exc:
        raise IndexStateError(
            f"the settings of the index {name!r} in the file are of another version: {exc}; "
            f"drop_index({name!r}) and add_index({name!r}) make it anew"
        ) from exc
    return make_index(name, kept)


def _settings(name: str, kind: type[Any], given: Any) -> Any:
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"the settings of the index {name!r} are {type(given).__name__}; give a mapping or {kind.__name__}(...)"
        )
    names = [one.name for one in fields(kind)]
    if unknown := sorted(set(given) - set(names)):
        raise ConfigError(
            f"the index {name!r} has no setting {unknown[0]!r}; known: {', '.join(names) or 'none'}"
        )
    return kind(**given)
