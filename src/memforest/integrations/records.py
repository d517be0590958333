"""Memories as clients of other memories see them: their ids, filters on their fields, and the records of facts and turns.

The id of a memory carries its user, whom the routes of mem0 do not name. It is no permission: whose memory it leads to is
checked against the caller each time, and an id that leads nowhere or to somebody else gets the same answer as no id at all.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple

from memforest.errors import IdempotencyError, InputError, NotFoundError, TimestampError
from memforest.integrations.adapter import scores
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory
from memforest.read.results import Evidence, IngestResult
from memforest.read.stored import FactView, TurnView
from memforest.reading.timestamps import parse_timestamp
from memforest.server.auth import Principal
from memforest.settings import MAX_PAGE, MAX_TOP_K
from memforest.times import shown

LABELS = ("agent_id", "app_id", "run_id")
"""Who and what a turn belongs to besides its user; kept with the turn's metadata."""
IDS = ("user_id", *LABELS)
PLACES = {
    **{name: name for name in (*IDS, "actor_id", "role", "created_at", "updated_at")},
    **{"categories": "categories", "metadata": "metadata"},
    **{"timestamp": "created_at", "keywords": "memory", "memory_ids": "id"},
}
"""The fields of mem0's filters, and where a record has them."""
GROUPS: Mapping[Any, Literal["all", "any", "none"]] = {"AND": "all", "OR": "any", "NOT": "none"}
NEGATED = {"ne": "eq", "nin": "in"}
MAX_SIZE = 1_500
"""Names and values of a filter together: each may be compared with every memory."""
MAX_DEPTH = 40
"""Levels of a filter's JSON."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one field, or ``"all"``, ``"any"`` or ``"none"`` of other filters; the empty one passes everything."""

    op: str = "all"
    parts: tuple[Filter, ...] = ()
    path: tuple[str, ...] = ()
    """The field, and a key of it if it is a mapping, as ``("metadata", "colour")``."""
    value: Any = None


def _equal(found: Any, value: Any) -> bool:
    """Return whether two values are equal in JSON, where true is not 1."""
    return bool(found == value) and isinstance(found, bool) is isinstance(value, bool)


def _has(found: Any, value: Any) -> bool:
    return _equal(found, value) or (isinstance(found, list) and any(_equal(one, value) for one in found))


def _contains(found: Any, value: Any) -> bool:
    if isinstance(found, Mapping):
        return isinstance(value, Mapping) and all(
            key in found and _equal(found[key], one) for key, one in value.items()
        )
    if isinstance(found, list):
        return any(_equal(one, value) or _contains(one, value) for one in found)
    return isinstance(found, str) and isinstance(value, str) and value in found


def _folded(value: Any) -> Any:
    """Return a text, or the texts of a list, without case."""
    if isinstance(value, list):
        return [_folded(one) for one in value]
    return value.casefold() if isinstance(value, str) else value


def _alike(found: Any, value: Any) -> bool:
    """Return whether one of two values can be before the other: two numbers, two texts or two times."""
    kinds: tuple[Any, ...] = (str, datetime, (int, float))
    is_bool = isinstance(found, bool) or isinstance(value, bool)
    return not is_bool and any(isinstance(found, kind) and isinstance(value, kind) for kind in kinds)


ORDER = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": _has,
    "set": lambda found, _: found not in (None, [], {}),
    "contains": _contains,
    "icontains": lambda found, value: _contains(_folded(found), _folded(value)),
}
OPS = frozenset((*TESTS, *ORDER, "ne", "in")) - {"set"}
"""The operators of mem0's filters."""


def matches(wanted: Filter, record: Mapping[str, Any]) -> bool:
    """Return whether the fields of a record pass a filter."""
    if not wanted.path:
        passing = (matches(part, record) for part in wanted.parts)
        return all(passing) if wanted.op == "all" else any(passing) is (wanted.op == "any")
    found: Any = record
    for name in wanted.path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if wanted.op in ORDER:
        return _alike(found, wanted.value) and bool(ORDER[wanted.op](found, wanted.value))
    return TESTS[wanted.op](found, wanted.value)


