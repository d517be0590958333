"""Consistency checks that SQL alone can do: damage to the file, and rows that are impossible or contradict each other.

Each check is a query of the rows that are wrong, and the message that their columns fill. No check can see a changed
value that is just as possible. Examples are a display name's spelling, a role, the attribute or value of a state, a
negation, a session's metadata, a time of storing, or what was spent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np

from memforest.records import EntityKind, Precision
from memforest.store import derived
from memforest.store.connections import Tx, begin_anew, errors, gathered, place_tie
from memforest.store.derived import NUMBER, unpack_vectors
from memforest.store.facts import QUOTE
from memforest.store.meta import Changes
from memforest.times import EARLIEST, LATEST, to_ms

INDEXES = ("derived_turn_words", "derived_fact_words")
"""The full-text tables."""

VECTOR_KINDS: tuple[derived.ItemKind, ...] = get_args(derived.ItemKind)

CHECKS_INDEXES = (3, 44, 0)
"""SQLite from which "integrity_check" runs FTS5's own check too: https://www.sqlite.org/changes.html."""


def integrity(tx: Tx) -> tuple[list[str], list[str], str | None]:
    """Run SQLite's own checks: of the b-trees, of rows that point at nothing, and FTS5's of the lexical index.

    Returns the problems of the file, those of the lexical index, and a note on parts that could not be checked.

    To be called before anything else is read in the transaction, on a fresh connection: before SQLite 3.44
    FTS5's check is a statement that takes the write lock for a moment, and the transaction is begun anew behind it.
    """
    # That of the connection: an encrypted file is read by another SQLite than Python's own.
    version = tuple(map(int, str(tx.value("SELECT sqlite_version()")).split(".")))
    index, note = ([], None) if version >= CHECKS_INDEXES else _index_problems(tx)
    file: list[str] = []
    for (text,) in tx.execute("PRAGMA integrity_check"):
        if text != "ok":
            (index if any(name in text for name in INDEXES) else file).append(text)
    rows = tx.execute("PRAGMA foreign_key_check")
    return file + [f"{row[0]} {row[1]} points at no {row[2]}" for row in rows], index, note


def _index_problems(tx: Tx) -> tuple[list[str], str | None]:
    problems, note = [], None
    tx.execute("PRAGMA query_only = off")
    for table in INDEXES:
        try:
            tx.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except errors("OperationalError") as exc:
            note = f"the lexical index was not checked by FTS5, which needs to write: {exc}"
        except errors("DatabaseError") as exc:
            problems.append(f"{table}: {exc}")
    tx.execute("PRAGMA query_only = on")
    begin_anew(tx)
    return problems, note


def indexed_texts(tx: Tx, kind: Literal["turn", "fact"]) -> Iterator[tuple[int, str, str, int]]:
    """Yield (row, speaker, text, said ms) of every turn or fact: what its vector and its words are made of."""
    return iter(tx.execute(f"SELECT id, speaker, text, said_ms FROM {kind} ORDER BY id"))


class Quotation(NamedTuple):
    """An occurrence's quote, what made it, and what its turns say, one behind the other."""

    fact_id: str
    speaker: str
    quote: str
    maker: str
    text: str
    speakers: frozenset[str]
    turns: frozenset[int]


def quotations(tx: Tx) -> Iterator[Quotation]:
    """Yield the quotes of all occurrences."""
    rows = tx.execute(
        f"""SELECT f.fact_id, o.speaker, {QUOTE}, coalesce(c.maker, ''), group_concat(t.text, ' '),
           {gathered("t.speaker")}, {gathered("t.id")} FROM occurrence o JOIN fact f ON f.id = o.fact
           JOIN chunk c ON c.id = o.chunk JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
           GROUP BY o.id ORDER BY o.id"""
    )
    for *values, speakers, turns in rows:
        yield Quotation(*(*values, frozenset(json.loads(speakers)), frozenset(json.loads(turns))))


