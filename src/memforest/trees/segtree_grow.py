"""The tree of the segtree index: exchanges of turns, and the segment tree that they grow, one after the other.

An exchange is a short run of turns of one session: something said and what was said to it. Which turns are an exchange is a
named rule, as systems that are published under one word cut differently; no rule looks at texts or times, reorders turns, or
joins turns of two sessions. The order of exchanges is the time of an exchange (the latest until then in its session), then
session and position.

The tree is a fold over them (Algorithm 1): each leaf joins the node of the *frontier* (the nodes that end with the last leaf,
one on each level) that it is most like, or begins a new root. So it follows from the exchanges and their vectors, and from
nothing else. A node is compared by the sum of the vectors of the leaves below it, of numbers of half precision in float64, which
is exact. Nodes and frontiers are values: the next tree goes on from a frontier of the one before, where its leaves are the same.

With the placer "cosine" a leaf is placed by the vectors of what nodes say, as in the paper (its compatibility model i). Where
it went is an artifact, known by the digest of the tree so far and of the leaf: `memforest.trees.segtree` has those made that are
missing, and what has none yet is not in the tree.

Sources of the constants: SegTreeMem (arXiv 2606.04555) §4 and §5.3; where the paper says nothing, the setting's text says where
its default comes from. How like a node a leaf must be to join it is measured per embedder by
`scripts/calibrate_segments.py`; an embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, InputError
from memforest.search.filters import turn_places
from memforest.search.forest import TURNS, Forest, Ints, marked_turns, marks_of, mixed
from memforest.search.snapshot import Snapshot, ranges
from memforest.settings import Bound, Settings, Whole, experimental
from memforest.store.derived import NUMBER
from memforest.trees.index import measured
from memforest.trees.kernel import Growth

OWNER = "segtree"
"""Name of the index."""

KIND = "conversation"
"""Kind of its only tree."""

RUN = 5
"""Children of a node without vectors, where leaves are placed by their number alone: the branching that the paper has with
cosines (Table 5)."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Floats = NDArray[np.float32]

Share: TypeAlias = Annotated[float, Bound(gt=0, le=1)]


