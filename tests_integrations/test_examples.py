"""Every example runs as it stands, is short, and tells what is true now and what was before."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples" / "frameworks"
NEEDS = {"langgraph": "langgraph", "langchain": "langchain_core", "openai": "agents", "pydantic": "pydantic_ai",
         "claude": "anthropic", "google": "google.adk", "mem0": "memforest"}  # fmt: skip
"""Beginning of a program's name -> what has to be installed; for mem0's calls nothing has."""


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    """It prints Lisbon as what holds now, and Porto as what was before."""
    if not _is_here(NEEDS[path.stem.partition("_")[0]]):
        pytest.skip("its framework is in the other environment")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    now, before = done.stdout.split("Before:")
    assert "Lisbon" in now.split("Now:")[1]
    assert "Porto" in before
