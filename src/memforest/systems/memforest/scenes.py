"""The scenes of a stored memory: routing inside the transaction that writes facts, and the canonical derivation.

Every fact with a vector stands in one scene, and may stand in a second; every scene has one tree with its facts as
leaves. A memory that was never written with an embedder has no vectors, so it has no scenes.

Routing is online, so which scenes there are depends on the order in which facts came, but for a young memory:
until it holds `YOUNG` facts all of them are routed anew, in time order, at each write, because the background is
not known from a few. `derive` does the same at any size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.store import facts as fact_rows
from memforest.store import meta
from memforest.store.facts import FactRow
from memforest.store.tx import Tx
from memforest.systems.memforest import rows
from memforest.systems.memforest.clusters import Clusters, Member, derive
from memforest.systems.memforest.settings import DEFAULTS, MemForestSettings
from memforest.systems.memforest.thresholds import scene_thresholds

YOUNG = 64
"""Facts up to which a memory's scenes are derived anew at each write."""

ROUTED = "ix_memforest_routed"
"""Key of `meta`: the embedder by whose vectors all facts have been routed; absent before the first time."""


THRESHOLDS = "ix_memforest_thresholds"
"""Key of `meta`: the thresholds with which all facts were last routed anew, as JSON; absent in what older versions wrote."""


def routed_by(tx: Tx) -> str | None:
    """Return the embedder by whose vectors all facts have been routed, None before the first time."""
    return meta.get(tx, ROUTED)


def keep_routed(tx: Tx, model: str, merged: Collection[int]) -> None:
    """Note that all facts have been routed, where scenes came from another memory and nothing else is to be routed.

    Args:
        tx: a write transaction.
        model: the embedder.
        merged: the facts that came with the scenes; those of them that stand in none are routed by the next placing.
    """
    if routed_by(tx) is None and set(rows.outside(tx)) <= set(merged):
        meta.put(tx, ROUTED, model)


def no_scenes(tx: Tx) -> str | None:
    """Return why a memory has no scene trees; None when it has them."""
    if routed_by(tx) is not None:
        return None
    if meta.get(tx, "embedder") is None:
        return "no scene trees: scenes are made of vectors, and this memory has no embedder"
    return "no scene trees yet: the next ingest, resume() or rebuild(scopes=True) makes them"


def other_thresholds(tx: Tx, settings: MemForestSettings) -> str | None:
    """Return that the scenes would be made with other thresholds now; None when they would not, or it is not known."""
    stored, model = meta.get(tx, THRESHOLDS), routed_by(tx)
    if model is None or stored in (None, _written(model, settings)):
        return None
    return f"its scenes were made with the thresholds {stored}, and {_written(model, settings)} are set"


def _written(model: str, settings: MemForestSettings) -> str:
    return json.dumps(asdict(scene_thresholds(model, settings)), sort_keys=True)


class SceneTrees(Protocol):
    """Edits the trees of scenes."""

    def place_in_scene(self, scene: int, fact: FactRow) -> None:
        """Give a fact a leaf in the tree of a scene."""
        ...

    def take_from_scene(self, scene: int, fact: int) -> None:
        """Take a fact's leaf out of the tree of a scene."""
        ...

    def scene_hull(self, scene: int) -> tuple[int, int]:
        """Return the interval of all leaves of a scene, in ms."""
        ...


