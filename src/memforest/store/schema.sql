-- The schema of one memory. A file has it whole, or is refused: `PRAGMA user_version` says which it has
-- (memforest.store.database). Tables named `derived_...` may be emptied at any time, and are made again from the
-- others. Times are UTC milliseconds. Rows of `change` and `tombstone` are written by the triggers at the end
-- alone, so that no writer can forget them.

-- What was said, and where from.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('received', 'ingested')),
    infer INTEGER NOT NULL,
    stored_ms INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    erased INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX session_waiting ON session (status) WHERE status = 'received';

CREATE TABLE turn (
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
    digest BLOB NOT NULL DEFAULT x'',
    origin INTEGER REFERENCES origin (id),
    UNIQUE (session, ordinal),
    UNIQUE (session, turn_id)
) STRICT;
CREATE INDEX turn_stored ON turn (stored_ms);
CREATE INDEX turn_said ON turn (said_ms);
CREATE INDEX turn_speaker ON turn (speaker);
CREATE INDEX turn_origin ON turn (origin) WHERE origin IS NOT NULL;
CREATE INDEX turn_session ON turn (session, said_ms);

CREATE TABLE origin (
    id INTEGER PRIMARY KEY,
    memory TEXT NOT NULL,
    user_id TEXT NOT NULL,
    merged_ms INTEGER NOT NULL,
    label TEXT NOT NULL DEFAULT '',
    names TEXT NOT NULL DEFAULT '{}',
    UNIQUE (memory, user_id)
) STRICT;

