"""Sessions, turns and chunks: the append-only record of a conversation, and the status of each chunk.

Every turn carries a digest from its first write on, by which damage to its text is found: SQLite keeps no checksums, so a
flipped bit in a stored text reads like any other text. Nothing but a new ingest of the session replaces a digest.

The keys that writes were given are kept as digests, so that a write that comes again is known. A key hangs on its
session, and goes with it; what the write has brought is read from the rows that it made, as far as they are still there.

Pages of facts, sessions and turns are each found by index from the key of the last item before it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, cast

from memforest.records import UNSPOKEN_ROLES, TimeSource, Turn
from memforest.store import meta
from memforest.store.connections import AMONG, Args, Tx
from memforest.text import cut
from memforest.times import from_ms, to_ms


class WriteKey(NamedTuple):
    """A write with a key.

    `request` is a digest of what was to be written, `session` the row of its session. Its turns begin at ordinal `first`;
    `replaced` says whether it has overwritten another session.
    """

    request: bytes
    session: int
    first: int
    turns: int
    replaced: bool
    stored_ms: int


def add_key(tx: Tx, key: bytes, write: WriteKey) -> None:
    """Keep the key of a write, by its digest, in the transaction that stores its turns."""
    result = {"first": write.first, "turns": write.turns, "replaced": write.replaced}
    tx.execute(
        "INSERT INTO write_key (key, request, session, result, stored_ms) VALUES (?, ?, ?, ?, ?)",
        (key, write.request, write.session, json.dumps(result), write.stored_ms),
    )


def move_keys(tx: Tx, session: int, first: int, by: int) -> None:
    """Move the keys of a session's writes from the ordinal `first` on, whose turns now stand `by` places further back."""
    held = [
        (json.loads(result), key)
        for key, result in tx.execute("SELECT key, result FROM write_key WHERE session = ?", (session,))
    ]
    tx.executemany(
        "UPDATE write_key SET result = ? WHERE key = ?",
        [
            (json.dumps({**result, "first": result["first"] + by}), key)
            for result, key in held
            if result["first"] >= first
        ],
    )


def find_key(tx: Tx, key: bytes) -> WriteKey | None:
    """Return the write that had a key, by the key's digest; None if there was none, or its session is gone."""
    found = tx.execute(
        "SELECT request, session, result, stored_ms FROM write_key WHERE key = ?", (key,)
    ).fetchone()
    if found is None:
        return None
    result = json.loads(found[2])
    return WriteKey(found[0], found[1], result["first"], result["turns"], bool(result["replaced"]), found[3])


def brought(tx: Tx, write: WriteKey) -> tuple[list[int], list[int], list[int]]:
    """Return the rows that a write's turns led to, as far as they are still there.

    Rows that an earlier write had made from a chunk that was read again with these turns are left out.

    Returns:
        The facts that it has added, those that it has merged with others, and its observations of states.
    """
    found = tx.execute(
        """SELECT DISTINCT o.id, o.fact, o.stored_ms IS NULL FROM turn t JOIN occurrence_turn x ON x.turn = t.id
           JOIN occurrence o ON o.id = x.occurrence JOIN fact f ON f.id = o.fact
           WHERE t.session = ? AND t.ordinal >= ? AND t.ordinal < ? AND coalesce(o.stored_ms, f.stored_ms) >= ?
           ORDER BY o.fact, o.id""",
        (write.session, write.first, write.first + write.turns, write.stored_ms),
    ).fetchall()
    added = dict.fromkeys(fact for _, fact, new in found if new)
    merged = dict.fromkeys(fact for _, fact, new in found if not new and fact not in added)
    states = tx.execute(
        f"SELECT id FROM state WHERE occurrence {AMONG} ORDER BY id", (tx.ids([row for row, *_ in found]),)
    )
    return [*added], [*merged], [row for (row,) in states]


AGAIN = "restore a backup, or ingest the session again with replace=True"
"""What to do about a damaged turn."""

Value = str | bytes | int | None


