"""The memory itself: its settings, counters and indexes, its log of changes, counts of its rows, what models have cost.

The change log says which rows were written since a snapshot was made, from which it is brought up to date. Triggers write
it, so no write path can forget to, and a process of an older version that has the file open keeps it too. A row says that
a turn, fact or entity is new, gone, or different in anything that a snapshot holds: a fact also when an
occurrence, mention, state or vector of it was. Only the newest rows are kept; a reader further behind reads the memory
anew.

Vectors by the embedder that a memory is to have next stand beside those in use until every text has one. A row goes with
its text, by triggers, so what is there is of the present texts; `switch_embedder` puts them in the place of those in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from memforest.records import StepUsage
from memforest.store import artifacts
from memforest.store.connections import AMONG, Tx
from memforest.store.derived import (
    ITEM_KINDS,
    VECTOR_TABLES,
    ItemKind,
    VectorRow,
    embedded_texts,
    pack_vector,
)

KEPT = 8_192
"""Numbers of the log that are kept: a few hundred turns' worth, beyond which reading all costs little more."""


class Changes(NamedTuple):
    """Row ids of what has changed, by kind."""

    turn: frozenset[int]
    fact: frozenset[int]
    entity: frozenset[int]


def change_position(tx: Tx) -> int:
    """Return the number of the newest change, 0 when there was none."""
    return int(tx.value("SELECT coalesce(max(seq), 0) FROM change"))


def changes_since(tx: Tx, seq: int) -> Changes | None:
    """Return what has changed after change number `seq`; None when the log does not reach back that far."""
    oldest = tx.value("SELECT min(seq) FROM change")
    if seq < 0 or seq > change_position(tx) or (oldest is not None and oldest > seq + 1):
        return None
    found: dict[str, set[int]] = {kind: set() for kind in Changes._fields}
    for kind, item in tx.execute("SELECT kind, item FROM change WHERE seq > ?", (seq,)):
        found[kind].add(item)
    return Changes(*(frozenset(found[kind]) for kind in Changes._fields))


def forget(tx: Tx) -> None:
    """Forget what has changed, so that whoever has read the memory before reads all of it anew."""
    tx.execute("INSERT INTO change (kind, item) VALUES ('turn', 0), ('turn', 0)")  # the gap says: not known
    tx.execute("DELETE FROM change WHERE seq < (SELECT max(seq) FROM change)")


def get(tx: Tx, key: str) -> str | None:
    """Return a stored setting, or None."""
    return tx.row(str, "SELECT value FROM meta WHERE key = ?", (key,))


def everything(tx: Tx) -> dict[str, str]:
    """Return all stored settings, by key."""
    return tx.pairs("SELECT key, value FROM meta ORDER BY key")


def put(tx: Tx, key: str, value: str) -> None:
    """Store a setting."""
    tx.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
    )


def remove(tx: Tx, key: str) -> None:
    """Delete a stored setting, if there is one."""
    tx.execute("DELETE FROM meta WHERE key = ?", (key,))


def generation(tx: Tx) -> int:
    """Return the counter that every change of the memory raises; caches compare it."""
    return int(tx.value("SELECT value FROM meta WHERE key = 'generation'"))


