"""Evidence in the paper's own form: only what browse reached, or the recalled trees' roots (paper §4.3, Tables 6 and 7).

Nothing else counts here: no words, no leaf order, no time order, no flow. The default ranks everything that was said
(`memforest.systems.memforest.rank`); what the difference is worth: docs/ranking.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from memforest.search.forest import FACT, INNER, EmbeddedForest, Forest
from memforest.search.snapshot import Snapshot
from memforest.systems.base import Found, Hit, NodeHit, Search
from memforest.systems.filters import Allowed, allowed, filter_notes
from memforest.systems.legs import Base
from memforest.systems.memforest.recall import Recalled, leaf_similarity
from memforest.systems.memforest.settings import MemForestSettings
from memforest.systems.places import fact_places, first_turns, turn_places


def of_leaves(
    snapshot: Snapshot,
    trees: EmbeddedForest,
    request: Search,
    base: Base,
    recalled: Recalled,
    settings: MemForestSettings,
) -> Found:
    """Return the turns and facts of the leaves that browse reached, best first.

    A leaf of a session tree stands for its turns; where all leaves are compared by facts, for the facts that its turns
    support, or for the turns if there are none.

    Args:
        snapshot: of the memory.
        trees: the index's.
        request: the question, with a vector; of its filters all count, of its weights none.
        base: the raw relevance of turns and facts.
        recalled: the leaves, by forest row.
        settings: `leaves` and `reached_by` count.
    """
    assert request.vector is not None  # else nothing was reached
    forest, keep = trees.forest, allowed(snapshot, request)
    near = leaf_similarity(snapshot, trees, base, request.vector, settings.leaves)
    found: dict[tuple[int, int], Hit] = {}
    for leaf, path in recalled.leaves.items():
        for turn, fact in _stands_for(snapshot, forest, keep, leaf, resolve=settings.leaves == "facts"):
            score = float(base.fact[fact] if fact >= 0 else near[leaf])
            if settings.reached_by == "path":
                score = path
            have = found.get((turn, fact))
            if have is None or score > have.score:
                scores: dict[str, float] = {settings.reached_by: score}
                found[turn, fact] = Hit(turn, fact, score, scores, leaf, browsed=path)
    notes = {"filters": filter_notes(keep), "reached": len(recalled.leaves)}
    return Found(_best_first(snapshot, base, found), _by_id(forest, recalled.trees), notes)


def of_roots(
    snapshot: Snapshot, forest: Forest, request: Search, base: Base, trees: tuple[tuple[int, float], ...]
) -> Found:
    """Return the roots of recalled trees as evidence, by the score of their recall.

    A root that is a leaf has no summary; it is what it stands for.

    Args:
        snapshot: of the memory.
        forest: the index's.
        request: the question.
        base: the raw relevance of turns and facts.
        trees: as (tree row, score), best first.
    """
    keep = allowed(snapshot, request)
    nodes: list[NodeHit] = []
    found: dict[tuple[int, int], Hit] = {}
    for tree, score in trees:
        root, scores = int(forest.tree_root[tree]), {"recall": score}
        if forest.kind[root] == INNER:
            nodes.append(NodeHit(int(forest.ids[root]), score, scores))
            continue
        for turn, fact in _stands_for(snapshot, forest, keep, root, resolve=False):
            found.setdefault((turn, fact), Hit(turn, fact, score, scores, root))
    notes = {"filters": filter_notes(keep)}
    return Found(_best_first(snapshot, base, found), _by_id(forest, trees), notes, nodes)


def _by_id(forest: Forest, trees: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    return tuple((int(forest.tree_ids[tree]), score) for tree, score in trees)


def _stands_for(
    snapshot: Snapshot, forest: Forest, keep: Allowed, leaf: int, *, resolve: bool
) -> Iterator[tuple[int, int]]:
    """Yield the turns and facts that a leaf stands for and that pass the filters, as (turn, fact or -1).

    A fact comes with the turn that said it first. `resolve` puts facts in the place of the turns that support them.
    """
    first = first_turns(snapshot)
    item = int(forest.item[leaf])
    if forest.kind[leaf] == FACT:
        facts, turns = [item], range(0)
    else:
        turns = range(item, int(forest.item_end[leaf]))
        facts = _facts_of(snapshot, turns) if resolve else []
    yield from ((int(first[fact]), fact) for fact in facts if keep.facts[fact])
    if not facts:
        yield from ((turn, -1) for turn in turns if keep.turns[turn])


def _facts_of(snapshot: Snapshot, turns: range) -> list[int]:
    """Return the facts that some turn of a range supports, ascending."""
    pairs = snapshot.facts.pairs
    within = (pairs[:, 1] >= turns.start) & (pairs[:, 1] < turns.stop)
    return sorted(set(pairs[within, 0].tolist()))


def _best_first(snapshot: Snapshot, base: Base, found: dict[tuple[int, int], Hit]) -> list[Hit]:
    """Return hits by score; those of one leaf by how near they are themselves, equal ones by when they were said."""
    turns, facts = turn_places(snapshot), fact_places(snapshot)

    def key(hit: Hit) -> tuple[float, float, int, int]:
        own = base.turn[hit.turn] if hit.fact < 0 else base.fact[hit.fact]
        place = -1 if hit.fact < 0 else int(facts[hit.fact])
        return -round(hit.score, 9), -round(float(own), 9), int(turns[hit.turn]), place

    return sorted(found.values(), key=key)
