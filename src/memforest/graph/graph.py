"""The graph of a memory: whom and what it names, and what joins them; worked out from a snapshot, and kept nowhere.

What is stored are observations (what statements name, relate and tell of states) and what people decided of names. Which names are
one entity, how much joins two, and since when a relation holds are a function of these alone: the order in which they were
stored does not matter, what is deleted leaves nothing, and two processes see the same. A snapshot of an earlier moment has the graph
of what it holds; what people decided of names by then holds in it.

An entity of the graph is a *place*, 0 to n - 1: one or several stored entities that are one, under the row id of the one that
stands for them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from memforest.facts.entities import speaker_key
from memforest.graph.edges import (
    ALIKE,
    MOST_TOGETHER,
    OVERLAP,
    RELATION,
    TOGETHER,
    Edges,
    Pairs,
    join_pairs,
    pairs_within,
)
from memforest.graph.named import Choice, Named, Resolution
from memforest.graph.relations import KnownRelation, Seen, StateLine, known_relations, state_lines
from memforest.graph.resolve import resolve
from memforest.search.snapshot import OPEN, Delta, Ints, Lists, Snapshot, count_bytes, once_per_snapshot, ranges
from memforest.store import choices, meta, names, relations
from memforest.store import snapshot as rows
from memforest.store.corrections import NOW
from memforest.store.facts import KINDS
from memforest.store.tx import Tx
from memforest.types import EntityKind

__all__ = ["Graph", "Read", "graph_of", "make_graph", "names_of", "read_graph"]

OBJECT_BYTES = 400
"""What the Python objects of one entity or relation take, about."""


@dataclass(frozen=True, eq=False)
class Graph:
    """The entities of a memory and what joins them. Immutable, shared by concurrent readers."""

    ids: Ints
    """Row id of the entity that stands for each place, ascending."""
    order: Ints
    """Where each place stands among all by its key: what decides between equals, as row ids depend on what was stored first."""
    keys: tuple[str, ...]
    labels: tuple[str, ...]
    kinds: tuple[EntityKind, ...]
    members: Lists
    """Place -> row ids of the stored entities that are one in it, ascending."""
    facts: Lists
    """Place -> fact rows of the snapshot that name it, ascending."""
    turns: Lists
    """Place -> turn rows of the snapshot that support these, ascending."""
    of_fact: Lists
    """Fact row -> places that it names."""
    edges: Edges
    relations: tuple[KnownRelation, ...]
    """By the key of the source, label, and key of the target."""
    states: tuple[StateLine, ...]
    """What was told of states, by place and attribute."""
    resolution: Resolution
    """Which stored entities are one, and why."""
    by_key: Mapping[str, int]
    """Key or alias -> place."""
    spelled: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Row id of a stored entity -> names by which it is called beside its label."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return dict(zip(self.members.values.tolist(), self.members.owners.tolist(), strict=True))

    def place(self, entity: int) -> int:
        """Return the place of a stored entity, -1 when the graph has none of it."""
        return self._place_of.get(entity, -1)

    def names(self, place: int) -> tuple[str, ...]:
        """Return the names of a place as they were spelled, its label first."""
        found = dict.fromkeys([self.labels[place]])
        for entity in self.members[place]:
            found |= dict.fromkeys(self.spelled.get(entity, ()))
        return tuple(found)

    @cached_property
    def supports(self) -> Ints:
        """How many facts name each place."""
        return self.facts.counts

    @cached_property
    def relations_of(self) -> Lists:
        """Place -> the relations that it is an end of, as positions in `relations`."""
        ends = [[] for _ in range(len(self))]  # type: list[list[int]]
        for at, one in enumerate(self.relations):
            ends[one.source].append(at)
            ends[one.target].append(at)
        return Lists.of(ends)

    @cached_property
    def states_of(self) -> Lists:
        """Place -> what was told of its states, as positions in `states`."""
        found = [[] for _ in range(len(self))]  # type: list[list[int]]
        for at, line in enumerate(self.states):
            found[line.place].append(at)
        return Lists.of(found)

    @property
    def nbytes(self) -> int:
        """Bytes of it, about."""
        arrays = (self.ids, self.order, self.members, self.facts, self.turns, self.of_fact, self.edges)
        objects = len(self) + len(self.relations) + len(self.states)
        return sum(one.nbytes for one in arrays) + OBJECT_BYTES * objects


@dataclass(frozen=True, slots=True)
class Read:
    """What a graph is made of beside its snapshot; all of what the snapshot holds."""

    relations: Sequence[relations.RelationRow] = ()
    choices: Sequence[Choice] = ()
    spelled: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Entity -> names by which it is called beside its label, in order."""
    apart: Sequence[tuple[int, int, int]] = ()
    """(fact, occurrence, entity) of what each occurrence names, of the facts that have several; in this order."""
    occurrence_of: Mapping[int, int] = field(default_factory=dict)
    """Row of a state -> the occurrence that tells of it."""


