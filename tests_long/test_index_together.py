"""Indexes that come and go while others read and write: tasks of one process, and two forests on one directory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shelf import ShelfIndex
from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, rows, said, summaries

from memforest import AsyncMemForest, ConfigError, MemForest, MemForestError, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.trees import attached

SESSIONS = make_sessions(7, sessions=4, most_turns=4)
QUESTION = "Where does Ana live?"


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The shelf is known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attached.INDEXES, "shelf", ShelfIndex)
        yield


def wholly(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what a memory with these indexes holds that was written in one go."""
    with MemForest(folder, fast_config(indexes=names)) as forest:
        for session, turns in SESSIONS:
            forest.ingest_session("u", session, turns)
        forest.flush()
    return dump(file_of(folder))


def check_whole(memory: UserMemory, *names: str) -> None:
    """Check that a memory is sound, and has these indexes."""
    report = memory.verify()
    assert report.ok, report.problems
    assert {one.name for one in memory.indexes()} == set(names)


async def told(work: Coroutine[Any, Any, Any]) -> str:
    """Return what became of a call: "done", or the error that it ended in."""
    try:
        await work
    except MemForestError as exc:
        return type(exc).__name__
    return "done"


@pytest.mark.parametrize("name", ["shelf", "hmem"])
def test_an_index_is_added_while_sessions_are_stored(folder: Path, name: str) -> None:
    """Whatever comes first, nothing is missing and nothing is there twice."""

    async def together() -> None:
        async with AsyncMemForest(folder / "a", fast_config()) as forest:
            await forest.ingest_session("u", *SESSIONS[0])
            writes = [forest.ingest_session("u", session, turns) for session, turns in SESSIONS[1:]]
            await asyncio.gather(*writes, forest.user("u").add_index(name))

    asyncio.run(together())
    with MemForest(folder / "a", fast_config()) as forest:
        forest.flush()
        check_whole(forest.user("u"), "memforest", name)
    assert differences(wholly(folder / "b", ("memforest", name)), dump(file_of(folder / "a"))) == {}


def test_of_several_that_add_one_index_one_does(folder: Path) -> None:
    """The others are told that the memory has it; dropped at once, all but one find nothing to drop."""

    async def together() -> None:
        async with AsyncMemForest(folder, fast_config()) as forest:
            await forest.ingest_session("u", *SESSIONS[0])
            memory = forest.user("u")
            ends = await asyncio.gather(*(told(memory.add_index("shelf")) for _ in range(3)))
            assert sorted(ends) == ["ConfigError", "ConfigError", "done"]
            ends = await asyncio.gather(*(told(memory.drop_index("shelf")) for _ in range(3)))
            assert sorted(ends) == ["NotFoundError", "NotFoundError", "done"]

    asyncio.run(together())
    with MemForest(folder, fast_config()) as forest:
        check_whole(forest.user("u"), "memforest")


def test_the_last_index_stays_whoever_drops(folder: Path) -> None:
    """Of two indexes that are dropped at the same time, one is refused."""

    async def together() -> list[str]:
        async with AsyncMemForest(folder, fast_config(indexes=("flat", "memforest"))) as forest:
            await forest.ingest_session("u", *SESSIONS[0])
            memory = forest.user("u")
            return await asyncio.gather(*(told(memory.drop_index(name)) for name in ("flat", "memforest")))

    assert sorted(asyncio.run(together())) == ["ConfigError", "done"]
    with MemForest(folder, fast_config()) as forest:
        (left,) = forest.user("u").indexes()
        check_whole(forest.user("u"), left.name)
        assert forest.user("u").search(QUESTION).index == left.name


def test_questions_are_answered_while_an_index_is_made_anew(folder: Path) -> None:
    """By it as far as it is, and by the others as ever."""

    async def together() -> None:
        async with AsyncMemForest(folder, fast_config(indexes=("memforest", "shelf"))) as forest:
            for session, turns in SESSIONS:
                await forest.ingest_session("u", session, turns)
            memory = forest.user("u")
            before = (await memory.search(QUESTION, index="memforest")).evidence
            asked = [memory.search(QUESTION, index=name) for name in ("memforest", "shelf") * 3]
            made = asyncio.ensure_future(memory.rebuild(index="shelf"))
            for result in await asyncio.gather(*asked):
                assert result.evidence
                assert result.index == "shelf" or (result.evidence, result.warnings) == (before, ())
            await made

    asyncio.run(together())
    with MemForest(folder, fast_config()) as forest:
        check_whole(forest.user("u"), "memforest", "shelf")


def test_a_question_to_an_index_that_is_dropped_is_answered_or_refused(folder: Path) -> None:
    """Never with half of it; the memory's own index answers throughout."""

    async def together() -> list[str]:
        async with AsyncMemForest(folder, fast_config(indexes=("memforest", "shelf"))) as forest:
            await forest.ingest_session("u", *SESSIONS[0])
            memory = forest.user("u")
            asked = [told(memory.search(QUESTION, index="shelf")) for _ in range(4)]
            own = [told(memory.search(QUESTION)) for _ in range(2)]
            return await asyncio.gather(told(memory.drop_index("shelf")), *own, *asked)

    ends = asyncio.run(together())
    assert ends[:3] == ["done"] * 3
    assert set(ends[3:]) <= {"done", "NotFoundError"}


