"""A forest for each test, and the conversation that goes through every adapter."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import pytest
import pytest_asyncio

from memforest import AsyncMemForest, Config
from memforest.testing import FrozenClock, HashEmbedder

hypothesis.settings.register_profile(
    "memforest",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=6,
    stateful_step_count=12,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("memforest")


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that a test moves."""
    return FrozenClock("2023-01-09T09:00:00+00:00")


@pytest_asyncio.fixture
async def forest(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[AsyncMemForest]:
    """An empty forest."""
    made = AsyncMemForest(tmp_path / "forest", Config(embedder=HashEmbedder(), clock=clock))
    yield made
    await made.close()
