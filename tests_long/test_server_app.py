"""Tests of the app that `memforest serve` runs: what is in it, who is let in, and what its options and settings refuse."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent))

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.table import each
from tests_long.serving import TURNS
from tests_long.worlds import fast_config

from memforest.cli import main
from memforest.errors import ConfigError
from memforest.server import commands, serving
from memforest.server.auth import AccessSettings, IssuerSettings
from memforest.server.jobs import Intake, IntakeBounds
from memforest.server.keys import KeyStore
from memforest.server.serving import END_S, JOBS_S, REQUESTS_S, ServerSettings, create_server, listen, served


@contextmanager
def server(folder: Path, **settings: Any) -> Iterator[TestClient]:
    """Give a client of a server that runs in this process."""
    app = create_server(folder, fast_config(), ServerSettings(**settings))
    with TestClient(app, base_url="http://127.0.0.1:8420", raise_server_exceptions=False) as client:
        yield client


def test_one_app_serves_rest_jobs_health_and_mcp(folder: Path) -> None:
    """What a session said over REST is found over MCP, and both are counted by one registry."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    with server(folder) as client:
        assert client.put("/v1/users/ana/sessions/one", json={"turns": TURNS}).status_code == 201
        accepts = {"Accept": "application/json, text/event-stream"}
        assert "memforest" in client.post("/mcp", json=call, headers=accepts).text
        assert client.get("/readyz").status_code == 200
        text = client.get("/metrics").text
        assert 'route="/mcp",status="200"' in text
        assert 'route="/v1/users/{user_id}/sessions/{session_id}",status="201"' in text


@pytest.mark.parametrize("address", ["/", "/ui"])
def test_a_browser_finds_the_inspector(folder: Path, address: str) -> None:
    """At the bare address that the server prints, as at the inspector's own without its last slash; mounted too."""
    host = FastAPI()
    host.mount("/memory", create_server(folder, fast_config()))
    with server(folder) as client, TestClient(host, base_url="http://127.0.0.1:8420") as mounted:
        assert client.get(address, follow_redirects=False).headers["location"] == "/ui/"
        assert mounted.get(f"/memory{address}", follow_redirects=False).headers["location"] == "/memory/ui/"
        assert "<html" in client.get(address).text


def test_mcp_and_the_inspector_can_be_left_out(folder: Path) -> None:
    """What is not served is not named either."""
    with server(folder, mcp=False, ui=False) as client:
        assert client.get("/").status_code == 404
        assert client.post("/mcp", json={}).status_code == 404
        assert client.get("/ui/").status_code == 404
    assert set(served(ServerSettings())) - set(served(ServerSettings(mcp=False, ui=False))) == {
        "mcp",
        "inspector",
    }


def test_a_key_that_was_made_closes_the_server_and_tenants_are_apart(folder: Path) -> None:
    """Once there is a key nobody is let in without one, and jobs of one tenant are not those of another."""
    config = fast_config()
    store = KeyStore(folder, config.clock)
    made = {name: store.create(name, tenant=name, scopes=("read", "write")).key for name in ("a", "b")}
    sent = {"sessions": [{"user_id": "ana", "session_id": "s", "turns": TURNS}]}
    with server(folder) as client:
        assert client.get("/v1/jobs").status_code == 401
        to = {name: {"X-API-Key": key} for name, key in made.items()}
        job = client.post("/v1/ingest", json=sent, headers=to["a"]).json()["id"]
        assert client.get(f"/v1/jobs/{job}", headers=to["a"]).status_code == 200
        absent = client.get("/v1/jobs/none", headers=to["b"])
        other = client.get(f"/v1/jobs/{job}", headers=to["b"])
        assert (other.status_code, other.content) == (404, absent.content)
        assert client.get("/readyz").status_code == 200
        assert client.get("/metrics", headers=to["a"]).status_code == 403
    assert list(folder.glob("**/jobs.sqlite")) == [folder / "server" / "jobs.sqlite"]


