"""The bridge from blocking code to the loop: threads, running loops, forks, Ctrl-C and exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.worlds import fast_config

from memforest import MemForest, _sync

ROOT = str(Path(__file__).parent.parent)

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes and signals")


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[MemForest]:
    """An empty forest."""
    with MemForest(tmp_path / "forest", fast_config()) as made:
        yield made


def run_program(text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has memforest and `tests.worlds` at hand; it gets warnings on its error output."""
    # Python ignores SIGINT when its parent did (a shell's background job); a user's terminal does not.
    head = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    head += f"import sys; sys.path.insert(0, {ROOT!r})\nfrom memforest import MemForest\nfrom tests_long.worlds import *\n"
    command = [sys.executable, "-W", "default", "-c", head + textwrap.dedent(text), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def turns(n: int = 1) -> list[dict[str, object]]:
    """Return turns that state something."""
    return [
        {"speaker": "Ana", "content": f"I bought {i + 2} tents in Oslo.", "timestamp": 1_700_000_000 + i}
        for i in range(n)
    ]


def test_results_and_errors_come_back() -> None:
    """A coroutine's value is returned and its exception raised, as they are."""

    async def give() -> int:
        return 42

    async def fail() -> None:
        raise KeyError("mine")

    assert _sync.run(give()) == 42
    with pytest.raises(KeyError, match="mine"):
        _sync.run(fail())


@each("kind", [SystemExit, KeyboardInterrupt])
@each("deep", [False, True])
def test_who_wants_to_end_the_process_ends_the_call(kind: type[BaseException], deep: bool) -> None:
    """A model that calls `sys.exit`, in the task of the call or in one of its own: the caller gets that, others go on."""
    begun, go = threading.Event(), threading.Event()

    async def other() -> int:
        begun.set()
        await asyncio.to_thread(go.wait, 20)
        return 42

    async def ends() -> None:
        await asyncio.sleep(0)
        raise kind("enough")

    async def call() -> None:
        await (asyncio.gather(ends(), asyncio.sleep(0)) if deep else ends())

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_sync.run, other())
        assert begun.wait(20)
        with pytest.raises(kind, match="enough"):
            _sync.run(call())
        go.set()
        assert waiting.result(20) == 42


def test_a_call_that_was_stopped_says_so() -> None:
    """A task that is cancelled where nobody asked for it leaves no caller waiting."""

    async def stopped() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    with pytest.raises(CancelledError):
        _sync.run(stopped())


def test_blocking_hands_on_arguments_and_results() -> None:
    """By place and by name, to the async object behind the facade."""

    class Behind:
        base = 10

        async def sum(self, one: int, /, *more: int, times: int = 1) -> int:
            """Add up."""
            await asyncio.sleep(0)
            return (self.base + one + sum(more)) * times

    class Facade:
        _async = Behind()
        sum = _sync.blocking(Behind.sum)

    assert (Facade().sum(1), Facade().sum(1, 2, 3), Facade().sum(1, times=2)) == (11, 16, 22)
    assert (Facade.sum.__name__, Facade.sum.__doc__) == ("sum", "Add up.")
    with pytest.raises(TypeError, match="speed"):
        Facade().sum(1, speed=3)  # type: ignore[call-arg]


def test_a_call_on_the_portals_own_loop_is_refused() -> None:
    """Waiting there would wait for ever; the error says what to use."""

    async def inner() -> int:
        return 1

    async def outer() -> int:
        return _sync.run(inner())

    with pytest.raises(RuntimeError, match="async classes"):
        _sync.run(outer())


def test_blocking_calls_work_inside_a_running_loop(forest: MemForest) -> None:
    """In a notebook or a web handler a loop already runs in the thread; the blocking classes work all the same."""

    async def handler() -> int:
        forest.ingest_session("u", "s", turns())
        return len(forest.query("u", "What did Ana buy?").evidence)

    assert asyncio.run(handler()) == 1


def test_many_threads_share_one_loop(forest: MemForest) -> None:
    """Calls from many threads at once are all answered."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda i: forest.ingest_session(f"u{i % 3}", f"s{i}", turns(2)), range(12)))
    assert {u: len(forest.user(u).sessions()) for u in forest.list_users()} == {"u0": 4, "u1": 4, "u2": 4}
    assert sum(t.name == "memforest-portal" for t in threading.enumerate()) == 1


def test_the_blocking_twin_keeps_name_and_docstring() -> None:
    """`help()` and editors show the one docstring."""
    assert MemForest.query.__doc__
    assert "best first" in MemForest.query.__doc__


@posix
def test_exit_without_close_prints_nothing(tmp_path: Path) -> None:
    """A program that just ends leaves no warning, no traceback, and everything stored."""
    done = run_program(
        """
        forest = MemForest(sys.argv[1], fast_config())
        for session_id, turns in make_sessions(1, sessions=2):
            forest.ingest_session("u", session_id, turns)
        forest.query("u", "Where does Ana live?")
        """,
        str(tmp_path),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with MemForest(tmp_path, fast_config()) as forest:
        assert len(forest.user("u").sessions()) == 2


@posix
def test_exit_while_another_thread_ingests_is_quick_and_quiet(tmp_path: Path) -> None:
    """A daemon thread in the middle of an ingest does not hold up the exit, and nothing is printed."""
    done = run_program(
        """
        import threading, time
        def work():
            for session_id, turns in make_sessions(1, sessions=400):
                try:
                    forest.ingest_session("u", session_id, turns)
                except BaseException:
                    return
                begun.set()
        begun = threading.Event()
        forest = MemForest(sys.argv[1], fast_config())
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
        """,
        str(tmp_path),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with MemForest(tmp_path, fast_config()) as forest:
        forest.resume()
        assert forest.user("u").sessions()
        assert forest.user("u").verify().ok


@posix
def test_a_forked_child_starts_anew(tmp_path: Path) -> None:
    """After a fork, parent and child both read and write; the child does not touch the parent's connections."""
    done = run_program(
        """
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of any fork beside threads
        forest = MemForest(sys.argv[1], fast_config())
        first, second, third = make_sessions(1, sessions=3)
        forest.ingest_session("u", *first)
        child = os.fork()
        if child == 0:
            forest.ingest_session("u", *second)
            assert forest.query("u", "Where does Ana live?").evidence
            sys.exit(0)  # runs the child's exit handlers, which must leave the parent's connections alone
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        forest.ingest_session("u", *third)
        print(sorted(s.session_id for s in forest.user("u").sessions()), forest.user("u").verify().ok)
        forest.close()
        """,
        str(tmp_path),
    )
    assert (done.stdout, done.stderr) == ("['s0', 's1', 's2'] True\n", "")


