"""Filters of memories: conditions on fields, joined by and, or and not; read from the shapes of mem0 and of OpenAI.

A filter is read once, with every mistake named, and then asked of one record after the other. A record is a mapping of
fields to texts, numbers, bools, times, lists, mappings, or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from memforest.calendar import parse_timestamp
from memforest.display import shown
from memforest.errors import InputError

Op = Literal["eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains", "icontains", "set"]
"""``set`` is mem0's ``"*"``: the field has a value."""

ORDER = ("gt", "gte", "lt", "lte")
MEM0_OPS = frozenset(get_args(Op)) - {"nin", "set"}
OPENAI_OPS = frozenset(("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"))
TIMES = frozenset(("created_at", "updated_at", "timestamp"))
IDS = ("user_id", "agent_id", "app_id", "run_id")
MEM0_FIELDS = (
    *(*IDS, "created_at", "updated_at", "timestamp"),
    *("categories", "metadata", "keywords", "memory_ids"),
)
LISTED = (*IDS, "memory_ids")
"""A list of values for these means one of them."""
MAX_DEPTH = 16
MAX_CONDITIONS = 256
MAX_VALUES = 1000
"""Of all lists of a filter together: each may be compared with every memory."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition on one field; `path` leads into a mapping, as ``("metadata", "colour")``."""

    path: tuple[str, ...]
    op: Op
    value: Any = None


@dataclass(frozen=True, slots=True)
class Both:
    """All of its parts hold; without any it always does."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Either:
    """One of its parts holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Neither:
    """None of its parts holds."""

    parts: tuple[Filter, ...]


Filter = Compare | Both | Either | Neither


# -- asking ---------------------------------------------------------------------------------------


def matches(wanted: Filter, record: Mapping[str, Any]) -> bool:
    """Return whether a record passes a filter."""
    if isinstance(wanted, Both):
        return all(matches(part, record) for part in wanted.parts)
    if isinstance(wanted, Either):
        return any(matches(part, record) for part in wanted.parts)
    if isinstance(wanted, Neither):
        return not any(matches(part, record) for part in wanted.parts)
    found: Any = record
    for name in wanted.path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return _holds(wanted.op, found, wanted.value)


def users_of(wanted: Filter) -> frozenset[str] | None:
    """Return the only users whose memories can pass a filter, by its conditions on ``user_id``; None when it names none."""
    if isinstance(wanted, Compare):
        if wanted.path != ("user_id",) or wanted.op not in ("eq", "in"):
            return None
        values = wanted.value if wanted.op == "in" else (wanted.value,)
        return frozenset(value for value in values if isinstance(value, str))
    if isinstance(wanted, Neither):
        return None
    sets = [users_of(part) for part in wanted.parts]
    known = [one for one in sets if one is not None]
    if isinstance(wanted, Both):
        return frozenset.intersection(*known) if known else None
    return None if len(known) < len(sets) else frozenset().union(*known)


def fields_in(wanted: Filter) -> frozenset[str]:
    """Return the fields that a filter asks of."""
    if isinstance(wanted, Compare):
        return frozenset(wanted.path[:1])
    return frozenset().union(*(fields_in(part) for part in wanted.parts))


def _holds(op: Op, found: Any, value: Any) -> bool:
    if op in ("ne", "nin"):
        return not _holds("eq" if op == "ne" else "in", found, value)
    if op == "set":
        return found is not None and found not in ((), [], {})
    if op == "eq":
        return _equal(found, value) or (_is_list(found) and any(_equal(one, value) for one in found))
    if op == "in":
        return any(_holds("eq", found, one) for one in value)
    if op in ORDER:
        return _ordered(op, found, value)
    return _contains(found, value, folded=op == "icontains")


