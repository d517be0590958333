"""Memories as clients of other memories see them: records of facts and turns, filters on their fields, and their ids.

A filter is read once from the shape of mem0 or of OpenAI, with every mistake named, and is then asked of one record after the
other. A record is a mapping of fields to texts, numbers, bools, times, lists, mappings, or None.

The id of a memory carries its user, whom the routes of mem0 do not name. It is no permission: whose memory it leads to is
checked against the caller each time, and an id that leads nowhere or to somebody else gets the same answer as no id at all.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from math import exp
from typing import Any, Literal, get_args

from memforest.errors import InputError, NotFoundError
from memforest.memory.forest import AsyncMemForest
from memforest.read.results import Evidence
from memforest.read.stored import FactView, TurnView
from memforest.reading.timestamps import parse_timestamp
from memforest.server.auth import Principal
from memforest.settings import MAX_PAGE, MAX_TOP_K
from memforest.times import shown

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
class Filter:
    """A condition on one field, or ``"all"``, ``"any"`` or ``"none"`` of other filters; the empty one passes everything."""

    op: Op | Literal["all", "any", "none"] = "all"
    parts: tuple[Filter, ...] = ()
    path: tuple[str, ...] = ()
    """The field, and a key of it if it is a mapping, as ``("metadata", "colour")``."""
    value: Any = None


def matches(wanted: Filter, record: Mapping[str, Any]) -> bool:
    """Return whether a record passes a filter."""
    if wanted.op == "all":
        return all(matches(part, record) for part in wanted.parts)
    if wanted.op == "any":
        return any(matches(part, record) for part in wanted.parts)
    if wanted.op == "none":
        return not any(matches(part, record) for part in wanted.parts)
    field_value: Any = record
    for name in wanted.path:
        field_value = field_value.get(name) if isinstance(field_value, Mapping) else None
    return _holds(wanted.op, field_value, wanted.value)


def users_of(wanted: Filter) -> frozenset[str] | None:
    """Return the users that a filter restricts ``user_id`` to; None if it does not restrict it."""
    if wanted.op == "none":
        return None
    if wanted.path:
        if wanted.path != ("user_id",) or wanted.op not in ("eq", "in"):
            return None
        values = wanted.value if wanted.op == "in" else (wanted.value,)
        return frozenset(value for value in values if isinstance(value, str))
    sets = [users_of(part) for part in wanted.parts]
    known = [one for one in sets if one is not None]
    if wanted.op == "all":
        return frozenset.intersection(*known) if known else None
    return None if len(known) < len(sets) else frozenset().union(*known)


def fields_in(wanted: Filter) -> frozenset[str]:
    """Return the names of the fields in a filter."""
    return frozenset(wanted.path[:1]).union(*(fields_in(part) for part in wanted.parts))


def _holds(op: Op, found: Any, value: Any) -> bool:
    if op in ("ne", "nin"):
        return not _holds("eq" if op == "ne" else "in", found, value)
    if op == "set":
        return found is not None and found not in ((), [], {})
    if op == "eq":
        return _equal(found, value) or (_is_list(found) and any(_equal(one, value) for one in found))
    if op == "in":
        return any(_holds("eq", found, one) for one in value)
    if op not in ORDER:
        return _contains(found, value, folded=op == "icontains")
    # Numbers are compared with numbers, texts with texts, times with times; nothing else is before or behind.
    kinds: tuple[Any, ...] = ((int, float), str, datetime)
    if isinstance(found, bool) or isinstance(value, bool):
        return False
    if not any(isinstance(found, kind) and isinstance(value, kind) for kind in kinds):
        return False
    if op in ("gt", "lte"):
        return bool(found > value) is (op == "gt")
    return bool(found < value) is (op == "lt")


def _equal(found: Any, value: Any) -> bool:
    """Return whether values are equal in JSON: true is not 1, and 1 is 1.0."""
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    if _is_list(found) and _is_list(value):
        return len(found) == len(value) and all(map(_equal, found, value))
    if isinstance(found, Mapping) and isinstance(value, Mapping):
        return found.keys() == value.keys() and all(_equal(found[key], value[key]) for key in value)
    return bool(found == value)


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


def read_mem0(given: object) -> Filter:
    """Read a filter of mem0: fields with values or operators, and AND, OR and NOT with lists of filters.

    Several fields side by side have to hold together, and so have several operators of one field. NOT holds when none of its
    filters does. ``"*"`` stands for any value.

    Args:
        given: the filter; None and an empty mapping let everything pass.

    Raises:
        InputError: if it is none. The message names the place, and no value of it.
    """
    return Filter() if given is None or given == {} else _FilterReader().mem0(given, 0)


def read_openai(given: object) -> Filter:
    """Read a filter of OpenAI's vector stores: ``{"type": "eq", "key": …, "value": …}``, or "and" and "or" of such.

    Args:
        given: the filter; None lets everything pass.

    Raises:
        InputError: if it is none.
    """
    return Filter() if given is None else _FilterReader().openai(given, 0)


class _FilterReader:
    """The reader of a filter, which bounds its depth, conditions and values."""

    def __init__(self) -> None:
        self._read = 0
        self._values = 0

    def enter(self, depth: int) -> None:
        self._read += 1
        if depth > MAX_DEPTH or self._read > MAX_CONDITIONS:
            raise InputError(
                f"the filter is too large: at most {MAX_CONDITIONS} conditions, {MAX_DEPTH} levels deep"
            )

    def condition(self, path: tuple[str, ...], op: Op, value: Any) -> Filter:
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
        return Filter(op, (), path, value)

    def mem0(self, given: object, depth: int) -> Filter:
        if not isinstance(given, Mapping) or not given:
            raise InputError('filters: a filter is an object such as {"user_id": "…"}, and not empty')
        parts: list[Filter] = []
        for name, value in given.items():
            self.enter(depth)
            if name in ("AND", "OR", "NOT"):
                listed = value if _is_list(value) else [value] if name == "NOT" else None
                if not listed:
                    raise InputError(f"filters: {name} takes a list of at least one filter")
                holds: Any = {"AND": "all", "OR": "any", "NOT": "none"}[name]
                parts.append(Filter(holds, tuple(self.mem0(one, depth + 1) for one in listed)))
            elif name in MEM0_FIELDS:
                parts.extend(self.field(name, value, depth))
            else:
                raise InputError(
                    f"filters: there is no field {shown(name)}; known: {', '.join(MEM0_FIELDS)}, AND, OR, NOT. "
                    'Metadata of your own is asked as {"metadata": {"key": "value"}}'
                )
        return parts[0] if len(parts) == 1 else Filter("all", tuple(parts))

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
            some = Filter("set", (), path)
            return some if op == "eq" else Filter("none", (some,))
        if path[0] in LISTED and _is_list(value):
            op = {"eq": "in", "ne": "nin"}.get(op, op)  # type: ignore[assignment]  # one of them
        if path[0] in IDS:
            # What no id can be would pass nothing, as if there were no memories. None stands for having none.
            for one in value if op in ("in", "nin") and isinstance(value, (list, tuple)) else [value]:
                if not isinstance(one, str) and (one is not None or path[0] == "user_id"):
                    raise InputError(f"filters: {path[0]} takes a text, or a list of texts")
        return self.condition(path, op, value)

    def openai(self, given: object, depth: int) -> Filter:
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
            parts = tuple(self.openai(part, depth + 1) for part in listed)
            return Filter("all" if kind == "and" else "any", parts)
        if not isinstance(kind, str) or kind not in OPENAI_OPS:
            raise InputError(
                f"filters: there is no type {shown(kind)}; known: {', '.join(sorted(OPENAI_OPS))}, and, or"
            )
        _known(given, ("type", "key", "value"))
        if not isinstance(given["key"], str) or not given["key"]:
            raise InputError("filters: key is the name of an attribute")
        return self.condition(("attributes", given["key"]), kind, given["value"])  # type: ignore[arg-type]  # one of them


def _time(value: Any) -> datetime:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError("filters: a time is an ISO 8601 text or UNIX seconds")
    return parse_timestamp(value, timezone=timezone.utc, field="a time of the filter")[0]


def _operators(value: object) -> bool:
    """Return whether a value maps operators to operands, as ``{"gte": 3}``."""
    return isinstance(value, Mapping) and bool(value) and all(key in MEM0_OPS for key in value)


def _known(given: Mapping[Any, Any], names: Sequence[str]) -> None:
    if set(given) != set(names):
        raise InputError(f"filters: a filter of this type has {', '.join(names)}, and nothing else")


Kind = Literal["f", "t", "e"]
"""A fact; a turn (session id, turn id); what an `add` did (session id)."""

PARTS = {"f": 1, "t": 2, "e": 1}
MAX_CHARS = 12_000
"""Longer than the id of anything that can be stored."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The decoded content of a memory's id."""

    kind: Kind
    user: str
    parts: tuple[str, ...]

    @property
    def fact_id(self) -> str:
        """The fact's id.

        Raises:
            NotFoundError: if it stands for something else.
        """
        if self.kind != "f":
            raise no_such_memory()
        return self.parts[0]