@dataclass(frozen=True, slots=True)
class SegTreeSettings(Settings):
    """How the segtree index grows its tree and reads it."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "leaves",
        "opener",
        "leaf_vector",
        "placer",
        "tau",
        "fall",
        "backing",
        "height_max",
        "fan_out_max",
    )

    leaves: Literal["adjacent", "pairs", "turns"] = "adjacent"
    """What a leaf is. ``"adjacent"``: a turn of the first speaker of the memory (or of `opener`) and the next turn of
    somebody else. This gives the leaf counts of the paper. ``"pairs"``: every two turns. ``"turns"``: each turn by
    itself. Turns that
    belong to no pair join the leaf before them in their session, so that none is left out."""
    opener: str = experimental("")
    """With whose turns ``"adjacent"`` begins a leaf; when empty, who speaks first in the memory."""
    leaf_vector: Literal["mean", "text"] = experimental("mean")
    """What a leaf is compared by: the mean of its turns' vectors, or the vector of its text, as in the paper, which
    embeds everything that is said once more."""
    placer: Literal["centroid", "cosine"] = experimental("centroid")
    """What decides where a leaf goes. ``"centroid"``: its likeness with the mean of the leaves below a node;
    ``"cosine"``: with the vector of what the node says, as in the paper, which has it made before."""
    tau: Annotated[float, Bound(ge=-1, le=1)] | None = experimental(None)
    """How like a node a leaf must be to join it, -1 to 1; None is what was measured for the embedder
    (`scripts/calibrate_segments.py`). The paper does not give one."""
    fall: Share = experimental(0.8)
    """What is left of `tau` with each level that the tree is higher than one, above 0 and at most 1. 1 is the paper's
    constant threshold. On generated talk with known turns of topic .7 to .9 are alike; trees of LoCoMo's development half
    are higher than they need be at .9."""
    backing: Annotated[float, Bound(ge=0)] = experimental(4.0)
    """Leaves like the whole conversation that ``"centroid"`` adds to what each node is compared by, so that a large node
    does not win by its size; 0 for the plain mean. On generated talk turns of topic are found best with 4 to 8."""
    height_max: Whole = experimental(12)
    """Height from which on a leaf that is like no node joins the node of this level, in the place of a new root; 0 for no
    bound. Full nodes are cut at any level, so that a tree gets higher by a few more, as the logarithm of its leaves."""
    fan_out_max: Whole = 64
    """Children of a node above which it is cut where its neighbouring children are least alike; 0 for no bound, else at
    least 8."""
    summarise: Literal["kept", "every"] = experimental("kept")
    """Which nodes' summaries are made: where the children's texts are short enough they are kept as they are, or every
    node's is made, as in the paper's Algorithm 1."""
    scorer: Literal["fused", "cosine"] = experimental("fused")
    """How relevant a node is to a question. ``"fused"``: by words, turns and facts; an inner node by the mean of its
    leaves. ``"cosine"``: by the vector of its text, as in the paper; this found far less of the evidence."""
    propagate: Literal["top-down", "bottom-up", "none"] = experimental("top-down")
    """Where relevance goes along the edges of the tree: from nodes to their children, to their parents, or nowhere."""
    admissible: Literal["bounded", "all", "leaves"] = experimental("bounded")
    """Which nodes can be evidence. ``"bounded"``: none with more than `share_max` of all leaves."""
    share_max: Share = experimental(0.05)
    """Share of all leaves that a node may have, above 0 and at most 1."""
    expand: bool = experimental(True)
    """Hand back the turns below a node in its place, those of its best leaf first. Otherwise the text of a node is the
    evidence, `top_k` counts nodes, and a leaf is all its turns. At equal context this held fewer of the answers, and
    summaries must be made before a question is answered."""

    def _check(self) -> None:
        """Refuse a fan-out in which no node could be cut."""
        if 0 < self.fan_out_max < 8:
            raise ConfigError(
                f"fan_out_max={self.fan_out_max} should be at least 8, or 0 for no limit: when a node is split, both parts "
                "keep at least a quarter of its children"
            )


def least_likeness(model_id: str, placer: str, leaf_vector: str) -> float:
    """Return the likeness from which on a leaf joins a node, -1 to 1.

    Args:
        model_id: of the embedder.
        placer: ``"centroid"`` or ``"cosine"``.
        leaf_vector: ``"mean"`` or ``"text"``.
    """
    name = f"{placer}_{leaf_vector}"
    table = measured("segment_thresholds.json")
    return float(
        table[model_id][name] if model_id in table else median(float(one[name]) for one in table.values())
    )


LeafRule = Literal["adjacent", "pairs", "turns"]
"""How turns are cut where each is to be in an exchange, as in the leaves of a tree; of a session A B A B B A:

- ``"adjacent"``: a turn of the opener and the turn of somebody else right behind it, of which SegTreeMem (arXiv 2606.04555,
  Table 5) has the leaf counts; other turns join the exchange before them, those at the session's start the one behind
  (AB ABBA).
- ``"pairs"``: every two turns, whoever speaks; an odd last one joins the pair before it (AB AB BA).
- ``"turns"``: each turn by itself.
"""

LEAF_RULES: tuple[LeafRule, ...] = get_args(LeafRule)

MOST_TURNS = 16
"""Turns of one exchange at most: an hour's monologue is many leaves, and not one."""


Exchange = tuple[int, int]
"""A run of turns of one session: the positions of its first and its last turn, from 0."""


