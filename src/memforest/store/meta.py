"""Settings and counters of the memory itself, its log of changes, counts of its rows, and what models have cost.

The change log says which rows were written since a snapshot was made, from which it is brought up to date. Triggers write
it, so no write path can forget to, and a process of an older version that has the file open keeps it too. A row says that
a turn, fact or entity is new, gone, or different in anything that a snapshot holds: a fact also when an
occurrence, mention, state or vector of it was. Only the newest rows are kept; a reader further behind reads the memory
anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from memforest.records import StepUsage
from memforest.store.connections import Tx

KEPT = 8_192
"""Numbers of the log that are kept: a few hundred turns' worth, beyond which reading all costs little more."""


class Changes(NamedTuple):
    """Row ids of what has changed, by kind."""

    turn: frozenset[int]
    fact: frozenset[int]
    entity: frozenset[int]


def change_position(tx: Tx) -> int:
    """Return the number of the newest change, 0 when there was none."""
    return int(tx.execute("SELECT coalesce(max(seq), 0) FROM change").fetchone()[0])


def changes_since(tx: Tx, seq: int) -> Changes | None:
    """Return what has changed after change number `seq`; None when the log does not reach back that far."""
    oldest = tx.execute("SELECT min(seq) FROM change").fetchone()[0]
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
    return int(tx.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])


def bump(tx: Tx, kept: int = KEPT) -> None:
    """Raise the generation; called by every transaction that changes what a query could see.

    On the way the change log is cut to its newest rows; the newest stays always, so that numbers are never given again.
    Now and then the older notes of rows that have a newer one go too: half of the log. That reads all of it, so it is
    done at few of the writes.

    Args:
        tx: the write transaction.
        kept: numbers of the log that are kept.
    """
    (newest,) = tx.execute("SELECT coalesce(max(seq), 0) FROM change").fetchone()
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


_TABLES = (
    "session",
    "turn",
    "chunk",
    "fact",
    "occurrence",
    "entity",
    "mention",
    "state",
    "relation",
)


def count_rows(tx: Tx) -> dict[str, int]:
    """Return the number of rows of every persistent table."""
    return {table: tx.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES}


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
    found = {kind: int(tx.execute(sql).fetchone()[0]) for kind, sql in counted.items()}
    return {kind: count for kind, count in found.items() if count}


def count_failed_chunks(tx: Tx) -> int:
    """Return the number of chunks whose extraction failed."""
    return int(tx.execute("SELECT count(*) FROM chunk WHERE status = 'failed'").fetchone()[0])


def size_bytes(tx: Tx) -> int:
    """Return the bytes of the file and its write-ahead log."""
    path = Path(tx.execute("PRAGMA database_list").fetchone()[2])
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def makers(tx: Tx) -> dict[str, dict[str, int]]:
    """Return the makers of chunks' statements and nodes' summaries: part -> name and version -> count."""
    found = {}
    for part, sql in (
        ("chunks", "SELECT maker, count(*) FROM chunk WHERE maker IS NOT NULL GROUP BY maker ORDER BY maker"),
        (
            "summaries",
            "SELECT maker, count(*) FROM artifact WHERE step = 'summary' GROUP BY maker ORDER BY maker",
        ),
    ):
        found[part] = tx.pairs(sql)
    return found


def free_share(tx: Tx) -> tuple[float, int]:
    """Return the share of the file's pages that is unused, 0 to 1, and the file's size in bytes."""
    free, pages, page = (
        int(tx.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("freelist_count", "page_count", "page_size")
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


def add(tx: Tx, operation: str, steps: Mapping[str, StepUsage]) -> None:
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


def total(tx: Tx) -> dict[str, dict[str, StepUsage]]:
    """Return operation -> step -> usage."""
    found: dict[str, dict[str, StepUsage]] = {}
    for operation, step, *used in tx.execute(
        f"SELECT operation, step, {_COLUMNS} FROM spent ORDER BY operation, step"
    ):
        found.setdefault(operation, {})[step] = StepUsage(*used)
    return found
