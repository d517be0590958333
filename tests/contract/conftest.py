"""What the contract tests stand on: a clock that stands still, and one small world, made once and copied."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.contract.fixtures_surfaces import (  # noqa: F401  # fixtures of the surfaces' tests
    agent,
    asynchronous,
    cli,
    http,
    keyed,
    mcp_client,
    portal,
    python,
    rest,
    server,
    surface,
    told,
    user,
)
from tests.contract.talk import ANNA, KNOWN, NOW, opened

from memforest import MemForest, UserMemory
from memforest.testing import FrozenClock

FAST = Path("/dev/shm")
"""Where files live in memory, on systems that have it."""


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else None)


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that says noon of 1 June 2024, UTC, until a test moves it."""
    return FrozenClock(NOW)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty directory."""
    with _folder() as made:
        yield Path(made)


@pytest.fixture
def forest(folder: Path, clock: FrozenClock) -> Iterator[MemForest]:
    """An empty forest in `folder / "forest"`."""
    with opened(folder / "forest", clock) as made:
        yield made


@pytest.fixture(scope="session")
def made_world() -> Iterator[Path]:
    """The directory of the world "anna", closed. Tests take a copy of it, and never this."""
    with _folder() as made:
        folder, clock = Path(made) / "world", FrozenClock(NOW)
        with opened(folder, clock) as forest:
            clock.set("2024-03-01T00:00:00+00:00")
            forest.register_user("anna", display_name="Anna")
            for name, turns in ANNA.items():
                clock.set(KNOWN[name])
                forest.ingest_session(
                    "anna",
                    name,
                    [{"speaker": who, "timestamp": at, "content": text} for who, at, text in turns],
                )
            forest.flush()
        yield folder


@pytest.fixture
def world(made_world: Path, folder: Path) -> Path:
    """A copy of the world's directory that a test may do anything to."""
    return Path(shutil.copytree(made_world, folder / "world"))


@pytest.fixture
def woods(world: Path, clock: FrozenClock) -> Iterator[MemForest]:
    """The forest of that copy."""
    with opened(world, clock) as made:
        yield made


@pytest.fixture
def anna(woods: MemForest) -> UserMemory:
    """Anna's memory in that copy: 12 turns in 3 sessions."""
    return woods.user("anna")


@pytest.fixture(scope="session")
def read_anna(made_world: Path) -> Iterator[UserMemory]:
    """Anna's memory for tests that only read; one for all of them."""
    with _folder() as made, opened(shutil.copytree(made_world, Path(made) / "world")) as forest:
        yield forest.user("anna")
