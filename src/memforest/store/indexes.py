"""The indexes of a memory: their settings, their cursors in the feed, and the feed itself.

The feed notes which turns, chunks, facts and entities were written, changed or deleted, in order. Triggers write it, so no
write path can forget to. A note says that an item is new, different or gone; whether it is gone is read from its table.
Numbers are never given again. Each index has a cursor in the feed: up to where it has placed what was noted. The newest
note of an item that is stored stays, so that an index added later reads the whole memory from the start of the feed;
notes of what is gone go when every cursor has passed them.

Vectors by the embedder that a memory is to have next stand beside those in use until every text has one. A row goes with
its text, by triggers, so what is there is of the present texts; `switch` puts them in the place of those in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from memforest.store import meta
from memforest.store.connections import AMONG, Tx, listed
from memforest.store.derived import (
    ITEM_KINDS,
    VECTOR_TABLES,
    ItemKind,
    VectorRow,
    embedded_texts,
    pack_vector,
    unpack_text,
)


class IndexRow(NamedTuple):
    """An index of a memory.

    `settings` is JSON. `cursor` is the number up to which it has placed the feed. `began` is up to where notes of what
    is gone were missing when it last began from the start (`memforest.store.indexes.compacted`). `reason` says why it
    stopped, if it did.
    """

    name: str
    settings: str
    cursor: int
    began: int
    reason: str | None


_COLUMNS = "name, settings, cursor, began, reason"


def rows(tx: Tx) -> list[IndexRow]:
    """Return the indexes of a memory, by name."""
    return tx.rows(IndexRow, f"SELECT {_COLUMNS} FROM index_ ORDER BY name")


def find(tx: Tx, name: str) -> IndexRow | None:
    """Return an index of a memory, or None."""
    return tx.row(IndexRow, f"SELECT {_COLUMNS} FROM index_ WHERE name = ?", (name,))


def add(tx: Tx, row: IndexRow) -> None:
    """Insert an index."""
    tx.execute(f"INSERT INTO index_ ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", row)


def change(tx: Tx, name: str, settings: str) -> None:
    """Write an index's settings, and clear the reason why it had stopped."""
    tx.execute("UPDATE index_ SET settings = ?, reason = NULL WHERE name = ?", (settings, name))


def move(tx: Tx, name: str, cursor: int) -> None:
    """Write an index's cursor in the feed."""
    tx.execute("UPDATE index_ SET cursor = ?, reason = NULL WHERE name = ?", (cursor, name))


def move_from(tx: Tx, name: str, before: int, cursor: int) -> bool:
    """Move an index's cursor in the feed if it is still where it was read before; return whether it was.

    For an index that reads notes in one transaction, asks a model, and writes in another: if this returns False
    another process has placed them, and nothing of it may be written.
    """
    sql = "UPDATE index_ SET cursor = ?, reason = NULL WHERE name = ? AND cursor = ?"
    return tx.execute(sql, (cursor, name, before)).rowcount == 1


def restart(tx: Tx, name: str, began: int, reason: str | None) -> None:
    """Move an index's cursor to the start of the feed, and store the reason."""
    tx.execute("UPDATE index_ SET cursor = 0, began = ?, reason = ? WHERE name = ?", (began, reason, name))


def stop(tx: Tx, name: str, reason: str) -> None:
    """Store why an index has stopped at its cursor."""
    tx.execute("UPDATE index_ SET reason = ? WHERE name = ?", (reason, name))


def go_on(tx: Tx, name: str) -> None:
    """Clear the reason why an index had stopped; its cursor stays where it is."""
    tx.execute("UPDATE index_ SET reason = NULL WHERE name = ?", (name,))


def remove(tx: Tx, name: str) -> None:
    """Delete an index's row."""
    tx.execute("DELETE FROM index_ WHERE name = ?", (name,))


def own_tables(tx: Tx, name: str | None = None) -> list[str]:
    """Return an index's own tables, referencing ones before referenced ones; with None, those of every index.

    What SQLite keeps for a virtual table goes with that one.
    """
    begin = "ix_" if name is None else f"ix_{name}_"
    return tx.column(
        """SELECT m.name FROM sqlite_master m JOIN pragma_table_list t ON t.schema = 'main' AND t.name = m.name
           WHERE m.type = 'table' AND t.type IN ('table', 'virtual') AND substr(m.name, 1, ?) = ? ORDER BY m.rowid DESC""",
        (len(begin), begin),
    )


