"""`--mode` and what `--explain` says of browsing, with a chat model behind an endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.doubles import ChatServer
from tests.doubles.answering import ServedCall

from memforest import Config, MemForest
from memforest.cli import main
from memforest.models import HashEmbedder

Run = Callable[..., Result]

THINGS = ("anchor", "basket", "candle", "drum", "easel", "fiddle", "globe", "hammer")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory whose largest tree has more than ten nodes on a level."""
    folder = tmp_path_factory.mktemp("modes")
    with MemForest(folder, Config(embedder=HashEmbedder())) as forest:
        for day, thing in enumerate(THINGS, 1):
            said = [f"I bought a {colour} {thing} in Oslo." for colour in ("red", "blue", "green", "black")]
            turns = [{"speaker": "Ana", "content": text} for text in said]
            forest.ingest_session("me", f"s{day}", turns, timestamp=f"2024-03-{day:02}T10:00:00Z")
    return folder


@pytest.fixture
def run(world: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on the memory."""
    monkeypatch.setenv("MEMFOREST_DIR", str(world))
    monkeypatch.setenv("COLUMNS", "160")

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    return run


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """An endpoint that answers by local rules, and is configured."""
    with ChatServer() as made:
        monkeypatch.setenv("MEMFOREST_CHAT_MODEL", "double")
        monkeypatch.setenv("MEMFOREST_CHAT_BASE_URL", made.url)
        yield made


def steps(calls: list[ServedCall]) -> list[str]:
    """Return the steps of the calls."""
    return [call.body["response_format"]["json_schema"]["name"] for call in calls]


def data(result: Result) -> Any:
    """Return the data of an envelope."""
    return json.loads(result.stdout)["data"]


def test_a_mode_without_a_model_says_what_is_lacking(run: Run) -> None:
    """It is an error of one line; a mode that there is not is one of usage."""
    lacking = run("search", "anchor", "--mode", "llm")
    assert (lacking.exit_code, lacking.stdout) == (1, "")
    assert "MEMFOREST_CHAT_MODEL" in lacking.stderr
    assert run("search", "anchor", "--mode", "best").exit_code == 2
    assert run("search", "anchor", "--mode", "emb").exit_code == 0


def test_explain_tells_how_trees_were_browsed(run: Run, server: ChatServer) -> None:
    """Mode, calls, each tree with what was looked for in it, and the tokens that were spent."""
    run("tree")  # whose summaries a model makes, as questions would
    summaries = len(server.calls)
    shown = " ".join(run("search", "Which anchor did Ana buy?", "--explain").stdout.split())
    asked = steps(server.calls)[summaries:]
    assert asked[0] == "plan"
    browse = asked.count("browse")
    assert browse == len(asked) - 1 > 0
    assert "guide: plan@1:double" in shown
    assert f"browse: llm+planner, {browse} calls" in shown
    assert "entity Ana: llm, " in shown
    assert "leaves, for Which anchor did Ana buy?" in shown
    assert f"{browse + 1} model calls, " in shown


def test_emb_asks_nothing_and_says_nothing_of_it(run: Run, server: ChatServer) -> None:
    """With an endpoint configured, `--mode emb` sends no request."""
    shown = run("search", "anchor", "--mode", "emb", "--explain").stdout
    assert server.calls == []
    assert "browse: " not in shown
    assert "model calls" not in shown


def test_ask_tells_who_answered_and_what_fell_back(run: Run, server: ChatServer) -> None:
    """The answerer is named; in JSON the usage is that of query and answer together."""
    assert "answered by answer@2:double" in run("ask", "Which anchor did Ana buy?", "--explain").stdout
    server.calls.clear()
    found = data(run("ask", "Which anchor did Ana buy?", "--json"))
    assert found["usage"]["steps"]["answer"]["calls"] == 1
    assert sum(one["calls"] for one in found["usage"]["steps"].values()) == len(server.calls)


def test_an_endpoint_with_nonsense_is_told_of(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unusable replies cost no result: the tree is marked, and a warning stands on standard error."""
    monkeypatch.setenv("MEMFOREST_CHAT_MODEL", "double")
    with ChatServer(reply=lambda _: "I would rather not.") as made:
        monkeypatch.setenv("MEMFOREST_CHAT_BASE_URL", made.url)
        result = run("search", "Which anchor did Ana buy?", "--mode", "llm", "--explain")
    assert result.exit_code == 0
    assert "browsed by embedding" in result.stderr
    shown = " ".join(result.stdout.split())
    assert "entity Ana: emb, " in shown
    assert "[1]" in shown
