"""What a model is told: errors in one sentence that says what to do, with nothing of the server's insides; texts within bounds."""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from pydantic import ValidationError

from memforest import errors
from memforest.display import one_line, shown, visible
from memforest.text import cut

MOST_TEXT_CHARS = 10_000
"""Of one text in a result; REST and the inspector have all of a longer one."""
MOST_CHARS = 100_000
"""Of the lines of a result, or of a resource."""
MORE = "There is more than fits here: ask for less at once, or for the next page."

_log = logging.getLogger("memforest.mcp")

MOST_SENTENCE = 400

_FIXED: tuple[tuple[type[BaseException], str], ...] = (
    (errors.StoreLockedError, "Another process is writing to this memory; try again in a moment."),
    (errors.StoreClosedError, "The server is shutting down; try again when it is back."),
    (
        errors.StoreWriteError,
        "The server cannot write to its disk; ask who runs it to make room, then try again.",
    ),
    (
        errors.StoreError,
        "The memory's file cannot be used; ask who runs the server to run `memforest doctor`.",
    ),
    (errors.BudgetError, "The calls or tokens allowed to one request are used up; ask for less at once."),
    (errors.ModelUnavailableError, "A model that this needs does not answer; try again later."),
    (
        errors.ModelError,
        "A model that this needs cannot be used; ask who runs the server to check its settings.",
    ),
    (errors.ConfigError, "A setting of the server is wrong; ask who runs it to run `memforest doctor`."),
)
"""What is said of errors whose message may name paths, endpoints or settings of the server."""

_OWN = (
    errors.InputError,
    errors.NotFoundError,
    errors.AccessError,
    errors.CorrectionError,
    errors.SessionConflictError,
)
"""Errors about what was asked for: their message says what to do about it."""


def of_error(error: BaseException | None, doing: str) -> str:
    """Return what the model that called is told about an error.

    Args:
        error: what was raised.
        doing: the tool, resource or prompt, for what nobody has foreseen; that is logged by its class and place.
    """
    if isinstance(error, errors.RateLimitError):
        return f"Too many requests; try again in {max(1, math.ceil(error.retry_after_s))} s."
    if isinstance(error, _OWN) and not isinstance(error, errors.ConfigError):
        return _sentence(str(error))
    for kind, text in _FIXED:
        if isinstance(error, kind):
            _log.warning("%s failed: %s", doing, type(error).__name__)
            return text
    _log.error("%s failed: %s", doing, _place(error))
    return f"{doing} failed inside the server; try again, and tell who runs it if that fails too."


def of_arguments(error: ValidationError, known: Iterable[str]) -> str:
    """Return what is wrong with the arguments of a call: with the first one that is; what was given is not repeated."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "arguments"
    if first["type"] == "missing":
        return f"The argument {where} is missing; the arguments are {', '.join(known)}."
    return _sentence(f"The argument {where} is wrong: {first['msg'][:1].lower()}{first['msg'][1:]}")


def of_unknown_argument(name: str, known: Iterable[str]) -> str:
    """Return that a tool does not have an argument."""
    return f"There is no argument {one_line(shown(name))}; the arguments are {', '.join(known)}."


def of_ignored_arguments(names: Iterable[str]) -> str:
    """Return which arguments a tool was called without, as it has none of these names."""
    return _sentence(f"ignored, as there are no such arguments: {', '.join(map(shown, names))}")


def within_bounds(lines: Sequence[str], more: str) -> str:
    """Return lines, as many as a result may hold, and behind them `more` if there are others."""
    kept = lines[: fitting(lines)]
    return "\n".join((*kept, more) if len(kept) < len(lines) else kept)


def fitting(lines: Sequence[str]) -> int:
    """Return how many lines, at least one, a result may hold."""
    sizes = list(accumulate(len(line) + 1 for line in lines))
    return max(1, bisect_right(sizes, MOST_CHARS))


def told(value: Any) -> Any:
    """Return what is typed as it is told: texts are cut, and every character in them is seen."""
    if isinstance(value, dict):
        return {name: told(one) for name, one in value.items()}
    if isinstance(value, list):
        return [told(one) for one in value]
    if isinstance(value, str):
        seen = visible(value)
        return seen if len(seen) <= MOST_TEXT_CHARS else seen[: MOST_TEXT_CHARS - 1] + "…"
    return value


def _sentence(text: str) -> str:
    text = cut(one_line(text), MOST_SENTENCE)
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _place(error: BaseException | None) -> str:
    """Return the class of an error, and the module and line that it comes from."""
    found = None if error is None else error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    where = (
        ""
        if found is None
        else f" in {found.tb_frame.f_globals.get('__name__', '?')}, line {found.tb_lineno}"
    )
    return f"{type(error).__name__}{where}"
