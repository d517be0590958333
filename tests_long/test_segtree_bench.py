"""The benchmarks of segment trees: the fold, its measures, and talk whose turns are known."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts import calibrate_segments
from tests_long.segtrees import configured, nodes, tree

import segtree_shape
from memforest import MemForest
from memforest.models import HashEmbedder, available
from memforest.trees.segtree_grow import Node, needed
from segtree_fold import (
    ByCentroid,
    ByCosine,
    boundary_f1,
    fold,
    leaf_texts,
    leaf_vectors,
    parted,
    shape,
    unit,
    window_diff,
)
from synthetic.stretches import make_talk

# Of four topics, an axis each.
TOPICS = np.eye(4)


def outline(node: Node) -> str:
    """Return a tree as text: each node its children in brackets, each leaf its number."""
    return f"[{' '.join(map(outline, node.kids))}]" if node.kids else str(node.first)


def talk_of(*topics: int) -> NDArray[np.float64]:
    """Return leaf vectors: of one topic alike, of two hardly."""
    return unit(TOPICS[list(topics)] + 0.5)


def test_stretches_of_one_topic_become_nodes() -> None:
    """Each stretch is a node of the lowest level, whatever the size of what is above it."""
    topics = (0, 0, 0, 1, 1, 1, 1, 2, 2, 0, 0, 0)
    folded = fold(len(topics), ByCentroid(talk_of(*topics), tau=0.8))
    assert outline(folded.root) == "[[0 1 2] [3 4 5 6] [7 8] [9 10 11]]"
    assert parted(folded) == [a != b for a, b in pairwise(topics)]


def test_without_backing_a_root_takes_leaves_by_its_size() -> None:
    """The mean of many is nearer to a leaf than a neighbour with noise of its own: what `PRIOR` is there for."""
    noise = np.random.default_rng(3).normal(size=(60, 64)) / 6
    topics = np.repeat(np.arange(12) % 4, 5)
    rows = np.hstack([TOPICS[topics] + 0.5, np.zeros((60, 60))]) + noise
    rows = unit(rows)
    known = [bool(a != b) for a, b in pairwise(topics)]
    backed, plain = (
        boundary_f1(parted(fold(60, ByCentroid(rows, 0.7, prior=prior))), known) for prior in (4.0, 0.0)
    )
    assert backed > plain + 0.2


def test_the_threshold_falls_with_the_height() -> None:
    """A talk that drifts away from all before it makes a comb with a constant threshold, and no high tree with ours."""
    assert needed(0.5, 1, 0.8) == 0.5 > needed(0.5, 2, 0.8) > needed(0.5, 5, 0.8) > 0.0
    rows = unit(np.eye(40) + 0.05)
    heights = [shape(fold(40, ByCentroid(rows, 0.6, fall=fall))).height for fall in (1.0, 0.8)]
    assert heights[0] == 39
    assert heights[1] < 12


def test_shape_counts_what_table_5_counts() -> None:
    """Depth in nodes from root to leaf, children per inner node, nodes by leaves."""
    folded = fold(6, ByCentroid(talk_of(0, 0, 1, 1, 2, 0), tau=0.8))
    assert outline(folded.root) == "[[0 1] [2 3] 4 5]"
    tree = shape(folded)
    assert (tree.leaves, tree.nodes, tree.height, tree.max_depth) == (6, 9, 2, 3)
    assert tree.mean_depth == pytest.approx((4 * 3 + 2 * 2) / 6)
    assert tree.std_depth == pytest.approx(np.std([3, 3, 3, 3, 2, 2]))
    assert tree.branching == pytest.approx(8 / 3)
    assert tree.nodes_a_leaf == 1.5


def test_measures_of_boundaries() -> None:
    """F1 of the places, and the share of windows with another number of them."""
    known = [False, False, True, False, False, True, False, False]
    assert boundary_f1(known, known) == 1.0
    assert window_diff(known, known) == 0.0
    assert boundary_f1([True] * 8, known) == pytest.approx(2 * 2 / 10)
    assert boundary_f1([False] * 8, known) == 0.0
    assert window_diff([False] * 8, known) == pytest.approx(4 / 7)
    near = [False, True, False, False, False, True, False, False]
    assert 0.0 < window_diff(near, known) < window_diff([False] * 8, known)


def test_cosine_reads_what_nodes_say() -> None:
    """Every node above a new leaf is told anew."""
    said = (
        "the cat sleeps here",
        "the cat sleeps well",
        "boats sail north",
        "boats sail south",
        "the cat sleeps",
    )
    exchanges = [(("Ann", text),) for text in said]
    embedder = HashEmbedder(256)
    cosine = ByCosine(leaf_texts(exchanges), leaf_vectors(embedder, exchanges), embedder, tau=0.6)
    folded = fold(5, cosine)
    assert cosine.annotated == 1 + 1 + 2 + 1
    assert "sleeps well" in cosine.says(folded.root)


def test_generated_talk_says_where_it_turns() -> None:
    """Equal arguments give equal talk, a prefix does not depend on its length, and neighbouring stretches differ."""
    talk = make_talk(3, 60)
    assert make_talk(3, 60) == talk
    assert make_talk(3, 40).exchanges == talk.exchanges[:40]
    assert len(talk.exchanges) == len(talk.stretches) == 60
    assert all(len(one) == 2 and one[0][0] != one[1][0] for one in talk.exchanges)
    assert 6 <= sum(talk.turns_at) <= 30


def test_the_rule_takes_the_middle_of_what_fits() -> None:
    """Trees that are too high do not count, and neither does what is less good than the best by more than the tolerance."""
    f1 = np.array([[0.1], [0.78], [0.8], [0.79], [0.85]])
    height = np.array([[1], [2], [3], [6], [7]])
    measured = calibrate_segments.Measured(np.array([0.2, 0.3, 0.4, 0.5, 0.6]), 0.03, f1, f1, height, f1)
    assert calibrate_segments.fit(measured) == (0.3, 0.5)
    assert calibrate_segments.threshold(measured) == 0.4


def test_the_table_has_every_embedder_of_the_package() -> None:
    """Four thresholds each, between -1 and 1."""
    table = json.loads(
        files("memforest.data").joinpath("segment_thresholds.json").read_text(encoding="utf-8")
    )
    assert set(table["models"]) == {status.model_id for status in available()}
    for line in table["models"].values():
        for name in ("centroid_mean", "centroid_text", "cosine_mean", "cosine_text"):
            assert 0.0 < line[name] < 1.0


def test_the_shape_of_a_locomo_file_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each placer has its table, with the paper's row where it has one."""
    turns = [
        {"speaker": name, "dia_id": f"D1:{at}", "text": f"we talk about {what}"}
        for at, (name, what) in enumerate(
            (name, what) for what in ("boats", "boats", "soup", "soup") for name in ("Ann", "Bob")
        )
    ]
    chat = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": turns,
    }
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"sample_id": "c-1", "conversation": chat, "qa": []}]), encoding="utf-8")
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "segtree_shape.py",
            str(path),
            "--tau",
            "0.5",
            "--placer",
            "centroid",
            "cosine",
        ],
    )
    monkeypatch.setattr(segtree_shape, "open_embedder", lambda _: HashEmbedder(64))
    segtree_shape.main()
    shown = capsys.readouterr().out
    assert "1 conversations, 4 leaves" in shown
    assert shown.count("| c-1 | 4 |") == 2
    assert "| paper, Table 5 | 281 | 352 |" in shown


