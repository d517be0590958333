"""`memforest maintain advance`: what is due is made without a write, and told by index."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from memforest.cli import main

Run = Callable[..., Result]
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Ana", "content": "I bought a tent.", "timestamp": "2024-01-05T10:01:00Z"},
    {"speaker": "Bo", "content": "It rains.", "timestamp": "2024-01-05T10:02:00Z"},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory with the memory of `me`, of whose calendar nothing is written."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("MEMFOREST_INDEXES", "memforest,timem")
    monkeypatch.setenv("COLUMNS", "120")

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args)

    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    done = run("ingest", str(chat), "--embedder", "hash-words-1@64")
    assert done.exit_code == 0, done.output
    return run


def test_it_tells_what_was_made_by_index(run: Run) -> None:
    """The counts that are others now; a second time there are none."""
    last = run("maintain", "advance").stdout.splitlines()[-1]
    assert last == "timem\t1 tree\t2 leaves\tmemories written 0 -> 6, memories waiting 6 -> 0"
    assert all("nothing was due" in line for line in run("maintain", "advance").stdout.splitlines())


def test_json_has_how_all_stand_and_what_changed(run: Run) -> None:
    """Numbers before and after."""
    found = json.loads(run("maintain", "advance", "--json").stdout)
    assert found["command"] == "maintain advance"
    assert found["data"]["changed"]["timem"] == {"memories written": [0, 6], "memories waiting": [6, 0]}
    assert [one["name"] for one in found["data"]["indexes"]] == ["memforest", "timem"]


def test_the_present_and_what_is_not_due_yet_are_asked_for(run: Run) -> None:
    """`--as-of` is the present, `--force` is for what has not ended by then."""
    changed = []
    for args in (
        ("--as-of", "2024-01-05T10:05:00Z"),
        ("--as-of", "2024-01-06"),
        ("--as-of", "2024-01-06", "--force"),
    ):
        found = json.loads(run("maintain", "advance", *args, "--json").stdout)
        changed.append(found["data"]["changed"]["timem"]["memories written"])
    assert changed == [[0, 2], [2, 4], [4, 6]]


def test_what_is_no_time_is_refused(run: Run) -> None:
    """With the name of the option's argument; nothing is advanced."""
    shown = run("maintain", "advance", "--as-of", "the day after")
    assert shown.exit_code == 1
    assert "as_of" in shown.stderr
    assert "memories written 0 -> 6" in run("maintain", "advance").stdout
