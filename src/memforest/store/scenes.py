"""Scenes: their centroids, and which fact is in which."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.store import meta
from memforest.store.db import Tx
from memforest.store.packing import unpack_vectors

__all__ = [
    "FactVector",
    "add_member",
    "all_members",
    "all_scenes",
    "centroids",
    "delete_scene",
    "drop_scenes",
    "fact_vectors",
    "member_vectors",
    "membership_problems",
    "new_scene",
    "put_scene",
    "scene_counts",
    "scenes_of",
    "take_member",
    "topics",
    "unrouted",
]


class FactVector(NamedTuple):
    """A fact with its vector, and whether the scene it was asked for is its main one (True if none was)."""

    fact: int
    vector: NDArray[np.float32]
    main: bool


def centroids(tx: Tx) -> tuple[list[int], list[int], NDArray[np.float32]]:
    """Return ids, sizes and centroids of all scenes, by id; the centroids' shape is (n, d)."""
    rows = tx.execute("SELECT id, size, centroid FROM scene ORDER BY id").fetchall()
    if not rows:
        return [], [], np.zeros((0, 0), dtype=np.float32)
    means = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4").reshape(len(rows), -1)
    return [row[0] for row in rows], [row[1] for row in rows], means.astype(np.float32)


def new_scene(tx: Tx, model: str) -> int:
    """Insert an empty scene and return its id, which no scene of this file has had."""
    scene = meta.take_ids(tx, "scene")
    tx.execute("INSERT INTO scene VALUES (?, ?, 0, x'')", (scene, model))
    return scene


def put_scene(tx: Tx, scene: int, size: int, mean: NDArray[np.float32]) -> None:
    """Write a scene's size and centroid (float32, little-endian)."""
    tx.execute(
        "UPDATE scene SET size = ?, centroid = ? WHERE id = ?", (size, mean.astype("<f4").tobytes(), scene)
    )


def delete_scene(tx: Tx, scene: int) -> None:
    """Delete a scene that has no members."""
    tx.execute("DELETE FROM scene WHERE id = ?", (scene,))


def drop_scenes(tx: Tx) -> None:
    """Forget all scenes and who is in them."""
    tx.execute("DELETE FROM scene_member")
    tx.execute("DELETE FROM scene")


def add_member(tx: Tx, scene: int, fact: int, *, main: bool) -> bool:
    """Put a fact into a scene, and return whether it is new there; a second membership may become the main one."""
    new = tx.execute(
        "INSERT OR IGNORE INTO scene_member (fact, scene, main) VALUES (?, ?, ?)", (fact, scene, int(main))
    ).rowcount
    if not new and main:
        tx.execute("UPDATE scene_member SET main = 1 WHERE fact = ? AND scene = ?", (fact, scene))
    return bool(new)


def take_member(tx: Tx, scene: int, fact: int) -> None:
    """Take a fact out of a scene."""
    tx.execute("DELETE FROM scene_member WHERE fact = ? AND scene = ?", (fact, scene))


def scenes_of(tx: Tx, fact: int) -> list[int]:
    """Return the scenes that a fact is in, by id."""
    rows = tx.execute("SELECT scene FROM scene_member WHERE fact = ? ORDER BY scene", (fact,))
    return [row[0] for row in rows]


def all_members(tx: Tx) -> dict[int, dict[int, bool]]:
    """Return scene -> fact -> whether that is its main scene."""
    found: dict[int, dict[int, bool]] = {row[0]: {} for row in tx.execute("SELECT id FROM scene ORDER BY id")}
    for scene, fact, main in tx.execute("SELECT scene, fact, main FROM scene_member ORDER BY scene, fact"):
        found[scene][fact] = bool(main)
    return found


def all_scenes(tx: Tx) -> list[tuple[int, str, int, NDArray[np.float32]]]:
    """Return (id, model, size, centroid) of every scene as it is stored, by id."""
    rows = tx.execute("SELECT id, model, size, centroid FROM scene ORDER BY id")
    return [(row[0], row[1], row[2], np.frombuffer(row[3], dtype="<f4")) for row in rows]


_VECTOR = "SELECT v.item, v.vector, {main} FROM derived_fact_vector v {join} {where} ORDER BY v.item"


def _vectors(rows: Iterable[tuple[int, bytes, int]]) -> list[FactVector]:
    return [FactVector(row[0], unpack_vectors(row[1])[0], bool(row[2])) for row in rows]


