"""What every test stands on: no network, no settings from outside, a clock that stands still."""

from __future__ import annotations

import ipaddress
import os
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests import their helpers by these folders' names

from memforest import Config, MemForest
from memforest.testing import HashEmbedder

NOW = datetime(2024, 6, 1, 12, 0, tzinfo=timezone.utc)
FEW_SEEDS = 2
"""The first is the plain case of most tests, the second is drawn; `make test-long` draws many."""
OUTSIDE = ("HF_", "HUGGING", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_", "OPENAI_", "MEMFOREST_")
OURS = (
    "MEMFOREST_LIVE",
    "MEMFOREST_SOAK_SEEDS",
    "MEMFOREST_WRITE_DOCS",
    "MEMFOREST_LOCOMO",
    "MEMFOREST_TEST_SQLITE",
)
"""Switches of the test suite itself."""

# Two shared cores make wall time a poor judge of one example.
hypothesis.settings.register_profile("memforest", deadline=None)
hypothesis.settings.load_profile("memforest")


def pytest_report_header() -> str:
    """Say on which SQLite the tests run.

    Raises:
        pytest.UsageError: if it is not the one that was asked for.
    """
    asked = os.environ.get("MEMFOREST_TEST_SQLITE", "sqlite3")
    if sqlite3.__name__ != asked:
        raise pytest.UsageError(f"MEMFOREST_TEST_SQLITE={asked} needs tests_long/other_sqlite on PYTHONPATH")
    return f"SQLite {sqlite3.sqlite_version} of {asked}"


def _is_here(family: int, address: Any) -> bool:
    """Return whether an address is on this machine."""
    if family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = str(address[0])
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Refuse every connection that leaves the machine: the package promises to need none."""
    connect, connect_ex, resolve = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def refuse(family: int, address: Any) -> None:
        if not _is_here(family, address):
            raise AssertionError(f"a test tried to reach {address!r}; tests run without a network")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        refuse(self.family, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        refuse(self.family, address)
        return connect_ex(self, address)

    def guarded_resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        refuse(socket.AF_INET, (name or "", 0))
        return resolve(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_resolve)
        yield


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> Iterator[None]:
    """Hide the settings and keys of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(OUTSIDE) and name not in OURS:
                patch.delenv(name)
        yield


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """A clock that always says noon of 1 June 2024, UTC."""
    return lambda: NOW


@pytest.fixture
def forest(tmp_path: Path, clock: Callable[[], datetime]) -> Iterator[MemForest]:
    """An empty forest with the word-overlap embedder and the frozen clock; fast, and the same everywhere."""
    with MemForest(tmp_path / "forest", Config(embedder=HashEmbedder(), clock=clock)) as made:
        yield made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `soak_seed` once per seed: a few by default, many in `make test-long`."""
    if "soak_seed" in metafunc.fixturenames:
        seeds = int(os.environ.get("MEMFOREST_SOAK_SEEDS", FEW_SEEDS))
        metafunc.parametrize("soak_seed", [pytest.param(i, marks=pytest.mark.soak) for i in range(seeds)])
