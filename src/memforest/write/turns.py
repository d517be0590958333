"""Reading a session as its caller gives it into `Turn` values, redacted; an error names the turn and the fix.

A turn is a mapping or an object. `memforest.settings` lists the keys of its text, time, id and speaker; all other keys
are metadata.

Redaction (`Config.redact_patterns`, `Config.redact_turn`) runs once, in a worker thread and before any transaction, over
the texts, the speakers' names, and every text in the metadata of turns and session. So ids of requests, digests, words,
chunks, prompts and traces hold redacted text alone. Ids of sessions and turns, and the keys, are not redacted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal
from zoneinfo import ZoneInfo

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import InputError, TimestampError
from memforest.importers.messages import UNSAID, converted, role_of, with_speaker
from memforest.protection import redact_patterns
from memforest.reading.date_rules import numeric_order
from memforest.reading.timestamps import month_first_warning, parse_timestamp
from memforest.records import Refused, TimeSource, Turn
from memforest.settings import (
    CAPTION,
    ID,
    MAX_ID_CHARS,
    MAX_METADATA_DEPTH,
    ROLE_ALIASES,
    ROLES,
    SPEAKER,
    TEXT,
    TIME_KEYS,
    with_article,
)
from memforest.store.connections import Tx
from memforest.store.sessions import SessionRow, turn_with_id
from memforest.text import cut, is_binary_looking
from memforest.times import LATEST, from_ms, listed, shown, to_ms

KNOWN = frozenset((*TEXT, *TIME_KEYS, *ID, *SPEAKER, *CAPTION, "role"))
_ATTRIBUTES = ("type", *sorted(KNOWN), "refusal", "tool_calls", "additional_kwargs", "metadata")
"""What is looked for in an object that cannot say what it holds."""
_UNSAID = (
    "function_call",
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
    "invalid_tool_calls",
    "example",
    *UNSAID,
)
"""What the classes of clients have beside what was said."""


@dataclass(frozen=True, slots=True, repr=False)
class Withheld:
    """A turn that redaction failed on: it is refused, and nothing of it is read but its id."""

    given: Mapping[str, Any]
    reason: str

    def __str__(self) -> str:
        return self.reason


def time_key(turn: Mapping[str, Any]) -> str | None:
    """Return under which name a turn has its time."""
    return next((key for key in TIME_KEYS if turn.get(key) is not None), None)


def is_metadata(key: object, turn: Mapping[str, Any]) -> bool:
    """Return whether what a turn has under a key is kept beside it; so is a time that is not the one that is read."""
    return turn[key] is not None and key != time_key(turn) if key in TIME_KEYS else key not in KNOWN


def field_of(key: object, turn: Mapping[str, Any]) -> Literal["text", "speaker", "metadata"] | None:
    """Return what the value under a key of a turn is: text, its speaker, metadata, or none of these: its time, an id, a role."""
    if key in TEXT or key in CAPTION:
        return "text"
    if key in SPEAKER:
        return "speaker"
    return "metadata" if is_metadata(key, turn) else None


def messages_of(given: Any) -> Any:
    """Return a list of messages as mappings; what is no list stays as it is, for the reader to refuse.

    A message may be a mapping, also in LangChain's file formats, or an object. An object has ``model_dump``, like
    those of pydantic and the clients of OpenAI and LangChain. Or it has a ``role``, ``speaker`` or ``type`` beside its
    ``content``. Anything else stays as it is, for the reader to refuse by its place.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
        return given
    messages: list[Any] = []
    for item in given:
        if isinstance(item, Mapping) and item.keys() <= KNOWN:
            messages.append(item)
        elif isinstance(item, Mapping):
            spoken = not {"role", *SPEAKER}.isdisjoint(item) or "content" not in item
            plain = spoken or role_of(item.get("type")) is None
            messages.append(with_speaker(converted(item)) if plain else _as_said(item))
        elif isinstance(item, (type, bytes, int, float, type(None))):
            messages.append(item)
        else:
            dump = getattr(item, "model_dump", None)
            held = dump() if callable(dump) else {name: getattr(item, name, None) for name in _ATTRIBUTES}
            is_message = held.get("role") or held.get("speaker") or role_of(held.get("type"))
            messages.append(_as_said(held) if is_message else item)
    return messages


