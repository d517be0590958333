"""Whom a question describes without a name, as the graph of a memory has it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests_long import hmems
from tests_long.hand_made import searching
from tests_long.worlds import file_of

from memforest import MemForest
from memforest.graph.graph import Graph, graph_of
from memforest.records import QuestionPlan
from memforest.search.snapshot import load_snapshot
from memforest.store.database import Database
from memforest.times import to_ms
from memforest.trees.hmem import Further, described

NOW_MS = to_ms(datetime(2024, 9, 1, tzinfo=timezone.utc))
LINES = (
    ("Ana", "I work at Orrin."),
    ("Ana", "My dog is called Rex."),
    ("Ana", "I am married to Carlos."),
    ("Bob", "My boss is Helena."),
    ("Bob", "I visited Porto last week."),
)


@pytest.fixture(name="graph", scope="module")
def _graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return graph_from(tmp_path_factory.mktemp("further"), LINES)


def graph_from(folder: Path, lines: tuple[tuple[str, str], ...]) -> Graph:
    """Return the graph of a memory of lines, each in a session of its own."""
    with MemForest(folder, hmems.configured()) as forest:
        for at, (who, line) in enumerate(lines):
            turn = {"speaker": who, "content": line, "timestamp": f"2024-03-{at + 1:02}T09:00:00Z"}
            forest.ingest_session("u", f"s{at}", [turn])
    db = Database(file_of(folder))
    try:
        with db.read() as tx:
            return graph_of(load_snapshot(tx))
    finally:
        db.close()


def further(graph: Graph, text: str, *names: str) -> Further | None:
    """Return what is asked further, where some names stand in a question."""
    request = replace(searching(), plan=QuestionPlan(mentions=names))
    return described(graph, request, text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "names", "wanted"),
    [
        ("Where does Ana's dog sleep?", ("Ana",), "Where does Rex sleep?"),
        ("What is Bob's boss good at?", ("Bob",), "What is Helena good at?"),
        ("What does the employer of Ana make?", ("Ana",), "What does the Orrin make?"),
        ("Who met Ana's partner?", ("Ana",), "Who met Carlos?"),
        ("How old is my dog?", ("Ana",), "How old is Rex?"),
        ("What has Ana bought for her dog?", ("Ana",), "What has Ana bought for Rex?"),
    ],
)
def test_the_name_stands_where_the_description_stood(
    graph: Graph, text: str, names: tuple[str, ...], wanted: str
) -> None:
    """What ends the last word of it stays; without a name beside it the label alone is the description."""
    found = further(graph, text, *names)
    assert found is not None
    assert (found.text, found.refused) == (wanted, "")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Where does Rex sleep?", ("Rex",)),
        ("Where does Ana's dog Rex sleep?", ("Ana", "Rex")),
        ("Where does Bob's dog sleep?", ("Bob",)),
        ("What does Ana say of the long walk with a dog?", ("Ana",)),
        ("Where does the dog sleep?", ()),
        ("Which town has Bob visited?", ("Bob",)),
        ("Who visited Bob?", ("Bob",)),
        ("What has Ana told Bob of his dog?", ("Ana", "Bob")),
        ("", ("Ana",)),
    ],
)
def test_nobody_is_described(graph: Graph, text: str, names: tuple[str, ...]) -> None:
    """The name is there, the relation is another's, the words stand apart, nobody is named, nothing is said."""
    assert further(graph, text, *names) is None


def test_what_somebody_does_describes_nobody(graph: Graph) -> None:
    """There is a relation called "visited", and no question means Porto by it."""
    assert "visited" in {one.label for one in graph.relations}


def test_two_of_a_kind_are_refused_with_both_names(graph: Graph) -> None:
    """Which one is meant cannot be told; of one that is over, and one that is not, the latter is."""
    (dog,) = [one for one in graph.relations if one.label == "dog"]
    other = replace(dog, target=graph.labels.index("Helena"))
    found = further(replace(graph, relations=(*graph.relations, other)), "Where does Ana's dog sleep?", "Ana")
    assert found is not None
    assert not found.text
    assert set(found.names) == {"Rex", "Helena"}
    assert "2 of 'dog'" in found.refused
    over = replace(other, spans=((0, 1),))
    found = further(replace(graph, relations=(*graph.relations, over)), "Where does Ana's dog sleep?", "Ana")
    assert found is not None
    assert found.text == "Where does Rex sleep?"
