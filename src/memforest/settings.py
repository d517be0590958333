"""Settings: frozen values that are checked when they are made.

pydantic says whether a value is of the type that a setting's annotation declares; here that is put into words. It is
imported when the first value that is no default has to be checked: `import memforest` does not wait for it.


Tables of settings: read from TOML, checked key by key, laid over each other, and made into values; and into JSON.

A table is what TOML gives: names to texts, numbers, lists and tables. Nothing is expanded in a text; a key for a model
can be kept out of a file by ``api_key_env``, which names an environment variable. The text ``"none"`` stands for None
where a setting may be None, as TOML has no such value, and has no value of that name.


The bounds of what callers may give, each in one place: the core checks by them, and front ends write their schemas from them.

What is beyond one is an `InputError`, or is cut with a warning where the text below says so. They bound what one call may
cost; none of them bounds what a memory holds.

"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from memforest.errors import ConfigError

T = TypeVar("T")

INDEX_SETTINGS: dict[str, type] = {}
"""Name of an index -> the class of its settings. Each index enters its own; asked where a setting is unknown."""

_SECRET = ("api_key", "base_url", "key", "extra_body", "headers", "steps")
"""Settings whose values messages do not show: they are secret, or may hold what is."""
MOST_SHOWN = 60
"""Most characters of a wrong value that a message shows."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a number: ``Annotated[int, Bound(ge=1)]`` is at least 1, ``Annotated[float, Bound(gt=0)]`` above 0; `le` is at most, `lt` below."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {**handler(source), **{key: one for key, one in asdict(self).items() if one is not None}}


def experimental(default: T) -> T:
    """Return the default of a setting that ablations and the papers' forms vary, and that people have no need to know.

    It may change or go with any version. docs/configuration.md lists these apart, and no body of REST has them.
    """
    made: T = field(default=default, metadata={"experimental": True})
    return made


Count: TypeAlias = Annotated[int, Bound(ge=1)]
Whole: TypeAlias = Annotated[int, Bound(ge=0)]


@cache
def _adapter(hint: Any) -> Any:
    from pydantic import ConfigDict, InstanceOf, TypeAdapter

    if is_dataclass(hint):  # only an object of it, no mapping
        return TypeAdapter(InstanceOf[hint])
    return TypeAdapter(
        hint, config=ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    )


def check_value(before: str, name: str, after: str, value: Any, hint: Any) -> None:
    """Refuse a value that is not of a setting's type; `before` and `after` stand around its name in the message.

    Raises:
        ConfigError: if it is not.
    """
    from pydantic import ValidationError

    try:
        _adapter(hint).validate_python(value)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
    else:
        return
    place, wrong = "", value
    if get_origin(hint) not in (Union, UnionType) or get_args(hint)[1:] == (NoneType,):
        # Not a union, which has an error for each of its types: the first says where in the value it is.
        errors = errors[:1]
        place, wrong = "".join(f"[{part!r}]" for part in errors[0]["loc"][:1]), errors[0]["input"]
    said = " or ".join(dict.fromkeys(_words(one["type"], one["msg"]) for one in errors))
    if after:
        said += " or None" if may_be_none(hint) else ""
    else:
        said += ' or "none"' if none_is_text(hint) else ""
    if name.rpartition(".")[2] not in _SECRET:
        said += f", {instead(before[:-1] if after else '', name, wrong, hint)}"
    raise ConfigError(f"{before}{name}{place}{after} should be {said}") from None


def _words(error: str, message: str) -> str:
    return "a list" if error == "sequence_str" else message.removeprefix("Input should be ")


def may_be_none(hint: Any) -> bool:
    """Return whether a setting of a type takes None."""
    return NoneType in get_args(hint)


def none_is_text(hint: Any) -> bool:
    """Return whether the text "none" stands for None: a setting of that type may be None, and has no value "none".

    Example:
        >>> none_is_text(int | None), none_is_text(Literal["none", "all"] | None)
        (True, False)
    """
    values = [value for one in get_args(hint) if get_origin(one) is Literal for value in get_args(one)]
    return may_be_none(hint) and "none" not in values


def settings_of(hint: Any) -> type | None:
    """Return the class of settings that a setting is an object of, or may be; None of every other one.

    Example:
        >>> settings_of(NoSettings | None) is NoSettings, settings_of(Mapping[str, int])
        (True, None)
    """
    plain = (one for one in (hint, *get_args(hint)) if isinstance(one, type) and get_origin(one) is None)
    return next((one for one in plain if issubclass(one, Settings)), None)