def turn_digest(values: Iterable[Value]) -> bytes:
    """Return the 16-byte BLAKE2b of a turn's values, each behind its length, so that no two turns read alike.

    Args:
        values: session id, ordinal, turn id, speaker, role, text, said_ms, time_source and metadata as stored;
            texts as str or as their UTF-8 bytes.
    """
    whole = blake2b(digest_size=16)
    for value in values:
        raw = value if value is None or isinstance(value, bytes) else str(value).encode()
        whole.update(b"-" if raw is None else b"%d:%b" % (len(raw), raw))
    return whole.digest()


MOST = 2**62
"""More than any session has turns."""


class StoredTurn(NamedTuple):
    """A turn with its session; `metadata` is JSON, `origin` the row of the memory that it was merged from.

    `digest` is that of what was stored. In a text that is no UTF-8 any more, replacement characters stand, so it has another one.
    """

    row: int
    session: int
    session_id: str
    ordinal: int
    turn_id: str
    speaker: str
    role: str | None
    text: str
    said_ms: int
    time_source: str
    metadata: str
    stored_ms: int
    origin: int | None = None
    digest: bytes = b""

    @classmethod
    def of(cls, turn: Turn, session: int, session_id: str, stored_ms: int) -> StoredTurn:
        """Return a turn as it is stored; its row is still to be given."""
        metadata = json.dumps(dict(turn.metadata), ensure_ascii=False)
        values = (
            turn.ordinal,
            turn.id,
            turn.speaker,
            turn.role,
            turn.text,
            to_ms(turn.said),
            turn.time_source,
        )
        return cls(0, session, session_id, *values, metadata, stored_ms)

    @property
    def is_damaged(self) -> bool:
        """Whether it is not what was stored."""
        return turn_digest(self[2:11]) != self.digest  # from the session's id to the metadata

    @property
    def name(self) -> str:
        """What a damaged one is called in messages."""
        turn_id, session_id = cut(repr(self.turn_id), 60), cut(repr(self.session_id), 60)
        return f"turn {turn_id} (number {self.ordinal}) of session {session_id}"

    @property
    def turn(self) -> Turn:
        """The turn as it was given."""
        return Turn(
            id=self.turn_id,
            speaker=self.speaker,
            text=self.text,
            said=from_ms(self.said_ms),
            ordinal=self.ordinal,
            role=self.role,
            time_source=cast(TimeSource, self.time_source),
            metadata=json.loads(self.metadata),
        )


_TURN = """SELECT t.id, t.session, s.session_id, t.ordinal, t.turn_id, t.speaker, t.role, t.text, t.said_ms,
    t.time_source, t.metadata, t.stored_ms, t.origin, t.digest FROM turn t JOIN session s ON s.id = t.session"""


def turns_with_ids(tx: Tx, rows: Collection[int]) -> dict[int, StoredTurn]:
    """Return turns by row id, in the order of their sessions and positions."""
    if not rows:
        return {}
    found = tx.rows(StoredTurn, f"{_TURN} WHERE t.id {AMONG} ORDER BY t.session, t.ordinal", (tx.ids(rows),))
    return {turn.row: turn for turn in found}


def turns_of_session(
    tx: Tx, session: int, first: int = 0, last: int = MOST, most: int = MOST
) -> list[StoredTurn]:
    """Return the turns of a session with ordinals from `first` to `last`, both included, in order; the first `most` of them."""
    return tx.rows(
        StoredTurn,
        f"{_TURN} WHERE t.session = ? AND t.ordinal BETWEEN ? AND ? ORDER BY t.ordinal LIMIT ?",
        (session, first, last, most),
    )


def rows_at(tx: Tx, session: int, first: int = 0, last: int = MOST) -> dict[int, int]:
    """Return ordinal -> row id of a session's turns; with `first` and `last`, of those between.

    A row id stands for one text and place: what is said otherwise, or stands elsewhere now, has another one.
    """
    return tx.pairs(
        "SELECT ordinal, id FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ?", (session, first, last)
    )


def damaged_turns(
    tx: Tx, turns: Collection[int] | None = None, *, session: int | None = None
) -> dict[int, StoredTurn]:
    """Return, by row, the turns that differ from their digest: of some rows, or of a session, or else of all."""
    if session is not None:
        found = turns_of_session(tx, session)
    elif turns is not None:
        found = list(turns_with_ids(tx, turns).values())
    else:
        found = tx.rows(StoredTurn, f"{_TURN} ORDER BY t.session, t.ordinal")
    return {turn.row: turn for turn in found if turn.is_damaged}


