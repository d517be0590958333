"""The graph of a memory: whom and what it names, and what joins them; worked out from a snapshot, and kept nowhere.

What is stored are observations (what statements name, relate and tell of states) and what people decided of names. Which
names are one entity, how much joins two, and since when a relation holds are a function of these alone: the order in which
they were stored does not matter, what is deleted leaves nothing, and two processes see the same. A snapshot of an earlier
moment has the graph of what it holds; what people decided of names by then holds in it.

An entity of the graph is a *place*, 0 to n - 1: one or several stored entities that are one, under the row id of the one
that stands for them. Two places have one edge, whatever joins them. Its weight is the number of statements that name both,
and of occurrences that relate them; names that look alike weigh less than any of these. Edges lie in both directions, those
of one place side by side, the heaviest first; of equal ones the latest, then by the key of the other end, so that no row id
decides.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memforest.graph.names import NamedEntity, Resolution
from memforest.graph.relations import (
    Known,
    KnownRelation,
    Lines,
    StateLine,
    known_relations,
    state_lines,
)
from memforest.graph.resolve import Resolver
from memforest.reading.canonical import speaker_key
from memforest.records import EntityKind
from memforest.search.snapshot import (
    OPEN,
    Ints,
    Lists,
    Snapshot,
    as_array,
    count_bytes,
    once_per_snapshot,
    ranges,
    rows_of,
)
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.facts import KINDS, EntityRow

Weights = NDArray[np.float64]

RELATION, TOGETHER, OVERLAP = 1, 2, 4
"""What an edge is made of, as bits of `Edges.kinds`: a relation, statements that name both, names that look alike."""
ALIKE = 0.5
"""Weight of names that look alike."""
MOST_TOGETHER = 32
"""Entities that a statement names at most for all of them to be joined; of one that names more, each is joined with who said it."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges by the place they begin at: those of place `p` are the columns [ends[p - 1], ends[p])."""

    ends: Ints
    targets: Ints
    weights: Weights
    first_ms: Ints
    """When something first told of it."""
    latest_ms: Ints
    """When something last did; 0 where nothing but their names joins two."""
    kinds: NDArray[np.int8]
    """Bits: `RELATION`, `TOGETHER`, `OVERLAP`."""

    def span(self, place: int) -> slice:
        """Return the columns of a place."""
        return slice(int(self.ends[place - 1]) if place else 0, int(self.ends[place]))

    def between(self, one: int, other: int) -> int:
        """Return the column of the edge from one place to another, -1 when there is none."""
        span = self.span(one)
        found = np.flatnonzero(self.targets[span] == other)
        return span.start + int(found[0]) if len(found) else -1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(sum(getattr(self, name).nbytes for name in self.__slots__))


def pairs_within(
    owners: Ints, members: Ints, hubs: Ints, most: int = MOST_TOGETHER
) -> tuple[Ints, Ints, Ints]:
    """Return every pair of members of one owner, each once: the owner, the smaller member, the larger one.

    In no order that may be relied on.

    Args:
        owners: ascending.
        members: those of one owner are different.
        hubs: by owner; where an owner has more than `most` members, each is paired with this one alone, if it is among them.
        most: see there.

    Example:
        >>> [pairs.tolist() for pairs in pairs_within(np.array([4, 4, 4]), np.array([2, 7, 9]), np.zeros(5, dtype=np.int64))]
        [[4, 4, 4], [2, 2, 7], [7, 9, 9]]
    """
    starts = np.flatnonzero(np.diff(owners, prepend=-1)) if len(owners) else np.zeros(0, dtype=np.int64)
    counts = np.diff(starts, append=len(owners))
    found: list[tuple[Ints, Ints, Ints]] = [(owners[:0],) * 3]
    for size in np.unique(counts[(counts > 1) & (counts <= most)]).tolist():
        left, right = np.triu_indices(size, 1)
        at = starts[counts == size][:, None]
        found.append(
            (np.repeat(owners[at[:, 0]], len(left)), members[at + left].ravel(), members[at + right].ravel())
        )
    for start, count in zip(starts[counts > most].tolist(), counts[counts > most].tolist(), strict=True):
        hub, beside = int(hubs[owners[start]]), members[start : start + count]
        if hub in beside:
            beside = beside[beside != hub]
            found.append((np.full(len(beside), owners[start]), np.full(len(beside), hub), beside))
    owner, one, other = map(np.concatenate, zip(*found, strict=True))
    return owner, np.minimum(one, other), np.maximum(one, other)


