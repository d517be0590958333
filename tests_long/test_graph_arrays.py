"""Random graphs: the arrays against a naive implementation with dictionaries."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DAY, Fact, Said, decided, hand_made

from memforest.graph import graph as made
from memforest.graph.graph import OVERLAP, RELATION, TOGETHER, Graph, make_graph, pairs_within
from memforest.graph.names import NamedEntity
from memforest.graph.paths import AS_IF, Expansion, damped, expand, near, path, relations_of, seeds
from memforest.graph.resolve import Resolver
from memforest.search.snapshot import Snapshot
from memforest.store.facts import EntityRow
from memforest.store.reads import RelationRow

FEW = settings(max_examples=60, deadline=None)
# Names of which no two are alike, so that nothing but a choice joins them.
NAMES = ("quill", "bodega", "sarton", "ivory", "mexel", "thunder", "pavlova", "garnet", "oxley", "zimt")


@st.composite
def mentioned(draw: st.DrawFn) -> list[tuple[frozenset[int], int]]:
    """Return facts: whom each names, as numbers of names, and on which day it was said."""
    some = st.frozensets(st.integers(0, len(NAMES) - 1), max_size=4)
    return draw(st.lists(st.tuples(some, st.integers(0, 9)), min_size=1, max_size=8))


@st.composite
def related(draw: st.DrawFn, facts: int) -> list[tuple[int, str, int, int]]:
    """Return relations: a source, a label, a target and the fact that tells it."""
    names = st.integers(0, len(NAMES) - 1)
    one = st.tuples(names, st.sampled_from(("met", "hired")), names, st.integers(0, facts - 1))
    return draw(st.lists(one, max_size=6, unique=True))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[tuple[frozenset[int], int]], list[tuple[int, str, int, int]]]:
    """Return facts, and relations that some of them tell of entities that they name."""
    facts = draw(mentioned())
    told = draw(related(len(facts)))
    for source, _, target, at in told:
        facts[at] = (facts[at][0] | {source, target}, facts[at][1])
    return facts, told


def planted(
    facts: list[tuple[frozenset[int], int]],
    told: list[tuple[int, str, int, int]] = (),  # type: ignore[assignment]  # none
    rows: list[int] | None = None,
    choices: list[tuple[int, int]] = (),  # type: ignore[assignment]  # none
) -> tuple[Snapshot, Graph]:
    """Return a memory with these facts; `rows` are the row ids of the entities by name, from 50 if there are none."""
    ids = rows or [50 + number for number in range(len(NAMES))]
    snapshot = hand_made(
        [Said("Ana", day) for _, day in facts],
        [Fact((row,), speaker=1) for row in range(len(facts))],
        mentions=sorted((row, ids[name]) for row, (named, _) in enumerate(facts) for name in named),
    )
    entities = {
        ids[number]: EntityRow(ids[number], name, name.title(), "thing") for number, name in enumerate(NAMES)
    }
    snapshot = replace(
        snapshot,
        entities={**snapshot.entities, **dict(sorted(entities.items()))},
        names={**snapshot.names, **{one.key: row for row, one in entities.items()}},
    )
    snapshot = replace(
        snapshot,
        relations=tuple(
            RelationRow(
                number,
                201 + fact,
                number,
                ids[source],
                label,
                ids[target],
                facts[fact][1] * DAY,
                facts[fact][1] * DAY,
            )
            for number, (source, label, target, fact) in enumerate(told, 1)
        ),
        choices=tuple(decided(ids[one], ids[other], True, 1) for one, other in choices),
    )
    return snapshot, make_graph(snapshot)


Naive = dict[str, dict[str, tuple[float, int, int, int]]]


def naive_edges(facts: list[tuple[frozenset[int], int]], told: list[tuple[int, str, int, int]]) -> Naive:
    """Return name -> name -> (weight, first day, latest day, kinds), with dictionaries."""
    found: Naive = {}

    def join(one: str, other: str, day: int, kind: int) -> None:
        for a, b in ((one, other), (other, one)):
            weight, first, latest, kinds = found.setdefault(a, {}).get(b, (0.0, day, day, 0))
            found[a][b] = (weight + 1, min(first, day), max(latest, day), kinds | kind)

    for named, day in facts:
        for one, other in combinations(sorted(named), 2):
            join(NAMES[one], NAMES[other], day, TOGETHER)
    for source, _, target, fact in told:
        if source != target:
            join(NAMES[source], NAMES[target], facts[fact][1], RELATION)
    return found


def edges_of(graph: Graph) -> Naive:
    """Return the edges of a graph in the same form."""
    edges, found = graph.edges, Naive()
    for place in range(len(graph)):
        for at in range(edges.span(place).start, edges.span(place).stop):
            found.setdefault(graph.keys[place], {})[graph.keys[edges.targets[at]]] = (
                float(edges.weights[at]),
                int(edges.first_ms[at]) // DAY,
                int(edges.latest_ms[at]) // DAY,
                int(edges.kinds[at]),
            )
    return found


@FEW
@given(worlds())
def test_edges_are_those_of_a_naive_count(
    world: tuple[list[tuple[frozenset[int], int]], list[tuple[int, str, int, int]]],
) -> None:
    """Weights, times and kinds, in both directions; and those of a place stand by weight, time and key."""
    facts, told = world
    _, graph = planted(facts, told)
    found = edges_of(graph)
    assert {one: dict(sorted(to.items())) for one, to in found.items()} == {
        one: dict(sorted(to.items())) for one, to in naive_edges(facts, told).items()
    }
    for to in found.values():
        best = sorted(to, key=lambda name: (-to[name][0], -to[name][2], name))
        assert list(to) == best
    for place in range(len(graph)):
        named = [
            row for row, (names, _) in enumerate(facts) if graph.keys[place] in {NAMES[n] for n in names}
        ]
        assert list(graph.facts[place]) == named


@FEW
@given(worlds(), st.permutations(range(50, 50 + len(NAMES))))
def test_row_ids_decide_nothing(
    world: tuple[list[tuple[frozenset[int], int]], list[tuple[int, str, int, int]]], rows: list[int]
) -> None:
    """The same memory with other row ids of its entities: the same edges in the same order, expansion and relations."""
    one, other = planted(*world)[1], planted(*world, rows)[1]
    assert edges_of(one) == edges_of(other)
    for name, to in edges_of(one).items():
        assert list(to) == list(edges_of(other)[name])
    for name in NAMES:
        if name in one.by_key:
            assert reached(one, expand(one, {one.by_key[name]: 1.0}, most=2)) == reached(
                other, expand(other, {other.by_key[name]: 1.0}, most=2)
            )
    plain = [
        [(g.keys[r.source], r.label, g.keys[r.target], r.weight) for r in g.relations] for g in (one, other)
    ]
    assert plain[0] == plain[1]


def reached(graph: Graph, found: Expansion) -> list[tuple[str, float]]:
    """Return what was reached by name."""
    return [(graph.keys[place], score) for place, score in found.scores.items()]


@FEW
@given(worlds(), st.integers(0, len(NAMES) - 1), st.integers(0, 3), st.integers(1, 3), st.integers(1, 6))
def test_expansion_is_that_of_a_naive_walk(
    world: tuple[list[tuple[frozenset[int], int]], list[tuple[int, str, int, int]]],
    start: int,
    hops: int,
    most: int,
    limit: int,
) -> None:
    """Hop by hop, the best edges of each; and every place but the seed says by which edge it was reached."""
    graph = planted(*world)[1]
    if NAMES[start] not in graph.by_key:
        return
    edges = naive_edges(*world)
    scores, frontier = {NAMES[start]: 1.0}, [NAMES[start]]
    for _ in range(hops):
        new: dict[str, float] = {}
        for name in frontier:
            to = edges.get(name, {})
            for target in sorted(to, key=lambda one: (-to[one][0], -to[one][2], one))[:most]:
                if target not in scores:
                    new[target] = max(new.get(target, 0.0), damped(scores[name], to[target][0]))
        frontier = sorted(new, key=lambda one: (-new[one], one))[: limit - len(scores)]
        scores |= {name: new[name] for name in frontier}
    found = expand(graph, {graph.by_key[NAMES[start]]: 1.0}, hops=hops, most=most, limit=limit)
    assert reached(graph, found) == list(scores.items())
    assert set(found.via) == set(list(found.scores)[1:])
    for place, source in found.via.items():
        assert graph.edges.between(source, place) >= 0


@FEW
@given(worlds(), st.integers(0, len(NAMES) - 1), st.integers(0, len(NAMES) - 1), st.integers(0, 4))
def test_a_path_is_the_shortest_and_of_these_the_heaviest(
    world: tuple[list[tuple[frozenset[int], int]], list[tuple[int, str, int, int]]], a: int, b: int, hops: int
) -> None:
    """Against all simple ways; each step has its edge, and facts that tell of it."""
    snapshot, graph = planted(*world)
    if NAMES[a] not in graph.by_key or NAMES[b] not in graph.by_key:
        return
    edges = naive_edges(*world)
    ways = [[NAMES[a]]]
    found: list[list[str]] = [] if a != b else [[NAMES[a]]]
    for _ in range(hops):
        ways = [[*way, to] for way in ways for to in edges.get(way[-1], {}) if to not in way]
        found = found or [way for way in ways if way[-1] == NAMES[b]]
    found_way = path(graph, snapshot, graph.by_key[NAMES[a]], graph.by_key[NAMES[b]], hops)
    assert (found_way is None) == (not found)
    if found_way is not None:
        weights = [sum(edges[one][to][0] for one, to in pairwise(way)) for way in found]
        assert len(found_way.steps) == len(found[0]) - 1
        assert sum(step.weight for step in found_way.steps) == max(weights)
        for step in found_way.steps:
            assert step.facts
            assert bool(step.relations) == bool(step.kind & RELATION)
            for row in step.facts:
                assert all(row in graph.facts[place] for place in (step.source, step.target))


@FEW
@given(worlds())
def test_relations_are_there_once_with_all_that_tells_of_them(
    world: tuple[list[tuple[frozenset[int], int]], list[tuple[int, str, int, int]]],
) -> None:
    """Source, label and target once; as many occurrences as tell it; none of an entity to itself."""
    facts, told = world
    graph = planted(facts, told)[1]
    keys = [(graph.keys[one.source], one.label, graph.keys[one.target]) for one in graph.relations]
    expected: dict[tuple[str, str, str], set[int]] = {}
    for source, label, target, fact in told:
        if source != target:
            expected.setdefault((NAMES[source], label, NAMES[target]), set()).add(fact)
    assert keys == sorted(expected)
    for key, one in zip(keys, graph.relations, strict=True):
        assert {fact - 201 for fact in one.facts} == expected[key]
        assert one.weight == len(expected[key])
        assert one.start_ms == min(facts[fact][1] for fact in expected[key]) * DAY
    for place in range(len(graph)):
        holding, over = relations_of(graph, place)
        assert not over
        assert {(one.source, one.target) for one in holding} == {
            (one.source, one.target) for one in graph.relations if place in (one.source, one.target)
        }


def test_a_choice_adds_up_what_both_had() -> None:
    """Two entities that are one have the facts of both, and an edge for both."""
    facts = [(frozenset({0, 2}), 1), (frozenset({1, 2}), 5), (frozenset({0, 1}), 6)]
    snapshot, graph = planted(facts, choices=[(0, 1)])
    place = graph.by_key[NAMES[0]]
    assert place == graph.by_key[NAMES[1]]
    assert graph.facts[place] == (0, 1, 2)
    assert edges_of(graph)[NAMES[2]][graph.keys[place]] == (2.0, 1, 5, TOGETHER)
    assert graph.edges.between(place, place) == -1
    assert len(snapshot.facts.ids) == 3


def test_an_edge_of_which_nothing_had_told_is_not_followed() -> None:
    """At an instant before the second fact, only the first one's edge leads anywhere."""
    graph = planted([(frozenset({0, 1}), 1), (frozenset({0, 2}), 5)])[1]
    start = {graph.by_key[NAMES[0]]: 1.0}
    assert [name for name, _ in reached(graph, expand(graph, start, at_ms=2 * DAY))] == [NAMES[0], NAMES[1]]
    assert len(expand(graph, start).scores) == 3
    assert expand(graph, start, limit=0).scores == {}