def vector_digests(tx: Tx) -> list[tuple[derived.ItemKind, int, bytes]]:
    """Return (kind, item, digest of the text) of every vector."""
    return [
        (kind, row[0], row[1])
        for kind in VECTOR_KINDS
        for row in tx.execute(f"SELECT item, digest FROM derived_{kind}_vector")
    ]


def vector_problems(tx: Tx) -> list[tuple[derived.ItemKind, int, str]]:
    """Return (kind, item, what is wrong) of vectors with more or fewer bytes than most, or not of unit length."""
    sizes = Counter[int]()
    for kind in VECTOR_KINDS:
        sizes.update(tx.pairs(f"SELECT length(vector), count(*) FROM derived_{kind}_vector GROUP BY 1"))
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    problems: list[tuple[derived.ItemKind, int, str]] = []
    for kind in VECTOR_KINDS:
        for item, blob in tx.execute(f"SELECT item, vector FROM derived_{kind}_vector"):
            if len(blob) != usual or usual % NUMBER.itemsize:
                problems.append((kind, item, f"has {len(blob)} bytes where most have {usual}"))
            elif not abs(float(np.linalg.norm(unpack_vectors(blob))) - 1) <= 1e-3:
                problems.append((kind, item, "is not of unit length"))
    return problems


Check = tuple[str, str]
"""A query of wrong rows, and the message about one of them."""


