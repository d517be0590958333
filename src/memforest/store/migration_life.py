"""The twelfth migration: a memory's life, beside what was said: corrections, deletions, merges and repeated writes."""

from __future__ import annotations

from memforest.store.migration_indexes import FEED_KINDS
from memforest.store.tx import Tx

__all__ = ["m0012_life"]

_FACT_KIND = FEED_KINDS.index("fact")
_PLACED_BY = " OR ".join(
    f"old.{one} IS NOT new.{one}"
    for one in ("text", "speaker", "start_ms", "end_ms", "said_ms", "tie", "verdict")
)
"""What an index places a fact by."""

_LIFE = (
    # What people have decided of statements. It is kept by the statement's identity and by the places where that was
    # said, so that it holds for statements that are extracted anew; `made` is the identity of a corrected statement.
    """CREATE TABLE correction (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL CHECK (kind IN ('update', 'pin', 'forget')),
        fact_id TEXT NOT NULL,
        made TEXT,
        text TEXT,
        start_ms INTEGER,
        end_ms INTEGER,
        precision TEXT NOT NULL,
        made_ms INTEGER NOT NULL,
        undone_ms INTEGER
    ) STRICT""",
    "CREATE INDEX correction_fact ON correction (fact_id)",
    "CREATE INDEX correction_made ON correction (made) WHERE made IS NOT NULL",
    # `quote` is a digest of a sentence that the statement was made from.
    """CREATE TABLE correction_place (
        correction INTEGER NOT NULL REFERENCES correction (id) ON DELETE CASCADE,
        session_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        quote BLOB NOT NULL,
        PRIMARY KEY (correction, session_id, turn_id, quote)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX correction_place_turn ON correction_place (session_id, turn_id)",
    # 0: none, 1: pinned, 2: forgotten, 3: corrected. What it is follows from the corrections.
    "ALTER TABLE fact ADD COLUMN verdict INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE occurrence ADD COLUMN correction INTEGER REFERENCES correction (id)",
    "CREATE INDEX occurrence_correction ON occurrence (correction) WHERE correction IS NOT NULL",
    # What was deleted: how many items of a kind, which were stored at one time and deleted at another; no words, no ids.
    """CREATE TABLE tombstone (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('session', 'turn', 'fact')),
        count INTEGER NOT NULL,
        stored_ms INTEGER NOT NULL,
        deleted_ms INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX tombstone_when ON tombstone (deleted_ms)",
    # A session of which something was deleted differs from what was ingested, and may be ingested again.
    "ALTER TABLE session ADD COLUMN erased INTEGER NOT NULL DEFAULT 0",
    # Whose memory a turn came from when memories were merged.
    """CREATE TABLE origin (
        id INTEGER PRIMARY KEY,
        memory TEXT NOT NULL,
        user_id TEXT NOT NULL,
        merged_ms INTEGER NOT NULL,
        UNIQUE (memory, user_id)
    ) STRICT""",
    "ALTER TABLE turn ADD COLUMN origin INTEGER REFERENCES origin (id)",
    # Writes that were given a key, by its digest; `request` is a digest of what was to be written.
    """CREATE TABLE write_key (
        key BLOB PRIMARY KEY,
        request BLOB NOT NULL,
        session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        result TEXT NOT NULL,
        stored_ms INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX write_key_session ON write_key (session)",
    # What this memory held at some moment is found by when it was stored.
    "CREATE INDEX turn_stored ON turn (stored_ms)",
    "CREATE INDEX fact_stored ON fact (stored_ms)",
    "DROP TRIGGER change_fact_update",
    """CREATE TRIGGER change_fact_update AFTER UPDATE OF speaker, start_ms, end_ms, said_ms, text, verdict ON fact
        WHEN old.speaker IS NOT new.speaker OR old.start_ms IS NOT new.start_ms OR old.end_ms IS NOT new.end_ms
            OR old.said_ms IS NOT new.said_ms OR old.text IS NOT new.text OR old.verdict IS NOT new.verdict
        BEGIN INSERT INTO change (kind, item) VALUES ('fact', new.id);
        DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.id; END""",
    "INSERT OR IGNORE INTO meta SELECT 'memory_id', lower(hex(randomblob(16)))",
    # How the statement was worded that a correction is about: that tells which of several statements of its sentence is meant
    # when they are extracted anew.
    "ALTER TABLE correction ADD COLUMN said TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX fact_hidden ON fact (id) WHERE verdict > 1",
    # An index places a fact that is hidden as one that is gone, and one that is shown again as a new one.
    "DROP TRIGGER feed_fact_update",
    f"""CREATE TRIGGER feed_fact_update AFTER UPDATE ON fact WHEN {_PLACED_BY}
        BEGIN INSERT INTO feed (kind, item) VALUES ({_FACT_KIND}, new.id);
        DELETE FROM feed WHERE seq = (SELECT max(seq) FROM feed) - 1 AND kind = {_FACT_KIND} AND item = new.id; END""",
    # What is deleted is found by when it was said and by who said it.
    "CREATE INDEX turn_said ON turn (said_ms)",
    "CREATE INDEX turn_speaker ON turn (speaker)",
    "CREATE INDEX turn_origin ON turn (origin) WHERE origin IS NOT NULL",
    # Vectors by the next embedder, beside those in use till all are there; `next_embedder` in `meta` names it. One goes
    # with its text.
    """CREATE TABLE derived_next_vector (
        kind TEXT NOT NULL,
        item INTEGER NOT NULL,
        digest BLOB NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (kind, item)
    ) STRICT""",
    *(
        f"""CREATE TRIGGER next_{kind}_{event} AFTER {event.upper()} {columns} ON {table}
            BEGIN DELETE FROM derived_next_vector WHERE kind = '{kind}' AND item = old.{key}; END"""
        for kind, table, key, read in (
            ("turn", "turn", "id", "speaker, text"),
            ("fact", "fact", "id", "text"),
            ("node", "derived_summary", "node", "text, vector"),
        )
        for event, columns in (("delete", ""), ("update", f"OF {read}"))
    ),
    # Under which name the owner of the merged memory is known here, and whom else of it by another name than there
    # (JSON: name there, name here), so that merging it again asks nothing.
    "ALTER TABLE origin ADD COLUMN label TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE origin ADD COLUMN names TEXT NOT NULL DEFAULT '{}'",
    # When an occurrence was stored, if that was not with its fact.
    "ALTER TABLE occurrence ADD COLUMN stored_ms INTEGER",
    "CREATE INDEX correction_undone ON correction (undone_ms) WHERE undone_ms IS NOT NULL",
    "CREATE INDEX occurrence_stored ON occurrence (stored_ms) WHERE stored_ms IS NOT NULL",
    # When a correction was stored, if not when it was made: it was merged.
    "ALTER TABLE correction ADD COLUMN stored_ms INTEGER",
    "CREATE INDEX correction_when ON correction (coalesce(stored_ms, made_ms))",
)


def m0012_life(tx: Tx) -> None:
    """Make the tables of corrections, deletions, origins and write keys; give the memory an id of its own."""
    for statement in _LIFE:
        tx.execute(statement)