def leaf_exchanges(
    speakers: Sequence[str], rule: LeafRule = "adjacent", *, opener: str | None = None
) -> tuple[Exchange, ...]:
    """Return exchanges of a session that have every turn in exactly one of them, in order; at most `MOST_TURNS` in each.

    With ``"adjacent"``, a session in which the opener is never answered is cut with its own first speaker as the opener,
    and where nobody answers at all, into pairs; so are turns at its start that are too many for the first exchange. A turn
    that the exchange before it has no room for begins one of its own.

    Turns that are added to a session change no exchange but those of its last `MOST_TURNS` turns.

    Example:
        >>> leaf_exchanges(["Ann", "Bob", "Bob", "Ann", "Eve"], "adjacent")
        ((0, 2), (3, 4))

    Args:
        speakers: of the session's turns, one each.
        rule: see `LeafRule`.
        opener: with whose turns ``"adjacent"`` begins an exchange; who speaks first when not given.

    Raises:
        InputError: if there is no such rule.
    """
    if rule not in LEAF_RULES:
        raise InputError(f"unknown rule {rule!r} for leaves; known: {', '.join(LEAF_RULES)}")
    if rule == "turns":
        return tuple((at, at) for at in range(len(speakers)))
    if rule == "pairs" or not speakers:
        return tuple(_pairs_of_all(len(speakers)))
    return tuple(_adjacent(speakers, speakers[0] if opener is None else opener))


