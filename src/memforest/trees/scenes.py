"""The scenes of a stored memory: routing inside the transaction that writes facts, and the canonical derivation.

Every fact with a vector stands in one scene, and may stand in a second; every scene has one tree with its facts as
leaves. A memory that was never written with an embedder has no vectors, so it has no scenes.

Routing is online, so which scenes there are depends on the order in which facts came, but for a young memory:
until it holds `YOUNG` facts all of them are routed anew, in time order, at each write, because the background is
not known from a few. `derive` does the same at any size.


Scenes: clusters of facts about one thing, maintained as facts come in.

A scene is known by the mean of its facts' unit vectors. Likeness is measured from the *background*, the mean
of everything: what all of a memory's facts share, such as the names of its two speakers and what an embedder
puts into any text, is taken off first. The mean is not made unit again, so the product of a fact with it is
the mean likeness to the scene's facts (average linkage), and one threshold holds for scenes of any size.

Each fact joins the scene that it is most like, a second one when it is very like that too, or begins a new
one. A scene that is near in time is preferred. A scene over `MAX_SIZE` is split in two; two that have grown
alike become one. No model is called. One fact costs one product with at most `MAX_SCENES` means, a look at the
`NEAREST` best of them, and now and then a split or a merge of scenes of bounded size.

Source: MemForest paper §4.2 (scene scope from lightweight cluster states; no model calls). The time gap of
45 days and the kinds of thresholds are those of the reference configuration; the values are calibrated per
embedder (`scripts/calibrate_scenes.py`). Average linkage: Sokal & Michener 1958.


The likenesses at which facts are one scene, per embedder.

They come from `scripts/calibrate_scenes.py`, as quantiles of the likeness of facts that have nothing to do
with one another. An embedder without a calibration gets the strictest of those measured: what is taken off
as background makes likenesses of different models comparable, and a scene too many costs nothing but tidiness.

"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.store import facts as facts_rows
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.store.facts import FactRow
from memforest.trees import memforest_rows
from memforest.trees.memforest_rows import DEFAULTS, MemForestSettings

MAX_SIZE = 64
"""Members at which a scene is full: one more, and it is split (reference configuration: 60)."""
MAX_SCENES = 512
"""With this many scenes none is begun or split any more, which bounds what a fact costs: it joins the most alike."""
NEAREST = 8
"""Scenes whose nearness in time is looked at, per fact."""
NEAR_DAYS = 45.0
"""A scene further away in time than this gets nothing for it."""
MERGE_EVERY = 64
"""Facts routed between two looks for scenes that have grown alike."""
LEAST_SHARE = 0.25
"""Least part of a scene's members on either side of a split, so that a split is not soon followed by another."""
DAY_MS = 86_400_000

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SceneThresholds:
    """Likenesses, each in [-1, 1], that decide where a fact goes."""

    join: float
    """Least to join the most alike scene."""
    second: float
    """Least to stand in the next one too."""
    merge: float
    """Least mean likeness of two scenes that become one."""
    time: float
    """Added for a scene at the time of the fact."""


class Member(NamedTuple):
    """A fact in a scene: its unit vector, shape (d,), its interval in ms, and whether this is its main scene."""

    fact: int
    vector: Vector
    start_ms: int
    end_ms: int
    main: bool = True


class Places(Protocol):
    """The storage of scenes and their members."""

    def begin(self) -> int:
        """Return a new, empty scene, numbered higher than any before."""
        ...

    def end(self, scene: int) -> None:
        """Forget an empty scene."""
        ...

    def put(self, scene: int, fact: int, *, main: bool) -> None:
        """Put a fact into a scene; one that is in it already may become main."""
        ...

    def take(self, scene: int, fact: int) -> None:
        """Take a fact out of a scene."""
        ...

    def members(self, scene: int) -> list[Member]:
        """Return a scene's facts in time order."""
        ...

    def hull(self, scene: int) -> tuple[int, int]:
        """Return the interval that holds all facts of a scene, which has some, in ms."""
        ...


