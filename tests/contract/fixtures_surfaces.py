"""Fixtures of the surfaces: one server for all tests, one forest for each way in, a user of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.contract.drivers import (
    EMBEDDER,
    MCP_PATH,
    AsyncSurface,
    CliSurface,
    McpSurface,
    PythonSurface,
    RestSurface,
    Surface,
    words,
)
from tests.contract.surfaces import Served, connected, serving, tell

from memforest import AsyncMemForest, Config, MemForest

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without keys, of all tests."""
    with serving(tmp_path_factory.mktemp("served"), "--tools", "full", "--log", "requests") as served:
        yield served


KEYS: dict[str, tuple[str, ...]] = {
    "read": ("--scope", "read"),
    "write": ("--scope", "write"),
    "delete": ("--scope", "delete"),
    "admin": ("--scope", "admin"),
    "all": ("--scope", "read,write,delete,admin"),
    "ana": ("--scope", "read,write,delete", "--user", "ana"),
    "tenant": ("--scope", "read,write,delete,admin", "--tenant", "acme"),
}
"""Name of a key -> how it is made."""


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server that asks for keys and waits for no lock, and the keys by their names; in it Ana has a memory."""
    folder = tmp_path_factory.mktemp("keyed")
    cli = CliSurface(folder / "memories")
    keys = {name: cli.run(*words("keys create", name), *how).out.strip() for name, how in KEYS.items()}
    cli.add("ana", "first", [{"speaker": "Ana", "content": "I live in Bergen.", "timestamp": "2024-03-04"}])
    config = folder / "memforest.toml"
    config.write_text("busy_timeout_s = 0.3\n", encoding="utf-8")
    with serving(folder, "--config", str(config)) as served:
        yield served, keys


@pytest.fixture(scope="session")
def http(server: Served) -> Iterator[Any]:
    """A client of the server."""
    httpx = pytest.importorskip("httpx")
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def portal() -> Iterator[Any]:
    """An event loop in a thread of its own."""
    from_thread = pytest.importorskip("anyio.from_thread")
    with from_thread.start_blocking_portal() as made:
        yield made


@pytest.fixture(scope="session")
def mcp_client(server: Served, portal: Any) -> Iterator[Any]:
    """The official client, connected with the server over HTTP."""
    with portal.wrap_async_context_manager(connected(f"{server.url}{MCP_PATH}")) as client:
        yield client


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonSurface]:
    """A forest in this process."""
    directory = tmp_path_factory.mktemp("python")
    with MemForest(directory, Config(embedder=EMBEDDER)) as forest:
        yield PythonSurface(directory, forest)


@pytest.fixture(scope="session")
def asynchronous(tmp_path_factory: pytest.TempPathFactory, portal: Any) -> Iterator[AsyncSurface]:
    """An asynchronous forest in this process."""
    directory = tmp_path_factory.mktemp("async")
    with portal.wrap_async_context_manager(AsyncMemForest(directory, Config(embedder=EMBEDDER))) as forest:
        yield AsyncSurface(directory, forest, portal)


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> CliSurface:
    """The program on a directory of its own."""
    return CliSurface(tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="session")
def rest(server: Served, http: Any) -> RestSurface:
    """The routes of the server."""
    return RestSurface(server.directory, http)


@pytest.fixture(scope="session")
def agent(server: Served, mcp_client: Any, portal: Any) -> McpSurface:
    """The tools of the server."""
    return McpSurface(server.directory, mcp_client, portal)


FIXTURES = {"python": "python", "async": "asynchronous", "cli": "cli", "rest": "rest", "mcp": "agent"}


def surface_named(name: str, request: pytest.FixtureRequest) -> Surface:
    """Return a surface by its name."""
    found: Surface = request.getfixturevalue(FIXTURES[name])
    return found


@pytest.fixture
def surface(request: pytest.FixtureRequest) -> Surface:
    """The surface that a test is run on."""
    return surface_named(request.param, request)


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return f"user-{next(_NUMBERS)}"


_TOLD: dict[str, str] = {}


@pytest.fixture
def told(surface: Surface) -> str:
    """A user of the surface who has told the story; for tests that only read."""
    if surface.name not in _TOLD:
        _TOLD[surface.name] = tell(surface, f"told by {surface.name}")
    return _TOLD[surface.name]
