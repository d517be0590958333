"""Where the bytes of a memory's file go, table by table.

    python benchmarks/file_size.py FILE.db

By SQLite's `dbstat` (https://www.sqlite.org/dbstat.html): whole pages, with what is unused in them. Where SQLite was
built without it, by the lengths of the values, which leaves out headers, unused space and most indexes.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections import Counter
from pathlib import Path

GROUPS = {
    "vectors": ("derived_turn_vector", "derived_fact_vector"),
    "summaries": ("artifact",),
    "facts": ("fact", "occurrence", "occurrence_turn", "derived_wording"),
    "entities and states": ("entity", "alias", "mention", "state"),
    "turns": ("turn", "chunk", "session"),
    "words": ("derived_turn_words", "derived_fact_words"),
    "logs of changes": ("change", "derived_word_change"),
}


def table_of(conn: sqlite3.Connection) -> dict[str, str]:
    """Return name of a table or index -> the table that it belongs to."""
    rows = conn.execute("SELECT name, tbl_name FROM sqlite_master").fetchall()
    tables = dict(rows)
    for name, table in rows:
        for words in GROUPS["words"]:
            if table.startswith(words + "_"):
                tables[name] = words
    return tables


def by_pages(conn: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return table -> (bytes of its pages and those of its indexes, unused bytes among them)."""
    tables, size, unused = table_of(conn), Counter[str](), Counter[str]()
    for name, pages, free in conn.execute("SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name"):
        size[tables.get(name, name)] += pages
        unused[tables.get(name, name)] += free
    return {table: (size[table], unused[table]) for table in size}


def by_values(conn: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return table -> (bytes of its values, 0)."""
    found: Counter[str] = Counter()
    for name, table in table_of(conn).items():
        columns = [row[1] for row in conn.execute(f"PRAGMA table_info({name})")]
        if columns and not name.endswith("_terms"):
            total = " + ".join(f"coalesce(sum(length(CAST({column} AS BLOB))), 0)" for column in columns)
            found[table] += conn.execute(f"SELECT {total} FROM {name}").fetchone()[0]
    return {table: (size, 0) for table, size in found.items()}


def main() -> None:
    """Print the table of a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    path = parser.parse_args().file
    conn = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    text = conn.execute("SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM turn").fetchone()[0]
    try:
        found = by_pages(conn)
    except sqlite3.OperationalError:
        print("SQLite has no dbstat here: lengths of values instead of pages\n")
        found = by_values(conn)
    conn.close()
    total = path.stat().st_size
    print(f"{total:,} bytes, {total / max(text, 1):.1f} times the text of the turns\n")
    print("| | bytes | of the file | unused |\n|---|---|---|---|")
    listed = {table for tables in GROUPS.values() for table in tables}
    groups = {**GROUPS, "other": tuple(found.keys() - listed)}
    rows = [
        (sum(found.get(t, (0, 0))[0] for t in tables), sum(found.get(t, (0, 0))[1] for t in tables), name)
        for name, tables in groups.items()
    ]
    for size, unused, name in sorted(rows, reverse=True):
        print(f"| {name} | {size:,} | {100 * size / total:.1f}% | {100 * unused / max(size, 1):.0f}% |")


if __name__ == "__main__":
    main()
