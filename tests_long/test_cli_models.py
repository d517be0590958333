"""`--config`, and what `memforest doctor` says of models behind endpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.doubles import ChatServer

from memforest.cli import main

Run = Callable[..., Result]
KEY = "sk-never-shown"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on an empty directory of its own."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "300")
    return lambda *args: CliRunner().invoke(main, args, catch_exceptions=False)


def settings(folder: Path, server: ChatServer, more: str = "") -> str:
    """Write a settings file with both models at a server, and return its path."""
    path = folder / "settings.toml"
    ends = f'base_url = "{server.url}"\napi_key = "{KEY}"\n'
    path.write_text(
        f'[embeddings]\nmodel = "vec"\n{ends}[chat]\nmodel = "big"\n{ends}{more}', encoding="utf-8"
    )
    return str(path)


def checks(result: Result) -> dict[str, list[Any]]:
    """Return the checks of an envelope by name; no key may be in it."""
    assert KEY not in result.output
    found: dict[str, list[Any]] = {}
    for one in json.loads(result.stdout)["data"]["checks"]:
        found.setdefault(one["name"], []).append(one)
    return found


def test_without_a_model_every_step_is_local(run: Run) -> None:
    """Doctor says so, and `--connect` has nothing to ask."""
    for args in (("doctor",), ("doctor", "--connect")):
        assert "none: every step is local" in run(*args).stdout


def test_doctor_names_the_models_and_contacts_nothing(run: Run, tmp_path: Path) -> None:
    """Model, address, steps, and whether there is a key, which is not shown; nothing is sent."""
    with ChatServer() as server:
        path = settings(tmp_path, server, '[chat.steps.judge]\nmodel = "small"\n')
        result = run("--config", path, "doctor", "--json")
        assert server.calls == []
    found = checks(result)
    assert result.exit_code == 0
    assert [one["status"] for one in found["chat model"]] == ["ok", "ok"]
    big, small = (one["detail"] for one in found["chat model"])
    assert big == f"big at {server.url}, with a key, for extract, summarise, plan, browse, answer, sift"
    assert small == f"small at {server.url}, with a key, for judge"
    assert found["new memories"][0]["detail"] == f"take vec at {server.url}, with a key"


def test_doctor_connects_when_asked(run: Run, tmp_path: Path) -> None:
    """One call to each model; the option may stand after the command too."""
    with ChatServer(reply=lambda body: "ready", key=KEY, embedding_dimension=24) as server:
        path = settings(tmp_path, server, '[chat.steps.judge]\nmodel = "small"\n')
        found = checks(run("doctor", "--connect", "--config", path, "--json"))
        assert [call.body["model"] for call in server.calls] == ["big", "small", "vec"]
    assert "it answers" in found["chat model"][0]["detail"]
    assert "24 numbers a text" in found["new memories"][0]["detail"]


def test_doctor_tells_what_to_mend(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused key is broken, with the setting; so is a missing one, without a connection."""
    with ChatServer(key="another") as server:
        result = run("--config", settings(tmp_path, server), "doctor", "--connect", "--json")
    found = checks(result)
    assert result.exit_code == 1
    assert "chat.api_key" in found["chat model"][0]["fix"]
    assert "embeddings.api_key" in found["new memories"][0]["fix"]
    monkeypatch.setenv("MEMFOREST_CHAT_MODEL", "gpt")
    found = checks(run("doctor", "--json"))
    assert "OPENAI_API_KEY" in found["chat model"][0]["fix"]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = checks(run("doctor", "--json"))
    assert "with the key of OPENAI_API_KEY" in found["chat model"][0]["detail"]


def test_a_wrong_file_is_one_line(run: Run, tmp_path: Path) -> None:
    """The file and the setting are named on standard error, for every command."""
    path = tmp_path / "wrong.toml"
    path.write_text("top = 1\n", encoding="utf-8")
    for args in (("doctor",), ("stats",), ("search", "x")):
        result = run("--config", str(path), *args)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "wrong.toml" in result.stderr
        assert result.stderr.count("\n") == 1


def test_settings_of_the_file_are_used(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory is written with them; MEMFOREST_CONFIG names a file as well."""
    chat = tmp_path / "chat.json"
    turn = {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05"}
    chat.write_text(json.dumps([turn]), encoding="utf-8")
    with ChatServer() as server:
        path = tmp_path / "settings.toml"
        path.write_text(f'[embeddings]\nmodel = "vec"\nbase_url = "{server.url}"\n', encoding="utf-8")
        monkeypatch.setenv("MEMFOREST_CONFIG", str(path))
        assert run("ingest", str(chat)).exit_code == 0
        assert "openai:vec" in run("stats").stdout
        assert server.calls
