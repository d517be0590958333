"""Seeded conversations, and a dump of a memory that does not depend on row numbers.

Two memories that hold the same must have equal dumps, however they came to hold it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

from memforest import Config
from memforest.models import HashEmbedder
from memforest.protection import Key
from memforest.store import files
from memforest.store.connections import connect, errors
from memforest.store.derived import unpack_ids, unpack_text, unpack_vectors

__all__ = [
    "CLOCK",
    "KEYS",
    "Session",
    "dump",
    "eager_config",
    "fast_config",
    "file_of",
    "make_sessions",
    "rows",
    "summaries",
]

Session = tuple[str, list[dict[str, Any]]]
"""A session's id and its turns."""

CLOCK = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)

_PEOPLE = ("Ana", "Bob", "Carla Díaz", "Melanie")
_CITIES = ("Davis", "Miami", "Lisbon", "Oslo", "Kyoto")
_FIRMS = ("Acme", "Initech", "Globex")
_THINGS = ("car", "bike", "guitar", "tent")
_COLOURS = ("red", "blue", "green")
_SAID = (
    "I moved from {city} to {other} last week.",
    "I live in {city}.",
    "I work at {firm} now.",
    "I bought a {colour} {thing} in {city} yesterday.",
    "{who} adopted {n} cats.",
    "{who} works at {firm}.",
    "Mel told me about {firm}.",
    "I don't like {city} any more.",
    "{who} and I went to {city} on 3 March 2023.",
    "How are you? Did you see {who}?",
    "Thanks, great!",
    "Me mudé a {city} el mes pasado.",
    "{who} is my sister. She lives in {city}.",
)


def fast_config(**settings: Any) -> Config:
    """Return a configuration with the hashing embedder and a clock that stands still."""
    return Config(**{"embedder": HashEmbedder(32), "clock": lambda: CLOCK, **settings})


PAPER = {"memforest": {"chunks": "summarised", "scene_vectors": "summary", "summarise": "every"}}
"""Settings with which chunks have summaries and nodes of scenes vectors, as in the paper's Algorithm 1."""


def eager_config(**settings: Any) -> Config:
    """Return `fast_config` with summaries that each write makes itself, for tests that compare them."""
    return fast_config(**{"refresh": "path", **settings})


def _sentence(random: Random, said: Sequence[str]) -> str:
    city, other = random.sample(_CITIES, 2)
    return random.choice(said).format(
        city=city,
        other=other,
        who=random.choice(_PEOPLE),
        firm=random.choice(_FIRMS),
        thing=random.choice(_THINGS),
        colour=random.choice(_COLOURS),
        n=random.randint(2, 4),
    )


def make_sessions(
    seed: int, *, sessions: int = 4, most_turns: int = 7, short_forms: bool = True
) -> list[Session]:
    """Return conversations; equal sentences come again, so that facts merge.

    With `short_forms`, some say "Mel": in sessions where Melanie speaks, that is her.
    """
    random = Random(seed)
    sentences = [said for said in _SAID if short_forms or "Mel " not in said]
    made = []
    for number in range(sessions):
        said = datetime(2023, 1, 1, tzinfo=timezone.utc) + timedelta(days=random.randint(0, 400))
        speakers = random.sample(_PEOPLE, 2)
        turns = []
        for i in range(random.randint(1, most_turns)):
            said += timedelta(minutes=random.randint(0, 3))
            text = " ".join(_sentence(random, sentences) for _ in range(random.randint(1, 2)))
            turns.append({"speaker": speakers[i % 2], "content": text, "timestamp": said.isoformat()})
        made.append((f"s{number}", turns))
    return made


def said(*texts: str, day: int = 1, speaker: str = "Ana") -> list[dict[str, Any]]:
    """Return turns of one speaker in May 2023, a minute apart."""
    return [
        {"speaker": speaker, "content": text, "timestamp": f"2023-05-{day:02}T{10 + i // 60}:{i % 60:02}:00Z"}
        for i, text in enumerate(texts)
    ]


def file_of(directory: Path) -> Path:
    """Return the only database in a directory."""
    (path,) = directory.glob("*.db")
    return path


KEYS = (bytes(range(32)), bytes(range(1, 33)))
"""Of encrypted memories that are looked into here."""


