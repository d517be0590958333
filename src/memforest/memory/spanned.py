"""Spans of the public verbs, after the GenAI conventions for memory; see `memforest.spans` and docs/observability.md."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypeVar, cast

from memforest.read.results import AskResult, IngestResult, QueryResult
from memforest.spans import PROVIDER, Span, captures, span, store_id

MOST_RECORDS = 50
"""Most records that a span holds where texts are captured."""
_FACT = re.compile(r"f1:[0-9a-f]{32}")
"""The id of a fact; what is none may be any text of the caller's."""

V = TypeVar("V", bound=Callable[..., Coroutine[Any, Any, Any]])


def spanned(operation: str = "", *, verb: str = "") -> Callable[[V], V]:
    """Return a decorator that records each call of an async verb, of a forest or of a handle, as a span.

    Args:
        operation: of the conventions; where they have none, the span is named by the verb.
        verb: its public name, if the function is called otherwise.
    """

    def decorate(function: V) -> V:
        name, signature = verb or function.__name__, inspect.signature(function)

        @wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with verb_span(name, operation) as current:
                if not current.recording:
                    return await function(*args, **kwargs)
                try:
                    given = signature.bind(*args, **kwargs).arguments
                except TypeError:  # the verb itself says what is wrong
                    given = {}
                user = given.get("user_id", given.get("target_user_id", getattr(args[0], "user_id", None)))
                if isinstance(user, str):
                    current.set("gen_ai.memory.store.id", store_id(user))
                if isinstance(record := given.get("fact_id"), str) and _FACT.fullmatch(record):
                    current.set("gen_ai.memory.record.id", record)
                if captures() and isinstance(question := given.get("question"), str):
                    current.set("gen_ai.memory.query.text", question)
                result = await function(*args, **kwargs)
                _tell(current, result)
                return result

        return cast("V", call)

    return decorate


def verb_span(verb: str, operation: str) -> AbstractContextManager[Span]:
    """Return the span of a verb, or of the part of it that is about one user."""
    about: dict[str, str | int | float | bool] = {"gen_ai.provider.name": PROVIDER, "memforest.verb": verb}
    if operation:
        about["gen_ai.operation.name"] = operation
    return span(operation or f"memforest.{verb}", about)


def tell_upserted(current: Span, results: Iterable[object]) -> None:
    """Add how many facts a write has made or added to; nothing where no result is one of a write."""
    found = [one for one in results if isinstance(one, IngestResult)]
    if found:
        current.set("gen_ai.memory.record.count", sum(one.facts_inserted + one.facts_merged for one in found))


def _tell(current: Span, result: object) -> None:
    """Add what a verb returned, as far as the conventions ask for it."""
    if isinstance(result, AskResult):
        result = result.result
    if isinstance(result, QueryResult):
        current.set("gen_ai.memory.record.count", len(result.evidence))
        if captures():
            shown = [{"id": one.fact_id, "content": one.text} for one in result.evidence[:MOST_RECORDS]]
            current.set("gen_ai.memory.records", json.dumps(shown, ensure_ascii=False))
    elif hasattr(result, "gone"):
        current.set("gen_ai.memory.record.count", result.gone.get("facts", 0))
    else:
        tell_upserted(current, result if isinstance(result, list) else [result])