def _equal(found: Any, value: Any) -> bool:
    """Compare as JSON does: true is not 1, and 1 is 1.0."""
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    if _is_list(found) and _is_list(value):
        return len(found) == len(value) and all(map(_equal, found, value))
    if isinstance(found, Mapping) and isinstance(value, Mapping):
        return found.keys() == value.keys() and all(_equal(found[key], value[key]) for key in value)
    return bool(found == value)


def _ordered(op: Op, found: Any, value: Any) -> bool:
    """Compare by order: numbers with numbers, texts with texts, times with times; nothing else is before or behind."""
    kinds: tuple[Any, ...] = ((int, float), str, datetime)
    if isinstance(found, bool) or isinstance(value, bool):
        return False
    if not any(isinstance(found, kind) and isinstance(value, kind) for kind in kinds):
        return False
    if op in ("gt", "lte"):
        return bool(found > value) is (op == "gt")
    return bool(found < value) is (op == "lt")


def _contains(found: Any, value: Any, *, folded: bool) -> bool:
    if isinstance(found, Mapping):
        return isinstance(value, Mapping) and all(
            key in found and _equal(found[key], one) for key, one in value.items()
        )
    if _is_list(found):
        return any(_equal(one, value) or _contains(one, value, folded=folded) for one in found)
    if not isinstance(found, str) or not isinstance(value, str):
        return False
    return value in (found.casefold() if folded else found)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


# -- reading --------------------------------------------------------------------------------------


def read_mem0(given: object) -> Filter:
    """Read a filter of mem0: fields with values or operators, and AND, OR and NOT with lists of filters.

    Several fields side by side have to hold together, and so have several operators of one field. NOT holds when none of its
    filters does. ``"*"`` stands for any value.

    Args:
        given: the filter; None and an empty mapping let everything pass.

    Raises:
        InputError: if it is none. The message names the place, and no value of it.
    """
    return Both() if given is None or given == {} else _Mem0().group(given, 0)


def read_openai(given: object) -> Filter:
    """Read a filter of OpenAI's vector stores: ``{"type": "eq", "key": …, "value": …}``, or "and" and "or" of such.

    Args:
        given: the filter; None lets everything pass.

    Raises:
        InputError: if it is none.
    """
    return Both() if given is None else _OpenAI().one(given, 0)


class _Reader:
    """Counts what it reads, so that no filter is larger than can be asked quickly."""

    def __init__(self) -> None:
        self._read = 0
        self._values = 0

    def enter(self, depth: int) -> None:
        self._read += 1
        if depth > MAX_DEPTH or self._read > MAX_CONDITIONS:
            raise InputError(
                f"the filter is too large: at most {MAX_CONDITIONS} conditions, {MAX_DEPTH} levels deep"
            )

    def condition(self, path: tuple[str, ...], op: Op, value: Any) -> Compare:
        where = ".".join(path)
        if op in ("in", "nin"):
            self._values += len(value) if _is_list(value) else 0
            if not _is_list(value) or self._values > MAX_VALUES:
                raise InputError(
                    f"filters: {op!r} of {shown(where)} takes a list; all lists of a filter have at most {MAX_VALUES} values"
                )
            value = tuple(value)
        if op == "icontains" and isinstance(value, str):
            value = value.casefold()
        if path[0] in TIMES and len(path) == 1:
            value = tuple(map(_time, value)) if isinstance(value, tuple) else _time(value)
        return Compare(path, op, value)


def _time(value: Any) -> datetime:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError("filters: a time is an ISO 8601 text or UNIX seconds")
    return parse_timestamp(value, timezone=timezone.utc, field="a time of the filter")[0]


