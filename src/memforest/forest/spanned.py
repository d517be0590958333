"""Spans of the public verbs, after the GenAI conventions for memory; see `memforest.spans` and docs/observability.md."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from memforest.memory.plain import plain
from memforest.memory.results import AskResult, IngestResult, QueryResult
from memforest.spans import PROVIDER, Span, captures, span, store_id

MOST_RECORDS = 50
"""Most records that a span holds where texts are captured."""
OPERATION = "gen_ai.operation.name"
_FACT = re.compile(r"f1:[0-9a-f]{32}")
"""The id of a fact; what is none may be any text of the caller's."""

_C = TypeVar("_C", bound=type)

MEMORY_VERBS: Mapping[str, str] = {
    "add": "upsert_memory",
    "import_file": "upsert_memory",
    "import_": "upsert_memory",
    "merge": "upsert_memory",
    "search": "search_memory",
    "ask": "search_memory",
    "update": "update_memory",
    "pin": "update_memory",
    "undo": "update_memory",
    "merge_entities": "update_memory",
    "split_entity": "update_memory",
    "forget": "delete_memory",
    "delete": "delete_memory",
    "delete_all": "delete_memory",
    "expire": "delete_memory",
    **dict.fromkeys(
        (
            "advance",
            "add_index",
            "backup",
            "changes",
            "diff",
            "drop_index",
            "entities",
            "entity_choices",
            "export",
            "flush",
            "get",
            "graph",
            "history",
            "indexes",
            "list",
            "path",
            "profile",
            "rebuild",
            "relations",
            "repair",
            "sessions",
            "stale",
            "stats",
            "timeline",
            "tree",
            "turns",
            "verify",
        ),
        "",
    ),
}
"""Verb of a handle -> operation of the conventions; empty where they have none, and the span is named by the verb."""

FOREST_VERBS: Mapping[str, str] = {
    "register_user": "create_memory_store",
    "ingest_session": "upsert_memory",
    "import_file": "upsert_memory",
    "delete_turn": "delete_memory",
    "delete_session": "delete_memory",
    "delete_user": "delete_memory_store",
    "merge_user_forests": "upsert_memory",
    **dict.fromkeys(
        (
            "backup",
            "decrypt",
            "encrypt",
            "flush",
            "has_user",
            "list_users",
            "load",
            "rebuild",
            "rekey",
            "restore",
            "resume",
            "save",
            "survey",
            "users",
        ),
        "",
    ),
}
"""The same of the verbs of a forest. Those that are not here go through a handle, or have a span for each user."""


def spanned(verbs: Mapping[str, str], store: Callable[[Any, Mapping[str, Any]], str]) -> Callable[[_C], _C]:
    """Return a class decorator that records the async verbs of a class as spans.

    Args:
        verbs: name of a method -> operation.
        store: the object and the arguments of a call -> the user whose memory it is about.
    """

    def decorate(kind: _C) -> _C:
        for name, operation in verbs.items():
            setattr(kind, name, _recorded(getattr(kind, name), name, operation, store))
        return kind

    return decorate


@contextmanager
def upserting(verb: str, user_id: str) -> Iterator[Span]:
    """Record the part of a verb over several users that writes to the memory of one."""
    with span("upsert_memory", _known(verb, "upsert_memory")) as current:
        if current.recording:
            current.set("gen_ai.memory.store.id", store_id(user_id))
        yield current


def tell_upserted(current: Span, results: Iterable[object]) -> None:
    """Add how many facts a write has made or added to."""
    found = [one for one in results if isinstance(one, IngestResult)]
    current.set("gen_ai.memory.record.count", sum(one.facts_inserted + one.facts_merged for one in found))


def _recorded(
    verb: Callable[..., Any], name: str, operation: str, store: Callable[[Any, Mapping[str, Any]], str]
) -> Callable[..., Any]:
    signature = inspect.signature(verb)
    title = operation or f"memforest.{name}"

    @wraps(verb)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with span(title, _known(name, operation)) as current:
            if not current.recording:
                return await verb(*args, **kwargs)
            given = _arguments(signature, args, kwargs)
            user = store(args[0], given)
            if isinstance(user, str):
                current.set("gen_ai.memory.store.id", store_id(user))
            if isinstance(record := given.get("fact_id"), str) and _FACT.fullmatch(record):
                current.set("gen_ai.memory.record.id", record)
            if captures() and isinstance(question := given.get("question"), str):
                current.set("gen_ai.memory.query.text", question)
            result = await verb(*args, **kwargs)
            _tell(current, result)
            return result

    return call


def _known(name: str, operation: str) -> dict[str, str | int | float | bool]:
    about: dict[str, str | int | float | bool] = {"gen_ai.provider.name": PROVIDER, "memforest.verb": name}
    return {**about, OPERATION: operation} if operation else about


def _arguments(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, Any]:
    """Return a call's arguments by name; none of a call that is wrong, which the verb itself says."""
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError:
        return {}


def _tell(current: Span, result: object) -> None:
    """Add what a verb returned, as far as the conventions ask for it."""
    records: Sequence[Any] | None = None
    if isinstance(result, QueryResult):
        records = result.evidence
    elif isinstance(result, AskResult):
        records = result.result.evidence
    elif isinstance(result, IngestResult):
        tell_upserted(current, [result])
    elif isinstance(result, list) and any(isinstance(one, IngestResult) for one in result):
        tell_upserted(current, result)
    elif hasattr(result, "gone"):
        current.set("gen_ai.memory.record.count", result.gone.get("facts", 0))
    if records is not None:
        current.set("gen_ai.memory.record.count", len(records))
        if captures():
            shown = [{"id": one.fact_id, "content": one.text} for one in records[:MOST_RECORDS]]
            current.set("gen_ai.memory.records", json.dumps(plain(shown), ensure_ascii=False))
