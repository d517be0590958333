"""The progress hook: what a write tells of itself, on which thread, outside of transactions, and what ends with it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.worlds import differences, dump, eager_config, fast_config, file_of, said

from memforest import AsyncMemForest, Budget, IngestProgress, InputError, MemForest, SessionConflictError
from memforest.errors import ModelUnavailableError, SomeUsersFailedError
from memforest.ports import ChatRequest
from memforest.reading.extract_local import LocalExtractor
from memforest.testing import FunctionChat
from memforest.write import extract

MOVES = said("I live in Davis.", "I work at Acme.", "I moved to Miami.")


class Heard(list[IngestProgress]):
    """A hook that keeps what it is told."""

    def __call__(self, progress: IngestProgress) -> None:
        """Keep it."""
        self.append(progress)

    def stages(self) -> list[str]:
        """Return the stages, each once in a row."""
        return [
            one.stage
            for before, one in zip([None, *self], self, strict=False)
            if not before or before.stage != one.stage
        ]

    def of(self, stage: str, **only: Any) -> list[tuple[int, int, int]]:
        """Return the counts of a stage."""
        return [
            (one.done, one.failed, one.total)
            for one in self
            if one.stage == stage and all(getattr(one, name) == value for name, value in only.items())
        ]


@pytest.fixture
def heard() -> Heard:
    """A hook that keeps what it is told."""
    return Heard()


def test_a_session_tells_its_turns_chunks_summaries_and_end(tmp_path: Path, heard: Heard) -> None:
    """In that order, with counts that only grow; the summaries are the memory's, so they name no session."""
    with MemForest(tmp_path, eager_config(chunk_turns=1)) as forest:
        result = forest.ingest_session(
            "u", "s", [*MOVES, {"role": "user"}], timestamp="2023-06-01", on_progress=heard
        )
    assert heard.stages() == ["received", "extracted", "refreshed", "finished"]
    assert heard.of("received") == [(3, 1, 4)]  # one has no text
    assert heard.of("extracted") == [(0, 0, 3), (3, 0, 3)]
    assert heard.of("refreshed")[0] == (0, 0, result.nodes_refreshed)
    assert heard.of("refreshed")[-1] == (result.nodes_refreshed, 0, result.nodes_refreshed)
    assert heard.of("refreshed") == sorted(heard.of("refreshed"))
    assert heard.of("finished") == [(1, 0, 1)]
    assert {(one.user_id, one.session_id) for one in heard if one.stage != "refreshed"} == {("u", "s")}
    assert {one.session_id for one in heard if one.stage == "refreshed"} == {None}