def test_jobs_of_tenants_are_finished_by_the_next_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of a tenant that was left is found again by the tenant's name, whatever the directory is called."""
    config = fast_config()
    key = KeyStore(folder, config.clock).create("k", tenant="Ünïcode / tenant", scopes=("read", "write")).key
    sent = {"sessions": [{"user_id": "ana", "session_id": "s", "turns": TURNS}]}
    headers = {"X-API-Key": key}
    with monkeypatch.context() as patch:
        patch.setattr(Intake, "_work", lambda _: asyncio.sleep(600))  # it ends before it begins
        with server(folder) as client:
            job = client.post("/v1/ingest", json=sent, headers=headers).json()["id"]
    with server(folder) as client:
        text = client.get(f"/v1/jobs/{job}/events", headers=headers).text
        assert "event: ended" in text
        assert client.get(f"/v1/jobs/{job}", headers=headers).json()["done"] == 1


@pytest.mark.parametrize(
    "host", ["evil.example:8420", "evil.example", "127.0.0.1.evil.example", "memory.example.evil", ""]
)
def test_a_page_that_lets_its_name_point_here_reads_nothing(folder: Path, host: str) -> None:
    """Without keys only the names of this machine, and those allowed, are served; for health, any."""
    with server(folder, hosts=["memory.example:*"]) as client:
        for path in ("/v1/users", "/v1/jobs", "/openapi.json", "/metrics", "/compat/mem0/v1/ping/"):
            assert client.get(path, headers={"Host": host}).status_code == 421
        assert client.get("/ui/", headers={"Host": host}).status_code >= 400
        assert client.get("/readyz", headers={"Host": host}).status_code == 200
        for name in ("127.0.0.1:8420", "localhost", "[::1]:8420", "memory.example:443"):
            assert client.get("/v1/users", headers={"Host": name}).status_code == 200
        # Such a page can send any header.
        asked = {"Host": host, "X-API-Key": "mf_none"}
        assert client.get("/v1/users", headers=asked).status_code == 421


def test_bounds_of_jobs_are_those_of_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be unfinished at once is set for a server."""
    one = {"user_id": "ana", "session_id": "s", "turns": TURNS}
    monkeypatch.setattr(Intake, "_work", lambda _: asyncio.sleep(600))
    with server(folder, jobs=IntakeBounds(most_open=1)) as client:
        assert client.post("/v1/ingest", json={"sessions": [one]}).status_code == 202
        assert client.post("/v1/ingest", json={"sessions": [one]}).status_code == 429
    with pytest.raises(ConfigError, match="most_open"):
        IntakeBounds(most_open=0)


def test_all_steps_of_an_end_fit_into_half_a_minute() -> None:
    """Whatever the settings are, the server has ended by `END_S`."""
    assert ServerSettings(grace_s=10).grace_s + REQUESTS_S + JOBS_S < END_S
    with pytest.raises(ConfigError, match="grace_s"):
        ServerSettings(grace_s=10.5)


@each(
    "wrong",
    [{"grace_s": -1}, {"grace_s": float("nan")}, {"host": 5}, {"mcp": "yes"}, {"port": 1}],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    """A setting that is none, or out of range, is named."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ServerSettings(**wrong)


@pytest.mark.parametrize("host", ["256.1.1.1", "no such host.invalid", "\ud800", "a" * 300])
def test_an_address_that_is_none_is_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be listened on is said with what to do."""

    def find(name: str, *_: Any, **_more: Any) -> None:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find)
    with pytest.raises(ConfigError):
        listen(host, 0)


def test_localhost_is_never_bound_to_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the hosts file says: without a key the name alone has let it listen."""
    elsewhere = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("0.0.0.0", 0))
    here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **_more: [elsewhere, here])
    with listen("localhost", 0) as made:
        assert made.getsockname()[0] == "127.0.0.1"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **_more: [elsewhere])
    with pytest.raises(ConfigError):
        listen("localhost", 0)


