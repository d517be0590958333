"""The tests of whole memories once more, on encrypted ones: what is written, grown, replaced, read back and searched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_encryption import encrypted

ROOT = Path(__file__).parent.parent

MODULES = {
    "test_forest_live": "test_saving_folds_the_log_into_the_file",
    "test_memory_views": "",
    "test_memory_history": "",
    "test_delete": "test_a_memory_that_nothing_was_stored_in_can_be_removed",
    "test_corrections": "",
}
"""File of tests -> which of them is left out: one copies a file without its salt, one renames it without."""


@encrypted
@pytest.mark.timeout(300)
def test_an_encrypted_memory_is_a_memory_like_any_other() -> None:
    """All tests of the files pass, and none is passed over. That they are of encrypted memories is what the plugin checks at their end."""
    options = [
        "-q",
        "-rps",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "tests_long.encrypted_plugin",
    ]
    left_out = " and ".join(f"not {name}" for name in MODULES.values() if name)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "-k",
            left_out,
            *(f"tests_long/{name}.py" for name in MODULES),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = Counter(re.findall(r"^PASSED tests_long/(\w+)\.py::", done.stdout, re.MULTILINE))
    assert passed.keys() == MODULES.keys()
    assert min(passed.values()) >= 10
    assert "skipped" not in done.stdout.splitlines()[-1]


@encrypted
def test_the_benchmark_says_what_it_costs() -> None:
    """A ratio for each thing that is timed; how large they are is for a quiet machine to say."""
    options = ["--sessions", "2", "--questions", "4", "--rounds", "1", "--embedder", "hash"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "encryption.py"), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    found = dict(
        re.findall(r"^(ingest|query, warm|query, cold) +(?:[\d.]+ +){2}([\d.]+) ", done.stdout, re.MULTILINE)
    )
    assert set(found) == {"ingest", "query, warm", "query, cold"}
    assert all(0.1 < float(ratio) < 10 for ratio in found.values())
    assert re.search(r"^encrypt: .* MB/s$", done.stdout, re.MULTILINE)
