"""The schema, as an append-only list of migrations.

A migration is never edited after a release. Each runs together with its record in one transaction. Tables named
``derived_…`` may be emptied at any time, and are made again from the others. Times are UTC milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from memforest.errors import SchemaTooNewError, StoreWriteError
from memforest.interval import to_ms
from memforest.store.db import Database
from memforest.store.migration_compact import m0007_compact
from memforest.store.migration_dates import m0011_dates
from memforest.store.migration_dirty import m0013_dirty
from memforest.store.migration_graph import m0014_graph
from memforest.store.migration_indexes import m0009_indexes
from memforest.store.migration_integrity import m0006_integrity
from memforest.store.migration_jobs import m0010_jobs
from memforest.store.migration_lean import m0008_lean
from memforest.store.migration_life import m0012_life
from memforest.store.migration_paging import m0015_paging, m0016_deleted
from memforest.store.tx import Tx

__all__ = ["MIGRATIONS", "applied", "apply"]

Migration = Callable[[Tx], None]

_WORDS = "tokenize = \"unicode61 remove_diacritics 0 categories 'L* N* M* Co'\""

_INITIAL = (
    # -- persistent ---------------------------------------------------------------------------
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE session (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL CHECK (status IN ('received', 'ingested')),
        infer INTEGER NOT NULL,
        stored_ms INTEGER NOT NULL,
        metadata TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE turn (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        turn_id TEXT NOT NULL,
        speaker TEXT NOT NULL,
        role TEXT,
        text TEXT NOT NULL,
        said_ms INTEGER NOT NULL,
        time_source TEXT NOT NULL,
        stored_ms INTEGER NOT NULL,
        metadata TEXT NOT NULL,
        UNIQUE (session, ordinal),
        UNIQUE (session, turn_id)
    ) STRICT""",
    """CREATE TABLE cell (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('pending', 'extracted', 'verbatim', 'failed')),
        reason TEXT,
        maker TEXT,
        skipped TEXT NOT NULL DEFAULT '[]',
        UNIQUE (session, ordinal)
    ) STRICT""",
    """CREATE TABLE fact (
        id INTEGER PRIMARY KEY,
        fact_id TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL,
        speaker TEXT NOT NULL,
        start_ms INTEGER,
        end_ms INTEGER,
        precision TEXT NOT NULL,
        negated INTEGER NOT NULL,
        said_ms INTEGER NOT NULL,
        tie TEXT NOT NULL,
        topics TEXT NOT NULL,
        stored_ms INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE occurrence (
        id INTEGER PRIMARY KEY,
        fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
        cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
        speaker TEXT NOT NULL,
        text TEXT NOT NULL,
        quote TEXT NOT NULL,
        said_ms INTEGER NOT NULL,
        tie TEXT NOT NULL,
        topics TEXT NOT NULL,
        cosine REAL
    ) STRICT""",
    "CREATE INDEX occurrence_fact ON occurrence (fact)",
    "CREATE INDEX occurrence_cell ON occurrence (cell)",
    """CREATE TABLE occurrence_turn (
        occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
        turn INTEGER NOT NULL REFERENCES turn (id) ON DELETE CASCADE,
        PRIMARY KEY (occurrence, turn)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX occurrence_turn_turn ON occurrence_turn (turn)",
    """CREATE TABLE entity (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        label TEXT NOT NULL,
        kind TEXT NOT NULL,
        active INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE alias (
        key TEXT PRIMARY KEY,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID""",
    # Whom a fact names, and what it asserts, is known per occurrence: "Mel" is Melanie where she speaks.
    """CREATE TABLE mention (
        fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        role TEXT NOT NULL,
        occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
        PRIMARY KEY (fact, entity, role, occurrence)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX mention_entity ON mention (entity)",
    "CREATE INDEX mention_occurrence ON mention (occurrence)",
    """CREATE TABLE state (
        id INTEGER PRIMARY KEY,
        fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
        occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        attribute TEXT NOT NULL,
        value TEXT NOT NULL,
        previous TEXT,
        change TEXT NOT NULL CHECK (change IN ('is', 'start', 'end'))
    ) STRICT""",
    "CREATE INDEX state_fact ON state (fact)",
    "CREATE INDEX state_occurrence ON state (occurrence)",
    "CREATE INDEX state_entity ON state (entity, attribute)",
    """CREATE TABLE tree (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        scope INTEGER NOT NULL,
        k INTEGER NOT NULL,
        root INTEGER,
        height INTEGER NOT NULL,
        count INTEGER NOT NULL,
        UNIQUE (kind, scope)
    ) STRICT""",
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
        item_kind TEXT,
        item INTEGER,
        version INTEGER NOT NULL,
        dirty INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX node_tree ON node (tree)",
    "CREATE INDEX node_dirty ON node (level) WHERE dirty AND level > 0",
    """CREATE TABLE placement (
        item_kind TEXT NOT NULL,
        item INTEGER NOT NULL,
        tree INTEGER NOT NULL REFERENCES tree (id) ON DELETE CASCADE,
        leaf INTEGER NOT NULL,
        PRIMARY KEY (item_kind, item, tree)
    ) STRICT, WITHOUT ROWID""",
    # -- derived ------------------------------------------------------------------------------
    """CREATE TABLE derived_summary (
        node INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        maker TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE derived_vector (
        kind TEXT NOT NULL,
        item INTEGER NOT NULL,
        digest BLOB NOT NULL,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (kind, item)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX derived_vector_digest ON derived_vector (digest)",
    f"CREATE VIRTUAL TABLE derived_turn_words USING fts5 (words, {_WORDS})",
    f"CREATE VIRTUAL TABLE derived_fact_words USING fts5 (words, {_WORDS})",
    "CREATE VIRTUAL TABLE derived_turn_terms USING fts5vocab (derived_turn_words, instance)",
    "CREATE VIRTUAL TABLE derived_fact_terms USING fts5vocab (derived_fact_words, instance)",
    "INSERT INTO meta VALUES ('generation', '0')",
)


_SPENT = """CREATE TABLE spent (
    operation TEXT NOT NULL,
    step TEXT NOT NULL,
    calls INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    prefix_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (operation, step)
) STRICT, WITHOUT ROWID"""


def m0001_initial(tx: Tx) -> None:
    """Make every table of memforest 0.1."""
    for statement in _INITIAL:  # never executescript: it commits the open transaction
        tx.execute(statement)


_SCENES = (
    """CREATE TABLE scene (
        id INTEGER PRIMARY KEY,
        model TEXT NOT NULL,
        size INTEGER NOT NULL,
        centroid BLOB NOT NULL
    ) STRICT""",
    # No cascade from facts: who leaves must be taken out of the centroid too, and forgetting that must fail.
    """CREATE TABLE scene_member (
        fact INTEGER NOT NULL REFERENCES fact (id),
        scene INTEGER NOT NULL REFERENCES scene (id),
        main INTEGER NOT NULL,
        PRIMARY KEY (fact, scene)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX scene_member_scene ON scene_member (scene)",
)


def m0002_scenes(tx: Tx) -> None:
    """Make the tables of scenes; what is stored already is routed by the next write."""
    for statement in _SCENES:
        tx.execute(statement)


_SCALE = (
    # A row of an index or of a table WITHOUT ROWID spills to a page of its own when it takes more than a quarter of
    # one (https://www.sqlite.org/fileformat.html section 1.6), so vectors took three times their size.
    "ALTER TABLE derived_vector RENAME TO old_vector",
    "DROP INDEX derived_vector_digest",
    """CREATE TABLE derived_vector (
        kind TEXT NOT NULL,
        item INTEGER NOT NULL,
        digest BLOB NOT NULL,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (kind, item)
    ) STRICT""",
    "INSERT INTO derived_vector SELECT * FROM old_vector",
    "DROP TABLE old_vector",
    "CREATE INDEX derived_vector_digest ON derived_vector (digest)",
    # Facts that may be near-duplicates are found by the digest of their wording, not by all vectors. The row of
    # fact 0 says by which rules the others were made.
    "CREATE TABLE derived_wording (fact INTEGER PRIMARY KEY, wording BLOB NOT NULL) STRICT",
    "CREATE INDEX derived_wording_wording ON derived_wording (wording)",
    # Which word rows were written, so that postings in memory are brought up to date and not read anew.
    """CREATE TABLE derived_word_change (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        item INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX session_waiting ON session (status) WHERE status = 'received'",
    "CREATE INDEX cell_open ON cell (session) WHERE status IN ('pending', 'failed')",
)


def m0003_scale(tx: Tx) -> None:
    """Make what writes and reads of a memory of 100,000 facts need."""
    for statement in _SCALE:
        tx.execute(statement)


_OF_A_FACT = ("occurrence", "mention", "state")

_CHANGES = (
    # Written by triggers alone, see `memforest.store.changes`; numbers are never given again.
    "CREATE TABLE change (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, item INTEGER NOT NULL) STRICT",
    *(
        f"""CREATE TRIGGER change_{table}_{event.lower()} AFTER {event} ON {table}
            BEGIN INSERT INTO change (kind, item) VALUES ('{kind}', {row}.{column}); END"""
        for table, kind, column in (
            ("turn", "turn", "id"),
            ("fact", "fact", "id"),
            ("node", "node", "id"),
            ("tree", "tree", "id"),
            ("entity", "entity", "id"),
            ("alias", "entity", "entity"),
            *((table, "fact", "fact") for table in _OF_A_FACT),
        )
        for event, row in (("INSERT", "new"), ("DELETE", "old"))
    ),
    *(
        f"""CREATE TRIGGER change_{table}_update AFTER UPDATE OF {columns} ON {table}
            BEGIN INSERT INTO change (kind, item) VALUES ('{table}', new.id); END"""
        for table, columns in (
            ("fact", "speaker, start_ms, end_ms, said_ms, text"),
            ("node", "children"),
            ("tree", "root"),
            ("entity", "key, label, kind"),
        )
    ),
    *(
        f"""CREATE TRIGGER change_occurrence_turn_{event.lower()} AFTER {event} ON occurrence_turn
            BEGIN INSERT INTO change (kind, item)
            SELECT 'fact', fact FROM occurrence WHERE id = {row}.occurrence; END"""
        for event, row in (("INSERT", "new"), ("DELETE", "old"))
    ),
    *(
        f"""CREATE TRIGGER change_derived_vector_{event.lower()} AFTER {event} ON derived_vector
            BEGIN INSERT INTO change (kind, item) VALUES ({row}.kind, {row}.item); END"""
        for event, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old"))
    ),
)


def m0004_changes(tx: Tx) -> None:
    """Make the change log, and the triggers that write it."""
    for statement in _CHANGES:
        tx.execute(statement)


def m0005_spent(tx: Tx) -> None:
    """Make the table of what was spent on models, summed by operation and step."""
    tx.execute(_SPENT)


MIGRATIONS: tuple[Migration, ...] = (
    m0001_initial,
    m0002_scenes,
    m0003_scale,
    m0004_changes,
    m0005_spent,
    m0006_integrity,
    m0007_compact,
    m0008_lean,
    m0009_indexes,
    m0010_jobs,
    m0011_dates,
    m0012_life,
    m0013_dirty,
    m0014_graph,
    m0015_paging,
    m0016_deleted,
)


def applied(tx: Tx) -> list[str]:
    """Return the names of the migrations that the file has had, in order; reads only."""
    known = tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'migration'").fetchone()
    if known is None:
        return []
    return [row[0] for row in tx.execute("SELECT name FROM migration ORDER BY rowid")]


def apply(db: Database, now: datetime, migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Bring the file's schema up to date and return the names of what was run.

    All pending migrations and their records run in one transaction: they land together or not at all.

    Raises:
        SchemaTooNewError: if the file has had a migration that this version does not know.
        StoreWriteError: if there is something to run and the file cannot be written.
    """
    names = [migration.__name__ for migration in migrations]
    with db.read() as tx:
        had = applied(tx)
    if had == names:
        db.expect(len(names))
        return []
    if db.file.readonly and set(had) < set(names):
        raise StoreWriteError(
            f"{db.path.name!r} is of an older memforest, and the file or its directory is read-only; "
            "open it once where it can be written, which upgrades it"
        )
    with db.write() as tx:
        tx.execute(
            "CREATE TABLE IF NOT EXISTS migration (name TEXT NOT NULL UNIQUE, applied_ms INTEGER NOT NULL) STRICT"
        )
        had = applied(tx)
        if unknown := [name for name in had if name not in names]:
            raise SchemaTooNewError(
                f"{db.path.name!r} was written by a newer memforest (it knows {unknown[0]!r}); upgrade memforest"
            )
        pending = [migration for migration in migrations if migration.__name__ not in had]
        for migration in pending:
            migration(tx)
            tx.execute("INSERT INTO migration VALUES (?, ?)", (migration.__name__, to_ms(now)))
    db.expect(len(names))
    return [migration.__name__ for migration in pending]