def with_article(name: str) -> str:
    """Return the name of a type as it stands in a sentence.

    Example:
        >>> with_article("int"), with_article("Ranking")
        ('an int', 'a Ranking')
    """
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


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


def instead(call: str, name: str, value: Any, hint: Any) -> str:
    """Say what a value of the wrong type is, and what to write where that can be told.

    Values are shown that can hold no secret: numbers, and short texts.

    Args:
        call: what it was given to; empty for a file.
        name: the argument.
        value: what was given.
        hint: the type of the argument.
    """
    if not call or not is_dataclass(hint):
        return f"not {brief(value)}"
    settings = f"{fields(hint)[0].name}=..."
    if isinstance(value, Mapping) and value:
        numbers = {key: one for key, one in value.items() if isinstance(one, (int, float))}
        settings = ", ".join(f"{key}={brief(one)}" for key, one in numbers.items())
    made = getattr(hint, "__name__", "")
    return f"not {with_article(type(value).__name__)}; write {call}({name}={made}({settings}))"


class Settings:
    """Base of the frozen dataclasses of settings, which refuse what is wrong when they are made.

    A value must be of the type of its annotation as it stands: True is no number, "5" no whole number, NaN no number
    at all. A default is not checked.

    Raises:
        ConfigError: if there is no such setting, or a value is of the wrong type or out of range. It names the setting,
            shows the value unless that may be secret, and says what to write.
    """

    __slots__ = ()
    KEPT: ClassVar[tuple[str, ...]] = ()
    """Settings of an index that a memory keeps from its first write on, because they shape what the index stores. The
    others come from the present configuration."""
    _apart: ClassVar[Collection[str]] = ()
    """Settings whose types `_check` looks at itself."""

    def __new__(cls: type[T], *_: Any, **given: Any) -> T:
        """Refuse settings that there are none of, before the dataclass does so in Python's words."""
        refuse_unknown(given, hints_of(cls), f"{cls.__name__}(): ")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Check each value that is no default, then the settings together."""
        before, hints = f"{type(self).__name__}(", hints_of(type(self))
        for one in fields(self):  # type: ignore[arg-type]  # what extends it is a dataclass
            value = getattr(self, one.name)
            if not _is_default(value, one) and one.name not in self._apart:
                check_value(before, one.name, "=...)", value, hints[one.name])
        self._check()

    def _check(self) -> None:
        """Refuse what the types alone do not tell."""


@dataclass(frozen=True, slots=True)
class NoSettings(Settings):
    """The settings of an index that has none."""


def _is_default(value: Any, one: Field[Any]) -> bool:
    if one.default_factory is MISSING:
        return value is one.default
    made = one.default_factory()
    return type(value) is type(made) and value == made


def hints_of(kind: Any) -> Mapping[str, Any]:
    """Return the settings of a dataclass with their types."""
    return _hints(kind)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


def refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any], before: str, own: str = "") -> None:
    """Refuse names of settings that there are none of.

    Args:
        given: names to values.
        known: the settings that there are.
        before: put before the message.
        own: put before each name in it.

    Raises:
        ConfigError: if there is one; it names the index that has such a setting, or lists those that are known.
    """
    for name in given:
        if name not in known:
            owner = next((one for one, kind in INDEX_SETTINGS.items() if name in hints_of(kind)), None)
            if owner is None:
                more = "; those of an index stand in [index.NAME], Config(index_settings={'NAME': ...})"
                listed = f"{', '.join(known) or 'none'}{more if 'indexes' in known else ''}"
                raise ConfigError(f"{before}unknown setting {own}{name}; known: {listed}")
            raise ConfigError(
                f"{before}{own}{name} is a setting of the index {owner!r}; write it under "
                f"[index.{owner}], or Config(index_settings={{{owner!r}: {{{name!r}: ...}}}})"
            )


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = dict[str, Any]

PRESETS = (
    "default",
    "default_30b",
    "default_4b",
    "memforest_paper",
    "segtree_paper",
    "timem_paper",
    "hmem_paper",
)
"""``"default"`` is empty; two are the models of the MemForest paper's evaluation, ``"memforest_paper"`` its form, and the others
the models and forms of SegTreeMem's, TiMem's and H-Mem's."""
KEY_ENV = "api_key_env"
_KEYS = ("api_key", KEY_ENV)


