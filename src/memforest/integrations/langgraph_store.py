"""LangGraph's long-term store over the memories of a forest: `MemForestStore`.

An item is a document (`memforest.integrations.documents`) of the user whom its namespace names, by default with its first label.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

from memforest import _sync
from memforest.errors import InputError
from memforest.integrations.adapter import Bridge, needs
from memforest.integrations.documents import Document, Documents, Put
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.memory.options import read_time
from memforest.settings import MAX_TOP_K
from memforest.write.turns import check_id

with needs(("langgraph", "1.1", "2"), ("langgraph-checkpoint", "4.2", "5")):
    from langgraph.store import base
    from langgraph.store.base import BaseStore, Item, Op, Result, SearchItem

__all__ = ["MemForestStore"]

Namespace = tuple[str, ...]
_TEXT = ("text", "content", "memory", "data")
"""Fields of a value whose text stands alone."""
_MOMENTS = ("as_of", "known_at", "said_by")
ASKED = "memforest"
"""The key of a filter that has options of `search`, and of a value that has its evidence."""
_check_labels = getattr(base, "validate_op_namespace", lambda _op: None)  # since langgraph-checkpoint 4.3
_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def first_label(namespace: Namespace) -> str | None:
    """Return the user of a namespace, which is its first label; None for the empty one, which is all users'."""
    return namespace[0] if namespace else None


