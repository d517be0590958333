"""What a recall starts from: leaves, compared as the package does and as the paper does."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.calendar_tree import CalendarTree, configured
from tests_long.worlds import make_sessions, said

from memforest import MemForest
from memforest.config import Recall
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.context_scores import as_said
from memforest.search.filters import IndexResult, Search, allowed
from memforest.search.forest import INNER
from memforest.search.lexical import bm25, bm25_of_runs
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.store.derived import words_of
from memforest.text import lexical_tokens
from memforest.trees import attached
from memforest.trees.index import Index, leaf_of_turn
from memforest.trees.timem_leaves import CHANNEL, best_leaves, hear, own_scores

Probe = Callable[[Tx, Snapshot, Search, Index], None]


class Probed(CalendarTree):
    """The tree, with a look at what a search has at hand."""

    probe: ClassVar[Probe | None] = None

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Look, then recall."""
        if type(self).probe is not None:
            type(self).probe(tx, snapshot, request, self)  # type: ignore[misc]
        return super().search(tx, snapshot, request)


@pytest.fixture
def forest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemForest]:
    """A memory of random talk."""
    monkeypatch.setitem(attached.INDEXES, "timem", Probed)
    monkeypatch.setattr(Probed, "probe", None)
    with MemForest(folder, configured()) as made:
        for name, turns in make_sessions(3, sessions=5, most_turns=7):
            made.ingest_session("u", name, turns)
        yield made


def look(
    forest: MemForest, probe: Probe, question: str = "Who moved to Porto with the cat?", **how: Any
) -> None:
    """Ask, and have a look at what the search has at hand."""
    Probed.probe = staticmethod(probe)
    forest.query("u", question, **how)


def test_every_turn_is_in_one_leaf(forest: MemForest) -> None:
    """Leaves are the first rows, in the order of their turns."""

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        trees = forest_of(tx, snapshot, index)
        of_turn = leaf_of_turn(trees)
        assert len(of_turn) == len(snapshot.turns.ids)
        assert set(of_turn.tolist()) == set(range(np.count_nonzero(trees.kind != INNER)))
        for turn, leaf in enumerate(of_turn.tolist()):
            assert trees.item[leaf] <= turn < trees.item_end[leaf]
        seen.append(len(of_turn))

    seen: list[int] = []
    look(forest, probe)
    assert seen


def test_leaves_are_as_good_as_their_best_turn_and_their_session_speaks_for_them(forest: MemForest) -> None:
    """Turns as they were said, and what flows down from segment and session; in one pool nothing flows."""

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        keep = allowed(snapshot, request).turns
        flat = hear(tx, snapshot, index, request, Recall(flat=True), keep)
        plain = as_said(snapshot, request, flat.base)
        assert flat.turn == pytest.approx(plain.total)
        assert "session_tree" not in flat.parts
        heard = hear(tx, snapshot, index, request, Recall(), keep)
        assert sum(heard.parts.values()) == pytest.approx(heard.turn)
        assert heard.parts["session_tree"].any()
        silent = replace(
            request, ranking=replace(request.ranking, session_tree=0.0, session_tree_of_lists=0.0)
        )
        assert hear(tx, snapshot, index, silent, Recall(), keep).turn == pytest.approx(plain.total)
        trees = forest_of(tx, snapshot, index)
        for leaf, best in enumerate(heard.leaf):
            assert best == pytest.approx(heard.turn[leaf_of_turn(trees) == leaf].max())
        first = best_leaves(heard, snapshot, trees, 3)
        assert heard.leaf[first].tolist() == sorted(heard.leaf.tolist(), reverse=True)[:3]
        seen.append(True)

    seen: list[bool] = []
    look(forest, probe)
    assert seen


def test_what_the_filters_leave_out_is_no_reason_for_a_leaf(forest: MemForest) -> None:
    """A leaf counts by the turns that pass; one without any is not found."""

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        keep = np.zeros(len(snapshot.turns.ids), dtype=np.bool_)
        keep[[0, 3]] = True
        trees = forest_of(tx, snapshot, index)
        here = leaf_of_turn(trees)[[0, 3]]
        for recall in (Recall(), Recall(leaves="paper")):
            heard = hear(tx, snapshot, index, request, recall, keep)
            found = best_leaves(heard, snapshot, trees, 99)
            assert sorted(here.tolist()) == sorted(found.tolist())
        fused = hear(tx, snapshot, index, request, Recall(), keep)
        assert fused.leaf[here[1]] == pytest.approx(fused.turn[3])
        seen.append(True)

    seen: list[bool] = []
    look(forest, probe)
    assert seen


def test_words_of_a_run_are_those_of_its_turns_together(forest: MemForest) -> None:
    """BM25 by its formula over the merged documents; runs of one turn score as turns do."""

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        leaf = leaf_of_turn(forest_of(tx, snapshot, index))
        count, k1, b = int(leaf.max()) + 1, 1.5, 0.75
        got = bm25_of_runs(tx, snapshot, request.tokens, leaf, count, k1=k1, b=b)
        lengths = [float(snapshot.turns.length[leaf == one].sum()) for one in range(count)]
        mean = sum(lengths) / count
        wanted = np.zeros(count)
        for token in sorted(set(request.tokens)):
            single = bm25(tx, snapshot, "turn", [token])
            held = Counter[int]()
            for turn in np.flatnonzero(single):
                row = int(snapshot.turns.ids[turn])
                held[int(leaf[turn])] += words_of(tx, "turn", [row])[row].split().count(token)
            idf = math.log(1 + (count - len(held) + 0.5) / (len(held) + 0.5))
            for unit, times in held.items():
                norm = k1 * (1 - b + b * lengths[unit] / mean)
                wanted[unit] += idf * times * (k1 + 1) / (times + norm)
        assert got == pytest.approx(wanted)
        assert got.any()
        alone = np.arange(len(snapshot.turns.ids))
        turns = bm25(tx, snapshot, "turn", request.tokens)
        assert bm25_of_runs(tx, snapshot, request.tokens, alone, len(alone)) == pytest.approx(turns)
        nobody = np.full(len(alone), -1)
        assert bm25_of_runs(tx, snapshot, request.tokens, nobody, 2).tolist() == [0.0, 0.0]
        seen.append(True)

    seen: list[bool] = []
    look(forest, probe)
    assert seen


