"""The trees of the hmem index: events joined by likeness within windows of the calendar, from week to year.

There is one tree a year. An event is a fact, or a turn, with a vector. In each window nodes are placed in the order in which they
were begun: a node joins the memory that it is most like, if that is like it at all, and begins one otherwise, within one window of
the size of its parent; weeks are cut where months end. The paper leaves open what of a cluster a node is compared with (here the
member most like it), and which of two equally near clusters it joins: the one that was begun earlier. Windows that hold the same
as before are taken over from the forest before.

Source: H-Mem (arXiv 2605.15701) §3.2, App. A.2 and A.4. The paper's L1 to L4 are the levels 0 to 3 here; level 4 is the root of a
year, which is no memory. How alike nodes must be to join is measured per embedder and level by
`scripts/calibrate_memories.py`; an embedder that was not measured gets the middle of those that were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.errors import ConfigError
from memforest.reading.periods import Unit
from memforest.search.filters import fact_places, memory_zone, turn_places
from memforest.search.forest import NONE, NOTHING, TURNS, Forest, Ints, marked_facts, marked_turns
from memforest.search.scores import Scores
from memforest.search.snapshot import Facts, Snapshot, Turns, rows_of
from memforest.search.vectors import VectorTable
from memforest.settings import Bound, Count, Settings, experimental
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.times import DAY_MS
from memforest.trees.index import measured
from memforest.trees.kernel import Growth, windows_of

OWNER, KIND = "hmem", "year"

EVENT, WEEK, MONTH, YEAR, ROOT = range(5)
LEVELS: Sequence[str] = ("event", "week", "month", "year", "root")
"""What a node of each level tells of: an event, or the time whose events it is made of."""

WITHIN: Mapping[int, Unit] = MappingProxyType({EVENT: "week_of_month", WEEK: "month", MONTH: "year"})
"""Level -> the unit of the window within which its nodes join one another."""

_YOUNG_MS, _GROWN_MS = 7 * DAY_MS, 30 * DAY_MS


def top_level(first_ms: int, last_ms: int) -> int:
    """Return the highest level that a memory has: that of weeks for 7 days, that of months until it is more than 30 days old.

    Args:
        first_ms: when its first event was told, UTC ms.
        last_ms: the present. Before the first event, as with a clock that is wrong, the memory is young.
    """
    age_ms = last_ms - first_ms
    if age_ms < _YOUNG_MS:
        return WEEK
    return MONTH if age_ms <= _GROWN_MS else YEAR


CAP = 2048
"""Nodes right before a node, in one window, that it is compared with: what a product of 2 MB of half floats costs."""


Likeness = Annotated[float, Bound(ge=-1, le=1)]

SCHEDULES: Mapping[str, Sequence[float]] = MappingProxyType(
    {"paper": (0.8, 0.7, 0.6), "strict": (0.9, 0.8, 0.7), "loose": (0.7, 0.6, 0.5)}
)
"""Least likenesses with which events join a week's memory, these a month's, and these a year's: the paper's, and the two others
that it measured."""


@dataclass(frozen=True, slots=True)
class HMemSettings(Settings):
    """How the index hmem joins events, consolidates them, and is searched."""

    KEPT: ClassVar[tuple[str, ...]] = ("events", "schedule", "compare", "cap", "words")

    events: Literal["facts", "turns"] = experimental("facts")
    """What an event is: a statement with the turns that support it, or a turn, for memories without extraction."""
    schedule: Literal["calibrated", "paper", "strict", "loose"] | Sequence[Likeness] = experimental(
        "calibrated"
    )
    """How alike is alike, on three levels: ``"calibrated"``, as measured for the embedder; the paper's .8 .7 .6, its
    ``"strict"`` .9 .8 .7 and ``"loose"`` .7 .6 .5; or three numbers."""
    compare: Literal["founder", "text"] = experimental("founder")
    """The vector by which memories of weeks and months are compared. It is that of the event that began them, so the
    trees follow from what is stored. Or it is that of their text, as in the paper, once it is made. Events are
    compared by their own."""
    cap: Count = experimental(CAP)
    """Most nodes of a window that one is compared with: those right before it."""
    words: Sequence[Count] = experimental((120, 180, 240))
    """Most words of the memory of a week, a month and a year."""

    explore: Explore = field(default_factory=Explore)
    """How evidence is looked for, where `Ranking.explore` does not say."""

    def _check(self) -> None:
        """Refuse a schedule or bounds of words that are not three numbers."""
        if not isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", tuple(self.schedule))
        for name in ("schedule", "words"):
            given = getattr(self, name)
            if not isinstance(given, str) and len(given) != 3:
                raise ConfigError(
                    f"{name}={list(given)!r} has {len(given)} numbers; give three, for weeks, months and years"
                )


def least_likenesses(settings: HMemSettings, model_id: str) -> Sequence[float]:
    """Return the least likenesses with which events, weeks and months join, -1 to 1."""
    if settings.schedule != "calibrated":
        return SCHEDULES[settings.schedule] if isinstance(settings.schedule, str) else settings.schedule
    table = measured("memory_thresholds.json")
    found = table.get(model_id)
    return tuple(
        float(median(one[level] for one in table.values()) if found is None else found[level])
        for level in LEVELS[WEEK:ROOT]
    )


BLOCK = 128
"""Nodes that are compared at once with what stands around them."""


Joined: TypeAlias = tuple[Ints, Ints, Ints, Scores]
"""How the nodes of a window joined one another, one after the other: the place of the node that began each one's cluster; a
number for each node that depends on what it is alone, none where that is not known; each node that joined with those before
it that it is most like, by place, shape (2, p); and how like they are."""

NEVER: Joined = (NOTHING, NOTHING, np.zeros((2, 0), dtype=np.int64), np.zeros(0))
"""A window without nodes."""


def assign(
    vectors: VectorTable | NDArray[np.float32],
    alpha: float,
    cap: int = CAP,
    nodes: Ints = NOTHING,
    had: Joined = NEVER,
    rows: Ints | None = None,
) -> Joined:
    """Return how the nodes of a window join: each the cluster of the one before it that it is most like, the older of equal ones.

    Where the window had most of them before, only what is new is compared.

    Args:
        vectors: of the nodes in their order, unit length, shape (n, d).
        alpha: how alike a node and a cluster must be.
        cap: most nodes that one is compared with: those right before it.
        nodes: a number for each that depends on what it is alone.
        had: how others joined in the same window.
        rows: the nodes' rows of `vectors`; None for all.
    """
    rows = np.arange(len(vectors)) if rows is None else rows
    place, count = np.arange(len(rows)), len(rows)
    _, had_nodes, had_pairs, had_likeness = had
    was = rows_of(had_nodes, nodes) if len(nodes) else np.full(count, NONE)
    kept = np.flatnonzero(was >= 0)
    if (np.diff(was[kept]) < 0).any():  # they are in another order
        was, kept = np.full(count, NONE), kept[:0]
    now = np.full(len(had_nodes), NONE)
    now[was[kept]] = kept
    new, (one, other) = was < 0, now[had_pairs]
    anew = new.copy()
    anew[one[(one >= 0) & ((other < 0) | (other < one - cap))]] = True
    # Where others are gone, some that stay come within reach.
    first, end = np.searchsorted(kept, kept - cap), np.searchsorted(was[kept], was[kept] - cap)
    anew[kept[end > first + 1]] = True
    nearer = np.flatnonzero((end == first + 1) & ~anew[kept])
    stays = (one >= 0) & ~anew[one]
    pairs, likeness = [np.stack([one[stays], other[stays]])], [had_likeness[stays]]
    most = np.full(count, alpha, dtype=np.float64)
    most[one[stays]] = had_likeness[stays]
    for begin in range(0, len(nearer), CAP):
        at = nearer[begin : begin + CAP]
        pairs.append(np.stack([kept[at], kept[first[at]]]))
        ends = (vectors[rows[some]].astype(np.float64) for some in pairs[-1])
        likeness.append(np.round(np.einsum("ij,ij->i", *ends), 6))
    compared = np.flatnonzero(anew)
    for begin in range(0, len(compared), BLOCK):
        some = compared[begin : begin + BLOCK]
        around = place[max(0, some[0] - cap) : some[-1] + 1 if anew.all() else some[-1] + cap + 1]
        # So that no rounded likeness depends on how many vectors are multiplied at once.
        wide = vectors[rows[around]].astype(np.float64)
        near, back = np.round(_products(wide[some - around[0]], wide), 6), some[:, None] - around
        before = np.where((back > 0) & (back <= cap), near, -np.inf)
        joins = (before == before.max(axis=1)[:, None]) & (before >= alpha)
        behind = (back < 0) & (back >= -cap) & ~anew[around] & new[some][:, None]
        begins = behind & (near >= most[around])
        row, column = np.nonzero(joins)
        pairs.append(np.stack([some[row], around[column]]))
        likeness.append(near[row, column])
        row, column = np.nonzero(begins)
        pairs.append(np.stack([around[column], some[row]]))
        likeness.append(near[row, column])
    one, other = np.concatenate(pairs, axis=1)
    alike = np.concatenate(likeness)
    np.maximum.at(most, one, alike)
    best = np.flatnonzero(alike == most[one])  # none that is below alpha
    best = best[np.argsort(one[best], kind="stable")]
    founders = place.tolist()
    for at, earlier in zip(one[best].tolist(), other[best].tolist(), strict=True):
        founders[at] = min(founders[at], founders[earlier])
    joined = np.stack([one[best], other[best]])
    return np.array(founders, dtype=np.int64), nodes, joined, alike[best]


def _products(some: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the products of some vectors with others; of few without BLAS, whose threads would cost more than they save."""
    found: NDArray[np.float64] = np.einsum("ij,kj->ik", some, others) if len(some) < 8 else some @ others.T
    return found