def _any_of(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _no_time(*columns: str) -> str:
    return " OR ".join(f"{column} NOT BETWEEN {to_ms(EARLIEST)} AND {to_ms(LATEST)}" for column in columns)


def _no_texts(column: str) -> str:
    return f"""CASE WHEN json_valid({column}) THEN json_type({column}) != 'array' OR EXISTS
        (SELECT 1 FROM json_each({column}) WHERE type != 'text') ELSE 1 END"""


_MENTIONED = """EXISTS (SELECT 1 FROM occurrence o JOIN mention m ON m.fact = o.fact AND m.occurrence = o.id
    WHERE o.id = {} AND m.entity = {})"""
"""An occurrence mentions an entity."""

_CHUNKS: tuple[Check, ...] = (
    (  # Where turns were deleted there are gaps; those that are left stand in one chunk each.
        """SELECT session_id, turns, top, covered FROM (SELECT s.session_id, s.erased,
               (SELECT count(*) FROM turn t WHERE t.session = s.id) AS turns,
               (SELECT max(ordinal) + 1 FROM turn t WHERE t.session = s.id) AS top,
               (SELECT sum(last - first + 1) FROM chunk c WHERE c.session = s.id) AS covered,
               (SELECT count(*) FROM chunk c JOIN turn t ON t.session = c.session
                    AND t.ordinal BETWEEN c.first AND c.last WHERE c.session = s.id) AS held FROM session s)
           WHERE NOT CASE WHEN erased THEN turns = held ELSE turns IS top AND top IS covered END""",
        "session {0!r}: {1} turns, numbered to {2}, in chunks of {3}",
    ),
    (
        """SELECT s.session_id, c.ordinal FROM chunk c JOIN session s ON s.id = c.session
           WHERE s.erased = 0 AND (c.first > c.last OR c.first IS NOT CASE WHEN c.ordinal = 0 THEN 0 ELSE
           (SELECT p.last + 1 FROM chunk p WHERE p.session = c.session AND p.ordinal = c.ordinal - 1) END)""",
        "session {0!r}: chunk {1} does not begin where the one before it ends",
    ),
    (
        """SELECT s.session_id, c.ordinal FROM chunk c JOIN session s ON s.id = c.session
           WHERE s.erased != 0 AND (s.erased < 0 OR c.first > c.last OR c.first <= coalesce(
                (SELECT max(p.last) FROM chunk p WHERE p.session = c.session AND p.ordinal < c.ordinal), -1)
           OR (SELECT count(*) FROM turn t WHERE t.session = c.session AND t.ordinal IN (c.first, c.last)) !=
                1 + (c.first != c.last))""",
        "session {0!r}: chunk {1}, beside which something was deleted, does not begin and end at turns of its own",
    ),
    (
        """SELECT s.session_id, s.status FROM session s WHERE (s.status = 'ingested') =
           EXISTS (SELECT 1 FROM chunk c WHERE c.session = s.id AND c.status = 'pending')""",
        "session {0!r} is {1}, which its chunks are not",
    ),
    (
        """SELECT s.session_id, c.ordinal FROM chunk c JOIN session s ON s.id = c.session
           WHERE (c.status != 'pending' AND c.maker IS NULL) OR (c.status = 'failed' AND c.reason IS NULL)""",
        "session {0!r}: chunk {1} does not say what read it, or why it failed",
    ),
    (
        """SELECT s.session_id, c.ordinal FROM chunk c JOIN session s ON s.id = c.session
           WHERE CASE WHEN json_valid(c.skipped) THEN json_type(c.skipped) != 'array' OR EXISTS
           (SELECT 1 FROM json_each(c.skipped) j WHERE CASE WHEN j.type != 'array' THEN 1 ELSE
                json_array_length(j.value) != 2 OR json_type(j.value, '$[0]') != 'integer'
                OR json_type(j.value, '$[1]') != 'text'
                OR json_extract(j.value, '$[0]') NOT BETWEEN c.first AND c.last END) ELSE 1 END""",
        "session {0!r}: chunk {1} has skipped what is no turn of it",
    ),
    (
        f"""SELECT session_id FROM session WHERE infer NOT IN (0, 1) OR {_no_time("stored_ms")}
            OR CASE WHEN json_valid(metadata) THEN json_type(metadata) != 'object' ELSE 1 END""",
        "session {0!r}: its settings or metadata cannot be",
    ),
)

_FACTS: tuple[Check, ...] = (
    (
        """SELECT f.fact_id, s.attribute FROM state s JOIN fact f ON f.id = s.fact
           JOIN occurrence o ON o.id = s.occurrence WHERE s.at_ms != coalesce(f.start_ms, o.said_ms)
           AND NOT (o.correction IS NOT NULL AND s.change = 'end' AND s.at_ms = f.end_ms)""",
        "{0}: the state of {1!r} does not stand at the fact's time",
    ),
    (
        f"""SELECT fact_id FROM fact WHERE precision NOT IN ({_any_of(get_args(Precision))})
            OR negated NOT IN (0, 1) OR end_ms <= start_ms OR (start_ms IS NULL AND end_ms IS NOT NULL)
            OR {_no_time("stored_ms")} OR {_no_texts("topics")}""",
        "{0}: its times, topics or marks cannot be",
    ),
    (
        f"""SELECT f.fact_id, o.id FROM occurrence o JOIN fact f ON f.id = o.fact JOIN chunk c ON c.id = o.chunk
           JOIN session s ON s.id = c.session
           WHERE substr(coalesce(o.tie, f.tie), 1, length(s.session_id) + 8) !=
                {place_tie("s.session_id", "c.ordinal")} || char(31)
           OR NOT EXISTS (SELECT 1 FROM occurrence_turn x JOIN turn t ON t.id = x.turn
                WHERE x.occurrence = o.id AND t.said_ms = o.said_ms)
           OR EXISTS (SELECT 1 FROM occurrence_turn x JOIN turn t ON t.id = x.turn
                WHERE x.occurrence = o.id AND t.session != c.session)""",
        "{0}: occurrence {1} is not where and when its turns are",
    ),
    (
        f"""SELECT f.fact_id, o.id FROM occurrence o JOIN fact f ON f.id = o.fact
            WHERE {_no_texts("o.topics")} OR abs(o.cosine) > 1.001 OR {_no_time("o.stored_ms")}""",
        "{0}: occurrence {1} has topics, a likeness or a stored time that cannot be",
    ),
    (
        """SELECT f.fact_id, m.occurrence FROM mention m JOIN fact f ON f.id = m.fact
           LEFT JOIN occurrence o ON o.id = m.occurrence
           WHERE o.fact IS NOT m.fact OR m.roles NOT BETWEEN 1 AND 15""",
        "{0}: a mention is of occurrence {1}, which is not one of it, or has no such role",
    ),
    (
        """SELECT f.fact_id, s.attribute FROM state s JOIN fact f ON f.id = s.fact WHERE NOT EXISTS
           (SELECT 1 FROM mention m WHERE m.fact = s.fact AND m.occurrence = s.occurrence AND m.entity = s.entity)
           OR s.attribute = '' OR s.value = ''""",
        "{0}: a state ({1!r}) is of an entity that the fact does not name there, or has no value",
    ),
    (
        f"""SELECT f.fact_id, r.label FROM relation r JOIN fact f ON f.id = r.fact WHERE r.source = r.target
           OR trim(r.label) = '' OR NOT {_MENTIONED.format("r.occurrence", "r.source")}
           OR NOT {_MENTIONED.format("r.occurrence", "r.target")}
           OR r.fact IS NOT (SELECT o.fact FROM occurrence o WHERE o.id = r.occurrence)""",
        "{0}: a relation ({1!r}) is of entities that the fact does not name there, or of one to itself",
    ),
)

_WRITES: tuple[Check, ...] = (
    (
        f"""SELECT s.session_id FROM write_key w JOIN session s ON s.id = w.session
            WHERE length(w.key) != 16 OR length(w.request) != 16 OR {_no_time("w.stored_ms")} OR
            CASE WHEN json_valid(w.result) THEN json_type(w.result) != 'object'
                OR json_type(w.result, '$.first') IS NOT 'integer' OR json_type(w.result, '$.turns') IS NOT 'integer'
                OR json_type(w.result, '$.replaced') IS NULL
                OR json_type(w.result, '$.replaced') NOT IN ('true', 'false')
                OR json_extract(w.result, '$.first') < 0 OR json_extract(w.result, '$.turns') < 0 ELSE 1 END""",
        "session {0!r}: a write's idempotency key is none, or its result cannot be",
    ),
    (
        "SELECT session FROM write_key WHERE session NOT IN (SELECT id FROM session)",
        "a write's idempotency key is of session {0}, which is not there",
    ),
)

_ENTITIES: tuple[Check, ...] = (
    (
        f"""SELECT label FROM entity WHERE kind NOT IN ({_any_of(get_args(EntityKind))}) OR label = ''""",
        "entity {0!r}: its kind or its marks cannot be",
    ),
    (
        f"""SELECT n.name, n.occurrence FROM name_use n
            WHERE n.name = '' OR NOT {_MENTIONED.format("n.occurrence", "n.entity")}""",
        "the name {0!r} is none, or of an entity that occurrence {1} does not mention",
    ),
    (
        f"SELECT id FROM choice WHERE entity >= other OR {_no_time('made_ms')}",
        "choice {0}: its entities or its time cannot be",
    ),
)

_CORRECTIONS: tuple[Check, ...] = (
    (
        f"""SELECT id, kind FROM correction WHERE key = '' OR kind NOT IN ('update', 'pin', 'forget', 'remember')
            OR (kind IN ('update', 'remember')) != (made IS NOT NULL AND text IS NOT NULL) OR (made IS NULL) != (text IS NULL)
            OR (made = fact_id AND kind != 'remember') OR precision NOT IN ({_any_of(get_args(Precision))}) OR {_no_time("made_ms", "stored_ms")}
            OR (undone_ms IS NOT NULL AND ({_no_time("undone_ms")})) OR end_ms <= start_ms
            OR (start_ms IS NULL AND end_ms IS NOT NULL) OR (made IS NULL AND start_ms IS NOT NULL)
            OR substr(fact_id, 1, 3) != 'f1:' OR length(fact_id) != 35 OR {_no_texts("state")}""",
        "correction {0} ({1!r}): its kind, statements or times cannot be",
    ),
    (
        """SELECT p.correction FROM correction_place p WHERE length(p.quote) != 8
           OR NOT EXISTS (SELECT 1 FROM correction c WHERE c.id = p.correction)""",
        "a place is of no sentence, or of correction {0}, which there is not",
    ),
    (
        """SELECT f.fact_id, o.correction FROM occurrence o JOIN fact f ON f.id = o.fact
           LEFT JOIN correction c ON c.id = o.correction
           WHERE o.correction IS NOT NULL AND (c.made IS NOT f.fact_id OR c.undone_ms IS NOT NULL)""",
        "{0}: it stands where correction {1} put another statement, or none",
    ),
)

_SETTINGS: tuple[Check, ...] = (
    (
        """SELECT key, value FROM meta WHERE (key IN ('generation', 'chunk_turns', 'artifact_stamp')
           OR key LIKE 'next:%') AND (value != CAST(CAST(value AS INTEGER) AS TEXT) OR CAST(value AS INTEGER) < 0)""",
        "the setting {0!r} is {1!r}",
    ),
    *(
        (
            f"""SELECT max(id) FROM {table} HAVING max(id) >=
                coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'next:{table}'), 1)""",
            f"{table} {{0}} has an id that is still to be given",
        )
        for table in ("session", "turn", "chunk", "fact", "entity")
    ),
    (
        f"SELECT DISTINCT kind FROM change WHERE kind NOT IN ({_any_of(Changes._fields)})",
        "the change log knows {0!r}, which there is not",
    ),
    (
        f"SELECT id FROM tombstone WHERE count < 1 OR {_no_time('stored_ms', 'deleted_ms')}",
        "tombstone {0}: its count or times cannot be",
    ),
)


_ORIGINS: tuple[Check, ...] = (
    (
        f"""SELECT id FROM origin WHERE length(memory) != 32 OR memory GLOB '*[^0-9a-f]*' OR trim(user_id) = ''
            OR trim(label) = '' OR {_no_time("merged_ms")} OR CASE WHEN json_valid(names) THEN json_type(names) != 'object'
            OR EXISTS (SELECT 1 FROM json_each(names) WHERE type != 'text' OR value = '') ELSE 1 END""",
        "the origin {0} of turns cannot be one",
    ),
)


CHECKS: Mapping[str, tuple[Check, ...]] = {
    "session": (*_CHUNKS, *_WRITES, *_ORIGINS),
    "fact": _FACTS,
    "entity": _ENTITIES,
    "correction": _CORRECTIONS,
    "setting": _SETTINGS,
}
"""Part of a memory -> its checks."""


def contradictions(tx: Tx, part: str) -> list[str]:
    """Return what is wrong with the rows of a part (see `CHECKS`), in words."""
    return [message.format(*row) for sql, message in CHECKS[part] for row in tx.execute(sql)]


def undecodable_texts(tx: Tx) -> list[str]:
    """Return the columns of persistent tables in which there is text that is no UTF-8; turns have their digests."""
    problems = []
    for (table,) in tx.execute(
        """SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict
           AND name NOT LIKE 'derived%' AND name != 'turn' ORDER BY name"""
    ).fetchall():
        for _, name, kind, *_ in tx.execute(f"PRAGMA table_info({table})").fetchall():
            if kind == "TEXT" and not _decodable(tx, table, name):
                problems.append(f"{table}: there is a {name} that is no text any more")
    return problems


def _decodable(tx: Tx, table: str, column: str) -> bool:
    for (raw,) in tx.execute(f"SELECT CAST({column} AS BLOB) FROM {table} WHERE {column} IS NOT NULL"):
        try:
            raw.decode()
        except UnicodeDecodeError:
            return False
    return True
