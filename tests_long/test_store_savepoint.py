"""Work that may fail by itself."""

from __future__ import annotations

import asyncio

import pytest

from memforest.errors import StoreLockedError
from memforest.store.connections import REASON_CHARS, attempted, described


def test_work_that_waits_is_attempted_too() -> None:
    """Its error is returned, unless it is the file's."""

    async def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    error = ValueError("no")
    assert asyncio.run(attempted(work(None))) is None
    assert asyncio.run(attempted(work(error))) is error
    with pytest.raises(StoreLockedError):
        asyncio.run(attempted(work(StoreLockedError("busy"))))


def test_a_reason_is_short() -> None:
    """What is kept with an index names the error and is no log."""
    assert described(ValueError("no")) == "failed: ValueError: no"
    assert len(described(ValueError("no" * 5000))) <= REASON_CHARS + len("failed: ") + 1
