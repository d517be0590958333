"""Scenes: clusters of facts about one thing, kept up as facts come in.

A scene is known by the mean of its facts' unit vectors. Likeness is measured from the *background*, the mean
of everything: what all of a memory's facts share, such as the names of its two speakers and what an embedder
puts into any text, is taken off first. The mean is not made unit again, so the product of a fact with it is
the mean likeness to the scene's facts (average linkage), and one threshold holds for scenes of any size.

Each fact joins the scene that it is most like, a second one when it is very like that too, or begins a new
one. A scene that is near in time is preferred. A scene over `MAX_SIZE` is split in two; two that have grown
alike become one. No model is called. One fact costs one product with at most `MAX_SCENES` means, a look at the
`NEAREST` best of them, and now and then a split or a merge of scenes of bounded size.

Routing is online, so which scenes there are depends on the order in which facts came. `derive` does not.

Source: MemForest paper §4.2 (scene scope from lightweight cluster states; no model calls). The time gap of
45 days and the kinds of thresholds are those of the reference configuration; the values are calibrated per
embedder by `scripts/calibrate_scenes.py`, as quantiles of the likeness of facts that have nothing to do with
one another. Average linkage: Sokal & Michener 1958.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.trees.index import measured
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
YOUNG = 64
"""Facts up to which a memory's scenes are derived anew at each write."""
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

    def mean(self, scene: int) -> tuple[int, Vector]:
        """Return the size of a scene and its mean."""
        at = self.ids.index(scene)
        return int(self.sizes[at]), self.means[at]

    def route(
        self, arrivals: Sequence[Member], thresholds: SceneThresholds, scenes: Iterable[int] = ()
    ) -> None:
        """Put facts into scenes, and merge the scenes that have grown alike.

        Args:
            arrivals: facts that are in no scene yet, in time order.
            thresholds: decide where a fact goes.
            scenes: those that came with all of their facts, and may be like others.
        """
        touched = set(scenes)
        if not arrivals and not touched:
            return
        # The background is the mean vector of all facts, with those that arrive now.
        if not self.ids:
            self.means = np.zeros((0, len(arrivals[0].vector)), dtype=np.float32)
        total = np.einsum("s,sd->d", self.sizes.astype(np.float64), self.means)
        total = total + sum(one.vector.astype(np.float64) for one in arrivals)
        self._background = total / (int(self.sizes.sum()) + len(arrivals))
        self._spread = max(1.0 - float(self._background @ self._background), 1e-9)
        for count, fact in enumerate(arrivals, 1):
            wanted = self._best(fact, thresholds) or [self._begin()]
            joined = [self.ids[at] for at in wanted]
            for rank, (at, scene) in enumerate(zip(wanted, joined, strict=True)):
                self._places.put(scene, fact.fact, main=rank == 0)
                size = int(self.sizes[at])
                mean = self.means[at].astype(np.float64)
                self._set(at, size + 1, mean + (fact.vector - mean) / (size + 1))
            touched.update(joined)
            for scene in joined:
                if self.sizes[self.ids.index(scene)] > MAX_SIZE and len(self.ids) < MAX_SCENES:
                    touched.add(self._split(scene))
            if count % MERGE_EVERY == 0:
                self._merge(touched, thresholds.merge)
                touched = set()
        if touched:
            self._merge(touched, thresholds.merge)

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
        scored = []
        for at in near:
            start, end = self._places.hull(self.ids[at])
            gap = max(0, start - one.end_ms, one.start_ms - end) / DAY_MS
            scored.append((float(alike[at]) + thresholds.time * max(0.0, 1.0 - gap / NEAR_DAYS), at))
        scored.sort(key=lambda found: (-found[0], found[1]))
        wanted = [at for score, at in scored[:1] if score >= thresholds.join]
        if wanted:
            wanted += [
                at for score, at in scored[1:2] if score >= thresholds.second and self.sizes[at] < MAX_SIZE
            ]
        elif len(self.ids) >= MAX_SCENES:
            wanted = best[:1]
        return wanted

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
        while True:
            rows = sorted(self.ids.index(scene) for scene in touched)
            shift = np.einsum("sd,d->s", self.means, self._background.astype(np.float32))
            # (a - g)(b - g), multiplied out: no centred copy of all means.
            alike = np.einsum("td,sd->ts", self.means[rows], self.means) - shift[rows][:, None] - shift
            alike = np.round((alike + self._background @ self._background) / self._spread, 6)
            alike[np.arange(len(rows)), rows] = -np.inf
            # Short of full, so that the next fact does not split what has just been joined.
            alike[self.sizes[rows][:, None] + self.sizes > MAX_SIZE * 3 // 4] = -np.inf
            at, other = np.unravel_index(int(np.argmax(alike)), alike.shape)
            if not alike[at, other] >= least:
                return
            into, gone = sorted((rows[at], int(other)), key=lambda at: (-self.sizes[at], at))
            scene, source = self.ids[into], self.ids[gone]
            have = {member.fact for member in self._places.members(scene)}
            for member in self._places.members(source):
                self._places.take(source, member.fact)
                if member.main or member.fact not in have:
                    self._places.put(scene, member.fact, main=member.main)
            self._drop(gone)
            vectors = np.stack([member.vector for member in self._places.members(scene)])
            self._set(self.ids.index(scene), len(vectors), vectors.astype(np.float64).mean(axis=0))
            touched.discard(source)
            touched.add(scene)

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


def derive(facts: Sequence[Member], thresholds: SceneThresholds) -> list[dict[int, bool]]:
    """Return the canonical scenes of facts, which come in time order: fact -> whether it is its main scene.

    It is what routing all of them into an empty memory gives, whatever order they were stored in.
    """
    if not facts:
        return []
    places = DictPlaces({one.fact: one for one in facts})
    clusters = Clusters(places, (), (), np.zeros((0, len(facts[0].vector)), dtype=np.float32))
    clusters.route(facts, thresholds)
    return list(places.scenes.values())


_FIELDS = ("join", "second", "merge", "time")


def scene_thresholds(model_id: str, settings: MemForestSettings = DEFAULTS) -> SceneThresholds:
    """Return the thresholds that are set; where none is, that of the embedder, or that for embedders not measured."""
    table = measured("scene_thresholds.json")
    known = [table[model_id]] if model_id in table else table.values()
    found = SceneThresholds(*(max(float(one[name]) for one in known) for name in _FIELDS))
    given = {name: getattr(settings, f"scene_{name}") for name in _FIELDS}
    return replace(found, **{name: value for name, value in given.items() if value is not None})