def bump(tx: Tx, kept: int = KEPT) -> None:
    """Raise the generation; called by every transaction that changes what a query could see.

    On the way the change log is cut to its newest rows; the newest stays always, so that numbers are never given again.
    Now and then the older notes of rows that have a newer one go too: half of the log. That reads all of it, so it is
    done at few of the writes.

    Args:
        tx: the write transaction.
        kept: numbers of the log that are kept.
    """
    newest = tx.value("SELECT coalesce(max(seq), 0) FROM change")
    tx.execute("DELETE FROM change WHERE seq <= ?", (newest - max(kept, 1),))
    if newest % (KEPT // 2) < KEPT // 64:
        tx.execute("DELETE FROM change WHERE seq NOT IN (SELECT max(seq) FROM change GROUP BY kind, item)")
    tx.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'")


def take_ids(tx: Tx, name: str, n: int = 1) -> int:
    """Reserve `n` consecutive row ids of a table that are never given again, and return the first; with 0 that which is next.

    SQLite gives the id of a deleted last row to the next one. Whoever holds an id across transactions (a vector
    that is being made, a snapshot, a refresh) would take the new row for the one that it read.
    """
    first = int(get(tx, f"next:{name}") or 1)
    if n:
        put(tx, f"next:{name}", str(first + n))
    return first


_TABLES = ["session", "turn", "chunk", "fact", "occurrence", "entity", "mention", "state", "relation"]


def count_rows(tx: Tx) -> dict[str, int]:
    """Return the number of rows of every persistent table."""
    return {table: tx.value(f"SELECT count(*) FROM {table}") for table in _TABLES}


def entities_by_kind(tx: Tx) -> dict[str, int]:
    """Return the number of entities by kind."""
    return tx.pairs("SELECT kind, count(*) FROM entity GROUP BY kind ORDER BY kind")


def vectors_by_kind(tx: Tx) -> dict[str, int]:
    """Return the number of vectors by kind of item."""
    counted = {
        "fact": "SELECT count(*) FROM derived_fact_vector",
        "node": "SELECT count(*) FROM artifact WHERE vector IS NOT NULL",
        "turn": "SELECT count(*) FROM derived_turn_vector",
    }
    found = {kind: int(tx.value(sql)) for kind, sql in counted.items()}
    return {kind: count for kind, count in found.items() if count}


def count_failed_chunks(tx: Tx) -> int:
    """Return the number of chunks whose extraction failed."""
    return int(tx.value("SELECT count(*) FROM chunk WHERE status = 'failed'"))


def size_bytes(tx: Tx) -> int:
    """Return the bytes of the file and its write-ahead log."""
    path = Path(tx.execute("PRAGMA database_list").fetchone()[2])
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def makers(tx: Tx) -> dict[str, dict[str, int]]:
    """Return the makers of chunks' statements and nodes' summaries: part -> name and version -> count."""
    made = {"chunks": "chunk WHERE maker IS NOT NULL", "summaries": "artifact WHERE step = 'summary'"}
    counts = "SELECT maker, count(*) FROM {} GROUP BY maker ORDER BY maker"
    return {part: tx.pairs(counts.format(rows)) for part, rows in made.items()}


def free_share(tx: Tx) -> tuple[float, int]:
    """Return the share of the file's pages that is unused, 0 to 1, and the file's size in bytes."""
    free, pages, page = (
        int(tx.value(f"PRAGMA {name}")) for name in ("freelist_count", "page_count", "page_size")
    )
    return free / max(1, pages), pages * page


def most_named(tx: Tx, most: int) -> list[str]:
    """Return the display names of those entities that most facts name."""
    return tx.column(
        """SELECT e.label FROM entity e LEFT JOIN mention m ON m.entity = e.id GROUP BY e.id
           ORDER BY count(DISTINCT m.fact) DESC, e.key LIMIT ?""",
        (most,),
    )


_COLUMNS = "calls, failures, retries, prompt_tokens, completion_tokens, cached_tokens, prefix_tokens, seconds"


def add_spent(tx: Tx, operation: str, steps: Mapping[str, StepUsage]) -> None:
    """Add the usage of an operation, step by step."""
    tx.executemany(
        f"""INSERT INTO spent (operation, step, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, failures = failures + excluded.failures,
            retries = retries + excluded.retries, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
            completion_tokens = completion_tokens + excluded.completion_tokens,
            cached_tokens = cached_tokens + excluded.cached_tokens,
            prefix_tokens = prefix_tokens + excluded.prefix_tokens, seconds = seconds + excluded.seconds""",
        [
            (operation, step, *(getattr(used, name) for name in used.__slots__))
            for step, used in steps.items()
        ],
    )


def total_spent(tx: Tx) -> dict[str, dict[str, StepUsage]]:
    """Return operation -> step -> usage."""
    found = tx.groups(
        lambda step, *used: (step, StepUsage(*used)),
        f"SELECT operation, step, {_COLUMNS} FROM spent ORDER BY operation, step",
    )
    return {operation: dict(steps) for operation, steps in found.items()}


class IndexRow(NamedTuple):
    """An index of a memory, and its settings as JSON."""

    name: str
    settings: str


def index_rows(tx: Tx) -> list[IndexRow]:
    """Return the indexes of a memory, by name."""
    return tx.rows(IndexRow, "SELECT name, settings FROM index_ ORDER BY name")


def put_index(tx: Tx, row: IndexRow) -> None:
    """Write an index and its settings."""
    tx.execute("INSERT OR REPLACE INTO index_ (name, settings) VALUES (?, ?)", row)


def remove_index(tx: Tx, name: str) -> None:
    """Delete an index's row."""
    tx.execute("DELETE FROM index_ WHERE name = ?", (name,))


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
    return int(tx.value(f"SELECT count(*) FROM chunk c WHERE {_CUT}", {"turns": turns}))


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
    return get(tx, _NEXT)


def begin_next(tx: Tx, model: str) -> None:
    """Begin to keep vectors by another embedder; those of the same one stay, those of a third one go."""
    if next_embedder(tx) != model:
        drop_next(tx)
        put(tx, _NEXT, model)


def drop_next(tx: Tx) -> None:
    """Delete the vectors by the next embedder, and its name."""
    tx.execute("DELETE FROM derived_next_vector")
    remove(tx, _NEXT)


def count_lacking_next(tx: Tx) -> int:
    """Return how many texts have no vector by the next embedder."""
    return sum(int(tx.value(f"SELECT count(*) {_lacking(kind)}")) for kind in ITEM_KINDS)


def lacking_next(tx: Tx, kind: ItemKind, after: int, most: int) -> list[tuple[int, str, str]]:
    """Return (item, speaker, text) of items that lack such a vector, by id from `after` on; only a turn has a speaker."""
    sql = f"SELECT s.id, s.speaker, s.text {_lacking(kind)} AND s.id > ? ORDER BY s.id LIMIT ?"
    return tx.execute(sql, (after, most)).fetchall()


def _lacking(kind: ItemKind) -> str:
    return f"""FROM ({embedded_texts(kind)}) s LEFT JOIN derived_next_vector v ON v.kind = '{kind}' AND v.item = s.id
               WHERE v.item IS NULL"""


def put_next(tx: Tx, kind: ItemKind, rows: Iterable[VectorRow]) -> None:
    """Store vectors by the next embedder."""
    tx.executemany(
        """INSERT INTO derived_next_vector VALUES (?, ?, ?, ?) ON CONFLICT (kind, item) DO UPDATE
           SET digest = excluded.digest, vector = excluded.vector""",
        [(kind, item, digest, pack_vector(vector)) for item, digest, vector in rows],
    )


def next_problems(tx: Tx) -> list[str]:
    """Return what is wrong with the vectors by the next embedder, in words; `drop_next` mends all of it."""
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


def switch_embedder(tx: Tx) -> None:
    """Put the vectors in the place of those in use, name their embedder, and end the making of them.

    An item that has none by the next embedder has none then. Those of summaries go, and are made by the next refresh.
    """
    model = next_embedder(tx)
    if model is None:
        raise ValueError("there are no vectors to switch to")
    for kind, table in VECTOR_TABLES.items():
        tx.execute(f"DELETE FROM {table}")
        new = f"SELECT item, digest, vector FROM derived_next_vector WHERE kind = '{kind}' ORDER BY item"
        tx.execute(f"INSERT INTO {table} {new}")
    drop_next(tx)
    artifacts.drop_vectors(tx)
    put(tx, "embedder", model)
