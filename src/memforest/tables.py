"""Tables of settings: read from TOML, checked key by key, laid over each other, and made into values; and into JSON.

A table is what TOML gives: names to texts, numbers, lists and tables. Nothing is expanded in a text; a key for a model
can be kept out of a file by ``api_key_env``, which names an environment variable. The text ``"none"`` stands for None
where a setting may be None, as TOML has no such value, and has no value of that name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from memforest.errors import ConfigError
from memforest.settings import (
    brief,
    check_value,
    hints_of,
    none_is_text,
    refuse_unknown,
    settings_of,
    with_article,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")
Table = dict[str, Any]

PRESETS = ("default", "default_30b", "default_4b", "paper", "timem_paper", "hmem_paper")
"""``"default"`` is empty; two are the models of the paper's evaluation, ``"paper"`` its form of retrieval, and ``"timem_paper"``
and ``"hmem_paper"`` the models and forms of TiMem's and H-Mem's."""
KEY_ENV = "api_key_env"
_KEYS = ("api_key", KEY_ENV)


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


def checked(table: Mapping[str, Any], hints: Mapping[str, Any], before: str, section: str = "") -> Table:
    """Return a table with None for "none" where a setting may be None.

    Args:
        table: the settings of a section, or those outside of any.
        hints: the settings that may stand there, with their types.
        before: put before messages: the source, e.g. ``"'memforest.toml': "``.
        section: its name; empty for what stands outside of sections.

    Raises:
        ConfigError: if a setting is unknown, or a value of the wrong type; it names the source and the setting.
    """
    own = section and f"{section}."
    known = {**hints, KEY_ENV: str} if "api_key" in hints else hints
    refuse_unknown(table, known, before, own)
    if set(_KEYS) <= set(table):
        raise ConfigError(f"{before}[{section}] has {' and '.join(_KEYS)}; give one of them")
    found = {k: None if v == "none" and none_is_text(known[k]) else v for k, v in table.items()}
    for name, value in found.items():
        kind = settings_of(known[name])
        if kind is not None and isinstance(value, Mapping):
            inner = checked(value, hints_of(kind), before, f"{own}{name}")
            found[name] = value = build(kind, inner, f"{own}{name}", before)
        check_value(before, f"{own}{name}", "", value, known[name])
    steps: Table | None = found.get("steps") if section else None
    if steps:
        found["steps"] = {k: checked(one, hints, before, f"{own}steps.{k}") for k, one in steps.items()}
    return found


def overlaid(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Table:
    """Return two tables as one; `upper` wins, setting by setting in what are tables themselves.

    A key is for one address: where `upper` names another address, the key and the headers of `lower` are left out, and
    those of its steps that have no address of their own.
    """
    made = {**lower, **upper}
    for name, above in upper.items():
        below = lower.get(name)
        if isinstance(above, Mapping) and isinstance(below, Mapping):
            if above.get("base_url", below.get("base_url")) != below.get("base_url"):
                below = _without_keys(below)
            gone = _KEYS if set(_KEYS) & set(above) else ()
            made[name] = {**{key: value for key, value in below.items() if key not in gone}, **above}
    return made


def _without_keys(table: Mapping[str, Any]) -> Table:
    """Return the settings of an endpoint without what may hold a key for its address."""
    kept = {name: value for name, value in table.items() if name not in (*_KEYS, "headers")}
    if isinstance(steps := kept.get("steps"), Mapping):
        kept["steps"] = {
            step: own if "base_url" in own else _without_keys(own) for step, own in steps.items()
        }
    return kept


def build(
    kind: type[T],
    table: Mapping[str, Any],
    section: str,
    before: str = "",
    environ: Mapping[str, str] = MappingProxyType({}),
) -> T:
    """Make a value of a section.

    Args:
        kind: its type.
        table: its settings, checked.
        section: its name, for messages.
        before: put before messages: the table's sources.
        environ: where `api_key_env` is looked up.

    Raises:
        ConfigError: if a value is out of range or missing, or the variable that holds a key is not set.
    """
    values = _keyed(table, before, environ)
    for one in fields(kind):  # type: ignore[arg-type]  # a dataclass
        if one.name not in values and one.default is MISSING and one.default_factory is MISSING:
            raise ConfigError(f"{before}[{section}] has no {one.name}; give {section}.{one.name}")
    try:
        return kind(**values)
    except ConfigError as exc:
        raise ConfigError(f"{before}[{section}] {exc}") from exc


def _keyed(table: Mapping[str, Any], before: str, environ: Mapping[str, str]) -> Table:
    """Return a table with keys for the names of variables, in those of steps too."""
    values = {name: value for name, value in table.items() if name != KEY_ENV}
    if "steps" in values:
        values["steps"] = {step: _keyed(own, before, environ) for step, own in values["steps"].items()}
    if KEY_ENV in table:
        values["api_key"] = environ.get(table[KEY_ENV], "").strip()
        if not values["api_key"]:
            raise ConfigError(f"{before}a key is taken from {table[KEY_ENV]}, which is not set")
    return values


# -- the settings of an index ---------------------------------------------------------------------


def read_index_settings(index: str, kind: type[T], given: Any = None, below: T | None = None) -> T:
    """Return the settings of an index, checked.

    Args:
        index: its name, for messages.
        kind: the class of its settings, a frozen dataclass.
        given: such an object, a mapping of some of them (see `Config.index_settings`), or None for none.
        below: what a mapping is laid over; None for the defaults.

    Raises:
        ConfigError: if a setting is unknown, of the wrong type or out of range; it names the index and the setting.
    """
    if isinstance(given, kind):
        return given
    if given is not None and not isinstance(given, Mapping):
        names = f"{with_article(kind.__name__)} or a mapping of its settings"
        raise ConfigError(f"the index {index!r} takes {names}, not {brief(given)}")
    values = {} if below is None else {name: getattr(below, name) for name in hints_of(kind)}
    return build(
        kind, {**values, **checked(given or {}, hints_of(kind), f"[index.{index}] ")}, f"index.{index}"
    )


def kept_json(settings: Any, given: Any = None) -> str:
    """Return those settings of an index that a memory keeps as a JSON object.

    Those are `Settings.KEPT`, and what was given when the index was added: an object gives all.
    """
    values = asdict(settings)
    named = given if isinstance(given, Mapping) else () if given is None else values
    kept = {name: value for name, value in values.items() if name in named or name in settings.KEPT}
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def with_kept(index: str, settings: T, text: str) -> T:
    """Return settings of an index with those that `kept_json` made `text` of.

    Of those that are kept, one that `text` does not have came later: what is in the file was made with its default.

    Raises:
        ConfigError: if the text is of another version of the index: a setting is unknown, or of another type.
    """
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise ConfigError(f"{brief(stored)} is no table")
    kind = type(settings)
    kept = {name: getattr(kind(), name) for name in settings.KEPT}  # type: ignore[attr-defined]
    values = {**kept, **checked(stored, hints_of(kind), f"[index.{index}] ")}
    return replace(settings, **values)  # type: ignore[type-var]  # a dataclass