def no_such_memory() -> NotFoundError:
    """Return the one error of all ids that lead nowhere."""
    return NotFoundError("there is no memory with this id; ids come from add, search and get_all")


def seal(kind: Kind, user: str, *parts: str) -> str:
    """Return the id of a fact, turn or event in a user's memory, as text for a path."""
    raw = json.dumps([kind, user, *parts], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unseal(token: str, who: Principal) -> Sealed:
    """Return the decoded content of an id.

    Args:
        token: the id, as a client gave it.
        who: the caller.

    Raises:
        NotFoundError: if it is no id that was handed out, or of a user whom the caller may not see.
    """
    try:
        if len(token) > MAX_CHARS:
            raise ValueError
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        kind, user, *parts = json.loads(raw)
        sound = PARTS.get(kind) == len(parts) and all(isinstance(one, str) and one for one in (user, *parts))
        if not sound or seal(kind, user, *parts) != token:
            raise ValueError
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise no_such_memory() from None
    if who.user not in (None, user):
        raise no_such_memory()
    return Sealed(kind, user, tuple(parts))


LABELS = ("agent_id", "app_id", "run_id")
"""Who and what a turn belongs to besides its user; kept with the turn's metadata."""

MOST_SCANNED = 20_000
"""Facts that one request looks through for a filter; more have to be narrowed down by the caller."""

DEEP = MAX_TOP_K
"""Evidence that is looked through for a filter when what was found first does not suffice."""

CORRECTED, FORGOTTEN = "corrected", "forgotten"


@dataclass(frozen=True, slots=True)
class Mem0Memory:
    """A memory in mem0's terms, with the fields that filters and answers use.

    `text` is the statement of a fact, or what was said. `created` is when it was said, `updated` when it was stored or
    corrected last. `run_id` is that of `add`, or the session.
    """

    id: str
    user_id: str
    text: str
    said: str
    speaker: str
    created: datetime
    updated: datetime
    session_id: str
    labels: Mapping[str, str | None]
    metadata: Mapping[str, Any]
    categories: tuple[str, ...] = ()
    score: float | None = None
    superseded: bool = False
    kind: str = "fact"

    def fields(self) -> dict[str, Any]:
        """Return the fields that filters can use."""
        return {
            "user_id": self.user_id,
            **self.labels,
            "created_at": self.created,
            "updated_at": self.updated,
            "timestamp": self.created,
            "categories": self.categories,
            "metadata": self.metadata,
            "keywords": self.text,
            "memory_ids": self.id,
            "attributes": self.attributes(),
        }

    def attributes(self) -> dict[str, Any]:
        """Return OpenAI's attributes: origin, labels, and the metadata that are texts, numbers or bools."""
        own = {
            key: value for key, value in self.metadata.items() if isinstance(value, (str, int, float, bool))
        }
        known = {key: value for key, value in self.labels.items() if value is not None}
        return {
            "kind": self.kind,
            "session_id": self.session_id,
            "speaker": self.speaker,
            "said": self.created.timestamp(),
            **known,
            **own,
        }


@dataclass(slots=True)
class Memories:
    """One user's memory, read for one request.

    Args:
        forest: the memories of the caller's tenant.
        user: who the caller may see.
    """

    forest: AsyncMemForest
    user: str
    _turns: dict[str, dict[str, TurnView]] = field(default_factory=dict)

    async def fact(self, fact_id: str) -> FactView:
        """Return a fact; for a corrected one, its current successor.

        Raises:
            NotFoundError: if there is none, or it was forgotten.
        """
        handle = self.forest.user(self.user)
        try:
            view = await handle.get(fact_id)
            if view.verdict == CORRECTED:
                entries = await handle.history(fact_id)
                later = [entry.fact_id for entry in entries if entry.kind == CORRECTED]
                for newer in reversed(later):
                    view = await handle.get(newer)
                    if view.verdict not in (CORRECTED, FORGOTTEN):
                        return view
        except NotFoundError:
            raise no_such_memory() from None
        if view.verdict in (CORRECTED, FORGOTTEN):
            raise no_such_memory()
        return view

    async def turn(self, session_id: str, turn_id: str) -> TurnView:
        """Return a turn; its session is read once and cached.

        Raises:
            NotFoundError: if there is none.
        """
        if session_id not in self._turns:
            try:
                turns = await self.forest.user(self.user).turns(session_id)
            except NotFoundError:
                raise no_such_memory() from None
            self._turns[session_id] = {turn.id: turn for turn in turns}
        found = self._turns[session_id].get(turn_id)
        if found is None:
            raise no_such_memory()
        return found

    async def of_fact(self, view: FactView, wanted: Filter | None = None) -> Mem0Memory | None:
        """Return the record of a fact in its first turn that passes a filter; None if none does."""
        async for record in self._sayings(view):
            if wanted is None or matches(wanted, record.fields()):
                return record
        return None

    async def of_turn(self, session_id: str, turn_id: str) -> Mem0Memory:
        """Return the record of a turn.

        Raises:
            NotFoundError: if there is none.
        """
        turn = await self.turn(session_id, turn_id)
        return self._of_turn(session_id, turn)

    async def page(
        self, wanted: Filter, *, offset: int, limit: int, latest: bool = False
    ) -> tuple[list[Mem0Memory], int]:
        """Return a page of the facts that pass a filter, in time order, and their total number.

        Args:
            wanted: the filter.
            offset: how many to pass over.
            limit: most records.
            latest: leave out what another value has taken the place of.

        Raises:
            InputError: if that is more to look through than one request may.
        """
        handle = self.forest.user(self.user)
        if not latest and not fields_in(wanted) - {"user_id"}:
            if not matches(wanted, {"user_id": self.user}):
                return [], 0
            page = await handle.list(offset=offset, limit=limit)
            return [record for view in page if (record := await self.of_fact(view))], page.total
        found: list[Mem0Memory] = []
        count = 0
        async for view in self._facts():
            record = await self.of_fact(view, wanted)
            if record is not None and not (latest and record.superseded):
                count += 1
                if offset < count <= offset + limit:
                    found.append(record)
        return found, count

    async def search(
        self,
        question: str,
        wanted: Filter,
        *,
        most: int,
        least: float = 0.0,
        latest: bool = False,
        **options: Any,
    ) -> list[Mem0Memory]:
        """Return the memories that answer a question and pass a filter, best first, each once.

        Args:
            question: the question.
            wanted: the filter.
            most: most records.
            least: the lowest score.
            latest: leave out what another value has taken the place of.
            options: of the verb `search`.
        """
        plain = not latest and not fields_in(wanted) - {"user_id"}
        records: dict[str, Mem0Memory] = {}
        for top in (most,) if plain else sorted({min(DEEP, 4 * most), DEEP}):
            result = await self.forest.user(self.user).search(question, top_k=top, **options)
            for one, score in zip(result.evidence, _scores(result.evidence), strict=True):
                if score < least or len(records) == most:
                    return list(records.values())
                record = await self._of_evidence(one, wanted)
                if record is not None and not (latest and record.superseded):
                    records.setdefault(record.id, replace(record, score=score))
            if len(result.evidence) < top or len(records) == most:
                break
        return list(records.values())

    async def _facts(self) -> AsyncIterator[FactView]:
        handle, read = self.forest.user(self.user), 0
        page = await handle.list(limit=MAX_PAGE)
        while True:
            for view in page:
                await asyncio.sleep(0)  # a filter may be long, and others wait
                yield view
            read += len(page)
            if page.next_cursor is None:
                return
            if read >= MOST_SCANNED:
                raise InputError(
                    f"this filter would look through more than {MOST_SCANNED:,} memories; search instead, or leave it out"
                )
            page = await handle.list(cursor=page.next_cursor, limit=MAX_PAGE)

    async def _of_evidence(self, one: Evidence, wanted: Filter) -> Mem0Memory | None:
        if one.kind == "memory":
            return None  # a summary, which is nobody's to correct or delete
        try:
            if one.fact_id is not None:
                return await self.of_fact(await self.fact(one.fact_id), wanted)
            record = await self.of_turn(one.sources[0].session_id, one.sources[0].turn_ids[0])
        except NotFoundError:
            return None  # deleted since the search
        return record if matches(wanted, record.fields()) else None

    async def _sayings(self, view: FactView) -> AsyncIterator[Mem0Memory]:
        verbatim = view.statement == f"{view.speaker}: {view.text}"
        for source in view.sources:
            for turn_id in source.turn_ids:
                turn = await self.turn(source.session_id, turn_id)
                said = self._of_turn(source.session_id, turn)
                yield replace(
                    said,
                    id=seal("f", self.user, view.fact_id),
                    text=view.text if verbatim else view.statement or view.text,
                    said=view.text,
                    speaker=view.speaker,
                    created=view.said,
                    updated=view.corrected or view.stored,
                    categories=view.topics,
                    superseded=view.superseded_by is not None,
                    kind="fact",
                )

    def _of_turn(self, session_id: str, turn: TurnView) -> Mem0Memory:
        kept = dict(turn.metadata)
        nested = kept.pop("metadata", None)
        labels = {name: kept.pop(name, session_id if name == "run_id" else None) for name in LABELS}
        return Mem0Memory(
            id=seal("t", self.user, session_id, turn.id),
            user_id=self.user,
            text=turn.text,
            said=turn.text,
            speaker=turn.speaker,
            created=turn.said,
            updated=turn.stored,
            session_id=session_id,
            labels=labels,
            metadata={**kept, **(nested if isinstance(nested, Mapping) else {})},
            kind="turn",
        )


def _scores(evidence: tuple[Evidence, ...]) -> list[float]:
    """Return scores within (0, 1) that never increase along the evidence.

    Our scores are unbounded sums of weighted parts. `lead`, which puts a piece first whatever its parts are, is left out.
    """
    found: list[float] = []
    for one in reversed(evidence):
        raw = one.score - one.scores.get("lead", 0.0)
        bounded = 1 / (1 + exp(-max(-30.0, min(30.0, raw))))
        found.append(max(bounded, found[-1] if found else 0.0))
    return found[::-1]


MOST_USERS = 50
"""Users whose memories one request may name."""


def meant(forest: AsyncMemForest, who: Principal, wanted: Filter) -> list[Memories]:
    """Return the memories of the users that a filter names, or of the key's user.

    Raises:
        InputError: if it names no user and the key is not bound to one, or it names too many.
    """
    named = users_of(wanted)
    if who.user is not None:
        return [Memories(forest, who.user)] if named is None or who.user in named else []
    if named is None:
        raise InputError(
            'whose memories? name the user in the filter, as {"user_id": "…"} beside the other conditions or in AND'
        )
    if len(named) > MOST_USERS:
        raise InputError(f"the filter names {len(named)} users; {MOST_USERS} at most")
    return [Memories(forest, user) for user in sorted(named)]


def shown_scope(record: Mem0Memory, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return a record in mem0's shape, with its id and the requested fields."""
    whole: dict[str, Any] = {
        "id": record.id,
        "memory": record.text,
        "user_id": record.user_id,
        **record.labels,
        "actor_id": record.speaker,
        "metadata": dict(record.metadata) or None,
        "categories": list(record.categories),
        "created_at": record.created.isoformat(),
        "updated_at": record.updated.isoformat(),
        "expiration_date": None,
        "immutable": False,
    }
    if record.score is not None:
        whole["score"] = record.score
    keep = None if names is None else {"id", *names}
    return {name: value for name, value in whole.items() if keep is None or name in keep}
