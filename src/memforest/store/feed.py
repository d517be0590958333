"""The feed: which turns, chunks, facts and entities were written, changed or deleted, in order.

Triggers write it, so no write path can forget to. A note says that an item is new, different or gone; whether it is
gone is read from its table. Numbers are never given again. Each index has a cursor in the feed: up to where it has
placed what was noted. The newest note of an item that is stored stays, so that an index added later reads the whole
memory from the start of the feed; notes of what is gone go when every cursor has passed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from memforest.store import indexes, meta
from memforest.store.dialect import last_number
from memforest.store.tx import Tx

Kind = Literal["turn", "cell", "fact", "entity"]
"""What the feed notes: turns, chunks, facts, and entities whose kind changed."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""By their codes, which stand in the triggers of `schema.sql`."""


Items = Mapping[Kind, Sequence[int]]
"""Row ids by kind, in the order in which they were noted last."""

COMPACTED = 4_096
"""Least numbers between two compactions; in a long feed, a quarter of its length."""


def position(tx: Tx) -> int:
    """Return the number of the newest note, 0 when there was none."""
    return last_number(tx, "feed")


def read(tx: Tx, after: int, limit: int | None = None, until: int | None = None) -> tuple[Items, int]:
    """Return the notes after a number, and the number of the last one.

    Args:
        tx: a transaction.
        after: a cursor.
        limit: most notes that are read; None for all.
        until: the last number that is read; None for the newest.
    """
    end = position(tx) if until is None else until
    rows = tx.execute(
        "SELECT seq, kind, item FROM feed WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (after, end, -1 if limit is None else limit),
    ).fetchall()
    found: dict[Kind, dict[int, None]] = {kind: {} for kind in KINDS}
    for _, kind, item in rows:
        items = found[KINDS[kind]]
        items.pop(item, None)
        items[item] = None
    if limit is not None and len(rows) == limit:
        end = rows[-1][0]
    return {kind: tuple(items) for kind, items in found.items() if items}, end


def note(tx: Tx, kind: Kind, items: Sequence[int]) -> None:
    """Note items that are told otherwise although their rows have not changed: triggers see rows alone."""
    code = KINDS.index(kind)
    tx.executemany("INSERT INTO feed (kind, item) VALUES (?, ?)", [(code, item) for item in items])


def waiting(tx: Tx, after: int) -> int:
    """Return the number of notes after a cursor."""
    return int(tx.execute("SELECT count(*) FROM feed WHERE seq > ?", (after,)).fetchone()[0])


def compacted(tx: Tx) -> int:
    """Return the number up to which notes of deleted items may be missing.

    No cursor stands below it but of indexes that began from the start since (`IndexRow.began`): what was gone before
    that they never placed.
    """
    return _number(tx, "feed_compacted", 0)


def drop_repeated(tx: Tx, after: int) -> None:
    """Delete those notes after a number that a newer one repeats: of many writes, an index places each item once."""
    tx.execute(
        """DELETE FROM feed WHERE seq > ? AND seq NOT IN
           (SELECT max(seq) FROM feed WHERE seq > ? GROUP BY kind, item)""",
        (after, after),
    )


def compact(tx: Tx) -> None:
    """Delete notes that a newer one repeats, and those of deleted items that every index has passed.

    It reads the whole feed, so it is done once in `COMPACTED` notes.
    """
    newest = position(tx)
    if newest < _number(tx, "feed_compact_next", COMPACTED):
        return
    passed = min((row.cursor for row in indexes.rows(tx)), default=newest)
    tx.execute("DELETE FROM feed WHERE seq NOT IN (SELECT max(seq) FROM feed GROUP BY kind, item)")
    for code, kind in enumerate(KINDS):
        tx.execute(
            f"DELETE FROM feed WHERE kind = ? AND seq <= ? AND item NOT IN (SELECT id FROM {kind})",
            (code, passed),
        )
    if passed > compacted(tx):
        meta.put(tx, "feed_compacted", str(passed))
    meta.put(tx, "feed_compact_next", str(newest + max(COMPACTED, waiting(tx, 0) // 4)))


def _number(tx: Tx, key: str, default: int) -> int:
    """Return a stored number; the default where there is none, or a damaged one, which `verify` names."""
    value = meta.get(tx, key) or ""
    return int(value) if value.isdecimal() else default
