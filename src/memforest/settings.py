"""Settings: frozen values that are checked when they are made.

pydantic says whether a value is of the type that a setting's annotation declares; here that is put into words. It is
imported when the first value that is no default has to be checked: `import memforest` does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
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


# -- one value ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a number: ``Annotated[int, Bound(ge=1)]`` is at least 1, ``Annotated[float, Bound(gt=0)]`` above 0; `le` is at most, `lt` below."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {**handler(source), **{key: one for key, one in asdict(self).items() if one is not None}}


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


# -- several values -------------------------------------------------------------------------------


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
    """Settings of an index that a memory keeps from its first write on, because what the index stores has its shape by
    them; the others are those of the present configuration."""
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
                raise ConfigError(f"{before}there is no setting {own}{name}; known: {listed}")
            raise ConfigError(
                f"{before}there is no setting {own}{name} here: it is one of the index {owner!r}; write it under "
                f"[index.{owner}], or Config(index_settings={{{owner!r}: {{{name!r}: ...}}}})"
            )
