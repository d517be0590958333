"""A paced index: its texts are made by `advance` alone, whatever else is made, shown or closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.paced import Diary, Prompted
from tests_long.worlds import fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import InputError, TimestampError
from memforest.store import jobs
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.trees import attached
from memforest.trees.index import Host

TEXTS = [
    "I bought two tents in Oslo.",
    "The rain came at noon.",
    "We slept on the shore.",
    "A goose woke us.",
]


@pytest.fixture(autouse=True)
def diary() -> Iterator[None]:
    """The index is known."""
    attached.INDEXES[Diary.name] = Diary
    Diary.act = None
    Diary.reopened.clear()
    Diary.occasions.clear()
    yield
    attached.INDEXES.pop("diary", None)


@pytest.fixture
def prompted() -> Prompted:
    """A summariser whose makers are by prompt."""
    return Prompted()


@pytest.fixture
def forest(folder: Path, prompted: Prompted) -> Iterator[MemForest]:
    """A forest with the paced index beside another one."""
    with MemForest(folder, fast_config(indexes=("diary", "memforest"), summariser=prompted)) as forest:
        yield forest


def ingest(forest: MemForest, day: int = 1, texts: Sequence[str] = TEXTS, **options: Any) -> Any:
    """Store a session."""
    return forest.ingest_session("u", f"s{day}", said(*texts, day=day), **options)


async def nothing(host: Host) -> None:
    """Make nothing."""


def test_an_index_is_told_why_it_is_advanced(forest: MemForest) -> None:
    """Behind a write; because somebody asked; or because what is not due yet is wanted too."""
    memory = forest.user("u")

    def told(did: Any) -> list[str]:
        found, Diary.occasions[:] = list(Diary.occasions), []
        return found

    assert told(ingest(forest)) == ["write"]
    assert told(memory.add("user: The goose came back.")) == ["write"]
    assert told(memory.advance()) == ["advance"]
    assert told(memory.advance(force=True)) == ["force"]
    assert set(told(forest.resume("u"))) == {"advance", "write"}
    assert told(memory.rebuild()) == ["advance"]
    memory.drop_index("diary")
    assert told(memory.add_index("diary")) == ["advance"]
    assert told(memory.delete(session_id="s1")) == ["write"]


def test_advance_refuses_what_is_no_time_or_flag(forest: MemForest) -> None:
    """And says what it is given."""
    ingest(forest)
    with pytest.raises(TimestampError, match="as_of"):
        forest.user("u").advance(as_of="yesterdayish")
    with pytest.raises(InputError, match="force"):
        forest.user("u").advance(force="no")  # type: ignore[arg-type]


def dirty(folder: Path, owner: str = "diary") -> int:
    """Return how many nodes of an index are out of date."""
    [[count]] = rows(
        file_of(folder),
        f"SELECT count(*) FROM node n JOIN tree t ON t.id = n.tree WHERE n.dirty AND t.owner = '{owner}'",
    )
    return int(count)


def told(folder: Path, owner: str = "diary") -> dict[str, int]:
    """Return how many texts of an index each maker has made."""
    found = rows(
        file_of(folder),
        f"""SELECT d.maker, count(*) FROM derived_summary d JOIN node n ON n.id = d.node
            JOIN tree t ON t.id = n.tree AND t.owner = '{owner}' GROUP BY 1""",
    )
    return dict(found)


REFRESHES = {
    "flush": lambda forest: forest.flush("u"),
    "refresh=True": lambda forest: ingest(forest, 2, TEXTS[:1], refresh=True),
    "tree": lambda forest: forest.user("u").tree(),
    "explain": lambda forest: forest.user("u").search("tents?", explain=True),
}


@pytest.mark.parametrize("refresh", REFRESHES.values(), ids=REFRESHES)
def test_no_refresh_makes_or_counts_its_nodes(forest: MemForest, folder: Path, refresh: Any) -> None:
    """Those of the other index are made; nothing says that something is left."""
    Diary.act = nothing
    assert ingest(forest, refresh=False).nodes_dirty == dirty(folder, "memforest") > 0
    waits = dirty(folder)
    Diary.act = nothing
    done = refresh(forest)
    assert waits == 7
    assert told(folder) == {}
    assert dirty(folder) >= waits
    if hasattr(done, "nodes_dirty"):
        assert (done.nodes_dirty, done.warnings) == (0, ())
        assert dirty(folder, "memforest") == 0
        assert forest.user("u").stats().dirty_nodes == 0
    views = forest.user("u").tree(index="diary")
    # What has no text yet waits for it, and is not shown as out of date.
    assert [(one.dirty, one.summary) for one in views[:1]] == [(False, "")]


@pytest.mark.parametrize("policy", ["behind", "path", "close", "lazy"])
def test_no_policy_makes_its_nodes(folder: Path, prompted: Prompted, policy: str) -> None:
    """Behind a write, with it, or when the memory is closed: the other index's are made, and no run is begun for these alone."""
    config = fast_config(indexes=("diary", "memforest"), summariser=prompted, refresh=policy)
    with MemForest(folder, config) as forest:
        Diary.act = nothing
        ingest(forest)
        if policy == "behind":
            forest.flush("u")
    assert (told(folder), dirty(folder)) == ({}, 7)
    assert (dirty(folder, "memforest") > 0) is (policy == "lazy")
    assert all(one.prompt == "" for one in prompted.asked)