class _Mem0(_Reader):
    def group(self, given: object, depth: int) -> Filter:
        if not isinstance(given, Mapping) or not given:
            raise InputError('filters: a filter is an object such as {"user_id": "…"}, and not empty')
        parts: list[Filter] = []
        for name, value in given.items():
            self.enter(depth)
            if name in ("AND", "OR", "NOT"):
                listed = value if _is_list(value) else [value] if name == "NOT" else None
                if not listed:
                    raise InputError(f"filters: {name} takes a list of at least one filter")
                kind = {"AND": Both, "OR": Either, "NOT": Neither}[name]
                parts.append(kind(tuple(self.group(one, depth + 1) for one in listed)))
            elif name in MEM0_FIELDS:
                parts.extend(self.field(name, value, depth))
            else:
                raise InputError(
                    f"filters: there is no field {shown(name)}; known: {', '.join(MEM0_FIELDS)}, AND, OR, NOT. "
                    'Metadata of your own is asked as {"metadata": {"key": "value"}}'
                )
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def field(self, name: str, value: object, depth: int) -> list[Filter]:
        if name != "metadata" or _operators(value):
            return self.conditions((name,), value)
        if not isinstance(value, Mapping) or not value:
            if value == "*":
                return self.conditions((name,), value)
            raise InputError('filters: metadata takes an object such as {"key": "value"}, and not empty')
        found: list[Filter] = []
        for key, one in value.items():
            self.enter(depth)
            found += self.conditions((name, str(key)), one)
        return found

    def conditions(self, path: tuple[str, ...], value: object) -> list[Filter]:
        if _operators(value):
            assert isinstance(value, Mapping)
            return [self.single(path, op, one) for op, one in value.items()]
        if isinstance(value, Mapping) and len(path) == 1:
            raise InputError(
                f"filters: {path[0]} has an operator that there is not; known: {', '.join(sorted(MEM0_OPS))}"
            )
        return [self.single(path, "eq", value)]

    def single(self, path: tuple[str, ...], op: Op, value: object) -> Filter:
        if value == "*" and op in ("eq", "ne"):
            some = Compare(path, "set")
            return some if op == "eq" else Neither((some,))
        if path[0] in LISTED and _is_list(value):
            op = {"eq": "in", "ne": "nin"}.get(op, op)  # type: ignore[assignment]  # one of them
        if path[0] in IDS:
            _check_id(path[0], value if op in ("in", "nin") and isinstance(value, (list, tuple)) else [value])
        return self.condition(path, op, value)


def _operators(value: object) -> bool:
    """Return whether a value is operators with operands, as ``{"gte": 3}``."""
    return isinstance(value, Mapping) and bool(value) and all(key in MEM0_OPS for key in value)


def _check_id(name: str, values: Sequence[object]) -> None:
    """Refuse what no id can be: it would pass nothing, as if there were no memories. None stands for having none."""
    for one in values:
        if not isinstance(one, str) and (one is not None or name == "user_id"):
            raise InputError(f"filters: {name} takes a text, or a list of texts")


class _OpenAI(_Reader):
    def one(self, given: object, depth: int) -> Filter:
        self.enter(depth)
        if not isinstance(given, Mapping):
            raise InputError(
                'filters: a filter is an object such as {"type": "eq", "key": "…", "value": "…"}'
            )
        kind = given.get("type")
        if kind in ("and", "or"):
            _known(given, ("type", "filters"))
            listed = given["filters"]
            if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
                raise InputError(f"filters: {kind!r} takes a list of at least one filter")
            parts = tuple(self.one(part, depth + 1) for part in listed)
            return Both(parts) if kind == "and" else Either(parts)
        if not isinstance(kind, str) or kind not in OPENAI_OPS:
            raise InputError(
                f"filters: there is no type {shown(kind)}; known: {', '.join(sorted(OPENAI_OPS))}, and, or"
            )
        _known(given, ("type", "key", "value"))
        if not isinstance(given["key"], str) or not given["key"]:
            raise InputError("filters: key is the name of an attribute")
        return self.condition(("attributes", given["key"]), kind, given["value"])  # type: ignore[arg-type]  # one of them


def _known(given: Mapping[Any, Any], names: Sequence[str]) -> None:
    if set(given) != set(names):
        raise InputError(f"filters: a filter of this type has {', '.join(names)}, and nothing else")
