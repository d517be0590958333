"""The ninth migration: several indexes on one memory, each with its own trees and its place in the feed.

What stood in common tables and belongs to one index (scenes, which entities have a tree, fan-outs) becomes that
index's own. A file of before has one index, whose name stands here as a fact of history.
"""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0009_indexes"]

_ONLY = "memforest"
"""The index that every file of before had."""

FEED_KINDS = ("turn", "cell", "fact", "entity")
"""What the feed notes, by its code."""


def _note(kind: str, item: str) -> str:
    """Return the statements that note an item; the note before goes when it is of the same item."""
    code = FEED_KINDS.index(kind)
    return f"""INSERT INTO feed (kind, item) VALUES ({code}, {item});
        DELETE FROM feed WHERE seq = (SELECT max(seq) FROM feed) - 1 AND kind = {code} AND item = {item};"""


def _noted(table: str, events: str, kind: str, column: str, when: str = "") -> list[str]:
    """Return the triggers that note rows of a table in the feed."""
    made = []
    for event in events.split():
        row = "old" if event == "delete" else "new"
        made.append(
            f"""CREATE TRIGGER feed_{table}_{event} AFTER {event.upper()} ON {table} {when if event == "update" else ""}
            BEGIN {_note(kind, f"{row}.{column}")} END"""
        )
    return made


_COMPARED = " OR ".join(
    f"old.{one} IS NOT new.{one}" for one in ("text", "speaker", "start_ms", "end_ms", "said_ms", "tie")
)

_FEED = (
    "CREATE TABLE feed (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL, item INTEGER NOT NULL) STRICT",
    """CREATE TABLE index_ (
        name TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        settings TEXT NOT NULL,
        cursor INTEGER NOT NULL,
        began INTEGER NOT NULL,
        reason TEXT
    ) STRICT, WITHOUT ROWID""",
    *(
        f"INSERT INTO feed (kind, item) SELECT {FEED_KINDS.index(kind)}, id FROM {kind} ORDER BY id"
        for kind in ("turn", "cell", "fact")
    ),
    *_noted("turn", "insert delete", "turn", "id"),
    *_noted("cell", "insert update delete", "cell", "id", "WHEN old.status IS NOT new.status"),
    *_noted("fact", "insert update delete", "fact", "id", f"WHEN {_COMPARED}"),
    *_noted("occurrence", "insert delete", "fact", "fact"),
    *_noted("entity", "update delete", "entity", "id", "WHEN old.kind IS NOT new.kind"),
    # What is placed by its vector is placed when that comes.
    *_noted("derived_fact_vector", "insert", "fact", "item"),
)

