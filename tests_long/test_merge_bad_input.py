"""Merges that cannot be: a clear error, nothing lost, nothing half done. And what is unusual, but can be merged."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shelf import ShelfIndex
from tests_long.worlds import PAPER, differences, dump, eager_config, fast_config, make_sessions, rows, said

from memforest import EmbedderMismatchError, InputError, MemForest, NotFoundError
from memforest.errors import CorruptStoreError, StoreError
from memforest.models import HashEmbedder
from memforest.store.directory import file_name
from memforest.trees import attached
from memforest.write import merge
from memforest.write.merge_copy import copy_sessions


def filled(folder: Path, *users: str, **settings: Any) -> MemForest:
    """Return a forest with a memory for each user, with sessions of their own."""
    forest = MemForest(folder, fast_config(**settings))
    for seed, user in enumerate(users):
        for name, turns in make_sessions(seed + 40, sessions=2):
            forest.ingest_session(user, f"{user}-{name}", turns)
    return forest


def change(path: Path, *statements: str) -> None:
    """Write into a file as no version of memforest does."""
    with closing(sqlite3.connect(path)) as conn, conn:
        for statement in statements:
            conn.execute(statement)


def test_into_itself(folder: Path) -> None:
    """By name, by directory, and as one of several."""
    with filled(folder, "a", "b") as forest:
        with pytest.raises(InputError):
            forest.user("a").merge("a")
        with pytest.raises(InputError):
            forest.user("a").merge("a", directory=folder)
        with pytest.raises(InputError):
            forest.merge_user_forests(["a", "b"], "a")


@pytest.mark.parametrize(
    "sources",
    ["a", [], ["a", "a"], ["a", ""], [1], None],
    ids=["text", "none", "twice", "empty", "number", "no"],
)
def test_wrong_sources(folder: Path, sources: Any) -> None:
    """Nothing is merged, and no memory is made."""
    with filled(folder, "a") as forest:
        with pytest.raises(InputError):
            forest.merge_user_forests(sources, "new")
        assert forest.list_users() == ["a"]


@pytest.mark.parametrize(
    "how",
    [
        {"same_person": 1},
        {"same": ["x"]},
        {"same": {"Ana": 3}},
        {"apart": "Ana"},
        {"dry_run": "no"},
        {"directory": 4},
    ],
    ids=str,
)
def test_wrong_options(folder: Path, how: dict[str, Any]) -> None:
    """Each is named, and nothing is written."""
    with filled(folder, "a", "b") as forest:
        before = dump(folder / file_name("a"))
        with pytest.raises(InputError):
            forest.user("a").merge("b", **how)
        assert differences(before, dump(folder / file_name("a"))) == {}


def test_an_unknown_user(folder: Path) -> None:
    """It is named; whoever it was to be merged into is not made."""
    with filled(folder, "a") as forest:
        with pytest.raises(NotFoundError, match="zoe"):
            forest.user("new").merge("zoe")
        with pytest.raises(NotFoundError):
            forest.merge_user_forests(["a", "zoe"], "new")
        with pytest.raises(NotFoundError, match="directory"):
            forest.user("a").merge("a", directory=folder / "nowhere")
        with pytest.raises(NotFoundError):
            forest.user("new").merge("a", dry_run=True)
        assert forest.list_users() == ["a"]


def test_two_embedders(folder: Path) -> None:
    """The fix is named, and nothing is written."""
    filled(folder / "there", "b").close()
    with filled(folder / "here", "a", embedder=HashEmbedder(64)) as forest:
        before = dump(folder / "here" / file_name("a"))
        with pytest.raises(EmbedderMismatchError, match="re-embed"):
            forest.user("a").merge("b", directory=folder / "there")
        assert differences(before, dump(folder / "here" / file_name("a"))) == {}


def test_a_memory_without_vectors_gets_them_where_there_is_an_embedder(folder: Path) -> None:
    """They are made behind the merge; into a memory without an embedder none are taken."""
    filled(folder / "there", "x", "b", embedder=None).close()
    with filled(folder / "here", "a") as forest:
        result = forest.user("a").merge("b", directory=folder / "there")
        assert result.usage.embeds["turn"] > 0
        assert forest.user("a").verify().problems == ()
    filled(folder / "plain", "c", embedder=None).close()
    with MemForest(folder / "plain", fast_config(embedder=None)) as forest:
        assert forest.user("c").merge("b", directory=folder / "there").sessions_added == 2
        assert forest.user("c").verify().problems == ()


def test_a_damaged_turn_of_the_other_memory(folder: Path) -> None:
    """It is named; what was copied before is whole, and merging goes on when it is healed."""
    filled(folder, "a", "b").close()
    damaged = make_sessions(41, sessions=2)[1]
    change(folder / file_name("b"), "UPDATE turn SET text = text || 'x' WHERE session = 2 AND ordinal = 0")
    with MemForest(folder, fast_config()) as forest:
        with pytest.raises(CorruptStoreError):
            forest.user("a").merge("b")
        assert forest.user("a").verify().problems == ()
        forest.ingest_session("b", "b-s1", damaged[1], replace=True)
        forest.user("a").merge("b")
        assert forest.user("a").verify().problems == ()
        assert len(forest.user("a").sessions()) == 4


def test_a_damaged_statement_of_the_other_memory(folder: Path) -> None:
    """One that is not what its identity was made of is not copied."""
    filled(folder, "a", "b").close()
    change(folder / file_name("b"), "UPDATE fact SET text = 'Ana lives in Rome.' WHERE id = 1")
    with MemForest(folder, fast_config()) as forest:
        with pytest.raises(CorruptStoreError, match="identity"):
            forest.user("a").merge("b")
        assert forest.user("a").verify().problems == ()


def test_a_damaged_file(folder: Path) -> None:
    """SQLite's own check comes first."""
    filled(folder, "a", "b").close()
    path = folder / file_name("b")
    raw = bytearray(path.read_bytes())
    for at in range(8 * 4096, len(raw) - 4096, 4096):
        raw[at + 3 : at + 40] = b"\xff" * 37
    path.write_bytes(bytes(raw))
    before = dump(folder / file_name("a"))
    with MemForest(folder, fast_config()) as forest, pytest.raises(StoreError):
        forest.user("a").merge("b")
    assert differences(before, dump(folder / file_name("a"))) == {}


