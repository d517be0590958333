"""Settings and tables of the memforest index: entities with a tree, scenes with their centroids, and their facts.

Sources of the constants: MemForest paper §6.1 (moderate fan-out) and the reference configuration (session 3, entity 8,
scene 10; three facts in two sessions; recall.top_k 10, beam_width 10, bu_top_m 30).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError
from memforest.nodes import Key
from memforest.settings import Bound, Count, Settings
from memforest.store.connections import AMONG, Tx, listed, place_tie
from memforest.store.derived import unpack_vectors

Family: TypeAlias = Literal["session", "entity", "scene"]
FAMILIES: tuple[Family, ...] = get_args(Family)
"""The kinds of trees."""
Leaves: TypeAlias = Literal["mixed", "facts", "aligned"]
FanOut: TypeAlias = Annotated[int, Bound(ge=3)]
Likeness: TypeAlias = Annotated[float, Bound(ge=-1)] | None


@dataclass(frozen=True, slots=True)
class MemForestSettings(Settings):
    """How the memforest index grows its trees and reads them."""

    KEPT: ClassVar[tuple[str, ...]] = ("session_k", "entity_k", "scene_k", "chunks", "scene_vectors")

    session_k: FanOut = 3
    """Most children of a node in a session's tree. At least 3."""
    entity_k: FanOut = 8
    """Most children of a node in an entity's tree. At least 3."""
    scene_k: FanOut = 10
    """Most children of a node in a scene's tree. At least 3."""
    active_min_facts: Count = 3
    """An entity gets a tree of its own with this many distinct facts, if they come from enough sessions."""
    active_min_sessions: Count = 2
    """Sessions that those facts must come from. Participants always have a tree."""
    scene_join: Likeness = None
    """How like a scene a fact must be to join it, at least -1; above 1 none ever does. None is what was measured for the
    embedder (`scripts/calibrate_scenes.py`), here and in the next three."""
    scene_second: Likeness = None
    """How like a further scene it must be to stand there too."""
    scene_merge: Likeness = None
    """How alike two scenes must be to become one."""
    scene_time: Likeness = None
    """What nearness in time adds to the likeness of a fact and a scene, at most."""
    recall_trees: Count = 10
    """Trees that are browsed for a question (recall.top_k)."""
    beam_width: Count = 10
    """Nodes that browse keeps of each level of a tree."""
    facts_to_trees: Count = 30
    """Best leaves whose trees are candidates of recall beside those with the best roots (bu_top_m)."""
    families: Sequence[Family] = FAMILIES
    """Kinds of trees that are recalled: some of ``"session"``, ``"entity"`` and ``"scene"`` (paper Table 6)."""
    leaves: Leaves = "aligned"
    """How near leaves are to a question in recall (Eq. 7) and browse. ``"mixed"``: a fact by its own cosine, a session
    tree's leaf by its best turn's, which are two scales. ``"facts"``: all by facts, a session tree's leaf by the best
    fact that its turns support, as in the paper. ``"aligned"``: as mixed, with the leaves of session trees brought to
    the mean and deviation of the facts, so that neither push the others out."""
    evidence: Literal["all", "reached", "roots"] = "all"
    """What can be evidence. ``"all"``: everything that was said, by the weights of `Ranking`. ``"reached"``: only what
    browse reached, by `reached_by` alone, as in the paper. ``"roots"``: only the summaries of the recalled trees (paper
    Table 7, root-only)."""
    reached_by: Literal["leaf", "path"] = "leaf"
    """What ranks the leaves that browse reached: how near each is to the question, or its whole path on average (in a
    guided mode, its places on the way)."""
    chunks: Literal["said", "summarised"] = "said"
    """What a session tree's leaf says to the nodes above it and to browse: what was said, or a summary of it that has a
    vector of its own, as in the paper's Algorithm 1 (line 23). With a model that is a call for each chunk. Evidence is
    what was said all the same."""
    scene_vectors: Literal["facts", "summary"] = "facts"
    """What the nodes of scene trees are compared by: the facts beneath them, on average, or the vector of their
    summary, as in the paper (Alg. 1, line 33), which costs an embedding for each node."""
    summarise: Literal["kept", "every"] = "kept"
    """Which nodes' summaries are made: where the children's texts are short enough they are kept as they are, or every
    node's is made, as in the paper's Algorithm 1."""

    def _check(self) -> None:
        """Refuse no family at all, and one twice."""
        if not self.families or len(set(self.families)) < len(self.families):
            raise ConfigError("families should be at least one kind of tree, and none twice")
        object.__setattr__(self, "families", tuple(self.families))


