"""Snapshots put together by hand, for tests of what is computed on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.config import Ranking
from memforest.graph.names import NamedEntity, Resolution
from memforest.graph.resolve import Resolver
from memforest.records import TURN_ROLES, QuestionPlan
from memforest.search import cache
from memforest.search.attributes import Readings
from memforest.search.filters import Search
from memforest.search.forest import FACT, INNER, EmbeddedForest, Forest
from memforest.search.snapshot import OPEN, Facts, Snapshot, Turns
from memforest.search.vectors import VectorTable
from memforest.search.vocabulary import Vocabulary, _vocabulary
from memforest.store.corrections import ChoiceRow
from memforest.store.facts import EntityRow
from memforest.store.reads import StateSeen
from memforest.trees.kernel import fact_times
from memforest.trees.memforest import MemForestIndex

__all__ = [
    "DAY",
    "DIMENSION",
    "OFF",
    "WEIGHTS",
    "Fact",
    "Said",
    "Tree",
    "decided",
    "hand_made",
    "make_vocabulary",
    "planted",
    "resolve",
    "searching",
    "state",
]

DAY = 86_400_000
DIMENSION = 4
WEIGHTS = [one.name for one in fields(Ranking) if one.name not in ("recall", "explore")]
"""The settings of a ranking that are weights: 0 switches the part off."""
OFF: dict[str, Any] = dict.fromkeys(WEIGHTS, 0.0)


@dataclass(frozen=True)
class Said:
    """A turn: who said it, on which day, in which session; `vector` is one axis of the space."""

    speaker: str
    day: float
    session: int = 1
    asks: bool = False
    asks_last: bool = False
    words: int = 5
    axis: int = -1
    role: str = ""
    known: float = 1.0


@dataclass(frozen=True)
class Fact:
    """A fact with the turn rows that support it; `start` and `end` are days when it states a time."""

    turns: tuple[int, ...]
    start: float | None = None
    end: float | None = None
    axis: int = -1
    speaker: int = 0


@dataclass(frozen=True)
class Tree:
    """A tree as nested tuples: a leaf is ("turns", first, end) or ("fact", row), anything else inner."""

    kind: str
    scope: int
    shape: tuple[object, ...]
    axes: dict[int, int] = field(default_factory=dict)


def hand_made(
    turns: Sequence[Said],
    facts: Sequence[Fact] = (),
    trees: Sequence[Tree] = (),
    states: Sequence[StateSeen] = (),
    mentions: Sequence[tuple[int, int]] = (),
) -> Snapshot:
    """Return a snapshot; ids of turns count from 101, of facts from 201, entities are the speakers from 1."""
    speakers = tuple(dict.fromkeys(turn.speaker for turn in turns))
    pairs = np.array([(f, t) for f, fact in enumerate(facts) for t in fact.turns], dtype=np.int64)
    snapshot = Snapshot(
        generation=1,
        dimension=DIMENSION,
        speakers=speakers,
        entities={i: EntityRow(i, name.lower(), name, "participant") for i, name in enumerate(speakers, 1)},
        names={name.lower(): i for i, name in enumerate(speakers, 1)},
        turns=_turns(turns, speakers, {t for fact in facts if fact.start is not None for t in fact.turns}),
        facts=_facts(facts, turns, pairs.reshape(-1, 2)),
        states=tuple(states),
        mentions=np.array(mentions, dtype=np.int64).reshape(-1, 2),
    )
    made = _forest(snapshot, trees)
    put_forest(snapshot, made)
    _planted[snapshot] = made
    return snapshot


_planted: WeakKeyDictionary[Snapshot, EmbeddedForest] = WeakKeyDictionary()


def planted(snapshot: Snapshot) -> EmbeddedForest:
    """Return the trees of a snapshot that was put together by hand."""
    return _planted[snapshot]


def searching(plan: QuestionPlan | None = None, *, axis: int = 0, ranking: Ranking | None = None) -> Search:
    """Return a request whose question points along one axis, asked on day 1000."""
    return Search(
        tokens=(),
        plan=plan or QuestionPlan(),
        reference_ms=1000 * DAY,
        vector=_axis(axis),
        bare_vector=_axis(axis),
        ranking=ranking or Ranking(),
    )


def state(
    fact: int, value: str, day: float, *, previous: str | None = None, attribute: str = "home"
) -> StateSeen:
    """Return one observation of entity 1: the fact of that row said `value` on that day."""
    return StateSeen(1, attribute, value, previous, "is", 201 + fact, round(day * DAY), f"{fact:03}")


def _axis(axis: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.eye(DIMENSION, dtype=np.float32)[axis] if axis >= 0 else np.zeros(DIMENSION, dtype=np.float32)


def _table(axes: Sequence[int]) -> VectorTable:
    return VectorTable.of(np.array([_axis(axis) for axis in axes], dtype=np.float32).reshape(-1, DIMENSION))


def _turns(turns: Sequence[Said], speakers: Sequence[str], dated: set[int]) -> Turns:
    n = len(turns)
    session = np.array([turn.session for turn in turns], dtype=np.int64)
    previous, following = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    for i in range(1, n):
        if session[i] == session[i - 1]:
            previous[i], following[i - 1] = i - 1, i
    return Turns(
        ids=np.arange(101, 101 + n, dtype=np.int64),
        session=session,
        speaker=np.array([speakers.index(turn.speaker) for turn in turns], dtype=np.int64),
        role=np.array([TURN_ROLES.index(turn.role) for turn in turns], dtype=np.int8),
        said_ms=np.array([round(turn.day * DAY) for turn in turns], dtype=np.int64),
        length=np.array([turn.words for turn in turns], dtype=np.float32),
        asks=np.array([turn.asks for turn in turns], dtype=np.bool_),
        asks_last=np.array([turn.asks_last for turn in turns], dtype=np.bool_),
        known=np.array([turn.known for turn in turns], dtype=np.float32),
        dated=np.array([i in dated for i in range(n)], dtype=np.bool_),
        muted=np.zeros(n, dtype=np.bool_),
        begins=previous < 0,
        same=np.arange(len(previous)),
        previous=previous,
        following=following,
        vectors=_table([turn.axis for turn in turns]),
    )


def _facts(
    facts: Sequence[Fact], turns: Sequence[Said], pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> Facts:
    said = [turns[fact.turns[0]].day for fact in facts]
    starts = [day if fact.start is None else fact.start for fact, day in zip(facts, said, strict=True)]
    return Facts(
        ids=np.arange(201, 201 + len(facts), dtype=np.int64),
        speaker=np.array([fact.speaker for fact in facts], dtype=np.int64),
        start_ms=np.array([round(day * DAY) for day in starts], dtype=np.int64),
        end_ms=np.array([OPEN if f.end is None else round(f.end * DAY) for f in facts], dtype=np.int64),
        stated=np.array([fact.start is not None for fact in facts], dtype=np.bool_),
        said_ms=np.array([round(day * DAY) for day in said], dtype=np.int64),
        pinned=np.zeros(len(facts), dtype=np.bool_),
        key=np.arange(len(facts), dtype=np.int64),
        pairs=pairs,
        length=np.ones(len(facts), dtype=np.float32),
        vectors=_table([fact.axis for fact in facts]),
    )


class _Planting:
    """Collects the nodes of all trees, children before parents."""

    def __init__(self) -> None:
        self.tree: list[int] = []
        self.level: list[int] = []
        self.kind: list[int] = []
        self.item: list[tuple[int, int]] = []
        self.children: list[tuple[int, ...]] = []
        self.axis: list[int] = []

    def plant(self, tree: int, shape: tuple[object, ...], axes: dict[int, int]) -> int:
        """Add a subtree and return the row of its top; `axes` gives vectors of summaries by row: of leaves, those of turns."""
        children: tuple[int, ...] = ()
        kind, item = 0, (-1, -1)
        if shape[0] == "turns":
            kind, item = 1, (shape[1], shape[2])  # type: ignore[assignment]
        elif shape[0] == "fact":
            kind, item = 2, (shape[1], -1)  # type: ignore[assignment]
        else:
            children = tuple(self.plant(tree, child, axes) for child in shape)  # type: ignore[arg-type]
        self.tree.append(tree)
        self.level.append(1 + max(self.level[child] for child in children) if children else 0)
        self.kind.append(kind)
        self.item.append(item)
        self.children.append(children)
        self.axis.append(axes.get(len(self.tree) - 1, -1))
        return len(self.tree) - 1


def _forest(snapshot: Snapshot, trees: Sequence[Tree]) -> EmbeddedForest:
    planting = _Planting()
    roots = [planting.plant(number, tree.shape, tree.axes) for number, tree in enumerate(trees)]
    parent = np.full(len(planting.tree), -1, dtype=np.int64)
    for row, children in enumerate(planting.children):
        parent[list(children)] = row
    items = np.array(planting.item, dtype=np.int64).reshape(-1, 2)
    starts, ends = np.zeros(len(items), dtype=np.int64), np.ones(len(items), dtype=np.int64)
    fact_start, fact_end = fact_times(snapshot.facts)
    for row, children in enumerate(planting.children):
        kind, (first, end) = planting.kind[row], items[row].tolist()
        if children:
            starts[row], ends[row] = starts[list(children)].min(), ends[list(children)].max()
        elif kind == FACT:
            starts[row], ends[row] = fact_start[first], fact_end[first]
        else:
            said = snapshot.turns.said_ms[first:end]
            starts[row], ends[row] = said.min(), said.max() + 1
    told = [
        row
        for row, axis in enumerate(planting.axis)
        if planting.kind[row] == INNER or (axis >= 0 and planting.kind[row] == 1)
    ]
    forest = Forest(
        owner="memforest",
        tree=np.array(planting.tree, dtype=np.int64),
        level=np.array(planting.level, dtype=np.int64),
        parent=parent,
        kind=np.array(planting.kind, dtype=np.int8),
        item=items[:, 0],
        item_end=items[:, 1],
        start_ms=starts,
        end_ms=ends,
        tree_kind=tuple(tree.kind for tree in trees),
        tree_scope=np.array([tree.scope for tree in trees], dtype=np.int64),
        tree_root=np.array(roots, dtype=np.int64),
        turns=snapshot.turns,
        facts=snapshot.facts,
        told=np.array(told, dtype=np.int64),
    )
    digests = np.arange(2 * len(told), dtype=np.uint64).reshape(-1, 2)
    return EmbeddedForest(forest, _table([planting.axis[row] for row in told]), digests)


def make_vocabulary(
    texts: Sequence[str],
    people: frozenset[str],
    vectors: NDArray[np.float32],
    *,
    states: Collection[tuple[str, str]] = (),
    acting: frozenset[str] | None = None,
    said: Mapping[int, tuple[int, ...]] | None = None,
) -> Vocabulary:
    """Return the vocabulary of some statements.

    Args:
        texts: the statements.
        people: names of persons.
        vectors: of the statements, shape (m, d); d may be 0.
        states: (attribute, value) pairs that are known to be so.
        acting: the people who act, and so are no values; a partner who is only talked of may be one.
        said: number of a statement -> times, of those that were said more than once.
    """
    ids = np.arange(len(texts), dtype=np.int64)
    return _vocabulary(
        Readings().changed((), dict(enumerate(texts))),
        ids,
        people,
        vectors,
        states=states,
        acting=people if acting is None else acting,
        said=said or {},
    )


def put_forest(snapshot: Snapshot, found: EmbeddedForest, index: cache.Grower | None = None) -> None:
    """Set the trees of an index in a snapshot that was not read from a file; of the index memforest by default."""
    kept = cache._Grown(forest=found.forest, embedded=found, state=0)
    cache._forests.setdefault(snapshot, cache._Forests()).of[MemForestIndex() if index is None else index] = (
        kept
    )


def forests_read(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the indexes whose forests a snapshot has up to date."""
    kept = dict(cache._forests.get(snapshot, cache._NO_FORESTS).of)
    return frozenset(index.name for index, one in kept.items() if one.forest is not None)


def decided(entity: int, other: int, same: bool, made_ms: int = 0) -> ChoiceRow:
    """Return a person's decision about two entities."""
    return ChoiceRow(0, "same" if same else "apart", entity, other, made_ms)


def resolve(named: Sequence[NamedEntity], choices: Sequence[ChoiceRow] = ()) -> Resolution:
    """Return which of some entities are one."""
    return Resolver(named, choices).resolution
