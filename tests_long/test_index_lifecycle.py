"""An index can be added to a memory later, dropped and made anew: the verbs, and what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.living import written
from tests_long.shelf import ShelfIndex
from tests_long.worlds import dump, fast_config, file_of, make_sessions, rows, said, summaries

from memforest import ConfigError, InputError, MemForest, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.trees import attached

EVERY = ("memforest", "segtree", "timem", "hmem", "shelf")


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shelf is known."""
    monkeypatch.setitem(attached.INDEXES, "shelf", ShelfIndex)


def grown(folder: Path, **settings: Any) -> MemForest:
    """Return a forest with some sessions of user "u"."""
    forest = MemForest(folder, fast_config(**settings))
    for name, turns in make_sessions(3, sessions=3):
        forest.ingest_session("u", name, turns)
    return forest


def named(memory: UserMemory) -> list[str]:
    """Return the names of the memory's indexes."""
    return [one.name for one in memory.indexes()]


@pytest.mark.parametrize("name", EVERY)
def test_an_index_is_added_to_what_was_said_before(folder: Path, name: str) -> None:
    """`add_index` returns what is there; later writes go on with it, and it is as if it had been there from the start."""
    first = "segtree" if name == "memforest" else "memforest"
    with grown(folder / "a", indexes=(first,)) as forest, grown(folder / "b", indexes=(first, name)) as other:
        made = forest.user("u").add_index(name)
        [same] = [one for one in other.user("u").indexes() if one.name == name]
        assert (made.trees, made.nodes, made.leaves) == (same.trees, same.nodes, same.leaves)
        assert made.leaves > 0
        for one in (forest, other):
            one.ingest_session("u", "new", said("I moved to Porto yesterday."))
            written(one)
            assert one.user("u").verify().ok
    assert dump(file_of(folder / "a")) == dump(file_of(folder / "b"))
    assert summaries(file_of(folder / "a")) == summaries(file_of(folder / "b"))


@pytest.mark.parametrize("name", EVERY)
def test_an_index_leaves_nothing_behind(folder: Path, name: str) -> None:
    """Dropped, it leaves no row, setting or summary, and the others as they were."""
    first = "segtree" if name == "memforest" else "memforest"
    sql = (
        "SELECT digest, text, vector FROM artifact",
        "SELECT * FROM index_",
        "SELECT key FROM meta WHERE key NOT LIKE 'next:%'",
    )
    with grown(folder, indexes=(first,)) as forest:
        written(forest)
        memory, before = forest.user("u"), [rows(file_of(folder), one) for one in sql]
        memory.add_index(name)
        written(forest)
        assert len(rows(file_of(folder), sql[0])) > len(before[0])
        memory.drop_index(name)
        assert [rows(file_of(folder), one) for one in sql] == before
        assert memory.verify().ok
        with pytest.raises(NotFoundError, match=f"add_index\\('{name}'\\)"):
            memory.search("Who moved?", index=name)


def test_names_that_begin_alike_are_two_indexes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping one takes nothing of the other."""
    monkeypatch.setitem(attached.INDEXES, "she", type("She", (ShelfIndex,), {"name": "she"}))
    with grown(folder, indexes=("memforest", "shelf", "she")) as forest:
        written(forest)
        made = summaries(file_of(folder))
        forest.user("u").drop_index("she")
        assert forest.user("u").verify().ok
        assert summaries(file_of(folder)) == {
            one: text for one, text in made.items() if not one.startswith("she/")
        }


def test_one_index_is_made_anew(folder: Path) -> None:
    """`rebuild(index=)` makes the summaries of that one, and refuses what goes with no single index."""
    with grown(folder, indexes=("memforest", "shelf")) as forest:
        memory = forest.user("u")
        written(forest)
        before = dump(file_of(folder)), summaries(file_of(folder))
        memory.rebuild(index="shelf")
        written(forest)
        assert (dump(file_of(folder)), summaries(file_of(folder))) == before
        with pytest.raises(InputError):
            memory.rebuild(index="shelf", stale=True)
        memory.drop_index("shelf")
        for gone in ("shelf", "flat"):  # a query may name flat all the same
            with pytest.raises(NotFoundError, match=f"add_index\\('{gone}'\\)"):
                memory.rebuild(index=gone)


def test_settings_given_with_an_index_are_kept(folder: Path) -> None:
    """They are in the file, over those of the configuration, whoever opens it; unknown ones are refused."""
    config = fast_config(indexes=("flat",), index_settings={"memforest": {"entity_k": 5}})
    with MemForest(folder, config) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        memory = forest.user("u")
        with pytest.raises(ConfigError):
            memory.add_index("memforest", {"wide": 3})
        made = memory.add_index("memforest", {"active_min_facts": 7, "session_k": 4})
        assert (made.settings["active_min_facts"], made.settings["entity_k"]) == (7, 5)
    with MemForest(folder, fast_config()) as forest:
        [_, kept] = forest.user("u").indexes()
        assert (kept.settings["active_min_facts"], kept.settings["session_k"], kept.settings["entity_k"]) == (
            7,
            4,
            5,
        )


def test_a_memory_needs_no_trees(folder: Path) -> None:
    """`Config.indexes` chooses; a memory with the flat index alone has no tree, and finds."""
    with grown(folder, indexes=("flat",)) as forest:
        memory = forest.user("u")
        assert (memory.stats().trees, memory.stats().nodes) == ({}, 0)
        assert [one.name for one in memory.indexes()] == ["flat"]
        found = memory.search("Where does Ana live?")
        assert found.evidence
        assert found.index == "flat"
        assert memory.verify().ok
