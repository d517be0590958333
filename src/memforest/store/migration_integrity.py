"""Migration 6: row ids that are never given again, turns with digests, and aliases with what supports them."""

from __future__ import annotations

from memforest.store.digests import fill_digests
from memforest.store.tx import Tx

__all__ = ["m0006_integrity"]

_IDS = {
    "session": ("SELECT id FROM session", "SELECT scope FROM tree WHERE kind = 'session'"),
    "turn": (
        "SELECT id FROM turn",
        "SELECT item FROM derived_vector WHERE kind = 'turn'",
        "SELECT rowid FROM derived_turn_words",
        "SELECT item FROM change WHERE kind = 'turn'",
    ),
    "cell": (
        "SELECT id FROM cell",
        "SELECT item FROM placement WHERE item_kind = 'cell'",
        "SELECT item FROM node WHERE item_kind = 'cell'",
    ),
    "fact": (
        "SELECT id FROM fact",
        "SELECT item FROM placement WHERE item_kind = 'fact'",
        "SELECT item FROM node WHERE item_kind = 'fact'",
        "SELECT item FROM derived_vector WHERE kind = 'fact'",
        "SELECT rowid FROM derived_fact_words",
        "SELECT fact FROM derived_wording",
        "SELECT item FROM change WHERE kind = 'fact'",
    ),
    "entity": (
        "SELECT id FROM entity",
        "SELECT scope FROM tree WHERE kind = 'entity'",
        "SELECT item FROM change WHERE kind = 'entity'",
    ),
    "tree": ("SELECT id FROM tree", "SELECT item FROM change WHERE kind = 'tree'"),
}
"""Where the row ids of each table stand; the next one must be above all of them. Nodes and scenes count already."""

_ALIASES = (
    # Which occurrences call an entity by an alias: one that nothing calls so any more is dropped.
    """CREATE TABLE alias_use (
        key TEXT NOT NULL,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
        PRIMARY KEY (key, entity, occurrence)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX alias_use_occurrence ON alias_use (occurrence)",
    "CREATE INDEX alias_use_entity ON alias_use (entity)",
    # What was called so before was not noted. Those whose words hold the alias come first; where none does, any
    # mention may have. Too many uses keep an alias longer, too few would lose it.
    """INSERT INTO alias_use SELECT DISTINCT a.key, a.entity, o.id FROM alias a
       JOIN mention m ON m.entity = a.entity AND m.role != 'speaker' JOIN occurrence o ON o.id = m.occurrence
       WHERE instr(lower(o.text || ' ' || o.quote), a.key)""",
    """INSERT INTO alias_use SELECT DISTINCT a.key, a.entity, m.occurrence FROM alias a
       JOIN mention m ON m.entity = a.entity AND m.role != 'speaker'
       WHERE NOT EXISTS (SELECT 1 FROM alias_use u WHERE u.key = a.key)""",
    "DELETE FROM alias WHERE NOT EXISTS (SELECT 1 FROM alias_use u WHERE u.key = alias.key)",
)


def m0006_integrity(tx: Tx) -> None:
    """Begin the counters of row ids above every id in the file, and give turns their digests as they are now."""
    for table, sources in _IDS.items():
        highest = tx.execute(f"SELECT coalesce(max(id), 0) FROM ({' UNION ALL '.join(sources)})").fetchone()[
            0
        ]
        tx.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"next:{table}", str(max(int(highest), 0) + 1))
        )
    tx.execute("ALTER TABLE turn ADD COLUMN digest BLOB NOT NULL DEFAULT x''")
    fill_digests(tx)
    for statement in _ALIASES:
        tx.execute(statement)
