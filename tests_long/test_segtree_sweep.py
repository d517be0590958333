"""The sweep over ways to read a segment tree: what is counted, what is swapped, and the control, on a tiny conversation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import segtree_sweep
from kept import KeptVectors
from locomo import measures
from locomo.conversations import Conversation, Question
from memforest.config import Ranking
from memforest.exchanges import leaf_exchanges
from memforest.importers import FileSession
from memforest.models import HashEmbedder
from memforest.search.forest import INNER
from memforest.search.forests import forest_of
from memforest.systems.segtree.index import SegTreeIndex
from memforest.systems.segtree.settings import SegTreeSettings
from segments import tables
from segments.build import build, swapped
from segments.cells import Table, cell, extra_cells, grid, name_of
from segments.choose import held_out
from segments.control import cluster, with_clusters
from segments.ranked import MEASURES, Shown, Walked, World, open_world, rank, rank_cells, said_of, walk

TOPICS = (
    "the blue kayak on the lake",
    "a loaf of sour bread",
    "my telescope and the moon",
    "a quiet chess club",
)


def talk(exchanges: int = 20) -> Conversation:
    """Return two people who talk about four things, in sessions of five exchanges; every answer is a gold turn."""
    sessions = []
    for first in range(0, exchanges, 5):
        turns = []
        for at in range(first, first + 5):
            topic = TOPICS[at // 5 % len(TOPICS)]
            said = (
                (f"What about {topic}, number {at}?", "Ana"),
                (f"We like {topic}. It was day {at} of it.", "Bob"),
            )
            turns += [
                {"speaker": who, "text": text, "dia_id": f"D{first // 5 + 1}:{2 * (at - first) + side}"}
                for side, (text, who) in enumerate(said, 1)
            ]
        day = f"2024-03-{1 + first // 5:02}T10:00:00Z"
        sessions.append(FileSession(f"s{first // 5 + 1}", tuple(turns), day))
    questions = tuple(
        Question(f"Who likes {topic}?", 4, frozenset({f"D{at + 1}:2", f"D{at + 1}:4"}))
        for at, topic in enumerate(TOPICS)
    )
    return Conversation("ana-and-bob", tuple(sessions), questions)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> KeptVectors:
    """An embedder that hashes words."""
    return KeptVectors(HashEmbedder(64), tmp_path_factory.mktemp("vectors") / "vectors.npz")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, kept: KeptVectors) -> Path:
    """The directory of the memory of `talk`."""
    directory = tmp_path_factory.mktemp("memories")
    build(directory, [talk()], kept)
    return directory


@pytest.fixture
def world(memory: Path, kept: KeptVectors) -> Iterator[World]:
    """The memory of `talk`, open."""
    with open_world(memory, talk(), kept) as found:
        yield found


def test_no_horizon_is_the_collapsed_tree(world: World) -> None:
    """H 0 and alpha 0 rank as nothing propagated; bottom-up, leaves alone rank so too, and other ways do not."""
    for asked in world.asked:
        for scorer in ("cosine", "fused"):
            for admissible in ("leaves", "bounded", "all"):
                ways = [
                    cell(scorer, admissible, "none"),
                    cell(scorer, admissible, "top-down", 0.5, 0),
                    cell(scorer, admissible, "bottom-up", 0.0, 2),
                ]
                first, *others = rank_cells(world, asked, ways)
                assert others == [first, first]
            assert (
                len(
                    {
                        str(one)
                        for one in rank_cells(
                            world,
                            asked,
                            [cell(scorer, "leaves", "bottom-up", 0.5), cell(scorer, "leaves", "none")],
                        )
                    }
                )
                == 1
            )
    up = rank_cells(
        world, world.asked[0], [cell("cosine", "all", "bottom-up", 0.5), cell("cosine", "all", "none")]
    )
    assert up[0].levels != up[1].levels


def test_an_expanded_node_hands_back_its_best_leaves_first(world: World) -> None:
    """Turns below one node have its score at least, and stand in the order that they have without it."""
    plain, expanded = (
        SegTreeIndex(replace(cell("fused", "all", "bottom-up").settings, expand=expand))
        for expand in (False, True)
    )
    for asked in world.asked:
        alone = [hit.turn for hit in plain.search(world.tx, world.snapshot, asked.request).hits]
        found = expanded.search(world.tx, world.snapshot, asked.request)
        hits = list(found.hits)
        assert not list(found.nodes)
        assert [
            hit.turn for hit in sorted(hits, key=lambda hit: (-round(hit.score, 9), alone.index(hit.turn)))
        ] == [hit.turn for hit in hits]
        assert len({round(hit.score, 9) for hit in hits}) < len({hit.leaf for hit in hits})


def test_links_are_one_more_operator(world: World) -> None:
    """They change scores, the parts of a score sum to it, and the trace says how many there are."""
    linked = SegTreeIndex(cell("fused", "all", "top-down", cross_links=0.3).settings)
    found = linked.search(world.tx, world.snapshot, world.asked[0].request)
    hits = list(found.hits)
    assert any(hit.scores["linked"] for hit in hits)
    scored = [(hit.score, hit.scores) for hit in hits] + [(node.score, node.scores) for node in found.nodes]
    assert len(scored) > len(hits)
    for score, parts in scored:
        assert sum(parts.values()) == pytest.approx(score)
    assert found.notes["propagation"]["cross_links"] == 0.3
    assert found.notes["propagation"]["links"] > 0
    without = SegTreeIndex(cell("fused", "all", "top-down").settings)
    plain = without.search(world.tx, world.snapshot, world.asked[0].request)
    assert "linked" not in next(iter(plain.hits)).scores


def test_ranked_in_two_steps_as_by_the_index(world: World) -> None:
    """A way of the grid is ranked as the index with these settings ranks."""
    way = cell("fused", "bounded", "top-down", 0.5)
    for asked in world.asked:
        request = replace(asked.request, ranking=way.ranking)
        by_index = rank(world, SegTreeIndex(way.settings), asked._replace(request=request))
        assert rank_cells(world, asked, [way]) == [by_index]


def test_the_grid_is_whole() -> None:
    """7 alphas x 3 horizons x 2 policies x 3 admissible sets x 2 scorers, less what leaves cannot get, and 6 collapsed ways."""
    assert len(grid()) == 7 * 3 * (2 * 3 - 1) * 2 + 6


def test_the_default_is_one_of_the_ways() -> None:
    """What the tables call the default is what an index ranks by that was given no settings."""
    assert dict(extra_cells())[tables.DEFAULT] == (SegTreeSettings(), Ranking())


def shown(tokens: int, *turns: str, said: float = 1.0, level: int = 0) -> Shown:
    """Return a piece of evidence."""
    return Shown(tokens, turns, frozenset(turns), dict.fromkeys(turns, said), level)


def test_context_is_counted_in_tokens() -> None:
    """A piece that does not fit ends a budget, whatever would fit behind it; a node counts below, and said by its share."""
    pieces = [
        ("n1", shown(200, "a", "b", said=0.25, level=2)),
        ("l1", shown(100, "c")),
        ("l2", shown(10, "d")),
        ("l2", shown(10, "e")),
    ]
    found = dict(zip(MEASURES, walk(pieces, frozenset("abcd")).values, strict=True))
    assert (found["below 256"], found["said 256"]) == (0.5, 0.125)
    assert (found["below 512"], found["said 512"]) == (1.0, 0.625)
    assert (found["R@10"], found["10 said"], found["10 tokens"]) == (1.0, 0.625, 320)
    assert walk(pieces, frozenset("abcd")).levels == [2, 0, 1, 0, 0, 0]
    nothing = dict(zip(MEASURES, walk([("n", shown(300, "a"))], frozenset("a")).values, strict=True))
    assert (nothing["below 256"], nothing["below 512"]) == (0.0, 1.0)


def test_what_is_said_of_a_turn() -> None:
    """Whole sentences count, by their words."""
    assert said_of("I row. The kayak is very blue.", "Ana: I row.") == pytest.approx(2 / 7)
    assert said_of("I row.", "Ana: I rowed.") == 0
    assert said_of("", "Ana") == 0


def test_a_share_of_the_exchanges_trades_places() -> None:
    """30 % of them stand elsewhere, the others where they were; the leaves are the same, and a seed gives one order."""

    def leaves(one: Conversation) -> list[tuple[str, ...]]:
        return [
            tuple(turn["dia_id"] for turn in session.turns[a : b + 1])
            for session in one.sessions
            for a, b in leaf_exchanges([turn["speaker"] for turn in session.turns], opener="Ana")
        ]

    before, after = leaves(talk(40)), leaves(swapped(talk(40), 0.3, 1))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 12
    assert sorted(before) == sorted(after)
    assert leaves(swapped(talk(40), 0.3, 1)) == after != leaves(swapped(talk(40), 0.3, 2))
    with pytest.raises(ValueError, match="can"):
        swapped(talk(5), 1.5, 1)


def test_the_control_joins_the_nearest_mean() -> None:
    """A leaf joins the cluster whose mean is nearest, from .45 on, whenever that was begun; else it begins one."""
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    between = np.array([0.9, np.sqrt(1 - 0.81)])
    assert cluster(np.stack([east, north, between, 5 * north])) == [0, 1, 0, 1]
    at = np.array([[1.0, 0.0], [0.45, np.sqrt(1 - 0.45**2)]])
    assert cluster(at, 0.4499) == [0, 0]
    assert cluster(at, 0.4501) == [0, 1]


def test_the_control_has_the_same_leaves(world: World, kept: KeptVectors) -> None:
    """Its leaves are the tree's, below clusters below one root; on leaves alone both rank alike."""
    other = with_clusters(world, kept)
    mine, theirs = (
        forest_of(world.tx, world.snapshot, "segtree"),
        forest_of(world.tx, other.snapshot, "segtree"),
    )
    runs = [
        sorted(zip(one.item[one.kind != INNER], one.item_end[one.kind != INNER], strict=True))
        for one in (mine, theirs)
    ]
    assert runs[0] == runs[1]
    assert sorted(np.unique(theirs.level)) == [0, 1, 2]
    for asked in world.asked:
        for scorer in ("cosine", "fused"):
            alone = [cell(scorer, "leaves", "none")]
            assert rank_cells(world, asked, alone) == rank_cells(other, asked, alone)
        assert rank_cells(other, asked, [cell("cosine", "all", "bottom-up", 0.5)])[0].levels[2]