def likeness(
    rows: NDArray[np.floating], others: NDArray[np.floating], background: NDArray[np.float64]
) -> float:
    """Return the mean likeness of two groups of unit vectors, shapes (n, d) and (m, d), above the background (d,).

    Example:
        >>> axes = np.eye(2)
        >>> likeness(axes[:1], axes[:1], np.zeros(2)), likeness(axes[:1], axes[1:], np.full(2, 0.5))
        (1.0, -1.0)
    """
    spread = max(1.0 - float(background @ background), 1e-9)
    return float((rows.mean(axis=0) - background) @ (others.mean(axis=0) - background)) / spread


def halves(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each row whether it belongs to the first of two groups: 2-means, deterministic.

    The first seed is the row least like the mean, the second the one least like the first. Each group has at
    least `LEAST_SHARE` of the rows: past that, rows go to the other group in order of how little they lean.

    Args:
        rows: float64, shape (n, d) with n at least 2; only directions matter.

    Example:
        >>> halves(np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])).tolist()
        [True, False, True, False]
    """
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    one = units[int(np.argmin(np.round(units @ units.mean(axis=0), 9)))]
    other = units[int(np.argmin(np.round(units @ one, 9)))]
    for _ in range(10):
        first = units @ one >= units @ other
        if first.all() or not first.any():
            break
        one, other = units[first].mean(axis=0), units[~first].mean(axis=0)
        one, other = (mean / max(float(np.linalg.norm(mean)), 1e-9) for mean in (one, other))
    lean = np.round(units @ one - units @ other, 9)
    least = max(1, int(len(rows) * LEAST_SHARE))
    size = min(max(int((lean >= 0).sum()), least), len(rows) - least)
    first = np.zeros(len(rows), dtype=np.bool_)
    first[np.argsort(-lean, kind="stable")[:size]] = True
    return first


class Clusters:
    """The scenes of one memory with their sizes and means, and the routing of facts to them.

    Args:
        places: who is in which; kept in step with every change here.
        ids: the scenes, ascending.
        sizes: their numbers of members.
        means: float32, shape (scenes, d): the mean of the members' unit vectors.
    """

    def __init__(
        self, places: Places, ids: Sequence[int], sizes: Sequence[int], means: NDArray[np.float32]
    ) -> None:
        self._places = places
        self.ids = list(ids)
        self.sizes = np.array(sizes, dtype=np.int64)
        self.means = means.copy()
        self.changed: set[int] = set()
        """Scenes whose size or mean is another than at the beginning; some may be gone."""
        self._background = np.zeros(means.shape[1])
        self._spread = 1.0

    @property
    def placed(self) -> int:
        """Memberships, second ones included."""
        return int(self.sizes.sum())

    def mean(self, scene: int) -> tuple[int, Vector]:
        """Return the size of a scene and its mean."""
        at = self.ids.index(scene)
        return int(self.sizes[at]), self.means[at]

    def route(self, arrivals: Sequence[Member], thresholds: SceneThresholds) -> None:
        """Put facts, which are in no scene yet and come in time order, into scenes."""
        if not arrivals:
            return
        self._measure(arrivals)
        touched: set[int] = set()
        for count, one in enumerate(arrivals, 1):
            touched |= self._place(one, thresholds)
            if count % MERGE_EVERY == 0 or count == len(arrivals):
                self._merge(touched, thresholds.merge)
                touched = set()

    def settle(self, scenes: Iterable[int], thresholds: SceneThresholds) -> None:
        """Let scenes that came with all of their facts become one with those that they are alike."""
        self._measure(())
        self._merge(set(scenes), thresholds.merge)

    def leave(self, scene: int, fact: int, vector: Vector) -> None:
        """Take a fact out of a scene; an empty scene goes."""
        at = self.ids.index(scene)
        self._places.take(scene, fact)
        size = int(self.sizes[at])
        if size == 1:
            self._drop(at)
            return
        rest = (self.means[at].astype(np.float64) * size - vector) / (size - 1)
        self._set(at, size - 1, rest)

    # -- one fact ---------------------------------------------------------------------------------

    def _measure(self, arrivals: Sequence[Member]) -> None:
        """Set the background: the mean vector of all facts, with those that arrive now."""
        if not self.ids:
            self.means = np.zeros((0, len(arrivals[0].vector)), dtype=np.float32)
        total = np.einsum("s,sd->d", self.sizes.astype(np.float64), self.means)
        total = total + sum(one.vector.astype(np.float64) for one in arrivals)
        self._background = total / (self.placed + len(arrivals))
        self._spread = max(1.0 - float(self._background @ self._background), 1e-9)

    def _place(self, one: Member, thresholds: SceneThresholds) -> set[int]:
        """Put one fact where it belongs and return the scenes that changed."""
        wanted = self._best(one, thresholds)
        if not wanted:
            wanted = [self._begin()]
        scenes = [self.ids[at] for at in wanted]
        for rank, (at, scene) in enumerate(zip(wanted, scenes, strict=True)):
            self._places.put(scene, one.fact, main=rank == 0)
            size = int(self.sizes[at])
            mean = self.means[at].astype(np.float64)
            self._set(at, size + 1, mean + (one.vector - mean) / (size + 1))
        touched = set(scenes)
        for scene in scenes:
            if self.sizes[self.ids.index(scene)] > MAX_SIZE and len(self.ids) < MAX_SCENES:
                touched.add(self._split(scene))
        return touched

    def _best(self, one: Member, thresholds: SceneThresholds) -> list[int]:
        """Return the positions of the one or two scenes that a fact joins; none when it is like none of them."""
        if not self.ids:
            return []
        own = one.vector - self._background
        length = max(float(np.linalg.norm(own)), 1e-6)
        # Summed in this thread, as in `memforest.search.scores.cosines`.
        products = np.einsum("sd,d->s", self.means, own.astype(np.float32)) - self._background @ own
        alike = np.round(products / (length * np.sqrt(self._spread)), 6)
        best = np.argsort(-alike, kind="stable")[:NEAREST].tolist()
        near = [at for at in best if alike[at] >= thresholds.join - thresholds.time]
        scored = sorted(
            ((float(alike[at]) + thresholds.time * self._nearness(self.ids[at], one), at) for at in near),
            key=lambda found: (-found[0], found[1]),
        )
        wanted = [at for score, at in scored[:1] if score >= thresholds.join]
        if wanted:
            wanted += [
                at for score, at in scored[1:2] if score >= thresholds.second and self.sizes[at] < MAX_SIZE
            ]
        elif len(self.ids) >= MAX_SCENES:
            wanted = best[:1]
        return wanted

    def _nearness(self, scene: int, one: Member) -> float:
        """Return 1 for a scene at the time of a fact, falling to 0 at `NEAR_DAYS` from it."""
        start, end = self._places.hull(scene)
        gap = max(0, start - one.end_ms, one.start_ms - end) / DAY_MS
        return max(0.0, 1.0 - gap / NEAR_DAYS)

    # -- splits and merges ------------------------------------------------------------------------

    def _split(self, scene: int) -> int:
        """Move the smaller half of a scene to a new one, and return that."""
        members = self._places.members(scene)
        rows = np.stack([member.vector for member in members]).astype(np.float64)
        first = halves(rows - self._background)
        stays = first if first.sum() * 2 >= len(first) else ~first
        at = self._begin()
        new = self.ids[at]
        for member, stay in zip(members, stays.tolist(), strict=True):
            if not stay:
                self._places.take(scene, member.fact)
                self._places.put(new, member.fact, main=member.main)
        self._set(at, int((~stays).sum()), rows[~stays].mean(axis=0))
        self._set(self.ids.index(scene), int(stays.sum()), rows[stays].mean(axis=0))
        return new

    def _merge(self, touched: set[int], least: float) -> None:
        """Merge scenes that have grown alike, at least one of them touched, the most alike first."""
        while (pair := self._most_alike(touched, least)) is not None:
            into, gone = sorted(pair, key=lambda at: (-self.sizes[at], at))
            scene, source = self.ids[into], self.ids[gone]
            have = {member.fact for member in self._places.members(scene)}
            for member in self._places.members(source):
                self._places.take(source, member.fact)
                if member.main or member.fact not in have:
                    self._places.put(scene, member.fact, main=member.main)
            self._drop(gone)
            rows = np.stack([member.vector for member in self._places.members(scene)])
            self._set(self.ids.index(scene), len(rows), rows.astype(np.float64).mean(axis=0))
            touched.discard(source)
            touched.add(scene)

    def _most_alike(self, touched: Iterable[int], least: float) -> tuple[int, int] | None:
        """Return the positions of the most alike pair, one of them touched, that may be merged."""
        rows = sorted(self.ids.index(scene) for scene in touched)
        shift = np.einsum("sd,d->s", self.means, self._background.astype(np.float32))
        # (a - g)(b - g), multiplied out: no centred copy of all means.
        alike = np.einsum("td,sd->ts", self.means[rows], self.means) - shift[rows][:, None] - shift
        alike = np.round((alike + self._background @ self._background) / self._spread, 6)
        alike[np.arange(len(rows)), rows] = -np.inf
        # Short of full, so that the next fact does not split what has just been joined.
        alike[self.sizes[rows][:, None] + self.sizes > MAX_SIZE * 3 // 4] = -np.inf
        at, other = np.unravel_index(int(np.argmax(alike)), alike.shape)
        return (rows[at], int(other)) if alike[at, other] >= least else None

    # -- small parts ------------------------------------------------------------------------------

    def _begin(self) -> int:
        """Begin an empty scene and return its position."""
        scene = self._places.begin()
        self.ids.append(scene)
        self.sizes = np.append(self.sizes, 0)
        self.means = np.vstack([self.means, np.zeros((1, self.means.shape[1]), dtype=np.float32)])
        self.changed.add(scene)
        return len(self.ids) - 1

    def _drop(self, at: int) -> None:
        scene = self.ids.pop(at)
        self.sizes = np.delete(self.sizes, at)
        self.means = np.delete(self.means, at, axis=0)
        self.changed.add(scene)
        self._places.end(scene)

    def _set(self, at: int, size: int, mean: NDArray[np.float64]) -> None:
        self.sizes[at] = size
        self.means[at] = mean
        self.changed.add(self.ids[at])


@dataclass(slots=True)
class DictPlaces:
    """Scenes in memory."""

    facts: Mapping[int, Member]
    """Every fact that may be placed."""
    scenes: dict[int, dict[int, bool]] = field(default_factory=dict)
    """Scene -> fact -> whether it is its main scene."""
    last: int = 0
    _hulls: dict[int, tuple[int, int]] = field(default_factory=dict)

    def begin(self) -> int:
        """Return the next number."""
        self.last += 1
        self.scenes[self.last] = {}
        return self.last

    def end(self, scene: int) -> None:
        """Forget an empty scene."""
        assert not self.scenes[scene], "the scene has members"
        del self.scenes[scene]
        self._hulls.pop(scene, None)

    def put(self, scene: int, fact: int, *, main: bool) -> None:
        """Note the membership."""
        self.scenes[scene][fact] = main or self.scenes[scene].get(fact, False)
        if scene in self._hulls:
            (start, end), one = self._hulls[scene], self.facts[fact]
            self._hulls[scene] = min(start, one.start_ms), max(end, one.end_ms)

    def take(self, scene: int, fact: int) -> None:
        """Forget the membership."""
        del self.scenes[scene][fact]
        self._hulls.pop(scene, None)

    def members(self, scene: int) -> list[Member]:
        """Return the facts of a scene by start, then number."""
        found = [self.facts[fact]._replace(main=main) for fact, main in self.scenes[scene].items()]
        return sorted(found, key=lambda member: (member.start_ms, member.fact))

    def hull(self, scene: int) -> tuple[int, int]:
        """Return the interval of all members."""
        if scene not in self._hulls:
            spans = [self.facts[fact] for fact in self.scenes[scene]]
            self._hulls[scene] = min(one.start_ms for one in spans), max(one.end_ms for one in spans)
        return self._hulls[scene]


def derive(facts: Sequence[Member], thresholds: SceneThresholds) -> Iterator[dict[int, bool]]:
    """Yield the canonical scenes of facts, which come in time order: fact -> whether it is its main scene.

    It is what routing all of them into an empty memory gives, whatever order they were stored in.
    """
    if not facts:
        return
    places = DictPlaces({one.fact: one for one in facts})
    clusters = Clusters(places, (), (), np.zeros((0, len(facts[0].vector)), dtype=np.float32))
    clusters.route(facts, thresholds)
    yield from places.scenes.values()


_FIELDS = ("join", "second", "merge", "time")


@cache
def _table() -> dict[str, SceneThresholds]:
    text = files("memforest.data").joinpath("scene_thresholds.json").read_text(encoding="utf-8")
    return {
        model: SceneThresholds(**{name: float(entry[name]) for name in _FIELDS})
        for model, entry in json.loads(text)["models"].items()
    }


def scene_thresholds(model_id: str, settings: MemForestSettings = DEFAULTS) -> SceneThresholds:
    """Return the thresholds that are set; where none is, that of the embedder, or that for embedders not measured."""
    table = _table()
    found = table.get(model_id)
    if found is None:
        found = SceneThresholds(*(max(getattr(one, name) for one in table.values()) for name in _FIELDS))
    given = {name: getattr(settings, f"scene_{name}") for name in _FIELDS}
    return replace(found, **{name: value for name, value in given.items() if value is not None})


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
    if routed_by(tx) is None and set(memforest_rows.outside(tx)) <= set(merged):
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
        self._places = _StoredPlaces(tx, trees)
        self._clusters: Clusters | None = None

    def route(self, facts: Collection[int], model: str) -> None:
        """Put those of the facts that have a vector and no scene into scenes.

        Args:
            facts: rows of facts, none where facts only went; others are looked at too while the memory is young, or was
                never routed.
            model: id of the embedder that made the vectors.
        """
        self._places.model = model
        new = memforest_rows.unrouted(self._tx, facts)
        if routed_by(self._tx) != model or self._loaded().placed + len(new) <= YOUNG:
            self.derive(model)
        elif new:
            found = self._places.read(memforest_rows.fact_vectors(self._tx, new))
            self._loaded().route(found, scene_thresholds(model, self._settings))

    def derive(self, model: str) -> None:
        """Route every fact that has a vector anew, in time order, and change what is stored into the result."""
        self.save()
        self._places.model = model
        everything = self._places.read(memforest_rows.fact_vectors(self._tx))
        wanted = list(derive(everything, scene_thresholds(model, self._settings)))
        vectors = {one.fact: one.vector for one in everything}
        for scene, facts in _become(self._places, memforest_rows.all_members(self._tx), wanted).items():
            members = np.stack([vectors[fact] for fact in facts]).astype(np.float64)
            memforest_rows.put_scene(self._tx, scene, len(facts), members.mean(axis=0).astype(np.float32))
        if routed_by(self._tx) != model:
            memforest_rows.set_models(self._tx, model)
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
        found = memforest_rows.scenes_of(self._tx, fact)
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
            memforest_rows.put_scene(self._tx, scene, *self._clusters.mean(scene))
        self._clusters.changed.clear()

    def _loaded(self) -> Clusters:
        if self._clusters is None:
            self._clusters = Clusters(self._places, *memforest_rows.centroids(self._tx))
        return self._clusters


class _StoredPlaces:
    """The memberships and trees of a file, as `memforest.trees.scenes.Places`."""

    def __init__(self, tx: Tx, trees: SceneTrees) -> None:
        self._tx = tx
        self._trees = trees
        self.model = ""

    def begin(self) -> int:
        return memforest_rows.new_scene(self._tx, self.model)

    def end(self, scene: int) -> None:
        memforest_rows.delete_scene(self._tx, scene)

    def put(self, scene: int, fact: int, *, main: bool) -> None:
        if memforest_rows.add_member(self._tx, scene, fact, main=main):
            self._trees.place_in_scene(scene, facts_rows.facts_with_ids(self._tx, (fact,))[fact])

    def take(self, scene: int, fact: int) -> None:
        memforest_rows.take_member(self._tx, scene, fact)
        self._trees.take_from_scene(scene, fact)

    def members(self, scene: int) -> list[Member]:
        return self.read(memforest_rows.member_vectors(self._tx, scene))

    def hull(self, scene: int) -> tuple[int, int]:
        return self._trees.scene_hull(scene)

    def read(self, found: Iterable[memforest_rows.FactVector]) -> list[Member]:
        """Return facts in time order: by their place among a tree's leaves."""
        vectors = {one.fact: one for one in found}
        facts = facts_rows.facts_with_ids(self._tx, vectors).values()
        return [
            Member(fact.row, vectors[fact.row].vector, *fact.leaf_span, vectors[fact.row].main)
            for fact in sorted(facts, key=lambda fact: (fact.leaf_key, fact.fact_id))
        ]


def _become(
    places: _StoredPlaces, stored: Mapping[int, Mapping[int, bool]], wanted: Sequence[Mapping[int, bool]]
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
