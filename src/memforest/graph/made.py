"""How a graph is made: what is read beside its snapshot, which names are one entity, and arrays of all that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from memforest.graph.known import Graph
from memforest.graph.named import Choice, Named, Resolution
from memforest.graph.relations import Known, KnownRelation, Seen, known_relations, state_lines
from memforest.graph.resolve import Resolver
from memforest.search.snapshot import OPEN, Ints, Lists, Snapshot, ranges
from memforest.store import choices, names, relations
from memforest.store import snapshot as rows
from memforest.store.corrections import NOW
from memforest.store.facts import KINDS
from memforest.store.tx import Tx
from memforest.types import EntityKind

SHARE = 0.25
"""Of the entities; when more than this has changed, comparing all is as quick."""


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


class Making:
    """What making a graph leaves to the next one: which entities were one, and what statements made of relations.

    It changes when it is used, so one graph at a time is made with it.
    """

    def __init__(self) -> None:
        self._named: dict[int, Named] = {}
        self._resolver = Resolver()
        self.relations: Known = {}

    def resolved(self, named: Sequence[Named], choices: Sequence[Choice]) -> Resolution:
        """Return which entities are one: what has changed since is compared again, where most has not."""
        now = {one.id: one for one in named}
        changed = [one for one in named if self._named.get(one.id) != one]
        gone = self._named.keys() - now.keys()
        if len(changed) + len(gone) > SHARE * len(now):
            self._resolver = Resolver(named, choices)
        else:
            self._resolver.update(changed, gone, choices)
        self._named = now
        return self._resolver.resolution


def make_graph(snapshot: Snapshot, read: Read, making: Making | None = None) -> Graph:
    """Return the graph of a snapshot from what was read for it.

    Args:
        snapshot: of the memory.
        read: what is read beside it.
        making: what an earlier graph has left, of whichever snapshot; it saves work, and the graph is the same.
    """
    making = making or Making()
    known = _known_entities(snapshot)
    resolution = making.resolved(_named(snapshot, known, read), read.choices)
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
    related = known_relations(seen, lines, by_key, read.occurrence_of, keys, making.relations)
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
        {row: (snapshot.entities[row].label, *read.spelled.get(row, ())) for row in known.tolist()},
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
    member = np.searchsorted(known, mentions[:, 1])
    supports = np.bincount(member, minlength=len(known)).tolist()
    by_fact = np.lexsort((member, mentions[:, 0]))
    pairs = pairs_within(mentions[by_fact, 0], member[by_fact], _hubs(snapshot, known))
    near = beside = _others(known, *pairs[1:])
    if read.apart:
        beside = _others(known, *_beside(snapshot, known, read.apart, pairs))
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


def _beside(
    snapshot: Snapshot, known: Ints, apart: Sequence[tuple[int, int, int]], pairs: tuple[Ints, Ints, Ints]
) -> tuple[Ints, Ints]:
    """Return the pairs that one statement names: of a fact with several occurrences, each of these tells for itself."""
    several = np.array([snapshot.fact_row[fact] for fact, _, _ in apart], dtype=np.int64)
    once = ~np.isin(pairs[0], several)
    named = np.array([(occurrence, entity) for _, occurrence, entity in apart], dtype=np.int64)
    occurrence, entity = named[np.isin(named[:, 1], known)].T
    order = np.lexsort((entity, occurrence))
    codes, number = np.unique(occurrence[order], return_inverse=True)
    nobody = np.full(len(codes), -1, dtype=np.int64)
    _, one, other = pairs_within(number, np.searchsorted(known, entity[order]), nobody)
    return np.concatenate([pairs[1][once], one]), np.concatenate([pairs[2][once], other])


def _others(known: Ints, one: Ints, other: Ints) -> dict[int, frozenset[int]]:
    """Return position of an entity -> row ids of those that it makes a pair with."""
    code = np.sort(np.concatenate([one * len(known) + other, other * len(known) + one]))
    code = code[np.diff(code, prepend=-1) != 0]
    source, target = np.divmod(code, max(len(known), 1))
    starts = np.flatnonzero(np.diff(source, prepend=-1))
    ends = np.append(starts, len(source))[1:]
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
    return _once(fact, place[np.searchsorted(known, snapshot.mentions[:, 1])], len(known))


def _once(first: Ints, second: Ints, size: int) -> tuple[Ints, Ints]:
    """Return every pair once, in order; `size` is more than any second one. Sorting is faster than a hash table here."""
    code = np.sort(first * max(size, 1) + second)
    one, other = np.divmod(code[np.diff(code, prepend=-1) != 0], max(size, 1))
    return one, other


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
    owner, turn = _once(owners, values, size)
    return Lists(turn, np.cumsum(np.bincount(owner, minlength=len(facts))[: len(facts)], dtype=np.int64))


def _kind(snapshot: Snapshot, entities: Sequence[int]) -> EntityKind:
    """Return the surest kind of entities that are one."""
    kinds = {snapshot.entities[entity].kind for entity in entities}
    if len(kinds) == 1:
        return kinds.pop()  # type: ignore[return-value]  # a column of kinds
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