class Scenes:
    """The scenes of one memory inside one write transaction; `save` before it ends.

    Nothing is read before the first change.
    """

    def __init__(self, tx: Tx, trees: SceneTrees, settings: MemForestSettings = DEFAULTS) -> None:
        self._tx = tx
        self._settings = settings
        self._places = _Stored(tx, trees)
        self._clusters: Clusters | None = None

    def route(self, facts: Collection[int], model: str) -> None:
        """Put those of the facts that have a vector and no scene into scenes.

        Args:
            facts: rows of facts, none where facts only went; others are looked at too while the memory is young, or was
                never routed.
            model: id of the embedder that made the vectors.
        """
        self._places.model = model
        new = rows.unrouted(self._tx, facts)
        if routed_by(self._tx) != model or self._loaded().placed + len(new) <= YOUNG:
            self.derive(model)
        elif new:
            found = self._places.read(rows.fact_vectors(self._tx, new))
            self._loaded().route(found, scene_thresholds(model, self._settings))

    def derive(self, model: str) -> None:
        """Route every fact that has a vector anew, in time order, and change what is stored into the result."""
        self.save()
        self._places.model = model
        everything = self._places.read(rows.fact_vectors(self._tx))
        wanted = list(derive(everything, scene_thresholds(model, self._settings)))
        vectors = {one.fact: one.vector for one in everything}
        for scene, facts in _become(self._places, rows.all_members(self._tx), wanted).items():
            members = np.stack([vectors[fact] for fact in facts]).astype(np.float64)
            rows.put_scene(self._tx, scene, len(facts), members.mean(axis=0).astype(np.float32))
        if routed_by(self._tx) != model:
            rows.set_models(self._tx, model)
        meta.put(self._tx, ROUTED, model)
        meta.put(self._tx, THRESHOLDS, _written(model, self._settings))
        self._clusters = None

    def settle(self, scenes: Collection[int], model: str) -> None:
        """Let scenes of another memory become one with those here that they are alike."""
        self._places.model = model
        self._loaded().settle(scenes, scene_thresholds(model, self._settings))

    def leave(self, fact: int, vector: NDArray[np.float32] | None) -> None:
        """Take a fact out of its scenes; the vector is the one that it was routed by.

        Raises:
            LookupError: if it is in a scene, and has no vector to be taken out of the centroid.
        """
        found = rows.scenes_of(self._tx, fact)
        if not found:
            return
        if vector is None:
            raise LookupError(f"fact {fact} is in a scene and has no vector")
        for scene in found:
            self._loaded().leave(scene, fact, vector)

    def save(self) -> None:
        """Write the changed sizes and centroids."""
        if self._clusters is None:
            return
        for scene in sorted(self._clusters.changed & set(self._clusters.ids)):
            rows.put_scene(self._tx, scene, *self._clusters.mean(scene))
        self._clusters.changed.clear()

    def _loaded(self) -> Clusters:
        if self._clusters is None:
            self._clusters = Clusters(self._places, *rows.centroids(self._tx))
        return self._clusters


class _Stored:
    """The memberships and trees of a file, as `memforest.systems.memforest.clusters.Places`."""

    def __init__(self, tx: Tx, trees: SceneTrees) -> None:
        self._tx = tx
        self._trees = trees
        self.model = ""

    def begin(self) -> int:
        return rows.new_scene(self._tx, self.model)

    def end(self, scene: int) -> None:
        rows.delete_scene(self._tx, scene)

    def put(self, scene: int, fact: int, *, main: bool) -> None:
        if rows.add_member(self._tx, scene, fact, main=main):
            self._trees.place_in_scene(scene, fact_rows.facts_with_ids(self._tx, (fact,))[fact])

    def take(self, scene: int, fact: int) -> None:
        rows.take_member(self._tx, scene, fact)
        self._trees.take_from_scene(scene, fact)

    def members(self, scene: int) -> list[Member]:
        return self.read(rows.member_vectors(self._tx, scene))

    def hull(self, scene: int) -> tuple[int, int]:
        return self._trees.scene_hull(scene)

    def read(self, found: Iterable[rows.FactVector]) -> list[Member]:
        """Return facts in time order: by their place among a tree's leaves."""
        vectors = {one.fact: one for one in found}
        facts = fact_rows.facts_with_ids(self._tx, vectors).values()
        return [
            Member(fact.row, vectors[fact.row].vector, *fact.leaf_span, vectors[fact.row].main)
            for fact in sorted(facts, key=lambda fact: (fact.leaf_key, fact.fact_id))
        ]


def _become(
    places: _Stored, stored: Mapping[int, Mapping[int, bool]], wanted: Sequence[Mapping[int, bool]]
) -> dict[int, Mapping[int, bool]]:
    """Change the stored scenes into the wanted ones, moving only the facts that differ, and return the wanted by number."""
    number = _numbers(stored, wanted)
    kept = {scene: wanted[at] for at, scene in number.items()}
    for scene, facts in stored.items():
        for fact in facts:
            if facts[fact] != kept.get(scene, {}).get(fact):
                places.take(scene, fact)
        if scene not in kept:
            places.end(scene)
    found = {}
    for at, one in enumerate(wanted):
        scene = number[at] if at in number else places.begin()
        for fact, main in one.items():
            if stored.get(scene, {}).get(fact) != main:
                places.put(scene, fact, main=main)
        found[scene] = one
    return found


def _numbers(
    stored: Mapping[int, Mapping[int, bool]], wanted: Sequence[Mapping[int, bool]]
) -> dict[int, int]:
    """Return position of a wanted scene -> the stored scene with which it shares most; each is given once."""
    was: dict[int, list[int]] = {}
    for scene, facts in stored.items():
        for fact in facts:
            was.setdefault(fact, []).append(scene)
    shared = Counter(
        (at, scene) for at, one in enumerate(wanted) for fact in one for scene in was.get(fact, ())
    )
    number: dict[int, int] = {}
    taken: set[int] = set()
    for (at, scene), _ in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0])):
        if at not in number and scene not in taken:
            number[at] = scene
            taken.add(scene)
    return number
