"""Counts of a memory's rows."""

from __future__ import annotations

from pathlib import Path

from memforest.store.tx import Tx

_TABLES = (
    "session",
    "turn",
    "cell",
    "fact",
    "occurrence",
    "entity",
    "mention",
    "state",
    "relation",
    "tree",
    "node",
    "leaf",
)


def count_rows(tx: Tx) -> dict[str, int]:
    """Return the number of rows of every persistent table."""
    return {table: tx.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES}


def entities_by_kind(tx: Tx) -> dict[str, int]:
    """Return the number of entities by kind."""
    return dict(tx.execute("SELECT kind, count(*) FROM entity GROUP BY kind ORDER BY kind").fetchall())


def trees_by_index(tx: Tx) -> dict[str, dict[str, int]]:
    """Return the number of trees by index, then by kind."""
    found: dict[str, dict[str, int]] = {}
    for owner, kind, count in tx.execute(
        "SELECT owner, kind, count(*) FROM tree GROUP BY owner, kind ORDER BY owner, kind"
    ):
        found.setdefault(owner, {})[kind] = count
    return found


def vectors_by_kind(tx: Tx) -> dict[str, int]:
    """Return the number of vectors by kind of item."""
    found = {
        kind: int(tx.execute(f"SELECT count(*) FROM derived_{kind}_vector").fetchone()[0])
        for kind in ("fact", "node", "turn")
    }
    return {kind: count for kind, count in found.items() if count}


def failed_cells(tx: Tx) -> int:
    """Return the number of chunks whose extraction failed."""
    return int(tx.execute("SELECT count(*) FROM cell WHERE status = 'failed'").fetchone()[0])


def unread_sessions(tx: Tx) -> int:
    """Return the number of sessions that were received and not read to their end."""
    return int(tx.execute("SELECT count(*) FROM session WHERE status = 'received'").fetchone()[0])


def size_bytes(tx: Tx) -> int:
    """Return the bytes of the file and its write-ahead log."""
    path = Path(tx.execute("PRAGMA database_list").fetchone()[2])
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def makers(tx: Tx) -> dict[str, dict[str, int]]:
    """Return the makers of chunks' statements and nodes' summaries: part -> name and version -> count."""
    found = {}
    for part, sql in (
        ("chunks", "SELECT maker, count(*) FROM cell WHERE maker IS NOT NULL GROUP BY maker ORDER BY maker"),
        ("summaries", "SELECT maker, count(*) FROM derived_summary GROUP BY maker ORDER BY maker"),
    ):
        found[part] = dict(tx.execute(sql).fetchall())
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
    rows = tx.execute(
        """SELECT e.label FROM entity e LEFT JOIN mention m ON m.entity = e.id GROUP BY e.id
           ORDER BY count(DISTINCT m.fact) DESC, e.key LIMIT ?""",
        (most,),
    )
    return [row[0] for row in rows]


def entity_support(tx: Tx, entity: int, most: int = -1) -> tuple[int, int]:
    """Return in how many distinct facts that are shown, and distinct sessions, an entity is named; of each at most so many."""
    named = "mention m {} WHERE m.entity = :entity AND m.fact NOT IN (SELECT id FROM fact WHERE verdict > 1) LIMIT :most"
    place = "JOIN occurrence o ON o.id = m.occurrence JOIN cell c ON c.id = o.cell"
    row = tx.execute(
        f"""SELECT (SELECT count(*) FROM (SELECT DISTINCT m.fact FROM {named.format("")})),
           (SELECT count(*) FROM (SELECT DISTINCT c.session FROM {named.format(place)}))""",
        {"entity": entity, "most": most},
    ).fetchone()
    return row[0], row[1]
