"""A disk without room: what is deleted there to make some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memforest import Config, MemForest

DELETES = """
import resource, signal, sys
from memforest import Config, MemForest
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with MemForest(sys.argv[1], Config(embedder="none")) as forest:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    receipt = forest.delete_user("ann")
    print(receipt.gone["files"] > 0, len(receipt.warnings))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process has no such limit there")
def test_a_user_is_deleted_where_nothing_can_be_written(folder: Path) -> None:
    """Not even what SQLite needs to read: the files go, and the receipt says that nothing was counted."""
    with MemForest(folder / "m", Config(embedder="none")) as forest:
        forest.user("ann").add("I moved to Oslo.")
    done = subprocess.run(
        [sys.executable, "-c", DELETES, str(folder / "m")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["True", "1"], done.stderr
    assert not list((folder / "m").glob("ann*"))