def test_what_is_stored_already_is_received_and_read_no_more(tmp_path: Path, heard: Heard) -> None:
    """The same again has no chunks; of a longer one the new turns' chunks alone are counted."""
    with MemForest(tmp_path, fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("u", "s", MOVES[:2])
        forest.ingest_session("u", "s", MOVES[:2], on_progress=heard)
        assert [(one.stage, one.done, one.total) for one in heard] == [("received", 2, 2), ("finished", 1, 1)]
        heard.clear()
        forest.ingest_session("u", "s", MOVES, on_progress=heard)
        assert (heard.of("received"), heard.of("extracted")) == ([(3, 0, 3)], [(0, 0, 1), (1, 0, 1)])
        heard.clear()
        forest.user("u").add("I have a dog.", session_id="s", on_progress=heard)
        assert (heard.of("received"), heard.of("finished")) == ([(1, 0, 1)], [(1, 0, 1)])


def test_a_long_session_tells_on_its_way(tmp_path: Path, heard: Heard) -> None:
    """Also where rules read it, and nothing of what is extracted depends on it."""
    turns = said(*(f"I have {number} dogs." for number in range(2, 12)))
    with MemForest(tmp_path / "whole", fast_config(chunk_turns=2)) as forest:
        forest.ingest_session("u", "s", turns)
    with (
        mock.patch.object(extract, "READ_CHUNKS", 2),
        MemForest(tmp_path / "parts", fast_config(chunk_turns=2)) as forest,
    ):
        forest.ingest_session("u", "s", turns, on_progress=heard)
    assert heard.of("extracted") == [(0, 0, 5), (2, 0, 5), (4, 0, 5), (5, 0, 5)]
    assert differences(dump(file_of(tmp_path / "whole")), dump(file_of(tmp_path / "parts"))) == {}


def unreadable(request: ChatRequest) -> str:
    """Answer, but for the chunk that speaks of Miami."""
    if request.step == "extract" and "Miami" in request.messages[-1].content:
        raise ModelUnavailableError("the model is away")
    return local_reply(request)


def test_failed_chunks_are_counted_and_resume_counts_them_again(tmp_path: Path, heard: Heard) -> None:
    """A chunk that fails is told as such; `resume` has no more to tell than of it."""
    model = {"reply": unreadable}
    config = fast_config(chunk_turns=1, chat=FunctionChat(lambda request: model["reply"](request)))
    with MemForest(tmp_path, config) as forest:
        result = forest.ingest_session("u", "s", MOVES, on_progress=heard)
        assert len(result.failed) == 1
        assert heard.of("extracted")[-1] == (2, 1, 3)
        read = [done + failed for done, failed, _ in heard.of("extracted")]
        assert read == sorted(set(read))
        assert (read[0], read[-1]) == (0, 3)
        model["reply"] = local_reply
        heard.clear()
        assert not forest.resume("u", on_progress=heard)[0].failed
    assert heard.of("received") == []
    assert heard.of("extracted") == [(0, 0, 1), (1, 0, 1)]
    assert heard.of("refreshed")[-1][0] == heard.of("refreshed")[-1][2] > 0
    assert heard[-1] == IngestProgress("finished", "u", "s", 1, 0, 1)


def test_what_the_budget_does_not_reach_is_neither_done_nor_failed(tmp_path: Path, heard: Heard) -> None:
    """The counts end below the total."""
    with MemForest(tmp_path, fast_config(chunk_turns=1, chat=FunctionChat(local_reply))) as forest:
        result = forest.ingest_session("u", "s", MOVES, budget=Budget(max_calls=1), on_progress=heard)
    assert len(result.left) == 2
    assert heard.of("extracted")[-1] == (1, 0, 3)


def test_sessions_of_many_users_tell_of_themselves(tmp_path: Path, heard: Heard) -> None:
    """Each session of each user ends once; one that conflicts has failed, and is told so when it is known."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("b", "1", MOVES)
        requests: list[dict[str, Any]] = [
            {
                "user_id": user,
                "session_id": str(number),
                "turns": said(f"I have {number} cats.", day=number + 2),
            }
            for user in ("a", "b")
            for number in range(3)
        ]
        results = forest.ingest_parallel(requests, on_progress=heard)
    assert [isinstance(one, SessionConflictError) for one in results] == [False] * 4 + [True, False]
    ended = {(one.user_id, one.session_id): one.failed for one in heard if one.stage == "finished"}
    assert ended == {(user, str(n)): int((user, n) == ("b", 1)) for user in ("a", "b") for n in range(3)}
    assert len(heard.of("finished")) == 6
    assert ("b", "1") not in {(one.user_id, one.session_id) for one in heard if one.stage == "received"}


@pytest.mark.parametrize("chat", [None, FunctionChat(local_reply)])
def test_no_transaction_is_open_meanwhile(tmp_path: Path, chat: Any) -> None:
    """Another connection may write at once, at every call of the hook."""
    heard: list[str] = []

    def write(progress: IngestProgress) -> None:
        other = sqlite3.connect(file_of(tmp_path), timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE meta SET value = value WHERE key = 'generation'")
            other.execute("COMMIT")
        finally:
            other.close()
        heard.append(progress.stage)

    with MemForest(tmp_path, eager_config(chunk_turns=1, chat=chat)) as forest:
        forest.ingest_session("u", "s", MOVES, on_progress=write)
        forest.ingest_session(
            "u", "s", said("I have a dog.", "I live in Oslo."), replace=True, on_progress=write
        )
        forest.ingest_session("u", "t", MOVES, defer=True, on_progress=write)
        forest.user("u").add("I have a cat.", session_id="s", on_progress=write)
        forest.resume("u", on_progress=write)
    assert set(heard) == {"received", "extracted", "refreshed", "finished"}


def test_it_is_called_on_the_loop_of_the_call(tmp_path: Path) -> None:
    """In the thread of the caller's loop; of the blocking twin in that of its own loop, whoever calls."""
    threads: set[str] = set()

    def note(_progress: IngestProgress) -> None:
        asyncio.get_running_loop()  # raises in a worker thread
        threads.add(threading.current_thread().name)

    async def write() -> None:
        async with AsyncMemForest(tmp_path / "a", eager_config()) as forest:
            await forest.ingest_session("u", "s", MOVES, on_progress=note)
            await forest.user("u").add("I have a cat.", on_progress=note)
            await forest.resume("u", on_progress=note)

    asyncio.run(write())
    assert threads == {threading.current_thread().name}
    threads.clear()
    with MemForest(tmp_path / "b", eager_config()) as blocking:
        blocking.ingest_session("u", "s", MOVES, on_progress=note)
    assert threads == {"memforest-portal"}


def test_calls_of_several_threads_are_told_of_apart(tmp_path: Path) -> None:
    """Each hook hears of its own session, although all are of one memory."""
    hooks = {f"s{number}": Heard() for number in range(4)}

    with MemForest(tmp_path, fast_config(chunk_turns=1)) as forest:
        forest.register_user("u")
        threads = [
            threading.Thread(
                target=forest.ingest_session,
                args=("u", name, said("I live in Oslo.", f"I have {name} cats.", day=at + 1)),
                kwargs={"on_progress": hook},
            )
            for at, (name, hook) in enumerate(hooks.items())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name, hook in hooks.items():
        assert {one.session_id for one in hook} == {name}
        assert hook.stages() == ["received", "extracted", "finished"]


def test_a_blocking_call_inside_is_refused(tmp_path: Path) -> None:
    """It would wait for the loop that waits for the hook."""
    with MemForest(tmp_path, fast_config()) as forest:
        with pytest.raises(RuntimeError, match="inside memforest's own loop"):
            forest.ingest_session("u", "s", MOVES, on_progress=lambda _: forest.user("u").stats())
        assert forest.user("u").verify().ok


class Stop(Exception):
    """What a caller's own hook raises."""


def raising(stage: str, error: Exception) -> Callable[[IngestProgress], None]:
    """Return a hook that raises when it hears of a stage."""

    def hook(progress: IngestProgress) -> None:
        if progress.stage == stage:
            raise error

    return hook


def undisturbed(folder: Path, chat: Any) -> Any:
    """Return what a memory is without any hook."""
    with MemForest(folder, eager_config(chunk_turns=1, chat=chat)) as forest:
        forest.ingest_session("u", "s", MOVES)
        forest.flush()
    return dump(file_of(folder))


@pytest.mark.parametrize("chat", [None, FunctionChat(local_reply)])
@pytest.mark.parametrize("stage", ["received", "extracted", "refreshed", "finished"])
@pytest.mark.parametrize(
    "error", [Stop("enough"), InputError("of the hook"), ModelUnavailableError("of the hook")]
)
def test_what_it_raises_ends_the_call_and_resume_goes_on(
    tmp_path: Path, chat: Any, stage: str, error: Exception
) -> None:
    """As it was raised, also if it is of our own kinds of error: it is no failure of a chunk, a summary or the session."""
    with MemForest(tmp_path / "a", eager_config(chunk_turns=1, chat=chat)) as forest:
        with pytest.raises(type(error)) as raised:
            forest.ingest_session("u", "s", MOVES, on_progress=raising(stage, error))
        assert raised.value is error
        assert error.__context__ is None
        assert forest.user("u").verify().ok
        assert [turn.text for turn in forest.user("u").turns("s")] == [turn["content"] for turn in MOVES]
        forest.resume("u")
        forest.flush()
    assert differences(dump(file_of(tmp_path / "a")), undisturbed(tmp_path / "b", chat)) == {}


@pytest.mark.parametrize("error", [Stop("enough"), InputError("of the hook")])
def test_it_is_no_result_of_several(tmp_path: Path, error: Exception) -> None:
    """Neither among the results of `ingest_parallel`, nor as one user's failure in `resume`; nor is it lost in `add`."""
    requests = [{"user_id": user, "session_id": "s", "turns": MOVES} for user in ("a", "b")]
    with MemForest(tmp_path, eager_config()) as forest:
        with pytest.raises(type(error)) as raised:
            forest.ingest_parallel(requests, on_progress=raising("received", error))
        assert raised.value is error
        with pytest.raises(type(error)) as raised:
            forest.resume(on_progress=raising("extracted", error))
        assert raised.value is error
        with suppress(SomeUsersFailedError):  # that it is none is what the line above says
            forest.resume()
        with pytest.raises(type(error)) as raised:
            forest.user("a").add("I have a dog.", on_progress=raising("extracted", error))
        assert raised.value is error
        forest.resume()
        assert forest.user("a").stats().unfinished == 0


def test_what_was_overwritten_is_gone_although_it_raised(tmp_path: Path) -> None:
    """The log that held it is emptied when the memory is closed."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("My code is heliotrope."))
        with pytest.raises(Stop):
            forest.ingest_session(
                "u", "s", said("My code is none."), replace=True, on_progress=raising("received", Stop())
            )
    with MemForest(tmp_path, fast_config()) as forest:
        forest.resume("u")
        assert forest.user("u").verify(deleted=["heliotrope"]).ok


def test_a_call_that_is_cancelled_tells_nothing_more(tmp_path: Path, heard: Heard) -> None:
    """And leaves what `resume` finishes."""

    async def cancelled() -> int:
        reached = asyncio.Event()

        async def wait(_request: ChatRequest) -> str:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with AsyncMemForest(tmp_path, fast_config(chat=FunctionChat(wait))) as forest:
            task = asyncio.ensure_future(forest.ingest_session("u", "s", MOVES, on_progress=heard))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await forest.user("u").stats()).unfinished

    assert asyncio.run(cancelled()) == 1
    assert heard.stages() == ["received", "extracted"]
    assert heard.of("extracted") == [(0, 0, 2)]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[MemForest]:
    """Two memories whose sessions were received, and no more, as the extractor was away."""
    away = mock.patch.object(LocalExtractor, "extract", side_effect=ModelUnavailableError("away"))
    with MemForest(tmp_path, eager_config()) as forest:
        with away:
            for user in ("a", "b"):
                for number in range(2):
                    with pytest.raises(ModelUnavailableError):
                        forest.ingest_session(
                            user, str(number), said(f"I have {number + 2} cats.", day=number + 1)
                        )
        yield forest


def test_resume_tells_of_every_session_that_it_finishes(held: MemForest, heard: Heard) -> None:
    """Of all users, whose names are told; a second time there is nothing to tell."""
    held.resume(on_progress=heard)
    ended = [(one.user_id, one.session_id, one.done) for one in heard if one.stage == "finished"]
    assert sorted(ended) == [(user, number, 1) for user in ("a", "b") for number in ("0", "1")]
    for user in ("a", "b"):
        assert heard.of("refreshed", user_id=user)[-1][0] > 0
    heard.clear()
    held.resume(on_progress=heard)
    assert heard == []


def test_an_import_tells_first_how_much_there_is(tmp_path: Path, heard: Heard) -> None:
    """Then what each of its sessions tells; a dry run tells nothing."""
    log = tmp_path / "chat.json"
    log.write_text(
        '[{"role": "user", "content": "I live in Oslo.", "timestamp": "2024-01-01"}]', encoding="utf-8"
    )
    with MemForest(tmp_path / "memory", fast_config()) as forest:
        forest.import_file("u", log, dry_run=True, on_progress=heard)
        assert heard == []
        forest.import_file("u", log, on_progress=heard)
        assert heard[0] == IngestProgress("received", "u", None, 1, 0, 1)
        assert heard.stages() == ["received", "extracted", "finished"]
        with pytest.raises(InputError):
            forest.user("u").import_file(log, on_progress=raising("finished", InputError("of the hook")))


def test_progress_is_a_result_like_others() -> None:
    """It prints in a line and serialises as it is."""
    one = IngestProgress("extracted", "u", "s", 2, 1, 5)
    assert repr(one) == "IngestProgress(extracted 2 of 5, 1 failed)"
    assert one.to_dict() == {
        "stage": "extracted", "user_id": "u", "session_id": "s", "done": 2, "failed": 1, "total": 5,
    }  # fmt: skip
