"""Several processes on one directory, and one that is killed: nothing acknowledged is lost, nothing is half."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from tests.contract.children import deletes, deletes_user, started, writes
from tests.contract.talk import found_in_files, opened, said, shown, texts

from memforest.errors import StoreReplacedError

pytestmark = pytest.mark.timeout(120)


def test_a_reader_sees_what_another_process_wrote(folder: Path) -> None:
    """At its next call, without opening anew; both are whole behind it."""
    with opened(folder) as forest:
        forest.user("u").add(said("I own a kiln."), session_id="mine")
        with started(writes, folder, 6) as writer:
            for at in range(6):
                assert writer.told() == at
                assert f"I own loom {at}." in forest.query("u", f"loom {at}", top_k=30).context(10_000)
            assert writer.ended() == 0
        assert len(forest.user("u").sessions()) == 3
        assert forest.user("u").verify().ok


def test_two_writers_lose_nothing(folder: Path) -> None:
    """Each write of either is there once, in its session, and the memory is whole."""
    with opened(folder) as forest, started(writes, folder, 12) as writer:
        assert writer.told() == 0
        for at in range(12):
            turn = {"speaker": "Al", "content": f"I own kiln {at}.", "id": f"a{at}"}
            forest.user("u").add(turn, session_id=f"b{at // 4}")
        assert [writer.told() for _ in range(11)] == list(range(1, 12))
        assert writer.ended() == 0
    with opened(folder) as forest:
        kept = sorted(text for turns in shown(forest.user("u")).values() for *_, text in turns)
        mine, theirs = ("I own kiln {}.", "I own loom {0}. I like song {0}.")
        assert kept == sorted(one.format(at) for one in (mine, theirs) for at in range(12))
        assert forest.user("u").verify().ok


@pytest.mark.parametrize("seed", range(3))
def test_a_writer_that_is_killed_loses_nothing_acknowledged(folder: Path, seed: int) -> None:
    """What it told of is there; what it was at is there as a whole or not at all; the memory goes on."""
    random = Random(f"kill {seed}")
    with started(writes, folder, 1000) as writer:
        last = [writer.told() for _ in range(random.randint(1, 12))][-1]
        time.sleep(random.random() / 20)
        last = [last, *writer.kill()][-1]
    with opened(folder) as forest:
        forest.resume("u")
        memory = forest.user("u")
        kept = {turn[0] for turns in shown(memory).values() for turn in turns}
        assert kept in ({f"b{at}" for at in range(last + 1)}, {f"b{at}" for at in range(last + 2)})
        assert memory.verify().ok
        assert f"I own loom {last}." in memory.search(f"loom {last}", top_k=50).context(10_000)
        turn = {"speaker": "Bo", "content": f"I own loom {last}. I like song {last}.", "id": f"b{last}"}
        assert memory.add(turn, session_id=f"b{last // 4}").unchanged


@pytest.mark.parametrize("moment", ["begun", "done"])
def test_a_deletion_that_is_killed_is_done_or_not_begun(world: Path, moment: str) -> None:
    """Acknowledged, no byte is left though the process was killed; else all is there, and can be deleted."""
    with started(deletes, world, "april") as process:
        assert process.told() == "begun"
        if moment == "done":
            assert process.told() == "done"
        else:
            time.sleep(0.005)
        process.kill()
    if moment == "done":
        assert not found_in_files(world, "marmalade77")
    with opened(world) as forest:
        memory = forest.user("anna")
        forest.resume("anna")
        if "april" in shown(memory):
            assert moment != "done"
            assert len(memory.turns("april")) == 4
            memory.delete(session_id="april")
        assert memory.verify(deleted=["marmalade77", "Okafor"]).ok
    assert not found_in_files(world, "marmalade77")


def test_a_memory_that_another_process_deletes(world: Path) -> None:
    """The next call gives what is there now, or says that it was replaced; never what is gone; and a new one begins."""
    with opened(world) as forest:
        memory = forest.user("anna")
        assert len(memory.sessions()) == 3
        with started(deletes_user, world, "I live in Porto.") as process:
            assert process.told() == "done"
        try:
            seen = texts(memory.list())
        except StoreReplacedError:
            seen = texts(memory.list())
        assert seen == ["I live in Porto."]
        memory.add(said("I own a kiln."), session_id="s")
        assert len(memory.sessions()) == 2
        assert memory.verify().ok
