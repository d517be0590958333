"""What the long tests stand on besides: a folder in memory, and a memory that is in no file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests_long.stored import empty_memory
from tests_long.worlds import fast_folder

from memforest.store.connections import Connection

collect_ignore = ["typing_api.py", "other_sqlite"]  # for mypy alone, and for Python's start; no tests in them


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty directory, in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        yield Path(made)


@pytest.fixture
def tx() -> Iterator[Connection]:
    """An empty memory that is in no file, as a transaction on it."""
    with closing(empty_memory()) as made:
        yield made