def preset(name: str) -> Table:
    """Return the settings of a preset that comes with the package.

    Raises:
        ConfigError: if there is none of that name.
    """
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; known: {', '.join(map(repr, PRESETS))}")
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
        raise ConfigError(f"the settings file {str(path)!r} is not TOML: {exc}") from exc


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
        raise ConfigError(f"{before}[{section}] has {' and '.join(_KEYS)}; give only one of them")
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

    A key belongs to one address. If `upper` names another address, the key and the headers of `lower` are dropped,
    also those of its steps without an address of their own.
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
            raise ConfigError(
                f"{before}the key should come from the variable {table[KEY_ENV]}, which is not set"
            )
    return values


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
        raise ConfigError(f"{brief(stored)} is not a table")
    kind = type(settings)
    kept = {name: getattr(kind(), name) for name in settings.KEPT}  # type: ignore[attr-defined]
    values = {**kept, **checked(stored, hints_of(kind), f"[index.{index}] ")}
    return replace(settings, **values)  # type: ignore[type-var]  # a dataclass


MAX_ID_CHARS = 1_024
"""Characters of the id of a user, session or turn, and of an idempotency key: composed ids (tenant, app, thread) fit many
times, and an index of ids stays small."""

MAX_TURN_CHARS = 100_000
"""Characters of a turn, unless `Config.max_turn_chars` says otherwise: a long document; more is one turn of its own for each
part. A longer turn is refused alone."""

MAX_FACT_CHARS = 4_000
"""Characters of a corrected statement: a statement is a sentence or a few."""

MAX_METADATA_DEPTH = 64
"""Lists and mappings within each other that metadata may hold; what reads it level by level must not run out of stack."""

MAX_TOP_K = 1_000
"""Pieces of evidence of one question (`top_k`): ten times what any prompt holds. Ranking orders all that a
question finds; what this bounds is how much is read back and written out."""

MAX_PAGE = 1_000
"""Items of a page: what a caller holds and a server writes in one answer."""

MAX_CURSOR_CHARS = 8_000
"""Characters of the cursor of a page. One holds the key of one item, of which an id is the longest part: `MAX_ID_CHARS`
characters of four bytes each in JSON and base64."""

MAX_TIME_CHARS = 120
"""Characters of a time that is written: several times the longest date in words."""

MAX_TREE_DEPTH = 100
"""Levels that `tree` unfolds: views are nested as deep as trees are, and a segment tree whose bounds are switched off may be as
high as it has leaves."""

QUESTION_CHARS = 2_000
"""Most characters of a question. A longer one keeps half of them at each end, and a warning says so. All steps see the
same text."""

MAX_BODY_BYTES = 10_000_000
"""Bytes of one request to a server: a session of a hundred of the longest turns. Longer histories come in more sessions."""

MAX_BODY_ITEMS = 100_000
"""Values of one request to a server, in all lists and objects together: what is made of a byte of JSON costs up to a hundred."""

STORED_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
"""The roles of chat protocols that a turn may have. A person's name belongs in ``speaker``."""

ROLE_ALIASES = MappingProxyType({"human": "user", "ai": "assistant"})
"""Other names of roles, as some protocols write them -> the role that is stored."""

TEXT = ("content", "text", "message")
TIME_KEYS = ("timestamp", "time", "date", "created_at", "createdAt", "created", "timestamp_ms", "date_ms", "ts", "create_time",
             "update_time")  # fmt: skip
ID = ("id", "turn_id", "message_id", "dia_id")
SPEAKER = ("speaker", "name")
CAPTION = ("caption", "blip_caption")
"""The keys of a message for its text, time, id, speaker and the caption of its picture; the first one found counts.
They hold for files and for `add`."""

ROLES = (*STORED_ROLES, *ROLE_ALIASES)
"""All roles that are read."""


def has_too_many_items(body: bytes) -> bool:
    r"""Return whether JSON holds more than `MAX_BODY_ITEMS` values beside each other, before anything is made of it.

    Commas are counted, those within texts not: these are what stands behind every second quotation mark that is not escaped.

    Example:
        >>> has_too_many_items(b"[" + b"1," * 100_000 + b"1]"), has_too_many_items(b'["' + b"," * 200_000 + b'"]')
        (True, False)
    """
    if body.count(b",") < MAX_BODY_ITEMS:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * MAX_BODY_ITEMS:  # a name and a text of each
        return True
    return sum(part.count(b",") for part in plain.split(b'"')[::2]) >= MAX_BODY_ITEMS