TextVectors = Callable[[Forest, Ints], NDArray[np.float32]]
"""Returns the vectors of what nodes say, zeros where that is not made."""


def grown(
    tx: Tx, snapshot: Snapshot, settings: HMemSettings, old: Forest | None, said: TextVectors | None = None
) -> Forest:
    """Return the trees of a snapshot.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: the turns and facts.
        settings: how events join.
        old: the trees of an earlier snapshot.
        said: what memories are compared by, if not by the events that began them.
    """
    model, of_facts = meta.get(tx, "embedder"), settings.events == "facts"
    items, told_ms, bits = _events(snapshot, of_facts)
    if model is None or not len(items):
        return Growth(OWNER, snapshot, (), ()).forest(kept={})
    vectors = (snapshot.facts if of_facts else snapshot.turns).vectors
    alphas = least_likenesses(settings, model)
    *within, (of_tree, years) = windows_of(told_ms, (*WITHIN.values(), "year"), memory_zone(tx))
    growth = Growth(OWNER, snapshot, [KIND] * len(years), [int(key) for key, *_ in years])
    below = growth.facts(of_tree, items) if of_facts else growth.runs(of_tree, TURNS, items, items + 1)
    # A forest keeps how the nodes of each level joined within each window.
    had: Mapping[tuple[int, str], Joined] = {} if old is None else old.kept
    windows: dict[tuple[int, str], Joined] = {}
    founders, told = np.arange(len(items)), [NOTHING]
    for level in range(EVENT, top_level(int(told_ms[0]), int(told_ms[-1]))):
        of, calendar = within[level]
        place, of = np.arange(len(founders)), of[founders]
        parent, rows = place.copy(), items[founders]
        compared: VectorTable | NDArray[np.float32] = vectors
        if said is not None and level > EVENT:
            texts = said(growth.forest(), below)
            compared, rows = np.where(np.any(texts, axis=1)[:, None], texts, vectors[rows]), place
        for members in np.split(place, np.flatnonzero(np.diff(of)) + 1):
            window, nodes = (level, calendar[of[members[0]]][0]), bits[founders[members]]
            joined = had.get(window, NEVER)
            if compared is not vectors:
                joined = assign(compared, alphas[level], settings.cap, rows=rows[members])
            elif not np.array_equal(nodes, joined[1]):
                joined = assign(vectors, alphas[level], settings.cap, nodes, joined, rows[members])
            windows[window] = joined
            parent[members] = members[joined[0]]
        begins = parent == place
        founders, own = founders[begins], of[begins]  # the window in which they joined
        names = [key for key, *_ in calendar]
        below = growth.above(below, (np.cumsum(begins) - 1)[parent], level + 1, (names, own))
        told.append(below)
    growth.above(below, np.unique(of_tree[founders], return_inverse=True)[1], ROOT)
    return growth.forest(told=np.concatenate(told), kept=windows)


def _events(snapshot: Snapshot, of_facts: bool) -> tuple[Ints, Ints, Ints]:
    """Return the events, the facts or the turns that may be shown and have a vector, as they were told.

    Returns:
        Their rows, when each was told, UTC ms, and a number for each that depends on its id and its vector.
    """
    if not snapshot.dimension:
        return NOTHING, NOTHING, NOTHING
    told: Facts | Turns = snapshot.facts if of_facts else snapshot.turns
    _, has, bits = (marked_facts if of_facts else marked_turns)(snapshot)
    if not of_facts:
        has = has & ~snapshot.turns.muted
    rows = np.flatnonzero(has)
    places = fact_places(snapshot) if of_facts else turn_places(snapshot)
    rows = rows[np.lexsort((places[rows], told.said_ms[rows]))]
    return rows, told.said_ms[rows], bits[rows]
