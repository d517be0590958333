"""`memforest advance`: what is due is made without a write, and told by index."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.paced import Diary

from memforest.cli import main
from memforest.trees import attached
from memforest.trees.index import Host

Run = Callable[..., Result]
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Ana", "content": "I bought a tent.", "timestamp": "2024-01-05T10:01:00Z"},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the program on a directory with the memory of `me`, whose paced index has made nothing yet."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "120")
    attached.INDEXES[Diary.name] = Diary
    Diary.occasions.clear()

    async def nothing(host: Host) -> None:
        """Make nothing."""

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args)

    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    assert run("ingest", str(chat), "--embedder", "hash-words-1@64").exit_code == 0
    Diary.act = nothing
    assert run("index", "add", "diary").exit_code == 0
    Diary.occasions.clear()
    yield run
    attached.INDEXES.pop("diary", None)


def test_it_tells_what_was_made_by_index(run: Run) -> None:
    """The counts that are others now; a second time there are none."""
    first, *others = run("advance").stdout.splitlines()
    assert first == "diary\t1 tree\t2 leaves\ttexts segment 0 -> 2, texts session 0 -> 1\t"
    assert all("nothing was due" in line for line in others)
    assert run("advance").stdout.splitlines()[0] == "diary\t1 tree\t2 leaves\tnothing was due\t"


def test_json_has_how_all_stand_and_what_changed(run: Run) -> None:
    """Numbers before and after, and nothing of what is no number."""
    found = json.loads(run("advance", "--json").stdout)
    assert found["command"] == "advance"
    assert found["data"]["changed"]["diary"] == {"texts segment": [0, 2], "texts session": [0, 1]}
    assert [one["name"] for one in found["data"]["indexes"]] == ["diary", "memforest"]


def test_the_present_and_what_is_not_due_yet_are_asked_for(run: Run) -> None:
    """`--as-of` is the present that the index is told, `--force` why it is advanced."""
    seen: list[int] = []

    async def look(host: Host) -> None:
        seen.append(host.now.year)

    Diary.act = look
    assert run("advance", "--as-of", "2031-02-03", "--force").exit_code == 0
    assert run("advance").exit_code == 0
    assert (seen, Diary.occasions) == ([2031], ["force", "advance"])


def test_an_index_that_fails_says_why(run: Run) -> None:
    """It stays where it is; the others go on."""

    async def fail(host: Host) -> None:
        raise ValueError("no window")

    Diary.act = fail
    shown = run("advance")
    assert shown.exit_code == 0
    assert "no window" in shown.stdout.splitlines()[0]


def test_what_is_no_time_is_refused(run: Run) -> None:
    """With the name of the option's argument; nothing is advanced."""
    shown = run("advance", "--as-of", "the day after")
    assert shown.exit_code == 1
    assert "as_of" in shown.stderr
    assert Diary.occasions == []
