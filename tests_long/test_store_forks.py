"""The gate between forks and transactions."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from memforest.concurrency import begins_anew_in_child
from memforest.store import database
from memforest.store.database import Database, ForkGate


def test_a_fork_waits_for_who_is_inside_and_keeps_others_out() -> None:
    """It goes on when the last one has left, and who comes meanwhile gets in after it."""
    gate, order = ForkGate(), list[str]()
    entered = threading.Event()

    def first() -> None:
        with gate.inside():
            entered.set()
            time.sleep(0.1)
            with gate.inside():  # goes on, though a fork waits
                order.append("first")

    def second() -> None:
        with gate.inside():
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    entered.wait()
    assert gate.shut()
    threads[1].start()
    time.sleep(0.05)
    order.append("fork")
    gate.open()
    for thread in threads:
        thread.join()
    assert order == ["first", "fork", "second"]


def test_a_fork_does_not_wait_for_ever() -> None:
    """Not for a transaction that goes on, and not for the thread's own; both are told."""
    gate, leave, entered = ForkGate(), threading.Event(), threading.Event()

    def stay() -> None:
        with gate.inside():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    assert not gate.shut(timeout_s=0.05)
    gate.open()
    leave.set()
    thread.join()
    with gate.inside():
        assert not gate.shut()
        gate.open()
    assert gate.shut(timeout_s=0.05)
    gate.open()


class _Looks:
    """Sees in a forked child whether the parent's connections are set aside when others begin anew."""

    seen = False

    def after_fork_in_child(self) -> None:
        self.seen = bool(database._inherited)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # 3.12 warns of any fork beside threads
def test_connections_are_set_aside_before_what_holds_them_is_dropped(tmp_path: Path) -> None:
    """Else a child may close connections that its parent goes on to use."""
    looks, db = _Looks(), Database(tmp_path / "a.db", busy_timeout_s=1.0)
    begins_anew_in_child(looks)
    with db.read():  # in use, so that the parent cannot close it before the fork
        child = os.fork()
        if child == 0:
            os._exit(0 if looks.seen else 1)
    db.close()
    assert os.waitpid(child, 0)[1] == 0
