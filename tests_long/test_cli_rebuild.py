"""`memforest maintain rebuild`: what is stale is counted, made anew, and finished after an interrupt."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import file_of, make_sessions, rows

from memforest.cli import main
from memforest.models import HashEmbedder
from memforest.write import rebuild

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory with the memory of `me`, made with a small embedder."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps({"sessions": [{"session_id": s, "turns": t} for s, t in make_sessions(3)]}))
    assert run("ingest", str(chat), "--embedder", "hash-words-1@32").exit_code == 0
    return run


def embedder_of(tmp_path: Path) -> str:
    """Return the memory's embedder."""
    return str(dict(rows(file_of(tmp_path / "memories"), "SELECT key, value FROM meta"))["embedder"])


def test_another_embedder_is_given(run: Run, tmp_path: Path) -> None:
    """The error of an ingest with it names the command; afterwards the memory is searched with it."""
    assert run("maintain", "rebuild", "--embedder", "hash-words-1@48").stdout == "Rebuilt: me.\n"
    assert embedder_of(tmp_path) == "hash-words-1@48"
    assert run("maintain", "verify").exit_code == 0
    assert run("search", "Where does Ana live?").exit_code == 0
    assert run("maintain", "rebuild", "--embedder", "hash-words-1@48", "--json").exit_code == 0


def test_a_dry_run_counts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stale, and why; nothing is written."""
    assert run("maintain", "rebuild", "--dry-run").stdout == "me: nothing is stale\n"
    config = tmp_path / "memforest.toml"
    config.write_text("chunk_turns = 4\n[index.memforest]\nsession_k = 5\n")
    before = rows(file_of(tmp_path / "memories"), "SELECT * FROM chunk")
    found = json.loads(run("maintain", "rebuild", "--dry-run", "--config", str(config), "--json").stdout)[
        "data"
    ]["me"]
    assert found["indexes"] == {"memforest": "session_k is 3, and 5 is set"}
    assert 0 < found["sessions"] <= 4
    shown = run("maintain", "rebuild", "--dry-run", "--config", str(config)).stdout
    assert "not of 4 turns, as chunk_turns says" in shown
    for command in ("stats", "doctor"):
        assert "rebuild(stale=True)" in run(command, "--config", str(config)).stdout.replace("\n", " ")
    assert rows(file_of(tmp_path / "memories"), "SELECT * FROM chunk") == before
    assert run("maintain", "rebuild", "--stale", "--config", str(config)).exit_code == 0
    assert run("maintain", "rebuild", "--dry-run", "--config", str(config)).stdout == "me: nothing is stale\n"
    lacking = json.loads(
        run("maintain", "rebuild", "--dry-run", "--embedder", "hash-words-1@48", "--json").stdout
    )
    assert lacking["data"]["me"]["texts"] > 0
    assert embedder_of(tmp_path) == "hash-words-1@32"


def test_an_interrupt_is_gone_on_after(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made is kept; the message names the command, and `doctor` what is left."""
    embed, blocks = HashEmbedder.embed, []

    async def stop(self: HashEmbedder, texts: Any) -> Any:
        blocks.append(len(texts))
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return await embed(self, texts)

    monkeypatch.setattr(rebuild, "BLOCK", 8)
    with monkeypatch.context() as patch:
        patch.setattr(HashEmbedder, "embed", stop)
        ended = run("maintain", "rebuild", "--embedder", "hash-words-1@48")
    assert ended.exit_code == 130
    assert "run the same `memforest maintain rebuild` again" in ended.stderr
    assert embedder_of(tmp_path) == "hash-words-1@32"
    assert "'hash-words-1@48' has been begun with" in run("stats").stdout
    assert run("search", "Where does Ana live?").exit_code == 0
    assert run("maintain", "rebuild", "--embedder", "hash-words-1@48").exit_code == 0
    assert embedder_of(tmp_path) == "hash-words-1@48"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--index", "nosuch"), "nosuch"),
        (("--index", "memforest", "--stale"), "leave out"),
        (("--embedder", "none"), "there is none"),
        (("--embedder", "gpt"), "unknown embedder 'gpt'"),
        (("--user", "nobody"), "user 'nobody' has no memory"),
    ],
)
def test_bad_calls(run: Run, args: tuple[str, ...], says: str) -> None:
    """Each is an error in a line."""
    ended = run("maintain", "rebuild", *args)
    assert ended.exit_code == 1
    assert says in ended.stderr