def join_pairs(order: Ints, pairs: Ints, weights: Weights, kinds: NDArray[np.int8]) -> Edges:
    """Return the edges that pairs of places make; a pair of a place with itself makes none.

    Args:
        order: place -> where it stands among all by its key.
        pairs: one, other, first and latest time in ms, shape (4, n); in any order, a pair as often as it was seen.
        weights: of each.
        kinds: of each, one bit.
    """
    count = max(len(order), 1)
    one, other, *times = pairs
    code = np.where(one == other, -1, np.minimum(one, other) * count + np.maximum(one, other))
    by_code = np.argsort(code, kind="stable")[np.count_nonzero(one == other) :]
    starts = np.flatnonzero(np.diff(code[by_code], prepend=-1))
    low, high = np.divmod(code[by_code[starts]], count)
    columns = [column[by_code] for column in (weights, *times, kinds)]
    if len(starts):
        gather = (np.add, np.minimum, np.maximum, np.bitwise_or)
        columns = [how.reduceat(column, starts) for how, column in zip(gather, columns, strict=True)]
    weight, first, latest, kind = (np.concatenate([column, column]) for column in columns)
    source, target = np.concatenate([low, high]), np.concatenate([high, low])
    first[kind == OVERLAP] = 0  # names look alike whenever
    best = np.lexsort((order[target], -latest, -weight, source))
    ends = np.cumsum(np.bincount(source, minlength=len(order)), dtype=np.int64)
    return Edges(ends, target[best], weight[best], first[best], latest[best], kind[best])


