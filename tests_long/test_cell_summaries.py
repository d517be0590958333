"""Summaries of session chunks and vectors of scene nodes, as in the paper's Algorithm 1; both are settings, off by default."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DIMENSION, Fact, Said, Tree, hand_made, planted, searching
from tests_long.worlds import PAPER, dump, eager_config, fast_config, file_of, rows, said, summaries

from memforest import MemForest, load_default_config
from memforest.errors import ConfigError, ModelError, StepError
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.search.context_scores import Base, base_scores
from memforest.search.snapshot import Snapshot
from memforest.trees.memforest_grow import MemForestSettings
from memforest.trees.memforest_recall import leaf_similarity, nearness_to, recall

QUESTION = np.eye(DIMENSION, dtype=np.float32)[0]


class Watched(LocalSummariser):
    """The local summariser; it notes what it is asked for, and fails on the chunk with a text."""

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []
        self.fails_on = "nothing"

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:  # type: ignore[override]
        """Summarise what is not to fail."""
        self.asked += requests
        made = await super().summarise(requests)
        return [
            StepError("refused") if not request.level and self.fails_on in request.inputs[0] else text
            for request, text in zip(requests, made, strict=True)
        ]


def talk(n: int = 9) -> list[dict[str, Any]]:
    """Return the turns of a session."""
    return said(*[f"I bought {i + 2} tents in Oslo. It rained all day, and I was glad." for i in range(n)])


def told(
    folder: Path, kind: str = "session", level: int = 0, form: Any = PAPER
) -> dict[str, tuple[str, str | None]]:
    """Return (summary, vector) of the nodes of a level, by what is below them; those of leaves are keyed by their turns."""
    found = summaries(file_of(folder), fast_config(index_settings=form))
    parts = [(key.split(" ", 2), made) for key, made in found.items()]
    of_kind = [(json.loads(key[2]), key[2], made) for key, made in parts if key[0] == f"memforest/{kind}"]
    return {
        shape: made for node, shape, made in of_kind if (node[0] if isinstance(node[0], int) else 0) == level
    }


def test_a_chunk_has_a_summary_of_what_was_said_in_it(folder: Path) -> None:
    """Each is asked for once, at level 0, with its turns; the node above is made of the summaries, with own vectors."""
    watched = Watched()
    with MemForest(folder, fast_config(index_settings=PAPER, summariser=watched)) as forest:
        forest.ingest_session("u", "s", talk())
        forest.flush("u")
        assert forest.user("u").verify().ok
    asked = [one for one in watched.asked if not one.level]
    assert [one.inputs[0].count("Ana: ") for one in asked] == [2, 2, 2, 2, 1]
    assert {(one.kind, one.label, one.summarise) for one in asked} == {("session", "s", "every")}
    chunks = list(told(folder).values())
    assert len(chunks) == 5
    above = [one.inputs for one in watched.asked if one.kind == "session" and one.level == 1]
    assert [text for inputs in above for text in inputs] == [text for text, _ in chunks]
    assert all(text and vector for text, vector in chunks)
    assert all(vector for _, vector in told(folder, "scene", 1).values())
    assert told(folder, "scene", 1)


def test_by_default_there_are_none_and_all_else_is_the_same(folder: Path) -> None:
    """Neither summaries of leaves nor vectors of scenes; trees, counts and answers do not depend on the settings."""
    found = {}
    for name, form in (("default", {}), ("paper", PAPER)):
        with MemForest(folder / name, fast_config(index_settings=form)) as forest:
            forest.ingest_session("u", "s", talk())
            forest.flush("u")
            stats = forest.user("u").stats()
            evidence = [(one.text, one.score) for one in forest.query("u", "What did Ana buy?").evidence]
        found[name] = (stats.nodes, stats.indexes["memforest"], evidence, dump(file_of(folder / name)))
    assert found["default"] == found["paper"]
    assert told(folder / "default", form={}) == {}
    assert {vector for _, vector in told(folder / "default", "scene", 1, form={}).values()} == {None}


def test_what_a_longer_or_replaced_session_leaves_of_its_chunks_is_current(folder: Path) -> None:
    """A chunk that is cut anew gets its summary anew, the others keep theirs; of a replaced session nothing is left."""
    watched = Watched()
    with MemForest(folder, eager_config(index_settings=PAPER, summariser=watched)) as forest:
        forest.ingest_session("u", "s", talk(9))
        watched.asked.clear()
        forest.ingest_session("u", "s", talk(12))
        # The ninth turn's chunk got another, and one is new.
        assert sum(not one.level for one in watched.asked) == 2
        assert len(told(folder)) == 6
        forest.ingest_session("u", "s", said("I sold my car."), replace=True)
        [(text, _)] = told(folder).values()
        assert "car" in text
        assert rows(file_of(folder), "SELECT count(*) FROM artifact") == [
            (len(summaries(file_of(folder), fast_config(index_settings=PAPER))),)
        ]
        assert forest.user("u").stats().dirty_nodes == 0
        assert forest.user("u").verify().ok


def test_a_chunk_that_fails_leaves_the_way_above_it_missing(folder: Path) -> None:
    """Its own summary and those above wait, and are shown to wait; the other chunks have theirs."""
    watched = Watched()
    watched.fails_on = "2 tents"
    with MemForest(folder, eager_config(index_settings=PAPER, summariser=watched)) as forest:
        result = forest.ingest_session("u", "s", talk())
        assert any("refused" in warning for warning in result.warnings)
        assert forest.user("u").stats().dirty_nodes == result.nodes_dirty == 3
        [view] = forest.user("u").tree("s", depth=9)
        leaves = [leaf for node in view.children for leaf in node.children]
        assert [leaf.dirty for leaf in leaves] == [True, False, False, False, False]
        assert leaves[0].summary.startswith("Ana: I bought 2 tents")
        assert forest.user("u").verify().ok
        watched.fails_on = "nothing"
        forest.flush("u")
        assert forest.user("u").stats().dirty_nodes == 0


def based(snapshot: Snapshot) -> Base:
    """Return base scores without a lexical leg."""
    none = np.zeros(len(snapshot.turns.ids)), np.zeros(len(snapshot.facts.ids))
    return base_scores(snapshot, searching(axis=0), *none)


def test_a_chunk_is_compared_by_its_summary() -> None:
    """In recall and browse; with leaves compared by facts, Eq. 7 is by facts and browse by the summary, as in the paper."""
    turns = [Said("Ana", 1, axis=0), Said("Ana", 1), Said("Ana", 1)]
    shape = (("turns", 0, 1), ("turns", 1, 2), ("turns", 2, 3))
    axes = {
        0: 1,
        1: 0,
    }  # of the first the turn is near and the summary far; of the second the other way round
    snapshot = hand_made(turns, [Fact((2,), axis=0)], [Tree("session", 1, shape, axes=axes)])
    trees, base = planted(snapshot), based(snapshot)
    assert trees.forest.summarised.tolist() == [0, 1]
    assert leaf_similarity(snapshot, trees, base, QUESTION).tolist() == [0, 1, 0, 0]
    assert leaf_similarity(snapshot, trees, base, QUESTION, "facts").tolist() == [-1, -1, 1, 0]
    for leaves in ("mixed", "facts"):
        settings = MemForestSettings(leaves=leaves, beam_width=1)
        near = nearness_to(snapshot, trees, QUESTION, QUESTION, settings)
        assert near([0, 1]) == [0, 1]
        assert set(recall(snapshot, trees, base, QUESTION, settings).leaves) == {1}


def test_a_scene_is_compared_by_its_summary_or_by_its_facts() -> None:
    """The facts are near the question, the summary is not."""
    snapshot = hand_made(
        [Said("Ana", 1), Said("Ana", 1)],
        [Fact((0,), axis=0), Fact((1,), axis=0)],
        [Tree("scene", 1, (("fact", 0), ("fact", 1)), axes={2: 1})],
    )
    trees = planted(snapshot)
    for setting, wanted in (("facts", 1.0), ("summary", 0.0)):
        settings = MemForestSettings(scene_vectors=setting)  # type: ignore[arg-type]
        assert nearness_to(snapshot, trees, QUESTION, QUESTION, settings)([2, 0]) == [wanted, 1]
        assert recall(snapshot, trees, based(snapshot), QUESTION, settings).trees == ((0, wanted + 1),)


def test_what_a_memory_reads_with_is_what_its_summaries_are(folder: Path) -> None:
    """Opened otherwise, a memory keeps its form; its index dropped and added with other settings has theirs."""
    with MemForest(folder, fast_config(indexes=("memforest", "flat"))) as forest:
        forest.ingest_session("u", "s", talk())
    with MemForest(folder, fast_config(index_settings=PAPER)) as forest:
        forest.ingest_session("u", "t", talk(), refresh=True)
        assert told(folder) == {}
        user = forest.user("u")
        assert user.verify().ok
        user.drop_index("memforest")
        user.add_index("memforest", settings=PAPER["memforest"])
        user.flush()
        assert len(told(folder)) == 10
    with MemForest(folder, fast_config()) as forest:
        forest.rebuild("u")
        assert len(told(folder)) == 10
        assert forest.user("u").verify().ok


def test_the_paper_s_preset_has_both_and_the_default_neither() -> None:
    """And no other value is taken."""
    paper: Any = load_default_config("memforest_paper", environ={}).index_settings["memforest"]
    assert (paper["chunks"], paper["scene_vectors"]) == ("summarised", "summary")
    assert (MemForestSettings().chunks, MemForestSettings().scene_vectors) == ("said", "facts")
    for wrong in ({"chunks": "none"}, {"scene_vectors": True}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            MemForestSettings(**wrong)
