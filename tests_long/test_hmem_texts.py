"""What memories of weeks, months and years say: who is asked and how often, and what is told no more when it is deleted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests_long import hmems
from tests_long.test_hmem_tree import TALK, said
from tests_long.worlds import file_of, rows
from tests_long.writing_double import Writer

from memforest import Config, ConfigError, MemForest
from memforest.store.derived import unpack_vectors


def joined(folder: Path) -> int:
    """Return how many memories have more than one node below them, and so are to be told by somebody."""
    found = hmems.rows(folder)
    parents = [row[3] for row in found if row[1] < 3]
    return sum(parents.count(node) > 1 for node in set(parents))


def configured(writer: Writer, **own: object) -> Config:
    """Return a configuration with a summariser that counts, and this index alone."""
    return hmems.configured({"schedule": (0.3, 0.2, 0.1), **own}, summariser=writer, refresh="path")


def test_one_call_for_each_memory_that_joins_several(tmp_path: Path) -> None:
    """One with a single node below says what that says, and nobody is asked; nor is anybody asked twice."""
    writer = Writer()
    with MemForest(tmp_path, configured(writer)) as forest:
        forest.ingest_session("ana", "s0", said(0))
        memory = forest.user("ana")
        memory.flush()
        assert writer.counts() == {"memory": joined(tmp_path)}
        memory.flush()
        memory.advance()
        assert not writer.counts()
        told = hmems.texts(tmp_path)
        assert len(told) == sum(1 <= row[1] <= 3 for row in hmems.rows(tmp_path))
        assert memory.verify().ok


def test_eager_asks_at_every_join_and_counts_alike(tmp_path: Path) -> None:
    """The paper consolidates at each join: the same trees, states and texts in the end, for more calls."""
    made = {}
    for eager in (False, True):
        writer, folder = Writer(), tmp_path / str(eager)
        with MemForest(folder, configured(writer, eager=eager)) as forest:
            for session in range(3):
                forest.ingest_session("ana", f"s{session}", said(session))
            forest.user("ana").flush()
        asked = writer.counts()["memory"]
        joins = sum(row[7] is not None for row in hmems.rows(folder))
        assert asked <= 3 * joins
        made[eager] = (hmems.shape(folder), hmems.texts(folder), asked)
    assert made[True][:2] == made[False][:2]
    assert made[True][2] > made[False][2]


def test_a_request_says_what_time_it_is_of(tmp_path: Path) -> None:
    """A writer gets the texts below in order, the window's key, and how many words there may be."""
    writer = Writer()
    with MemForest(tmp_path, configured(writer, words=(30, 40, 50))) as forest:
        forest.ingest_session("ana", "s0", said(0))
        forest.user("ana").flush()
    first = next(one for one in writer.asked if one.level == 1)
    assert (first.prompt, first.window, first.max_words) == ("memory", "2024-01/2024-W04", 30)
    assert list(first.inputs) == sorted(
        first.inputs, key=lambda text: [TALK[at][:9] in text for at in range(6)].index(True)
    )
    assert {(one.level, one.max_words) for one in writer.asked} <= {(1, 30), (2, 40), (3, 50)}


@pytest.mark.parametrize("refresh", ["path", "lazy"])
def test_what_is_deleted_is_told_no_more(tmp_path: Path, refresh: str) -> None:
    """No memory has a word of what went, also of those that were out of date then."""
    with MemForest(tmp_path, hmems.configured({"schedule": (0.3, 0.2, 0.1)}, refresh=refresh)) as forest:
        memory = forest.user("ana")
        forest.ingest_session("ana", "s0", said(0))
        forest.ingest_session("ana", "s1", said(1, ("The zanzibar parrot sings.", *TALK[1:3])))
        memory.flush()
        forest.ingest_session("ana", "s2", said(2))
        assert any("zanzibar" in text for text in hmems.texts(tmp_path).values())
        forest.delete_session("ana", "s1")
        assert not any("zanzibar" in text for text in hmems.texts(tmp_path).values())
        assert b"zanzibar" not in file_of(tmp_path).read_bytes()
        memory.flush()
        hmems.sound(memory, tmp_path, alphas=(0.3, 0.2, 0.1))


def test_a_tree_is_drawn_with_windows_and_counts(tmp_path: Path) -> None:
    """Year, month, week and event, with how often each was consolidated."""
    with MemForest(tmp_path, hmems.configured({"schedule": (0.3, 0.2, 0.1)})) as forest:
        forest.ingest_session("ana", "s0", said(0))
        (tree,) = forest.user("ana").tree(index="hmem", depth=5)
    shown = str(tree)
    assert "2024" in shown


class Violins:
    """A summariser that says the same of everything."""

    name = "violins"

    async def summarise(self, requests: list[object]) -> list[str]:
        """Return a text for each request."""
        return ["I bought a violin in Ghent."] * len(requests)


@pytest.mark.parametrize("compare", ["founder", "text"])
def test_memories_are_compared_by_what_they_say_if_that_is_set(tmp_path: Path, compare: str) -> None:
    """A week about bicycles that is said to be about a violin is joined, in its month, by a week about a violin."""
    own = {"schedule": (0.3, 0.8, 0.8), "eager": True, "compare": compare}
    weeks = [
        (
            "2024-03-05",
            ["I bought a red bicycle at the market.", "I bought another red bicycle at the market."],
        ),
        ("2024-03-13", ["I bought a violin in Ghent."]),
    ]
    with MemForest(tmp_path, hmems.configured(own, summariser=Violins())) as forest:
        for day, lines in weeks:
            turns = [{"role": "user", "content": line} for line in lines]
            forest.ingest_session("ana", day, turns, timestamp=day)
        forest.user("ana").flush()
        assert forest.user("ana").verify().ok
    (first, second), months = ([row for row in hmems.rows(tmp_path) if row[1] == level] for level in (1, 2))
    assert len(months) == (1 if compare == "text" else 2)
    if compare == "text":
        said = dict(rows(file_of(tmp_path), "SELECT item, vector FROM derived_node_vector"))[first[0]]
        began = dict(rows(file_of(tmp_path), "SELECT item, vector FROM derived_fact_vector"))[second[2]]
        likeness = np.dot(unpack_vectors(said)[0], unpack_vectors(began)[0])
        assert second[7] == pytest.approx(float(likeness), abs=2e-3)


def test_memories_are_compared_by_texts_only_where_these_are_made_at_once() -> None:
    """Otherwise there would be none to compare."""
    with pytest.raises(ConfigError, match="eager"):
        MemForest("nowhere", hmems.configured({"compare": "text"}))


def test_trees_that_were_made_by_texts_are_sound_after_any_history(tmp_path: Path) -> None:
    """Sessions that come late and go: nothing stands outside of its window, and all that joined was alike enough."""
    own = {"schedule": (0.4, 0.3, 0.3), "eager": True, "compare": "text"}
    with MemForest(tmp_path, hmems.configured(own)) as forest:
        memory = forest.user("ana")
        for session in (3, 0, 2, 1):
            forest.ingest_session("ana", f"s{session}", said(session))
            assert memory.verify().ok
        forest.delete_session("ana", "s2")
        memory.flush()
        assert memory.verify().ok
        memory.rebuild(index=hmems.NAME)
        assert memory.verify().ok
        assert max(row[1] for row in hmems.rows(tmp_path)) == 4