def test_a_target_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run works there; a merge is an error."""
    filled(folder, "a", "b").close()
    monkeypatch.setattr("memforest.store.files.os.access", lambda *_args, **_how: False)
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("a").merge("b", dry_run=True).sessions_added == 2
        with pytest.raises(StoreError, match=r"read-only|written"):
            forest.user("a").merge("b")


def test_a_dry_run_counts_what_a_merge_does_and_writes_nothing(folder: Path) -> None:
    """Of new and of grown sessions, of renamed ones, and of shared statements."""
    with filled(folder, "a", "b") as forest:
        car = "I bought a red car in Davis yesterday."
        told = {"a": ("I live in Oslo.", car), "b": (car, "I live in Davis.")}
        for user, texts in told.items():
            forest.ingest_session(user, "same id", said(*texts, speaker="Cleo"))
            forest.ingest_session(user, "went on", said(car, f"I met {user}.", speaker="Cleo", day=2))
        before = dump(folder / file_name("a"))
        dry = forest.user("a").merge("b", dry_run=True)
        assert differences(before, dump(folder / file_name("a"))) == {}
        done = forest.user("a").merge("b")
        for name in (
            "sessions_added",
            "sessions_grown",
            "sessions_same",
            "turns_added",
            "facts_inserted",
            "facts_merged",
        ):
            assert getattr(dry, name) == getattr(done, name), name
        assert dry.renamed == done.renamed != {}
        assert (dry.participants_joined, dry.entities_joined) == (
            done.participants_joined,
            done.entities_joined,
        )
        again = forest.user("a").merge("b", dry_run=True)
        assert (again.sessions_added, again.turns_added, again.facts_inserted) == (0, 0, 0)


def test_a_memory_that_is_written_while_it_is_merged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session is copied as it is when its turn comes: none is half there, and one that went is left out."""
    monkeypatch.setattr(merge, "BATCH_TURNS", 1)
    with filled(folder, "a", "b") as forest:
        copy = copy_sessions
        # The log cannot be emptied while the merge reads the file: replacing waits no longer for that than this.
        other = MemForest(folder, fast_config(busy_timeout_s=0.5))

        def meanwhile(*args: Any) -> Any:
            monkeypatch.setattr(merge, "copy_sessions", copy)
            other.ingest_session("b", "b-s1", said("I live in Kyoto.", speaker="Ana"), replace=True)
            other.ingest_session("b", "b-new", said("I work at Globex now.", speaker="Ana"))
            return copy(*args)

        monkeypatch.setattr(merge, "copy_sessions", meanwhile)
        forest.user("a").merge("b")
        other.close()
        assert forest.user("a").verify().problems == ()
        forest.user("a").merge("b")
        assert forest.user("a").verify().problems == ()
        texts = {text for (text,) in rows(folder / file_name("a"), "SELECT text FROM turn")}
        assert {"I live in Kyoto.", "I work at Globex now."} <= texts