def _adjacent(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    """Yield each turn and its answer with the turns that follow them; what stands before the first joins it if there is room."""
    begins = [at for at, who in enumerate(speakers[:-1]) if who == opener != speakers[at + 1]]
    if not begins:
        yield from _unanswered(speakers, opener)
        return
    if begins[0] + 2 <= MOST_TURNS:
        begins[0] = 0
    else:
        yield from _unanswered(speakers[: begins[0]], opener)
    for first, end in pairwise([*begins, len(speakers)]):
        for at in range(first, end, MOST_TURNS):
            yield at, min(at + MOST_TURNS, end) - 1


def _unanswered(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    """Yield the exchanges of turns among which the opener is never answered."""
    if speakers[0] == opener or len(set(speakers)) == 1:
        yield from _pairs_of_all(len(speakers))
    else:
        yield from _adjacent(speakers, speakers[0])


def _pairs_of_all(turns: int) -> Iterator[Exchange]:
    """Yield every two turns; the last has three where turns are odd, and one where there is one turn."""
    for first in range(0, max(turns - 1, min(turns, 1)), 2):
        yield first, turns - 1 if turns - first <= 3 else first + 1


DECIMALS = 9
"""Of likenesses that are compared, as of scores everywhere: sums of one set of numbers in another order count as equal."""


def needed(tau: float, height: int, fall: float) -> float:
    """Return how like one of its choices a leaf must be: less with each level of the tree.

    The first root is the first stretch of talk, which ends where the topic turns; a root above roots stands for everything,
    and a leaf that is like none of it should be rare. With a constant threshold the tree is a flat one below the first turn
    that is missed, or a comb (`scripts/calibrate_segments.py`).

    Args:
        tau: what a leaf needs below a root of height 1.
        height: of the tree, in levels above the leaves.
        fall: what is left of it with each further level; 1 is the paper's constant threshold.
    """
    return float(tau * fall ** max(height - 1, 0))


def nearest(vector: Vector, candidates: Sequence[NDArray[Any]], least: float) -> int | None:
    """Return the candidate that a vector is most like, of equally like ones the lowest; None if it is like none of them.

    Args:
        vector: of the leaf, shape (d,).
        candidates: of the nodes, of any length.
        least: likeness below which it joins none.
    """
    if not len(candidates):
        return None
    likes = cosines(np.asarray(candidates, dtype=np.float64), vector)
    best = int(likes.argmax())
    return None if likes[best] < least else best


def cosines(rows: Matrix, others: Matrix | Vector) -> Vector:
    """Return the cosines of vectors of any length, row by row, rounded; 0 where one of them is zero."""
    lengths = np.sqrt((rows * rows).sum(axis=-1)) * np.sqrt((others * others).sum(axis=-1))
    return np.asarray(np.round((rows * others).sum(axis=-1) / np.where(lengths, lengths, np.inf), DECIMALS))


@dataclass(frozen=True, slots=True, eq=False)
class Exchanges:
    """The exchanges of a snapshot, in their order: turn rows [first, end) of each."""

    first: Ints
    end: Ints
    by_session: dict[int, tuple[tuple[int, int, int, str | None], Ints]]
    """What each session was cut from (its turns and the opener), and how."""


def exchanges_of(snapshot: Snapshot, settings: SegTreeSettings, old: Exchanges | None) -> Exchanges:
    """Cut all sessions of a snapshot into exchanges; sessions that are as they were are taken over from `old`."""
    turns = snapshot.turns
    starts = np.flatnonzero(turns.previous < 0)
    ends = np.r_[starts[1:], len(turns.ids)] if len(starts) else starts
    opener = _opener(snapshot, settings)
    cut: dict[int, tuple[tuple[int, int, int, str | None], Ints]] = {}
    first, end = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
        session = int(turns.session[start])
        key = (int(turns.ids[start]), int(turns.ids[stop - 1]), stop - start, opener)
        had = None if old is None else old.by_session.get(session)
        if had is None or had[0] != key:
            speakers = [snapshot.speakers[code] for code in turns.speaker[start:stop].tolist()]
            parts = leaf_exchanges(speakers, settings.leaves, opener=opener)
            had = key, np.array(parts, dtype=np.int64).reshape(-1, 2)
        cut[session] = had
        first.append(start + had[1][:, 0])
        end.append(start + had[1][:, 1] + 1)
    begins, stops = np.concatenate(first), np.concatenate(end)
    latest = turns.said_ms.copy()
    back = 1 + np.flatnonzero((np.diff(latest) < 0) & (turns.previous[1:] >= 0))
    for at in np.unique(np.searchsorted(starts, back, side="right") - 1).tolist():
        latest[starts[at] : ends[at]] = np.maximum.accumulate(latest[starts[at] : ends[at]])
    order = np.lexsort((begins, latest[begins])) if len(begins) else begins
    return Exchanges(begins[order], stops[order], cut)


def _opener(snapshot: Snapshot, settings: SegTreeSettings) -> str | None:
    """Return the speaker whose turns begin exchanges: who is set, else who speaks first; None where no rule asks."""
    if settings.leaves != "adjacent" or not len(snapshot.turns.ids):
        return None
    starts = np.flatnonzero(snapshot.turns.previous < 0)
    first = starts[np.argmin(turn_places(snapshot)[starts])]
    return settings.opener or snapshot.speakers[int(snapshot.turns.speaker[first])]


def leaf_vectors(snapshot: Snapshot, found: Exchanges, first: int) -> Floats:
    """Return the unit means of the turns of exchanges from a number on, rounded to half precision, shape (n, d).

    A turn whose vector is not made yet counts for nothing.
    """
    begins, ends = found.first[first:], found.end[first:]
    if not len(begins):
        return np.zeros((0, snapshot.dimension), dtype=np.float32)
    size, rows = ends - begins, snapshot.turns.vectors[ranges(begins, ends)]
    sums = np.add.reduceat(rows, np.cumsum(size) - size, axis=0, dtype=np.float64)
    lengths = np.sqrt((sums * sums).sum(axis=1))
    return (sums / np.where(lengths, lengths, 1.0)[:, None]).astype(NUMBER).astype(np.float32)


def leaf_ids(snapshot: Snapshot, found: Exchanges, texts: Floats | None) -> Ints:
    """Return what each exchange is known by: other turns, or other vectors of them or of their texts, are another leaf."""
    turns = marked_turns(snapshot)[2].astype(np.uint64)
    order = np.argsort(found.first, kind="stable")
    ids = np.empty(len(order), dtype=np.uint64)
    if len(order):
        ids[order] = np.add.reduceat(turns, found.first[order])
    return (ids if texts is None else mixed(ids, marks_of(texts))).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the tree as it grows. It is a value: where a leaf comes to it, another node takes its place."""

    level: int
    first: int
    """Number of its first leaf; of a leaf its own."""
    count: int
    """Leaves at or below it."""
    total: NDArray[Any]
    """The sum of their vectors, shape (d,)."""
    kids: tuple[Node, ...] = ()

    def grown(self, kids: tuple[Node, ...], vector: NDArray[Any]) -> Node:
        """Return the node with one leaf more, which is below the last of the children."""
        return Node(self.level, self.first, self.count + 1, self.total + vector, kids)


def node_above(level: int, kids: tuple[Node, ...]) -> Node:
    """Return the node of a level that has these children."""
    total = np.asarray(np.sum([kid.total for kid in kids], axis=0, dtype=np.float64))
    return Node(level, kids[0].first, sum(kid.count for kid in kids), total, kids)


def parted(node: Node, most: int) -> tuple[Node, ...]:
    """Return a node, or its two parts where it has more children than `most`: it is cut where neighbours are least alike.

    Each part keeps a quarter of the children, so that what is cut once is not full again at once. Of equal places it is the
    first, and the middle in a memory without vectors.
    """
    count = len(node.kids)
    if not 0 < most < count:
        return (node,)
    at = count // 2
    if len(node.total):
        low = max(2, count // 4)
        rows = np.array([kid.total for kid in node.kids[low - 1 : count - low + 1]], dtype=np.float64)
        at = low + int(cosines(rows[:-1], rows[1:]).argmin())
    return node_above(node.level, node.kids[:at]), node_above(node.level, node.kids[at:])


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """The segment tree of the leaves so far: its frontier."""

    ends: tuple[Node, ...] = ()
    """The nodes that end with the last leaf: that leaf first, the root last."""
    top: int = 0
    """The highest level that a leaf may join: above it there are nodes for the parts of one that was cut alone."""

    @property
    def count(self) -> int:
        """The number of leaves."""
        return self.ends[-1].count if self.ends else 0

    @property
    def height(self) -> int:
        """The level of the root."""
        return self.ends[-1].level if self.ends else 0

    def choices(self) -> list[tuple[Node, int]]:
        """Return the nodes that a new leaf may be compared with, lowest first, each with the level it means."""
        found = []
        for node, above in zip(self.ends, [*self.ends, None][1:], strict=True):
            low, high = max(node.level, 1), node.level if above is None else above.level - 1
            if high >= low:  # else it is the last leaf, with its parent right above
                found.append((node, low))
        return found

    def insert(self, vector: NDArray[Any], level: int | None, settings: SegTreeSettings) -> Fold:
        """Return the tree with one leaf more (Algorithm 1).

        Args:
            vector: of the leaf, shape (d,).
            level: of the frontier's node that it joins; None for a new root.
            settings: `height_max` and `fan_out_max` count.
        """
        leaf = Node(0, self.count, 1, vector)
        if not self.ends:
            return Fold((leaf,))
        if level is None and 0 < settings.height_max <= self.height:
            level = settings.height_max
        goal = self.height + 1 if level is None else min(level, self.top)
        place = sum(node.level < goal for node in self.ends)
        below, rest = self.ends[place - 1], self.ends[place:]
        if rest and rest[0].level == goal:
            joined, rest = rest[0].grown((*rest[0].kids, leaf), vector), rest[1:]
        else:  # on the way to what the last leaf is below
            joined = node_above(goal, (below, leaf))
        ends, parts = [leaf], parted(joined, settings.fan_out_max)
        for node in rest:
            ends.append(parts[-1])
            parts = parted(node.grown((*node.kids[:-1], *parts), vector), settings.fan_out_max)
        ends.append(parts[-1])
        if len(parts) > 1:
            ends.append(node_above(parts[0].level + 1, parts))
        return Fold(tuple(ends), max(self.top, goal))


Choose = Callable[[Fold, Vector], "int | Literal[False] | None"]
"""Returns the level that a leaf joins, given its vector: None for a new root, False if that is not known yet."""


def by_likeness(settings: SegTreeSettings, tau: float) -> Choose:
    """Return what places a leaf by the mean of the leaves below each node, and of so many more that are like the whole.

    The mean of many leaves is nearer to anything than a single leaf is, so a root would win by its size. Drawing each mean
    to that of everything takes that away, as it is done with means of few observations (James & Stein 1961). With `backing`
    0 they are plain means.
    """

    def choose(fold: Fold, vector: Vector) -> int | None:
        open_ = fold.choices()
        if not open_:
            return None
        more = fold.ends[-1].total * (settings.backing / fold.count)
        means = [node.total + more for node, _ in open_]
        best = nearest(vector, means, needed(tau, fold.height, settings.fall))
        return None if best is None else open_[best][1]

    return choose


def by_count(fold: Fold, vector: Vector) -> int | None:
    """Place a leaf in a memory without vectors: fixed runs of `RUN` children, level by level."""
    level, left = 1, fold.count
    while left and left % RUN == 0:
        level, left = level + 1, left // RUN
    return level if level <= fold.height else None


STATE_EVERY = 256
"""Leaves between two frontiers that are kept, so that a later tree can go on from there."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a forest hands on to the next one."""

    exchanges: Exchanges
    ids: Ints
    """What each exchange is known by."""
    fold: Fold
    """Of those that have a place."""
    states: tuple[Fold, ...]
    """From time to time on the way there, the empty one first."""
    placer: str
    """What has placed the leaves."""
    tau: float

    @property
    def waiting(self) -> int:
        """How many exchanges have no place in the tree yet."""
        return len(self.ids) - self.fold.count


def folded(
    snapshot: Snapshot,
    settings: SegTreeSettings,
    old: Forest | None,
    tau: float,
    choose: Choose | None = None,
    texts: Floats | None = None,
) -> Kept:
    """Return the tree of a snapshot's exchanges; one that was grown before goes on.

    Args:
        snapshot: the turns.
        settings: how the tree grows.
        old: the forest of an earlier snapshot.
        tau: how like a node a leaf must be.
        choose: what places leaves; None for the placer "centroid".
        texts: vectors of the exchanges' texts, if leaves are compared by those; without them leaves are placed by number.
    """
    had: Kept | None = None if old is None else old.kept
    found = exchanges_of(snapshot, settings, None if had is None else had.exchanges)
    ids, of_turns = leaf_ids(snapshot, found, texts), settings.leaf_vector == "mean"
    compared = bool(marked_turns(snapshot)[1].any()) if of_turns else texts is not None
    placer, fold, states = settings.placer if compared else "runs", Fold(), [Fold()]
    if had is not None and (had.placer, had.tau) == (placer, tau):
        differ = np.flatnonzero(ids[: len(had.ids)] != had.ids[: len(ids)])
        same = int(differ[0]) if len(differ) else min(len(ids), len(had.ids))
        states = [one for one in had.states if one.count <= same]
        fold = had.fold if had.fold.count <= same else states[-1]
    if not compared:
        choose, vectors = by_count, np.zeros((len(ids) - fold.count, 0), dtype=np.float32)
    elif texts is not None:
        vectors = texts[fold.count :]
    else:
        vectors = leaf_vectors(snapshot, found, fold.count)
    choose = choose or by_likeness(settings, tau)
    for vector in vectors:
        level = choose(fold, vector.astype(np.float64))
        if level is False:
            break
        fold = fold.insert(vector, level, settings)
        if fold.count % STATE_EVERY == 0:
            states.append(fold)
    return Kept(found, ids, fold, tuple(states), placer, tau)


def forest_of_fold(snapshot: Snapshot, kept: Kept, *, leaves_told: bool) -> Forest:
    """Return the tree of a fold as a forest."""
    fold, found = kept.fold, kept.exchanges
    growth = Growth(OWNER, snapshot, [KIND] if fold.count else [], [0] if fold.count else [])
    of = slice(0, fold.count)
    leaves = growth.runs(np.zeros(fold.count, dtype=np.int64), TURNS, found.first[of], found.end[of])
    by_level: dict[int, list[Node]] = {}
    stack = [one for one in fold.ends[-1:] if one.kids]
    while stack:
        node = stack.pop()
        by_level.setdefault(node.level, []).append(node)
        stack += [kid for kid in reversed(node.kids) if kid.kids]
    rows: dict[Node, int] = {}
    for level in sorted(by_level):
        nodes = by_level[level]
        below = [rows[kid] if kid.kids else kid.first for node in nodes for kid in node.kids]
        group = np.repeat(np.arange(len(nodes)), [len(node.kids) for node in nodes])
        made = growth.above(np.array(below, dtype=np.int64), group, level)
        rows |= dict(zip(nodes, made.tolist(), strict=True))
    told = np.arange(growth.size) if leaves_told else np.arange(len(leaves), growth.size)
    return growth.forest(told=told, kept=kept)