_TREES = (
    *(
        f"DROP TRIGGER change_{table}_{event}"
        for table in ("node", "tree")
        for event in ("insert", "update", "delete")
    ),
    "DROP INDEX node_tree",
    "DROP INDEX node_dirty",
    "ALTER TABLE derived_summary RENAME TO old_summary",
    "ALTER TABLE node RENAME TO old_node",
    "ALTER TABLE tree RENAME TO old_tree",
    # A tree is its index's, which alone knows what kinds and scopes mean. Only some have a fan-out.
    """CREATE TABLE tree (
        id INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        kind TEXT NOT NULL,
        scope INTEGER NOT NULL,
        k INTEGER,
        root INTEGER,
        height INTEGER NOT NULL,
        count INTEGER NOT NULL,
        UNIQUE (owner, kind, scope)
    ) STRICT""",
    # Spans count turns or leaves, a window is a calendar window's key, the state is what placing needs to know.
    """CREATE TABLE node (
        id INTEGER PRIMARY KEY,
        tree INTEGER NOT NULL REFERENCES tree (id) ON DELETE CASCADE,
        level INTEGER NOT NULL,
        key_ms INTEGER NOT NULL,
        key_tie TEXT NOT NULL,
        start_ms INTEGER NOT NULL,
        end_ms INTEGER NOT NULL,
        count INTEGER NOT NULL,
        children BLOB NOT NULL,
        version INTEGER NOT NULL,
        dirty INTEGER NOT NULL,
        span_lo INTEGER,
        span_hi INTEGER,
        window TEXT,
        state BLOB
    ) STRICT""",
    # What a summary was made of is known by a digest. Its vector is its own, the mean of the children's, or none.
    """CREATE TABLE derived_summary (
        node INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE,
        text BLOB NOT NULL,
        maker TEXT NOT NULL,
        vector TEXT NOT NULL CHECK (vector IN ('own', 'mean', 'none')),
        inputs BLOB
    ) STRICT""",
    f"INSERT INTO tree SELECT id, '{_ONLY}', kind, scope, k, root, height, count FROM old_tree ORDER BY id",
    """INSERT INTO node SELECT id, tree, level, key_ms, key_tie, start_ms, end_ms, count, children, version, dirty,
        NULL, NULL, NULL, NULL FROM old_node ORDER BY id""",
    """INSERT INTO derived_summary SELECT s.node, s.text, replace(s.maker, '+kept', ''),
        CASE WHEN t.kind = 'scene' THEN 'none' WHEN s.maker LIKE '%+kept' THEN 'mean' ELSE 'own' END, NULL
        FROM old_summary s JOIN old_node n ON n.id = s.node JOIN old_tree t ON t.id = n.tree ORDER BY s.node""",
    "DROP TABLE old_summary",
    "DROP TABLE old_node",
    "DROP TABLE old_tree",
    "CREATE INDEX node_tree ON node (tree)",
    "CREATE INDEX node_dirty ON node (level) WHERE dirty",
    # A leaf may stand for a run of turns, from `turn` to `last`.
    "ALTER TABLE leaf ADD COLUMN turn INTEGER",
    "ALTER TABLE leaf ADD COLUMN last INTEGER",
    "CREATE INDEX leaf_turn ON leaf (turn) WHERE turn IS NOT NULL",
    *(
        f"""CREATE TRIGGER change_{table}_{event} AFTER {event.upper()} {columns} ON {table} {when}
            BEGIN INSERT INTO change (kind, item) VALUES ('{table}', {row}.id);
            DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = '{table}' AND item = {row}.id;
            END"""
        for table, compared in (
            ("node", ("children", "start_ms", "end_ms", "span_lo", "span_hi", "window", "state")),
            ("tree", ("root",)),
        )
        for event, row, columns, when in (
            ("insert", "new", "", ""),
            ("delete", "old", "", ""),
            (
                "update",
                "new",
                f"OF {', '.join(compared)}",
                "WHEN " + " OR ".join(f"old.{one} IS NOT new.{one}" for one in compared),
            ),
        )
    ),
)

_OWN = (
    """CREATE TABLE ix_memforest_active (entity INTEGER PRIMARY KEY) STRICT""",
    "INSERT INTO ix_memforest_active SELECT id FROM entity WHERE active ORDER BY id",
    """CREATE TABLE ix_memforest_scene (
        id INTEGER PRIMARY KEY,
        model TEXT NOT NULL,
        size INTEGER NOT NULL,
        centroid BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE ix_memforest_scene_member (
        fact INTEGER NOT NULL REFERENCES fact (id) DEFERRABLE INITIALLY DEFERRED,
        scene INTEGER NOT NULL REFERENCES ix_memforest_scene (id),
        main INTEGER NOT NULL,
        PRIMARY KEY (fact, scene)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX ix_memforest_scene_member_scene ON ix_memforest_scene_member (scene)",
    "INSERT INTO ix_memforest_scene SELECT * FROM scene ORDER BY id",
    "INSERT INTO ix_memforest_scene_member SELECT * FROM scene_member ORDER BY fact, scene",
    "UPDATE meta SET key = 'ix_memforest_routed' WHERE key = 'scenes'",
    "UPDATE meta SET key = 'next:ix_memforest_scene' WHERE key = 'next:scene'",
    # A memory whose facts were never all routed is placed from the start of the feed.
    f"""INSERT INTO index_ SELECT '{_ONLY}', 1, (SELECT json_group_object(key, CAST(value AS INTEGER)) FROM meta
            WHERE key IN ('session_k', 'entity_k', 'scene_k')),
        CASE WHEN (SELECT count(*) FROM meta WHERE key IN ('ix_memforest_routed', 'embedder')) = 1 THEN 0
            ELSE coalesce((SELECT max(seq) FROM feed), 0) END, 0, NULL""",
)

_GONE = (
    "DROP TABLE scene_member",
    "DROP TABLE scene",
    "ALTER TABLE entity DROP COLUMN active",
    "DELETE FROM meta WHERE key IN ('session_k', 'entity_k', 'scene_k', 'scenes', 'next:scene')",
)


def m0009_indexes(tx: Tx) -> None:
    """Give trees an owner, begin the feed, and hand what belongs to one index over to it."""
    begun = tx.execute("SELECT 1 FROM meta WHERE key = 'user_id'").fetchone() is not None
    for statement in (*_TREES, *_FEED, *(_OWN if begun else ()), *_GONE):
        tx.execute(statement)
