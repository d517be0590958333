"""Queries for turns: which segments they belong to, who says them, and what supports a statement."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from memforest.store.dialect import AMONG, place_tie
from memforest.store.tx import Tx
from memforest.systems.timem.levels import SEGMENT


class SaidLine(NamedTuple):
    """A turn, as it is told: when it was said, and by whom what."""

    row: int
    said_ms: int
    speaker: str
    line: str


class Said(NamedTuple):
    """A turn, as far as the cutting into segments looks at it."""

    row: int
    ordinal: int
    said_ms: int


def groups_of(tx: Tx, turns: Collection[int], size: int) -> tuple[dict[int, set[int]], int]:
    """Return the numbers of the segments that some turns belong to, by session, and how many of the turns are stored.

    Args:
        tx: a transaction.
        turns: row ids.
        size: turns of a segment.
    """
    found: dict[int, set[int]] = {}
    count = 0
    for session, ordinal in tx.execute(
        f"SELECT session, ordinal FROM turn WHERE id {AMONG}", (tx.ids(turns),)
    ):
        found.setdefault(session, set()).add(ordinal // size)
        count += 1
    return found, count


def turns_of_parts(tx: Tx, session: int, parts: Iterable[int], size: int) -> dict[int, list[Said]]:
    """Return the turns of some segments of a session, by the segments' numbers."""
    wanted = sorted(parts)
    if not wanted:
        return {}
    found: dict[int, list[Said]] = {part: [] for part in wanted}
    for row in tx.execute(
        "SELECT id, ordinal, said_ms FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
        (session, wanted[0] * size, (wanted[-1] + 1) * size - 1),
    ):
        said = Said(*row)
        if said.ordinal // size in found:
            found[said.ordinal // size].append(said)
    return found


def supporting(tx: Tx, facts: Collection[int], after: int = 0) -> list[int]:
    """Return the turns that support some facts, by occurrences behind one."""
    found = tx.execute(
        f"""SELECT DISTINCT x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            WHERE o.fact {AMONG} AND o.id > ? ORDER BY 1""",
        (tx.ids(facts), after),
    )
    return [row[0] for row in found]


def last_occurrence(tx: Tx) -> int:
    """Return the number of the last occurrence; 0 before the first."""
    return int(tx.execute("SELECT coalesce(max(id), 0) FROM occurrence").fetchone()[0])


def turns_of_sessions(tx: Tx, sessions: Collection[int]) -> list[int]:
    """Return the row ids of the turns of sessions."""
    found = tx.execute(f"SELECT id FROM turn WHERE session {AMONG} ORDER BY id", (tx.ids(sessions),))
    return [row[0] for row in found]


def speakers(tx: Tx, sessions: Collection[int]) -> list[str]:
    """Return who speaks in some sessions, in the order in which they first do."""
    found = tx.execute(
        f"""SELECT t.speaker FROM turn t JOIN session s ON s.id = t.session WHERE t.session {AMONG}
            GROUP BY t.speaker ORDER BY min(t.said_ms), min({place_tie("s.session_id", "t.ordinal")})""",
        (tx.ids(sessions),),
    )
    return [row[0] for row in found]


def speakers_ever(tx: Tx) -> list[str]:
    """Return who speaks anywhere, by name."""
    return [row[0] for row in tx.execute("SELECT DISTINCT speaker FROM turn ORDER BY speaker")]


def said_behind(
    tx: Tx,
    after_ms: int,
    until_ms: int | None,
    *,
    but: Collection[int],
    muted: Collection[int],
    by: Sequence[str] | None,
    limit: int,
) -> tuple[list[int], int]:
    """Return the last turns that were said at or after an instant, in order, and how many there are.

    Args:
        tx: a transaction.
        after_ms: the first instant.
        until_ms: the last one; None for no end.
        but: sessions that are left out.
        muted: turns that are left out.
        by: who says them; None for anybody.
        limit: most turns.
    """
    among = "" if by is None else f"AND t.speaker {AMONG}"
    where = f"t.said_ms >= ? AND (? IS NULL OR t.said_ms <= ?) AND t.session NOT {AMONG} AND t.id NOT {AMONG} {among}"
    args = (after_ms, until_ms, until_ms, tx.ids(but), tx.ids(muted)) + (
        () if by is None else (json.dumps(list(by)),)
    )
    count = tx.execute(f"SELECT count(*) FROM turn t WHERE {where}", args).fetchone()[0]
    found = tx.execute(
        f"SELECT t.id FROM turn t WHERE {where} ORDER BY t.said_ms DESC, t.session DESC, t.ordinal DESC LIMIT ?",
        (*args, limit),
    )
    return [row[0] for row in found][::-1], int(count)


def turns_below(tx: Tx, segments: Collection[int]) -> dict[int, list[SaidLine]]:
    """Return the turns of segments, in order."""
    found: dict[int, list[SaidLine]] = {node: [] for node in segments}
    for node, *said in tx.execute(
        f"""SELECT i.node, t.id, t.said_ms, t.speaker, t.speaker || ': ' || t.text FROM ix_timem_node i
            JOIN turn a ON a.id = i.turn JOIN turn b ON b.id = i.turn_last
            JOIN turn t ON t.session = i.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal
            WHERE +i.level = {SEGMENT} AND i.node {AMONG} ORDER BY i.node, t.ordinal""",
        (tx.ids(segments),),
    ):
        found[node].append(SaidLine(*said))
    return found