def test_the_fold_grows_the_tree_of_the_index(tmp_path: Path) -> None:
    """What is calibrated and measured here is what a memory has: the same stretches of the same talk."""
    talk = make_talk(5, 80).exchanges
    turns = [
        {"speaker": who, "content": text, "timestamp": f"2024-05-04T10:{at:02}:{beside:02}Z"}
        for at, one in enumerate(talk[:60])
        for beside, (who, text) in enumerate(one)
    ]
    tau, embedder = 0.6, HashEmbedder(64)
    own = {"tau": tau, "leaves": "pairs", "height_max": 0, "fan_out_max": 0}
    with MemForest(tmp_path, configured(own, embedder=embedder)) as forest:
        forest.ingest_session("u", "s", turns, infer=False)
    folded = fold(60, ByCentroid(leaf_vectors(embedder, talk[:60]), tau))
    grown = [one for one in nodes(tree(tmp_path)) if isinstance(one[0], int)]
    assert len(grown) > 5
    said = [turn for leaf in nodes(tree(tmp_path)) if isinstance(leaf[0], str) for turn in leaf]
    assert len(said) == 120

    def bare(node: list[Any]) -> str:
        return (
            f"[{' '.join(map(bare, node[2:]))}]"
            if isinstance(node[0], int)
            else str(said.index(node[0]) // 2)
        )

    assert bare(tree(tmp_path)) == outline(folded.root)