def own_columns(tx: Tx, table: str) -> list[tuple[str, str, int]]:
    """Return (name, type, place in the primary key from 1 or 0) of the columns of a table."""
    return tx.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()


def drop_tables(tx: Tx, name: str) -> None:
    """Drop an index's own tables, and what it keeps in `meta`."""
    for table in own_tables(tx, name):
        tx.execute(f'DROP TABLE "{table}"')
    for begin in (f"ix_{name}_", f"next:ix_{name}_"):
        tx.execute("DELETE FROM meta WHERE substr(key, 1, ?) = ?", (len(begin), begin))


def empty_tables(tx: Tx, name: str) -> None:
    """Delete the rows of an index's own tables, and what it keeps in `meta` but for its counters."""
    for table in own_tables(tx, name):
        tx.execute(f'DELETE FROM "{table}"')
    begin = f"ix_{name}_"
    tx.execute("DELETE FROM meta WHERE substr(key, 1, ?) = ?", (len(begin), begin))


def strays(tx: Tx) -> set[str]:
    """Return the names of indexes that own trees or tables and that the memory does not have."""
    owners = set(tx.column("SELECT DISTINCT owner FROM tree"))
    return (owners - {row.name for row in rows(tx)}) | stray_tables(tx)


def stray_tables(tx: Tx) -> set[str]:
    """Return the names of indexes that own tables and that the memory does not have."""
    return {table.split("_")[1] for table in own_tables(tx)} - {row.name for row in rows(tx)}


Kind = Literal["turn", "chunk", "fact", "entity"]
"""What the feed notes: turns, chunks, facts, and entities whose kind changed."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""By their codes, which stand in the triggers of `schema.sql`."""


Items = Mapping[Kind, Sequence[int]]
"""Row ids by kind, in the order in which they were noted last."""

COMPACTED = 4_096
"""Least numbers between two compactions; in a long feed, a quarter of its length."""


def feed_position(tx: Tx) -> int:
    """Return the number of the newest note, 0 when there was none."""
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'feed'").fetchone()
    return 0 if row is None else int(row[0])