def fact_vectors(tx: Tx, facts: Collection[int] | None = None) -> list[FactVector]:
    """Return the facts that have a vector, all or of those given, by row."""
    if facts is None:
        return _vectors(tx.execute(_VECTOR.format(main="1", join="", where="")))
    where = "WHERE v.item IN (SELECT value FROM json_each(?))"
    return _vectors(tx.execute(_VECTOR.format(main="1", join="", where=where), (json.dumps(list(facts)),)))


def member_vectors(tx: Tx, scene: int) -> list[FactVector]:
    """Return the facts of a scene with their vectors, by row."""
    join = "JOIN scene_member m ON m.fact = v.item"
    return _vectors(tx.execute(_VECTOR.format(main="m.main", join=join, where="WHERE m.scene = ?"), (scene,)))


def unrouted(tx: Tx, facts: Collection[int]) -> list[int]:
    """Return those facts that have a vector and stand in no scene, by row."""
    rows = tx.execute(
        """SELECT v.item FROM derived_fact_vector v WHERE v.item IN (SELECT value FROM json_each(?))
           AND NOT EXISTS (SELECT 1 FROM scene_member m WHERE m.fact = v.item) ORDER BY v.item""",
        (json.dumps(list(facts)),),
    )
    return [row[0] for row in rows]


def scene_counts(tx: Tx) -> dict[str, int]:
    """Return the numbers of scenes, of facts in one and in a second one, of facts in none, and the largest's size."""
    scenes, largest = tx.execute("SELECT count(*), coalesce(max(size), 0) FROM scene").fetchone()
    facts, second = tx.execute(
        "SELECT coalesce(sum(main), 0), coalesce(sum(NOT main), 0) FROM scene_member"
    ).fetchone()
    total = tx.execute("SELECT count(*) FROM fact").fetchone()[0]
    return {"scenes": scenes, "facts": facts, "second": second, "outside": total - facts, "largest": largest}


def topics(tx: Tx, most: int = 3) -> dict[int, tuple[str, ...]]:
    """Return the topics that tell each scene from the others: common among its facts, and rare elsewhere."""
    rows = tx.execute(
        """SELECT m.scene, t.value, count(*) FROM scene_member m JOIN fact f ON f.id = m.fact, json_each(f.topics) t
           GROUP BY 1, 2 ORDER BY 1, 2"""
    ).fetchall()
    spread = Counter(topic for _, topic, _ in rows)
    scenes = len({scene for scene, _, _ in rows})
    told: dict[int, list[tuple[float, str]]] = {}
    for scene, topic, count in rows:
        told.setdefault(scene, []).append((-count * math.log1p(scenes / spread[topic]), topic))
    return {scene: tuple(topic for _, topic in sorted(found)[:most]) for scene, found in told.items()}


def membership_problems(tx: Tx, *, routed: bool) -> list[str]:
    """Return facts with another number of main scenes than one, or more than two scenes, or no leaf in one of them.

    With `routed`, every fact that has a vector must stand in a scene.
    """
    counts = tx.execute(
        "SELECT fact, sum(main), count(*) FROM scene_member GROUP BY fact HAVING sum(main) != 1 OR count(*) > 2"
    )
    problems = [f"fact {row[0]} has {row[1]} main scenes of {row[2]}" for row in counts]
    leaves = tx.execute(
        """SELECT m.fact, m.scene FROM scene_member m WHERE NOT EXISTS (SELECT 1 FROM leaf p
               JOIN tree t ON t.id = p.tree AND t.kind = 'scene' AND t.scope = m.scene WHERE p.fact = m.fact)"""
    )
    problems += [f"fact {row[0]} has no leaf in scene {row[1]}" for row in leaves]
    placed = tx.execute(
        """SELECT p.fact, t.scope FROM leaf p JOIN tree t ON t.id = p.tree
           WHERE t.kind = 'scene' AND NOT EXISTS
               (SELECT 1 FROM scene_member m WHERE m.fact = p.fact AND m.scene = t.scope)"""
    )
    problems += [f"fact {row[0]} has a leaf in scene {row[1]}, where it is not" for row in placed]
    if routed:
        outside = tx.execute(
            """SELECT v.item FROM derived_fact_vector v
               WHERE NOT EXISTS (SELECT 1 FROM scene_member m WHERE m.fact = v.item)"""
        )
        problems += [f"fact {row[0]} is in no scene" for row in outside]
    return problems
