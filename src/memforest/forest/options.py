"""The arguments that `query`, `search` and `ask` share, checked in one place."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, TypedDict

from memforest.calendar import parse_timestamp
from memforest.config import MODES, Config, Ranking
from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.memory.query import Asked
from memforest.steps.base import QUESTION_CHARS
from memforest.systems.choose import open_index

__all__ = ["QueryOptions", "TimeLike", "read_options", "read_time"]

TimeLike = datetime | str | int | float
"""An aware or naive datetime, a date, an ISO 8601 or written date, or UNIX seconds."""


class QueryOptions(TypedDict, total=False):
    """Optional arguments of a question; see `AsyncMemForest.query`."""

    query_time: TimeLike | None
    reference_date: TimeLike | None
    as_of: TimeLike | None
    during: tuple[TimeLike, TimeLike] | None
    top_k: int | None
    max_facts: int | None
    max_tokens: int | None
    index: str
    ranking: Ranking | None
    mode: str | None
    budget: Budget | None
    explain: bool


def read_time(value: TimeLike | None, config: Config, name: str) -> datetime | None:
    """Return an aware UTC datetime, None for None.

    Raises:
        TimestampError: if the value is no time; the message names it.
    """
    return None if value is None else parse_timestamp(value, timezone=config.zone, field=name)[0]


def read_options(question: str, options: QueryOptions, config: Config) -> Asked:
    """Check a question and its options.

    Raises:
        InputError: if the question is empty, or an option is unknown or out of range.
        ConfigError: if there is no such index.
    """
    if not isinstance(question, str) or not question.strip():
        raise InputError("the question is empty; give some text")
    try:
        question.encode()
    except UnicodeEncodeError:
        raise InputError("the question holds a lone surrogate; decode it as UTF-8 first") from None
    if unknown := sorted(set(options) - set(QueryOptions.__annotations__)):
        raise InputError(
            f"there is no option {unknown[0]!r}; known: {', '.join(QueryOptions.__annotations__)}"
        )
    query_time, reference_date = options.get("query_time"), options.get("reference_date")
    if query_time is not None and reference_date is not None:
        raise InputError("query_time and reference_date are two names of one argument; give one of them")
    top_k = _count("top_k", options.get("top_k"), config.top_k, 1)
    reference = read_time(reference_date if query_time is None else query_time, config, "reference_date")
    return Asked(
        question=question[:QUESTION_CHARS],
        reference=reference or config.clock().astimezone(timezone.utc),
        as_of=read_time(options.get("as_of"), config, "as_of"),
        during=_window(options.get("during"), config),
        top_k=top_k,
        max_facts=_count("max_facts", options.get("max_facts"), top_k, 0),
        max_tokens=_count("max_tokens", options.get("max_tokens"), None, 1),
        index=open_index(options.get("index", "memforest")),
        ranking=options.get("ranking") or config.ranking,
        rerank_top=config.rerank_top,
        mode=_mode(options.get("mode")) or config.mode,
        browse_calls=config.browse_calls,
        budget=_budget(options.get("budget")) or config.query_budget,
        explain=_flag("explain", options.get("explain", False)),
        warnings=_cut_warning(len(question)),
    )


def _cut_warning(length: int) -> tuple[str, ...]:
    if length <= QUESTION_CHARS:
        return ()
    return (f"the question has {length:,} characters; the first {QUESTION_CHARS:,} are read",)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r}: give True or False")
    return value


def _mode(value: Any) -> str | None:
    if value is not None and value not in MODES:
        raise InputError(f"mode={value!r}: give one of {', '.join(MODES)}, or None for the default")
    return value  # type: ignore[no-any-return]  # one of them


def _budget(value: Any) -> Budget | None:
    if value is not None and not isinstance(value, Budget):
        raise InputError(f"budget={value!r}: give a Budget(max_calls=..., max_tokens=...)")
    return value


def _count(name: str, value: Any, default: Any, least: int) -> Any:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name}={value!r}: give a whole number of at least {least}")
    return value


def _window(during: Any, config: Config) -> tuple[datetime, datetime] | None:
    if during is None:
        return None
    if not isinstance(during, (tuple, list)) or len(during) != 2:
        raise InputError("during= takes a pair (start, end)")
    start, end = (read_time(value, config, f"during[{i}]") for i, value in enumerate(during))
    if start is None or end is None or start >= end:
        raise InputError("during= takes a start before its end")
    return start, end
