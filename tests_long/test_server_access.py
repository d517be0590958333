"""A whole server with keys: who is let in where, and that nobody is told what is another's."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp")
pytest.importorskip("limits")
sys.path.insert(0, str(Path(__file__).parent.parent))

from click.testing import CliRunner
from fastapi.testclient import TestClient
from tests_long.test_access_keys import GARBAGE
from tests_long.worlds import fast_config

from memforest.cli import main
from memforest.server.auth import AccessSettings
from memforest.server.keys import KeyStore
from memforest.server.serving import ServerSettings, create_server

TURN = {"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01T10:00:00Z"}
ALL = ("read", "write", "delete", "admin")


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[TestClient]:
    """Run a server of a directory in this process."""
    app = create_server(folder, fast_config(), ServerSettings(access=AccessSettings(**settings)))
    with TestClient(app, base_url="http://127.0.0.1:8420", raise_server_exceptions=False) as client:
        yield client


def keys(folder: Path, **made: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Make keys; return the header that each is sent in."""
    store = KeyStore(folder)
    headers = {name: {"X-API-Key": store.create(name, **given).key} for name, given in made.items()}
    store.close()
    return headers


def test_every_way_of_sending_no_valid_key_gets_one_answer(folder: Path) -> None:
    """Body and status are the same for every wrong key, however it is sent; each right way is let in."""
    [good] = keys(folder, a={"tenant": "t", "scopes": ALL}).values()
    key = good["X-API-Key"]
    with serving(folder) as client:
        wrong = [one for one in GARBAGE if one.isascii() and one.isprintable() and one.strip()]
        answers = {
            (response.status_code, response.text)
            for one in wrong
            for headers in (
                {"X-API-Key": one},
                {"Authorization": f"Bearer {one}"},
                {"Authorization": f"Token {one}"},
            )
            for response in [client.get("/v1/users/ann", headers=headers)]
        }
        assert len(answers) == 1
        assert {status for status, _ in answers} == {401}
        assert client.get("/v1/users/ann").status_code == 401
        for headers in (good, {"Authorization": f"Bearer {key}"}, {"Authorization": f"token {key}"}):
            assert client.get("/v1/users/ann", headers=headers).status_code == 404


def test_what_is_anothers_is_as_what_is_not_there(folder: Path) -> None:
    """Of another tenant, or of another user of the same: status, body and headers are the same but for the name."""
    who = keys(
        folder,
        one={"tenant": "one", "scopes": ALL},
        two={"tenant": "two", "scopes": ALL},
        ann={"tenant": "one", "user": "ann", "scopes": ALL},
        own={"scopes": ALL},
    )
    with serving(folder) as client:
        for user in ("bob", "eve"):
            made = client.put(f"/v1/users/{user}/sessions/s", json={"turns": [TURN]}, headers=who["one"])
            assert made.status_code == 201, made.text
        for path in (
            "/v1/users/{}",
            "/v1/users/{}/sessions",
            "/v1/users/{}/sessions/s",
            "/v1/users/{}/stats",
        ):
            assert client.get(path.format("bob"), headers=who["one"]).status_code == 200
            for reader in ("two", "ann", "own"):
                theirs, nobodys = (client.get(path.format(u), headers=who[reader]) for u in ("bob", "zed"))
                assert theirs.status_code == nobodys.status_code
                assert theirs.status_code == 404 or reader != "ann"
                assert theirs.text == nobodys.text.replace("zed", "bob")
                assert {*theirs.headers} == {*nobodys.headers}
        assert client.get("/v1/users", headers=who["two"]).json()["users"] == []
        assert client.delete("/v1/users/bob", headers=who["two"]).status_code == 404
        assert client.get("/v1/users/bob", headers=who["one"]).status_code == 200


def test_scopes_decide_what_a_key_may(folder: Path) -> None:
    """403 for what it may not, whether the user is there or not."""
    who = keys(folder, reader={"scopes": ("read",)}, writer={"scopes": ("write",)})
    with serving(folder) as client:
        body = {"turns": [TURN]}
        assert client.put("/v1/users/ann/sessions/s", headers=who["reader"], json=body).status_code == 403
        assert client.put("/v1/users/ann/sessions/s", headers=who["writer"], json=body).status_code == 201
        assert client.get("/v1/users/ann", headers=who["reader"]).status_code == 200
        for user in ("ann", "nobody"):
            assert client.get(f"/v1/users/{user}", headers=who["writer"]).status_code == 403
            assert client.delete(f"/v1/users/{user}", headers=who["reader"]).status_code == 403


def test_too_many_requests_are_told_when_to_come_again(folder: Path) -> None:
    """As a problem, with Retry-After in whole seconds; another key goes on."""
    who = keys(folder, a={"tenant": "t"}, b={"tenant": "t"})
    with serving(folder, key_rate="2/minute") as client:
        for _ in range(2):
            assert client.get("/v1/users/ann", headers=who["a"]).status_code == 404
        refused = client.get("/v1/users/ann", headers=who["a"])
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["Retry-After"]) <= 120
        assert refused.headers["content-type"] == "application/problem+json"
        assert client.get("/v1/users/ann", headers=who["b"]).status_code == 404


def test_a_server_without_keys_refuses_pages_of_other_sites(folder: Path) -> None:
    """By whatever road they come, REST, MCP or the inspector; its own names are answered."""
    with serving(folder) as client:
        for path in ("/v1/users", "/mcp", "/ui/", "/metrics"):
            assert client.post(path, headers={"Host": "evil.example"}).status_code == 421
            assert client.post(path, headers={"Origin": "https://evil.example"}).status_code == 403
        assert client.get("/v1/users").status_code == 200


def test_to_listen_elsewhere_takes_a_key(folder: Path) -> None:
    """The command says so in one line before anything is opened."""
    result = CliRunner().invoke(main, ["serve", "--dir", str(folder), "--host", "0.0.0.0", "--port", "0"])
    assert result.exit_code == 1
    assert "memforest keys create NAME" in result.stderr