def users_of(wanted: Filter) -> frozenset[str] | None:
    """Return the users that a filter restricts ``user_id`` to; None if it does not restrict it."""
    if wanted.path:
        return frozenset((wanted.value,)) if (wanted.op, wanted.path) == ("eq", ("user_id",)) else None
    named = [users_of(part) for part in wanted.parts]
    known = [one for one in named if one is not None]
    if wanted.op == "all":
        return frozenset.intersection(*known) if known else None
    return None if wanted.op == "none" or len(known) < len(named) else frozenset().union(*known)


def fields_in(wanted: Filter) -> frozenset[str]:
    """Return the names of the fields in a filter, as a record has them."""
    return frozenset(wanted.path[:1]).union(*(fields_in(part) for part in wanted.parts))


def bounded(given: Any) -> Any:
    """Return a filter that has come as JSON.

    Raises:
        InputError: if it is too large or too deep.
    """
    level, size = [given], 0
    for _ in range(MAX_DEPTH):
        lists = [one.values() if isinstance(one, Mapping) else one for one in level]
        level = [one for each in lists if not isinstance(each, (str, int, float, type(None))) for one in each]
        size += len(level)
        if not level and size <= MAX_SIZE:
            return given
    raise InputError(
        f"the filter is too large: at most {MAX_SIZE:,} names and values, {MAX_DEPTH} levels deep"
    )


def read_mem0(given: object) -> Filter:
    """Read a filter of mem0: fields with values or operators, and AND, OR and NOT with lists of filters.

    Several fields side by side have to hold together, and so have several operators of one field. NOT holds when none of its
    filters does. ``"*"`` stands for any value.

    Args:
        given: the filter; None and an empty mapping let everything pass.

    Raises:
        InputError: if it is none. The message names the place, and no value of it.
    """
    return Filter() if given is None or given == {} else _together(bounded(given))


def _together(given: object) -> Filter:
    if not isinstance(given, Mapping) or not given:
        raise InputError('filters: give an object such as {"user_id": "…"}, not an empty one')
    return Filter("all", tuple(_part(name, value) for name, value in given.items()))


def _part(name: Any, value: Any) -> Filter:
    if name in GROUPS:
        listed = [value] if name == "NOT" and isinstance(value, Mapping) else value
        if not isinstance(listed, list) or not listed:
            raise InputError(f"filters: {name} takes a list of at least one filter")
        return Filter(GROUPS[name], tuple(map(_together, listed)))
    if name not in PLACES:
        raise InputError(
            f"filters: unknown field {shown(name)}; known: {', '.join((*PLACES, *GROUPS))}. "
            'Metadata of your own is asked as {"metadata": {"key": "value"}}'
        )
    if name != "metadata" or value == "*" or _has_operators(value):
        return _field((PLACES[name],), value)
    if not isinstance(value, Mapping) or not value:
        raise InputError('filters: metadata takes an object such as {"key": "value"}, and not empty')
    return Filter("all", tuple(_field((name, str(key)), one) for key, one in value.items()))


def _has_operators(value: object) -> bool:
    """Return whether a value maps operators to operands, as ``{"gte": 3}``."""
    return isinstance(value, Mapping) and bool(value) and value.keys() <= OPS


def _field(path: tuple[str, ...], value: Any) -> Filter:
    if isinstance(value, Mapping) and len(path) == 1 and not _has_operators(value):
        raise InputError(f"filters: unknown operators of {path[0]}; known: {', '.join(sorted(OPS))}")
    asked = value if _has_operators(value) else {"eq": value}
    return Filter("all", tuple(condition(path, op, one) for op, one in asked.items()))