def test_a_port_in_use_is_said_in_one_line() -> None:
    """Another process has the port: the message names it, and the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}.*--port"):
            listen("127.0.0.1", port)


def run(folder: Path, *args: str) -> dict[str, Any]:
    """Return the envelope of a `memforest serve` that does not begin."""
    done = CliRunner().invoke(main, ["--dir", str(folder), "--json", "serve", *args])
    assert done.exit_code != 0
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["status"] == "error"
    data: dict[str, Any] = found["data"]
    return data


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--rate", "many"), "rate"),
        (("--oidc-issuer", "https://issuer.example"), "--oidc-audience"),
        (("--oidc-audience", "x"), "--oidc-issuer"),
        (("--oidc-issuer", "http://issuer.example", "--oidc-audience", "x"), "https"),
        (("--port", "70000"), "65535"),
        (("--host", "0.0.0.0"), "memforest keys create"),
        (("--host", "::"), "memforest keys create"),
    ],
)
def test_options_that_do_not_fit_are_one_line(folder: Path, args: tuple[str, ...], says: str) -> None:
    """Each is refused with what to write, before anything is served."""
    assert says in run(folder, *args)["message"]


def test_a_missing_extra_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uvicorn the command says what to install."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "memforest.server.serving")
    monkeypatch.delattr(sys.modules["memforest.server"], "serving")
    assert "memforest[server]" in run(folder)["message"]


def test_what_it_serves_is_printed_when_it_accepts_connections(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For people it is a few lines with the address, whose port is the one that was free."""

    def runs(_app: Any, _settings: Any, listening: socket.socket, ready: Any) -> bool:
        ready()
        listening.close()
        return True

    monkeypatch.setattr(serving, "run", runs)
    monkeypatch.setattr(commands, "with_log", lambda _: None)
    done = CliRunner().invoke(
        main, ["--dir", str(folder), "serve", "--port", "0", "--no-ui", "--rate", "none"]
    )
    assert done.exit_code == 0, done.output
    assert "http://127.0.0.1:" in done.stdout
    assert ":0/" not in done.stdout
    assert "/mcp" in done.stdout
    assert "/ui" not in done.stdout


def test_behind_an_https_address_the_cookie_of_the_inspector_is_for_https_alone(folder: Path) -> None:
    """The proxy in front of the server need not be on this machine, so that its headers are not believed."""
    for address, secure in (
        (None, False),
        ("http://memory.example", False),
        ("HTTPS://memory.example", True),
    ):
        with server(folder, address=address) as client:
            cookie = client.get("/ui/login", headers={"Host": "localhost"}).headers["set-cookie"]
            assert ("Secure" in cookie) is secure


def test_mcp_is_called_by_the_servers_address_once_a_key_is_needed(folder: Path) -> None:
    """The host of `address` need not be given twice; without a key a proxy here would open the memories to everybody."""
    headers = {"host": "memory.example", "accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with server(folder, address="https://memory.example") as client:
        assert client.post("/mcp", json=ping, headers=headers).status_code == 421
    key = KeyStore(folder).create("a").key
    with server(folder, address="https://memory.example") as client:
        named = client.post("/mcp", json=ping, headers={**headers, "x-api-key": key})
        assert "Invalid Host" not in named.text
        assert named.status_code != 421
        other = {**headers, "host": "evil.example", "x-api-key": key}
        assert client.post("/mcp", json=ping, headers=other).status_code == 421


def test_the_metadata_of_tokens_names_what_the_issuer_knows(folder: Path) -> None:
    """The issuer exactly as its tokens do, and the scopes as they stand in tokens."""
    issuer = IssuerSettings("https://id.example", "memforest")
    with server(folder, address="https://m.example", access=AccessSettings(issuer=issuer)) as client:
        told = client.get("/.well-known/oauth-protected-resource/mcp").json()
    assert told["authorization_servers"] == ["https://id.example"]
    assert told["scopes_supported"] == [f"memforest:{one}" for one in ("admin", "delete", "read", "write")]