def test_other_zones_chunk_sizes_and_tree_shapes(folder: Path) -> None:
    """Chunks stay as they were cut, trees are of the shape that they have here, and of the zones there is a note."""
    shape = {"memforest": {"entity_k": 4, "session_k": 4}}
    filled(folder / "there", "b", chunk_turns=5, timezone="Asia/Tokyo", index_settings=shape).close()
    with filled(folder / "here", "a") as forest:
        result = forest.user("a").merge("b", directory=folder / "there")
        assert any("Asia/Tokyo" in warning for warning in result.warnings)
        assert forest.user("a").verify().problems == ()
        forest.ingest_session("a", "b-s0", [*make_sessions(40, sessions=1)[0][1]], replace=True)
        assert forest.user("a").verify().problems == ()


def test_in_the_papers_own_form(folder: Path) -> None:
    """Chunks with summaries of their own, and nodes of scenes with vectors, are taken over as well."""
    with MemForest(folder, eager_config(index_settings=PAPER)) as forest:
        for user, seed in (("a", 61), ("b", 62)):
            for name, turns in make_sessions(seed, sessions=3):
                forest.ingest_session(user, f"{user}-{name}", turns)
        assert forest.user("a").merge("b").summaries_copied > 3
        assert forest.user("a").verify().problems == ()
        forest.register_user("new")
        assert forest.user("new").merge("b", refresh=False).summaries_copied > 3
        assert forest.user("new").stats().dirty_nodes == 0
        assert forest.user("new").verify().problems == ()


def test_every_index_gets_what_is_merged(folder: Path) -> None:
    """Each has trees of what came, and of what was there."""
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    try:
        indexes = ("memforest", "shelf", "flat")
        with filled(folder, "a", "b", indexes=indexes) as forest:
            forest.user("a").merge("b")
            assert forest.user("a").verify().problems == ()
            assert {one.index for one in forest.user("a").tree()} == {"memforest", "shelf"}
            titles = {one.title for one in forest.user("a").tree(index="memforest", limit=1000)}
            assert {"session a-s0", "session b-s0"} <= titles
            trees = dump(folder / file_name("a"))["trees"]
            assert {"shelf/session a-s0", "shelf/session b-s0"} <= trees.keys()
    finally:
        attached.INDEXES.pop("shelf", None)


def test_overwriting_replaces_what_differs_alone(folder: Path) -> None:
    """A session of the same id with other turns; all else of the target stays."""
    with filled(folder, "a", "b") as forest:
        forest.ingest_session("a", "s", said("I live in Lima, near the zoo.", speaker="Ana"))
        forest.ingest_session("b", "s", said("I live in Oslo.", speaker="Ana"))
        forest.merge_user_forests(["b"], "a", overwrite=True)
        assert forest.user("a").verify().problems == ()
        found = {one.session_id for one in forest.user("a").sessions()}
        assert found == {"a-s0", "a-s1", "b-s0", "b-s1", "s"}
        forest.save("a")
    assert b"near the zoo" not in (folder / file_name("a")).read_bytes()
