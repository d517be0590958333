"""Deferred writes: sessions that are received and no more, until `resume` makes memory of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.worlds import differences, dump, eager_config, fast_config, file_of, make_sessions, rows, said

from memforest import AsyncMemForest, IngestResult, InputError, MemForest, SessionConflictError
from memforest.errors import IdempotencyError, ModelRefusedError, ModelUnavailableError
from memforest.ports import ChatRequest
from memforest.testing import FunctionChat
from memforest.write import batch

MOVES = said("I live in Davis.", "I work at Acme.", "I moved to Miami.")


def never(_request: ChatRequest) -> str:
    """Fail: nobody is to be asked."""
    raise AssertionError("a model was asked")


def requests(count: int = 4, user: str = "u") -> list[dict[str, Any]]:
    """Return requests for as many sessions."""
    return [
        {"user_id": user, "session_id": name, "turns": turns}
        for name, turns in make_sessions(11, sessions=count, short_forms=False)
    ]


@pytest.mark.parametrize("chat", [None, FunctionChat(never)])
def test_a_deferred_session_is_stored_and_found_and_no_more(tmp_path: Path, chat: Any) -> None:
    """By its words, also by another process; no model is asked, nothing is extracted, embedded or summarised."""
    with MemForest(tmp_path, fast_config(chunk_turns=2, chat=chat)) as forest:
        result = forest.ingest_session("u", "s", MOVES, defer=True)
        assert (result.deferred, result.turns_added, result.unchanged) == (True, 3, False)
        assert [(one.turn_ids, one.status) for one in result.left] == [(("0", "1"), "left"), (("2",), "left")]
        assert result.added == ()
        assert not result.usage.steps
        assert not result.warnings
        stats = forest.user("u").stats()
        assert (stats.sessions, stats.turns, stats.facts, stats.unfinished) == (1, 3, 0, 1)
        assert forest.user("u").verify().ok
        assert sum(stats.vectors.values()) == 0
        assert rows(file_of(tmp_path), "SELECT 1 FROM artifact") == []
    with MemForest(tmp_path, fast_config(chunk_turns=2)) as forest:
        assert "I work at Acme." in [one.quote for one in forest.query("u", "Acme").evidence]


@pytest.mark.parametrize("chat", [None, FunctionChat(local_reply)])
def test_resume_makes_just_what_the_write_would_have_made(tmp_path: Path, chat: Any) -> None:
    """Of one session after the other, and of many at once; a second `resume` finds nothing."""
    config = eager_config(chunk_turns=2, chat=chat)
    with MemForest(tmp_path / "a", config) as forest:
        made = forest.ingest_parallel(requests())
        forest.flush()
    with MemForest(tmp_path / "b", config) as forest:
        for one in forest.ingest_parallel(requests()[:2], defer=True):
            assert not isinstance(one, Exception)
            assert one.deferred
        for request in requests()[2:]:
            forest.ingest_session(**request, defer=True)
        finished = forest.resume("u")
        assert [one.session_id for one in finished] == [request["session_id"] for request in requests()]
        assert not any(one.deferred or one.left for one in finished)
        told = [{*one.added, *one.merged} for one in finished]
        assert told == [{*one.added, *one.merged} for one in made if not isinstance(one, Exception)]
        forest.flush()
        assert forest.resume("u") == []
    assert differences(dump(file_of(tmp_path / "a")), dump(file_of(tmp_path / "b"))) == {}


def test_many_sessions_are_read_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model has read of one group is written before the next is begun, so that a crash costs no more."""
    asked: list[int] = []
    stored: list[int] = []

    def answer(request: ChatRequest) -> str:
        if request.step == "extract":
            asked.append(len(stored))
        return local_reply(request)

    monkeypatch.setattr(batch, "MOST_TURNS_AT_ONCE", 2)
    with MemForest(tmp_path, fast_config(chat=FunctionChat(answer))) as forest:
        forest.ingest_parallel(
            [
                {"user_id": "u", "session_id": str(n), "turns": said("I live in Oslo.", day=n + 1)}
                for n in range(6)
            ],
            defer=True,
        )
        forest.resume("u", on_progress=lambda one: stored.append(1) if one.stage == "finished" else None)
    assert asked == [0, 0, 2, 2, 4, 4]