def condition(path: tuple[str, ...], op: str, value: Any) -> Filter:
    """Return the condition of one operator on one field.

    Raises:
        InputError: if the value is none for the operator or the field.
    """
    if op in NEGATED:
        return Filter("none", (condition(path, NEGATED[op], value),))
    if op == "in" or (path[0] in (*IDS, "id") and isinstance(value, list)):
        if not isinstance(value, list):
            raise InputError(f"filters: 'in' and 'nin' of {shown('.'.join(path))} take a list")
        return Filter("any", tuple(condition(path, "eq", one) for one in value))
    if value == "*" and op == "eq" and path[0] != "attributes":
        return Filter("set", (), path)
    if path[0] in IDS and not isinstance(value, str) and (value is not None or path[0] == "user_id"):
        # What no id can be would pass nothing, as if there were no memories. None stands for having none.
        raise InputError(f"filters: {path[0]} takes a text, or a list of texts")
    if path[0] in ("created_at", "updated_at"):
        value, _ = parse_timestamp(value, timezone=timezone.utc, field="a time of the filter")
    return Filter(op, (), path, value)


PARTS = {"f": 1, "t": 2, "e": 1}
"""Parts of an id: of a fact, a turn (session id, turn id), or what an `add` did (session id)."""
MAX_CHARS = 12_000
"""Longer than the id of anything that can be stored."""


class Sealed(NamedTuple):
    """The decoded content of a memory's id."""

    kind: str
    user: str
    parts: tuple[str, ...]


def no_such_memory() -> NotFoundError:
    """Return the one error of all ids that lead nowhere."""
    return NotFoundError("there is no memory with this id; ids come from add, search and get_all")


