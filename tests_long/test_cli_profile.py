"""`memforest profile`: what it prints for people, for pipes and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_timem_profiles import TOLD

from memforest import MemForest, load_default_config
from memforest.cli.app import main
from memforest.cli.entities import draw_profile
from memforest.cli.screen import Screen


@pytest.fixture(name="filled")
def _filled(folder: Path) -> Path:
    (folder / "settings.toml").write_text('indexes = ["timem"]\nembedder = "hash-words-1@64"\n')
    with MemForest(folder, load_default_config(file=folder / "settings.toml")) as forest:
        for at, (when, who, text) in enumerate(TOLD):
            forest.ingest_session("u", f"s{at}", [{"speaker": who, "content": text, "timestamp": when}])
    return folder


def run(folder: Path, *args: str) -> Result:
    """Run a command on the folder."""
    return CliRunner().invoke(main, ["--dir", str(folder), "--config", str(folder / "settings.toml"), *args])


def test_into_a_pipe_each_line_has_its_sources(filled: Path) -> None:
    """Month, participant, kind, text and sources; what was said since has no month."""
    done = run(filled, "profile", "Ana", "--as-of", "2024-07-05")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    state = next(row for row in rows if row[2] == "state")
    assert state[:4] == ["2024-06", "Ana", "state", "residence: Oslo (known since 2024-06-07)"]
    assert state[4].startswith("s3 #")
    assert [row[:4] for row in rows if not row[0]] == [
        ["", "Ana", "since", "The ferry was late again this morning."]
    ]
    assert done.exit_code == 0


def test_json_has_everything(filled: Path) -> None:
    """The sections with their lines, and the same warnings."""
    done = run(filled, "profile", "--as-of", "2024-06-05", "--json")
    data = json.loads(done.stdout)["data"]
    assert (data["month"], [one["participant"] for one in data["sections"]]) == ("2024-05", ["Ana", "Bruno"])
    assert all(line["sources"] for one in data["sections"] for line in one["lines"])
    early = run(filled, "profile", "--said-by", "2024-04-01")
    assert early.stdout == ""
    assert "Warning: no month had ended" in early.stderr


def test_an_unknown_name_is_an_error(filled: Path) -> None:
    """With the names there are."""
    done = run(filled, "profile", "Carla")
    assert done.exit_code == 1
    assert "nobody called 'Carla' speaks in this memory; the speakers are: Ana, Bruno" in done.stderr


def test_on_a_terminal_quotes_stand_below_lines(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The day, who said it, and where; then what was said since."""
    with MemForest(filled, load_default_config(file=filled / "settings.toml")) as forest:
        memory = forest.user("u")
        draw_profile(Screen(laid_out=True), memory.profile("Ana", as_of="2024-07-05"))
    shown = capsys.readouterr().out
    assert "residence: Oslo" in shown
    assert '2024-06-07 Ana: "I moved to Oslo."' in shown
    assert "Said since: 1 turn" in shown
