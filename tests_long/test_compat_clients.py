"""The quick starts of scripts/serve_check_clients.py: the unmodified clients where they are installed, and its table."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from scripts import serve_check_clients
from tests_long.facades import keyed_app, served
from tests_long.worlds import CLOCK as NOW

from memforest import Config
from memforest.memory.forest import AsyncMemForest
from memforest.models import HashEmbedder
from memforest.testing import FrozenClock


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a server with the facades."""
    forest = AsyncMemForest(tmp_path, Config(embedder=HashEmbedder(), clock=FrozenClock(NOW)))
    with served(keyed_app(forest)) as address:
        yield address


def states(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the rows of the table that was printed: step and state."""
    lines = capsys.readouterr().out.splitlines()
    return {line[9:37].strip(): line[:8].strip() for line in lines}


@pytest.mark.filterwarnings("default")  # theirs are not ours
def test_the_clients_run_their_quick_starts(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of each client that is installed; openai always is."""
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", "")
    failed = serve_check_clients.check(url, "root", skip_missing=True)
    table = states(capsys)
    assert failed == 0, table
    assert table.pop("openai vector_stores.search") == table.pop("openai errors") == "ok"
    if importlib.util.find_spec("mem0") is None:
        assert table == {"mem0ai": "SKIPPED"}
    else:
        assert len(table) == 12
        assert set(table.values()) == {"ok"}


@pytest.mark.filterwarnings("default")
def test_a_step_that_fails_fails_the_check(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the exit status, with what went wrong in its row; and so does a client that is missing."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mem0" else object())
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", "")
    assert serve_check_clients.main(["--url", url, "--key", "guessed", "--skip-missing"]) == 1
    assert states(capsys)["openai vector_stores.search"] == "FAILED"
    assert serve_check_clients.check(url, "root") == 1
    assert states(capsys)["mem0ai"] == "FAILED"
