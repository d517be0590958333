"""The gate between forks and transactions."""

from __future__ import annotations

import threading
import time

from memforest.store.database import ForkGate


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
