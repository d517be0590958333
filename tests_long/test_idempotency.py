"""Writes with a key: one that comes again writes nothing, and returns what the first one did."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, rows, said

from memforest import AsyncMemForest, InputError, MemForest
from memforest.errors import IdempotencyError, ModelRefusedError
from memforest.read.results import IngestResult
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome
from memforest.testing import FrozenClock

MOVES = said("I live in Davis.", "I work at Acme.", "I moved to Miami.")


def told(result: IngestResult) -> tuple[Any, ...]:
    """Return what a result says, but for what the call has cost."""
    return (
        result.session_id,
        result.turns_added,
        sorted(result.added),
        sorted(result.merged),
        sorted(result.superseded),
        [(one.turn_ids, one.status, one.skipped) for one in result.chunks],
        result.refused,
        result.replaced,
        result.redacted,
    )


def test_a_session_that_comes_again_is_the_same_result(tmp_path: Path) -> None:
    """With all that it has added and superseded; nothing is written."""
    with MemForest(tmp_path, fast_config()) as forest:
        first = forest.ingest_session(
            "u", "s", [*MOVES, {"role": "user"}], timestamp="2023-05-02", idempotency_key="k"
        )
        before = dump(file_of(tmp_path))
        again = forest.ingest_session(
            "u", "s", [*MOVES, {"role": "user"}], timestamp="2023-05-02", idempotency_key="k"
        )
        assert (again.replayed, first.replayed) == (True, False)
        assert told(again) == told(first)
        assert (len(again.added), len(again.superseded), len(again.refused)) == (3, 1, 1)
        assert dump(file_of(tmp_path)) == before


def test_what_is_added_is_added_once(tmp_path: Path) -> None:
    """Also on the next day, when others have added something since; a key of its own adds it again."""
    clock = FrozenClock("2024-06-01T12:00:00Z")
    with MemForest(tmp_path, fast_config(clock=clock)) as forest:
        memory = forest.user("u")
        first = memory.add("I live in Davis.", idempotency_key="one")
        memory.add("I moved to Miami.", idempotency_key="two")
        clock.advance(days=1)
        again = memory.add("I live in Davis.", idempotency_key="one")
        assert (again.added, again.turns_added) == (first.added, 1)
        assert [(one.turn_ids, one.status) for one in again.chunks] == [
            (("0", "1"), "extracted")
        ]  # as it is cut now
        assert (again.session_id, memory.stats().turns) == ("live-2024-06-01", 2)
        third = memory.add("I live in Davis.", idempotency_key="three")
        assert (third.replayed, third.merged, memory.stats().turns) == (False, first.added, 3)
        assert told(memory.add("I live in Davis.", idempotency_key="three")) == told(third)


def test_a_chunk_that_was_read_again_is_not_told_twice(tmp_path: Path) -> None:
    """The second write cuts the first one's chunk anew; each is told what it has brought itself."""
    with MemForest(tmp_path, fast_config(clock=FrozenClock("2024-06-01T12:00:00Z"))) as forest:
        memory = forest.user("u")
        calls: list[tuple[str, str]] = [
            ("a", "I live in Davis."),
            ("b", "I work at Acme."),
            ("c", "I have a dog."),
        ]
        first = [memory.add(text, idempotency_key=key) for key, text in calls]
        again = [memory.add(text, idempotency_key=key) for key, text in calls]
        assert [one.added for one in again] == [one.added for one in first]
        assert [len(one.added) for one in again] == [1, 1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"session_id": "t"},
        {"turns": MOVES[:2]},
        {"turns": said("I live in Oslo.", "I work at Acme.", "I moved to Miami.")},
        {"infer": False},
        {"replace": True},
        {"metadata": {"a": 1}},
        {"timestamp": "2020-01-01"},
    ],
)
def test_a_key_is_for_one_request(tmp_path: Path, other: dict[str, Any]) -> None:
    """Anything else in the request is an error that names the key, and stores nothing; so is the other verb."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES, idempotency_key="the key")
        before = dump(file_of(tmp_path))
        request: dict[str, Any] = {"session_id": "s", "turns": MOVES, **other}
        with pytest.raises(IdempotencyError):
            forest.ingest_session("u", **request, idempotency_key="the key")
        with pytest.raises(InputError):
            forest.user("u").add(MOVES, session_id="s", idempotency_key="the key")
        [error] = forest.ingest_parallel([{"user_id": "u", **request, "idempotency_key": "the key"}])
        assert isinstance(error, IdempotencyError)
        assert dump(file_of(tmp_path)) == before
        assert forest.ingest_session("v", **request, idempotency_key="the key").replayed is False


@pytest.mark.parametrize("key", ["", " ", 7, "\0", "x" * 2000, "\ud800", b"k"])
def test_a_key_is_a_text(tmp_path: Path, key: Any) -> None:
    """Else nothing is stored."""
    with MemForest(tmp_path, fast_config()) as forest:
        with pytest.raises(InputError, match="idempotency_key"):
            forest.ingest_session("u", "s", MOVES, idempotency_key=key)
        assert not forest.has_user("u") or not forest.user("u").sessions()


def test_a_refused_request_leaves_its_key_free(tmp_path: Path) -> None:
    """What was not stored may be sent again, mended."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES)
        with pytest.raises(InputError):
            forest.user("u").add([{"role": "nobody", "content": "x"}], idempotency_key="k")
        assert forest.user("u").add([{"role": "user", "content": "x"}], idempotency_key="k").replayed is False


