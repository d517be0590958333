"""`--recall` and `--explore`: how an index with levels of memories looks for evidence, for one question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memforest.errors import ConfigError

if TYPE_CHECKING:
    from memforest.config import Ranking
    from memforest.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="Settings")
_WORDS = {"true": True, "false": False}
_Given = Mapping[str, Any]


def recall_option(command: F) -> F:
    """Give a command the option `--recall`."""
    option = click.option(
        "--recall",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_checked(read_recall),
        help="How memories of several levels are recalled, as gate=off, complexity=2 or levels=2,3,4,5; see docs/ranking.md.",
    )
    return option(command)


def explore_option(command: F) -> F:
    """Give a command the option `--explore`."""
    option = click.option(
        "--explore",
        multiple=True,
        metavar="NAME=VALUE,...",
        callback=_checked(read_explore),
        help="How a question of several hops and times is explored, as hops=1,follow_up=off or scope=mixed; see docs/graph.md.",
    )
    return option(command)


def _checked(read: Callable[[tuple[str, ...]], _Given]) -> Callable[..., _Given | None]:
    """Return what reads an option; a wrong setting is wrong usage, and none at all is None."""

    def callback(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> _Given | None:
        try:
            return read(given) or None
        except ConfigError as exc:
            raise click.BadParameter(str(exc)) from None

    return callback


def read_recall(given: tuple[str, ...]) -> dict[str, Any]:
    """Return settings of `Recall` by name.

    Args:
        given: each as ``"NAME=VALUE"``; commas stand between several numbers.

    Raises:
        ConfigError: if there is no such setting, or a value is of the wrong type or out of range.
    """
    from memforest.recall import Recall

    return _read(given, Recall, "gate=off")


def read_explore(given: tuple[str, ...]) -> dict[str, Any]:
    """Return settings of `Explore` by name.

    Args:
        given: each as ``"NAME=VALUE"``, or several with commas between them.

    Raises:
        ConfigError: if there is no such setting, or a value is of the wrong type or out of range.
    """
    from memforest.explore import Explore

    return _read([part for one in given for part in one.split(",") if part.strip()], Explore, "hops=1")


def _read(given: Sequence[str], of: type[Settings], example: str) -> dict[str, Any]:
    """Return settings by name, checked one by one and against the defaults of the others."""
    from memforest.settings import hints_of
    from memforest.tables import checked

    table: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"{one!r} names no value; write NAME=VALUE, as in {example}")
        table[name.strip()] = _value(value.strip(), several=name.strip() == "levels")
    read = checked(table, hints_of(of), "")
    of(**read)
    return read


def _value(text: str, *, several: bool) -> Any:
    """Return a value as TOML would have it."""
    if several and text != "none":
        return [_value(part.strip(), several=False) for part in text.split(",") if part.strip()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return _WORDS.get(text.lower(), text)


def with_recall(ranking: Ranking, given: Mapping[str, Any]) -> Ranking:
    """Return a ranking with some settings of its recall, the others as they were."""
    from memforest.recall import Recall

    return replace(ranking, recall=_laid_over(ranking.recall or Recall(), given))


def with_explore(ranking: Ranking, given: Mapping[str, Any]) -> Ranking:
    """Return a ranking with some settings of how it explores, the others as they were."""
    from memforest.explore import Explore

    return replace(ranking, explore=_laid_over(ranking.explore or Explore(), given))


def _laid_over(old: S, given: Mapping[str, Any]) -> S:
    values = {one.name: getattr(old, one.name) for one in fields(old)}  # type: ignore[arg-type]
    return type(old)(**{**values, **given})