def read(tx: Tx, after: int, limit: int | None = None, until: int | None = None) -> tuple[Items, int]:
    """Return the notes after a number, and the number of the last one.

    Args:
        tx: a transaction.
        after: a cursor.
        limit: most notes that are read; None for all.
        until: the last number that is read; None for the newest.
    """
    end = feed_position(tx) if until is None else until
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
    """Add items to the feed whose text changed though their rows did not; triggers see rows alone."""
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
    value = meta.get(tx, "feed_compacted") or ""
    return int(value) if value.isdecimal() else 0  # `verify` names a damaged one


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
    newest, due = feed_position(tx), meta.get(tx, "feed_compact_next") or ""
    if newest < (int(due) if due.isdecimal() else COMPACTED):
        return
    passed = min((row.cursor for row in rows(tx)), default=newest)
    tx.execute("DELETE FROM feed WHERE seq NOT IN (SELECT max(seq) FROM feed GROUP BY kind, item)")
    for code, kind in enumerate(KINDS):
        tx.execute(
            f"DELETE FROM feed WHERE kind = ? AND seq <= ? AND item NOT IN (SELECT id FROM {kind})",
            (code, passed),
        )
    if passed > compacted(tx):
        meta.put(tx, "feed_compacted", str(passed))
    meta.put(tx, "feed_compact_next", str(newest + max(COMPACTED, waiting(tx, 0) // 4)))


LEAF_KINDS = ("chunk", "fact", "turn")
"""What a leaf may stand for: the columns of its row, the first that is filled."""


class InnerRow(NamedTuple):
    """An inner node, or with level 0 a leaf that has a summary of its own, which is a `LeafRow` too.

    `children` are packed ids; what it does not have is None.
    """

    id: int
    tree: int
    level: int
    children: bytes
    start_ms: int
    end_ms: int
    span_lo: int | None
    span_hi: int | None
    window: str | None


class LeafRow(NamedTuple):
    """A leaf. `kind` is a place in `LEAF_KINDS`; `item` is a fact or the first turn of a run, `last` its last turn."""

    id: int
    tree: int
    kind: int
    item: int
    last: int


Only = Collection[int] | None
"""Row ids that a read is limited to; None reads all of the index."""


def _own(tx: Tx, table: str, owner: str, only: Only) -> tuple[str, str, tuple[object, ...]]:
    """Return what to select an index's rows of a table `n` from, the condition, and the arguments of both."""
    if only is None:
        return f"{table} n", "WHERE n.tree IN (SELECT id FROM tree WHERE owner = ?)", (owner,)
    source = f"""{listed("?")} j CROSS JOIN {table} n ON n.id = j.value
        CROSS JOIN tree own ON own.id = n.tree AND own.owner = ?"""
    return source, "", (tx.ids(only), owner)


def tree_rows(tx: Tx, owner: str, only: Only = None) -> list[tuple[int, str, int, int | None]]:
    """Return (id, kind, scope, root) of trees, by id."""
    among = "" if only is None else f"AND id {AMONG}"
    args = (owner,) if only is None else (owner, tx.ids(only))
    sql = f"SELECT id, kind, scope, root FROM tree WHERE owner = ? {among} ORDER BY id"
    return tx.execute(sql, args).fetchall()


def inner_rows(tx: Tx, owner: str, only: Only = None) -> Iterator[InnerRow]:
    """Yield inner nodes, and leaves that have a summary of their own, by id."""
    source, where, args = _own(tx, "node", owner, only)
    rows = tx.execute(
        f"""SELECT n.id, n.tree, n.level, n.children, n.start_ms, n.end_ms, n.span_lo, n.span_hi, n.window
            FROM {source} {where} ORDER BY n.id""",
        args,
    )
    return (InnerRow(*row) for row in rows)


def leaf_rows(tx: Tx, owner: str, only: Only = None) -> Iterator[LeafRow]:
    """Yield leaves, by id; a chunk's with its first and last turn."""
    source, where, args = _own(tx, "leaf", owner, only)
    rows = tx.execute(
        f"""SELECT n.id, n.tree, CASE WHEN n.chunk IS NOT NULL THEN 0 WHEN n.fact IS NOT NULL THEN 1 ELSE 2 END,
                coalesce(a.id, n.fact, n.turn, 0), coalesce(b.id, n.last, n.turn, 0)
            FROM {source} LEFT JOIN chunk c ON c.id = n.chunk
            LEFT JOIN turn a ON a.session = c.session AND a.ordinal = c.first
            LEFT JOIN turn b ON b.session = c.session AND b.ordinal = c.last
            {where} ORDER BY n.id""",
        args,
    )
    return (LeafRow(*row) for row in rows)


_CUT = """(c.first / :turns != c.last / :turns OR EXISTS (SELECT 1 FROM turn t WHERE t.session = c.session
    AND t.ordinal BETWEEN c.first / :turns * :turns AND c.first / :turns * :turns + :turns - 1
    AND t.ordinal NOT BETWEEN c.first AND c.last))"""
"""A chunk that does not hold just those of `turns` turns that are there: beside what was deleted it is shorter."""


def chunks_by_maker(tx: Tx) -> list[tuple[bool, str, int]]:
    """Return (whether statements were extracted, or turns taken as they are; what made them; number of chunks)."""
    rows = tx.execute(
        """SELECT s.infer, c.maker, count(*) FROM chunk c JOIN session s ON s.id = c.session
           WHERE c.status = 'extracted' AND c.maker IS NOT NULL GROUP BY s.infer, c.maker ORDER BY c.maker"""
    )
    return [(bool(infer), maker, count) for infer, maker, count in rows]


def chunks_cut_otherwise(tx: Tx, turns: int) -> int:
    """Return the number of chunks that would not be cut so with `turns` turns a chunk."""
    found = tx.execute(f"SELECT count(*) FROM chunk c WHERE {_CUT}", {"turns": turns})
    return int(found.fetchone()[0])


def stale_sessions(tx: Tx, extractor: str, turns: int) -> list[int]:
    """Return the fully read sessions, in time order, that have a chunk of another extractor or another length.

    Args:
        tx: a transaction.
        extractor: what extracts statements now.
        turns: most turns of a chunk now.
    """
    return tx.column(
        f"""SELECT s.id FROM session s WHERE s.status = 'ingested' AND EXISTS (SELECT 1 FROM chunk c
            WHERE c.session = s.id AND ((s.infer AND c.status = 'extracted' AND c.maker != :extractor) OR {_CUT}))
            ORDER BY (SELECT min(t.said_ms) FROM turn t WHERE t.session = s.id), s.session_id""",
        {"extractor": extractor, "turns": turns},
    )


def facts_stored(tx: Tx, chunks: Collection[int]) -> dict[str, int]:
    """Return when the facts of some chunks were stored, in UTC ms, by their identities."""
    return tx.pairs(
        f"SELECT DISTINCT f.fact_id, f.stored_ms FROM fact f JOIN occurrence o ON o.fact = f.id WHERE o.chunk {AMONG}",
        (tx.ids(chunks),),
    )


def keep_stored(tx: Tx, stored: Mapping[str, int]) -> None:
    """Note that facts that were extracted again have been known since then."""
    tx.executemany(
        "UPDATE fact SET stored_ms = ? WHERE fact_id = ? AND stored_ms > ?",
        [(ms, fact_id, ms) for fact_id, ms in stored.items()],
    )


_NEXT = "next_embedder"


def next_embedder(tx: Tx) -> str | None:
    """Return the name of the embedder that vectors are being made with; None if none."""
    return meta.get(tx, _NEXT)


def begin(tx: Tx, model: str) -> None:
    """Begin to keep vectors by another embedder; those of the same one stay, those of a third one go."""
    if next_embedder(tx) != model:
        drop(tx)
        meta.put(tx, _NEXT, model)


def drop(tx: Tx) -> None:
    """Delete the vectors by the next embedder, and its name."""
    tx.execute("DELETE FROM derived_next_vector")
    meta.remove(tx, _NEXT)


def lacking_count(tx: Tx) -> int:
    """Return how many texts have no vector by the next embedder."""
    return sum(int(tx.execute(f"SELECT count(*) {_lacking(kind)}").fetchone()[0]) for kind in ITEM_KINDS)


def lacking(tx: Tx, kind: ItemKind, after: int, most: int) -> list[tuple[int, str, str]]:
    """Return (item, speaker, text) of items that lack such a vector, by id from `after` on; only a turn has a speaker."""
    rows = tx.execute(
        f"SELECT s.id, s.speaker, s.text {_lacking(kind)} AND s.id > ? ORDER BY s.id LIMIT ?", (after, most)
    )
    return [(row[0], row[1], unpack_text(row[2]) if kind == "node" else row[2]) for row in rows]


def _lacking(kind: ItemKind) -> str:
    return f"""FROM ({embedded_texts(kind)}) s LEFT JOIN derived_next_vector v ON v.kind = '{kind}' AND v.item = s.id
               WHERE v.item IS NULL"""


def put(tx: Tx, kind: ItemKind, rows: Iterable[VectorRow]) -> None:
    """Store vectors by the next embedder."""
    tx.executemany(
        """INSERT INTO derived_next_vector VALUES (?, ?, ?, ?) ON CONFLICT (kind, item) DO UPDATE
           SET digest = excluded.digest, vector = excluded.vector""",
        [(kind, item, digest, pack_vector(vector)) for item, digest, vector in rows],
    )


def problems(tx: Tx) -> list[str]:
    """Return what is wrong with the vectors by the next embedder, in words; `drop` mends all of it."""
    sizes = tx.pairs("SELECT length(vector), count(*) FROM derived_next_vector GROUP BY 1")
    kinds = set(tx.column("SELECT DISTINCT kind FROM derived_next_vector"))
    found = [
        f"there are vectors of a next embedder for {kind!r}, which is nothing"
        for kind in kinds - set(ITEM_KINDS)
    ]
    if sizes and next_embedder(tx) is None:
        found.append("there are vectors of a next embedder, and none is named")
    if len(sizes) > 1:
        found.append(f"vectors of the next embedder have {len(sizes)} lengths")
    return found


def switch(tx: Tx) -> None:
    """Put the vectors in the place of those in use, name their embedder, and end the making of them.

    An item that has none by the next embedder has none then; those of nodes that had the mean of their children's go, too.
    """
    model = next_embedder(tx)
    if model is None:
        raise ValueError("there are no vectors to switch to")
    for kind in ITEM_KINDS:
        table = VECTOR_TABLES[kind]
        found = f"SELECT item FROM derived_next_vector WHERE kind = '{kind}'"
        tx.execute(f"DELETE FROM {table} WHERE item NOT IN ({found})")
        # Rows are changed in place: one that is inserted is noted in the feed, as that of a new fact.
        tx.execute(
            f"""UPDATE {table} SET digest = n.digest, vector = n.vector FROM derived_next_vector n
                WHERE n.kind = '{kind}' AND n.item = {table}.item"""
        )
        tx.execute(
            f"""INSERT INTO {table} SELECT item, digest, vector FROM derived_next_vector
                WHERE kind = '{kind}' AND item NOT IN (SELECT item FROM {table}) ORDER BY item"""
        )
    drop(tx)
    meta.put(tx, "embedder", model)
