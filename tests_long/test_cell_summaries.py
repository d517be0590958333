"""Summaries of session chunks and vectors of scene nodes, as in the paper's Algorithm 1; both are settings, off by default."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DIMENSION, Fact, Said, Tree, hand_made, planted, searching
from tests_long.worlds import PAPER, dump, eager_config, fast_config, file_of, rows, said

from memforest import MemForest, load_default_config
from memforest.errors import ConfigError, ModelError, StepError
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.search.context_scores import Base, base_scores
from memforest.search.snapshot import Snapshot
from memforest.store.derived import unpack_text
from memforest.trees.browse import nearness_to
from memforest.trees.memforest_recall import leaf_similarity, recall
from memforest.trees.memforest_rows import MemForestSettings

QUESTION = np.eye(DIMENSION, dtype=np.float32)[0]
CHUNKS = "SELECT id, chunk FROM leaf WHERE chunk IS NOT NULL ORDER BY id"
MARKED = "SELECT id FROM node WHERE level = 0 ORDER BY id"
TOLD = "SELECT s.node, s.text FROM derived_summary s JOIN node n ON n.id = s.node AND n.level = 0 ORDER BY 1"
EMBEDDED = """SELECT n.id FROM node n JOIN tree t ON t.id = n.tree AND t.kind = '{}'
    JOIN derived_node_vector v ON v.item = n.id WHERE n.level {} ORDER BY 1"""


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


def marked(folder: Path) -> list[int]:
    """Return the leaves that have marks for a summary of their own."""
    return [row for (row,) in rows(file_of(folder), MARKED)]


def chunks(folder: Path) -> list[int]:
    """Return the leaves of chunks."""
    return [row for row, _ in rows(file_of(folder), CHUNKS)]


def alter(folder: Path, sql: str) -> None:
    """Change a file behind memforest's back; it must change something."""
    with closing(sqlite3.connect(file_of(folder), isolation_level=None)) as conn:
        conn.execute("PRAGMA foreign_keys = on")
        assert conn.execute(sql).rowcount > 0


def test_a_chunk_has_a_summary_of_what_was_said_in_it(folder: Path) -> None:
    """Each is asked for once, at level 0, with its turns; the node above is made of the summaries, with own vectors."""
    watched = Watched()
    with MemForest(folder, fast_config(index_settings=PAPER, summariser=watched)) as forest:
        forest.ingest_session("u", "s", talk())
        assert marked(folder) == chunks(folder)
        forest.flush("u")
        told = {node: unpack_text(text) for node, text in rows(file_of(folder), TOLD)}
        assert forest.user("u").verify().ok
    asked = [one for one in watched.asked if not one.level]
    assert [one.inputs[0].count("Ana: ") for one in asked] == [2, 2, 2, 2, 1]
    assert {(one.kind, one.label, one.summarise) for one in asked} == {("session", "s", "every")}
    assert list(told) == chunks(folder)
    assert all(told.values())
    above = [one.inputs for one in watched.asked if one.kind == "session" and one.level == 1]
    assert [text for inputs in above for text in inputs] == list(told.values())
    assert rows(file_of(folder), EMBEDDED.format("session", "= 0")) == [(leaf,) for leaf in told]
    assert rows(file_of(folder), EMBEDDED.format("scene", "> 0"))


def test_by_default_there_are_none_and_all_else_is_the_same(folder: Path) -> None:
    """Neither marks of leaves nor vectors of scenes; trees, counts and answers do not depend on the settings."""
    found = {}
    for name, form in (("default", {}), ("paper", PAPER)):
        with MemForest(folder / name, fast_config(index_settings=form)) as forest:
            forest.ingest_session("u", "s", talk())
            forest.flush("u")
            stats = forest.user("u").stats()
            evidence = [(one.text, one.score) for one in forest.query("u", "What did Ana buy?").evidence]
        found[name] = (stats.nodes, stats.indexes["memforest"], evidence, dump(file_of(folder / name)))
    assert found["default"] == found["paper"]
    assert marked(folder / "default") == []
    assert rows(file_of(folder / "default"), EMBEDDED.format("scene", ">= 0")) == []


