"""The tree of the segtree index: exchanges of turns, and the segment tree that they grow, one after the other.

An exchange is a short run of turns of one session: something said and what was said to it. Which turns are an exchange is a
named rule, as systems that are published under one word cut differently; no rule looks at texts or times, reorders turns, or
joins turns of two sessions. The order of exchanges is the time of an exchange (the latest until then in its session), then
session and position.

The tree is a fold over them: each leaf joins the node of the *frontier* (the nodes that end with the last leaf, one on each
level) that it is most like, or begins a new root. So it follows from the exchanges and their vectors, and from nothing else. A
node is compared by the sum of the vectors of the leaves below it, of numbers of half precision in float64, which is exact. A
fold that was made before goes on where new exchanges begin; states from time to time let it go back to an earlier one.

With the placer "cosine" a leaf is placed by the vectors of what nodes say, as in the paper (its compatibility model i). Where
it went is an artifact, known by the digest of the tree so far and of the leaf: `memforest.trees.segtree` has those made that are
missing, and what has none yet is not in the tree.

Sources of the constants: SegTreeMem (arXiv 2606.04555) §4 and §5.3; where the paper says nothing, the setting's text says where
its default comes from. How like a node a leaf must be to join it is measured per embedder by
`scripts/calibrate_segments.py`; an embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, InputError
from memforest.search.filters import turn_places
from memforest.search.forest import NOTHING, TURNS, Forest, Ints, marks_of, mixed
from memforest.search.snapshot import Snapshot, ranges, rows_of
from memforest.settings import Bound, Settings, Whole
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
    """What a leaf is. ``"adjacent"``: a turn of whoever spoke first in the memory (or of `opener`) and that of somebody
    else right behind it, which has the leaf counts of the paper; ``"pairs"``: every two turns; ``"turns"``: each by itself. Turns that
    belong to no pair join the leaf before them in their session, so that none is left out."""
    opener: str = ""
    """With whose turns ``"adjacent"`` begins a leaf; when empty, who speaks first in the memory."""
    leaf_vector: Literal["mean", "text"] = "mean"
    """What a leaf is compared by: the mean of its turns' vectors, or the vector of its text, as in the paper, which
    embeds everything that is said once more."""
    placer: Literal["centroid", "cosine"] = "centroid"
    """What decides where a leaf goes. ``"centroid"``: its likeness with the mean of the leaves below a node;
    ``"cosine"``: with the vector of what the node says, as in the paper, which has it made before."""
    tau: Annotated[float, Bound(ge=-1, le=1)] | None = None
    """How like a node a leaf must be to join it, -1 to 1; None is what was measured for the embedder
    (`scripts/calibrate_segments.py`). The paper does not give one."""
    fall: Share = 0.8
    """What is left of `tau` with each level that the tree is higher than one, above 0 and at most 1. 1 is the paper's
    constant threshold. On generated talk with known turns of topic .7 to .9 are alike; trees of LoCoMo's development half
    are higher than they need be at .9."""
    backing: Annotated[float, Bound(ge=0)] = 4.0
    """Leaves like the whole conversation that ``"centroid"`` adds to what each node is compared by, so that a large node
    does not win by its size; 0 for the plain mean. On generated talk turns of topic are found best with 4 to 8."""
    height_max: Whole = 12
    """Height from which on a leaf that is like no node joins the node of this level, in the place of a new root; 0 for no
    bound. Full nodes are cut at any level, so that a tree gets higher by a few more, as the logarithm of its leaves."""
    fan_out_max: Whole = 64
    """Children of a node above which it is cut where its neighbouring children are least alike; 0 for no bound, else at
    least 8."""
    summarise: Literal["kept", "every"] = "kept"
    """Which nodes' summaries are made: where the children's texts are short enough they are kept as they are, or every
    node's is made, as in the paper's Algorithm 1."""
    scorer: Literal["fused", "cosine"] = "fused"
    """How relevant a node is to a question. ``"fused"``: by words, turns and facts, an inner node by the mean of the
    leaves below it; ``"cosine"``: by the vector of what it says, as in the paper, which found far less of the evidence."""
    propagate: Literal["top-down", "bottom-up", "none"] = "top-down"
    """Where relevance goes along the edges of the tree: from nodes to their children, to their parents, or nowhere."""
    admissible: Literal["bounded", "all", "leaves"] = "bounded"
    """Which nodes can be evidence. ``"bounded"``: none with more than `share_max` of all leaves."""
    share_max: Share = 0.05
    """Share of all leaves that a node may have, above 0 and at most 1."""
    expand: bool = True
    """Hand back the turns below a node in its place, those of its best leaf first. Otherwise what a node says is the
    evidence, `top_k` counts nodes, and a leaf is all that was said in it: at equal context less of the answers was said so,
    and its summary has to be made before a question is answered."""

    def _check(self) -> None:
        """Refuse a fan-out in which no node could be cut."""
        if 0 < self.fan_out_max < 8:
            raise ConfigError(
                f"fan_out_max={self.fan_out_max} should be at least 8, or 0 for no bound: both parts of a node that is "
                "cut keep at least a quarter of its children"
            )

    @property
    def reads_texts(self) -> bool:
        """Whether placing reads what nodes say."""
        return self.placer != "centroid"


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
        raise InputError(f"there is no rule {rule!r} for leaves; known: {', '.join(LEAF_RULES)}")
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


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of any length, rounded; 0 if one of them is zero."""
    length = float(np.sqrt((one * one).sum()) * np.sqrt((other * other).sum()))
    return float(round((one * other).sum() / length, DECIMALS)) if length else 0.0


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


