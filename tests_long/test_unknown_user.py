"""A user without a memory is one to whom nothing was said: readers find nothing, and nothing is made on the disk."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp")

from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from mcp import Client as MCPClient
from tests_long.facades import keyed_app
from tests_long.mcp_worlds import call, serve
from tests_long.serving import app_of, served

from memforest import AsyncMemForest, Config, MemForest, NotFoundError
from memforest.cli import main
from memforest.testing import HashEmbedder

READERS = {
    "search": ("Where does Ilka live?",),
    "ask": ("Where does Ilka live?",),
    "list": (),
    "sessions": (),
    "timeline": ("Ilka",),
    "entities": (),
    "relations": ("Ilka",),
    "profile": ("Ilka",),
    "changes": ("2025-01-01",),
    "diff": ("2025-01-01", "2026-01-01"),
    "entity_choices": (),
}
BY_ID = {
    "get": ("fact",),
    "turns": ("session",),
    "history": ("fact",),
    "update": ("fact", "I live in Oslo."),
    "forget": ("fact",),
    "pin": ("fact",),
    "delete": ("fact",),
    "delete_all": (),
}


def leftovers() -> set[Path]:
    """Return what stands in the temporary directory under the package's name."""
    return set(Path(tempfile.gettempdir()).glob("memforest-*"))


def test_readers_of_an_unknown_user_find_nothing_and_make_nothing(tmp_path: Path) -> None:
    """Every reader is empty and false; the directory is not even made, and nobody is listed."""
    before = leftovers()
    with MemForest(tmp_path / "mem") as forest:
        nobody = forest.user("ilka")
        for name, args in READERS.items():
            assert not getattr(nobody, name)(*args), name
        assert not nobody.list(entity="Ilka", session_id="monday")
        assert not nobody.diff("2025-01-01", "2026-01-01", entity="Ilka")
        assert nobody.search("Where?").context() == ""
        answer = nobody.ask("Where does Ilka live?")
        assert answer.answer is None
        assert answer.reason
        stats = nobody.stats()
        assert (stats.user_id, stats.turns, stats.facts, stats.bytes) == ("ilka", 0, 0, 0)
        assert not forest.has_user("ilka")
        assert forest.list_users() == []
    assert not (tmp_path / "mem").exists()
    assert leftovers() <= before


def test_what_is_addressed_by_an_id_is_still_not_found(tmp_path: Path) -> None:
    """An id of a user without a memory leads nowhere, and says so."""
    with MemForest(tmp_path / "mem") as forest:
        nobody = forest.user("ilka")
        for name, args in BY_ID.items():
            with pytest.raises(NotFoundError):
                getattr(nobody, name)(*args)
        with pytest.raises(NotFoundError):
            nobody.export(tmp_path / "out.jsonl")
        with pytest.raises(NotFoundError):
            nobody.backup(tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_a_memory_that_begins_later_is_read_at_once(tmp_path: Path) -> None:
    """Who was unknown a moment ago is found with the first turn, and other unknown users stay empty."""
    with MemForest(tmp_path / "mem") as forest:
        me = forest.user("ilka")
        assert not me.search("Where do I keep the spare key?")
        me.add("The spare key is under the blue flowerpot.", timestamp="2026-03-04T10:00:00Z")
        assert "flowerpot" in me.search("Where is the spare key?").context()
        assert not forest.user("joost").search("Where is the spare key?")


def test_many_unknown_users_at_once(tmp_path: Path) -> None:
    """Readers of many unknown users at the same time do not get into each other's way."""

    async def run() -> None:
        async with AsyncMemForest(tmp_path / "mem") as forest:
            found = await asyncio.gather(*(forest.user(f"user {n}").search("Who?") for n in range(12)))
            assert not any(found)

    asyncio.run(run())
    assert not (tmp_path / "mem").exists()


def test_rest_answers_with_nothing_of_an_unknown_user(tmp_path: Path) -> None:
    """Search, ask, context and lists are 200 and empty; the user itself, and what stands below an id, is 404."""
    with served(app_of(tmp_path / "mem")) as client:
        here = "/v1/users/ilka"
        asked = {"question": "Where does Ilka live?"}
        assert client("POST", f"{here}/search", 200, json=asked)["evidence"] == []
        assert client("POST", f"{here}/ask", 200, json=asked)["answer"] is None
        assert client("POST", f"{here}/context", 200, json=asked)["context"] == ""
        assert client("GET", f"{here}/facts", 200)["facts"] == []
        assert client("GET", f"{here}/sessions", 200)["sessions"] == []
        assert client("GET", f"{here}/entities", 200)["entities"] == []
        assert client("GET", f"{here}/stats", 200)["turns"] == 0
        client("GET", here, 404)
        client("GET", f"{here}/sessions/monday", 404)
        client("GET", f"{here}/facts/f1", 404)
        assert client("GET", "/v1/users", 200)["users"] == []
    assert not list((tmp_path / "mem").glob("*.db"))


def test_the_facades_answer_with_nothing_of_an_unknown_user(tmp_path: Path) -> None:
    """mem0's search and list, and the vector stores' search, find nothing; deleting all of nothing is no error."""
    config = Config(embedder=HashEmbedder())
    with TestClient(keyed_app(AsyncMemForest(tmp_path / "mem", config))) as http:

        def post(path: str, scheme: str, **body: object) -> dict[str, Any]:
            answer = http.post(f"/compat/{path}", json=body, headers={"Authorization": f"{scheme} root"})
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        whose = {"user_id": "ilka"}
        assert post("mem0/v3/memories/search/", "Token", query="Where?", filters=whose)["results"] == []
        assert post("mem0/v3/memories/", "Token", filters=whose)["results"] == []
        assert post("openai/v1/vector_stores/ilka/search", "Bearer", query="Where?")["data"] == []
        gone = http.delete("/compat/mem0/v1/memories/?user_id=ilka", headers={"Authorization": "Token root"})
        assert gone.status_code == 200
    assert not list((tmp_path / "mem").glob("*.db"))


def test_mcp_answers_with_nothing_of_an_unknown_user(tmp_path: Path) -> None:
    """The tools that read find nothing; one that takes an id is an error."""

    async def work(client: MCPClient) -> None:
        assert (await call(client, "search_memory", query="Where do I live?"))["evidence"] == []
        assert (await call(client, "ask_memory", question="Where do I live?"))["abstained"]
        assert (await call(client, "get_timeline", entity="Ilka"))["entries"] == []
        assert (await call(client, "list_facts"))["facts"] == []
        assert (await client.call_tool("get_fact", {"fact_id": "f1"})).is_error

    serve(tmp_path / "mem", work, user="ilka", tools="full")
    assert not (tmp_path / "mem").exists()


def test_the_command_line_answers_with_nothing_and_names_who_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading command of an unknown user ends as one that finds nothing, and says who is known; one by an id is an error."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "mem"))

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    with MemForest(tmp_path / "mem") as forest:
        forest.user("joost").add("I live in Ghent.")
    nothing = run("search", "xyzzy", "--user", "ilka")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "joost" in nothing.stderr
    for command in (("facts",), ("sessions",), ("timeline", "Ilka"), ("stats",), ("ask", "Where?")):
        assert run(*command, "--user", "ilka").exit_code == 0, command
    assert run("forget", "f1", "--user", "ilka").exit_code == 1
    assert run("users").stdout.split() == ["joost"]