class MemForestStore(BaseStore):
    """A durable `BaseStore` whose search knows time: values come back equal, and their texts are remembered.

    In a batch, reads see what was there before it, and the last write of an item wins. Items come in the order they were made in;
    with a query, those found come first, best first. ``filter={"memforest": {...}}`` takes the options of `search`
    (``as_of``, ``during`` and others; of a query only what is found is returned then), and ``"evidence": True`` puts the
    evidence with facts, times and sources into ``value["memforest"]``. A searched value that is put again stays as history: with a
    time, items have the values that they had then. An error is raised always: an item is the program's own.

    Args:
        forest: the memories.
        user: the user of a namespace or of a prefix; None for a prefix of several users' namespaces.
        fields: paths of a value whose texts are read, where `put` gives none in `index`.
        options: of `Bridge`.
    """

    supports_ttl = False
    __slots__ = ("_documents", "_fields", "_user")

    def __init__(
        self,
        forest: AsyncMemForest | MemForest,
        *,
        user: Callable[[Namespace], str | None] = first_label,
        fields: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        self._documents = Documents(Bridge(forest, **options), "langgraph", keeps=True)
        self._user, self._fields = user, fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; see the class. May be called in a running loop, which then waits."""
        return _sync.run(self.abatch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; see the class.

        Raises:
            InvalidNamespaceError: if a namespace names no user, or cannot be one.
            InputError: if a value is not JSON; nothing of the batch is written.
            StoreError: if a memory cannot be read or written.
        """
        results, puts = list[Result](), dict[tuple[Namespace, str], base.PutOp]()
        for op in ops:
            _check_labels(op)
            if isinstance(op, base.GetOp):
                found = await self._documents.find(self._one(op.namespace), [(*op.namespace, op.key)])
                results.append(_item(found[0]) if found else None)
            elif isinstance(op, base.SearchOp):
                results.append(await self._search(op))
            elif isinstance(op, base.ListNamespacesOp):
                results.append(await self._namespaces(op))
            elif isinstance(op, base.PutOp):
                puts[op.namespace, str(op.key)] = op
                results.append(None)
            else:
                raise InputError(
                    f"unknown operation {type(op).__name__}; give GetOp, PutOp, SearchOp or ListNamespacesOp"
                )
        named = [(self._one(namespace), (*namespace, key), op) for (namespace, key), op in puts.items()]
        kept = [Put(user, name, op.value, self._text(op)) for user, name, op in named if op.value is not None]
        await self._documents.put(kept)
        for user, name, op in named:
            if op.value is None:
                await self._documents.delete(user, name)
        return results

    def _one(self, namespace: Namespace) -> str:
        """Return the user of a namespace."""
        try:
            return check_id(self._user(namespace), "the user of a namespace")
        except InputError as exc:
            raise base.InvalidNamespaceError(f"{namespace!r}: {exc}") from None

    async def _users(self, prefix: Namespace) -> list[str]:
        """Return the users who may have namespaces with a prefix."""
        everyone = self._user(prefix) is None
        return await self._documents.bridge.forest.list_users() if everyone else [self._one(prefix)]

    def _text(self, op: base.PutOp) -> str | None:
        """Return what is read of a value; None where it is not to be found."""
        if op.index is False:
            return None
        if (paths := op.index or self._fields) is not None:
            return "\n".join(text for path in paths for text in base.get_text_at_path(op.value, path)) or None
        alone = [op.value[name] for name in _TEXT if isinstance(op.value.get(name), str)]
        return alone[0] if alone else "\n".join(f"{name}: {one}" for name, one in op.value.items()) or None

    async def _search(self, op: base.SearchOp) -> list[SearchItem]:
        options = dict((op.filter or {}).get(ASKED) or {})
        wanted = [(key, one) for key, one in (op.filter or {}).items() if key != ASKED]
        evidence, prefix = options.pop("evidence", False), tuple(op.namespace_prefix)
        asked, end = bool(op.query and op.query.strip()), op.offset + op.limit
        window, config = tuple(options.get("during") or ()), self._documents.bridge.forest.config
        bounds = ([*map(options.get, _MOMENTS), *window[end]] for end in (slice(1), slice(1, 2)))
        times = ([read_time(one, config, "as_of") for one in each] for each in bounds)
        at, by = (min(filter(None, each), default=None) for each in times)
        found, rest = list[tuple[float, Document, Any]](), list[Document]()
        users = await self._users(prefix)
        for user_id in users:

            def passes(one: Document, user_id: str = user_id) -> bool:
                below = one.name[: len(prefix)] == prefix and len(one.name) > len(prefix)
                mine = below and self._user(one.name[:-1]) == user_id
                return mine and all(_passes(_field(one.value, key), like) for key, like in wanted)

            hits: dict[tuple[str, ...], Any] = {}
            if asked:
                most = MAX_TOP_K if wanted else 50 + 10 * end
                hits = await self._documents.search(user_id, str(op.query), most, (at, by), **options)
                found += [(told[0][0], one, told) for one, told in hits.values() if passes(one)]
            if not (asked and options) and len(found) + len(rest) < end:
                held = await self._documents.find(user_id, within=(at, by))
                rest += islice((one for one in held if one.name not in hits and passes(one)), end)
        if len(users) > 1:
            found.sort(key=lambda one: -one[0])
        items = [_item(one, SearchItem, score=score) for score, one, _ in found]
        for item, (_, _, told) in zip(items, found if evidence else (), strict=False):
            item.value[ASKED] = [one.brief() for _, one in told]
        return [*items, *(_item(one, SearchItem) for one in rest)][op.offset : end]

    async def _namespaces(self, op: base.ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        prefix = next((one.path for one in conditions if one.match_type == "prefix"), ())
        known = prefix[: prefix.index("*")] if "*" in prefix else prefix
        found: set[Namespace] = set()
        for user_id in await self._users(known):
            for one in await self._documents.find(user_id):
                namespace = one.name[:-1]
                if self._user(namespace) == user_id and all(_matches(each, namespace) for each in conditions):
                    found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]


def _item(document: Document, kind: type[Item] = Item, **more: Any) -> Any:
    *namespace, key = document.name
    times = {"created_at": document.created, "updated_at": document.updated}
    return kind(namespace=tuple(namespace), key=key, value=deepcopy(document.value), **times, **more)


def _matches(condition: Any, namespace: Namespace) -> bool:
    """Return whether a namespace begins or ends with a path, in which "*" stands for any one label."""
    path, length = condition.path, len(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InputError(f"unknown match type {condition.match_type!r}; give 'prefix' or 'suffix'")
    part = namespace[:length] if condition.match_type == "prefix" else namespace[-length or len(namespace) :]
    return len(part) == length and all(asked in ("*", label) for asked, label in zip(path, part, strict=True))


def _field(value: Mapping[str, Any], key: str) -> Any:
    """Return a field of a value; a key that it has not may be a path with dots."""
    if key in value or "." not in key:
        return value.get(key)
    first, _, rest = key.partition(".")
    inner = value.get(first)
    return _field(inner, rest) if isinstance(inner, Mapping) else None


def _passes(value: Any, asked: Any) -> bool:
    """Return whether a value is as a filter asks."""
    if isinstance(asked, Mapping) and any(str(key).startswith("$") for key in asked):
        return all(_holds(value, op, one) for op, one in asked.items())
    if isinstance(asked, Mapping):
        return isinstance(value, Mapping) and all(_passes(value.get(key), one) for key, one in asked.items())
    if isinstance(asked, (list, tuple)):
        return (
            isinstance(value, (list, tuple)) and len(value) == len(asked) and all(map(_passes, value, asked))
        )
    return bool(value == asked)


def _holds(value: Any, op: str, asked: Any) -> bool:
    if op in ("$eq", "$ne"):
        return bool(value == asked) is (op == "$eq")
    if op not in _ORDER:
        raise InputError(f"unknown operator {op!r}; known: $eq, $ne, {', '.join(_ORDER)}")
    try:
        return bool(_ORDER[op](float(value), float(asked)))
    except (TypeError, ValueError):
        return isinstance(value, str) and isinstance(asked, str) and bool(_ORDER[op](value, asked))
