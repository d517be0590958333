"""The async twin has the same verbs and results, and what was acknowledged is there whatever is cancelled."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import NOW, opened, picture, said, shown

from memforest import AsyncMemForest, AsyncUserMemory, Config, MemForest, UserMemory
from memforest.errors import InputError, NotFoundError
from memforest.testing import FrozenClock, HashEmbedder


def config(**settings: Any) -> Config:
    """Return quick settings."""
    return Config(**{"embedder": HashEmbedder(), "clock": FrozenClock(NOW), **settings})


def public(kind: type) -> set[str]:
    """Return the names that a class shows."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_have_the_same_verbs() -> None:
    """By name and by arguments, and every one says what it does."""
    for blocking, twin in ((MemForest, AsyncMemForest), (UserMemory, AsyncUserMemory)):
        assert public(blocking) - {"config"} == public(twin) - {"config"}  # an attribute of every forest
        for name in public(twin) - {"config"}:
            one, other = getattr(blocking, name), getattr(twin, name)
            if callable(one):
                assert [*inspect.signature(one).parameters] == [*inspect.signature(other).parameters], name
                assert inspect.getdoc(one), name


def test_both_return_the_same(world: Path, made_world: Path, read_anna: UserMemory) -> None:
    """Readers of the one and of the other are equal, for a memory that each has opened."""
    one = read_anna.list().facts[0].fact_id
    verbs: dict[str, tuple[Any, ...]] = {
        "list": (), "get": (one,), "sessions": (), "turns": ("may",), "entities": (), "relations": ("Milo",), "timeline": ("Anna",),
        "changes": ("2024-01-01",), "diff": ("2024-03-20", "2024-05-01"), "profile": (), "history": (one,), "tree": (), "verify": (),
    }  # fmt: skip

    async def run() -> dict[str, Any]:
        async with AsyncMemForest(world, config()) as forest:
            anna = forest.user("anna")
            found = {name: await getattr(anna, name)(*args) for name, args in verbs.items()}
            found["search"] = (await anna.search("Where does Anna live?")).evidence
            found["ask"] = (await anna.ask("Where does Anna live?")).answer
            return found

    got = asyncio.run(run())
    expected = {name: getattr(read_anna, name)(*args) for name, args in verbs.items()}
    expected["search"] = read_anna.search("Where does Anna live?").evidence
    expected["ask"] = read_anna.ask("Where does Anna live?").answer
    assert [name for name in expected if got[name] != expected[name]] == []


def test_writes_at_once_are_all_there(folder: Path) -> None:
    """Many writers of one memory and of several: each write is whole, in a session of its own or in one of all."""

    async def run() -> None:
        async with AsyncMemForest(folder, config()) as forest:
            await asyncio.gather(
                *(
                    forest.user(f"u{at % 3}").add(said(f"I own kiln {at}."), session_id=f"s{at}")
                    for at in range(12)
                ),
                *(
                    forest.user("u0").add({**said(f"I like song {at}.")[0], "id": f"m{at}"}, session_id="all")
                    for at in range(6)
                ),
            )

    asyncio.run(run())
    with opened(folder) as forest:
        assert forest.list_users() == ["u0", "u1", "u2"]
        for at in range(12):
            assert len(forest.user(f"u{at % 3}").turns(f"s{at}")) == 1
        assert {text for *_, text in shown(forest.user("u0"))["all"]} == {
            f"I like song {at}." for at in range(6)
        }
        assert all(forest.user(name).verify().ok for name in forest.list_users())


def test_reads_while_it_is_written(world: Path) -> None:
    """A reader sees the memory before or after a write, never half of one."""

    async def run() -> set[int]:
        async with AsyncMemForest(world, config()) as forest:
            anna = forest.user("anna")
            write = asyncio.ensure_future(
                anna.add(said(*(f"I own kiln {at}." for at in range(8))), session_id="new")
            )
            seen = set()
            while not write.done():
                seen.add(len([one async for one in _turns(anna)]))
                await asyncio.sleep(0)
            await write
            seen.add(len([one async for one in _turns(anna)]))
            return seen

    assert asyncio.run(run()) <= {12, 20}


async def _turns(memory: AsyncUserMemory) -> Any:
    for session in await memory.sessions():
        for turn in range(session.turns):
            yield turn


@pytest.mark.parametrize("wait", [0.0, 0.002, 0.01, 0.05])
def test_a_cancelled_write_loses_nothing_acknowledged(folder: Path, wait: float) -> None:
    """What had returned is there; what was cancelled is there as a whole or not at all; the memory goes on."""
    done: list[int] = []
    begun = asyncio.Event()

    async def write(memory: AsyncUserMemory) -> None:
        for at in range(30):
            await memory.add(said(f"I own kiln {at}.", f"I own loom {at}."), session_id=f"s{at}")
            done.append(at)
            begun.set()

    async def run() -> None:
        async with AsyncMemForest(folder, config()) as forest:
            task = asyncio.ensure_future(write(forest.user("u")))
            await begun.wait()
            await asyncio.sleep(wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await forest.user("u").add(said("I own a lute."), session_id="after")

    asyncio.run(run())
    with opened(folder) as forest:
        forest.resume("u")
        kept = shown(forest.user("u"))
        assert {f"s{at}" for at in done} | {"after"} <= set(kept)
        assert {len(turns) for name, turns in kept.items() if name != "after"} == {2}
        assert len(forest.user("u").list(limit=1000)) >= len(done)
        assert forest.user("u").verify().ok


def test_cancelled_deletes_and_corrections_are_done_or_not(world: Path) -> None:
    """A deletion that is cancelled has taken all or nothing."""

    async def run() -> None:
        async with AsyncMemForest(world, config()) as forest:
            task = asyncio.ensure_future(forest.user("anna").delete(session_id="april"))
            await asyncio.sleep(0.003)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    with opened(world) as forest:
        anna = forest.user("anna")
        assert len(shown(anna).get("april", "four")) == 4
        assert anna.verify(deleted=[] if "april" in shown(anna) else ["marmalade77"]).ok


def test_a_blocking_forest_works_inside_a_running_loop(folder: Path) -> None:
    """In a notebook there is a loop already."""

    async def run() -> str:
        with opened(folder) as forest:
            forest.user("u").add(said("I live in Turin."), session_id="s")
            return forest.user("u").ask("Where does Anna live?").answer or ""

    assert "Turin" in asyncio.run(run())


def test_errors_are_the_same(folder: Path) -> None:
    """Bad input and what is not there."""

    async def run() -> None:
        async with AsyncMemForest(folder, config()) as forest:
            with pytest.raises(InputError):
                await forest.user("u").add("")
            with pytest.raises(NotFoundError):
                await forest.user("u").get("f1:x")
            assert not await forest.list_users()

    asyncio.run(run())


def test_a_closed_forest_opens_again_at_its_next_use(folder: Path) -> None:
    """`close` is no end; a handle that was taken before goes on, and nothing is lost."""
    forest = opened(folder)
    memory = forest.user("u")
    memory.add(said("I live in Turin."), session_id="s")
    before = picture(memory)
    forest.close()
    assert picture(memory) == before
    forest.close()
