"""The graph in the page of `memforest tree --html`: where its nodes stand, and that no name can act in it."""

from __future__ import annotations

import math
import random
import sys
import time
from datetime import timezone
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.test_cli_page import HOSTILE, Page, check_is_harmless

from memforest.cli.graph_layout import place
from memforest.cli.graph_page import graph_section
from memforest.cli.page import page_of, shown_of
from memforest.memory.results import GraphEdge, GraphNode, GraphPicture

ANA, BO, ORRIN = (
    GraphNode("Ana", "participant", 40),
    GraphNode("Bo", "person", 10),
    GraphNode("Orrin Ltd", "organisation", 1),
)
EDGES = (
    GraphEdge(0, 1, "relation", ("sister", "friend"), 4),
    GraphEdge(0, 2, "mention", (), 2),
    GraphEdge(1, 2, "overlap", (), 1),
)


def drawn(picture: GraphPicture) -> Page:
    """Return the section as it is read."""
    return Page("".join(graph_section(picture)))


# -- where nodes stand ------------------------------------------------------------------------------


@each("seed", range(4))
def test_nodes_stand_apart_within_the_picture(seed: int) -> None:
    """Whatever the edges: each in the unit square, no two on one spot, and the same at the next call."""
    dice = random.Random(seed)
    count = dice.choice([2, 7, 30, 60])
    edges = [(dice.randrange(count), dice.randrange(count), dice.choice([1, 5, 900])) for _ in range(count)]
    found = place(count, edges)
    assert len(found) == count
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in found)
    assert min(math.dist(a, b) for a, b in combinations(found, 2)) > 0.005
    assert place(count, edges) == found


def test_few_nodes_have_places_too() -> None:
    """None, one, one with itself, and two on a line."""
    assert place(0, []) == []
    assert place(1, [(0, 0, 3)]) == [(0.5, 0.5)]
    assert len({round(x, 3) for x, _ in place(2, [(0, 1, 1)])}) == 2


def test_linked_nodes_stand_nearer_than_others() -> None:
    """Two groups that nothing joins: within one it is nearer than between them."""
    groups = (range(6), range(6, 12))
    edges = [(a, b, 1.0) for group in groups for a, b in combinations(group, 2)]
    at = place(12, edges)
    within = [math.dist(at[a], at[b]) for a, b, _ in edges]
    between = [math.dist(at[a], at[b]) for a in groups[0] for b in groups[1]]
    assert sum(within) / len(within) < 0.6 * sum(between) / len(between)


def test_the_largest_picture_is_drawn_at_once() -> None:
    """Sixty entities and two hundred edges, in less than a second on a slow machine."""
    dice = random.Random(1)
    edges = [(dice.randrange(60), dice.randrange(60), 1.0) for _ in range(200)]
    start = time.process_time()
    place(60, edges)
    assert time.process_time() - start < 1


# -- the section --------------------------------------------------------------------------------------


def test_every_entity_and_edge_is_drawn_and_listed() -> None:
    """A circle and a name each, the more it is named the larger; a line for an edge, of its kind."""
    page = drawn(GraphPicture((ANA, BO, ORRIN), EDGES, 3, 3))
    assert page.texts["text"] == ["Ana", "Bo", "Orrin Ltd"]
    radii = [float(value) for tag, name, value in page.attributes if (tag, name) == ("circle", "r")]
    assert radii == sorted(radii, reverse=True)
    assert len(set(radii)) == 3
    kinds = [value for tag, name, value in page.attributes if (tag, name) == ("line", "class")]
    assert kinds == ["relation", "mention", "overlap"]
    assert page.texts["bdi"] == [
        "Ana – sister, friend – Bo (4)",
        "Ana – Orrin Ltd: named together 2 times",
        "Bo – Orrin Ltd: perhaps one name",
    ]
    assert page.texts["title"][-3:] == [
        "Ana: participant, 40 facts",
        "Bo: person, 10 facts",
        "Orrin Ltd: organisation, 1 fact",
    ]
    assert not page.texts.get("p")


def test_what_is_left_out_is_said() -> None:
    """Entities and edges that there is no room for."""
    page = drawn(GraphPicture((ANA, BO), EDGES[:1], 1200, 31))
    [note] = page.texts["p"]
    assert "1,198 of 1,200 entities, the least named and 30 of 31 edges between the others" in note
    assert drawn(GraphPicture()).tags == []
    assert "details" not in drawn(GraphPicture((ANA,), (), 1, 0)).tags


def test_hostile_names_stay_names() -> None:
    """In the drawing, its hints and its list; the page around it allows nothing more than without it."""
    long = "n" * 500
    nodes = tuple(GraphNode(name, "thing", 1) for name in (*HOSTILE, long, "", "🦊", "שלום"))
    edges = tuple(GraphEdge(0, at, "relation", (name, *HOSTILE), 1) for at, name in enumerate(HOSTILE, 1))
    picture = GraphPicture(nodes, edges, len(nodes), len(edges))
    page = check_is_harmless(page_of("me", (), shown_of((), 0), timezone.utc, picture))
    assert max(len(text) for text in page.texts["text"]) <= 28
    assert HOSTILE[0][:20] in page.texts["text"][0]
    assert "onerror" in page.texts["bdi"][0]
    assert "svg" not in check_is_harmless(page_of("me", (), shown_of((), 0), timezone.utc)).tags
