"""The trees of the memforest index: sessions, entities and scenes (paper §4.1 and §4.2).

Session trees hold a session's chunks; entity trees the facts that name an entity, and every participant has one. Another entity
gets its tree when enough is known of it (`MemForestSettings.active_min_facts` facts from `active_min_sessions` sessions). Every
fact with a vector stands in one scene, and may stand in a second.

A scene is what is like its *pivot*, a fact. Facts are taken in an order that follows from what they say; one that is not like
any pivot so far becomes one itself, and every fact joins the pivot that it is most like, one near in time being preferred
(pivot clustering; Ailon, Charikar and Newman 2008, https://doi.org/10.1145/1411509.1411513). So scenes do not depend on what
came when, and a fact more or less moves few others. Likeness is measured from the *background*, the mean of the first
facts in that order. This removes what all facts of a memory share, such as the names of its two speakers, and what an
embedder puts into any text. A scene that is too large gets pivots that are less alike. No model is called.

Sources of the constants: MemForest paper §6.1 (moderate fan-out) and the reference configuration (session 3, entity 8,
scene 10; three facts in two sessions; scenes of at most 60; recall.top_k 10, beam_width 10, bu_top_m 30).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError
from memforest.search.filters import fact_places
from memforest.search.forest import CHUNK, INNER, NONE, NOTHING, Forest, Ints, marks_of, mixed
from memforest.search.scores import Scores
from memforest.search.snapshot import Facts, Snapshot, once_per_snapshot, rows_of
from memforest.settings import Bound, Count, Settings, experimental
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.times import DAY_MS
from memforest.trees.index import measured
from memforest.trees.kernel import Growth, fact_times

OWNER = "memforest"
"""Name of the index."""

Family: TypeAlias = Literal["session", "entity", "scene"]
FAMILIES: tuple[Family, ...] = get_args(Family)
"""The kinds of trees."""
Leaves: TypeAlias = Literal["mixed", "facts", "aligned"]
FanOut: TypeAlias = Annotated[int, Bound(ge=3)]
Likeness: TypeAlias = Annotated[float, Bound(ge=-1)] | None


@dataclass(frozen=True, slots=True)
class MemForestSettings(Settings):
    """How the memforest index grows its trees and reads them."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "session_k",
        "entity_k",
        "scene_k",
        "packing",
        "chunks",
        "scene_vectors",
    )

    session_k: FanOut = 3
    """Most children of a node in a session's tree. At least 3."""
    entity_k: FanOut = 8
    """Most children of a node in an entity's tree. At least 3."""
    scene_k: FanOut = 10
    """Most children of a node in a scene's tree. At least 3."""
    packing: Literal["anchored", "paper"] = experimental("anchored")
    """Where nodes end. ``"anchored"``: where the leaves say so; a new leaf in the middle then renews few nodes.
    ``"paper"``: where they are full, from the left, as in a tree that grows to the right."""
    active_min_facts: Count = experimental(3)
    """An entity gets a tree of its own with this many distinct facts, if they come from enough sessions."""
    active_min_sessions: Count = experimental(2)
    """Sessions that those facts must come from. Participants always have a tree."""
    scene_join: Likeness = experimental(None)
    """How like a scene a fact must be to join it, at least -1; above 1 none ever does. None is what was measured for the
    embedder (`scripts/calibrate_scenes.py`), here and in the next two."""
    scene_second: Likeness = experimental(None)
    """How like a further scene it must be to stand there too."""
    scene_time: Likeness = experimental(None)
    """What nearness in time adds to the likeness of a fact and a scene, at most."""
    recall_trees: Count = experimental(10)
    """Trees that are browsed for a question (recall.top_k)."""
    beam_width: Count = experimental(10)
    """Nodes that browse keeps of each level of a tree."""
    facts_to_trees: Count = experimental(30)
    """Best leaves whose trees are candidates of recall beside those with the best roots (bu_top_m)."""
    families: Sequence[Family] = experimental(FAMILIES)
    """Kinds of trees that are recalled: some of ``"session"``, ``"entity"`` and ``"scene"`` (paper Table 6)."""
    leaves: Leaves = experimental("aligned")
    """How near leaves are to a question in recall (Eq. 7) and browse. ``"mixed"``: a fact by its own cosine, a session
    tree's leaf by its best turn's, which are two scales. ``"facts"``: all by facts, a session tree's leaf by the best
    fact that its turns support, as in the paper. ``"aligned"``: as mixed, with the leaves of session trees brought to
    the mean and deviation of the facts, so that neither push the others out."""
    evidence: Literal["all", "reached", "roots"] = experimental("all")
    """What can be evidence. ``"all"``: everything that was said, by the weights of `Ranking`. ``"reached"``: only what
    browse reached, by `reached_by` alone, as in the paper. ``"roots"``: only the summaries of the recalled trees (paper
    Table 7, root-only)."""
    reached_by: Literal["leaf", "path"] = experimental("leaf")
    """What ranks the leaves that browse reached: how near each is to the question, or its whole path on average (in a
    guided mode, its places on the way)."""
    chunks: Literal["said", "summarised"] = experimental("said")
    """The text of a session tree's leaf, for the nodes above it and for browsing: the turn, or a summary with a vector
    of its own, as in the paper's Algorithm 1 (line 23). With a model that is a call for each chunk. Evidence is
    what was said all the same."""
    scene_vectors: Literal["facts", "summary"] = experimental("facts")
    """How the nodes of scene trees are compared: by the mean of the facts below them, or by the vector of their
    summary, as in the paper (Alg. 1, line 33). The vector costs an embedding for each node."""
    summarise: Literal["kept", "every"] = experimental("kept")
    """Which nodes' summaries are made: where the children's texts are short enough they are kept as they are, or every
    node's is made, as in the paper's Algorithm 1."""

    def _check(self) -> None:
        """Refuse no family at all, and one twice."""
        if not self.families or len(set(self.families)) < len(self.families):
            raise ConfigError("families takes one or more kinds of trees, each only once")
        object.__setattr__(self, "families", tuple(self.families))


