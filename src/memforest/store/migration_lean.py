"""The eighth migration: vectors by kind, no stored copies of other rows, and shorter values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memforest.store.packing import pack_ids, pack_text, pack_vector
from memforest.store.tx import Tx

__all__ = ["m0008_lean"]


def _note(kind: str, item: str) -> str:
    """Return the statements that note a change; the note before is dropped when it says the same.

    The new one comes first, as numbers must not be given again: a reader may have seen the old one.
    """
    return f"""INSERT INTO change (kind, item) VALUES ('{kind}', {item});
        DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = '{kind}' AND item = {item};"""


def _noted(table: str, kind: str, column: str = "id", compared: Sequence[str] = ()) -> list[str]:
    """Return the triggers that note rows of a table: new ones, deleted ones, and those of which something compared changes."""
    name = f"CREATE TRIGGER change_{table}"
    made = [
        f"{name}_insert AFTER INSERT ON {table} BEGIN {_note(kind, f'new.{column}')} END",
        f"{name}_delete AFTER DELETE ON {table} BEGIN {_note(kind, f'old.{column}')} END",
    ]
    if compared:
        other = " OR ".join(f"old.{one} IS NOT new.{one}" for one in compared)
        made.append(
            f"""{name}_update AFTER UPDATE OF {", ".join(compared)} ON {table} WHEN {other}
            BEGIN {_note(kind, f"new.{column}")} END"""
        )
    return made


_VECTORS = tuple(
    statement
    for kind in ("turn", "fact", "node")
    for table in (f"derived_{kind}_vector",)
    for statement in (
        # A table of each kind: rows come in the order of their ids, which fills pages, and need no index to be found.
        # A memory has vectors of one embedder, whose name is in `meta`.
        f"CREATE TABLE {table} (item INTEGER PRIMARY KEY, digest BLOB NOT NULL, vector BLOB NOT NULL) STRICT",
        f"CREATE INDEX {table}_digest ON {table} (digest)",
    )
)

_TREES = (
    # A leaf stands in time where its fact or chunk does, so that is not stored again; what has a leaf where is looked
    # up here too.
    """CREATE TABLE leaf (
        id INTEGER PRIMARY KEY,
        tree INTEGER NOT NULL,
        fact INTEGER,
        cell INTEGER
    ) STRICT""",
    """INSERT INTO leaf SELECT id, tree, CASE item_kind WHEN 'fact' THEN item END, CASE item_kind WHEN 'cell' THEN item END
        FROM node WHERE level = 0 ORDER BY id""",
    "CREATE INDEX leaf_fact ON leaf (fact, tree) WHERE fact IS NOT NULL",
    "CREATE INDEX leaf_cell ON leaf (cell) WHERE cell IS NOT NULL",
    "DROP TABLE placement",
    "DROP INDEX node_dirty",
    "DELETE FROM node WHERE level = 0",
    "ALTER TABLE node DROP COLUMN item_kind",
    "ALTER TABLE node DROP COLUMN item",
    "CREATE INDEX node_dirty ON node (level) WHERE dirty",
)

_FACTS = (
    # An occurrence that has the words or the tie of its fact, or quotes all of its turn, has none of its own.
    "ALTER TABLE occurrence ADD COLUMN own_text TEXT",
    "ALTER TABLE occurrence ADD COLUMN own_quote TEXT",
    "ALTER TABLE occurrence ADD COLUMN own_tie TEXT",
    """UPDATE occurrence SET own_text = nullif(text, (SELECT f.text FROM fact f WHERE f.id = occurrence.fact)),
        own_tie = nullif(tie, (SELECT f.tie FROM fact f WHERE f.id = occurrence.fact)),
        own_quote = nullif(quote, (SELECT max(t.text) FROM occurrence_turn x JOIN turn t ON t.id = x.turn
            WHERE x.occurrence = occurrence.id HAVING count(*) = 1))""",
    "ALTER TABLE occurrence DROP COLUMN text",
    "ALTER TABLE occurrence DROP COLUMN quote",
    "ALTER TABLE occurrence DROP COLUMN tie",
    "ALTER TABLE occurrence RENAME COLUMN own_text TO text",
    "ALTER TABLE occurrence RENAME COLUMN own_quote TO quote",
    "ALTER TABLE occurrence RENAME COLUMN own_tie TO tie",
    # One row for all roles, a bit each. The mentions of an occurrence are found by its fact, which stands first in
    # their key: that needs no index.
    "ALTER TABLE mention RENAME TO old_mention",
    "DROP INDEX mention_entity",
    "DROP INDEX mention_occurrence",
    """CREATE TABLE mention (
        fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        occurrence INTEGER NOT NULL,
        roles INTEGER NOT NULL,
        PRIMARY KEY (fact, entity, occurrence)
    ) STRICT, WITHOUT ROWID""",
    """INSERT INTO mention SELECT fact, entity, occurrence, sum(CASE role WHEN 'speaker' THEN 1 WHEN 'subject' THEN 2
        WHEN 'object' THEN 4 ELSE 8 END) FROM old_mention GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "DROP TABLE old_mention",
    "CREATE INDEX mention_entity ON mention (entity)",
    """CREATE TRIGGER mention_of_occurrence AFTER DELETE ON occurrence
        BEGIN DELETE FROM mention WHERE fact = old.fact AND occurrence = old.id; END""",
)