def test_what_is_held_out_is_not_chosen_by() -> None:
    """A way that is best on one conversation alone is not chosen for that one."""
    talks = [replace(talk(5), id=name) for name in ("a", "b", "c")]
    table = Table(talks, 7)
    for number in range(len(table.conversation)):
        only_first = table.conversation[number] == 0
        table.add("flat", Walked([0.5] * len(MEASURES), [1] * 6))
        table.add("lucky", Walked([1.0 if only_first else 0.4] * len(MEASURES), [1] * 6))
    found = held_out(table, ["flat", "lucky"], "flat", "said")
    assert found.picked[0] == "flat"
    assert found.gap["mean"] <= 0


def test_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Command, embedder, n and seeds are printed, and the tables."""
    monkeypatch.setattr(segtree_sweep, "read_conversations", lambda _: [talk(), replace(talk(), id="eve")])
    monkeypatch.setattr(segtree_sweep, "open_embedder", lambda _: HashEmbedder(64))
    monkeypatch.setattr(segtree_sweep, "VARIANTS", {"leaves=turns": {"leaves": "turns"}})
    monkeypatch.setattr(measures, "DRAWS", 5)
    assert segtree_sweep.main(["tiny.json", "--work", str(tmp_path), "--every", "4"]) == 0
    printed = capsys.readouterr().out
    for said in (
        "command: python benchmarks/segtree_sweep.py tiny.json",
        "n = 2",
        "hash",
        "seed 7",
        "levels of",
        "Table 3",
    ):
        assert said in printed
    assert name_of(("fused", "bounded", "top-down", 0.10, 2)) in printed
    assert tables.SHOWN == ("R@10", "below", "said")