DEFAULTS = MemForestSettings()


@once_per_snapshot
def fact_order(snapshot: Snapshot) -> Ints:
    """Return the place of every fact among the leaves of a tree: by the time that it states, then by when it was said."""
    ordered = np.lexsort((fact_places(snapshot), snapshot.facts.start_ms))
    places = np.empty(len(ordered), dtype=np.int64)
    places[ordered] = np.arange(len(ordered))
    return places


def active_entities(snapshot: Snapshot, settings: MemForestSettings) -> Ints:
    """Return the ids of the entities that have a tree, ascending: who takes part, and what enough is known of."""
    facts, entities = snapshot.mentions.T
    counts = np.bincount(entities)
    taking_part = np.zeros(len(counts), dtype=np.bool_)
    taking_part[
        [row for row, one in snapshot.entities.items() if one.kind == "participant" and row < len(counts)]
    ] = True
    found = (counts >= settings.active_min_facts) & ~taking_part
    if settings.active_min_sessions > 1 and found.any():
        among = found[entities]
        of, lists = facts[among], snapshot.turns_of_fact
        sessions = snapshot.turns.session[lists.of_rows(of)]
        many = int(sessions.max(initial=0)) + 1
        pairs = np.unique(np.repeat(entities[among], lists.counts[of]) * many + sessions)
        found &= np.bincount(pairs // many, minlength=len(counts)) >= settings.active_min_sessions
    return np.flatnonzero(found | (taking_part & (counts > 0)))


def grown(
    tx: Tx, snapshot: Snapshot, settings: MemForestSettings, *, scenes: bool, old: Forest | None = None
) -> Forest:
    """Return the trees of a snapshot, with or without those of scenes; the leaves of the others have the same rows either way."""
    turns, facts = snapshot.turns, snapshot.facts
    own = np.flatnonzero(turns.previous < 0)
    first = np.flatnonzero(turns.begins | (turns.previous < 0))
    of_session = np.searchsorted(own, first, side="right") - 1
    active = active_entities(snapshot, settings)
    of_entity = np.searchsorted(active, snapshot.mentions[:, 1])
    named = NOTHING
    if len(active):
        named = np.flatnonzero(active[np.minimum(of_entity, len(active) - 1)] == snapshot.mentions[:, 1])
    found, compared = scenes_of(tx, snapshot, settings, old) if scenes else (NO_SCENES, None)
    parts = [("session", turns.session[own]), ("entity", active), ("scene", facts.ids[found.pivots])]
    kinds = [kind for kind, scopes in parts for _ in range(len(scopes))]
    growth = Growth(OWNER, snapshot, kinds, np.concatenate([scopes for _, scopes in parts]))
    chunks = growth.runs(of_session, CHUNK, first, np.r_[first[1:], len(turns.ids)] if len(first) else first)
    begins = len(own)
    trees = [
        (begins + of_entity[named], snapshot.mentions[named, 0]),
        (begins + len(active) + found.scene, found.facts),
    ]
    places, size = fact_order(snapshot), max(1, len(facts.ids))
    leaves, marks = [chunks], [mixed(turns.said_ms[first].astype(np.uint64), first - own[of_session])]
    for tree, of in trees:
        order = np.argsort(tree * size + places[of], kind="stable")
        leaves.append(growth.facts(tree[order], of[order]))
        marks.append(mixed(facts.key[of[order]].astype(np.uint64)))
    k = np.array([getattr(settings, f"{kind}_k") for kind in kinds], dtype=np.int64)
    if growth.size:
        growth.pack(np.concatenate(leaves), np.concatenate(marks), k, anchored=settings.packing == "anchored")
    forest = growth.forest(kept=compared)
    if settings.chunks == "summarised":
        told = np.flatnonzero((forest.kind == INNER) | (forest.kind == CHUNK))
        forest = replace(forest, told=told)
    return forest


MAX_SIZE = 64
"""Facts from which on a scene is too large (reference configuration: 60)."""

MAX_SCENES = 512
"""Most pivots, which bounds what a fact costs: with so many, the others join the most alike."""

NEAR_DAYS = 45.0
"""A scene further away in time than this gets nothing for it."""

SAMPLE = 256
"""Facts whose mean is the background."""

ROUNDS = 4
"""Times that a scene which is too large is looked at for pivots that are less alike."""

BLOCK = 1024

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SceneThresholds:
    """Likenesses, each in [-1, 1], that decide where a fact goes."""

    join: float
    """Least to join the most alike scene."""
    second: float
    """Least to stand in the next one too."""
    time: float
    """Added for a scene at the time of the fact."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenes:
    """Memberships, a fact in one scene or two: the fact rows, and the place of the scene's pivot in `pivots`."""

    facts: Ints
    scene: Ints
    main: NDArray[np.bool_]
    """Whether it is the fact's first scene."""
    pivots: Ints
    """Fact rows, in time order."""


NO_SCENES = Scenes(NOTHING, NOTHING, np.zeros(0, dtype=np.bool_), NOTHING)


_Tops: TypeAlias = tuple[Ints, Ints, Scores]
"""Pivots, and the two that each fact is most like with its likenesses, shape (n, 2); known by their marks. The next one is -1
where there is one pivot alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What a forest hands on to the next one, so that facts are compared with new pivots alone."""

    base: tuple[bytes, SceneThresholds]
    """What all facts are compared by: the background, and the thresholds."""
    marks: Ints
    """What each fact is known by: another vector or time is another fact."""
    rounds: tuple[_Tops, ...]
    """By the pivots of each round."""
    split: Mapping[tuple[int, int, int], Ints]
    """The further pivots in scenes that were too large, by the scene's pivot and facts."""


def scenes_of(
    tx: Tx, snapshot: Snapshot, settings: MemForestSettings, old: Forest | None = None
) -> tuple[Scenes, Compared | None]:
    """Return the scenes of a snapshot by the settings and the embedder; none without vectors."""
    model = meta.get(tx, "embedder")
    if model is None or not snapshot.dimension or not len(snapshot.facts.ids):
        return NO_SCENES, None
    thresholds = scene_thresholds(model, settings)
    return derive(snapshot.facts, thresholds, fact_order(snapshot), None if old is None else old.kept)


def derive(
    facts: Facts, thresholds: SceneThresholds, places: Ints, old: Compared | None = None
) -> tuple[Scenes, Compared | None]:
    """Return the scenes of facts, whose vectors are of unit length; those without a vector are in none.

    Args:
        facts: the columns.
        thresholds: what decides.
        places: of each fact in time order.
        old: of an earlier snapshot; it saves work, and the scenes are the same.
    """
    order = np.argsort(mixed(facts.key.astype(np.uint64)), kind="stable")
    centred = facts.vectors[order]
    known = centred.any(axis=1)
    if not known.all():
        order, centred = order[known], centred[known]
    if not len(order):
        return NO_SCENES, None
    of_vector, background = marks_of(centred), centred[:SAMPLE].mean(axis=0)
    centred -= background
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)
    start, end = (times[order] for times in fact_times(facts))
    of_time = mixed(start.astype(np.uint64), end)
    marks = mixed(mixed(facts.key[order].astype(np.uint64), of_vector), of_time).astype(np.int64)
    base = background.tobytes(), thresholds
    compare = _Comparing(centred, start, end, marks, thresholds.time)
    old = old if old is not None and old.base == base else None
    pivots = _first_pivots(compare, thresholds.join, old)
    every = np.arange(len(marks))
    had = every if old is None else rows_of(old.marks, marks)
    rounds: list[_Tops] = []
    split: dict[tuple[int, int, int], Ints] = {}
    while True:
        at = len(rounds)
        if old is not None and at < len(old.rounds):
            rounds.append(compare.tops(pivots, old.rounds[at], had))
        else:
            rounds.append(compare.tops(pivots, rounds[-1] if rounds else None, every))
        own_marks, top, score = rounds[-1]
        best = rows_of(own_marks, top[:, 0])
        best[pivots] = np.arange(len(pivots))  # each is in its own scene
        full = np.flatnonzero(np.bincount(best, minlength=len(pivots)) > MAX_SIZE)
        room = MAX_SCENES - len(pivots)
        if at == ROUNDS or not len(full) or room <= 0:
            break
        parts: list[Ints] = []
        for scene in full.tolist():
            members = np.flatnonzero(best == scene)
            own = mixed(marks[members].astype(np.uint64)).sum(dtype=np.uint64)
            key = int(marks[pivots[scene]]), int(own), len(members)
            if old is not None and key in old.split:
                split[key] = old.split[key]
            else:
                near = float(np.quantile(np.round(centred[members] @ centred[pivots[scene]], 6), 0.5))
                split[key] = marks[_pivots(centred, members, max(near, thresholds.join), MAX_SCENES)]
            parts.append(split[key][:room])
        pivots = np.union1d(pivots, rows_of(marks, np.concatenate(parts)[:room]))
    next_ = np.where(np.isfinite(score[:, 1]), top[:, 1], top[:, 0])
    second = rows_of(own_marks, next_)
    twice = np.flatnonzero((score[:, 1] >= thresholds.second) & (second != best))
    in_time = np.argsort(places[order[pivots]], kind="stable")
    number = np.empty(len(pivots), dtype=np.int64)
    number[in_time] = np.arange(len(pivots))
    found = Scenes(
        np.concatenate([order, order[twice]]),
        number[np.concatenate([best, second[twice]])],
        np.r_[np.ones(len(order), dtype=np.bool_), np.zeros(len(twice), dtype=np.bool_)],
        order[pivots[in_time]],
    )
    return found, Compared(base, marks, tuple(rounds), split)


