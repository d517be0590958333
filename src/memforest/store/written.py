"""What was written to a memory since a time, oldest first: each kind is read by its index, a bounded number of rows.

The order is total: by time, then by kind, then by row; so whoever has read up to a place goes on behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx


class Place(NamedTuple):
    """Where a write stands in the order: UTC ms, the number of its kind, and its row."""

    at_ms: int
    kind: int
    row: int


KINDS = ("stored", "learnt", "merged", "corrected", "undone", "deleted")
"""What was done, in the order of one instant: turns come before what was learnt of them."""


class Written(NamedTuple):
    """One write.

    `item` is the row of a session, a fact, an occurrence or a correction; of what was deleted the kind of item is
    `what`. `items` is how many turns were stored, or items deleted; 1 otherwise.
    """

    place: Place
    item: int
    what: str = ""
    items: int = 1

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return KINDS[self.place.kind]


_SOURCES: Mapping[str, tuple[str, str, str]] = {
    # kind: columns, table, time
    "learnt": ("id, ''", "fact", "stored_ms"),
    "merged": ("id, ''", "occurrence", "stored_ms"),
    "corrected": ("id, kind", "correction", "coalesce(stored_ms, made_ms)"),
    "undone": ("id, kind", "correction", "undone_ms"),
}


def written_since(tx: Tx, since_ms: int, until_ms: int, after: Place | None, most: int) -> list[Written]:
    """Return the first writes of [since, until), or those behind a place.

    Args:
        tx: a read transaction.
        since_ms: from when on, UTC ms.
        until_ms: up to before when.
        after: the last one that was read before.
        most: how many.
    """

    def bounds(kind: str) -> tuple[int, int]:
        """Return the time and row behind which a kind goes on."""
        if after is None:
            return since_ms - 1, 2**62
        number = KINDS.index(kind)
        if number == after.kind:
            return after.at_ms, after.row
        # Of the same instant, a kind that comes later is still to be read as a whole, an earlier one has been.
        return after.at_ms, -1 if number > after.kind else 2**62

    parts = [_turns(tx, bounds("stored"), until_ms, most), _deletions(tx, bounds("deleted"), until_ms, most)]
    parts += [_rows(tx, kind, bounds(kind), until_ms, most) for kind in _SOURCES]
    return list(islice(merge(*parts, key=lambda one: one.place), most))


def _rows(tx: Tx, kind: str, behind: tuple[int, int], until_ms: int, most: int) -> list[Written]:
    columns, table, time = _SOURCES[kind]
    found = tx.execute(
        f"""SELECT {time}, {columns} FROM {table} WHERE {time} >= ? AND {time} < ? AND ({time}, id) > (?, ?)
            ORDER BY {time}, id LIMIT ?""",
        (behind[0], until_ms, *behind, most),
    )
    number = KINDS.index(kind)
    return [Written(Place(at, number, row), row, what) for at, row, what in found]


def _turns(tx: Tx, behind: tuple[int, int], until_ms: int, most: int) -> list[Written]:
    """Return what was stored of sessions: the turns of one session that were stored together are one write."""
    found = tx.execute(
        """SELECT stored_ms, session, id FROM turn WHERE stored_ms >= ? AND stored_ms < ? AND (stored_ms, id) > (?, ?)
           ORDER BY stored_ms, id""",
        (behind[0], until_ms, *behind),
    )
    return list(islice(_grouped(found), most))


def _grouped(found: Iterable[tuple[int, int, int]]) -> Iterator[Written]:
    """Yield one write for each run of turns of one session and time; it stands at its last turn."""
    for (at_ms, session), rows in groupby(found, key=itemgetter(0, 1)):
        ids = [row for *_, row in rows]
        yield Written(Place(at_ms, KINDS.index("stored"), ids[-1]), session, items=len(ids))


def _deletions(tx: Tx, behind: tuple[int, int], until_ms: int, most: int) -> list[Written]:
    """Return the deletions: items of one kind that were deleted together are one write, whenever they were stored."""
    found = tx.execute(
        """SELECT deleted_ms, kind, id, count FROM tombstone
           WHERE deleted_ms >= ? AND deleted_ms < ? AND (deleted_ms, id) > (?, ?) ORDER BY deleted_ms, id""",
        (behind[0], until_ms, *behind),
    )
    number, made = KINDS.index("deleted"), []
    for (at_ms, what), rows in groupby(found, key=itemgetter(0, 1)):
        several = list(rows)
        row = several[-1][2]
        made.append(Written(Place(at_ms, number, row), row, what, sum(one[3] for one in several)))
        if len(made) == most:
            break
    return made


def session_ids(tx: Tx, sessions: Collection[int]) -> dict[int, str]:
    """Return the ids of sessions by row."""
    found = tx.execute(f"SELECT id, session_id FROM session WHERE id {AMONG}", (tx.ids(sessions),))
    return dict(found.fetchall())


class OccurrenceSource(NamedTuple):
    """The fact of an occurrence, and the turns that support it there."""

    fact: int
    turns: tuple[tuple[str, str], ...]
    """(session id, turn id), in order."""


def occurrence_sources(tx: Tx, occurrences: Collection[int]) -> dict[int, OccurrenceSource]:
    """Return whose occurrences some are, and where they were said."""
    found = tx.execute(
        f"""SELECT o.id, o.fact, s.session_id, t.turn_id FROM occurrence o
            JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
            JOIN session s ON s.id = t.session WHERE o.id {AMONG} ORDER BY o.id, t.ordinal""",
        (tx.ids(occurrences),),
    )
    sources = {}
    for (row, fact), rows in groupby(found, key=itemgetter(0, 1)):
        sources[row] = OccurrenceSource(fact, tuple((session, turn) for *_, session, turn in rows))
    return sources


def first_occurrence(tx: Tx, fact: int) -> int:
    """Return the occurrence with which a fact was stored, 0 when it is gone."""
    found = tx.execute(
        "SELECT min(id) FROM occurrence WHERE fact = ? AND stored_ms IS NULL", (fact,)
    ).fetchone()
    return int(found[0] or 0)


class Correction(NamedTuple):
    """The statement that a correction is of, and the text it was given, if any."""

    fact_id: str
    text: str


def corrections(tx: Tx, rows: Collection[int]) -> dict[int, Correction]:
    """Return corrections by row."""
    found = tx.execute(
        f"SELECT id, fact_id, coalesce(text, '') FROM correction WHERE id {AMONG}", (tx.ids(rows),)
    )
    return {row: Correction(fact_id, text) for row, fact_id, text in found}
