"""Settings as tables: read from TOML, laid over each other, checked key by key, and made into values.

A table is what TOML gives: names to texts, numbers, lists and tables. Nothing is expanded in a text; a key for a model
can be kept out of a file by ``api_key_env``, which names an environment variable. The text ``"none"`` stands for None
where a setting may be None, as TOML has no such value.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from memforest.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["PRESETS", "Source", "build", "check", "overlaid", "preset", "read_file"]

T = TypeVar("T")
Table = dict[str, Any]

PRESETS = ("default", "default_30b", "default_4b")
"""``"default"`` is empty; the others are the two models of the paper's evaluation."""

KEY_ENV = "api_key_env"
_KEYS = ("api_key", KEY_ENV)
_SECRET = ("api_key", "base_url", "extra_body", "headers", "steps")
"""What is not shown in messages: it is secret, or may hold what is."""
_KINDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a table",
    Sequence: "a list of texts",
}


def preset(name: str) -> Table:
    """Return the settings of a preset that comes with the package.

    Raises:
        ConfigError: if there is none of that name.
    """
    if name not in PRESETS:
        raise ConfigError(f"there is no configuration {name!r}; known: {', '.join(map(repr, PRESETS))}")
    if name == "default":
        return {}
    path = files("memforest") / "presets" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_file(path: str | Path) -> Table:
    """Return the settings of a TOML file.

    Raises:
        ConfigError: if the file cannot be read, or is no TOML.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise ConfigError(f"the settings file {str(path)!r} cannot be read: {why}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the settings file {str(path)!r} is not in UTF-8") from exc
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"the settings file {str(path)!r} is no TOML: {exc}") from exc


@dataclass(frozen=True, slots=True)
class Source:
    """Where a table comes from, for messages, and what may stand in it."""

    name: str
    """Shown in messages, e.g. ``"'memforest.toml'"``."""
    fields: type
    """The type of the settings outside of any section."""
    objects: Sequence[str]
    """Those of them that no file can hold."""
    sections: Mapping[str, type]
    """Name of a section -> the type of its settings."""


def check(table: Mapping[str, Any], source: Source) -> None:
    """Refuse a table with unknown settings or values of the wrong type.

    Raises:
        ConfigError: if there is one; it names the source and the setting.
    """
    hints = {k: v for k, v in get_type_hints(source.fields).items() if k not in source.sections}
    for key, value in table.items():
        if key in source.sections:
            _check_kind(value, Mapping, key, source)
            _check_section(value, source.sections[key], key, source)
        elif key in source.objects:
            raise ConfigError(
                f"{source.name}: {key} is an object, which no file can hold; give it to Config()"
            )
        else:
            _check_one(key, value, {k: str if v is Any else v for k, v in hints.items()}, "", source)


def _check_section(table: Mapping[str, Any], kind: type, section: str, source: Source) -> None:
    hints = get_type_hints(kind)
    if "api_key" in hints:
        hints[KEY_ENV] = str
        if set(_KEYS) <= set(table):
            raise ConfigError(f"{source.name}: [{section}] has {' and '.join(_KEYS)}; give one of them")
    for key, value in table.items():
        _check_one(key, value, hints, f"{section}.", source)
        if key == "steps":
            for step, own in value.items():
                _check_kind(own, Mapping, f"{section}.steps.{step}", source)
                _check_section(own, kind, f"{section}.steps.{step}", source)


def _check_one(key: str, value: Any, hints: Mapping[str, Any], prefix: str, source: Source) -> None:
    if key not in hints:
        known = ", ".join(hints if prefix else (*hints, *source.sections))
        raise ConfigError(f"{source.name}: there is no setting {prefix}{key}; known: {known}")
    _check_kind(value, hints[key], f"{prefix}{key}", source)


def _check_kind(value: Any, hint: Any, key: str, source: Source) -> None:
    if not _fits(value, hint):
        hidden = key.rpartition(".")[2] in _SECRET or isinstance(value, (dict, list))
        shown = "" if hidden else f" = {value!r}"
        raise ConfigError(f"{source.name}: {key}{shown} is of the wrong kind; give {_wanted(hint)}")


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value of a table is one of a type."""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return (value == "none" and NoneType in args) or any(_fits(value, one) for one in args)
    if origin is Any:
        return True
    if origin is Literal:
        return value in args
    if origin is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(one, args[1]) for one in value.values() if args)
    if origin is Sequence:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, origin) if origin in (str, bool) else False


def _wanted(hint: Any) -> str:
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        kinds = [_wanted(one) for one in get_args(hint) if one in _KINDS or get_origin(one) in _KINDS]
        return " or ".join([*kinds, *(['"none"'] if NoneType in get_args(hint) else [])])
    if origin is Literal:
        return ", ".join(map(repr, get_args(hint)))
    return _KINDS.get(origin, "something else")


def overlaid(lower: Mapping[str, Any], upper: Mapping[str, Any], sections: Mapping[str, type]) -> Table:
    """Return two tables as one; `upper` wins, setting by setting in sections.

    A key is for one address: where `upper` names another address, the key and the headers of `lower` are left out.
    """
    made = {**lower, **upper}
    for name in sections:
        if name in lower and name in upper:
            below, above = dict(lower[name]), upper[name]
            if above.get("base_url", below.get("base_url")) != below.get("base_url"):
                for key in (*_KEYS, "headers"):
                    below.pop(key, None)
            if set(_KEYS) & set(above):
                for key in _KEYS:
                    below.pop(key, None)
            made[name] = {**below, **above}
    return made


def build(kind: type[T], table: Mapping[str, Any], section: str, where: str, environ: Mapping[str, str]) -> T:
    """Make a value of a section.

    Args:
        kind: its type.
        table: its settings, checked.
        section: its name, for messages.
        where: the table's sources, for messages.
        environ: where `api_key_env` is looked up.

    Raises:
        ConfigError: if a value is out of range, or the variable that holds a key is not set.
    """
    values = _values(kind, table, section, where, environ)
    steps = values.get("steps", {})
    if steps:
        names = {step: f"{section}.steps.{step}" for step in steps}
        values["steps"] = {k: _values(kind, v, names[k], where, environ) for k, v in steps.items()}
    try:
        return kind(**values)
    except TypeError:  # of all that is checked, only a missing one is left
        raise ConfigError(f"{where}: [{section}] names no model; give {section}.model") from None
    except ConfigError as exc:
        raise ConfigError(f"{where}: [{section}] {exc}") from exc


def _values(
    kind: type, table: Mapping[str, Any], section: str, where: str, environ: Mapping[str, str]
) -> Table:
    hints = get_type_hints(kind)
    values = {
        key: None if value == "none" and NoneType in get_args(hints.get(key)) else value
        for key, value in table.items()
        if key != KEY_ENV
    }
    variable = table.get(KEY_ENV)
    if variable is not None:
        key = environ.get(variable, "").strip()
        if not key:
            raise ConfigError(f"{where}: [{section}] takes its key from {variable}, which is not set")
        values["api_key"] = key
    return values