def test_a_statement_that_names_very_many_joins_each_with_who_said_it_alone() -> None:
    """Ten thousand names in one statement make ten thousand pairs at most, without a speaker among them none."""
    owners, members = np.zeros(10_000, dtype=np.int64), np.arange(10_000)
    assert len(pairs_within(owners, members, np.array([-1]))[0]) == 0
    _, one, other = pairs_within(owners, members, np.array([17]))
    assert len(one) == 9_999
    assert set(np.concatenate([one[one == 17], other[other == 17]]).tolist()) == {17}
    assert len(pairs_within(owners[:5], members[:5], np.array([-1]))[0]) == 10


def test_a_name_means_its_entity_and_a_part_of_a_name_those_few_that_have_it() -> None:
    """Names and aliases score 1; a word of a few names is shared, a word of many means none."""
    snapshot = hand_made([Said("Ana", 1)], [Fact((0,))], mentions=[(0, row) for row in range(10, 18)])
    names = ["dora vex", "dora lind", "kai sol", *(f"omar {letter}{letter}x" for letter in "abcde")]
    entities = {10 + at: EntityRow(10 + at, name, name.title(), "person") for at, name in enumerate(names)}
    snapshot = replace(
        snapshot, entities=entities, names={one.key: row for row, one in entities.items()} | {"kay": 12}
    )
    graph = make_graph(snapshot)
    kai = graph.by_key["kai sol"]
    assert seeds(graph, ["Kai Sol", "KAY", "", "🙂", "nobody"]) == {kai: 1.0}
    assert seeds(graph, ["Kai"]) == {kai: 0.5}
    doras = {graph.by_key["dora vex"], graph.by_key["dora lind"]}
    assert seeds(graph, ["Dora"]) == dict.fromkeys(doras, 0.25)
    assert seeds(graph, ["Omar"]) == {}


