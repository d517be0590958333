"""A fifth policy needs its own file alone: the shelf (`tests_long.shelf`), known by name, keeps every promise of the other four."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.contract import test_index as contract
from tests.contract.talk import NOW, found_in_files, opened
from tests_long import shelf
from tests_long.living import written
from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, summaries

from memforest import MemForest
from memforest.errors import MemForestError
from memforest.reading.summarise_local import LocalSummariser
from memforest.testing import FrozenClock
from memforest.trees import attached

BOTH = ("shelf", "memforest")
SESSIONS = make_sessions(5, sessions=4)
CHECKS = [name for name in vars(contract) if name.startswith("test_") or name in ("index", "place", "memory")]
globals().update({name: getattr(contract, name) for name in CHECKS})  # of the memory below


@pytest.fixture(scope="module", autouse=True)
def _known() -> Iterator[None]:
    """The shelf is known by its name, and nothing else is changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attached.INDEXES, "shelf", shelf.ShelfIndex)
        yield


@pytest.fixture(scope="module")
def grown(_known: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The shelf, and the directory of a memory with it; tests take copies."""
    folder, clock = tmp_path_factory.mktemp("policy") / "grown", FrozenClock(NOW)
    with opened(folder, clock, indexes=("shelf",)) as forest:
        contract.fill(forest, clock)
        contract.written(forest)
    return "shelf", folder


def told(folder: Path, sessions: Any = SESSIONS, **settings: Any) -> MemForest:
    """Return a forest whose user "u" has said some sessions, with all summaries."""
    forest = MemForest(folder, fast_config(**{"indexes": BOTH, **settings}))
    for name, turns in sessions:
        forest.ingest_session("u", name, turns)
    forest.register_user("u")
    written(forest)
    return forest


def held(folder: Path) -> dict[str, Any]:
    """Return what the memory in a folder holds, with its trees and what was made of them."""
    return {**dump(file_of(folder)), "summaries": summaries(file_of(folder))}


def test_the_policy_is_short() -> None:
    """Forty lines at most, without imports and blank lines."""
    lines = [one for one in Path(shelf.__file__).read_text("utf-8").splitlines() if one.strip()]
    assert len([one for one in lines if not one.startswith(("from ", "import "))]) <= 40


def test_orders_and_merges_end_in_equal_trees(folder: Path) -> None:
    """Backwards, or merged of two halves: the same trees with the same summaries."""
    told(folder / "b", SESSIONS[::-1]).close()
    told(folder / "a").close()
    told(folder / "half", SESSIONS[2:]).close()
    with told(folder / "merged", SESSIONS[:2]) as forest:
        forest.user("u").merge("u", directory=folder / "half", same_person=True)
        written(forest)
        assert forest.user("u").verify().ok
    first = held(folder / "a")
    assert {"shelf/month", "shelf/session"} <= {tree.split(" ")[0] for tree in first["trees"]}
    assert differences(first, held(folder / "b")) == {}
    assert differences(first, held(folder / "merged"), ("trees", "summaries")) == {}


class Counting(LocalSummariser):
    """Keeps what it was asked for the shelf."""

    asked: ClassVar[list[Any]] = []

    async def summarise(self, requests: Any) -> Any:
        """Summarise, and keep the requests."""
        self.asked.extend(one for one in requests if one.kind == "shelf")
        return await super().summarise(requests)


def test_every_summary_is_made_once(folder: Path) -> None:
    """One for each node; a rebuild, an import and a merge ask for none again, and end in the same."""
    counting = Counting()
    with told(folder / "a", summariser=counting) as forest:
        forest.user("u").export(folder / "out.jsonl")
        made = sum(name.startswith("shelf/") for name in summaries(file_of(folder / "a")))
        assert made == len(counting.asked) > 3
        forest.user("u").rebuild()
    with told(folder / "b", (), summariser=counting) as forest:
        forest.user("u").import_(folder / "out.jsonl")
        written(forest)
    with told(folder / "c", (), summariser=counting) as forest:
        forest.user("u").merge("u", directory=folder / "a", same_person=True)
        written(forest)
    assert len(counting.asked) == made
    assert held(folder / "a") == held(folder / "b") == held(folder / "c")


def test_nothing_that_was_deleted_is_left(folder: Path) -> None:
    """Not in a summary and not in a file; and what is left is what a memory without it has."""
    extra = [{**SESSIONS[0][1][0], "content": "My parrot Zarquon sings."}, *SESSIONS[0][1][:2]]
    with told(folder / "a", [*SESSIONS, ("extra", extra)]) as forest:
        assert any("Zarquon" in text for text, _ in summaries(file_of(folder / "a")).values())
        forest.user("u").delete(session_id="extra")
        written(forest)
        assert forest.user("u").verify(deleted=["Zarquon"]).ok
        assert not found_in_files(folder / "a", "Zarquon")
    told(folder / "b").close()
    assert differences(held(folder / "b"), held(folder / "a"), ("trees", "summaries")) == {}


def test_a_policy_that_raises_loses_its_own_view_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes, searches, summaries and deletions of the others go on; whatever tells of the memory names it."""
    told(folder / "a").close()
    shutil.copytree(folder / "a", folder / "b")
    broken = {"grow": lambda *_: 1 // 0}
    monkeypatch.setitem(attached.INDEXES, "shelf", type("Broken", (shelf.ShelfIndex,), broken))
    with MemForest(folder / "b", fast_config(indexes=BOTH)) as forest:
        memory = forest.user("u")
        assert memory.search("Where does Ana live?", index="memforest").evidence
        with pytest.raises(MemForestError, match="shelf"):
            memory.search("Where does Ana live?", index="shelf")
        forest.ingest_session("u", "late", [{**SESSIONS[0][1][0], "content": "My parrot Zarquon sings."}])
        assert [one.index for one in memory.verify().problems] == ["shelf"]
        assert any("shelf" in str(one) for one in forest.flush("u").warnings)
        memory.delete(session_id="late")
        assert not found_in_files(folder / "b", "Zarquon")
        assert memory.stats().trees["memforest"]
        assert {one.name for one in memory.indexes()} == set(BOTH)
    monkeypatch.setitem(attached.INDEXES, "shelf", shelf.ShelfIndex)
    with told(folder / "b", ()) as forest:
        assert forest.user("u").verify().ok
    assert differences(held(folder / "a"), held(folder / "b"), ("trees", "summaries")) == {}