def opened(path: Path) -> sqlite3.Connection:
    """Open a memory's file as it is; an encrypted one with that of `KEYS` which fits."""
    salt = files.read(path)
    if salt is None or path.read_bytes()[:6] == b"SQLite":
        return sqlite3.connect(path)
    for key in KEYS:
        conn = connect(path, 5.0, Key(key).of_file(salt.salt))
        try:
            conn.execute("SELECT 1 FROM sqlite_master").fetchall()
        except errors("DatabaseError"):
            conn.close()
        else:
            return conn
    raise AssertionError("the file is encrypted with none of the keys")


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted."""
    with opened(path) as conn:
        conn.text_factory = lambda raw: raw.decode(errors="replace")  # tests damage texts too
        found = conn.execute(sql).fetchall()
    conn.close()
    return sorted(found, key=repr)


_TURN = "SELECT s.session_id || '/' || t.turn_id FROM turn t JOIN session s ON s.id = t.session WHERE t.id"
_CHUNK = "SELECT s.session_id || '/' || c.ordinal FROM chunk c JOIN session s ON s.id = c.session WHERE c.id"

_PARTS = {
    "sessions": "SELECT session_id, status, infer, metadata FROM session",
    "turns": """SELECT s.session_id, t.ordinal, turn_id, speaker, role, text, said_ms, time_source, t.metadata
        FROM turn t JOIN session s ON s.id = t.session""",
    "chunks": """SELECT s.session_id, c.ordinal, first, last, c.status, reason, maker, skipped
        FROM chunk c JOIN session s ON s.id = c.session""",
    "facts": """SELECT fact_id, text, speaker, start_ms, end_ms, precision, negated, said_ms, tie, topics,
        verdict FROM fact""",
    "occurrences": f"""SELECT f.fact_id, ({_CHUNK} = o.chunk), o.speaker, o.topics, coalesce(o.text, f.text),
        coalesce(quote, (SELECT t.text FROM occurrence_turn x JOIN turn t ON t.id = x.turn WHERE x.occurrence = o.id)),
        o.said_ms, coalesce(o.tie, f.tie), round(cosine, 5),
        (SELECT group_concat(name, ' ') FROM (SELECT ({_TURN} = x.turn) AS name FROM occurrence_turn x
            WHERE x.occurrence = o.id ORDER BY 1)),
        (SELECT kind || ' ' || fact_id FROM correction WHERE id = o.correction) FROM occurrence o JOIN fact f ON f.id = o.fact""",
    "entities": "SELECT key, kind = 'participant' FROM entity",
    "aliases": "SELECT a.key, e.key FROM alias a JOIN entity e ON e.id = a.entity",
    "mentions": """SELECT DISTINCT f.fact_id, e.key, roles FROM mention m JOIN fact f ON f.id = m.fact
        JOIN entity e ON e.id = m.entity""",
    "states": """SELECT DISTINCT f.fact_id, e.key, attribute, value, previous, change FROM state s
        JOIN fact f ON f.id = s.fact JOIN entity e ON e.id = s.entity""",
    "relations": """SELECT DISTINCT f.fact_id, s.key, r.label, t.key FROM relation r JOIN fact f ON f.id = r.fact
        JOIN entity s ON s.id = source JOIN entity t ON t.id = target""",
    "names": """SELECT f.fact_id, e.key, coalesce(n.name, e.label), count(*) FROM mention m JOIN fact f ON f.id = m.fact
        JOIN entity e ON e.id = m.entity LEFT JOIN name_use n ON n.occurrence = m.occurrence AND n.entity = e.id
        WHERE roles != 1 OR n.name IS NOT NULL GROUP BY 1, 2, 3""",
    "choices": """SELECT verdict, min(e.key, o.key), max(e.key, o.key), made_ms FROM choice JOIN entity e ON e.id = entity
        JOIN entity o ON o.id = other""",
    "dirty": "SELECT count(*) FROM node WHERE dirty AND level > 0",
    "turn words": f"""SELECT ({_TURN} = w.rowid), words FROM derived_turn_words w""",
    "fact words": "SELECT f.fact_id, words FROM derived_fact_words w JOIN fact f ON f.id = w.rowid",
    "turn vectors": f"""SELECT ({_TURN} = v.item), hex(digest), hex(vector) FROM derived_turn_vector v""",
    "fact vectors": """SELECT f.fact_id, hex(digest), hex(vector) FROM derived_fact_vector v
        JOIN fact f ON f.id = v.item""",
}

_OF_MEMFOREST = {
    "active": "SELECT key FROM ix_memforest_active JOIN entity ON id = entity",
    "scenes": """SELECT f.fact_id, m.main, (SELECT group_concat(fact_id, ' ') FROM (SELECT g.fact_id FROM ix_memforest_scene_member o
        JOIN fact g ON g.id = o.fact WHERE o.scene = m.scene ORDER BY 1)) FROM ix_memforest_scene_member m
        JOIN fact f ON f.id = m.fact""",
}

_OF_SEGTREE = {
    "stretches": """SELECT n.level, key_ms, key_tie, n.start_ms, n.end_ms, span_lo, span_hi, n.count, hex(state) FROM node n
        JOIN tree t ON t.id = n.tree WHERE owner = 'segtree' AND n.level > 0""",
    "exchanges": """SELECT s.session_id, e.first, e.last, turns, place, tie, state, level, maker, hex(vector)
        FROM ix_segtree_exchange e JOIN session s ON s.id = e.session""",
}

_OF_TIMEM = {
    "windows": """SELECT i.level, i.window, s.session_id, i.part, n.dirty, hex(d.text) FROM ix_timem_node i
        JOIN node n ON n.id = i.node LEFT JOIN session s ON s.id = i.session
        LEFT JOIN derived_summary d ON d.node = i.node ORDER BY 1, 2, 3, 4""",
    "jobs of windows": "SELECT kind, state, count(*) FROM job WHERE owner = 'timem' GROUP BY 1, 2",
}

_OF_HMEM = {
    "clusters": """SELECT i.level, f.fact_id, g.fact_id, round(i.likeness, 4), i.within, i.said_ms, i.tie, i.r_ms, i.n, i.leaves,
        n.window, n.dirty, hex(d.text) FROM ix_hmem_node i LEFT JOIN fact f ON f.id = i.founder
        LEFT JOIN ix_hmem_node p ON p.node = i.parent LEFT JOIN fact g ON g.id = p.founder LEFT JOIN node n ON n.id = i.node
        LEFT JOIN derived_summary d ON d.node = i.node WHERE i.level < 4""",
}

_OWN = {"memforest": _OF_MEMFOREST, "segtree": _OF_SEGTREE, "timem": _OF_TIMEM, "hmem": _OF_HMEM}
"""Index -> what is its own."""


def dump(path: Path) -> dict[str, Any]:
    """Return what a memory holds, without row numbers and without the boundaries of inner nodes."""
    names = {row[0] for row in rows(path, "SELECT name FROM index_")}
    own = {part: sql for name, parts in _OWN.items() if name in names for part, sql in parts.items()}
    found: dict[str, Any] = {part: rows(path, sql) for part, sql in (_PARTS | own).items()}
    found["trees"] = {tree: leaves for tree, leaves, _ in _trees(path)}
    return found


def summaries(path: Path) -> dict[str, tuple[str | None, str | None]]:
    """Return (summary, vector) of every node that has some, keyed by its tree and the shape of everything below it."""
    found = {}
    for tree, _, nodes in _trees(path):
        found.update({f"{tree} {shape}": made for shape, made in nodes})
    return found


_Shaped = tuple[str, tuple[str | None, str | None]]


def _trees(path: Path) -> Iterator[tuple[str, list[Any], list[_Shaped]]]:
    conn = opened(path)
    made = {
        row[0]: (None if row[1] is None else unpack_text(row[1]), row[2])
        for row in conn.execute(
            """SELECT n.id, s.text, hex(v.vector) FROM node n LEFT JOIN derived_summary s ON s.node = n.id
               LEFT JOIN derived_node_vector v ON v.item = n.id"""
        )
    }
    nodes = {
        row[0]: row
        for row in conn.execute(
            """SELECT id, children, key_ms, key_tie, NULL, NULL FROM node UNION ALL
               SELECT l.id, x'', coalesce(f.start_ms, f.said_ms), f.tie, 'fact', f.id FROM leaf l JOIN fact f ON f.id = l.fact
               UNION ALL SELECT l.id, x'', t.said_ms, s.session_id || char(31) || printf('%06d', c.ordinal), 'chunk', c.id
               FROM leaf l JOIN chunk c ON c.id = l.chunk JOIN session s ON s.id = c.session
               JOIN turn t ON t.session = s.id AND t.ordinal = c.first UNION ALL
               SELECT l.id, x'', t.said_ms, s.session_id || char(31) || printf('%06d', t.ordinal), 'turn', t.id
               FROM leaf l JOIN turn t ON t.id = l.turn JOIN session s ON s.id = t.session"""
        )
    }
    names = {("fact", row[0]): row[1] for row in conn.execute("SELECT id, fact_id FROM fact")} | {
        ("chunk", row[0]): row[1]
        for row in conn.execute(
            "SELECT c.id, s.session_id || '/' || c.ordinal FROM chunk c JOIN session s ON s.id = c.session"
        )
    }
    names |= {
        ("turn", row[0]): row[1]
        for row in conn.execute(
            "SELECT t.id, s.session_id || '/' || t.turn_id FROM turn t JOIN session s ON s.id = t.session"
        )
    }
    heads = conn.execute(
        """SELECT CASE t.owner WHEN 'memforest' THEN '' ELSE t.owner || '/' END || t.kind || ' ' ||
           coalesce(s.session_id, e.key, CASE t.kind WHEN 'scene' THEN '' ELSE t.scope END), t.k, t.root, t.count FROM tree t
           LEFT JOIN session s ON t.kind = 'session' AND s.id = t.scope
           LEFT JOIN entity e ON t.kind = 'entity' AND e.id = t.scope ORDER BY 1"""
    ).fetchall()
    conn.close()

    for name, k, root, count in heads:
        if root is None:  # a tree of which all is gone
            continue
        leaves: list[Any] = [k, count]
        shaped: list[_Shaped] = []

        def shape(node: int, leaves: list[Any] = leaves, shaped: list[_Shaped] = shaped) -> Any:
            _, children, key_ms, key_tie, item_kind, item = nodes[node]
            ids = array("I")
            ids.frombytes(children)
            if not ids:
                leaf = [key_ms, key_tie, item_kind, names[item_kind, item]]
                leaves.append(leaf)
                if node in made:
                    shaped.append((json.dumps(leaf), made[node]))
                return leaf
            below = [shape(child) for child in ids]
            shaped.append((json.dumps(below), made[node]))
            return below

        shape(root)
        if name == "scene ":  # a scene has no name, and its number tells of the order in which things came
            name += f"of {leaves[2][3]}, " + blake2b(repr(leaves).encode(), digest_size=4).hexdigest()
        yield name, leaves, shaped


def differences(a: dict[str, Any], b: dict[str, Any], parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Return what is in one dump and not in the other, by part; empty when they are equal."""
    found: dict[str, Any] = {}
    for part in parts or a:
        if a[part] == b[part]:
            continue
        if isinstance(a[part], dict):
            keys = [k for k in {**a[part], **b[part]} if a[part].get(k) != b[part].get(k)]
            found[part] = {k: (a[part].get(k), b[part].get(k)) for k in keys}
        else:
            found[part] = ([x for x in a[part] if x not in b[part]], [x for x in b[part] if x not in a[part]])
    return found