@dataclass(slots=True)
class _Kept:
    """The graph of one snapshot, and of what state it is."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    graph: Graph | None = None
    generation: int = -1
    stamp: object = None


def _carry(_snapshot: Snapshot, _delta: Delta, _kept: _Kept) -> _Kept:
    return _Kept()


_kept = once_per_snapshot(lambda _snapshot: _Kept(), _carry)


def graph_of(tx: Tx, snapshot: Snapshot) -> Graph:
    """Return the graph of a snapshot; made once, and shared.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, now or at a moment.

    Raises:
        ValueError: if the transaction is of another state.
    """
    kept = _kept(snapshot)
    if kept.graph is not None and kept.generation == snapshot.generation:
        return kept.graph
    if meta.generation(tx) != snapshot.generation:
        raise ValueError(
            "a graph is read in a transaction of the snapshot's state; begin one, and ask for both"
        )
    with kept.lock:
        stamp = relations.stamp(tx)
        if kept.graph is None or stamp != kept.stamp:
            kept.graph = make_graph(snapshot, read_graph(tx, snapshot))
            count_bytes(snapshot, kept.graph.nbytes)
        kept.generation, kept.stamp = snapshot.generation, stamp
        return kept.graph


def read_graph(tx: Tx, snapshot: Snapshot) -> Read:
    """Return what the graph of a snapshot is made of beside it."""

    def held(fact: int, occurrence: int) -> bool:
        return fact in snapshot.fact_row and occurrence not in snapshot.without

    spelled: dict[int, dict[str, None]] = {}
    for use in names.uses(tx):
        if held(use.fact, use.occurrence):
            spelled.setdefault(use.entity, {})[use.name] = None
    return Read(
        [one for one in relations.read(tx) if held(one.fact, one.occurrence)],
        [
            Choice(one.entity, one.other, one.same, one.made_ms)
            for one in choices.read(tx, None if snapshot.known_ms == NOW else snapshot.known_ms)
        ],
        {entity: tuple(sorted(found)) for entity, found in spelled.items()},
        [one for one in names.named_apart(tx) if held(one[0], one[1])],
        rows.occurrences_of_states(tx),
    )


def names_of(tx: Tx, snapshot: Snapshot, graph: Graph, places: Collection[int]) -> dict[int, dict[str, int]]:
    """Return place -> name -> how many occurrences of facts call it so, the most frequent first.

    Who was never named, and only spoke, has their label with 0.
    """
    asked = {entity: place for place in places for entity in graph.members[place]}
    found: dict[int, dict[str, int]] = {place: {} for place in places}
    for use in names.spelled(tx, asked):
        if use.fact in snapshot.fact_row and use.occurrence not in snapshot.without:
            counted = found[asked[use.entity]]
            counted[use.name] = counted.get(use.name, 0) + 1
    return {
        place: dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
        or {graph.labels[place]: 0}
        for place, counted in found.items()
    }


def make_graph(snapshot: Snapshot, read: Read) -> Graph:
    """Return the graph of a snapshot from what was read for it."""
    known = _known_entities(snapshot)
    resolution = resolve(_named(snapshot, known, read), read.choices)
    stands = np.array([resolution.of(entity) for entity in known.tolist()], dtype=np.int64)
    ids = np.unique(stands)
    place_of = dict(zip(known.tolist(), np.searchsorted(ids, stands).tolist(), strict=True))
    keys = tuple(snapshot.entities[entity].key for entity in ids.tolist())
    by_key = {key: place_of[entity] for key, entity in snapshot.names.items() if entity in place_of}
    order = np.empty(len(ids), dtype=np.int64)
    order[sorted(range(len(ids)), key=keys.__getitem__)] = np.arange(len(ids))
    members = _lists(np.searchsorted(ids, stands), known, len(ids))
    fact, place = _fact_places(snapshot, known, np.searchsorted(ids, stands))
    lines = state_lines(snapshot.states, place_of)
    seen = (
        Seen(place_of[one.source], one.label, place_of[one.target], one.fact, one.occurrence, one.at_ms)
        for one in read.relations
        if one.source in place_of and one.target in place_of
    )
    related = known_relations(seen, lines, by_key, read.occurrence_of, keys)
    facts = _lists(place, fact, len(ids))
    return Graph(
        ids,
        order,
        keys,
        tuple(snapshot.entities[entity].label for entity in ids.tolist()),
        tuple(_kind(snapshot, members[one]) for one in range(len(ids))),
        members,
        facts,
        _turns_of(snapshot, facts),
        _lists(fact, place, len(snapshot.facts.ids)),
        _edges(snapshot, (fact, place), related, resolution, place_of, order),
        related,
        tuple(lines),
        resolution,
        by_key,
        read.spelled,
    )


def _known_entities(snapshot: Snapshot) -> Ints:
    """Return the row ids of the entities that a fact names, and of those who speak; ascending."""
    speaking = {speaker_key(name) for name in snapshot.speakers}
    heard = [
        row for row, one in snapshot.entities.items() if one.kind == "participant" and one.key in speaking
    ]
    return np.union1d(snapshot.mentions[:, 1], np.array(heard, dtype=np.int64))


def _named(snapshot: Snapshot, known: Ints, read: Read) -> list[Named]:
    """Return the entities as they are compared by name."""
    aliases: dict[int, list[str]] = {}
    for key, entity in snapshot.names.items():
        if entity in snapshot.entities and snapshot.entities[entity].key != key:
            aliases.setdefault(entity, []).append(key)
    mentions = snapshot.mentions
    entity = np.searchsorted(known, mentions[:, 1])
    supports = np.bincount(entity, minlength=len(known)).tolist()
    near = _beside(known, mentions[:, 0], entity, _hubs(snapshot, known))
    often = np.isin(mentions[:, 0], [snapshot.fact_row[fact] for fact, _, _ in read.apart])
    apart = np.array([(occurrence, one) for _, occurrence, one in read.apart], dtype=np.int64).reshape(-1, 2)
    here = np.isin(apart[:, 1], known)
    occurrence, one = apart[here].T
    first = len(snapshot.facts.ids)
    codes, number = np.unique(occurrence, return_inverse=True)
    # Of a fact that was said once, all that it names stands beside each other; of others each occurrence tells for itself.
    beside = _beside(
        known,
        np.concatenate([mentions[:, 0][~often], first + number]),
        np.concatenate([entity[~often], np.searchsorted(known, one)]),
        np.full(first + len(codes), -1, dtype=np.int64),
    )
    return [
        Named(
            row,
            snapshot.entities[row].key,
            snapshot.entities[row].kind,  # type: ignore[arg-type]  # a column of kinds
            snapshot.entities[row].label,
            tuple(name for name in read.spelled.get(row, ()) if name != snapshot.entities[row].label),
            tuple(sorted(aliases.get(row, ()))),
            supports[at],
            near.get(at, frozenset()),
            beside.get(at, frozenset()),
        )
        for at, row in enumerate(known.tolist())
    ]


def _beside(known: Ints, owners: Ints, members: Ints, hubs: Ints) -> dict[int, frozenset[int]]:
    """Return position of an entity -> row ids of those that have an owner in common with it."""
    by_owner = np.lexsort((members, owners))
    _, one, other = pairs_within(owners[by_owner], members[by_owner], hubs)
    code = np.unique(np.concatenate([one * len(known) + other, other * len(known) + one]))
    source, target = np.divmod(code, max(len(known), 1))
    starts = np.flatnonzero(np.diff(source, prepend=-1))
    ends = np.append(starts[1:], len(source))
    rows_ = known[target].tolist()
    return {
        at: frozenset(rows_[start:end])
        for at, start, end in zip(source[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
    }


def _hubs(snapshot: Snapshot, known: Ints) -> Ints:
    """Return fact row -> position of who said it first, -1 when there is none."""
    speaker = snapshot.facts.speaker
    at = np.searchsorted(known, speaker)
    there = at < len(known)
    there[there] = known[at[there]] == speaker[there]
    return np.where(there, at, -1)


def _fact_places(snapshot: Snapshot, known: Ints, place: Ints) -> tuple[Ints, Ints]:
    """Return every (fact row, place) once, by fact row and place."""
    fact = snapshot.mentions[:, 0]
    pairs = np.stack([fact, place[np.searchsorted(known, snapshot.mentions[:, 1])]], axis=1)
    first, second = np.unique(pairs, axis=0).T if len(pairs) else pairs.T
    return np.ascontiguousarray(first), np.ascontiguousarray(second)


def _lists(owners: Ints, values: Ints, count: int) -> Lists:
    """Return the values of each of `count` owners, ascending."""
    order = np.lexsort((values, owners))
    return Lists(values[order], np.cumsum(np.bincount(owners, minlength=count)[:count], dtype=np.int64))


def _turns_of(snapshot: Snapshot, facts: Lists) -> Lists:
    """Return place -> turn rows behind the facts that name it."""
    turns = snapshot.turns_of_fact
    ends = turns.ends[facts.values]
    counts = turns.counts[facts.values]
    owners, values = np.repeat(facts.owners, counts), turns.values[ranges(ends - counts, ends)]
    size = max(len(snapshot.turns.ids), 1)
    owner, turn = np.divmod(np.unique(owners * size + values), size)
    return Lists(turn, np.cumsum(np.bincount(owner, minlength=len(facts))[: len(facts)], dtype=np.int64))


def _kind(snapshot: Snapshot, entities: Sequence[int]) -> EntityKind:
    """Return the surest kind of entities that are one."""
    kinds = {snapshot.entities[entity].kind for entity in entities}
    return next((kind for kind in KINDS if kind in kinds), "unknown")


def _edges(
    snapshot: Snapshot,
    mentions: tuple[Ints, Ints],
    related: Sequence[KnownRelation],
    resolution: Resolution,
    place_of: Mapping[int, int],
    order: Ints,
) -> Edges:
    """Return what joins places."""
    known = np.array(sorted(place_of), dtype=np.int64)
    hubs = _hubs(snapshot, known)
    places = np.array([*(place_of[entity] for entity in known.tolist()), -1], dtype=np.int64)
    owner, one, other = pairs_within(*mentions, places[hubs], MOST_TOGETHER)
    first = snapshot.facts.said_ms
    latest = first.copy()
    np.maximum.at(latest, snapshot.facts.pairs[:, 0], snapshot.turns.said_ms[snapshot.facts.pairs[:, 1]])
    together = Pairs(
        one,
        other,
        np.ones(len(one)),
        first[owner],
        latest[owner],
        np.full(len(one), TOGETHER, dtype=np.int8),
    )
    ends = [(relation.source, relation.target) for relation in related]
    times = [(relation.first_ms, relation.latest_ms) for relation in related]
    relating = Pairs.of(ends, [relation.weight for relation in related], times, RELATION)
    alike = [
        (place_of[short], place_of[long])
        for short, long, _ in resolution.overlaps
        if short in place_of and long in place_of
    ]
    repairs = Pairs.of(alike, [ALIKE] * len(alike), [(OPEN, 0)] * len(alike), OVERLAP)
    return join_pairs(len(order), order, together, relating, repairs)
