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
from datetime import tzinfo
from statistics import median
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.errors import ConfigError
from memforest.reading.periods import Unit, window_keys
from memforest.search.filters import fact_places, memory_zone, turn_places
from memforest.search.forest import NOTHING, TURNS, Forest, Ints, marks_of, mixed
from memforest.search.snapshot import Snapshot
from memforest.settings import Bound, Count, Settings
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.trees.index import measured
from memforest.trees.kernel import Growth

OWNER, KIND = "hmem", "year"

EVENT, WEEK, MONTH, YEAR, ROOT = range(5)
LEVELS: Sequence[str] = ("event", "week", "month", "year", "root")
"""What a node of each level tells of: an event, or the time whose events it is made of."""

WITHIN: Mapping[int, Unit] = MappingProxyType({EVENT: "week_of_month", WEEK: "month", MONTH: "year"})
"""Level -> the unit of the window within which its nodes join one another."""

_DAY_MS = 86_400_000
_YOUNG_MS, _GROWN_MS = 7 * _DAY_MS, 30 * _DAY_MS


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

    events: Literal["facts", "turns"] = "facts"
    """What an event is: a statement with the turns that support it, or a turn, for memories without extraction."""
    schedule: Literal["calibrated", "paper", "strict", "loose"] | Sequence[Likeness] = "calibrated"
    """How alike is alike, on three levels: ``"calibrated"``, as measured for the embedder; the paper's .8 .7 .6, its
    ``"strict"`` .9 .8 .7 and ``"loose"`` .7 .6 .5; or three numbers."""
    compare: Literal["founder", "text"] = "founder"
    """By which vector memories of weeks and months are compared: of the event that began them, so that the trees follow from what
    is stored, or of what they say, as in the paper, once that is made. Events are compared by their own."""
    cap: Count = CAP
    """Most nodes of a window that one is compared with: those right before it."""
    words: Sequence[Count] = (120, 180, 240)
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
"""Nodes that are compared at once with what stands before them."""


def assign(vectors: NDArray[np.float32], alpha: float, cap: int = CAP, before: Ints = NOTHING) -> Ints:
    """Return the clusters that nodes of a window join, one after the other: the place of the node that began each one's.

    Args:
        vectors: of the nodes in their order, unit length, shape (n, d).
        alpha: how alike a node and a cluster must be.
        cap: most nodes that one is compared with: those right before it.
        before: what the first ones have joined, if that is known.
    """
    founders = np.arange(len(vectors))
    founders[: len(before)] = before
    for begin in range(len(before), len(vectors), BLOCK):
        end, reach = min(begin + BLOCK, len(vectors)), max(0, begin - cap)
        # So that no rounded likeness depends on how many vectors are multiplied at once.
        wide = vectors[reach:end].astype(np.float64)
        near = np.round(_products(wide[begin - reach :], wide), 6)
        for at in range(max(begin, 1), end):
            low = max(0, at - cap)
            likeness = near[at - begin, low - reach : at - reach]
            most = likeness.max()
            if most >= alpha:
                founders[at] = founders[low:at][likeness == most].min()
    return founders


def _products(some: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the products of some vectors with others; of few without BLAS, whose threads would cost more than they save."""
    found: NDArray[np.float64] = np.einsum("ij,kj->ik", some, others) if len(some) < 8 else some @ others.T
    return found


Window: TypeAlias = tuple[int, str]
"""A level, and the key of the window in which its nodes join. A forest keeps how those of each did, by what they are."""


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
    items, ids, told_ms = _events(snapshot, of_facts)
    if model is None or not len(items):
        return Growth(OWNER, snapshot, (), ()).forest(kept={})
    vectors = (snapshot.facts if of_facts else snapshot.turns).vectors[items]
    alphas = least_likenesses(settings, model)
    *within, of_year = _windows(told_ms, memory_zone(tx))
    of_tree, years = of_year
    growth = Growth(OWNER, snapshot, [KIND] * len(years), [int(year) for year in years])
    below = growth.facts(of_tree, items) if of_facts else growth.runs(of_tree, TURNS, items, items + 1)
    bits = mixed(ids.astype(np.uint64), marks_of(vectors)).astype(np.int64)
    had: Mapping[Window, tuple[Ints, Ints]] = {} if old is None else old.kept
    windows: dict[Window, tuple[Ints, Ints]] = {}
    founders = np.arange(len(items))
    for level in range(EVENT, top_level(int(told_ms.min()), int(told_ms.max()))):
        of, keys = within[level]
        texts = np.zeros(0) if said is None or level == EVENT else said(growth.forest(), below)
        parent, of = np.arange(len(founders)), of[founders]
        order = np.argsort(of, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
            own, key = founders[members], keys[of[members[0]]]
            known = bits[own] if not len(texts) else NOTHING
            was, joined = had.get((level, key), (NOTHING, NOTHING))
            same = _same(was, known)
            if same < len(members):
                compared = vectors[own]
                if len(texts):
                    compared = np.where(np.any(texts[members], axis=1)[:, None], texts[members], compared)
                joined = assign(compared, alphas[level], settings.cap, joined[:same])
            windows[level, key] = known, joined[: len(members)]
            parent[members] = members[joined[: len(members)]]
        begun, number = np.unique(parent, return_inverse=True)
        below = growth.above(below, number, level + 1, (keys, of[begun]))  # the window in which they joined
        founders = founders[begun]
    growth.above(below, np.unique(of_tree[founders], return_inverse=True)[1], ROOT)
    bare = growth.forest()
    told = np.flatnonzero((bare.level >= WEEK) & (bare.level < ROOT))
    return growth.forest(told=told, kept=windows)


def _same(one: Ints, other: Ints) -> int:
    """Return how many numbers two columns begin with in common."""
    least = min(len(one), len(other))
    differ = np.flatnonzero(one[:least] != other[:least])
    return int(differ[0]) if len(differ) else least


def _events(snapshot: Snapshot, of_facts: bool) -> tuple[Ints, Ints, Ints]:
    """Return the events, the facts or the turns that may be shown and have a vector, as they were told: rows, ids, and when, UTC ms."""
    told = snapshot.facts if of_facts else snapshot.turns
    if not snapshot.dimension:
        return NOTHING, NOTHING, NOTHING
    has = np.asarray(told.vectors.rows).any(axis=1)
    if not of_facts:
        has &= ~snapshot.turns.muted
    rows = np.flatnonzero(has)
    places = fact_places(snapshot) if of_facts else turn_places(snapshot)
    rows = rows[np.lexsort((places[rows], told.said_ms[rows]))]
    return rows, told.ids[rows], told.said_ms[rows]


def _windows(told_ms: Ints, zone: tzinfo) -> list[tuple[Ints, list[str]]]:
    """Return, for the windows in which nodes of each level join and for years, the number of each event's and their keys."""
    instants, place = np.unique(told_ms, return_inverse=True)
    found = []
    for names in zip(*window_keys(instants.tolist(), (*WITHIN.values(), "year"), zone), strict=True):
        keys = sorted(set(names))
        number = {key: at for at, key in enumerate(keys)}
        found.append((np.array([number[name] for name in names], dtype=np.int64)[place], keys))
    return found