@dataclass(frozen=True, slots=True, eq=False)
class _Comparing:
    """The facts of a snapshot in the order in which pivots are looked for."""

    vectors: Floats
    start: Ints
    end: Ints
    marks: Ints
    time: float
    """What nearness in time adds."""

    def tops(self, pivots: Ints, old: _Tops | None, had: Ints) -> _Tops:
        """Return the two pivots that each fact is most like; `old` is kept of facts that had a row in it, and have the same pivots."""
        top = np.full((len(self.marks), 2), NONE, dtype=np.int64)
        score = np.full((len(self.marks), 2), -np.inf)
        anew, added = np.ones(len(self.marks), dtype=np.bool_), pivots
        if old is not None:
            there = np.flatnonzero(had >= 0)
            now = np.append(rows_of(self.marks, old[0]), NONE)
            was = now[rows_of(old[0], old[1][had[there]].ravel())].reshape(-1, 2)
            stays = np.isin(was, pivots).all(axis=1)
            rows = there[stays]
            anew[rows] = False
            top[rows], score[rows] = was[stays], old[2][had[rows]]
            added = pivots[~np.isin(pivots, rows_of(self.marks, old[0]))]
        for rows, others in ((np.flatnonzero(anew), pivots), (np.flatnonzero(~anew), added)):
            for at in range(0, len(rows) if len(others) else 0, BLOCK):
                self._nearer(rows[at : at + BLOCK], others, top, score)
        return self.marks[pivots], np.where(top >= 0, self.marks[top], NONE), score

    def _nearer(self, rows: Ints, pivots: Ints, top: Ints, score: Scores) -> None:
        """Let pivots take the places of those that facts are less like; of equal ones the first in order stands first."""
        alike = np.round(self.vectors[rows] @ self.vectors[pivots].T, 6).astype(np.float64)
        if self.time:
            gap = np.maximum(
                self.start[pivots][None] - self.end[rows][:, None],
                self.start[rows][:, None] - self.end[pivots][None],
            )
            alike += self.time * np.maximum(0.0, 1.0 - np.maximum(gap, 0) / (NEAR_DAYS * DAY_MS))
        every, found = np.arange(len(rows)), [(top[rows, 0], score[rows, 0]), (top[rows, 1], score[rows, 1])]
        for _ in range(min(2, len(pivots))):
            best = alike.argmax(axis=1)
            found.append((pivots[best], alike[every, best]))
            alike[every, best] = -np.inf
        places, scores = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        first = np.lexsort((places, -scores))[:, :2]
        top[rows], score[rows] = (np.take_along_axis(part, first, axis=1) for part in (places, scores))


