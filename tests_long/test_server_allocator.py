"""Tests of what a server's process keeps of freed memory. Each runs in a process of its own, as the setting is for all of one."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys

import pytest

from memforest.server.allocator import give_back_freed

glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="another C library is left as it is, and an older glibc does not tell",
)

PROGRAM = """
import ctypes, json, sys, threading
from memforest.server.allocator import give_back_freed

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
told = give_back_freed() if sys.argv[1] == "told" else False

def mapped():
    blocks = [bytearray(1 << 20) for _ in range(8)]
    return libc.mallinfo2().hblkhd >> 20

first, second = mapped(), mapped()

def work(begun):
    blocks = [bytearray(20_000) for _ in range(50)]
    begun.wait()

begun = threading.Barrier(4)
threads = [threading.Thread(target=work, args=(begun,)) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps([told, first, second]), flush=True)
libc.malloc_stats()
"""


def process(what: str, **environment: str) -> tuple[bool, int, int, int]:
    """Return whether the library was told, MB of large blocks mapped at first and the second time, and how many heaps there are."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        capture_output=True,
        text=True,
        check=True,
        env={**plain, **environment},
        timeout=50,
    )
    told, first, second = json.loads(done.stdout)
    return told, first, second, sum(line.startswith("Arena ") for line in done.stderr.splitlines())


@glibc
def test_large_blocks_are_given_back_each_time_and_threads_share_a_heap() -> None:
    """By itself the library keeps what was freed of the first large blocks, and has a heap for each thread."""
    told, first, second, heaps = process("told")
    assert told
    assert min(first, second) >= 8
    assert heaps == 1
    told, first, second, heaps = process("not told")
    assert not told
    assert (first >= 8, second, heaps > 1) == (True, 0, True)


@glibc
def test_what_the_environment_says_holds() -> None:
    """Whoever runs the server may have measured something better."""
    told, _, _, heaps = process("told", MALLOC_ARENA_MAX="3")
    assert not told
    assert 1 < heaps <= 3


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_any_setting_of_the_environment_counts(name: str) -> None:
    """Also the newer way to say it; nothing is told then, whatever the library."""
    assert give_back_freed({name: "1"}) is False


def test_another_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may know none of this."""
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert give_back_freed({}) is False