def test_the_same_session_twice_changes_nothing(tmp_path: Path) -> None:
    """Deferred again it is as it was, and its chunks are still left; when it is finished, there is nothing left."""
    with MemForest(tmp_path, fast_config()) as forest:
        first = forest.ingest_session("u", "s", MOVES, defer=True)
        before = dump(file_of(tmp_path))
        again = forest.ingest_session("u", "s", MOVES, defer=True)
        assert dump(file_of(tmp_path)) == before
        assert (again.unchanged, again.deferred, again.left) == (True, True, first.left)
        forest.resume("u")
        before = dump(file_of(tmp_path))
        again = forest.ingest_session("u", "s", MOVES, defer=True)
        assert (again.unchanged, again.deferred, again.chunks) == (True, True, ())
        assert dump(file_of(tmp_path)) == before


def test_the_same_session_without_it_is_finished(tmp_path: Path) -> None:
    """As one that a crash has interrupted."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES, defer=True)
        result = forest.ingest_session("u", "s", MOVES)
        assert (result.turns_added, len(result.added), result.deferred) == (0, 3, False)
        assert forest.user("u").stats().unfinished == 0


def test_a_longer_one_adds_and_another_one_conflicts(tmp_path: Path) -> None:
    """Both as without it; one that is overwritten is gone from the files at once."""
    with MemForest(tmp_path, fast_config(chunk_turns=2)) as forest:
        forest.ingest_session("u", "s", MOVES[:1])
        longer = forest.ingest_session("u", "s", MOVES, defer=True)
        assert (longer.turns_added, [one.turn_ids for one in longer.left]) == (2, [("0", "1"), ("2",)])
        with pytest.raises(SessionConflictError):
            forest.ingest_session("u", "s", said("I live in Quito."), defer=True)
        [error] = forest.ingest_parallel(
            [{"user_id": "u", "session_id": "s", "turns": MOVES[1:]}], defer=True
        )
        assert isinstance(error, SessionConflictError)
        other = forest.ingest_session("u", "s", said("I live in Quito."), defer=True, replace=True)
        assert (other.replaced, len(other.left)) == (True, 1)
        assert forest.user("u").verify(deleted=["Miami", "Davis"]).ok
        forest.resume("u")
        assert [one.statement for one in forest.user("u").list()] == ['Ana: "I live in Quito."']


def test_turns_may_be_added_to_one(tmp_path: Path) -> None:
    """The write that adds reads the whole of it."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES[:2], defer=True)
        result = forest.user("u").add(MOVES[2], session_id="s")
        assert (result.turns_added, len(result.added)) == (1, 3)
        assert forest.user("u").stats().unfinished == 0


def test_a_key_is_kept_with_it(tmp_path: Path) -> None:
    """A call that comes again with it is the same write, deferred or not: what is left it finishes only if it is not."""
    with MemForest(tmp_path, fast_config()) as forest:
        first = forest.ingest_session("u", "s", MOVES, defer=True, idempotency_key="k")
        again = forest.ingest_session("u", "s", MOVES, defer=True, idempotency_key="k")
        assert (again.replayed, again.deferred, again.left) == (True, True, first.left)
        with pytest.raises(IdempotencyError):
            forest.ingest_session("u", "s", MOVES[:1], defer=True, idempotency_key="k")
        last = forest.ingest_session("u", "s", MOVES, idempotency_key="k")
        assert (last.replayed, len(last.added), last.left, last.turns_added) == (True, 3, (), 3)


