"""`verify`: every invariant that a memory can check of itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memforest.facts.canonical import fact_identity
from memforest.interval import from_ms
from memforest.memory.results import Problem, VerifyReport
from memforest.search.texts import digest, mean_digest, turn_text
from memforest.store import checks, meta, sessions
from memforest.store import facts as fact_rows
from memforest.store import scenes as scene_rows
from memforest.store import trees as tree_rows
from memforest.store.db import Tx
from memforest.store.trees import SqliteArena
from memforest.systems.memforest.scenes import no_scenes, routed_by
from memforest.tree import check, leaves

__all__ = ["verify", "wrong_vectors"]

CENTROID_ERROR = 1e-4
"""By how much a coordinate of a centroid may be off: it is updated in float32, once per fact that comes or goes."""


def verify(tx: Tx) -> VerifyReport:
    """Check the file, the trees, placements, facts, and derived rows of a memory.

    Returns:
        The problems found, in words, and how many things of each kind were looked at. In a damaged file
        nothing else is looked at.
    """
    checked = {"trees": 0, "leaves": 0}
    problems = [Problem("file", message) for message in checks.file_problems(tx)]
    if problems:
        return VerifyReport(tuple(problems), checked)
    for part, find in _PARTS.items():
        try:
            problems += find(tx, checked)
        except (LookupError, TypeError, ValueError) as exc:
            # Rows that SQLite finds sound and that cannot be: a checker must not trust what it checks.
            problems.append(Problem(part, f"the rows contradict each other: {exc!r}"))
    lack = no_scenes(tx)
    return VerifyReport(tuple(problems), checked, () if lack is None else (lack,))


def _sessions(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that turns are numbered without gaps and that cells cover them."""
    checked["sessions"] = len(sessions.list_sessions(tx))
    return [Problem("session", message) for message in checks.session_problems(tx)]


def _words(tx: Tx, _checked: dict[str, int]) -> list[Problem]:
    """Check that the lexical index has what there is, and nothing else."""
    return [Problem("words", message) for message in checks.word_problems(tx)]


def _trees(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check each tree's shape, and that placements and leaves are inverse maps."""
    arena = SqliteArena(tx)
    problems = []
    placed: dict[int, tuple[str, int, int]] = {}
    for kind, scope, head in tree_rows.heads(tx):
        name = f"{kind} tree {scope}"
        problems += [Problem("tree", f"{name}: {message}") for message in check(arena, head)]
        if head.root is not None:
            for leaf in leaves(arena, head):
                placed[leaf.id] = (leaf.item_kind or "", leaf.item or 0, head.tree)
        checked["trees"] += 1
    checked["leaves"] = len(placed)
    stored = checks.all_placements(tx)
    for leaf_id in sorted(placed.keys() ^ stored.keys()):
        where = "has no placement" if leaf_id in placed else "is placed but in no tree"
        problems.append(Problem("placement", f"leaf {leaf_id} {where}"))
    for leaf_id in sorted(placed.keys() & stored.keys()):
        if placed[leaf_id] != stored[leaf_id]:
            problems.append(
                Problem("placement", f"leaf {leaf_id} stands for another item than its placement says")
            )
    problems += [Problem("placement", message) for message in checks.unplaced_items(tx)]
    return problems


def _facts(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check each fact's identity, its first occurrence, and that something supports it."""
    problems = []
    facts = list(fact_rows.iter_facts(tx))
    occurrences = fact_rows.occurrences(tx, [fact.row for fact in facts])
    for fact in facts:
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        if fact.fact_id != fact_identity(fact.text, times[0], times[1]):
            problems.append(
                Problem("fact", f"{fact.fact_id}: the text or time is not what the identity was made of")
            )
        found = occurrences[fact.row]
        if not found or not all(one.turns for one in found):
            problems.append(Problem("fact", f"{fact.fact_id}: nothing supports it"))
        elif (found[0].said_ms, found[0].tie) != (fact.said_ms, fact.tie):
            problems.append(Problem("fact", f"{fact.fact_id}: it is not dated by its first occurrence"))
    checked["facts"] = len(facts)
    return problems + [Problem("fact", message) for message in checks.state_problems(tx)]


def _vectors(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that each vector is of the text it stands for, of one model, and of unit length."""
    found = wrong_vectors(tx)
    checked["vectors"] = len(checks.vector_digests(tx))
    return [Problem("vector", f"the vector of {kind} {item} {message}") for kind, item, message in found]


def wrong_vectors(tx: Tx) -> list[tuple[str, int, str]]:
    """Return (kind, item, what is wrong) of every vector that has to be made anew."""
    problems = checks.vector_problems(tx)
    expected = {
        **{("turn", row): turn_text(speaker, text) for row, speaker, text in checks.turn_texts(tx)},
        **{("fact", row): text for row, text in checks.fact_texts(tx)},
        **{("node", row): text for row, text in checks.summary_texts(tx)},
    }
    for kind, item, stored in checks.vector_digests(tx):
        text = expected.get((kind, item))
        if text is None or stored not in (digest(text), mean_digest(text) if kind == "node" else b""):
            problems.append((kind, item, "is not of its present text"))
    return problems


def _scenes(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that scenes and their trees are one to one, and that centroids and memberships are those of the facts."""
    members = scene_rows.all_members(tx)
    trees = {scope: head.count for kind, scope, head in tree_rows.heads(tx) if kind == "scene"}
    messages = [f"scene {scene} has no tree" for scene in sorted(members.keys() - trees.keys())]
    messages += [
        f"there is a tree of scene {scene}, which is none" for scene in sorted(trees.keys() - members.keys())
    ]
    model = meta.get(tx, "embedder")
    for scene, made_by, size, centroid in scene_rows.all_scenes(tx):
        if made_by != model:
            messages.append(f"scene {scene} is of vectors by {made_by!r}, not {model!r}")
        if not size == len(members[scene]) == trees.get(scene, size):
            messages.append(
                f"scene {scene}: size {size}, {len(members[scene])} members, {trees.get(scene)} leaves"
            )
        vectors = [one.vector for one in scene_rows.member_vectors(tx, scene)]
        if len(vectors) < size:
            continue  # a missing vector is made anew by the next write; nothing can be compared till then
        if not np.allclose(np.mean(vectors, axis=0), centroid, atol=CENTROID_ERROR):
            messages.append(f"scene {scene}: the centroid is not the mean of its facts' vectors")
    messages += scene_rows.membership_problems(tx, routed=routed_by(tx) is not None)
    checked["scenes"] = len(members)
    return [Problem("scene", message) for message in messages]


_PARTS: dict[str, Callable[[Tx, dict[str, int]], list[Problem]]] = {
    "session": _sessions,
    "tree": _trees,
    "fact": _facts,
    "vector": _vectors,
    "scene": _scenes,
    "words": _words,
}
