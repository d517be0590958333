"""The graph of a memory that is read from a file: entities, edges, relations, and that it is the same however it was written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions, said

from memforest import MemForest
from memforest.graph.graph import OVERLAP, RELATION, TOGETHER, Graph, graph_of, names_of
from memforest.search.as_of import Moment, MomentCache
from memforest.search.cache import SnapshotCache
from memforest.search.snapshot import Snapshot
from memforest.store import corrections, meta
from memforest.store.connections import Tx
from memforest.store.database import Database

TOLD = (
    "I live in Oslo.",
    "My sister is Lucia Perez.",
    "I work at Orrin Labs.",
    "Lucia Perez works at Orrin Labs too.",
    "I moved to Bergen.",
)


@contextmanager
def reading(folder: Path) -> Iterator[tuple[Tx, Snapshot, Graph]]:
    """Open the only memory of a folder, and give its snapshot and graph."""
    db = Database(file_of(folder))
    try:
        with db.read() as tx:
            snapshot = SnapshotCache().get(tx).unjoined
            yield tx, snapshot, graph_of(snapshot)
    finally:
        db.close()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of one session of Ana's."""
    folder = tmp_path_factory.mktemp("told")
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said(*TOLD))
    return folder


def plain(graph: Graph, snapshot: Snapshot) -> dict[str, Any]:
    """Return what a graph tells without row ids."""
    edges = graph.edges
    texts = snapshot.turns.said_ms.tolist()
    return {
        "entities": {
            graph.keys[place]: (
                graph.kinds[place],
                sorted(snapshot.entities[one].key for one in graph.members[place]),
                sorted({texts[turn] for row in graph.facts[place] for turn in snapshot.turns_of_fact[row]}),
            )
            for place in range(len(graph))
        },
        "edges": {
            graph.keys[place]: [
                (graph.keys[target], float(edges.weights[at]), int(edges.kinds[at]), int(edges.latest_ms[at]))
                for at, target in enumerate(
                    edges.targets[edges.span(place)].tolist(), edges.span(place).start
                )
            ]
            for place in range(len(graph))
        },
        "relations": [
            (graph.keys[one.source], one.label, graph.keys[one.target], one.weight, one.spans, one.latest_ms)
            for one in graph.relations
        ],
    }


def test_states_whose_value_is_an_entity_are_relations_with_an_interval(told: Path) -> None:
    """A second home ends the first one; nothing is erased, and each relation has a turn."""
    with reading(told) as (_, snapshot, graph):
        found = {
            (graph.labels[one.source], one.label, graph.labels[one.target]): one for one in graph.relations
        }
        assert {key for key in found if key[0] == "Ana"} == {
            ("Ana", "employer", "Orrin Labs"),
            ("Ana", "residence", "Bergen"),
            ("Ana", "residence", "Oslo"),
            ("Ana", "sister", "Lucia Perez"),
        }
        moved = found["Ana", "residence", "Bergen"]
        assert found["Ana", "residence", "Oslo"].end_ms == moved.start_ms
        assert moved.end_ms is None
        for one in graph.relations:
            assert one.weight == len(one.occurrences) == 1
            assert all(snapshot.turns_of_fact[row] for row in snapshot.rows_of_facts(one.facts))


def test_an_edge_says_what_it_is_made_of(told: Path) -> None:
    """One edge for two entities: statements that name both and relations add up, and it is the same from both ends."""
    with reading(told) as (_, snapshot, graph):
        lucia, firm, ana = (graph.by_key[key] for key in ("lucia perez", "orrin labs", "ana"))
        edges = graph.edges
        column = edges.between(lucia, firm)
        assert edges.kinds[column] == RELATION | TOGETHER
        assert edges.weights[column] == 2  # a statement that names both, and a relation
        assert edges.latest_ms[column] == snapshot.turns.said_ms[3]
        assert edges.between(lucia, graph.by_key["oslo"]) == -1
        assert edges.weights[edges.between(ana, lucia)] == edges.weights[edges.between(lucia, ana)]


def test_names_are_counted_as_they_are_spelled(told: Path) -> None:
    """Two statements name the firm; its label is one of its names."""
    with reading(told) as (tx, snapshot, graph):
        firm = graph.by_key["orrin labs"]
        assert names_of(tx, snapshot, graph, [firm]) == {firm: {"Orrin Labs": 2}}
        assert graph.names(firm) == ("Orrin Labs",)