def seal(kind: str, user: str, *parts: str) -> str:
    """Return the id of a fact, turn or event in a user's memory, as text for a path."""
    raw = json.dumps([kind, user, *parts], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unseal(token: str, who: Principal, kinds: str = "ft") -> Sealed:
    """Return the decoded content of an id.

    Args:
        token: the id, as a client gave it.
        who: the caller.
        kinds: what it may be of.

    Raises:
        NotFoundError: if it is no id that was handed out, or of a user whom the caller may not see.
    """
    try:
        raw = base64.b64decode(token[:MAX_CHARS] + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        kind, user, *parts = json.loads(raw)
        sound = PARTS.get(kind) == len(parts) and all(isinstance(one, str) and one for one in (user, *parts))
        if (
            not sound
            or kind not in kinds
            or seal(kind, user, *parts) != token
            or who.user not in (None, user)
        ):
            raise ValueError
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise no_such_memory() from None
    return Sealed(kind, user, tuple(parts))


MOST_SCANNED = 20_000
"""Facts that one request looks through for a filter; more have to be narrowed down by the caller."""
MOST_USERS = 50
"""Users whose memories one request may name."""
INNER = ("attributes", "superseded")
"""Fields of a record that mem0's clients do not see."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A fact in one of its turns, or a turn, with the fields that filters and answers use.

    ``memory`` is the statement of the fact, or what was said; ``created_at`` when it was said, ``updated_at`` when it was stored
    or corrected last; ``run_id`` that of `add`, or the session. ``attributes`` are OpenAI's: origin, labels, and the metadata that
    are texts, numbers or bools.
    """

    fields: Mapping[str, Any]
    session_id: str
    turn_id: str
    fact: FactView | None
    score: float = 0.0

    def shown(self, names: Iterable[str] | None = None, **more: Any) -> dict[str, Any]:
        """Return it in mem0's shape, with its id and the requested fields."""
        whole = {
            **self.fields,
            **{"metadata": self.fields["metadata"] or None, "expiration_date": None, "immutable": False},
            **{name: self.fields[name].isoformat() for name in ("created_at", "updated_at")},
            **more,
        }
        keep = whole.keys() if names is None else {"id", *names}
        return {name: value for name, value in whole.items() if name in keep and name not in INNER}


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

    async def find(self, sealed: Sealed) -> Memory:
        """Return the memory of a decoded id; of a fact that was corrected, its current successor.

        Raises:
            NotFoundError: if there is none, or it was forgotten.
        """
        try:
            if sealed.kind == "t":
                session_id, turn_id = sealed.parts
                return self._record(session_id, await self._turn(session_id, turn_id))
            found = await self.of_fact(await self._fact(sealed.parts[0]))
        except NotFoundError:
            raise no_such_memory() from None
        if found is None:
            raise no_such_memory()
        return found

    async def of_fact(self, view: FactView, wanted: Filter = Filter()) -> Memory | None:
        """Return the record of a fact in its first turn that passes a filter; None if none does."""
        for source in view.sources:
            for turn_id in source.turn_ids:
                turn = await self._turn(source.session_id, turn_id)
                record = self._record(source.session_id, turn, view)
                if matches(wanted, record.fields):
                    return record
        return None

    async def turns(self, session_id: str) -> list[Memory]:
        """Return the records of the turns of a session."""
        return [self._record(session_id, turn) for turn in (await self._session(session_id)).values()]

    async def page(self, wanted: Filter, offset: int, limit: int) -> tuple[list[Memory], int]:
        """Return a page of the facts that pass a filter, in time order, and their total number.

        Raises:
            InputError: if that is more to look through than one request may.
        """
        handle = self.forest.user(self.user)
        if fields_in(wanted) <= {"user_id"} and limit <= MAX_PAGE:
            if not matches(wanted, {"user_id": self.user}):
                return [], 0
            page = await handle.list(offset=offset, limit=limit)
            return [record for view in page if (record := await self.of_fact(view))], page.total
        found: list[Memory] = []
        page, read = await handle.list(limit=MAX_PAGE), 0
        while True:
            for view in page:
                await asyncio.sleep(0)  # a filter may be long, and others wait
                if record := await self.of_fact(view, wanted):
                    found.append(record)
            read += len(page)
            if page.next_cursor is None:
                return found[offset : offset + limit], len(found)
            if read >= MOST_SCANNED:
                raise InputError(
                    f"this would look through more than {MOST_SCANNED:,} memories; search instead, or ask for at most "
                    f"{MAX_PAGE:,} without a filter"
                )
            page = await handle.list(cursor=page.next_cursor, limit=MAX_PAGE)

    async def search(
        self, question: str, wanted: Filter, most: int, least: float = 0.0, **options: Any
    ) -> list[Memory]:
        """Return the memories that answer a question and pass a filter, best first, each once.

        Args:
            question: the question.
            wanted: the filter. When what was found first does not suffice, as much is looked through as a search may find.
            most: most records.
            least: the lowest score.
            options: of the verb `search`.
        """
        records: dict[str, Memory] = {}
        plain = fields_in(wanted) <= {"user_id"}
        for top in (most,) if plain else sorted({min(MAX_TOP_K, 4 * most), MAX_TOP_K}):
            result = await self.forest.user(self.user).search(question, top_k=top, **options)
            for one, score in zip(result.evidence, scores(result.evidence), strict=True):
                if score < least or len(records) == most:
                    return list(records.values())
                if record := await self._of_evidence(one, wanted):
                    records.setdefault(record.fields["id"], replace(record, score=score))
            if len(result.evidence) < top:
                break
        return list(records.values())

    async def _of_evidence(self, one: Evidence, wanted: Filter) -> Memory | None:
        try:
            if one.fact_id is not None:
                return await self.of_fact(await self._fact(one.fact_id), wanted)
            if one.kind == "memory":
                return None  # a summary, which is nobody's to correct or delete
            [session_id, turn_id] = one.sources[0].session_id, one.sources[0].turn_ids[0]
            record = self._record(session_id, await self._turn(session_id, turn_id))
        except NotFoundError:
            return None  # deleted since the search
        return record if matches(wanted, record.fields) else None

    async def _fact(self, fact_id: str) -> FactView:
        handle, gone = self.forest.user(self.user), ("corrected", "forgotten")
        view = await handle.get(fact_id)
        if view.verdict == "corrected":
            later = [one.fact_id for one in await handle.history(fact_id) if one.kind == "corrected"]
            for newer in reversed(later):
                view = await handle.get(newer)
                if view.verdict not in gone:
                    break
        if view.verdict in gone:
            raise no_such_memory()
        return view

    async def _session(self, session_id: str) -> dict[str, TurnView]:
        """Return the turns of a session by their ids; it is read once."""
        if session_id not in self._turns:
            turns = await self.forest.user(self.user).turns(session_id)
            self._turns[session_id] = {turn.id: turn for turn in turns}
        return self._turns[session_id]

    async def _turn(self, session_id: str, turn_id: str) -> TurnView:
        found = (await self._session(session_id)).get(turn_id)
        if found is None:
            raise no_such_memory()
        return found

    def _record(self, session_id: str, turn: TurnView, fact: FactView | None = None) -> Memory:
        kept = dict(turn.metadata)
        nested = kept.pop("metadata", None)
        labels = {name: kept.pop(name, session_id if name == "run_id" else None) for name in LABELS}
        metadata = {**kept, **(nested if isinstance(nested, Mapping) else {})}
        if fact is None:
            own, text = seal("t", self.user, session_id, turn.id), turn.text
        else:
            verbatim = fact.statement == f"{fact.speaker}: {fact.text}"
            own, text = (
                seal("f", self.user, fact.fact_id),
                fact.text if verbatim else fact.statement or fact.text,
            )
        said, speaker = (fact or turn).said, (fact or turn).speaker
        attributes = {
            "kind": "turn" if fact is None else "fact",
            **{"session_id": session_id, "speaker": speaker, "said": said.timestamp()},
            **{name: value for name, value in labels.items() if value is not None},
            **{name: value for name, value in metadata.items() if isinstance(value, (str, int, float))},
        }
        fields = {
            **{"id": own, "memory": text, "user_id": self.user, **labels},
            **{"actor_id": speaker, "role": turn.role},
            "metadata": metadata,
            "categories": [] if fact is None else list(fact.topics),
            "created_at": said,
            "updated_at": turn.stored if fact is None else fact.corrected or fact.stored,
            "attributes": attributes,
            "superseded": fact is not None and fact.superseded_by is not None,
        }
        return Memory(fields, session_id, turn.id, fact)


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
            'the user is missing: name it in the filter, as {"user_id": "…"} beside the other conditions or in AND'
        )
    if len(named) > MOST_USERS:
        raise InputError(f"the filter names {len(named)} users; {MOST_USERS} at most")
    return [Memories(forest, user) for user in sorted(named)]


async def search(
    memories: Sequence[Memories], queries: Sequence[str], wanted: Filter, most: int, **options: Any
) -> list[Memory]:
    """Return what any of the queries finds in any of the memories, each once, best first."""
    found: dict[str, Memory] = {}
    for one in memories:
        for query in queries:
            for record in await one.search(query, wanted, most, **options):
                known = found.get(record.fields["id"], record)
                found[record.fields["id"]] = max(known, record, key=lambda one: one.score)
    return sorted(found.values(), key=lambda record: -record.score)[:most]


def labelled(
    turns: Iterable[Mapping[str, Any]], owner: Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Return turns with whom they belong to besides their user, and with metadata of the caller's."""
    kept: dict[str, Any] = {"run_id": None, **owner}
    kept.pop("user_id", None)
    if metadata:
        kept["metadata"] = metadata
    return [{**one, **kept} for one in turns]


VERBATIM = "-verbatim"
"""What the ids of sessions have in them that are stored as they are."""


async def add_at_its_time(
    handle: AsyncUserMemory,
    turns: list[dict[str, Any]],
    run: str | None,
    timestamp: Any,
    infer: bool,
    key: str | None = None,
) -> IngestResult:
    """Add to a session, or to a new one beside it if the messages are older than its end: mem0's clients add in any order.

    A repeated write with the same key is looked for in both sessions.
    """
    session_id = run if run is None or infer else f"{run}{VERBATIM}"
    options: dict[str, Any] = {"timestamp": timestamp, "infer": infer, "idempotency_key": key}
    try:
        return await handle.add(turns, session_id=session_id, **options)
    except (TimestampError, IdempotencyError):
        if timestamp is None:
            raise
        said, _ = parse_timestamp(timestamp, timezone=timezone.utc, field="timestamp")
        beside = session_id or ("live" if infer else f"live{VERBATIM}")
        return await handle.add(turns, session_id=f"{beside}-{said.isoformat()}", **options)


async def made_by(memories: Memories, result: IngestResult) -> list[Memory]:
    """Return the facts that a write has made; of a very long session, those among its last thousand."""
    if not result.added:
        return []
    handle = memories.forest.user(memories.user)
    whole = await handle.list(session_id=result.session_id, limit=1)
    last = max(0, whole.total - MAX_PAGE)
    page = await handle.list(session_id=result.session_id, limit=MAX_PAGE, offset=last)
    new = [one for one in page if {one.statement, *one.wordings} & {*result.added}]
    return [record for one in new if (record := await memories.of_fact(one)) is not None]


async def history(memories: Memories, memory_id: str, sealed: Sealed) -> list[dict[str, Any]]:
    """Return what became of a memory, oldest first, in mem0's shape, under the id that it was asked by.

    Raises:
        NotFoundError: if there is no such memory, or it was forgotten.
    """
    record = await memories.find(sealed)
    handle = memories.forest.user(memories.user)
    entries = await handle.history(sealed.parts[0]) if sealed.kind == "f" else ()
    told: list[dict[str, Any]] = []
    for one in entries:
        at = {"created_at": one.at.isoformat(), "updated_at": one.at.isoformat()}
        if one.kind == "said" and not told:
            words = [{"role": one.speaker, "content": one.quote}]
            told.append({"event": "ADD", "old_memory": None, "new_memory": one.text, "input": words, **at})
        elif one.kind in ("corrected", "undone"):
            told.append({"event": "UPDATE", "old_memory": one.replaced, "new_memory": one.text, **at})
        elif one.kind == "forgotten":
            told.append({"event": "DELETE", "old_memory": one.text, "new_memory": None, **at})
    own = record.shown(("user_id", "actor_id", "role", "created_at"))
    own |= {
        "metadata": record.fields["metadata"],
        "memory_id": memory_id,
        "input": [],
        "updated_at": own["created_at"],
    }
    first = {"event": "ADD", "old_memory": None, "new_memory": record.fields["memory"]}
    return [{**own, **one, "id": f"{memory_id}:{number}"} for number, one in enumerate(told or [first])]


async def correct(forest: AsyncMemForest, record: Memory, text: str | None, start: Any = None) -> None:
    """Correct the text or the start time of a fact. The same correction sent again has nothing left to change.

    Raises:
        InputError: if the record is a turn, which stays as it was said.
    """
    if record.fact is None:
        raise InputError("a turn never changes; delete it and add the right one")
    text = None if text is not None and text.strip() == record.fields["memory"] else text
    if start is not None:
        moment, _ = parse_timestamp(start, timezone=timezone.utc, field="timestamp")
        start = None if moment == record.fact.start else start
    if text is not None or start is not None:
        await forest.user(record.fields["user_id"]).update(record.fact.fact_id, text, valid_from=start)


async def delete(forest: AsyncMemForest, record: Memory) -> None:
    """Delete a memory with the words that it was made from."""
    handle = forest.user(record.fields["user_id"])
    if record.fact is None:
        await handle.delete(turn=(record.session_id, record.turn_id))
    else:
        await handle.delete(record.fact.fact_id)


async def delete_matching(memories: Memories, wanted: Filter) -> int:
    """Delete the turns that pass a filter, the whole memory if the filter names only users; return the number of turns."""
    handle, gone = memories.forest.user(memories.user), 0
    with suppress(NotFoundError):  # there may be no such user
        if fields_in(wanted) == {"user_id"}:
            meant_here = matches(wanted, {"user_id": memories.user})
            return (await handle.delete_all()).gone.get("turns", 0) if meant_here else 0
        for session in await handle.sessions():
            turns = await memories.turns(session.session_id)
            hit = [turn for turn in turns if matches(wanted, turn.fields)]
            if len(hit) == len(turns) > 0:
                await handle.delete(session_id=session.session_id)
            else:
                for turn in hit:
                    await handle.delete(turn=(turn.session_id, turn.turn_id))
            gone += len(hit)
    return gone
