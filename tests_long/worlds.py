"""Seeded conversations, and a dump of a memory that does not depend on row numbers.

Two memories that hold the same must have equal dumps, however they came to hold it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from memforest import AsyncMemForest, Config
from memforest.memory.memory import Memory
from memforest.models import HashEmbedder
from memforest.protection import Key
from memforest.search.cache import digests_of, forest_of
from memforest.search.forest import FACT, INNER, Forest, as_keys
from memforest.search.snapshot import Snapshot, load_snapshot
from memforest.store import artifacts, files
from memforest.store.connections import Connection, connect, errors
from memforest.trees.attached import Attached

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


def memory_of(forest: AsyncMemForest) -> Memory:
    """Return the memory that a forest has open, of the one user."""
    (held,) = forest._pool._held.values()
    assert held.memory is not None
    return held.memory


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
    "turn words": f"""SELECT ({_TURN} = w.rowid), words FROM derived_turn_words w""",
    "fact words": "SELECT f.fact_id, words FROM derived_fact_words w JOIN fact f ON f.id = w.rowid",
    "turn vectors": f"""SELECT ({_TURN} = v.item), hex(digest), hex(vector) FROM derived_turn_vector v""",
    "fact vectors": """SELECT f.fact_id, hex(digest), hex(vector) FROM derived_fact_vector v
        JOIN fact f ON f.id = v.item""",
}


def dump(path: Path) -> dict[str, Any]:
    """Return what a memory holds, with its trees, without row numbers."""
    found: dict[str, Any] = {part: rows(path, sql) for part, sql in _PARTS.items()}
    found["trees"] = {tree: shape for tree, shape, _ in _trees(path)}
    return found


def summaries(path: Path, config: Config | None = None) -> dict[str, tuple[str, str | None]]:
    """Return (summary, vector) of every node that has some, keyed by its tree and the shape of everything below it.

    A configuration counts for settings that change what summaries say, and are not kept by the memory.
    """
    return {f"{tree} {shape}": made for tree, _, nodes in _trees(path, config) for shape, made in nodes}


_Shaped = tuple[str, tuple[str, str | None]]


@contextmanager
def transaction(path: Path) -> Iterator[Connection]:
    """Open a memory's file for reading, as a transaction of it; an encrypted one with that of `KEYS` which fits."""
    salt = files.read(path)
    plain = salt is None or path.read_bytes()[:6] == b"SQLite"
    for key in [None] if plain or salt is None else [Key(one).of_file(salt.salt) for one in KEYS]:
        with closing(connect(path, 5.0, key)) as tx:
            try:
                tx.execute("SELECT 1 FROM sqlite_master").fetchall()
            except errors("DatabaseError"):
                continue
            tx.execute("BEGIN")
            yield tx
            return
    raise AssertionError("the file is encrypted with none of the keys")


def _trees(path: Path, config: Config | None = None) -> Iterator[tuple[str, Any, list[_Shaped]]]:
    """Yield the name of every tree, its shape, and what its nodes say, of all indexes."""
    facts, keys, sessions = (
        dict(rows(path, f"SELECT id, {name} FROM {table}"))
        for table, name in (("fact", "fact_id"), ("entity", "key"), ("session", "session_id"))
    )
    turns = {row[0]: row[1:] for row in rows(path, "SELECT id, session, turn_id FROM turn")}
    scopes: dict[str, dict[int, str]] = {"session": sessions, "entity": keys, "scene": facts}
    with transaction(path) as tx:
        snapshot = load_snapshot(tx)
        for index in Attached(config or Config()).of(tx):
            forest = forest_of(tx, snapshot, index)
            if not len(forest):
                continue
            digests = as_keys(digests_of(tx, snapshot, index)[forest.told])
            told = dict(zip(forest.told.tolist(), digests, strict=True))
            made, vectors = artifacts.found(tx, set(digests)), artifacts.vectors(tx, set(digests))
            shape = partial(_shape, snapshot, forest, (facts, sessions, turns), told, made, vectors)
            for tree, (kind, scope) in enumerate(
                zip(forest.tree_kind, forest.tree_scope.tolist(), strict=True)
            ):
                shaped: list[_Shaped] = []
                top = shape(shaped, int(forest.tree_root[tree]))
                yield f"{index.name}/{kind} {scopes.get(kind, {}).get(scope, scope)}", top, shaped


def _shape(
    snapshot: Snapshot,
    forest: Forest,
    names: tuple[Any, Any, Any],
    told: dict[int, bytes],
    made: dict[bytes, artifacts.Artifact],
    vectors: dict[bytes, Any],
    shaped: list[_Shaped],
    row: int,
) -> Any:
    """Return a node with all below it by the names of what it stands for, and note what each says."""
    facts, sessions, turns = names
    if forest.kind[row] == INNER:
        below = (
            _shape(snapshot, forest, names, told, made, vectors, shaped, one) for one in forest.children[row]
        )
        found: Any = [int(forest.level[row]), forest.window_of(row), *below]
    elif forest.kind[row] == FACT:
        found = facts[int(snapshot.facts.ids[forest.item[row]])]
    else:
        run = snapshot.turns.ids[forest.item[row] : forest.item_end[row]].tolist()
        found = [f"{sessions[turns[turn][0]]}/{turns[turn][1]}" for turn in run]
    if (digest := told.get(row, b"")) in made:
        vector = vectors.get(digest)
        shaped.append(
            (json.dumps(found), (made[digest].text, None if vector is None else vector.tobytes().hex()))
        )
    return found


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