def _first_pivots(compare: _Comparing, least: float, old: Compared | None) -> Ints:
    """Return the facts that are not like one before them that is taken; the old ones where new facts change nothing."""
    every = np.arange(len(compare.marks))
    if old is not None and ((pivots := rows_of(compare.marks, old.rounds[0][0])) >= 0).all():
        new = every[rows_of(old.marks, compare.marks) < 0]
        like = np.round(compare.vectors[new] @ compare.vectors[pivots].T, 6) >= least
        joins = (like & (pivots[None] < new[:, None])).any(axis=1)
        if (joins | ((len(pivots) == MAX_SCENES) & (new > pivots[-1]))).all():
            return pivots
    return _pivots(compare.vectors, every, least, MAX_SCENES)


def _pivots(vectors: Floats, rows: Ints, least: float, most: int) -> Ints:
    """Return those of some rows, in their order, that are not like one before them that was taken."""
    found: list[int] = []
    for at in range(0, len(rows), BLOCK):
        block = rows[at : at + BLOCK]
        if found:
            near = np.round(vectors[block] @ vectors[found].T, 6).max(axis=1)
            block = block[near < least]
        alike = np.round(vectors[block] @ vectors[block].T, 6) >= least
        free = np.ones(len(block), dtype=np.bool_)
        for place, row in enumerate(block.tolist()):
            if free[place]:
                found.append(row)
                if len(found) == most:
                    return np.array(found, dtype=np.int64)
                free &= ~alike[place]
    return np.array(found, dtype=np.int64)


_FIELDS = ("join", "second", "time")


def scene_thresholds(model_id: str, settings: MemForestSettings = DEFAULTS) -> SceneThresholds:
    """Return the thresholds that are set; where none is, that of the embedder, or that for embedders not measured.

    Those were measured on made-up lives and multi-domain dialogues; an unknown embedder gets the strictest ones.
    """
    table = measured("scene_thresholds.json")
    known = [table[model_id]] if model_id in table else table.values()
    found = SceneThresholds(*(max(float(one[name]) for one in known) for name in _FIELDS))
    given = {name: getattr(settings, f"scene_{name}") for name in _FIELDS}
    return replace(found, **{name: value for name, value in given.items() if value is not None})
