"""Verify finds what is wrong, repair mends what can be made anew, and no upkeep changes what was said."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import fact, files, holding, opened, picture, said, shown, statements, texts
from tests.doubles import CountingChat, local_reply

from memforest import Budget, MemForest, UserMemory
from memforest.errors import (
    EmbedderMismatchError,
    MemForestError,
    ModelUnavailableError,
    NotFoundError,
    SomeUsersFailedError,
)
from memforest.testing import FrozenClock, FunctionChat, HashEmbedder


def test_a_whole_memory_is_verified(read_anna: UserMemory) -> None:
    """No problems, it is true, and it says what was looked at."""
    report = read_anna.verify()
    assert report
    assert report.ok
    assert list(report) == []
    assert report.checked


def test_verify_finds_a_word_that_is_there(read_anna: UserMemory) -> None:
    """A text that should be gone and is not is a problem, in any case, and beside others that are gone."""
    assert not read_anna.verify(deleted=["marmalade77"]).ok
    assert not read_anna.verify(deleted=["nowhere-word", "MARMALADE77"]).ok
    assert read_anna.verify(deleted=["nowhere-word"]).ok


def _damaged(folder: Path) -> int:
    """Put other bytes over what was said in the files, and return how many places there were."""
    places = 0
    for name, raw in files(folder).items():
        places += raw.count(b"marmalade77")
        (folder / name).write_bytes(raw.replace(b"marmalade77", b"marmalade78"))
    return places


def test_a_turn_that_was_changed_on_the_disk_is_found(world: Path) -> None:
    """It is named, left out of evidence, never repaired by a guess, and healed by its session."""
    with opened(world) as forest:
        turns = [
            {"speaker": who, "timestamp": at, "content": text}
            for _, who, at, text in shown(forest.user("anna"))["april"]
        ]
    assert _damaged(world)
    with opened(world) as forest:
        memory = forest.user("anna")
        assert not memory.verify().ok
        assert [one.damaged for one in memory.turns("april")] == [False, False, False, True]
        assert "marmalade78" not in memory.search("What is the wifi password?", top_k=50).context(10_000)
        assert not memory.repair().ok
        forest.ingest_session("anna", "april", turns, replace=True)
        memory.repair()
        assert memory.verify().ok
        assert (
            memory.search("What is the wifi password?").evidence[0].quote
            == "The wifi password is marmalade77."
        )


def read_all(memory: UserMemory) -> None:
    """Read everything.

    Raises:
        MemForestError: if something cannot be read, or `verify` says that something is wrong.
    """
    for session in memory.sessions():
        memory.turns(session.session_id)
    memory.search("Where does Anna live?")
    if not memory.verify().ok:
        raise MemForestError("verify says so")


def test_a_torn_file_is_an_error_of_ours(world: Path) -> None:
    """Never a wrong answer: the file is named as damaged, and stays for whoever can save it."""
    [name] = [name for name, raw in files(world).items() if len(raw) > 50_000]
    raw = (world / name).read_bytes()
    for torn in (raw[:100], raw[: len(raw) // 2], b"\xff" * len(raw), raw[:4096] + b"\0" * (len(raw) - 4096)):
        (world / name).write_bytes(torn)
        with opened(world) as forest, pytest.raises(MemForestError):
            read_all(forest.user("anna"))
        assert (world / name).read_bytes() == torn


def test_a_lost_log_loses_no_closed_memory(world: Path, folder: Path) -> None:
    """A memory that was closed is whole in what is there; files of other programs beside it do not matter."""
    (world / "notes.txt").write_text("mine")
    (world / "other.db").write_bytes(b"SQLite format 3\0" + b"\0" * 100)
    with opened(world) as forest:
        assert forest.list_users() == ["anna"]
        assert len(statements(forest.user("anna"))) == 11
    assert (world / "notes.txt").read_text() == "mine"


def test_repair_of_a_whole_memory_changes_nothing(anna: UserMemory) -> None:
    """There is nothing to do, and everything is found as before."""
    before = picture(anna)
    assert anna.repair().ok
    assert picture(anna) == before


@pytest.mark.parametrize("options", [{}, {"stale": True}, {"index": "memforest"}])
def test_a_rebuild_finds_what_was_found(anna: UserMemory, options: dict[str, Any]) -> None:
    """Whatever is made anew, what is said, stated and found stays."""
    anna.forget(fact(anna, "dentist").fact_id)
    before = picture(anna)
    anna.rebuild(**options)
    assert picture(anna) == before
    assert anna.verify().ok


def test_another_embedder_is_refused_until_the_memory_has_it(world: Path) -> None:
    """The error names it, nothing is written; a rebuild changes over, and then the old one is the other."""
    with opened(world, embedder=HashEmbedder(32)) as forest:
        with pytest.raises(EmbedderMismatchError):
            forest.query("anna", "Where does Anna live?")
        with pytest.raises(EmbedderMismatchError):
            forest.user("anna").add("I own a kiln.")
        forest.user("anna").rebuild(embedder=True)
        assert (
            forest.query("anna", "Who works at Tannery Lane?").evidence[0].quote
            == "Milo works at Tannery Lane."
        )
        assert forest.user("anna").verify().ok
        assert len(statements(forest.user("anna"))) == 11
    with opened(world) as forest, pytest.raises(EmbedderMismatchError):
        forest.query("anna", "Where does Anna live?")


def test_resume_finishes_what_failed(folder: Path) -> None:
    """Chunks that a model did not read are read, once, and what it makes is what it would have made at once."""
    broken = [True]

    def reply(request: Any) -> str:
        if broken[0]:
            raise ModelUnavailableError("down")
        return local_reply(request)

    with (
        opened(folder / "a", chat=FunctionChat(reply)) as a,
        opened(folder / "b", chat=FunctionChat(local_reply)) as b,
    ):
        talk = said("I live in Turin.", "I own a kiln.", "I moved to Oslo.")
        a.ingest_session("u", "s", talk)
        b.ingest_session("u", "s", talk)
        assert a.user("u").stats().failed_chunks
        broken[0] = False
        a.resume("u")
        assert a.user("u").stats().failed_chunks == 0
        assert statements(a.user("u")) == statements(b.user("u"))
        assert a.user("u").verify().ok
        again = CountingChat(reply)
    with opened(folder / "a", chat=again) as a:
        a.resume("u")
        assert not again.calls


def test_resume_of_nothing_does_nothing(anna: UserMemory, woods: MemForest) -> None:
    """Of one user, of all, and again."""
    before = picture(anna)
    assert woods.resume("anna") == woods.resume() == []
    assert picture(anna) == before
    with pytest.raises(NotFoundError):
        woods.resume("nobody")


def test_flush_makes_what_is_left(folder: Path) -> None:
    """Summaries that writes have left are made, and then none is left; a budget of nothing leaves them."""
    with opened(folder, chat=FunctionChat(local_reply)) as forest:
        memory = forest.user("u")
        memory.add(said(*(f"I own kiln {at}." for at in range(9))), session_id="s")
        assert memory.flush(budget=Budget(max_calls=0)).nodes_dirty == memory.stats().dirty_nodes
        done = memory.flush()
        assert done.nodes_dirty == memory.stats().dirty_nodes == 0
        assert memory.flush().nodes_refreshed == 0


def test_retention_takes_what_is_too_old(world: Path) -> None:
    """By the clock, from when it was said; a dry run counts, and what is younger stays."""
    clock = FrozenClock("2024-06-01T12:00:00+00:00")
    with opened(world, clock, retention="60 days") as forest:
        memory = forest.user("anna")
        assert memory.expire(dry_run=True).gone["turns"] == 4
        assert len(memory.sessions()) == 3
        assert memory.expire().gone["turns"] == 4
        assert [one.session_id for one in memory.sessions()] == ["april", "may"]
        assert not memory.expire()
        clock.advance(days=30)
        assert memory.add("I own a kiln.").warnings
        assert "april" not in shown(memory)
        assert holding(memory.list(), "kiln")
        assert memory.verify().ok


def test_retention_is_measured_in_time_said(folder: Path) -> None:
    """Old talk that comes late goes too; the setting takes days, weeks, and a timedelta."""
    for retention in ("30 days", "4 weeks", timedelta(days=30)):
        with opened(folder / str(retention).replace(":", ""), retention=retention) as forest:
            memory = forest.user("u")
            memory.add(said("I own a kiln.", start="2024-05-30T10:00:00+00:00"), session_id="new")
            memory.add(said("I own a loom.", start="2023-05-30T10:00:00+00:00"), session_id="old")
            memory.expire()
            assert texts(memory.list()) == ["I own a kiln."]


def test_one_damaged_memory_stops_no_other(world: Path) -> None:
    """Upkeep of all users does the others, and names the one that failed."""
    with opened(world) as forest:
        forest.user("ben").add(said("I live in Porto.", speaker="Ben"), session_id="s")
    damaged = max(files(world).items(), key=lambda one: one[1].count(b"Ghent"))[0]
    (world / damaged).write_bytes(b"no memory at all" * 1000)
    with opened(world) as forest:
        assert forest.list_users() == ["ben"]
        assert len(forest.survey().unreadable) == 1
        with pytest.raises(SomeUsersFailedError):
            forest.resume()
        assert holding(forest.user("ben").list(), "Porto")
