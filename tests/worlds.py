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

__all__ = ["CLOCK", "Session", "dump", "fast_config", "file_of", "make_sessions", "rows", "summaries"]

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


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted."""
    with sqlite3.connect(path) as conn:
        conn.text_factory = lambda raw: raw.decode(errors="replace")  # tests damage texts too
        found = conn.execute(sql).fetchall()
    conn.close()
    return sorted(found, key=repr)


_TURN = "SELECT s.session_id || '/' || t.turn_id FROM turn t JOIN session s ON s.id = t.session WHERE t.id"
_CELL = "SELECT s.session_id || '/' || c.ordinal FROM cell c JOIN session s ON s.id = c.session WHERE c.id"

_PARTS = {
    "sessions": "SELECT session_id, status, infer, metadata FROM session",
    "turns": """SELECT s.session_id, t.ordinal, turn_id, speaker, role, text, said_ms, time_source, t.metadata
        FROM turn t JOIN session s ON s.id = t.session""",
    "cells": """SELECT s.session_id, c.ordinal, first, last, c.status, reason, maker, skipped
        FROM cell c JOIN session s ON s.id = c.session""",
    "facts": """SELECT fact_id, text, speaker, start_ms, end_ms, precision, negated, said_ms, tie, topics
        FROM fact""",
    "occurrences": f"""SELECT f.fact_id, ({_CELL} = o.cell), o.speaker, o.topics, o.text, quote, o.said_ms, o.tie, round(cosine, 5),
        (SELECT group_concat(name, ' ') FROM (SELECT ({_TURN} = x.turn) AS name FROM occurrence_turn x
            WHERE x.occurrence = o.id ORDER BY 1))
        FROM occurrence o JOIN fact f ON f.id = o.fact""",
    "entities": "SELECT key, active, kind = 'participant' FROM entity",
    "aliases": "SELECT a.key, e.key FROM alias a JOIN entity e ON e.id = a.entity",
    "mentions": """SELECT DISTINCT f.fact_id, e.key, role FROM mention m JOIN fact f ON f.id = m.fact
        JOIN entity e ON e.id = m.entity""",
    "states": """SELECT DISTINCT f.fact_id, e.key, attribute, value, previous, change FROM state s
        JOIN fact f ON f.id = s.fact JOIN entity e ON e.id = s.entity""",
    "dirty": "SELECT count(*) FROM node WHERE dirty AND level > 0",
    "scenes": """SELECT f.fact_id, m.main, (SELECT group_concat(fact_id, ' ') FROM (SELECT g.fact_id FROM scene_member o
        JOIN fact g ON g.id = o.fact WHERE o.scene = m.scene ORDER BY 1)) FROM scene_member m
        JOIN fact f ON f.id = m.fact""",
    "turn words": f"""SELECT ({_TURN} = w.rowid), words FROM derived_turn_words w""",
    "fact words": "SELECT f.fact_id, words FROM derived_fact_words w JOIN fact f ON f.id = w.rowid",
    "turn vectors": f"""SELECT ({_TURN} = v.item), model, hex(digest), hex(vector) FROM derived_vector v
        WHERE v.kind = 'turn'""",
    "fact vectors": """SELECT f.fact_id, model, hex(digest), hex(vector) FROM derived_vector v
        JOIN fact f ON f.id = v.item WHERE v.kind = 'fact'""",
}


def dump(path: Path) -> dict[str, Any]:
    """Return what a memory holds, without row numbers and without the boundaries of inner nodes."""
    found: dict[str, Any] = {part: rows(path, sql) for part, sql in _PARTS.items()}
    found["trees"] = {tree: leaves for tree, leaves, _ in _trees(path)}
    return found


def summaries(path: Path) -> dict[str, tuple[str | None, str | None]]:
    """Return (summary, vector) of every inner node, keyed by its tree and the shape of everything below it."""
    found = {}
    for tree, _, nodes in _trees(path):
        found.update({f"{tree} {shape}": made for shape, made in nodes})
    return found


_Shaped = tuple[str, tuple[str | None, str | None]]


def _trees(path: Path) -> Iterator[tuple[str, list[Any], list[_Shaped]]]:
    conn = sqlite3.connect(path)
    made = {
        row[0]: (row[1], row[2])
        for row in conn.execute(
            """SELECT n.id, s.text, hex(v.vector) FROM node n LEFT JOIN derived_summary s ON s.node = n.id
               LEFT JOIN derived_vector v ON v.kind = 'node' AND v.item = n.id WHERE n.level > 0"""
        )
    }
    nodes = {
        row[0]: row for row in conn.execute("SELECT id, children, key_ms, key_tie, item_kind, item FROM node")
    }
    names = {("fact", row[0]): row[1] for row in conn.execute("SELECT id, fact_id FROM fact")} | {
        ("cell", row[0]): row[1]
        for row in conn.execute(
            "SELECT c.id, s.session_id || '/' || c.ordinal FROM cell c JOIN session s ON s.id = c.session"
        )
    }
    heads = conn.execute(
        """SELECT t.kind || ' ' || coalesce(s.session_id, e.key, ''), t.k, t.root, t.count FROM tree t
           LEFT JOIN session s ON t.kind = 'session' AND s.id = t.scope
           LEFT JOIN entity e ON t.kind = 'entity' AND e.id = t.scope ORDER BY 1"""
    ).fetchall()
    conn.close()

    for name, k, root, count in heads:
        leaves: list[Any] = [k, count]
        shaped: list[_Shaped] = []

        def shape(node: int, leaves: list[Any] = leaves, shaped: list[_Shaped] = shaped) -> Any:
            _, children, key_ms, key_tie, item_kind, item = nodes[node]
            ids = array("q")
            ids.frombytes(children)
            if not ids:
                leaf = [key_ms, key_tie, item_kind, names[item_kind, item]]
                leaves.append(leaf)
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