def make_history(seed: int, final: Sequence[Session]) -> list[tuple[str, list[dict[str, Any]], bool]]:
    """Return (session, turns, replace) calls that end with `final`: growing, repeated and overwritten sessions."""
    random = Random(seed)
    other = make_sessions(seed + 1_000_003, sessions=len(final), short_forms=False)
    queues = []
    for (name, turns), (_, wrong) in zip(final, other, strict=True):
        steps = []
        if random.random() < 0.4:
            steps.append((name, wrong, False))
            steps.append((name, turns[: random.randint(1, len(turns))], True))
        for cut in sorted(random.sample(range(1, len(turns) + 1), min(len(turns), random.randint(0, 3)))):
            if not steps or not steps[-1][2] or cut > len(steps[-1][1]):
                steps.append((name, turns[:cut], False))
        steps.append((name, turns, False))
        queues.append(steps)
    calls = []
    while queues:
        queue = random.choice(queues)
        calls.append(queue.pop(0))
        queues = [q for q in queues if q]
    return calls


def fast_folder() -> str | None:
    """Return a place in memory for databases, so that waiting for a disk does not slow tests; None for the default."""
    return "/dev/shm" if Path("/dev/shm").is_dir() and os.access("/dev/shm", os.W_OK) else None


def _as_before_it_was_lean(conn: sqlite3.Connection) -> None:
    """Write into the tables of an older version what the attached database has in others."""
    conn.create_function("text_of", 1, unpack_text)
    conn.create_function("single", 1, lambda blob: unpack_vectors(blob)[0].astype("<f4").tobytes())
    conn.execute(
        """INSERT INTO main.occurrence (id, fact, chunk, speaker, text, quote, said_ms, tie, topics, cosine)
           SELECT o.id, o.fact, o.chunk, o.speaker, coalesce(o.text, f.text), coalesce(o.quote, (SELECT t.text
           FROM new.occurrence_turn x JOIN new.turn t ON t.id = x.turn WHERE x.occurrence = o.id)), o.said_ms,
           coalesce(o.tie, f.tie), o.topics, o.cosine FROM new.occurrence o JOIN new.fact f ON f.id = o.fact"""
    )
    for bit, role in ((1, "speaker"), (2, "subject"), (4, "object"), (8, "other")):
        conn.execute(
            "INSERT INTO main.mention SELECT fact, entity, ?, occurrence FROM new.mention WHERE roles & ?",
            (role, bit),
        )
    conn.create_function("wide", 1, lambda blob: array("q", unpack_ids(blob)).tobytes())
    conn.execute(
        """INSERT INTO main.node SELECT id, tree, level, key_ms, key_tie, start_ms, end_ms, count, wide(children), NULL, NULL,
           version, dirty FROM new.node"""
    )
    for kind in (
        "fact",
        "chunk",
    ):  # at another time than they say: the migration looks at what they stand for
        conn.execute(
            f"""INSERT INTO main.node SELECT id, tree, 0, 0, '', 0, 1, 1, x'', '{kind}', {kind}, 1, 0 FROM new.leaf
                WHERE {kind} IS NOT NULL"""
        )
        conn.execute(
            f"INSERT INTO main.placement SELECT '{kind}', {kind}, tree, id FROM new.leaf WHERE {kind} IS NOT NULL"
        )
    conn.execute(
        "INSERT INTO main.derived_summary SELECT node, text_of(text), maker FROM new.derived_summary"
    )
    for kind in ("turn", "fact", "node"):
        conn.execute(
            f"""INSERT INTO main.derived_vector SELECT '{kind}', item, CAST(digest || zeroblob(8) AS BLOB), (SELECT value FROM new.meta
                WHERE key = 'embedder'), length(vector) / 2, single(vector) FROM new.derived_{kind}_vector"""
        )