def _as_said(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message without those that say nothing, with the role that its type stands for."""
    said = {key: one for key, one in held.items() if key not in _UNSAID and one not in (None, [], {})}
    if role := held.get("role") or role_of(held.get("type")):
        said["role"] = role
    if "content" not in said and held.get("refusal"):
        said["content"] = held["refusal"]
    more = held.get("additional_kwargs")
    if isinstance(more, Mapping) and more.get("timestamp"):
        said.setdefault("timestamp", more["timestamp"])
    return said


def is_deeper(value: object, levels: int) -> bool:
    """Return whether lists and mappings stand within each other more than so many levels deep."""
    if not isinstance(value, (list, tuple, dict)):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels < 1 or any(is_deeper(part, levels - 1) for part in parts)


@dataclass(frozen=True, slots=True)
class GivenStatement:
    """A statement that the caller has understood, see `AsyncUserMemory.remember`; `start` and `end` are aware UTC.

    `source` is the id of the message that says it, of those that it comes with; the last one where it is None.
    """

    text: str
    about: str | None = None
    attribute: str | None = None
    value: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    replaces: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class SessionInput:
    """A session as the caller gives it, see `AsyncMemForest.ingest_session`; or turns that are added to one.

    `session_id` is None for turns that are added to the live session of the day.
    """

    session_id: str | None
    turns: Sequence[Any]
    timestamp: datetime | None = None
    infer: bool = True
    replace: bool = False
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    redacted: int | None = None  # how many turns redaction has changed; None before it
    statements: tuple[GivenStatement, ...] = ()
    doubtful: bool = False


def check_id(value: object, what: str, most: int = MAX_ID_CHARS) -> str:
    """Return `value` as an id, or another text of at most so many characters: not empty, without lone surrogates or NUL.

    Raises:
        InputError: if it is none; `what` names it in the message.
    """
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{what} must be a non-empty string, not {shown(value)}")
    if len(value) > most:
        raise InputError(f"{what} has {len(value)} characters; at most {most} are kept")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} {cut(repr(value), 60)} holds a lone surrogate; decode it as UTF-8 first"
        ) from None
    if "\0" in value:
        raise InputError(f"{what} {cut(repr(value), 60)} holds a NUL character")
    return value


def json_object(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return metadata as a dictionary that JSON can hold, so that it comes back as it went in.

    Raises:
        InputError: if it is no mapping of texts to JSON values, or is nested deeper than `MAX_METADATA_DEPTH`; `what`
            names it in the message.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{what} must be a mapping with text keys, not {with_article(type(value).__name__)}")
    for key, one in value.items():
        try:
            json.dumps({key: one}, allow_nan=False, ensure_ascii=False).encode()
            too_deep = is_deeper(one, MAX_METADATA_DEPTH - 1)
        except RecursionError:
            too_deep = True
        except (TypeError, ValueError):
            raise InputError(
                f"{what}: {cut(repr(key), 60)} holds a value of the type {type(one).__name__} that JSON cannot hold; convert it first"
            ) from None
        if too_deep:
            raise InputError(
                f"{what}: {cut(repr(key), 60)} is nested deeper than {MAX_METADATA_DEPTH} levels; flatten it, or give "
                "it as a JSON text"
            )
    return dict(value)


def _first(raw: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, Any] | None:
    return next(((key, raw[key]) for key in keys if raw.get(key) is not None), None)


class _RefusedError(Exception):
    """A text cannot be stored; says what is wrong and what to do, without the text itself."""


@dataclass(frozen=True, slots=True)
class ReadTurns:
    """The turns of a session that can be stored, and those that were refused."""

    turns: tuple[Turn, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...] = ()
    """What a caller should know of how they were read."""
    late: int = 0
    """How many came behind one of a later time."""
    known: int = 0
    """How many turns more were given, and left out as they are stored already."""


@dataclass(frozen=True, slots=True)
class TurnReader:
    """Reads the turns of one session.

    A turn without text (a call of a tool), or whose text cannot be text, is refused alone; of such a turn nothing
    else is looked at. Anything else that is wrong with a turn is an error of the whole session. To repair it would be
    a guess about its time, its speaker or its id.

    Args:
        zone: the time zone naive times are read in.
        user_label: the speaker's name of turns whose role is ``user`` and that name nobody.
        max_turn_chars: longer texts are refused.
        session_time: the time of turns that have none of their own.
        now: stamps such turns when there is no `session_time` (live `add`); None in a batch ingest.
        day_first: whether numeric timestamps have the day first; None is as those of the session prove.
    """

    zone: ZoneInfo
    user_label: str
    max_turn_chars: int
    session_time: datetime | None = None
    now: datetime | None = None
    day_first: bool | None = None

    def read(
        self,
        raw: Sequence[Any],
        *,
        first: int = 0,
        tx: Tx | None = None,
        session: SessionRow | None = None,
    ) -> ReadTurns:
        """Return the turns in the order of their times, numbered from `first` without gaps; turns of one time stay as they came.

        A time that a turn does not state is no earlier than that of the turn in front of it. A turn without an id is
        named by its place in the call, from `first`, also behind a refused one: so a session has the same ids whenever it
        comes again.

        Args:
            raw: mappings with ``role`` or ``speaker``, ``content`` or ``text``, ``timestamp``, ``id``; others are metadata.
            first: the ordinal of the first one, in a session that is not stored yet.
            tx: the transaction in which the turns are added to a stored session.
            session: that session. Turns that it has are left out, and numbers that are ids there are passed over; the clock
                stamps no turn earlier than its last one.

        Raises:
            InputError: if a turn is malformed, has the id of another one, or none is left; the message gives the position.
            TimestampError: if a time is missing or unreadable.
        """
        if isinstance(raw, (str, bytes, Mapping)) or not isinstance(raw, Sequence):
            raise InputError(f"turns must be a list of messages, not {type(raw).__name__}")
        given = (_first(item, TIME_KEYS) for item in raw if isinstance(item, Mapping))
        times = [one[1] for one in given if one is not None and isinstance(one[1], str)]
        if times and self.day_first is None and (proven := numeric_order(times)) is not None:
            self = replace(self, day_first=proven)
        turns: list[Turn] = []
        refused: list[Refused] = []
        seen: dict[str, int] = {}
        notes: list[str] = []
        first = first if session is None else session.next
        number, known, late = first, 0, 0
        before = latest = None if session is None else from_ms(session.end_ms)
        for index, item in enumerate(raw):
            while tx is not None and session is not None and turn_with_id(tx, session.row, str(number)):
                number += 1
            turn = self.turn(item, index, str(number), first + len(turns))
            number += 1
            if isinstance(turn, Refused):
                refused.append(turn)
                continue
            if turn.id in seen:
                raise InputError(
                    f"turns {seen[turn.id]} and {index} have the same id {cut(repr(turn.id), 60)}; ids are unique in a session"
                )
            seen[turn.id] = index
            named = turn.id != str(number - 1)  # a number that was given here is free
            if tx and session and named and _is_stored(tx, session, turn, notes):
                known, number = known + 1, number - 1
                continue
            stamped = turn.time_source == "clock" or (turn.time_source == "session" and turns)
            if before is not None and turn.said < before and stamped:
                turn = replace(turn, said=before)
            late += latest is not None and turn.said < latest
            before, latest = turn.said, turn.said if latest is None else max(latest, turn.said)
            turns.append(turn)
        if refused and not turns and not known:
            more = f" (and {len(refused) - 1} more turns without text)" if len(refused) > 1 else ""
            raise InputError(f"nothing can be stored: {refused[0]}{more}")
        ordered = sorted(turns, key=attrgetter("said"))
        numbered = (replace(turn, ordinal=at) for at, turn in enumerate(ordered, first))
        if times:
            notes = [*month_first_warning(times, self.day_first), *notes]
        return ReadTurns(tuple(numbered if late else turns), tuple(refused), tuple(notes), late, known)

    def turn(self, item: Any, index: int, number: str, ordinal: int) -> Turn | Refused:
        """Return one turn, which is `number` if it has no id; raises as `read` does."""
        withheld = isinstance(item, Withheld)
        if not withheld and not isinstance(item, Mapping):
            raise InputError(
                f"turn {index} must be a message, a mapping or an object with 'role' and 'content', not {with_article(type(item).__name__)}"
            )
        if not withheld and (bad := [key for key in item if not isinstance(key, str)]):
            raise InputError(f"turn {index} has a key that is not a string: {shown(bad[0])}")
        given = _first(item.given if withheld else item, ID)
        own = None if given is None else given[1]
        if isinstance(own, int) and not isinstance(own, bool):
            with suppress(ValueError):  # more digits than Python writes
                own = str(own)
        turn_id = number if own is None else check_id(own, f"turn {index}: id")
        if withheld:
            return Refused(index, turn_id, item.reason)
        try:
            text = self._text(item)
        except _RefusedError as exc:
            return Refused(index, turn_id, str(exc))
        role = item.get("role")
        folded = role.strip().lower() if isinstance(role, str) else ""
        if role is not None and folded not in ROLES:
            raise InputError(
                f"turn {index} has the unknown role {shown(role)}; use one of {', '.join(sorted(ROLES))}, "
                "and put a person's name in 'speaker'"
            )
        role = None if role is None else ROLE_ALIASES.get(folded, folded)
        said, source = self._time(item, index)
        if said >= LATEST:
            raise TimestampError(
                f"turn {index} is said at {said.isoformat()}, the last possible time; correct the timestamp"
            )
        named = _first(item, SPEAKER)
        if named is None and role is None:
            raise InputError(
                f"turn {index} has neither 'role' nor 'speaker', but {listed(item)}; say who spoke"
            )
        speaker = self.user_label if role == "user" else role or ""
        if named is not None:
            speaker = check_id(named[1], f"turn {index}: {named[0]}").strip()
        beside = {key: item[key] for key in item if is_metadata(key, item)}
        return Turn(
            id=turn_id,
            speaker=speaker,
            text=text,
            said=said,
            ordinal=ordinal,
            role=role,
            time_source=source,
            metadata=json_object(beside, f"turn {index}: metadata") if beside else {},
        )

    def _text(self, item: Mapping[str, Any]) -> str:
        """Return the text of a turn with the caption of its image.

        The content may be a list of typed parts, as chat protocols send it.

        Raises:
            _RefusedError: if there is none, or it cannot be stored as text.
        """
        content = _first(item, TEXT)
        text = "" if content is None else content[1]
        if not isinstance(text, str):
            parts = (
                [
                    part.get("text") if isinstance(part, Mapping) else getattr(part, "text", part)
                    for part in text
                ]
                if isinstance(text, Sequence) and not isinstance(text, bytes)
                else [text]
            )
            if not all(part is None or isinstance(part, str) for part in parts):
                raise _RefusedError(
                    f"has content of the type {type(text).__name__}; give a text or a list of text parts"
                )
            text = "\n".join(part for part in parts if part)
        caption = _first(item, CAPTION)
        if caption is not None and str(caption[1]).strip():
            text = f"{text} [image: {str(caption[1]).strip()}]".strip()
        if not text.strip():
            calls = item.get("tool_calls")
            tools = (
                [one.get("function", one) for one in calls if isinstance(one, Mapping)]
                if isinstance(calls, list)
                else []
            )
            names = [str(one.get("name")) for one in tools if isinstance(one, Mapping)]
            called = f", but calls {cut(ascii(', '.join(names)), 60)}" if names else ""
            raise _RefusedError(f"has no text{called or '; leave it out or give it content'}")
        if len(text) > self.max_turn_chars:
            raise _RefusedError(
                f"has {len(text):,} characters, more than max_turn_chars={self.max_turn_chars:,}; "
                "split it or raise the setting"
            )
        if "\0" in text:
            raise _RefusedError("holds a NUL character, which is not text; take it out")
        if is_binary_looking(text):
            raise _RefusedError("looks like binary data, not text; leave it out or decode it")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _RefusedError("holds a lone surrogate; decode it as UTF-8 first") from None
        return text

    def _time(self, item: Mapping[str, Any], index: int) -> tuple[datetime, TimeSource]:
        given = _first(item, TIME_KEYS)
        if given is not None:
            name = f"turn {index}: {given[0]}"
            said, naive = parse_timestamp(given[1], timezone=self.zone, field=name, day_first=self.day_first)
            return said, "naive" if naive else "given"
        if self.session_time is not None:
            return self.session_time, "session"
        if self.now is not None:
            return self.now, "clock"
        raise TimestampError(
            f"turn {index} has no timestamp, but {listed(item)}; give every turn a 'timestamp', or the session one with "
            "timestamp="
        )


def _is_stored(tx: Tx, session: SessionRow, turn: Turn, notes: list[str]) -> bool:
    """Return whether a session has a turn already, by its id, speaker and text.

    The times are not compared, as a message that is sent again may be stamped anew; a different stated time adds a note.

    Raises:
        InputError: if another turn has the id.
    """
    stored = turn_with_id(tx, session.row, turn.id)
    if stored is None:
        return False
    called = f"session {cut(repr(session.session_id), 60)} has a message with the id {cut(repr(turn.id), 60)} already"
    if (stored.speaker, stored.text) != (turn.speaker, turn.text):
        raise InputError(f"{called}, of other content or by another speaker; leave the id out or change it")
    if stored.said_ms != to_ms(turn.said) and {stored.time_source, turn.time_source} <= {"given", "naive"}:
        notes.append(f"{called}, said at another time; it stays as it is")
    return True


def read_turns(
    arrival: SessionInput,
    config: Config,
    label: str,
    now: datetime | None = None,
    *,
    day_first: bool | None = None,
    first: int = 0,
    tx: Tx | None = None,
    session: SessionRow | None = None,
) -> ReadTurns:
    """Read the turns of a session, or those that are added to one, and list the refused ones; nothing is stored.

    Args:
        arrival: what came.
        config: for what it leaves open.
        label: display name of the memory's user.
        now: the time at which turns are added; None for a whole session, which needs a name and times.
        day_first: how the memory's people write numeric dates, where the configuration does not set it.
        first: see `TurnReader.read`, as of the others.
        tx: the transaction in which turns are added to a stored session.
        session: that session.

    Raises:
        InputError: if the session's id, a turn or the metadata are malformed, or there is no turn.
    """
    if now is None or arrival.session_id is not None:
        check_id(arrival.session_id, "session_id")
    shared = {} if arrival.metadata is None else json_object(arrival.metadata, "metadata")
    order = config.day_first if config.day_first is not None else day_first
    reader = TurnReader(config.zone, label, config.max_turn_chars, arrival.timestamp, now, order)
    read = reader.read(arrival.turns, first=first, tx=tx, session=session)
    if not (read.turns or read.known):
        raise InputError(
            "there is nothing to add; give a text or at least one message"
            if now is not None
            else f"session {cut(repr(arrival.session_id), 60)} has no turns; give it at least one"
        )
    if now is None or not shared:
        return read
    return replace(
        read, turns=tuple(replace(turn, metadata={**shared, **turn.metadata}) for turn in read.turns)
    )


async def redacted(arrival: SessionInput, config: Config) -> SessionInput:
    """Return a caller's session redacted; unchanged if nothing is to be redacted or it was redacted before.

    A turn that the hook fails on is withheld: the reader refuses it, and nothing of it is stored.

    Raises:
        InputError: if the hook fails on the metadata of the session.
    """
    if arrival.redacted is not None or not (config.redact_patterns or config.redact_turn):
        return arrival
    if isinstance(arrival.turns, (str, bytes, Mapping)) or not isinstance(arrival.turns, Sequence):
        return arrival  # which the reader refuses
    return await to_thread(_redact, arrival, config)


def _redact(arrival: SessionInput, config: Config) -> SessionInput:
    turns: list[Any] = []
    changed = 0
    for item in arrival.turns:
        if not isinstance(item, Mapping):
            turns.append(item)  # which the reader refuses
            continue
        fields = {key: field_of(key, item) for key in item}
        about = {
            "role": item.get("role"),
            "speaker": next((item[key] for key, field in fields.items() if field == "speaker"), None),
            "metadata": {key: item[key] for key, field in fields.items() if field == "metadata"},
        }
        try:
            clean = {
                key: item[key] if field is None else _redacted(item[key], config, {"field": field, **about})
                for key, field in fields.items()
            }
        except _RefusedError as exc:
            turns.append(Withheld(item, f"was not stored: {exc}"))
        else:
            changed += clean != dict(item)
            turns.append(clean)
    try:
        metadata = (
            None if arrival.metadata is None else _redacted(arrival.metadata, config, {"field": "session"})
        )
    except _RefusedError as exc:
        raise InputError(
            f"the metadata of session {cut(repr(arrival.session_id), 60)} was not stored: {exc}"
        ) from None
    statements = tuple(redacted_statement(one, config) for one in arrival.statements)
    return replace(arrival, turns=turns, metadata=metadata, redacted=changed, statements=statements)


def redacted_statement(one: GivenStatement, config: Config) -> GivenStatement:
    """Return a statement with its texts redacted.

    Raises:
        InputError: if the hook fails on it.
    """
    texts = {name: getattr(one, name) for name in ("text", "about", "attribute", "value")}
    try:
        return replace(one, **_redacted(texts, config, {"field": "statement"}))
    except _RefusedError as exc:
        raise InputError(f"the statement was not stored: {exc}") from None


def _redacted(value: Any, config: Config, about: Mapping[str, Any]) -> Any:
    """Return a value with every text in it redacted, and the names of keys as they were.

    `about` is what the hook gets beside a text: the field that holds it, and who said the turn.
    """
    if isinstance(value, Mapping):
        return {key: _redacted(one, config, about) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(one, config, about) for one in value]
    if not isinstance(value, str):
        return value
    text = redact_patterns(value, config.redact_patterns)
    hook: Callable[..., Any] | None = config.redact_turn
    if hook is None or not text.strip():
        return text
    try:
        clean = hook(text, about)
    except Exception as exc:  # noqa: BLE001 - somebody's code may raise anything, and its message may hold the text
        raise _RefusedError(f"redact_turn raised {type(exc).__name__} on its {about['field']}") from None
    if not isinstance(clean, str):
        raise _RefusedError(
            f"redact_turn returned {type(clean).__name__} for its {about['field']}, not a text"
        )
    return clean