def test_a_graph_is_made_once_a_snapshot(told: Path) -> None:
    """The second asker gets the first one's."""
    with reading(told) as (_, snapshot, graph):
        assert graph_of(snapshot) is graph


def test_a_choice_joins_and_splits_and_its_removal_gives_back_what_was_before(
    told: Path, tmp_path: Path
) -> None:
    """One entity has both names and the evidence of both, and is no relative of itself."""
    db = Database(tmp_path / "copy.db")
    db.close()
    (tmp_path / "copy.db").write_bytes(file_of(told).read_bytes())
    db = Database(tmp_path / "copy.db")
    cache = SnapshotCache()

    def look() -> tuple[Snapshot, Graph]:
        with db.read() as tx:
            snapshot = cache.get(tx).unjoined
            return snapshot, graph_of(snapshot)

    snapshot, before = look()
    ana, lucia = snapshot.names["ana"], snapshot.names["lucia perez"]
    with db.write() as tx:
        row = corrections.add(tx, "same", ana, lucia, 1)
        meta.bump(tx)
    now, joined = look()
    place = joined.by_key["ana"]
    assert joined.members[place] == (ana, lucia)
    assert len(joined) == len(before) - 1
    assert set(joined.names(place)) == {"Ana", "Lucia Perez"}
    assert all(one.source != one.target for one in joined.relations)  # a sister of herself is none
    both = next(one for one in joined.relations if one.label == "employer")
    assert both.weight == 2
    assert len(both.facts) == 2
    with db.write() as tx:
        tx.execute("DELETE FROM choice WHERE id = ?", (row,))
        meta.bump(tx)
    later, after = look()
    assert plain(after, later) == plain(before, snapshot)
    assert plain(joined, now) != plain(before, snapshot)
    db.close()


def test_a_moment_has_the_graph_of_what_was_held_then(told: Path) -> None:
    """Who was named later is not there, and what ended later had not."""
    db = Database(file_of(told))
    with db.read() as tx:
        cache = SnapshotCache()
        whole = cache.get(tx)
        at_ms = int(whole.turns.said_ms[1])
        earlier = MomentCache(cache, Moment(said_ms=at_ms), lambda _tx, _at: None).get(tx)
        graph = graph_of(earlier)
        assert {graph.labels[place] for place in range(len(graph))} == {"Ana", "Lucia Perez", "Oslo"}
        home = next(one for one in graph.relations if one.label == "residence")
        assert home.end_ms is None  # nobody had moved yet
        assert len(graph_of(whole)) > len(graph)
    db.close()


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_ingestion_changes_no_entity_and_no_edge(tmp_path: Path, seed: int) -> None:
    """Row ids differ; nothing that is told does."""
    sessions = make_sessions(seed, sessions=5)
    shuffled = Random(seed).sample(sessions, len(sessions))
    found = []
    for number, order in enumerate((sessions, shuffled)):
        folder = tmp_path / str(number)
        with MemForest(folder, fast_config()) as forest:
            for session_id, turns in order:
                forest.ingest_session("u", session_id, turns)
        with reading(folder) as (_, snapshot, graph):
            found.append(plain(graph, snapshot))
    assert found[0] == found[1]
    assert found[0]["edges"]


def test_what_is_deleted_leaves_nothing_in_the_graph(tmp_path: Path) -> None:
    """A session is deleted, and with it whom it alone named."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said(*TOLD))
        forest.ingest_session("u", "s2", said("I visited Porto.", "Quentin Abara lives in Porto.", day=2))
        forest.delete_session("u", "s2")
    with reading(tmp_path) as (_, _snapshot, graph):
        assert not {"Quentin Abara", "Porto"} & set(graph.labels)
        assert "quentin abara" not in graph.by_key


def test_who_only_speaks_is_in_the_graph_without_facts(tmp_path: Path) -> None:
    """A greeting is no statement; the entity has no facts, no edges and a name that nobody called."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("Hi!", speaker="Ben"))
    with reading(tmp_path) as (tx, snapshot, graph):
        assert graph.labels == ("Ben",)
        assert graph.supports.tolist() == [0]
        assert names_of(tx, snapshot, graph, [0]) == {0: {"Ben": 0}}
        assert graph.edges.span(0) == slice(0, 0)
        assert not len(graph.edges.kinds[graph.edges.kinds == OVERLAP])