def test_a_key_goes_with_its_session(tmp_path: Path) -> None:
    """A session that was overwritten takes its keys with it: no result of what is gone is told."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES, idempotency_key="k")
        forest.ingest_session("u", "s", said("I live in Oslo."), replace=True, idempotency_key="l")
        again = forest.ingest_session("u", "s", said("I live in Oslo."), replace=True, idempotency_key="l")
        assert (again.replayed, again.replaced, again.turns_added) == (True, True, 1)
        assert len(rows(file_of(tmp_path), "SELECT key FROM write_key")) == 1
        assert forest.ingest_session("u", "s", MOVES, replace=True, idempotency_key="k").replayed is False


def test_nothing_said_is_kept_with_a_key(tmp_path: Path) -> None:
    """Neither the words nor the key: digests and numbers."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", MOVES, idempotency_key="secretkey")
        forest.save()
        [row] = rows(file_of(tmp_path), "SELECT key, request, result FROM write_key")
        assert row[2] == '{"first": 0, "turns": 3, "replaced": false}'
        raw = file_of(tmp_path).read_bytes()
        assert b"secretkey" not in raw


class FailsOnce:
    """The local extractor, but the first call ends before anything is extracted: the turns are stored and nothing else."""

    name = "local-1"

    def __init__(self) -> None:
        self.inner = LocalExtractor()
        self.calls = 0

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Fail at first."""
        self.calls += 1
        if self.calls == 1:
            raise ModelRefusedError("interrupted")
        return await self.inner.extract(chunks)


def test_an_interrupted_write_is_finished_by_the_call_that_comes_again(tmp_path: Path) -> None:
    """Its turns are stored: the second call makes memory of them, once, and so does no third one."""
    with MemForest(tmp_path / "whole", fast_config()) as forest:
        whole = forest.user("u").add(MOVES, session_id="s", idempotency_key="k")
    extractor = FailsOnce()
    with MemForest(tmp_path / "cut", fast_config(extractor=extractor)) as forest:
        memory = forest.user("u")
        with pytest.raises(ModelRefusedError, match="stored"):
            memory.add(MOVES, session_id="s", idempotency_key="k")
        assert (memory.stats().turns, memory.stats().unfinished) == (3, 1)
        for _ in range(2):
            again = memory.add(MOVES, session_id="s", idempotency_key="k")
            assert (again.replayed, told(again)) == (True, told(whole))
        assert (memory.stats().turns, memory.stats().occurrences, memory.stats().unfinished) == (3, 3, 0)
        assert extractor.calls == 2


def test_two_at_once_write_once(tmp_path: Path) -> None:
    """In one process: eight calls with one key store one session's turns, and all are told the same."""

    async def run() -> list[IngestResult]:
        async with AsyncMemForest(tmp_path, fast_config()) as forest:
            await forest.register_user("u")
            calls = (forest.user("u").add(MOVES, session_id="s", idempotency_key="k") for _ in range(8))
            return await asyncio.gather(*calls)

    results = asyncio.run(run())
    assert sum(not one.replayed for one in results) == 1
    assert {one.turns_added for one in results} == {3}
    with MemForest(tmp_path, fast_config()) as forest:
        assert forest.user("u").stats().turns == 3
        assert forest.user("u").stats().occurrences == 3
        assert forest.user("u").verify().ok


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from tests_long.worlds import fast_config, said
from memforest import MemForest
print("ready", flush=True)
sys.stdin.readline()
with MemForest(sys.argv[2], fast_config()) as forest:
    turns = said("I live in Davis.", "I work at Acme.", "I moved to Miami.")
    for number in range(5):
        result = forest.user("u").add(turns, session_id=f"s{number}", idempotency_key=f"k{number}")
        print(int(result.replayed), result.turns_added, flush=True)
"""


def test_two_processes_with_one_key_write_once(tmp_path: Path) -> None:
    """Whoever comes second gets the first one's result."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.register_user("u")
    root = str(Path(__file__).parent.parent)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, root, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    outputs = [one.communicate(timeout=120)[0].split("\n")[:5] for one in started]
    assert [one.returncode for one in started] == [0, 0]
    for first, second in zip(*outputs, strict=True):
        assert sorted((first, second)) == ["0 3", "1 3"]
    with MemForest(tmp_path, fast_config()) as forest:
        assert forest.user("u").stats().turns == 15
        assert forest.user("u").verify().ok
