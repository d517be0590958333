"""The graph of a memory that is written to: what the last one has left saves work, and the graph is the one made from nothing."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions, said

from memforest import MemForest
from memforest.graph import graph as graph_module
from memforest.graph.graph import Graph, graph_of, make_graph
from memforest.graph.resolve import Resolver
from memforest.search.cache import SnapshotCache
from memforest.search.snapshot import Lists
from memforest.store.database import Database


def content(value: Any) -> Any:
    """Return everything that a value holds, arrays as lists and mappings in their order."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Lists):
        return content(value.values), content(value.ends)
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: content(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return [(key, content(one)) for key, one in value.items()]
    return [content(one) for one in value] if isinstance(value, (list, tuple)) else value


class Reader:
    """Reads the graph of a memory again and again, as a query does."""

    def __init__(self, folder: Path) -> None:
        self.db, self.cache = Database(file_of(folder)), SnapshotCache()

    def look(self) -> tuple[Graph, Graph]:
        """Return the graph, and the one that is made from nothing."""
        with self.db.read() as tx:
            snapshot = self.cache.get(tx).unjoined
            return graph_of(snapshot), make_graph(snapshot)


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_that_goes_on_is_the_one_made_from_nothing(tmp_path: Path, seed: int) -> None:
    """Sessions come in any order, and again, turns and sessions go, names are joined and split: field by field the same."""
    random = Random(seed)
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        forest.ingest_session(
            "u", "first", said("My sister Lucia Perez lives in Oslo.", "Lucy met Lucia in Oslo.")
        )
        reader = Reader(tmp_path)
        for name, turns in random.sample(told := make_sessions(seed, sessions=8), len(told)):
            forest.ingest_session("u", name, turns)
            if random.random() < 0.3:
                forest.delete_session("u", random.choice(memory.sessions()).session_id)
            if random.random() < 0.3 and (left := memory.sessions()):
                session = random.choice(left).session_id
                forest.delete_turn("u", session, memory.turns(session)[0].id)
            names = [one.name for one in memory.entities()]
            if random.random() < 0.4 and len(names) > 1:
                memory.merge_entities(*random.sample(names, 2))
            if random.random() < 0.7:
                gone_on, anew = reader.look()
                assert content(gone_on) == content(anew)
        reader.db.close()


def test_what_is_said_makes_nobody_else_be_compared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a write the names that were there are not taken in again; relations that nothing new tells are the same values."""
    updates: list[int] = []
    update = Resolver.update

    def counting(self: Resolver, changed: Any = (), gone: Any = (), choices: Any = None) -> None:
        updates.append(len(changed))
        update(self, changed, gone, choices)

    names = ("Bilal", "Corinna", "Dorothea", "Eberhard", "Fatoumata", "Giuseppe", "Hyacinth", "Ingeborg")
    with MemForest(tmp_path, fast_config()) as forest:
        for at, name in enumerate(names):
            forest.ingest_session("u", f"s{at}", said(f"{name} visited Place{name}."))
        reader = Reader(tmp_path)
        first = reader.look()[0]
        forest.ingest_session("u", "one more", said("Jeannette visited Ludwigshafen."))
        with reader.db.read() as tx:
            snapshot = reader.cache.get(tx).unjoined
            monkeypatch.setattr(Resolver, "update", counting)
            second = graph_of(snapshot)
        reader.db.close()
    assert len(second) > len(first) > len(names)
    assert 0 < sum(updates) < len(names)
    kept = {id(one) for one in first.relations} & {id(one) for one in second.relations}
    assert not first.relations or kept


def test_where_most_has_changed_all_is_compared_anew(tmp_path: Path) -> None:
    """A making that has seen quite another memory makes the graph that one makes which has seen none."""
    making = graph_module.Making()
    with MemForest(tmp_path, fast_config()) as forest:
        for user, names in (("one", ("Bilal", "Corinna", "Dorothea")), ("two", ("Ana Ruiz", "Ana", "Oslo"))):
            forest.ingest_session(user, "s", said(*(f"{name} visited Place{name}." for name in names)))
    for path in sorted(tmp_path.glob("*.db")):
        db = Database(path)
        with db.read() as tx:
            snapshot = SnapshotCache().get(tx).unjoined
            assert content(make_graph(snapshot, making)) == content(make_graph(snapshot))
        db.close()