@pytest.mark.parametrize("name", ["shelf", "timem"])
def test_an_index_is_dropped_while_sessions_are_stored(folder: Path, name: str) -> None:
    """The sessions are stored, and nothing of the index is left."""

    async def together() -> list[str]:
        async with AsyncMemForest(folder, fast_config(indexes=("memforest", name))) as forest:
            await forest.ingest_session("u", *SESSIONS[0])
            writes = [told(forest.ingest_session("u", session, turns)) for session, turns in SESSIONS[1:]]
            return await asyncio.gather(*writes, told(forest.user("u").drop_index(name)))

    assert asyncio.run(together()) == ["done"] * 4
    with MemForest(folder, fast_config()) as forest:
        check_whole(forest.user("u"), "memforest")
        forest.flush()
    assert {tree.split("/")[0] for tree in dump(file_of(folder))["trees"]} == {"memforest"}
    assert len(summaries(file_of(folder))) >= rows(file_of(folder), "SELECT count(*) FROM artifact")[0][0]


def test_rebuilds_and_writes_at_once_end_as_one_after_the_other(folder: Path) -> None:
    """Of all indexes and of one, while sessions are stored and overwritten."""

    async def together() -> None:
        async with AsyncMemForest(folder / "a", fast_config(indexes=("memforest", "shelf"))) as forest:
            await forest.ingest_session("u", SESSIONS[1][0], said("It rains."))
            await forest.ingest_session("u", *SESSIONS[0])
            memory = forest.user("u")
            writes = [forest.ingest_session("u", s, turns, replace=True) for s, turns in SESSIONS[1:]]
            await asyncio.gather(memory.rebuild(), *writes, memory.rebuild(index="shelf"), memory.advance())

    asyncio.run(together())
    with MemForest(folder / "a", fast_config()) as forest:
        forest.flush()
        check_whole(forest.user("u"), "memforest", "shelf")
    assert differences(wholly(folder / "b", ("memforest", "shelf")), dump(file_of(folder / "a"))) == {}


@pytest.fixture
def two(folder: Path) -> Iterator[tuple[MemForest, MemForest]]:
    """Two forests that have one memory open, each with connections and snapshots of its own."""
    with MemForest(folder, fast_config()) as one, MemForest(folder, fast_config()) as other:
        one.ingest_session("u", *SESSIONS[0])
        assert other.query("u", QUESTION).evidence
        yield one, other


def test_what_one_adds_the_other_searches_and_places(two: tuple[MemForest, MemForest]) -> None:
    """Without opening the memory again; and both see that it is gone."""
    one, other = two
    with pytest.raises(NotFoundError, match="add_index"):
        other.query("u", QUESTION, index="shelf")
    one.user("u").add_index("shelf")
    assert other.query("u", QUESTION, index="shelf").evidence
    other.ingest_session("u", *SESSIONS[1])
    check_whole(one.user("u"), "memforest", "shelf")
    assert (
        one.query("u", QUESTION, index="shelf").evidence == other.query("u", QUESTION, index="shelf").evidence
    )
    other.user("u").drop_index("shelf")
    with pytest.raises(NotFoundError, match="add_index"):
        one.query("u", QUESTION, index="shelf")
    one.ingest_session("u", *SESSIONS[2])
    check_whole(other.user("u"), "memforest")


def test_an_index_that_comes_again_is_another_one(two: tuple[MemForest, MemForest]) -> None:
    """What the other had read of the first is not taken for the second, though it has the same name."""
    one, other = two
    one.user("u").add_index("shelf")
    before = other.query("u", QUESTION, index="shelf").evidence
    one.user("u").drop_index("shelf")
    one.ingest_session("u", SESSIONS[0][0], said("I live in Lisbon.", "I own a red tent."), replace=True)
    one.user("u").add_index("shelf")
    after = other.query("u", QUESTION, index="shelf", top_k=99).evidence
    assert {piece.quote for piece in after} == {"I live in Lisbon.", "I own a red tent."}
    assert {piece.quote for piece in before}.isdisjoint(piece.quote for piece in after)
    check_whole(other.user("u"), "memforest", "shelf")


def test_settings_of_the_one_who_added_it_count_for_both(folder: Path) -> None:
    """What the file keeps goes before what the other's configuration says; adding it again there is refused."""
    wide = fast_config(indexes=("flat",), index_settings={"memforest": {"entity_k": 3}})
    narrow = fast_config(indexes=("flat",), index_settings={"memforest": {"entity_k": 20}})
    with MemForest(folder, wide) as one, MemForest(folder, narrow) as other:
        one.ingest_session("u", *SESSIONS[0])
        one.user("u").add_index("memforest")
        other.ingest_session("u", *SESSIONS[1])
        shown = [{view.name: view.settings for view in each.user("u").indexes()} for each in (one, other)]
        assert [settings["memforest"]["entity_k"] for settings in shown] == [3, 3]
        with pytest.raises(ConfigError, match="already"):
            other.user("u").add_index("memforest")
        assert all(
            len(one.children) <= 3 for one in other.user("u").tree(depth=1) if one.title.startswith("entity")
        )
        assert other.user("u").verify().ok