def test_what_a_call_needs_is_imported_before_it_runs(tmp_path: Path) -> None:
    """An import in the middle of a call leaves its lock to a child that is forked meanwhile, which then hangs."""
    done = run_program(
        """
        forest = MemForest(sys.argv[1], fast_config())
        forest.list_users()
        known = set(sys.modules)
        forest.ingest_session("u", *make_sessions(1, sessions=1)[0])
        forest.query("u", "Where does Ana live?")
        print(sorted(set(sys.modules) - known))
        forest.close()
        """,
        str(tmp_path),
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@posix
def test_forks_at_any_moment_while_other_threads_write(tmp_path: Path) -> None:
    """Children that are forked while the parent's threads write and ask can use the same memories; nothing hangs."""
    done = run_program(
        """
        import os, threading, time, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of any fork beside threads
        forest = MemForest(sys.argv[1], fast_config())
        forest.ingest_session("u", *make_sessions(1, sessions=1)[0])
        stop = threading.Event()
        def write(name):
            for session_id, turns in make_sessions(2, sessions=500):
                if stop.is_set():
                    return
                forest.ingest_session("u", name + session_id, turns)
        def ask():
            while not stop.is_set():
                forest.query("u", "Where does Ana live?")
        threads = [threading.Thread(target=write, args=("a",)), threading.Thread(target=ask)]
        for thread in threads:
            thread.start()
        for i in range(8):
            time.sleep(0.013 * i)
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs is killed, and its status tells
                (session,) = make_sessions(100 + i, sessions=1)
                forest.ingest_session("u", f"child{i}", session[1])
                assert forest.query("u", "Where does Ana live?").evidence
                forest.close()
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert status == 0, (i, status)
        stop.set()
        for thread in threads:
            thread.join()
        forest.resume()
        ids = {s.session_id for s in forest.user("u").sessions()}
        assert {f"child{i}" for i in range(8)} < ids, ids
        print(forest.user("u").verify().ok, forest.user("u").stats().dirty_nodes)
        forest.close()
        """,
        str(tmp_path),
    )
    assert (done.stdout, done.stderr) == ("True 0\n", "")


@posix
def test_ctrl_c_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    """SIGINT in the middle of an ingest raises KeyboardInterrupt soon; `resume` finishes the rest."""
    done = run_program(
        """
        import os, signal, threading, time
        forest = MemForest(sys.argv[1], fast_config())
        acknowledged = []
        def interrupt():
            while len(acknowledged) < 3:
                time.sleep(0.01)
            interrupt.at = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            for session_id, turns in make_sessions(1, sessions=400):
                forest.ingest_session("u", session_id, turns)
                acknowledged.append((session_id, len(turns)))
        except KeyboardInterrupt:
            pass
        assert time.monotonic() - interrupt.at < 5
        stored = {s.session_id: s.turns for s in forest.user("u").sessions()}
        assert all(stored.get(name) == n for name, n in acknowledged), (acknowledged, stored)
        forest.resume()
        assert forest.user("u").verify().ok
        assert forest.user("u").stats().dirty_nodes == 0
        print("sound")
        """,
        str(tmp_path),
    )
    assert (done.stdout, done.stderr) == ("sound\n", "")


@posix
def test_ctrl_c_waits_for_the_task_to_end() -> None:
    """When KeyboardInterrupt reaches the caller, the cancelled task has cleaned up."""
    done = run_program(
        """
        import asyncio, os, signal, threading
        from memforest import _sync as portal
        cleaned = []
        async def task():
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.2)
                cleaned.append(True)
        try:
            portal.run(task())
        except KeyboardInterrupt:
            print("interrupted", cleaned)
        """
    )
    assert (done.stdout, done.stderr) == ("interrupted [True]\n", "")


def test_waiting_does_not_hold_the_loop(forest: MemForest) -> None:
    """One slow call does not keep another thread's call waiting."""
    release = threading.Event()

    async def slow() -> None:
        await asyncio.to_thread(release.wait)

    thread = threading.Thread(target=lambda: _sync.run(slow()))
    thread.start()
    started = time.monotonic()
    forest.ingest_session("u", "s", turns())
    elapsed = time.monotonic() - started
    release.set()
    thread.join()
    assert elapsed < 10