def test_what_a_longer_or_replaced_session_leaves_of_its_chunks_is_current(folder: Path) -> None:
    """A chunk that is cut anew gets its summary anew, the others keep theirs; of a replaced session nothing is left."""
    watched = Watched()
    with MemForest(folder, eager_config(index_settings=PAPER, summariser=watched)) as forest:
        forest.ingest_session("u", "s", talk(9))
        watched.asked.clear()
        forest.ingest_session("u", "s", talk(12))
        assert (
            sum(not one.level for one in watched.asked) == 2
        )  # the ninth turn's chunk got another, and one is new
        assert marked(folder) == chunks(folder)
        forest.ingest_session("u", "s", said("I sold my car."), replace=True)
        told = [unpack_text(text) for _, text in rows(file_of(folder), TOLD)]
        assert len(told) == len(marked(folder)) == 1
        assert "car" in told[0]
        assert forest.user("u").stats().dirty_nodes == 0
        assert forest.user("u").verify().ok


def test_a_chunk_that_fails_leaves_the_way_above_it_dirty(folder: Path) -> None:
    """Its own summary and those above wait, and are shown to wait; the other chunks have theirs."""
    watched = Watched()
    watched.fails_on = "2 tents"
    with MemForest(folder, eager_config(index_settings=PAPER, summariser=watched)) as forest:
        result = forest.ingest_session("u", "s", talk())
        assert any("refused" in warning for warning in result.warnings)
        dirty = rows(file_of(folder), "SELECT level FROM node WHERE dirty ORDER BY level")
        assert dirty == [(0,), (1,), (2,)]
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


@pytest.mark.parametrize(
    ("form", "part", "sql"),
    [
        (
            PAPER,
            "placement",
            "DELETE FROM node WHERE level = 0 AND id = (SELECT min(id) FROM leaf WHERE chunk)",
        ),
        (PAPER, "tree", "UPDATE node SET dirty = 2 WHERE level = 0"),
        (PAPER, "tree", "UPDATE node SET dirty = level == 0"),
        (
            PAPER,
            "placement",
            """INSERT INTO node SELECT l.id, l.tree, 0, 0, '', 0, 1, 1, x'', 1, 0, NULL, NULL, NULL, NULL
               FROM leaf l WHERE fact ORDER BY l.id LIMIT 1""",
        ),
        (
            {},
            "placement",
            """INSERT INTO node SELECT l.id, l.tree, 0, 0, '', 0, 1, 1, x'', 1, 0, NULL, NULL, NULL, NULL
               FROM leaf l WHERE chunk ORDER BY l.id LIMIT 1""",
        ),
        (PAPER, "tree", "DELETE FROM leaf WHERE id = (SELECT max(id) FROM leaf WHERE chunk)"),
    ],
)
def test_marks_that_are_missing_or_too_many_are_found_and_mended(
    folder: Path, form: Any, part: str, sql: str
) -> None:
    """`verify` names the index, and `repair` makes it anew, with its summaries when they are read."""
    with MemForest(folder, fast_config(index_settings=form)) as forest:
        forest.ingest_session("u", "s", talk())
        forest.flush("u")
        before = dump(file_of(folder))
    alter(folder, sql)
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")
        found = {(problem.part, problem.index) for problem in user.verify().problems}
        assert (part, "memforest") in found
        assert user.repair().ok
        assert user.verify().problems == ()
        assert marked(folder) == (chunks(folder) if form else [])
        user.flush()
        assert len(rows(file_of(folder), TOLD)) == len(marked(folder))
    assert dump(file_of(folder)) == before


def test_what_a_memory_has_stays_and_can_be_changed(folder: Path) -> None:
    """Opened otherwise, a memory keeps its form; its index dropped and added with other settings has theirs."""
    with MemForest(folder, fast_config(indexes=("memforest", "flat"))) as forest:
        forest.ingest_session("u", "s", talk())
    with MemForest(folder, fast_config(index_settings=PAPER)) as forest:
        forest.ingest_session("u", "t", talk())
        assert marked(folder) == []
        user = forest.user("u")
        assert user.verify().ok
        user.drop_index("memforest")
        assert user.add_index("memforest", settings=PAPER["memforest"]).lag == 0
        assert marked(folder) == chunks(folder) != []
    with MemForest(folder, fast_config()) as forest:
        forest.rebuild("u", scopes=True)
        assert marked(folder) == chunks(folder)
        assert len(rows(file_of(folder), TOLD)) == len(chunks(folder))
        assert forest.user("u").verify().ok


def test_the_paper_s_preset_has_both_and_the_default_neither() -> None:
    """And no other value is taken."""
    paper: Any = load_default_config("memforest_paper", environ={}).index_settings["memforest"]
    assert (paper["chunks"], paper["scene_vectors"]) == ("summarised", "summary")
    assert (MemForestSettings().chunks, MemForestSettings().scene_vectors) == ("said", "facts")
    for wrong in ({"chunks": "none"}, {"scene_vectors": True}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            MemForestSettings(**wrong)