def test_the_nearest_are_those_whose_facts_are_near_and_few_facts_are_drawn_to_the_usual() -> None:
    """The mean of the cosines with as many usual ones added; a fact without a vector does not count."""
    snapshot, graph = planted(
        [(frozenset({0}), 1), (frozenset({0}), 2), (frozenset({1}), 3), (frozenset({2}), 4)]
    )
    cosines = np.array([0.8, 0.6, 0.1, np.nan], dtype=np.float32)
    usual = 0.5
    found = near(graph, snapshot, cosines, 5)
    assert [graph.keys[place] for place in found] == [NAMES[0], NAMES[1]]
    assert found[graph.by_key[NAMES[0]]] == pytest.approx((1.4 + AS_IF * usual) / (2 + AS_IF))
    assert found[graph.by_key[NAMES[1]]] == pytest.approx((0.1 + AS_IF * usual) / (1 + AS_IF))
    assert len(near(graph, snapshot, cosines, 1)) == 1
    assert near(graph, snapshot, np.full(4, np.nan), 5) == near(graph, snapshot, cosines, 0) == {}
    with pytest.raises(ValueError, match="3 cosines for 4 facts"):
        near(graph, snapshot, cosines[:3], 5)


def test_an_empty_memory_has_an_empty_graph() -> None:
    """Nobody is named and nobody speaks: nothing is found, and nothing fails."""
    snapshot = hand_made([])
    graph = make_graph(snapshot)
    assert len(graph) == 0
    assert expand(graph, {}).scores == {}
    assert seeds(graph, ["Ana"]) == {}
    assert 1 not in graph.members.values