def _as_before_it_had_indexes(conn: sqlite3.Connection) -> None:
    """Write into the tables of an older version what the attached database has as its index's own."""
    conn.execute(
        """INSERT INTO main.entity (id, key, label, kind, active) SELECT id, key, label, kind, kind = 'participant'
           OR EXISTS (SELECT 1 FROM new.ix_memforest_active WHERE entity = id) FROM new.entity"""
    )
    conn.execute(
        """INSERT INTO main.meta SELECT replace(key, 'ix_memforest_routed', 'scenes'), value FROM new.meta
           WHERE key NOT LIKE 'next:ix%' AND key NOT LIKE 'feed_compact%' AND key NOT IN (SELECT key FROM main.meta)"""
    )
    conn.execute(
        "UPDATE main.meta SET value = (SELECT value FROM new.meta n WHERE n.key = meta.key) WHERE key != 'scenes'"
    )
    conn.execute("INSERT INTO main.meta VALUES ('session_k', 3), ('entity_k', 8), ('scene_k', 10)")
    if conn.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'scene'").fetchone():
        conn.execute("INSERT INTO main.scene SELECT * FROM new.ix_memforest_scene")
        conn.execute("INSERT INTO main.scene_member SELECT * FROM new.ix_memforest_scene_member")
        conn.execute(
            """INSERT OR IGNORE INTO main.meta
               SELECT 'next:scene', value FROM new.meta WHERE key = 'next:ix_memforest_scene'"""
        )


def _lengthen_keys(conn: sqlite3.Connection) -> None:
    """Write whole fact ids at the end of keys, as they were before they were shortened."""
    long = "(SELECT fact_id FROM fact f WHERE substr(f.fact_id, 4, 8) = substr({0}, -8))"
    for table, column in (("occurrence", "tie"), ("node", "key_tie"), ("fact", "tie")):
        whole = long.format(f"{table}.{column}")
        conn.execute(
            f"""UPDATE main.{table} SET {column} = substr({column}, 1, length({column}) - 8) || {whole}
                WHERE {whole} IS NOT NULL"""
        )