@pytest.mark.parametrize("weight", [0.0, 0.5, 0.9, 1.0])
def test_the_paper_s_leaves_are_two_channels_each_by_its_maximum(forest: MemForest, weight: float) -> None:
    """Eq. 7: the cosine with the leaf, and BM25 of the plan's keywords; the parts sum to the score."""

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        assert request.vector is not None
        keep = allowed(snapshot, request).turns
        heard = hear(tx, snapshot, index, request, Recall(leaves="paper", weight=weight), keep)
        leaf = leaf_of_turn(forest_of(tx, snapshot, index))
        dense = np.zeros(len(heard.leaf))
        for one in range(len(dense)):
            mean = snapshot.turns.vectors[np.flatnonzero(leaf == one)].mean(axis=0)
            dense[one] = max(0.0, float(mean @ request.vector) / float(np.linalg.norm(mean)))
        tokens = [token for word in request.plan.keywords for token in lexical_tokens(word)]
        words = bm25_of_runs(tx, snapshot, tokens, leaf, len(dense), k1=1.5, b=0.75)
        assert len(dense) < CHANNEL
        wanted = weight * dense / dense.max() + (1 - weight) * words / words.max()
        assert heard.leaf == pytest.approx(wanted, abs=1e-3)  # stored vectors are rounded
        assert sum(heard.parts.values()) == pytest.approx(heard.turn)
        assert heard.turn == pytest.approx(heard.leaf[leaf])
        seen.append(True)

    seen: list[bool] = []
    look(forest, probe)
    assert seen


def test_a_leaf_with_a_text_is_compared_by_it(forest: MemForest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the vector of its text where that is stored, and without keywords by the question's words."""
    monkeypatch.setattr(
        Probed, "texts", staticmethod(lambda node: "telescope cat Porto" if node.level == 0 else None)
    )

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        assert request.vector is not None
        trees, keep = embedded_forest(tx, snapshot, index), allowed(snapshot, request).turns
        bare = replace(request, plan=replace(request.plan, keywords=()))
        heard = hear(tx, snapshot, index, bare, Recall(leaves="paper", weight=1.0), keep)
        own = trees.cosines_at(trees.forest.summarised, request.vector)
        texts = heard.leaf[trees.forest.summarised]
        assert len(set(np.round(own, 6))) == 1
        assert texts == pytest.approx(np.full(len(texts), own[0] / heard.most[0]), abs=1e-6)
        alone = hear(tx, snapshot, index, bare, Recall(leaves="paper", weight=0.0), keep)
        assert alone.leaf.any()
        seen.append(len(texts))

    seen: list[int] = []
    forest.ingest_session("u", "more", said("The tree is made anew.", day=27))
    look(forest, probe, "telescope cat Porto")
    assert seen[0] > 5


def test_without_vectors_words_alone_find_leaves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways, and a warning says what would give vectors."""
    monkeypatch.setitem(attached.INDEXES, "timem", Probed)
    monkeypatch.setattr(Probed, "probe", None)
    with MemForest(folder, configured(embedder="none")) as made:
        made.ingest_session("u", "s", said("I bought a canoe.", "It is red.", "The kettle leaks.", "Oh no."))
        for recall in (Recall(), Recall(leaves="paper"), Recall(flat=True), Recall(prune="own")):
            result = made.query("u", "Who has a canoe?", ranking=replace(made.config.ranking, recall=recall))
            assert result.evidence[0].text == "I bought a canoe."
            (warning,) = [one for one in result.warnings if "words alone" in one]
            assert "rebuild(embedder=True)" in warning


def test_a_memory_is_as_relevant_as_what_is_below_it_or_as_what_it_says(forest: MemForest) -> None:
    """The mean of its leaves, none below 0; or its vector, on the scale of the cosines of turns."""

    def probe(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> None:
        assert request.vector is not None
        trees, keep = embedded_forest(tx, snapshot, index), allowed(snapshot, request).turns
        nodes = trees.forest
        for recall in (Recall(), Recall(leaves="paper")):
            heard = hear(tx, snapshot, index, request, recall, keep)
            below, parts = own_scores(tx, snapshot, index, request, recall, heard, texts=False)
            leaf = np.zeros(len(nodes))
            leaf[: len(heard.leaf)] = np.maximum(heard.leaf, 0.0)
            for node in nodes.inner.tolist():
                under = [row for row in np.flatnonzero(nodes.kind != INNER) if node in nodes.path(int(row))]
                assert below[node] == pytest.approx(leaf[under].mean())
            assert parts["below"] is below
            texts, parts = own_scores(tx, snapshot, index, request, recall, heard, texts=True)
            assert texts == pytest.approx(parts["dense"] + parts["lexical"])
            inner = nodes.told[nodes.kind[nodes.told] == INNER]
            near = trees.cosines_at(inner, request.vector)
            near = np.maximum(near, 0.0) if recall.leaves == "paper" else near
            orders = [np.argsort(-one, kind="stable").tolist() for one in (parts["dense"][inner], near)]
            assert orders[0] == orders[1]
        seen.append(True)

    seen: list[bool] = []
    look(forest, probe)
    assert seen