def backed(total: Vector, whole: Vector, count: int, backing: float) -> Vector:
    """Return what a node is compared by: the sum of its leaves, and of so many more that are like the whole.

    The mean of many leaves is nearer to anything than a single leaf is, so a root would win by its size. Drawing each mean
    to that of everything takes that away, as it is done with means of few observations (James & Stein 1961).

    Args:
        total: sum of the leaves below the node.
        whole: sum of all leaves.
        count: number of all leaves.
        backing: leaves like the whole; 0 is the paper's plain mean.
    """
    return total + whole * (backing / count) if backing and count else total


def nearest(vector: Vector, candidates: Sequence[Vector], least: float) -> int | None:
    """Return the candidate that a vector is most like, of equally like ones the lowest; None if it is like none of them.

    Args:
        vector: of the leaf, shape (d,).
        candidates: of the nodes, of any length.
        least: likeness below which it joins none.
    """
    if not len(candidates):
        return None
    rows = np.stack(candidates)
    lengths = np.sqrt((vector * vector).sum()) * np.sqrt((rows * rows).sum(axis=1))
    likes = np.round((rows * vector).sum(axis=1) / np.where(lengths, lengths, np.inf), DECIMALS)
    best = int(likes.argmax())
    return None if likes[best] < least else best


def weakest(children: Sequence[Vector | None]) -> int:
    """Return the child from which on a full node is cut: where neighbours are least alike, of equal places the first.

    Each part keeps a quarter of the children, so that what is cut once is not full again at once. Where vectors are
    missing it is the middle.
    """
    n = len(children)
    low = max(2, n // 4)
    places = range(low, n - low + 1)
    likes = {
        at: cosine(one, other)
        for at in places
        if (one := children[at - 1]) is not None and (other := children[at]) is not None
    }
    return min(likes, key=lambda at: (likes[at], at)) if len(likes) == len(places) else n // 2


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


def leaf_vectors(
    snapshot: Snapshot, found: Exchanges, old: Kept | None
) -> tuple[Ints, NDArray[np.float32] | None]:
    """Return the unit means of exchanges' turns, rounded to half precision, shape (n, d), and what each follows from.

    Those of exchanges that are as they were are taken over from `old`. A turn whose vector is not made yet
    counts for nothing; there are none where no turn has one.
    """
    if not snapshot.dimension or not len(found.first):
        return NOTHING, None
    size, ids = found.end - found.first, snapshot.turns.ids.astype(np.uint64)
    order = np.argsort(found.first, kind="stable")
    keys = np.empty(len(order), dtype=np.int64)
    keys[order] = np.add.reduceat(
        mixed(ids, marks_of(snapshot.turns.vectors.rows)), found.first[order]
    ).astype(np.int64)
    made = np.zeros((len(keys), snapshot.dimension), dtype=np.float32)
    lacking = np.ones(len(keys), dtype=np.bool_)
    if old is not None and old.vectors is not None and old.vectors.shape[1] == snapshot.dimension:
        had = rows_of(old.vector_keys, keys)
        lacking = had < 0
        made[~lacking] = old.vectors[had[~lacking]]
    if lacking.any():
        rows = snapshot.turns.vectors[ranges(found.first[lacking], found.end[lacking])]
        sums = np.add.reduceat(rows, np.cumsum(size[lacking]) - size[lacking], axis=0, dtype=np.float64)
        lengths = np.sqrt((sums * sums).sum(axis=1))
        made[lacking] = (sums / np.where(lengths, lengths, 1.0)[:, None]).astype(NUMBER)
    return (keys, made) if made.any() else (NOTHING, None)


@dataclass(slots=True, eq=False)
class SegmentNode:
    """An inner node while the tree is folded. A child is a node, or the number of a leaf."""

    level: int
    kids: list[SegmentNode | int]
    count: int
    total: Vector | None = None
    """The sum of the vectors below, while the node is of the frontier."""
    unit: NDArray[np.float32] | None = None
    """Its direction afterwards, by which neighbours are compared."""
    cut: int = 0
    """How many leaves there were when the node was cut off, or made as a root above the parts of a cut one; else 0."""

    def copy(self) -> SegmentNode:
        """Return a node that may be changed apart from this one."""
        return SegmentNode(self.level, list(self.kids), self.count, self.total, self.unit, self.cut)


Kid = SegmentNode | int
Choose = Callable[["Fold", int], "int | Literal[False] | None"]
"""Returns the level that a leaf joins, None for a new root, False if that is not known yet."""

STATE_EVERY = 256
"""Leaves between two states that a fold can go back to."""


@dataclass(slots=True, eq=False)
class Fold:
    """The segment tree of the exchanges so far. It goes on in place, so one forest at a time may have it (`take`)."""

    settings: SegTreeSettings
    vectors: NDArray[np.float32] | None = None
    ids: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """What each leaf is known by."""
    count: int = 0
    ends: list[Kid] = field(default_factory=list)
    """The frontier: the last leaf first, the root last."""
    states: list[tuple[int, list[Kid]]] = field(default_factory=list)
    _free: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> bool:
        """Return whether the caller may go on with it; nobody else may from then on."""
        return self._free.acquire(blocking=False)

    @property
    def height(self) -> int:
        """The level of the root."""
        return level_of(self.ends[-1]) if self.ends else 0

    def go_back(self, count: int) -> None:
        """Return to a state of at most so many leaves."""
        while self.states and self.states[-1][0] > count:
            self.states.pop()
        if self.count <= count:
            return
        at, ends = self.states.pop() if self.states else (0, [])
        self.count, self.ends = at, _copied(ends)
        self.states.append((at, ends))

    def grow(self, ids: Ints, vectors: NDArray[np.float32] | None, choose: Choose) -> None:
        """Go on to all exchanges, or to the first whose place is not known.

        Args:
            ids: what each exchange is known by; where they differ from the ones before, it goes back.
            vectors: of the exchanges, shape (n, d).
            choose: decides where a leaf goes.
        """
        same = min(len(ids), len(self.ids), self.count)
        differ = np.flatnonzero(ids[:same] != self.ids[:same])
        self.go_back(int(differ[0]) if len(differ) else same)
        self.ids, self.vectors = ids, vectors
        for leaf in range(self.count, len(ids)):
            if leaf % STATE_EVERY == 0 and (not self.states or self.states[-1][0] < leaf):
                self.states.append((leaf, _copied(self.ends)))
            level = choose(self, leaf)
            if level is False:
                return
            self.insert(leaf, level)

    def choices(self) -> list[tuple[Kid, int]]:
        """Return the nodes of the frontier that a new leaf may be compared with, lowest first, each with the level it means."""
        found = []
        for node, above in zip(self.ends, [*self.ends, None][1:], strict=True):
            level = level_of(node)
            low, high = max(level, 1), level if above is None else level_of(above) - 1
            if high >= low:  # else it is the last leaf, with its parent right above
                found.append((node, low))
        return found

    def vector(self, leaf: int) -> Vector | None:
        """Return the vector of a leaf."""
        return None if self.vectors is None else self.vectors[leaf].astype(np.float64)

    def total(self, node: Kid) -> Vector | None:
        """Return the sum of the vectors at or below a node of the frontier."""
        return self.vector(node) if isinstance(node, int) else node.total

    def at_most(self, level: int | None) -> int | None:
        """Bound the level picked for a leaf: at `height_max`, None becomes that level.

        Above the parts of a node that was cut there are nodes for the parts alone; no leaf begins there.
        """
        highest = self.settings.height_max
        if level is None and 0 < highest <= self.height:
            level = highest
        if level is None or not self.ends:
            return level
        whole = first = self.ends[-1]
        for end in self.ends[-2::-1]:
            if not (level_of(end) and isinstance(first, SegmentNode) and first.cut):
                break
            whole, first = end, first.kids[0]
        return min(level, level_of(whole))

    def insert(self, leaf: int, level: int | None) -> None:
        """Add the next leaf below the frontier's node of a level, or below a new root."""
        ends, vector = self.ends, self.vector(leaf)
        if self.count < 2:
            level = None
        place = (
            len(ends) if level is None else next(i for i, one in enumerate(ends) if level_of(one) >= level)
        )
        self.count += 1
        if not ends:
            self.ends = [leaf]
            return
        goal = self.height + 1 if level is None else level
        above = [one for one in ends[place:] if isinstance(one, SegmentNode)]
        for node in above:
            node.count += 1
            node.total = None if node.total is None or vector is None else node.total + vector
        if above and above[0].level == goal:
            above[0].kids.append(leaf)
        else:
            below = ends[place - 1]
            total = self.total(below)
            made = SegmentNode(
                goal,
                [below, leaf],
                (1 if isinstance(below, int) else below.count) + 1,
                None if total is None or vector is None else total + vector,
            )
            if above:
                above[0].kids[-1] = made
            above = [made, *above]
        for end in ends[:place]:
            if isinstance(end, SegmentNode):
                _close(end)
        self.ends = [leaf, *above]
        most = self.settings.fan_out_max
        for node in above:
            if 0 < most < len(node.kids):
                self._cut(node)

    def _cut(self, node: SegmentNode) -> None:
        """Cut a node of the frontier that has too many children: the last of them become a node of the same level behind it."""
        at = weakest([self._direction(kid) for kid in node.kids])
        total, rest = node.total, node.kids[at:]
        right = None if total is None else np.sum([self._sum(kid) for kid in rest], axis=0)
        part = SegmentNode(node.level, rest, sum(map(count_of, rest)), right, cut=self.count)
        node.kids, node.count = node.kids[:at], node.count - part.count
        node.total = None if total is None or right is None else total - right
        _close(node)
        place = next(i for i, one in enumerate(self.ends) if one is node)
        above = self.ends[place + 1 :]
        if above:
            assert isinstance(above[0], SegmentNode), "what is above a node is one"
            above[0].kids.append(part)
            self.ends = [*self.ends[:place], part, *above]
        else:
            root = SegmentNode(node.level + 1, [node, part], node.count + part.count, total, cut=part.cut)
            self.ends = [*self.ends[:place], part, root]

    def _direction(self, kid: Kid) -> Vector | None:
        if isinstance(kid, int):
            return self.vector(kid)
        return kid.total if kid.unit is None else kid.unit.astype(np.float64)

    def _sum(self, kid: Kid) -> Vector:
        """Return the exact sum of all leaves at or below a node."""
        assert self.vectors is not None, "sums are of vectors"
        leaves = list(leaves_below(kid))
        found: Vector = self.vectors[leaves].astype(np.float64).sum(axis=0)
        return found


def _close(node: SegmentNode) -> None:
    """Keep the direction of a node that has left the frontier."""
    if node.total is not None:
        length = float(np.sqrt((node.total * node.total).sum()))
        node.unit = (node.total / length if length else node.total).astype(NUMBER).astype(np.float32)
        node.total = None


def _copied(ends: Sequence[Kid]) -> list[Kid]:
    """Return a frontier of its own; what is below it does not change any more."""
    made: list[Kid] = []
    for one in ends:
        new = one if isinstance(one, int) else one.copy()
        if made and isinstance(new, SegmentNode):
            new.kids[-1] = made[-1]
        made.append(new)
    return made


def level_of(node: Kid) -> int:
    """Return the level of a node, 0 of a leaf."""
    return 0 if isinstance(node, int) else node.level


def count_of(node: Kid) -> int:
    """Return how many leaves are at or below a node."""
    return 1 if isinstance(node, int) else node.count


def leaves_below(node: Kid) -> Iterator[int]:
    """Yield the leaves at or below a node, in order."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, int):
            yield one
        else:
            stack += reversed(one.kids)


def by_likeness(settings: SegTreeSettings, tau: float) -> Choose:
    """Return what places a leaf by the mean of the leaves below each node."""

    def choose(fold: Fold, leaf: int) -> int | None:
        vector, open_ = fold.vector(leaf), fold.choices()
        totals = [total for node, _ in open_ if (total := fold.total(node)) is not None]
        whole = fold.total(fold.ends[-1]) if fold.height else None
        best = None
        if vector is not None and open_ and len(totals) == len(open_) and whole is not None:
            means = [backed(one, whole, fold.count, settings.backing) for one in totals]
            best = nearest(vector, means, needed(tau, fold.height, settings.fall))
        return fold.at_most(None if best is None else open_[best][1])

    return choose


def by_count(fold: Fold, leaf: int) -> int | None:
    """Place a leaf in a memory without vectors: fixed runs of `RUN` children, level by level."""
    level, left = 1, fold.count
    while left and left % RUN == 0:
        level, left = level + 1, left // RUN
    return level if level <= fold.height else fold.at_most(None)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a forest hands on to the next one."""

    exchanges: Exchanges
    fold: Fold
    placer: str
    """What has placed the leaves."""
    tau: float | None
    vector_keys: Ints = field(default_factory=lambda: NOTHING)
    """What the vector of each leaf follows from, if that is the mean of its turns'."""
    vectors: NDArray[np.float32] | None = None


def folded(
    snapshot: Snapshot,
    settings: SegTreeSettings,
    old: Forest | None,
    tau: float,
    choose: Choose | None = None,
    texts: NDArray[np.float32] | None = None,
) -> Kept:
    """Return the fold of a snapshot's exchanges; one that was made before goes on.

    Args:
        snapshot: the turns.
        settings: how the tree grows.
        old: the forest of an earlier snapshot.
        tau: how like a node a leaf must be.
        choose: what places leaves; None for the placer "centroid".
        texts: vectors of the exchanges' texts, if leaves are compared by those; without them leaves are placed by number.
    """
    had = old.kept if old is not None and isinstance(old.kept, Kept) else None
    found = exchanges_of(snapshot, settings, None if had is None else had.exchanges)
    keys, vectors = leaf_vectors(snapshot, found, had) if settings.leaf_vector == "mean" else (NOTHING, texts)
    placer = settings.placer if vectors is not None else "runs"
    goes_on = had is not None and (had.placer, had.tau) == (placer, tau) and had.fold.take()
    fold = had.fold if had is not None and goes_on else Fold(settings)
    if goes_on:
        fold = Fold(settings, fold.vectors, fold.ids, fold.count, fold.ends, fold.states)
    ids = mixed(snapshot.turns.ids[found.first].astype(np.uint64), found.end - found.first)
    if vectors is not None:  # another vector is another leaf
        ids = mixed(ids, marks_of(vectors))
    chosen = by_count if vectors is None else choose or by_likeness(settings, tau)
    fold.grow(ids.astype(np.int64), vectors, chosen)
    return Kept(found, fold, placer, tau, keys, vectors if len(keys) else None)


def forest_of_fold(snapshot: Snapshot, kept: Kept, *, leaves_told: bool) -> Forest:
    """Return the tree of a fold as a forest."""
    fold, found = kept.fold, kept.exchanges
    growth = Growth(OWNER, snapshot, [KIND] if fold.count else [], [0] if fold.count else [])
    of = slice(0, fold.count)
    leaves = growth.runs(np.zeros(fold.count, dtype=np.int64), TURNS, found.first[of], found.end[of])
    by_level: dict[int, list[SegmentNode]] = {}
    stack = [one for one in fold.ends[-1:] if isinstance(one, SegmentNode)]
    while stack:
        node = stack.pop()
        by_level.setdefault(node.level, []).append(node)
        stack += [kid for kid in reversed(node.kids) if isinstance(kid, SegmentNode)]
    rows: dict[int, int] = {}
    for level in sorted(by_level):
        nodes = by_level[level]
        below = [kid if isinstance(kid, int) else rows[id(kid)] for node in nodes for kid in node.kids]
        group = np.repeat(np.arange(len(nodes)), [len(node.kids) for node in nodes])
        made = growth.above(np.array(below, dtype=np.int64), group, level)
        rows |= dict(zip(map(id, nodes), made.tolist(), strict=True))
    told = np.arange(growth.size) if leaves_told else np.arange(len(leaves), growth.size)
    return growth.forest(told=told, kept=kept)
