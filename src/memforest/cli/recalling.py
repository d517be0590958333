"""`--recall`: how an index with levels of memories recalls them, for one question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memforest.errors import ConfigError

if TYPE_CHECKING:
    from memforest.config import Ranking

__all__ = ["read_recall", "recall_option", "with_recall"]

F = TypeVar("F", bound=Callable[..., Any])
_WORDS = {"true": True, "false": False}


def recall_option(command: F) -> F:
    """Give a command the option."""
    option = click.option(
        "--recall",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_checked,
        help="How memories of several levels are recalled, as gate=off, complexity=2 or levels=2,3,4,5; see docs/ranking.md.",
    )
    return option(command)


def _checked(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> Mapping[str, Any] | None:
    try:
        return read_recall(given) or None
    except ConfigError as exc:
        raise click.BadParameter(str(exc)) from None


def read_recall(given: tuple[str, ...]) -> dict[str, Any]:
    """Return settings of `Recall` by name.

    Args:
        given: each as ``"NAME=VALUE"``; commas stand between several numbers.

    Raises:
        ConfigError: if there is no such setting, or a value is of the wrong type or out of range.
    """
    from memforest.recall import Recall
    from memforest.settings import hints_of
    from memforest.tables import checked

    table: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"{one!r} names no value; write NAME=VALUE, as in gate=off")
        table[name.strip()] = _value(value.strip(), several=name.strip() == "levels")
    read = checked(table, hints_of(Recall), "")
    Recall(**read)
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

    old = Recall() if ranking.recall is None else ranking.recall
    values = {one.name: getattr(old, one.name) for one in fields(Recall)}
    return replace(ranking, recall=Recall(**{**values, **given}))