def test_names_that_look_alike_are_a_way_and_no_name() -> None:
    """A repair edge has its kind and no time, and leaves names and aliases as they are."""
    snapshot = hand_made(
        [Said("Ana", 1), Said("Ana", 2)], [Fact((0,)), Fact((1,))], mentions=[(0, 10), (1, 11)]
    )
    entities = {
        10: EntityRow(10, "kat", "Kat", "person"),
        11: EntityRow(11, "katmandoo", "Katmandoo", "person"),
    }
    snapshot = replace(snapshot, entities=entities, names={one.key: row for row, one in entities.items()})
    graph = make_graph(snapshot)
    ends = graph.by_key["kat"], graph.by_key["katmandoo"]
    column = graph.edges.between(*ends)
    assert graph.edges.kinds[column] == OVERLAP
    assert (graph.edges.first_ms[column], graph.edges.latest_ms[column]) == (0, 0)
    assert ends[1] in expand(graph, {ends[0]: 1.0}, at_ms=0).scores
    assert set(graph.by_key) == {"kat", "katmandoo"}
    assert [graph.names(place) for place in sorted(ends)] == [("Kat",), ("Katmandoo",)]


def test_only_one_statement_tells_that_two_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fact names that was told again is near each other, and yet may be one; what one that was told once names is not."""
    compared: list[NamedEntity] = []

    class Compared(Resolver):
        def update(self, changed: Any = (), gone: Any = (), choices: Any = None) -> None:
            compared.extend(changed)

    monkeypatch.setattr(made, "Resolver", Compared)
    snapshot, _ = planted([(frozenset({0, 1, 2}), 1), (frozenset({3, 4}), 2)])
    compared.clear()
    again = np.array([(0, 0), (0, 1), (1, 1)], dtype=np.int64)
    made.make_graph(replace(snapshot, facts=replace(snapshot.facts, pairs=again)))
    told = {one.key: one for one in compared}
    assert told[NAMES[0]].neighbours == {51, 52}
    assert told[NAMES[0]].beside == told[NAMES[2]].beside == set()
    assert told[NAMES[3]].beside == told[NAMES[3]].neighbours == {54}
    assert [one.supports for one in compared] == [0, 1, 1, 1, 1, 1]  # Ana only speaks