def test_verbatim_sessions_are_deferred_too(tmp_path: Path) -> None:
    """And stay verbatim."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES, infer=False, defer=True)
        [result] = forest.resume("u")
        assert {one.status for one in result.chunks} == {"verbatim"}


def test_it_puts_off_what_refresh_asks_for(tmp_path: Path) -> None:
    """Both at once is a mistake, and stores nothing; without a refresh is what it is."""
    with MemForest(tmp_path, fast_config()) as forest:
        with pytest.raises(InputError):
            forest.ingest_session("u", "s", MOVES, defer=True, refresh=True)
        with pytest.raises(InputError):
            forest.ingest_parallel(requests(), defer=True, refresh=True)
        assert forest.list_users() == []
        assert forest.ingest_session("u", "s", MOVES, defer=True, refresh=False).deferred


def test_what_cannot_be_stored_is_told_at_once(tmp_path: Path) -> None:
    """Nothing is put off that the caller has to mend; the others are stored."""
    bad = {"user_id": "u", "session_id": "bad", "turns": [{"role": "user", "content": "When?"}]}
    with MemForest(tmp_path, fast_config()) as forest:
        found = forest.ingest_parallel([*requests(2), bad, {"user_id": "v"}], defer=True)
        assert [isinstance(one, InputError) for one in found] == [False, False, True, True]
        assert forest.list_users() == ["u"]
        assert forest.user("u").stats().unfinished == 2


def test_the_policy_makes_no_summaries_for_it(tmp_path: Path) -> None:
    """They are made by the write that makes memory of it."""
    with MemForest(tmp_path, fast_config(refresh="path")) as forest:
        assert forest.ingest_session("u", "s", MOVES).nodes_refreshed > 0
        assert forest.user("u").stats().dirty_nodes == 0
        assert forest.ingest_session("u", "t", MOVES, defer=True).nodes_refreshed == 0
        assert forest.user("u").stats().dirty_nodes > 0
        [done] = forest.resume("u")
        assert done.nodes_refreshed > 0
        assert forest.user("u").stats().dirty_nodes == 0


def test_two_calls_of_resume_do_the_work_once(tmp_path: Path) -> None:
    """The second waits for the first, and asks nobody for what that one is at work on."""
    asked: list[str] = []

    async def answer(request: ChatRequest) -> str:
        asked.append(request.step)
        await asyncio.sleep(0.01)
        return local_reply(request)

    async def twice() -> tuple[int, list[int]]:
        async with AsyncMemForest(tmp_path, fast_config(chat=FunctionChat(answer))) as forest:
            deferred = await forest.ingest_parallel(requests(), defer=True)
            assert asked == []
            found = await asyncio.gather(forest.resume("u"), forest.resume("u"))
            chunks = sum(len(one.left) for one in deferred if not isinstance(one, Exception))
            return chunks, sorted(len(one) for one in found)

    chunks, finished = asyncio.run(twice())
    assert finished == [0, 4]
    assert asked.count("extract") == chunks


@pytest.mark.parametrize("verb", ["ingest_session", "add"])
def test_resume_leaves_to_a_write_what_that_is_at_work_on(tmp_path: Path, verb: str) -> None:
    """It asks nobody for it; when the write has failed, it is left like any other."""
    asked: list[str] = []

    async def both() -> None:
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request: ChatRequest) -> str:
            asked.append(request.step)
            reached.set()
            await go_on.wait()
            return local_reply(request)

        async with AsyncMemForest(tmp_path, fast_config(chunk_turns=3, chat=FunctionChat(answer))) as forest:

            def write() -> asyncio.Future[IngestResult]:
                if verb == "add":
                    return asyncio.ensure_future(forest.user("u").add(MOVES, session_id="s"))
                return asyncio.ensure_future(forest.ingest_session("u", "s", MOVES))

            first = write()
            await reached.wait()
            assert await asyncio.wait_for(forest.resume("u"), 30) == []
            assert asked == ["extract"]
            first.cancel()
            await asyncio.wait([first])
            go_on.set()
            assert [len(one.added) for one in await forest.resume("u")] == [3]

    asyncio.run(both())


def test_a_resume_that_fails_leaves_them(tmp_path: Path) -> None:
    """With all their words, whether a model is away or cannot be used at all; the next one goes on."""
    replies: list[Exception] = [ModelRefusedError("no such key"), ModelUnavailableError("away")]

    def answer(request: ChatRequest) -> str:
        if replies:
            raise replies[0]
        return local_reply(request)

    with MemForest(tmp_path, fast_config(chunk_turns=3, chat=FunctionChat(answer))) as forest:
        forest.ingest_session("u", "s", MOVES, defer=True)
        with pytest.raises(ModelRefusedError, match="resume"):
            forest.resume("u")
        assert forest.user("u").stats().unfinished == 1
        del replies[0]
        assert forest.resume("u")[0].failed
        assert "I work at Acme." in [one.quote for one in forest.query("u", "Acme").evidence]
        replies.clear()
        assert len(forest.resume("u")[0].added) == 3
        assert forest.user("u").verify().ok