CREATE TABLE write_key (
    key BLOB PRIMARY KEY,
    request BLOB NOT NULL,
    session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    result TEXT NOT NULL,
    stored_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX write_key_session ON write_key (session);

-- What was extracted from it: chunks of turns, facts with their occurrences, and whom and what they name.

CREATE TABLE chunk (
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
) STRICT;
CREATE INDEX chunk_open ON chunk (session) WHERE status IN ('pending', 'failed');

CREATE TABLE fact (
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
    stored_ms INTEGER NOT NULL,
    dates TEXT NOT NULL DEFAULT '[]',
    verdict INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX fact_stored ON fact (stored_ms);
CREATE INDEX fact_hidden ON fact (id) WHERE verdict > 1;
CREATE INDEX fact_time ON fact (coalesce(start_ms, said_ms));

CREATE TABLE occurrence (
    id INTEGER PRIMARY KEY,
    fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
    chunk INTEGER NOT NULL REFERENCES chunk (id) ON DELETE CASCADE,
    speaker TEXT NOT NULL,
    said_ms INTEGER NOT NULL,
    topics TEXT NOT NULL,
    cosine REAL,
    text TEXT,
    quote TEXT,
    tie TEXT,
    dates TEXT,
    correction INTEGER REFERENCES correction (id),
    stored_ms INTEGER
) STRICT;
CREATE INDEX occurrence_fact ON occurrence (fact);
CREATE INDEX occurrence_chunk ON occurrence (chunk);
CREATE INDEX occurrence_correction ON occurrence (correction) WHERE correction IS NOT NULL;
CREATE INDEX occurrence_stored ON occurrence (stored_ms) WHERE stored_ms IS NOT NULL;

CREATE TABLE occurrence_turn (
    occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
    turn INTEGER NOT NULL REFERENCES turn (id) ON DELETE CASCADE,
    PRIMARY KEY (occurrence, turn)
) STRICT, WITHOUT ROWID;
CREATE INDEX occurrence_turn_turn ON occurrence_turn (turn);

CREATE TABLE entity (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    kind TEXT NOT NULL
) STRICT;

CREATE TABLE alias (
    key TEXT PRIMARY KEY,
    entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE alias_use (
    key TEXT NOT NULL,
    entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
    PRIMARY KEY (key, entity, occurrence)
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_use_occurrence ON alias_use (occurrence);
CREATE INDEX alias_use_entity ON alias_use (entity);

CREATE TABLE mention (
    fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
    entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    occurrence INTEGER NOT NULL,
    roles INTEGER NOT NULL,
    PRIMARY KEY (fact, entity, occurrence)
) STRICT, WITHOUT ROWID;
CREATE INDEX mention_entity ON mention (entity);

CREATE TABLE state (
    id INTEGER PRIMARY KEY,
    fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
    occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
    entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    attribute TEXT NOT NULL,
    value TEXT NOT NULL,
    previous TEXT,
    change TEXT NOT NULL CHECK (change IN ('is', 'start', 'end')),
    at_ms INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX state_fact ON state (fact);
CREATE INDEX state_occurrence ON state (occurrence);
CREATE INDEX state_entity ON state (entity, attribute, at_ms, value, previous);

CREATE TABLE relation (
    id INTEGER PRIMARY KEY,
    fact INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
    occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
    source INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    UNIQUE (occurrence, source, label, target)
) STRICT;
CREATE INDEX relation_fact ON relation (fact);
CREATE INDEX relation_source ON relation (source);
CREATE INDEX relation_target ON relation (target);

CREATE TABLE name_use (
    occurrence INTEGER NOT NULL REFERENCES occurrence (id) ON DELETE CASCADE,
    entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    PRIMARY KEY (occurrence, entity, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_use_entity ON name_use (entity);

-- What people decided, and what is gone.

CREATE TABLE correction (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('update', 'pin', 'forget', 'remember')),
    fact_id TEXT NOT NULL,
    made TEXT,
    text TEXT,
    start_ms INTEGER,
    end_ms INTEGER,
    precision TEXT NOT NULL,
    made_ms INTEGER NOT NULL,
    undone_ms INTEGER,
    said TEXT NOT NULL DEFAULT '',
    stored_ms INTEGER,
    state TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX correction_fact ON correction (fact_id);
CREATE INDEX correction_made ON correction (made) WHERE made IS NOT NULL;
CREATE INDEX correction_undone ON correction (undone_ms) WHERE undone_ms IS NOT NULL;
CREATE INDEX correction_when ON correction (coalesce(stored_ms, made_ms));

CREATE TABLE correction_place (
    correction INTEGER NOT NULL REFERENCES correction (id) ON DELETE CASCADE,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    quote BLOB NOT NULL,
    PRIMARY KEY (correction, session_id, turn_id, quote)
) STRICT, WITHOUT ROWID;
CREATE INDEX correction_place_turn ON correction_place (session_id, turn_id);

CREATE TABLE choice (
    id INTEGER PRIMARY KEY,
    verdict TEXT NOT NULL CHECK (verdict IN ('same', 'apart')),
    entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    other INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    made_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX choice_entity ON choice (entity);
CREATE INDEX choice_other ON choice (other);

CREATE TABLE tombstone (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('session', 'turn', 'fact')),
    count INTEGER NOT NULL,
    stored_ms INTEGER NOT NULL,
    deleted_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX tombstone_when ON tombstone (deleted_ms);

CREATE TABLE deleted (digest BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Indexes. Their trees are built from the rows above.

CREATE TABLE index_ (name TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- What models made of what was said, by the digest of what they were asked (memforest.store.artifacts).

CREATE TABLE artifact (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- so that what was written later has the higher number
    digest BLOB NOT NULL UNIQUE,
    step TEXT NOT NULL CHECK (step IN ('summary', 'place', 'extract', 'judge')),
    maker TEXT NOT NULL,
    text BLOB NOT NULL,
    vector_of TEXT NOT NULL CHECK (vector_of IN ('own', 'mean', 'none')),
    vector BLOB
) STRICT;
CREATE INDEX artifact_lacking ON artifact (id) WHERE vector_of = 'own' AND vector IS NULL;

-- What can be made again: words, vectors.

CREATE VIRTUAL TABLE derived_turn_terms USING fts5vocab (derived_turn_words, instance);

CREATE VIRTUAL TABLE derived_fact_terms USING fts5vocab (derived_fact_words, instance);

CREATE TABLE derived_wording (fact INTEGER PRIMARY KEY, wording BLOB NOT NULL) STRICT;
CREATE INDEX derived_wording_wording ON derived_wording (wording);

CREATE TABLE derived_word_change (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    item INTEGER NOT NULL
) STRICT;

CREATE TABLE derived_turn_vector (
    item INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX derived_turn_vector_digest ON derived_turn_vector (digest);

CREATE TABLE derived_fact_vector (
    item INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX derived_fact_vector_digest ON derived_fact_vector (digest);

CREATE VIRTUAL TABLE derived_turn_words USING fts5 (words, columnsize = 0, tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M* Co'");

CREATE VIRTUAL TABLE derived_fact_words USING fts5 (words, columnsize = 0, tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M* Co'");

CREATE TABLE derived_next_vector (
    kind TEXT NOT NULL,
    item INTEGER NOT NULL,
    digest BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (kind, item)
) STRICT;

-- What changed since when, and what models cost.

CREATE TABLE change (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, item INTEGER NOT NULL) STRICT;

CREATE TABLE spent (
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
) STRICT, WITHOUT ROWID;

-- Triggers.

CREATE TRIGGER mention_of_occurrence AFTER DELETE ON occurrence
BEGIN
    DELETE FROM mention WHERE fact = old.fact AND occurrence = old.id;
END;

CREATE TRIGGER change_turn_insert AFTER INSERT ON turn
BEGIN
    INSERT INTO change (kind, item) VALUES ('turn', new.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'turn' AND item = new.id;
END;

CREATE TRIGGER change_turn_delete AFTER DELETE ON turn
BEGIN
    INSERT INTO change (kind, item) VALUES ('turn', old.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'turn' AND item = old.id;
END;

-- Until what was made of deleted text is swept (1) and the log is emptied behind it (2), a restart must know that it is due.

CREATE TRIGGER sweep_turn_delete AFTER DELETE ON turn
BEGIN
    INSERT OR REPLACE INTO meta (key, value) VALUES ('sweep', '1');
END;

CREATE TRIGGER change_chunk_insert AFTER INSERT ON chunk
BEGIN
    INSERT INTO change (kind, item) SELECT 'turn', id FROM turn WHERE session = new.session AND ordinal = new.first;
END;

CREATE TRIGGER change_chunk_delete AFTER DELETE ON chunk
BEGIN
    INSERT INTO change (kind, item) SELECT 'turn', id FROM turn WHERE session = old.session AND ordinal = old.first;
END;

CREATE TRIGGER change_fact_insert AFTER INSERT ON fact
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.id;
END;

CREATE TRIGGER change_fact_delete AFTER DELETE ON fact
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', old.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = old.id;
END;

CREATE TRIGGER change_entity_insert AFTER INSERT ON entity
BEGIN
    INSERT INTO change (kind, item) VALUES ('entity', new.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'entity' AND item = new.id;
END;

CREATE TRIGGER change_entity_delete AFTER DELETE ON entity
BEGIN
    INSERT INTO change (kind, item) VALUES ('entity', old.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'entity' AND item = old.id;
END;

CREATE TRIGGER change_entity_update AFTER UPDATE OF key, label, kind ON entity
WHEN old.key IS NOT new.key OR old.label IS NOT new.label OR old.kind IS NOT new.kind
BEGIN
    INSERT INTO change (kind, item) VALUES ('entity', new.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'entity' AND item = new.id;
END;

CREATE TRIGGER change_alias_insert AFTER INSERT ON alias
BEGIN
    INSERT INTO change (kind, item) VALUES ('entity', new.entity);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'entity' AND item = new.entity;
END;

CREATE TRIGGER change_alias_delete AFTER DELETE ON alias
BEGIN
    INSERT INTO change (kind, item) VALUES ('entity', old.entity);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'entity' AND item = old.entity;
END;

CREATE TRIGGER change_occurrence_insert AFTER INSERT ON occurrence
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.fact;
END;

CREATE TRIGGER change_occurrence_delete AFTER DELETE ON occurrence
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', old.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = old.fact;
END;

CREATE TRIGGER change_mention_insert AFTER INSERT ON mention
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.fact;
END;

CREATE TRIGGER change_mention_delete AFTER DELETE ON mention
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', old.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = old.fact;
END;

CREATE TRIGGER change_state_insert AFTER INSERT ON state
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.fact;
END;

CREATE TRIGGER change_state_delete AFTER DELETE ON state
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', old.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = old.fact;
END;

CREATE TRIGGER change_relation_insert AFTER INSERT ON relation
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.fact;
END;

CREATE TRIGGER change_relation_delete AFTER DELETE ON relation
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', old.fact);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = old.fact;
END;

CREATE TRIGGER change_name_use_insert AFTER INSERT ON name_use
BEGIN
    INSERT INTO change (kind, item) SELECT 'fact', fact FROM occurrence WHERE id = new.occurrence;
END;

CREATE TRIGGER change_name_use_delete AFTER DELETE ON name_use
BEGIN
    INSERT INTO change (kind, item) SELECT 'fact', fact FROM occurrence WHERE id = old.occurrence;
END;

CREATE TRIGGER change_derived_turn_vector_insert AFTER INSERT ON derived_turn_vector
BEGIN
    INSERT INTO change (kind, item) VALUES ('turn', new.item);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'turn' AND item = new.item;
END;

CREATE TRIGGER change_derived_turn_vector_delete AFTER DELETE ON derived_turn_vector
BEGIN
    INSERT INTO change (kind, item) VALUES ('turn', old.item);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'turn' AND item = old.item;
END;

CREATE TRIGGER change_derived_turn_vector_update AFTER UPDATE OF vector ON derived_turn_vector
WHEN old.vector IS NOT new.vector
BEGIN
    INSERT INTO change (kind, item) VALUES ('turn', new.item);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'turn' AND item = new.item;
END;

CREATE TRIGGER change_derived_fact_vector_insert AFTER INSERT ON derived_fact_vector
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.item);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.item;
END;

CREATE TRIGGER change_derived_fact_vector_delete AFTER DELETE ON derived_fact_vector
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', old.item);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = old.item;
END;

CREATE TRIGGER change_derived_fact_vector_update AFTER UPDATE OF vector ON derived_fact_vector
WHEN old.vector IS NOT new.vector
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.item);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.item;
END;

CREATE TRIGGER change_occurrence_turn_insert AFTER insert ON occurrence_turn
WHEN EXISTS (SELECT 1 FROM occurrence WHERE id = new.occurrence)
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', (SELECT fact FROM occurrence WHERE id = new.occurrence));
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = (SELECT fact FROM occurrence WHERE id = new.occurrence);
END;

CREATE TRIGGER change_occurrence_turn_delete AFTER delete ON occurrence_turn
WHEN EXISTS (SELECT 1 FROM occurrence WHERE id = old.occurrence)
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', (SELECT fact FROM occurrence WHERE id = old.occurrence));
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = (SELECT fact FROM occurrence WHERE id = old.occurrence);
END;

CREATE TRIGGER change_fact_update AFTER UPDATE OF speaker, start_ms, end_ms, said_ms, text, verdict ON fact
WHEN old.speaker IS NOT new.speaker OR old.start_ms IS NOT new.start_ms OR old.end_ms IS NOT new.end_ms OR old.said_ms IS NOT new.said_ms OR old.text IS NOT new.text OR old.verdict IS NOT new.verdict
BEGIN
    INSERT INTO change (kind, item) VALUES ('fact', new.id);
    DELETE FROM change WHERE seq = (SELECT max(seq) FROM change) - 1 AND kind = 'fact' AND item = new.id;
END;

CREATE TRIGGER next_turn_delete AFTER DELETE ON turn
BEGIN
    DELETE FROM derived_next_vector WHERE kind = 'turn' AND item = old.id;
END;

CREATE TRIGGER next_turn_update AFTER UPDATE OF speaker, text ON turn
BEGIN
    DELETE FROM derived_next_vector WHERE kind = 'turn' AND item = old.id;
END;

CREATE TRIGGER next_fact_delete AFTER DELETE ON fact
BEGIN
    DELETE FROM derived_next_vector WHERE kind = 'fact' AND item = old.id;
END;

CREATE TRIGGER next_fact_update AFTER UPDATE OF text ON fact
BEGIN
    DELETE FROM derived_next_vector WHERE kind = 'fact' AND item = old.id;
END;

CREATE TRIGGER artifact_insert AFTER INSERT ON artifact
BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'artifact_stamp';
END;

CREATE TRIGGER artifact_update AFTER UPDATE ON artifact
BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'artifact_stamp';
END;

CREATE TRIGGER artifact_delete AFTER DELETE ON artifact
BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'artifact_stamp';
END;

-- A row id is never given again (memforest.store.meta.take_ids).
INSERT INTO meta VALUES
    ('artifact_stamp', '0'),
    ('generation', '0'),
    ('memory_id', lower(hex(randomblob(16)))),
    ('next:chunk', '1'),
    ('next:entity', '1'),
    ('next:fact', '1'),
    ('next:session', '1'),
    ('next:turn', '1');