_LOG = (
    # Newest rows only; nobody reads on from before a migration.
    "DELETE FROM change WHERE seq < (SELECT max(seq) FROM change)",
    *(
        statement
        for table, kind, column, compared in (
            ("turn", "turn", "id", ()),
            ("fact", "fact", "id", ("speaker", "start_ms", "end_ms", "said_ms", "text")),
            ("node", "node", "id", ("children",)),
            ("leaf", "node", "id", ()),
            ("tree", "tree", "id", ("root",)),
            ("entity", "entity", "id", ("key", "label", "kind")),
            ("alias", "entity", "entity", ()),
            *((table, "fact", "fact", ()) for table in ("occurrence", "mention", "state")),
            *((f"derived_{kind}_vector", kind, "item", ("vector",)) for kind in ("turn", "fact", "node")),
        )
        for statement in _noted(table, kind, column, compared)
    ),
    *(
        f"""CREATE TRIGGER change_occurrence_turn_{event} AFTER {event} ON occurrence_turn
            WHEN EXISTS (SELECT 1 FROM occurrence WHERE id = {row}.occurrence)
            BEGIN {_note("fact", f"(SELECT fact FROM occurrence WHERE id = {row}.occurrence)")} END"""
        for event, row in (("insert", "new"), ("delete", "old"))
    ),
)

_SUMMARIES = (
    "ALTER TABLE derived_summary RENAME TO old_summary",
    """CREATE TABLE derived_summary (
        node INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE,
        text BLOB NOT NULL,
        maker TEXT NOT NULL
    ) STRICT""",
)

_WORDS = (
    # How many tokens a row has is counted from its words.
    *(
        statement
        for table in ("derived_turn_words", "derived_fact_words")
        for statement in (
            f"ALTER TABLE {table} RENAME TO old_words",
            f"""CREATE VIRTUAL TABLE {table} USING fts5 (words, columnsize = 0,
                tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M* Co'")""",
            f"INSERT INTO {table} (rowid, words) SELECT rowid, words FROM old_words ORDER BY rowid",
            "DROP TABLE old_words",
        )
    ),
    # Facts that are worded alike are compared as a whole: half of a digest finds them.
    "UPDATE derived_wording SET wording = substr(wording, 1, 8) WHERE fact != 0",
)

_LEAN = (
    *_TREES,
    *_FACTS,
    *_LOG,
)


def m0008_lean(tx: Tx) -> None:
    """Store vectors by kind, leave out what other rows say, and note changes once."""
    triggers = tx.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'change%'"
    ).fetchall()
    for (name,) in triggers:  # those of the fourth migration, which note a row again and again
        tx.execute(f"DROP TRIGGER {name}")
    for statement in (*_VECTORS, *_SUMMARIES, *_WORDS):
        tx.execute(statement)
    _halve_vectors(tx)
    _shorten_children(tx)
    tx.executemany(
        "INSERT INTO derived_summary VALUES (?, ?, ?)",
        (
            (node, pack_text(text), maker)
            for node, text, maker in tx.execute("SELECT node, text, maker FROM old_summary ORDER BY node")
        ),
    )
    for statement in ("DROP TABLE derived_vector", "DROP TABLE old_summary", *_LEAN):
        tx.execute(statement)


def _shorten_children(tx: Tx) -> None:
    """Pack the children of nodes in four bytes each, which were eight."""
    ids = [row[0] for row in tx.execute("SELECT id FROM node WHERE level > 0 ORDER BY id")]
    for node in ids:
        blob = tx.execute("SELECT children FROM node WHERE id = ?", (node,)).fetchone()[0]
        children = pack_ids(np.frombuffer(blob, dtype="<i8").tolist())
        tx.execute("UPDATE node SET children = ? WHERE id = ?", (children, node))


def _halve_vectors(tx: Tx) -> None:
    """Copy the vectors of the memory's embedder in half precision; any others are left to be made anew."""
    for kind in ("turn", "fact", "node"):
        rows = tx.execute(
            """SELECT item, substr(digest, 1, 8), vector FROM derived_vector
               WHERE kind = ? AND model IS (SELECT value FROM meta WHERE key = 'embedder') ORDER BY item""",
            (kind,),
        )
        tx.executemany(
            f"INSERT INTO derived_{kind}_vector VALUES (?, ?, ?)",
            ((item, digest, pack_vector(np.frombuffer(blob, dtype="<f4"))) for item, digest, blob in rows),
        )
