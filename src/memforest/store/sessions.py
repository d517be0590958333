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
from typing import Any, Literal, NamedTuple, cast

from memforest.records import TimeSource, Turn
from memforest.store import meta
from memforest.store.connections import AMONG, Tx
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


def chunks_of(tx: Tx, write: WriteKey) -> list[int]:
    """Return the chunks that hold turns of a write, by ordinal."""
    return tx.column(
        "SELECT ordinal FROM chunk WHERE session = ? AND last >= ? AND first < ? ORDER BY ordinal",
        (write.session, write.first, write.first + write.turns),
    )


AGAIN = "restore a backup, or ingest the session again with replace=True"
"""What to do about a damaged turn."""

Value = str | bytes | int | None

_READ = """SELECT t.id, t.session, t.digest, CAST(s.session_id AS BLOB), t.ordinal, CAST(t.turn_id AS BLOB),
    CAST(t.speaker AS BLOB), CAST(t.role AS BLOB), CAST(t.text AS BLOB), t.said_ms, CAST(t.time_source AS BLOB),
    CAST(t.metadata AS BLOB) FROM turn t JOIN session s ON s.id = t.session"""
"""Texts as bytes: damaged ones may be no UTF-8."""


class DamagedTurn(NamedTuple):
    """A turn that is not what was stored; `name` is for messages."""

    row: int
    session: int
    ordinal: int
    name: str


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


def damaged_turns(
    tx: Tx, turns: Collection[int] | None = None, *, session: int | None = None, first: int = 0
) -> dict[int, DamagedTurn]:
    """Return, by row, the turns that differ from their digest.

    Args:
        tx: an open transaction.
        turns: look at these rows only; None for all.
        session: look at the turns of this session only, from the one numbered `first` on.
        first: see `session`.
    """
    if session is not None:
        found = tx.execute(f"{_READ} WHERE t.session = ? AND t.ordinal >= ?", (session, first))
    elif turns is not None:
        found = tx.execute(f"{_READ} WHERE t.id {AMONG}", (tx.ids(turns),))
    else:
        found = tx.execute(f"{_READ} ORDER BY t.session, t.ordinal")
    damaged = {}
    for row, of_session, stored, *values in found:
        if turn_digest(values) != stored:
            texts = (
                value.decode(errors="replace") if isinstance(value, bytes) else value for value in values[:3]
            )
            session_id, ordinal, turn_id = (cut(repr(text), 60) for text in texts)
            name = f"turn {turn_id} (number {ordinal}) of session {session_id}"
            damaged[row] = DamagedTurn(row, of_session, values[1], name)
    return damaged


MOST = 2**62
"""More than any session has turns."""


class StoredTurn(NamedTuple):
    """A turn with its session; `metadata` is JSON, `origin` the row of the memory that it was merged from."""

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


_TURN = """SELECT t.id, t.session, s.session_id, t.ordinal, t.turn_id, t.speaker, t.role, t.text, t.said_ms,
    t.time_source, t.metadata, t.stored_ms, t.origin FROM turn t JOIN session s ON s.id = t.session"""


def turns_with_ids(tx: Tx, rows: Collection[int]) -> list[StoredTurn]:
    """Return turns by row id, in the order of their sessions and positions."""
    return tx.rows(StoredTurn, f"{_TURN} WHERE t.id {AMONG} ORDER BY t.session, t.ordinal", (tx.ids(rows),))


def turns_of_session(tx: Tx, session: int, first: int = 0, last: int = MOST) -> list[StoredTurn]:
    """Return the turns of a session with ordinals from `first` to `last`, both included, in order."""
    return tx.rows(
        StoredTurn,
        f"{_TURN} WHERE t.session = ? AND t.ordinal BETWEEN ? AND ? ORDER BY t.ordinal",
        (session, first, last),
    )


def turns_behind(tx: Tx, session: int, said_ms: int) -> list[StoredTurn]:
    """Return the turns of a session that stand behind those said at a time, in order."""
    (first,) = tx.execute(
        "SELECT min(ordinal) FROM turn WHERE session = ? AND said_ms > ?", (session, said_ms)
    ).fetchone()
    return [] if first is None else turns_of_session(tx, session, first)