DEFAULTS = MemForestSettings()


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
    for statement in (
        "CREATE TABLE ix_memforest_active (entity INTEGER PRIMARY KEY) STRICT",
        """CREATE TABLE ix_memforest_scene (
            id INTEGER PRIMARY KEY,
            model TEXT NOT NULL,
            size INTEGER NOT NULL,
            centroid BLOB NOT NULL
        ) STRICT""",
        # No cascade from facts: who leaves must be taken out of the centroid too, and forgetting that must fail.
        """CREATE TABLE ix_memforest_scene_member (
            fact INTEGER NOT NULL REFERENCES fact (id) DEFERRABLE INITIALLY DEFERRED,
            scene INTEGER NOT NULL REFERENCES ix_memforest_scene (id),
            main INTEGER NOT NULL,
            PRIMARY KEY (fact, scene)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX ix_memforest_scene_member_scene ON ix_memforest_scene_member (scene)",
    ):
        tx.execute(statement)


def finished_chunks(tx: Tx, chunks: Collection[int]) -> list[tuple[int, int, Key, tuple[int, int]]]:
    """Return (chunk, session, key, interval in ms) of the chunks that were extracted or failed, by session and turn.

    Key and interval are those of the chunk's leaf in its session's tree.
    """
    found = tx.execute(
        f"""SELECT c.id, c.session, a.said_ms, {place_tie("s.session_id", "c.ordinal")}, b.said_ms + 1
           FROM chunk c JOIN session s ON s.id = c.session
           JOIN turn a ON a.session = s.id AND a.ordinal = c.first
           JOIN turn b ON b.session = s.id AND b.ordinal = c.last
           WHERE c.status != 'pending' AND c.id {AMONG} ORDER BY c.session, c.ordinal""",
        (tx.ids(chunks),),
    )
    return [
        (chunk, session, (start_ms, tie), (start_ms, max(end_ms, start_ms + 1)))
        for chunk, session, start_ms, tie, end_ms in found
    ]


def known_entities(tx: Tx, entities: Collection[int]) -> tuple[set[int], set[int]]:
    """Return which of the entities are participants, and which have a tree."""
    found = [
        set(tx.column(f"{sql} {AMONG}", (tx.ids(entities),)))
        for sql in (
            "SELECT id FROM entity WHERE kind = 'participant' AND id",
            "SELECT entity FROM ix_memforest_active WHERE entity",
        )
    ]
    return found[0], found[1]


def set_active(tx: Tx, entities: Collection[int]) -> None:
    """Record that entities have a tree."""
    tx.executemany(
        "INSERT INTO ix_memforest_active VALUES (?) ON CONFLICT DO NOTHING",
        [(one,) for one in sorted(entities)],
    )


def labels(tx: Tx, trees: Collection[int]) -> dict[int, str]:
    """Return the names of trees' scopes: a session's id, an entity's display name, a scene's number."""
    return tx.pairs(
        f"""SELECT t.id, coalesce(s.session_id, e.label, CAST(t.scope AS TEXT)) FROM tree t
           LEFT JOIN session s ON t.kind = 'session' AND s.id = t.scope
           LEFT JOIN entity e ON t.kind = 'entity' AND e.id = t.scope
           WHERE t.id {AMONG}""",
        (tx.ids(trees),),
    )


def centroids(tx: Tx) -> tuple[list[int], list[int], NDArray[np.float32]]:
    """Return ids, sizes and centroids of all scenes, by id; the centroids' shape is (n, d)."""
    rows = tx.execute("SELECT id, size, centroid FROM ix_memforest_scene ORDER BY id").fetchall()
    if not rows:
        return [], [], np.zeros((0, 0), dtype=np.float32)
    means = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4").reshape(len(rows), -1)
    return [row[0] for row in rows], [row[1] for row in rows], means.astype(np.float32)


def set_models(tx: Tx, model: str) -> None:
    """Note the embedder by whose vectors all scenes are."""
    tx.execute("UPDATE ix_memforest_scene SET model = ?", (model,))


def put_scene(tx: Tx, scene: int, size: int, mean: NDArray[np.float32]) -> None:
    """Write a scene's size and centroid (float32, little-endian)."""
    tx.execute(
        "UPDATE ix_memforest_scene SET size = ?, centroid = ? WHERE id = ?",
        (size, mean.astype("<f4").tobytes(), scene),
    )


def add_member(tx: Tx, scene: int, fact: int, *, main: bool) -> bool:
    """Put a fact into a scene, and return whether it is new there; a second membership may become the main one."""
    new = tx.execute(
        "INSERT INTO ix_memforest_scene_member (fact, scene, main) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (fact, scene, int(main)),
    ).rowcount
    if not new and main:
        tx.execute(
            "UPDATE ix_memforest_scene_member SET main = 1 WHERE fact = ? AND scene = ?", (fact, scene)
        )
    return bool(new)


def scenes_of(tx: Tx, fact: int) -> list[int]:
    """Return the scenes that a fact is in, by id."""
    return tx.column("SELECT scene FROM ix_memforest_scene_member WHERE fact = ? ORDER BY scene", (fact,))


def all_members(tx: Tx) -> dict[int, dict[int, bool]]:
    """Return scene -> fact -> whether that is its main scene."""
    found: dict[int, dict[int, bool]] = {
        row[0]: {} for row in tx.execute("SELECT id FROM ix_memforest_scene ORDER BY id")
    }
    for scene, fact, main in tx.execute(
        "SELECT scene, fact, main FROM ix_memforest_scene_member ORDER BY scene, fact"
    ):
        found[scene][fact] = bool(main)
    return found


def all_scenes(tx: Tx) -> list[tuple[int, str, int, NDArray[np.float32]]]:
    """Return (id, model, size, centroid) of every scene as it is stored, by id; of bytes that are no numbers, nothing."""
    rows = tx.execute("SELECT id, model, size, centroid FROM ix_memforest_scene ORDER BY id")
    return [
        (row[0], row[1], row[2], np.frombuffer(b"" if len(row[3]) % 4 else row[3], dtype="<f4"))
        for row in rows
    ]


_SHOWN = "NOT IN (SELECT id FROM fact WHERE verdict > 1)"
"""Is none of the facts that are hidden, which stand in no tree."""
_UNROUTED = "NOT EXISTS (SELECT 1 FROM ix_memforest_scene_member m WHERE m.fact = v.item)"


def fact_vectors(
    tx: Tx, *, unrouted: Collection[int] | None = None, scene: int | None = None
) -> dict[int, tuple[NDArray[np.float32], bool]]:
    """Return the facts that have a vector, by row: fact -> (vector, whether the given scene is its main one).

    All of them; or of `unrouted` those that stand in no scene; or those of a scene. Without a scene the flag is True.
    """
    main, join, where = "1", "", ""
    values: tuple[object, ...] = ()
    if scene is not None:
        main, join = "m.main", "JOIN ix_memforest_scene_member m ON m.fact = v.item"
        where, values = "AND m.scene = ?", (scene,)
    elif unrouted is not None:
        where, values = f"AND v.item {AMONG} AND {_UNROUTED}", (tx.ids(unrouted),)
    rows = tx.execute(
        f"SELECT v.item, v.vector, {main} FROM derived_fact_vector v {join} WHERE v.item {_SHOWN} {where} ORDER BY v.item",
        values,
    )
    return {row[0]: (unpack_vectors(row[1])[0], bool(row[2])) for row in rows}


def outside(tx: Tx) -> list[int]:
    """Return the facts that have a vector and stand in no scene."""
    return tx.column(
        "SELECT item FROM derived_fact_vector WHERE item NOT IN (SELECT fact FROM ix_memforest_scene_member)"
    )


def counts(tx: Tx) -> dict[str, int]:
    """Return the numbers of entities with a tree, scenes, facts in one, in two and in none, and the largest scene's size."""
    row = tx.execute(
        """SELECT (SELECT count(*) FROM ix_memforest_active), count(*), coalesce(max(size), 0),
           (SELECT coalesce(sum(main), 0) FROM ix_memforest_scene_member),
           (SELECT coalesce(sum(NOT main), 0) FROM ix_memforest_scene_member),
           (SELECT count(*) FROM fact) - (SELECT count(*) FROM fact WHERE verdict > 1) FROM ix_memforest_scene"""
    ).fetchone()
    active, scenes, largest, facts, second, shown = row
    return {
        "active_entities": active,
        "scenes": scenes,
        "facts_in_scenes": facts,
        "facts_in_two_scenes": second,
        "facts_in_no_scene": shown - facts,
        "largest_scene": largest,
    }


def topics(tx: Tx, most: int = 3) -> dict[int, tuple[str, ...]]:
    """Return the topics that tell each scene from the others: common among its facts, and rare elsewhere."""
    rows = tx.execute(
        f"""SELECT m.scene, t.value, count(*) FROM ix_memforest_scene_member m JOIN fact f ON f.id = m.fact, {listed("f.topics")} t
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
        "SELECT fact, sum(main), count(*) FROM ix_memforest_scene_member GROUP BY fact HAVING sum(main) != 1 OR count(*) > 2"
    )
    problems = [f"fact {row[0]} has {row[1]} main scenes of {row[2]}" for row in counts]
    leaves = tx.execute(
        """SELECT m.fact, m.scene FROM ix_memforest_scene_member m WHERE NOT EXISTS (SELECT 1 FROM leaf p
               JOIN tree t ON t.id = p.tree AND t.owner = 'memforest' AND t.kind = 'scene' AND t.scope = m.scene WHERE p.fact = m.fact)"""
    )
    problems += [f"fact {row[0]} has no leaf in scene {row[1]}" for row in leaves]
    placed = tx.execute(
        """SELECT p.fact, t.scope FROM leaf p JOIN tree t ON t.id = p.tree
           WHERE t.owner = 'memforest' AND t.kind = 'scene' AND NOT EXISTS
               (SELECT 1 FROM ix_memforest_scene_member m WHERE m.fact = p.fact AND m.scene = t.scope)"""
    )
    problems += [f"fact {row[0]} has a leaf in scene {row[1]}, where it is not" for row in placed]
    if routed:
        outside = tx.execute(
            f"SELECT v.item FROM derived_fact_vector v WHERE v.item {_SHOWN} AND {_UNROUTED}"
        )
        problems += [f"fact {row[0]} is in no scene" for row in outside]
    return problems


_CONTRADICTIONS: tuple[tuple[str, str], ...] = (
    (
        """SELECT n.id FROM node n JOIN tree t ON t.id = n.tree AND t.owner = 'memforest'
           WHERE coalesce(n.span_lo, n.span_hi, n.window, n.state) IS NOT NULL""",
        "node {0} has a span, window or state, which nodes of this index have not",
    ),
    (
        """SELECT id, kind, scope FROM tree WHERE owner = 'memforest' AND NOT CASE kind
           WHEN 'session' THEN EXISTS (SELECT 1 FROM session WHERE id = scope)
           WHEN 'entity' THEN EXISTS (SELECT 1 FROM entity WHERE id = scope)
                AND EXISTS (SELECT 1 FROM ix_memforest_active WHERE entity = scope)
           WHEN 'scene' THEN EXISTS (SELECT 1 FROM ix_memforest_scene WHERE id = scope) ELSE 0 END""",
        "tree {0} is of {1} {2}, which there is not, or which has no tree",
    ),
    (
        """SELECT l.fact, t.kind, t.scope FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'memforest'
           WHERE l.fact IS NOT NULL AND (t.kind = 'session' OR (t.kind = 'entity' AND NOT EXISTS
                (SELECT 1 FROM mention m WHERE m.fact = l.fact AND m.entity = t.scope)))""",
        "fact {0} has a leaf in the tree of {1} {2}, where it does not belong",
    ),
    (
        """SELECT l.chunk, t.kind, t.scope FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'memforest'
           WHERE l.chunk IS NOT NULL AND NOT EXISTS
                (SELECT 1 FROM chunk c WHERE c.id = l.chunk AND t.kind = 'session' AND c.session = t.scope)""",
        "chunk {0} has a leaf in the tree of {1} {2}, where it does not belong",
    ),
    (
        """SELECT c.id FROM chunk c WHERE c.status != 'pending' AND NOT EXISTS
           (SELECT 1 FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'memforest' WHERE l.chunk = c.id)""",
        "chunk {0} has no leaf",
    ),
    (
        f"""SELECT DISTINCT m.fact, e.label FROM mention m JOIN entity e ON e.id = m.entity
           JOIN ix_memforest_active a ON a.entity = e.id
           WHERE m.fact {_SHOWN} AND NOT EXISTS (SELECT 1 FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'memforest'
                WHERE l.fact = m.fact AND t.kind = 'entity' AND t.scope = e.id)""",
        "fact {0} is not in the tree of {1!r}",
    ),
    (
        """SELECT DISTINCT e.label FROM mention m JOIN entity e ON e.id = m.entity AND e.kind = 'participant'
           WHERE NOT EXISTS (SELECT 1 FROM ix_memforest_active a WHERE a.entity = e.id)""",
        "{0!r} takes part and has no tree",
    ),
    (
        """SELECT max(id) FROM ix_memforest_scene HAVING max(id) >= coalesce((SELECT CAST(value AS INTEGER) FROM meta
            WHERE key = 'next:ix_memforest_scene'), 1)""",
        "scene {0} has an id that is still to be given",
    ),
)


_OWN_LEAF = "FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'memforest'"


def unmarked_chunks(tx: Tx) -> list[int]:
    """Return the chunks whose leaves have no marks for a summary of their own."""
    return tx.column(
        f"SELECT l.chunk {_OWN_LEAF} WHERE l.chunk IS NOT NULL AND l.id NOT IN (SELECT id FROM node) ORDER BY l.chunk"
    )


def marked_leaves(tx: Tx, *, chunks: bool) -> list[int]:
    """Return the leaves that have marks for a summary of their own; those of chunks only if they are asked for too."""
    return tx.column(
        f"SELECT l.id {_OWN_LEAF} JOIN node n ON n.id = l.id WHERE l.chunk IS NULL OR ? ORDER BY l.id",
        (chunks,),
    )


def placement_problems(tx: Tx) -> list[str]:
    """Return trees whose scope does not exist, leaves in the wrong tree, and items that lack a leaf."""
    return [message.format(*row) for sql, message in _CONTRADICTIONS for row in tx.execute(sql)]
