"""Settings: their types, and tables of them: read from TOML, laid over each other, checked key by key, and made into values.

A table is what TOML gives: names to texts, numbers, lists and tables. Nothing is expanded in a text; a key for a model
can be kept out of a file by ``api_key_env``, which names an environment variable. The text ``"none"`` stands for None
where a setting may be None, as TOML has no such value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from memforest.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "PRESETS",
    "Source",
    "brief",
    "build",
    "check",
    "check_fields",
    "fits",
    "instead",
    "overlaid",
    "preset",
    "read_file",
    "wanted",
    "with_article",
]

T = TypeVar("T")
Table = dict[str, Any]

PRESETS = ("default", "default_30b", "default_4b")
"""``"default"`` is empty; the others are the two models of the paper's evaluation."""

KEY_ENV = "api_key_env"
_KEYS = ("api_key", KEY_ENV)
_SECRET = ("api_key", "base_url", "extra_body", "headers", "steps")
"""What is not shown in messages: it is secret, or may hold what is."""
MOST_SHOWN = 60
"""Most characters of a wrong value that a message shows."""
_KINDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a table",
    Sequence: "a list of texts",
    Path: "a path",
    Callable: "a function",
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
    if not (fits(value, hint) or (value == "none" and NoneType in get_args(hint))):
        hidden = key.rpartition(".")[2] in _SECRET or isinstance(value, (dict, list))
        shown = "" if hidden else f" = {value!r}"
        raise ConfigError(f"{source.name}: {key}{shown} is of the wrong kind; give {_wanted_of_table(hint)}")


def _wanted_of_table(hint: Any) -> str:
    return wanted(hint).replace("None", '"none"')


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of the type that a setting declares; a number must be finite, no number is a truth value.

    Example:
        >>> fits(3, float), fits(True, int), fits("extract", Sequence[str]), fits(None, str | None)
        (True, False, False, True)
    """
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in args)
    if origin in _TESTS:
        return _TESTS[origin](value, args)
    if origin is Any or origin is Literal:
        return origin is Any or value in args
    return isinstance(value, origin)


_TESTS: Mapping[Any, Callable[[Any, tuple[Any, ...]], bool]] = {
    float: lambda value, _: (
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    ),
    int: lambda value, _: isinstance(value, int) and not isinstance(value, bool),
    Mapping: lambda value, args: (
        isinstance(value, Mapping) and all(fits(one, args[1]) for one in value.values() if args)
    ),
    Sequence: lambda value, _: (
        isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    ),
    Callable: lambda value, _: callable(value) and not isinstance(value, type),
}


def wanted(hint: Any) -> str:
    """Return in words what a setting of a type takes.

    Example:
        >>> wanted(int | None), wanted(Literal["a", "b"])
        ('a whole number or None', "'a', 'b'")
    """
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(wanted(one) for one in get_args(hint)))
    if origin is Literal:
        return ", ".join(map(repr, get_args(hint)))
    if origin is NoneType:
        return "None"
    return _KINDS.get(origin) or with_article(getattr(origin, "__name__", str(origin)))


def with_article(name: str) -> str:
    """Return the name of a type as it stands in a sentence.

    Example:
        >>> with_article("int"), with_article("Ranking")
        ('an int', 'a Ranking')
    """
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


_HINTS: dict[type, Mapping[str, Any]] = {}
"""Types of settings -> the types of their fields: to find them out takes longer than to compare them."""


def _hints(kind: type) -> Mapping[str, Any]:
    found = _HINTS.get(kind)
    if found is None:
        found = _HINTS[kind] = get_type_hints(kind)
    return found


def check_fields(made: Any) -> None:
    """Refuse an object of settings, a dataclass, one of whose fields is of the wrong type.

    Raises:
        ConfigError: if there is one; it says what to write.
    """
    kind = type(made).__name__
    for name, hint in _hints(type(made)).items():
        value = getattr(made, name)
        if not fits(value, hint):
            raise ConfigError(f"{kind}({name}=...) takes {wanted(hint)}, {instead(kind, name, value, hint)}")


def brief(value: Any) -> str:
    """Return a wrong value for a message: a number or a short text as it is, anything else by its type.

    Example:
        >>> brief("5"), brief({"api_key": "x"}), brief(10**5000)
        ("'5'", 'a dict', 'an int')
    """
    given = with_article(type(value).__name__)
    if not isinstance(value, (bool, int, float, str, NoneType)):
        return given
    if isinstance(value, int) and value.bit_length() > MOST_SHOWN:  # Python refuses to write very many digits
        return given
    text = repr(value)
    return text if len(text) < MOST_SHOWN else given


def instead(kind: str, name: str, value: Any, hint: Any) -> str:
    """Say what a value of the wrong type is, and what to write where that can be told.

    Values are shown that can hold no secret: numbers, and short texts.

    Args:
        kind: the call that it was given to.
        name: the argument.
        value: what was given.
        hint: the type of the argument.
    """
    kinds = (one for one in (hint, *get_args(hint)) if isinstance(one, type))
    made = next((one for one in kinds if is_dataclass(one)), None)
    if made is None:
        return f"not {brief(value)}"
    settings = f"{fields(made)[0].name}=..."
    if isinstance(value, Mapping) and value:
        numbers = {key: one for key, one in value.items() if isinstance(one, (int, float))}
        settings = ", ".join(f"{key}={brief(one)}" for key, one in numbers.items())
    return f"not {with_article(type(value).__name__)}; write {kind}({name}={made.__name__}({settings}))"


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