def insert_turns(tx: Tx, new: Sequence[StoredTurn]) -> list[int]:
    """Insert turns, each with its digest, under new row ids, which are returned in order; `row` is ignored."""
    first = meta.take_ids(tx, "turn", len(new))
    tx.executemany(
        """INSERT INTO turn (id, session, ordinal, turn_id, speaker, role, text, said_ms, time_source, metadata, stored_ms,
           origin, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [
            (row, turn.session, *turn[3:], turn_digest(turn[2:11]))  # from the session's id to the metadata
            for row, turn in enumerate(new, first)
        ],
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


def _session(row: tuple[object, ...]) -> SessionRow:
    rowid, session_id, status, infer, stored, metadata, count, start, end, following, erased = row
    return SessionRow(
        row=cast(int, rowid),
        session_id=str(session_id),
        status=cast("Literal['received', 'ingested']", status),
        infer=bool(infer),
        stored_ms=cast(int, stored),
        metadata=json.loads(str(metadata)),
        turns=cast(int, count),
        start_ms=cast(int, start),
        end_ms=cast(int, end),
        next=cast(int, following),
        erased=cast(int, erased),
    )


def find_session(tx: Tx, session_id: str) -> SessionRow | None:
    """Return the session with that id, or None."""
    row = tx.execute(f"{_SESSION} WHERE s.session_id = ? GROUP BY s.id", (session_id,)).fetchone()
    return None if row is None else _session(row)


def session_with_row(tx: Tx, row: int) -> SessionRow:
    """Return the session with that row id.

    Raises:
        KeyError: if there is none.
    """
    found = tx.execute(f"{_SESSION} WHERE s.id = ? GROUP BY s.id", (row,)).fetchone()
    if found is None:
        raise KeyError(row)
    return _session(found)


def list_sessions(tx: Tx) -> list[SessionRow]:
    """Return all sessions in time order (ties by session id)."""
    rows = tx.execute(f"{_SESSION} GROUP BY s.id ORDER BY min(t.said_ms), s.session_id")
    return [_session(row) for row in rows]


def set_status(tx: Tx, session: int, status: Literal["received", "ingested"]) -> None:
    """Set the status of a session."""
    tx.execute("UPDATE session SET status = ? WHERE id = ?", (status, session))


def waiting(tx: Tx) -> int:
    """Return how many sessions are received but not ingested."""
    return int(tx.execute("SELECT count(*) FROM session WHERE status = 'received'").fetchone()[0])


def turn_with_id(tx: Tx, session: int, turn_id: str) -> Turn | None:
    """Return the turn of a session with that id, or None."""
    at = tx.execute(
        "SELECT ordinal FROM turn WHERE session = ? AND turn_id = ?", (session, turn_id)
    ).fetchone()
    return None if at is None else turns(tx, session, at[0], at[0])[0][1]


def unfinished(tx: Tx) -> list[int]:
    """Return the row ids of sessions with work left: not ingested, or with failed chunks."""
    return tx.column("""SELECT id FROM session WHERE status = 'received'
           UNION SELECT session FROM chunk WHERE status IN ('pending', 'failed') ORDER BY 1""")


def delete_session(tx: Tx, session: int) -> None:
    """Delete a session's row; its turns and chunks go with it."""
    tx.execute("DELETE FROM session WHERE id = ?", (session,))


def add_turns(tx: Tx, session: int, new: Sequence[Turn], stored_ms: int) -> list[int]:
    """Insert turns, each with its digest, and return their row ids, in order."""
    (session_id,) = tx.execute("SELECT session_id FROM session WHERE id = ?", (session,)).fetchone()
    return insert_turns(
        tx,
        [
            StoredTurn(
                0,
                session,
                session_id,
                turn.ordinal,
                turn.id,
                turn.speaker,
                turn.role,
                turn.text,
                to_ms(turn.said),
                turn.time_source,
                json.dumps(dict(turn.metadata), ensure_ascii=False),
                stored_ms,
            )
            for turn in new
        ],
    )


def turn_of(row: Sequence[Any]) -> Turn:
    """Return the turn of a row: its id, then turn_id, speaker, text, said_ms, ordinal, role, time_source, metadata."""
    return Turn(
        id=row[1],
        speaker=row[2],
        text=row[3],
        said=from_ms(row[4]),
        ordinal=row[5],
        role=row[6],
        time_source=cast(TimeSource, row[7]),
        metadata=json.loads(row[8]),
    )


def turns(tx: Tx, session: int, first: int = 0, last: int = MOST) -> list[tuple[int, Turn]]:
    """Return a session's turns with their row ids, in order; with `first` and `last`, those between."""
    rows = tx.execute(
        """SELECT id, turn_id, speaker, text, said_ms, ordinal, role, time_source, metadata
           FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal""",
        (session, first, last),
    )
    return [(row[0], turn_of(row)) for row in rows]


def turn_rows(tx: Tx, session: int) -> set[int]:
    """Return the row ids of a session's turns."""
    return set(tx.column("SELECT id FROM turn WHERE session = ?", (session,)))


def speakers(tx: Tx) -> set[str]:
    """Return the names of all speakers, as written; each is looked up by index, so few turns are read."""
    return set(
        tx.column("""WITH RECURSIVE names (name) AS (SELECT min(speaker) FROM turn
           UNION ALL SELECT (SELECT min(speaker) FROM turn WHERE speaker > name) FROM names WHERE name IS NOT NULL)
           SELECT name FROM names WHERE name IS NOT NULL""")
    )


def add_chunks(tx: Tx, session: int, spans: Iterable[tuple[int, int, int]]) -> None:
    """Insert pending chunks from (ordinal, first turn, last turn)."""
    wanted = list(spans)
    first = meta.take_ids(tx, "chunk", len(wanted))
    tx.executemany(
        "INSERT INTO chunk (id, session, ordinal, first, last, status) VALUES (?, ?, ?, ?, ?, 'pending')",
        [(row, session, *span) for row, span in enumerate(wanted, first)],
    )


def chunks(tx: Tx, session: int, first: int = 0, last: int = MOST) -> list[ChunkRow]:
    """Return a session's chunks, in order; with `first` and `last`, those of the turns between."""
    rows = tx.execute(
        """SELECT id, session, ordinal, first, last, status, reason, maker, skipped
           FROM chunk WHERE session = ? AND last >= ? AND first <= ? ORDER BY ordinal""",
        (session, first, last),
    )
    return [
        ChunkRow(
            row=row[0],
            session=row[1],
            ordinal=row[2],
            first=row[3],
            last=row[4],
            status=row[5],
            reason=row[6],
            maker=row[7],
            skipped=tuple((turn, reason) for turn, reason in json.loads(row[8])),
        )
        for row in rows
    ]


def copy_chunks(tx: Tx, session: int, copied: Sequence[ChunkRow]) -> range:
    """Insert chunks as they are elsewhere, and return their rows here; the session has the status that its chunks have."""
    rows = range(meta.take_ids(tx, "chunk", 0), meta.take_ids(tx, "chunk", 0) + len(copied))
    add_chunks(tx, session, [(one.ordinal, one.first, one.last) for one in copied])
    done = [
        (row, one.status, one.maker, one.reason, one.skipped) for row, one in zip(rows, copied, strict=True)
    ]
    set_status(tx, session, "received")
    finish_chunks(tx, session, done)
    return rows


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
    found = tx.execute(
        "SELECT id FROM origin WHERE memory = ? AND user_id = ?", (origin.memory, origin.user_id)
    )
    return int(found.fetchone()[0])


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
_SHOWN = "f.verdict < 2"
_IN_SESSION = """f.id IN (SELECT o.fact FROM turn t JOIN occurrence_turn x ON x.turn = t.id
    JOIN occurrence o ON o.id = x.occurrence WHERE t.session = ?)"""


def shown_facts_after(
    tx: Tx,
    after: FactKey | None,
    most: int,
    *,
    offset: int = 0,
    entity: int | None = None,
    session: int | None = None,
) -> list[FactKey]:
    """Return the keys of facts that are not hidden, in time order, from behind another one.

    Args:
        tx: a read transaction.
        after: the key behind which to begin; None for the start.
        most: how many.
        offset: how many to pass over.
        entity: only facts that name it.
        session: only facts that it supports.
    """
    start = after or FactKey(FIRST_MS, "", 0)
    where, args = [f"{_AT} >= ?", f"({_AT}, f.tie, f.id) > (?, ?, ?)", _SHOWN], [start.at_ms, *start]
    if session is not None:
        where, args = [*where, _IN_SESSION], [*args, session]
    if entity is not None:
        named = "SELECT 1 FROM mention m WHERE m.fact = f.id AND m.entity = ?"
        times, facts = tx.execute(
            "SELECT (SELECT count(*) FROM mention WHERE entity = ?), (SELECT count(*) FROM fact)", (entity,)
        ).fetchone()
        where.append(
            f"EXISTS ({named})"
            if session is not None or times * RARE > facts
            else "f.id IN (SELECT m.fact FROM mention m WHERE m.entity = ?)"
        )
        args.append(entity)
    return tx.rows(
        FactKey,
        f"SELECT {_AT}, f.tie, f.id FROM fact f WHERE {' AND '.join(where)} ORDER BY 1, 2, 3 LIMIT ? OFFSET ?",
        (*args, most, offset),
    )


def fact_keys(tx: Tx, facts: Collection[int]) -> list[tuple[FactKey, str]]:
    """Return the keys of facts, by row id, with their public ids."""
    rows = tx.execute(
        f"SELECT {_AT}, f.tie, f.id, f.fact_id FROM fact f WHERE f.id {AMONG}", (tx.ids(facts),)
    )
    return [(FactKey(*row[:3]), row[3]) for row in rows]


def count_facts(tx: Tx, *, entity: int | None = None, session: int | None = None) -> int:
    """Return how many facts are not hidden; of those, how many name an entity and are supported by a session."""
    hidden = "(SELECT id FROM fact WHERE verdict > 1)"
    if session is not None:
        also = (
            ""
            if entity is None
            else "AND EXISTS (SELECT 1 FROM mention m WHERE m.fact = f.id AND m.entity = ?)"
        )
        found = tx.execute(
            f"SELECT count(*) FROM fact f WHERE {_SHOWN} AND {_IN_SESSION} {also}",
            (session,) if entity is None else (session, entity),
        )
    elif entity is not None:
        found = tx.execute(
            f"SELECT count(DISTINCT fact) FROM mention WHERE entity = ? AND fact NOT IN {hidden}", (entity,)
        )
    else:
        found = tx.execute(f"SELECT (SELECT count(*) FROM fact) - (SELECT count(*) FROM {hidden})")
    return int(found.fetchone()[0])


def sessions_after(tx: Tx, after: tuple[int, str] | None, most: int) -> list[SessionRow]:
    """Return sessions in time order (ties by id), from behind the (first time in ms, id) of another one."""
    first_ms, session_id = after or (FIRST_MS, "")
    rows = tx.execute(
        """SELECT s.id FROM turn t CROSS JOIN session s ON s.id = t.session
           WHERE t.said_ms >= ? AND (t.said_ms, s.session_id) > (?, ?) AND t.id =
           (SELECT u.id FROM turn u WHERE u.session = t.session ORDER BY u.said_ms, u.id LIMIT 1)
           ORDER BY t.said_ms, s.session_id LIMIT ?""",
        (first_ms, first_ms, session_id, most),
    )
    wanted = [row for (row,) in rows]
    found = tx.execute(f"{_SESSION} WHERE s.id {AMONG} GROUP BY s.id", (tx.ids(wanted),))
    by_row = {row[0]: _session(row) for row in found}
    return [by_row[row] for row in wanted if row in by_row]


def count_sessions(tx: Tx) -> int:
    """Return how many sessions there are."""
    return int(tx.execute("SELECT count(*) FROM session").fetchone()[0])


def participants(tx: Tx, sessions: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return who speaks in sessions, in the order of their first turns."""
    rows = tx.execute(
        f"SELECT session, speaker, min(ordinal) AS first FROM turn WHERE session {AMONG} GROUP BY 1, 2 ORDER BY first",
        (tx.ids(sessions),),
    )
    found: dict[int, list[str]] = {}
    for session, speaker, _ in rows:
        found.setdefault(session, []).append(speaker)
    return {session: tuple(names) for session, names in found.items()}


def failed_chunks_of(tx: Tx, sessions: Collection[int]) -> Mapping[int, int]:
    """Return how many chunks of sessions have failed; sessions without are not in it."""
    return tx.pairs(
        f"SELECT session, count(*) FROM chunk WHERE session {AMONG} AND status = 'failed' GROUP BY session",
        (tx.ids(sessions),),
    )


def turns_after(tx: Tx, session: int, after: int, most: int) -> list[tuple[int, Turn, int]]:
    """Return turns of a session behind the one with an ordinal: row id, turn, and when it was stored."""
    rows = tx.execute(
        """SELECT id, turn_id, speaker, text, said_ms, ordinal, role, time_source, metadata, stored_ms
           FROM turn WHERE session = ? AND ordinal > ? ORDER BY ordinal LIMIT ?""",
        (session, after, most),
    )
    return [(row[0], turn_of(row), row[9]) for row in rows]