def columns_of(edges: Edges, places: Ints) -> tuple[Ints, Ints]:
    """Return every edge of some places: the place each begins at, and its column."""
    ends = edges.ends[places]
    starts = np.where(places > 0, edges.ends[places - 1], 0)
    return np.repeat(places, ends - starts), ranges(starts, ends)


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
    """Row id of a stored entity -> its label, and the names by which it is called beside that; of those that have more
    than the label of their place."""

    def __len__(self) -> int:
        return len(self.ids)

    def names(self, place: int) -> tuple[str, ...]:
        """Return the names of a place as they were spelled, its label first."""
        found = dict.fromkeys([self.labels[place]])
        for entity in self.members[place]:
            found |= dict.fromkeys(self.spelled.get(entity, ()))
        return tuple(found)

    @cached_property
    def words(self) -> Mapping[str, frozenset[int]]:
        """Word of a key or alias -> the places that have it."""
        found: dict[str, set[int]] = {}
        for key, place in self.by_key.items():
            for word in key.split():
                found.setdefault(word, set()).add(place)
        return {word: frozenset(places) for word, places in found.items()}

    @cached_property
    def supports(self) -> Ints:
        """How many facts name each place."""
        return self.facts.counts

    @cached_property
    def relations_of(self) -> Lists:
        """Place -> the relations that it is an end of, as positions in `relations`."""
        ends = [end for one in self.relations for end in (one.source, one.target)]
        return _lists(as_array(ends), np.arange(len(ends)) // 2, len(self))

    @cached_property
    def states_of(self) -> Lists:
        """Place -> what was told of its states, as positions in `states`."""
        return _lists(as_array([line.place for line in self.states]), np.arange(len(self.states)), len(self))

    @property
    def nbytes(self) -> int:
        """Bytes of it, about."""
        arrays = (self.ids, self.order, self.members, self.facts, self.edges)
        objects = len(self) + len(self.relations) + len(self.states)
        return sum(one.nbytes for one in arrays) + OBJECT_BYTES * objects


class Making:
    """What one making of a graph leaves to the next: what was told of each entity, who is one, the relations and the timelines.

    It changes when it is used, so one graph at a time is made with it.
    """

    def __init__(self) -> None:
        self._names: dict[int, _Names] = {}
        self._told: tuple[Ints, Ints] = (as_array(()), as_array(()))
        self._resolver = Resolver()
        self.relations: Known = {}
        self.lines: Lines = {}

    def resolved(self, snapshot: Snapshot, known: Ints, spelled: Spelled) -> Resolution:
        """Return which entities are one; only those of which something else is told are compared again.

        Args:
            snapshot: of the memory.
            known: row ids of the entities, ascending.
            spelled: how they are called beside their labels.
        """
        names = _names(snapshot, known, spelled)
        (fact, entity), facts = snapshot.mentions.T, snapshot.facts
        said = (facts.speaker + 1) * 2 + _told_again(snapshot)
        told = facts.ids[fact] << 32 | entity, facts.ids << 32 | said
        pairs = zip(self._told, told, strict=True)
        differ = np.concatenate([_differing(*codes) >> 32 for codes in pairs])
        changed = {row for row, one in names.items() if self._names.get(row) != one}
        for codes in (self._told[0], told[0]):
            changed.update((codes[np.isin(codes >> 32, differ)] & _SECOND).tolist())
        self._resolver.update(
            _named(snapshot, np.sort(as_array(changed & names.keys())), names),
            self._names.keys() - names.keys(),
            snapshot.choices,
        )
        self._names, self._told = names, told
        return self._resolver.resolution


def make_graph(snapshot: Snapshot, making: Making | None = None) -> Graph:
    """Return the graph of a snapshot.

    Args:
        snapshot: of the memory, in which each stored entity stands for itself.
        making: what an earlier graph has left, of whichever snapshot; it saves work, and the graph is the same.
    """
    making = making or Making()
    # The entities that a fact names, and those who speak.
    speaking = {speaker_key(name) for name in snapshot.speakers}
    entities = snapshot.entities
    heard = [row for row, one in entities.items() if one.kind == "participant" and one.key in speaking]
    known = np.union1d(snapshot.mentions[:, 1], as_array(heard))
    uses: dict[int, set[str]] = {}
    for use in snapshot.name_uses:
        uses.setdefault(use.entity, set()).add(use.name)
    spelled = {entity: tuple(sorted(found)) for entity, found in uses.items()}
    resolution = making.resolved(snapshot, known, spelled)
    stands = as_array([resolution.of(entity) for entity in known.tolist()])
    ids = np.unique(stands)
    places = np.searchsorted(ids, stands)
    place_of = dict(zip(known.tolist(), places.tolist(), strict=True))
    standing = [entities[entity] for entity in ids.tolist()]
    keys = tuple(one.key for one in standing)
    by_key = {key: place_of[entity] for key, entity in snapshot.names.items() if entity in place_of}
    order = np.argsort(np.array(sorted(range(len(ids)), key=keys.__getitem__), dtype=np.int64))
    members = _lists(places, known, len(ids))
    of_mention = places[np.searchsorted(known, snapshot.mentions[:, 1])]
    named = _codes(snapshot.mentions[:, 0], of_mention)
    fact, place = named >> 32, named & _SECOND
    making.lines = state_lines(snapshot.states, place_of, making.lines)
    lines = tuple(making.lines.values())
    making.relations = known_relations(snapshot.relations, lines, place_of, by_key, making.relations)
    related = tuple(
        making.relations[ends][1]
        for ends in sorted(making.relations, key=lambda one: (keys[one[0]], one[1], keys[one[2]]))
    )
    kinds = [one.kind for one in standing]
    for joined in np.flatnonzero(members.counts > 1).tolist():
        kinds[joined] = _kind(snapshot, members[joined])
    speakers = np.append(places, -1)[rows_of(known, snapshot.facts.speaker)]
    alike = [(place_of[short], place_of[long]) for short, long, _ in resolution.overlaps]
    called = sorted(entity for entity in {*spelled, *resolution.into} if entity in place_of)
    return Graph(
        ids,
        order,
        keys,
        tuple(one.label for one in standing),
        tuple(kinds),  # type: ignore[arg-type]  # a column of kinds
        members,
        _lists(place, fact, len(ids)),
        _edges(snapshot, (fact, place), speakers, related, alike, order),
        related,
        lines,
        resolution,
        by_key,
        {row: (entities[row].label, *spelled.get(row, ())) for row in called},
    )


Spelled = Mapping[int, tuple[str, ...]]
"""Entity -> names by which it is called beside its label, in order."""
_Names = tuple[EntityRow, tuple[str, ...], tuple[str, ...]]
"""An entity, the names by which it is called beside its label, and the keys that stand for it beside its own."""


def _names(snapshot: Snapshot, known: Ints, spelled: Spelled) -> dict[int, _Names]:
    """Return how the known entities are called, in the order of their row ids."""
    aliases: dict[int, list[str]] = {}
    for key, row in snapshot.names.items():
        if row in snapshot.entities and snapshot.entities[row].key != key:
            aliases.setdefault(row, []).append(key)
    return {
        row: (snapshot.entities[row], spelled.get(row, ()), tuple(sorted(aliases.get(row, ()))))
        for row in known.tolist()
    }


def _named(snapshot: Snapshot, rows: Ints, names: Mapping[int, _Names]) -> list[NamedEntity]:
    """Return some entities as they are compared by name; ascending."""
    owners, members = snapshot.mentions.T
    supports = np.bincount(members, minlength=rows.max(initial=0) + 1)[rows]
    facts, one, other = pairs_within(owners, members, snapshot.facts.speaker)
    # What is told again may call one by several names: only a fact that was told once tells that two are two.
    once = ~_told_again(snapshot)[facts]
    near, beside = _others(rows, one, other), _others(rows, one[once], other[once])
    found = []
    for row, times, *others in zip(rows.tolist(), supports.tolist(), near, beside, strict=True):
        named, spelled, aliases = names[row]
        called = tuple(name for name in spelled if name != named.label)
        found.append(NamedEntity(row, named.key, named.kind, named.label, called, aliases, times, *others))  # type: ignore[arg-type]  # a column of kinds
    return found


def _told_again(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Return which facts several turns support, shape (m,)."""
    return np.asarray(np.bincount(snapshot.facts.pairs[:, 0], minlength=len(snapshot.facts.ids)) > 1)


def _others(rows: Ints, one: Ints, other: Ints) -> list[frozenset[int]]:
    """Return of each of some entities, ascending, those that it makes a pair with."""
    source, target = np.append(one, other), np.append(other, one)
    asked = np.isin(source, rows)
    codes = _codes(source[asked], target[asked])
    parts = np.split(codes & _SECOND, np.searchsorted(codes, rows[1:] << 32))
    return [frozenset(part.tolist()) for part in parts[: len(rows)]]


_SECOND = (1 << 32) - 1
"""The bits of the second number of a code."""


def _codes(first: Ints, second: Ints) -> Ints:
    """Return every pair once, in order, as one number. Sorting is faster than a hash table here."""
    codes = np.sort(first << 32 | second)
    once: Ints = codes[np.diff(codes, prepend=-1) != 0]
    return once


def _differing(was: Ints, now: Ints) -> Ints:
    """Return the codes that one of two columns has and the other has not; both ascending, without equal ones."""
    codes = np.sort(np.append(was, now), kind="stable")  # merges the two
    steps = np.diff(codes, prepend=-1, append=-1) != 0
    alone: Ints = codes[steps[1:] & steps[:-1]]
    return alone


def _lists(owners: Ints, values: Ints, count: int) -> Lists:
    """Return the values of each of `count` owners, ascending."""
    order = np.lexsort((values, owners))
    return Lists(values[order], np.cumsum(np.bincount(owners, minlength=count)[:count], dtype=np.int64))


def _kind(snapshot: Snapshot, entities: Sequence[int]) -> EntityKind:
    """Return the surest kind of entities that are one."""
    kinds = {snapshot.entities[entity].kind for entity in entities}
    return next((kind for kind in KINDS if kind in kinds), "unknown")


def _edges(
    snapshot: Snapshot,
    mentions: tuple[Ints, Ints],
    speakers: Ints,
    related: Sequence[KnownRelation],
    alike: Sequence[tuple[int, int]],
    order: Ints,
) -> Edges:
    """Return what joins places.

    Args:
        snapshot: of the memory.
        mentions: fact row and place of every mention.
        speakers: by fact row, the place of who said it first, -1 when there is none.
        related: the relations.
        alike: pairs of places with names that look alike.
        order: as in `join_pairs`.
    """
    owner, one, other = pairs_within(*mentions, speakers)
    first = snapshot.facts.said_ms
    latest = first.copy()
    np.maximum.at(latest, snapshot.facts.pairs[:, 0], snapshot.turns.said_ms[snapshot.facts.pairs[:, 1]])
    columns = ("source", "target", "first_ms", "latest_ms")
    told = as_array([getattr(each, name) for name in columns for each in related]).reshape(4, -1)
    looking = np.array([(*ends, OPEN, 0) for ends in alike], dtype=np.int64).reshape(-1, 4).T
    weights = [each.weight for each in related] + [ALIKE] * len(alike)
    counts = [len(one), len(related), len(alike)]
    return join_pairs(
        order,
        np.concatenate([np.stack([one, other, first[owner], latest[owner]]), told, looking], axis=1),
        np.append(np.ones(len(one)), weights),
        np.repeat(np.array([TOGETHER, RELATION, OVERLAP], dtype=np.int8), counts),
    )


@dataclass(slots=True)
class _CachedGraph:
    """The graph of one snapshot."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    graph: Graph | None = None
    left: list[Making] = field(default_factory=list)
    """What the last graph has left, for the first graph that takes it."""


_kept = once_per_snapshot(
    lambda _snapshot: _CachedGraph(), lambda _snapshot, _delta, kept: _CachedGraph(left=kept.left)
)


def graph_of(snapshot: Snapshot) -> Graph:
    """Return the graph of a snapshot, now or at a moment; made once, and shared."""
    snapshot = snapshot.unjoined
    kept = _kept(snapshot)
    if kept.graph is not None:
        return kept.graph
    with kept.lock:
        if kept.graph is None:
            try:
                making = kept.left.pop()
            except IndexError:
                making = Making()
            kept.graph = make_graph(snapshot, making)
            kept.left = [making]
            count_bytes(snapshot, kept.graph.nbytes)
        return kept.graph


def names_of(tx: Tx, snapshot: Snapshot, graph: Graph, places: Collection[int]) -> dict[int, dict[str, int]]:
    """Return place -> name -> how many occurrences of facts call it so, the most frequent first.

    Who was never named, and only spoke, has their label with 0.
    """
    asked = {entity: place for place in places for entity in graph.members[place]}
    found: dict[int, dict[str, int]] = {place: {} for place in places}
    for fact, occurrence, entity, name in facts_rows.spelled(tx, asked):
        if fact in snapshot.fact_row and occurrence not in snapshot.without:
            counted = found[asked[entity]]
            counted[name] = counted.get(name, 0) + 1
    return {
        place: dict(sorted(counted.items(), key=lambda item: (-item[1], item[0]))) or {graph.labels[place]: 0}
        for place, counted in found.items()
    }