def test_advance_makes_them(forest: MemForest, folder: Path) -> None:
    """Also when the other index has nothing to do."""
    Diary.act = nothing
    ingest(forest)
    forest.user("u").advance()
    assert dirty(folder) == 0
    assert told(folder) == {"segment@1:prompted": 4, "session@1:prompted": 2, "day@1:prompted": 1}


def test_a_changed_prompt_makes_exactly_its_texts_stale(
    forest: MemForest, folder: Path, prompted: Prompted
) -> None:
    """They are marked with what is above them, the index schedules them, and `advance` makes them within the rebuild."""
    ingest(forest)
    forest.flush("u")
    others = told(folder, "memforest")
    memory = forest.user("u")
    assert memory.stale().summaries == 0
    prompted.versions["session"] = 2
    prompted.asked.clear()
    assert memory.stale().summaries == 2
    assert any("session@1:prompted" in note for note in memory.stats().stale)
    memory.rebuild(stale=True)
    [reopened] = Diary.reopened
    assert len(reopened) == 3, "two, and the one above them"
    assert [one.prompt for one in prompted.asked] == ["session"] * 2, "what is above reads the same texts"
    assert told(folder) == {"segment@1:prompted": 4, "session@2:prompted": 2, "day@1:prompted": 1}
    assert (told(folder, "memforest"), memory.stale().summaries, dirty(folder)) == (others, 0, 0)


def test_a_rebuild_lets_it_schedule_everything(forest: MemForest, folder: Path, prompted: Prompted) -> None:
    """All of its nodes, and no others; `advance` makes them anew."""
    ingest(forest)
    prompted.asked.clear()
    forest.user("u").rebuild()
    assert [len(nodes) for nodes in Diary.reopened] == [7]
    assert sum(one.prompt != "" for one in prompted.asked) == 7
    assert dirty(folder) == 0


def test_an_import_without_summaries_lets_it_schedule_what_it_carries(
    folder: Path, tmp_path: Path, prompted: Prompted
) -> None:
    """The texts are made by the first `advance`."""

    class Carried(Diary):
        """Refers to nothing that an import numbers anew."""

        carried: Mapping[str, str] | None = MappingProxyType({"talk": "session"})

    attached.INDEXES.pop("diary", None)
    attached.INDEXES[Carried.name] = Carried
    config = fast_config(indexes=("diary",), summariser=prompted)
    with MemForest(folder, config) as forest:
        ingest(forest)
        forest.user("u").export(tmp_path / "u.jsonl", summaries=False)
        Diary.reopened.clear()
        Diary.act = nothing
        forest.user("v").import_(tmp_path / "u.jsonl")
        assert [len(nodes) for nodes in Diary.reopened] == [7]
        forest.user("v").advance()
        assert forest.user("v").verify().ok


def test_its_due_jobs_are_its_own(forest: MemForest, folder: Path) -> None:
    """`resume` says of none of them that nothing here does it; the index does it when it is advanced."""

    async def later(host: Host) -> None:
        await host.write(lambda tx: jobs.add(tx, "diary", "session", "session 1", due_ms=0))
        await host.write(lambda tx: jobs.add(tx, "gone", "session", "session 1", due_ms=0))

    Diary.act = later
    ingest(forest)
    forest.resume("u")
    found = rows(file_of(folder), "SELECT owner, reason FROM job")
    assert found == [("diary", None), ("gone", "nothing here does jobs of kind session of gone")]


def test_trees_are_counted_once_a_state(forest: MemForest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `advance` that finds nothing to do counts no rows of a large memory."""
    ingest(forest)
    counted: list[int] = []
    sizes = tree_rows.sizes

    def count(tx: Tx) -> Any:
        counted.append(1)
        return sizes(tx)

    monkeypatch.setattr(tree_rows, "sizes", count)
    memory = forest.user("u")
    first = memory.indexes()
    assert (memory.indexes(), len(counted)) == (first, 1)
    ingest(forest, 2)
    [diary, _] = memory.indexes()
    assert (diary.trees, diary.leaves, len(counted)) == (2, 8, 2)


def test_what_is_out_of_date_there_is_no_damage(forest: MemForest, folder: Path) -> None:
    """A memory whose index has much to do is as it should be."""
    Diary.act = nothing
    ingest(forest)
    report = forest.user("u").verify()
    assert report.ok, report
    assert dirty(folder) == 7
