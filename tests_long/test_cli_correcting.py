"""`memforest update`, `history`, `undo`, `pin` and `forget`, as docs/cli.md has them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memforest.cli import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
CHAT = [
    {"speaker": "Bob", "content": "I live in Davis.", "timestamp": "2023-05-08T10:00:00Z"},
    {"speaker": "Bob", "content": "My sister Eva is a nurse.", "timestamp": "2023-05-08T10:01:00Z"},
]


def run(*args: str) -> Result:
    """Run the program."""
    return CliRunner().invoke(main, args)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of `me`, with two facts."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    assert run("ingest", str(chat), "--embedder", "hash-words-1@64").exit_code == 0


def first_fact() -> str:
    """Return the id of the first fact."""
    found: str = json.loads(run("facts", "--json").stdout)["data"]["facts"][0]["fact_id"]
    return found


def test_the_commands_of_the_page_do_what_it_says() -> None:
    """Each works on the facts and keys that the ones before it have named."""
    commands = re.findall(r"^\$ memforest (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    outputs, key = {}, ""
    for line in commands:
        args = [{"FACT": first_fact(), "KEY": key}.get(one, one) for one in shlex.split(line)]
        result = run(*args)
        assert result.exit_code == 0, result.output
        outputs[args[0]] = result.stdout
        if found := re.search(r"memforest undo (c:\w+)", result.stdout):
            key = found[1]
    said = 'Bob: "I live in Davis."'
    assert outputs["update"].startswith(f"Corrected: {said} -> Bob lives in Portland.\nfact f1:")
    assert "corrected" in outputs["history"]
    assert outputs["undo"].startswith(f"Undone: {said}")
    assert outputs["pin"].startswith(f"Pinned: {said}")
    assert "I live in Davis." in outputs["facts"]
    assert "I live in Davis." not in run("facts").stdout


def test_results_and_errors_in_json() -> None:
    """The correction as data; what cannot be done as an error with its kind."""
    fact = first_fact()
    done = json.loads(run("forget", fact, "--json").stdout)["data"]
    assert (done["kind"], done["fact_id"], done["undone"]) == ("forget", fact, None)
    entries = json.loads(run("history", fact, "--json").stdout)["data"]["history"]
    assert [one["kind"] for one in entries] == ["said", "forgotten"]
    again = run("forget", fact, "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["data"]["error"] == "CorrectionError"