def turns_behind(tx: Tx, session: int, said_ms: int) -> list[StoredTurn]:
    """Return the turns of a session that stand behind those said at a time, in order."""
    first = tx.value("SELECT min(ordinal) FROM turn WHERE session = ? AND said_ms > ?", (session, said_ms))
    return [] if first is None else turns_of_session(tx, session, first)


def turn_with_id(tx: Tx, session: int, turn_id: str) -> StoredTurn | None:
    """Return the turn of a session with that id, or None."""
    return tx.row(StoredTurn, f"{_TURN} WHERE t.session = ? AND t.turn_id = ?", (session, turn_id))


def insert_turns(tx: Tx, new: Sequence[StoredTurn]) -> list[int]:
    """Insert turns, each with its digest, under new row ids, which are returned in order; `row` and `digest` are ignored."""
    first = meta.take_ids(tx, "turn", len(new))
    tx.executemany(
        """INSERT INTO turn (id, session, ordinal, turn_id, speaker, role, text, said_ms, time_source, metadata, stored_ms,
           origin, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [(row, turn.session, *turn[3:13], turn_digest(turn[2:11])) for row, turn in enumerate(new, first)],
    )
    return list(range(first, first + len(new)))


ChunkStatus = Literal["pending", "extracted", "verbatim", "failed"]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as stored; `row` is its integer id in this file. `turns` counts its turns."""

    row: int
    session_id: str
    status: Literal["received", "ingested"]
    infer: bool
    stored_ms: int
    metadata: dict[str, object]
    turns: int
    start_ms: int
    end_ms: int
    next: int = 0
    """The ordinal of the next turn; more than `turns` where some were deleted."""
    erased: int = 0
    """How many times something of it was deleted."""


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A dialogue chunk: the turns with ordinals `first` to `last`, both included."""

    row: int
    session: int
    ordinal: int
    first: int
    last: int
    status: ChunkStatus
    reason: str | None
    maker: str | None
    skipped: tuple[tuple[int, str], ...]
    """Pairs of turn ordinal and reason, for what became no statement."""


_SESSION = """SELECT s.id, s.session_id, s.status, s.infer, s.stored_ms, s.metadata, count(t.id),
    coalesce(min(t.said_ms), 0), coalesce(max(t.said_ms), 0), coalesce(max(t.ordinal) + 1, 0), s.erased
    FROM session s LEFT JOIN turn t ON t.session = s.id"""


def add_session(
    tx: Tx, session_id: str, *, infer: bool, stored_ms: int, metadata: dict[str, object], erased: int = 0
) -> int:
    """Insert a session with status ``received`` and return its row id."""
    row = meta.take_ids(tx, "session")
    tx.execute(
        """INSERT INTO session (id, session_id, status, infer, stored_ms, metadata, erased)
           VALUES (?, ?, 'received', ?, ?, ?, ?)""",
        (row, session_id, int(infer), stored_ms, json.dumps(metadata, ensure_ascii=False), erased),
    )
    return row


def _sessions(tx: Tx, where: str = "", args: Args = ()) -> list[SessionRow]:
    """Return the sessions that a condition limits, in time order (ties by session id)."""
    found = tx.execute(f"{_SESSION} {where} GROUP BY s.id ORDER BY min(t.said_ms), s.session_id", args)
    return [
        SessionRow(row, session_id, status, bool(infer), stored_ms, json.loads(metadata), *counts)
        for row, session_id, status, infer, stored_ms, metadata, *counts in found
    ]


def find_session(tx: Tx, session_id: str) -> SessionRow | None:
    """Return the session with that id, or None."""
    return next(iter(_sessions(tx, "WHERE s.session_id = ?", (session_id,))), None)


def session_with_row(tx: Tx, row: int) -> SessionRow:
    """Return the session with that row id.

    Raises:
        KeyError: if there is none.
    """
    for found in _sessions(tx, "WHERE s.id = ?", (row,)):
        return found
    raise KeyError(row)


def list_sessions(tx: Tx) -> list[SessionRow]:
    """Return all sessions in time order (ties by session id)."""
    return _sessions(tx)


def waiting(tx: Tx) -> int:
    """Return how many sessions are received but not ingested."""
    return int(tx.value("SELECT count(*) FROM session WHERE status = 'received'"))


def unfinished(tx: Tx) -> list[int]:
    """Return the row ids of sessions with work left: not ingested, or with failed chunks."""
    return tx.column("""SELECT id FROM session WHERE status = 'received'
           UNION SELECT session FROM chunk WHERE status IN ('pending', 'failed') ORDER BY 1""")


def delete_session(tx: Tx, session: int) -> None:
    """Delete a session's row; its turns and chunks go with it."""
    tx.execute("DELETE FROM session WHERE id = ?", (session,))


def speakers(tx: Tx) -> set[str]:
    """Return the names of all speakers, as written; each is looked up by index, so few turns are read."""
    return set(
        tx.column("""WITH RECURSIVE names (name) AS (SELECT min(speaker) FROM turn
           UNION ALL SELECT (SELECT min(speaker) FROM turn WHERE speaker > name) FROM names WHERE name IS NOT NULL)
           SELECT name FROM names WHERE name IS NOT NULL""")
    )


def add_chunks(tx: Tx, session: int, spans: Iterable[tuple[int, int, int]]) -> None:
    """Insert pending chunks from (ordinal, first turn, last turn); the session is "received" then."""
    wanted = list(spans)
    first = meta.take_ids(tx, "chunk", len(wanted))
    tx.executemany(
        "INSERT INTO chunk (id, session, ordinal, first, last, status) VALUES (?, ?, ?, ?, ?, 'pending')",
        [(row, session, *span) for row, span in enumerate(wanted, first)],
    )
    tx.execute("UPDATE session SET status = 'received' WHERE id = ?", (session,))


def chunks(
    tx: Tx, session: int, first: int = 0, last: int = MOST, *, only_open: bool = False
) -> list[ChunkRow]:
    """Return a session's chunks, in order; with `first` and `last`, those of the turns between.

    With `only_open` those that are still to be extracted, the failed ones among them.
    """
    status = "AND status IN ('pending', 'failed')" if only_open else ""
    found = tx.execute(
        f"""SELECT id, session, ordinal, first, last, status, reason, maker, skipped
           FROM chunk WHERE session = ? AND last >= ? AND first <= ? {status} ORDER BY ordinal""",
        (session, first, last),
    )
    return [ChunkRow(*(*row[:-1], tuple(map(tuple, json.loads(row[-1]))))) for row in found]


def finish_chunks(
    tx: Tx,
    session: int,
    done: Iterable[tuple[int, ChunkStatus, str | None, str | None, Sequence[tuple[int, str]]]],
) -> bool:
    """Record the outcome of chunks of a session: (row, status, maker, reason of a failure, skipped pieces).

    The session's status is "ingested" then unless it has chunks that were never extracted; return whether it is.
    """
    tx.executemany(
        "UPDATE chunk SET status = ?, maker = ?, reason = ?, skipped = ? WHERE id = ?",
        [
            (status, maker, reason, json.dumps(list(skipped)), row)
            for row, status, maker, reason, skipped in done
        ],
    )
    sql = """UPDATE session SET status = 'ingested' WHERE id = ?
             AND NOT EXISTS (SELECT 1 FROM chunk WHERE session = session.id AND status = 'pending')"""
    return tx.execute(sql, (session,)).rowcount == 1


def fail_again(tx: Tx, chunk: int, reason: str) -> None:
    """Store the reason of a chunk's new failure; facts that were read from it before stay."""
    tx.execute("UPDATE chunk SET reason = ? WHERE id = ?", (reason, chunk))


def delete_chunk(tx: Tx, chunk: int) -> None:
    """Delete a chunk; its occurrences go with it."""
    tx.execute("DELETE FROM chunk WHERE id = ?", (chunk,))


class Origin(NamedTuple):
    """Whose memory turns came from: its id and its user; `label` and `names` are who they are here."""

    memory: str
    user_id: str
    label: str
    names: Mapping[str, str]


def origins(tx: Tx) -> dict[int, Origin]:
    """Return the origins of a memory's turns by row id."""
    rows = tx.execute("SELECT id, memory, user_id, label, names FROM origin ORDER BY id")
    return {row[0]: Origin(row[1], row[2], row[3], json.loads(row[4])) for row in rows}


def put_origin(tx: Tx, origin: Origin, merged_ms: int) -> int:
    """Return the row id of an origin, which is inserted if it is not stored."""
    names = json.dumps(dict(sorted(origin.names.items())), ensure_ascii=False)
    tx.execute(
        """INSERT INTO origin (memory, user_id, merged_ms, label, names) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (memory, user_id) DO NOTHING""",
        (origin.memory, origin.user_id, merged_ms, origin.label, names),
    )
    found = "SELECT id FROM origin WHERE memory = ? AND user_id = ?"
    return int(tx.value(found, (origin.memory, origin.user_id)))


def session_origins(tx: Tx, sessions: Collection[int]) -> dict[int, str]:
    """Return session -> user of the memory it was merged from; sessions whose first turn was said here are left out."""
    return tx.pairs(
        f"""SELECT t.session, o.user_id FROM turn t JOIN origin o ON o.id = t.origin WHERE t.session {AMONG} AND t.ordinal =
           (SELECT min(f.ordinal) FROM turn f WHERE f.session = t.session)""",
        (tx.ids(sessions),),
    )


class FactKey(NamedTuple):
    """Where a fact stands in time order."""

    at_ms: int
    tie: str
    row: int


FIRST_MS = -(2**63)
"""Before every time."""
RARE = 50
"""An entity is looked up among the facts in their order where one of so many names it, else its facts are gathered and sorted."""

_AT = "coalesce(f.start_ms, f.said_ms)"
_IN_SESSION = """f.id IN (SELECT o.fact FROM turn t JOIN occurrence_turn x ON x.turn = t.id
    JOIN occurrence o ON o.id = x.occurrence WHERE t.session = ?)"""
_NAMES = f"EXISTS (SELECT 1 FROM mention m WHERE m.fact = f.id AND m.entity {AMONG})"
_NAMED_BY = f"f.id IN (SELECT m.fact FROM mention m WHERE m.entity {AMONG})"


def shown_facts_after(
    tx: Tx,
    after: FactKey | None,
    most: int,
    *,
    offset: int = 0,
    named: Collection[int] = (),
    session: int | None = None,
) -> list[FactKey]:
    """Return the keys of facts that are not hidden, in time order, from behind another one.

    Args:
        tx: a read transaction.
        after: the key behind which to begin; None for the start.
        most: how many.
        offset: how many to pass over.
        named: only facts that name one of these entities; without any, whatever they name.
        session: only facts that it supports.
    """
    start = after or FactKey(FIRST_MS, "", 0)
    rare = session is None and bool(named) and not _often_named(tx, named)
    where, args = _shown(tx, named, session, by_entity=rare)
    return tx.rows(
        FactKey,
        f"""SELECT {_AT}, f.tie, f.id FROM fact f WHERE {_AT} >= ? AND ({_AT}, f.tie, f.id) > (?, ?, ?) AND {where}
            ORDER BY 1, 2, 3 LIMIT ? OFFSET ?""",
        (start.at_ms, *start, *args, most, offset),
    )


def _shown(
    tx: Tx, named: Collection[int], session: int | None, *, by_entity: bool
) -> tuple[str, list[int | str]]:
    """Return the condition of facts `f` that are not hidden, name an entity and are supported by a session, with its values.

    With `by_entity` they are gathered from what names the entity, else each is looked up there.
    """
    of_entity = _NAMED_BY if by_entity else _NAMES
    wanted: list[tuple[str, int | str | None]] = [
        (_IN_SESSION, session),
        (of_entity, tx.ids(named) if named else None),
    ]
    given = [(sql, value) for sql, value in wanted if value is not None]
    return " AND ".join(["f.verdict < 2", *(sql for sql, _ in given)]), [value for _, value in given]


def _often_named(tx: Tx, named: Collection[int]) -> bool:
    often = f"SELECT (SELECT count(*) FROM mention WHERE entity {AMONG}) * ? > (SELECT count(*) FROM fact)"
    return bool(tx.value(often, (tx.ids(named), RARE)))


def fact_keys(tx: Tx, facts: Collection[int]) -> list[tuple[FactKey, str]]:
    """Return the keys of facts, by row id, with their public ids."""
    rows = tx.execute(
        f"SELECT {_AT}, f.tie, f.id, f.fact_id FROM fact f WHERE f.id {AMONG}", (tx.ids(facts),)
    )
    return [(FactKey(*row[:3]), row[3]) for row in rows]


def count_facts(tx: Tx, *, named: Collection[int] = (), session: int | None = None) -> int:
    """Return how many facts are not hidden; of those, how many name one of some entities and are supported by a session."""
    if not named and session is None:  # by way of an index of the hidden ones
        hidden = "SELECT count(*) FROM fact WHERE verdict > 1"
        return int(tx.value(f"SELECT (SELECT count(*) FROM fact) - ({hidden})"))
    where, args = _shown(tx, named, session, by_entity=session is None)
    return int(tx.value(f"SELECT count(*) FROM fact f WHERE {where}", args))


def sessions_after(tx: Tx, after: tuple[int, str] | None, most: int) -> list[SessionRow]:
    """Return sessions in time order (ties by id), from behind the (first time in ms, id) of another one."""
    first_ms, session_id = after or (FIRST_MS, "")
    wanted = tx.column(
        """SELECT s.id FROM turn t CROSS JOIN session s ON s.id = t.session
           WHERE t.said_ms >= ? AND (t.said_ms, s.session_id) > (?, ?) AND t.id =
           (SELECT u.id FROM turn u WHERE u.session = t.session ORDER BY u.said_ms, u.id LIMIT 1)
           ORDER BY t.said_ms, s.session_id LIMIT ?""",
        (first_ms, first_ms, session_id, most),
    )
    return _sessions(tx, f"WHERE s.id {AMONG}", (tx.ids(wanted),))


def count_sessions(tx: Tx) -> int:
    """Return how many sessions there are."""
    return int(tx.value("SELECT count(*) FROM session"))


def speakers_of(tx: Tx, session: int) -> tuple[str, ...]:
    """Return who speaks in a session, in the order of their first turns, without systems and tools."""
    found = tx.column(
        f"""SELECT speaker FROM turn WHERE session = ? AND (role IS NULL OR role NOT {AMONG})
            GROUP BY speaker ORDER BY min(ordinal)""",
        (session, tx.ids(UNSPOKEN_ROLES)),
    )
    return tuple(found)


def spoken(tx: Tx) -> dict[int, list[tuple[int, str, bytes]]]:
    """Return ordinal, speaker and digest of all turns by session, in order, without those of systems and tools."""
    shown = f"role IS NULL OR role NOT {AMONG}"
    sql = f"SELECT session, ordinal, speaker, digest FROM turn WHERE {shown} ORDER BY session, ordinal"
    return tx.groups(lambda *turn: turn, sql, (tx.ids(UNSPOKEN_ROLES),))


def participants(tx: Tx, sessions: Collection[int]) -> dict[int, list[str]]:
    """Return who speaks in sessions, in the order of their first turns."""
    return tx.groups(
        lambda speaker, _: str(speaker),
        f"SELECT session, speaker, min(ordinal) FROM turn WHERE session {AMONG} GROUP BY 1, 2 ORDER BY 3",
        (tx.ids(sessions),),
    )


def failed_chunks_of(tx: Tx, sessions: Collection[int]) -> Mapping[int, int]:
    """Return how many chunks of sessions have failed; sessions without are not in it."""
    return tx.pairs(
        f"SELECT session, count(*) FROM chunk WHERE session {AMONG} AND status = 'failed' GROUP BY session",
        (tx.ids(sessions),),
    )


def sessions_with_root(tx: Tx, root: str, first: str) -> dict[str, int]:
    """Return id -> row of the session with an id and of the sessions that merges named after it; `first` stands first."""
    return tx.pairs(
        """SELECT session_id, id FROM session WHERE session_id IN (?, ?)
           OR (session_id > ? AND session_id < ?) ORDER BY session_id != ?, session_id""",
        (root, first, f"{root}~", f"{root}~g", first),
    )
