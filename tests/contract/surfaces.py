"""What tests of the surfaces share: a story that is told, which surface has what, a server that is started."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.contract.drivers import (
    EMBEDDER,
    LAUNCH,
    SERVE,
    AsyncSurface,
    CliSurface,
    McpSurface,
    PythonSurface,
    RestSurface,
    Surface,
)

__all__ = ["STORY", "SURFACES", "Served", "connected", "offering", "serving", "tell"]

STORY: Mapping[str, list[dict[str, str]]] = {
    "spring": [
        {"speaker": "Mara", "content": "I live in Bergen.", "timestamp": "2024-03-04T09:00:00Z"},
        {"speaker": "Tom", "content": "I adopted a dog called Pim.", "timestamp": "2024-03-04T09:01:00Z"},
    ],
    "summer": [
        {"speaker": "Mara", "content": "I moved to Porto.", "timestamp": "2024-06-10T18:00:00Z"},
        {"speaker": "Mara", "content": "I work as a potter.", "timestamp": "2024-06-10T18:02:00Z"},
    ],
    "autumn": [
        {
            "speaker": "Mara",
            "content": "My sister Ilse visited me last week.",
            "timestamp": "2024-09-20T08:00:00Z",
        },
        {"speaker": "Tom", "content": "I started to work as a baker.", "timestamp": "2024-09-20T08:05:00Z"},
    ],
}
"""What two people tell each other in a year: session -> messages."""

SURFACES = (PythonSurface, AsyncSurface, CliSurface, RestSurface, McpSurface)


class Served:
    """A server that runs, where its memories are, and where its log goes.

    Attributes:
        url: its address.
        directory: of its memories.
        log: what it writes on standard error.
    """

    def __init__(self, url: str, directory: Path, log: Path) -> None:
        self.url, self.directory, self.log = url, directory, log


@contextlib.contextmanager
def serving(folder: Path, *argv: str) -> Iterator[Served]:
    """Run `memforest serve` on a free port of this machine, and kill it in the end."""
    for needed in ("fastapi", "uvicorn", "mcp"):
        pytest.importorskip(needed)
    directory, log = folder / "memories", folder / "log.txt"
    settings = {"MEMFOREST_EMBEDDER": EMBEDDER.model_id, "PYTHONUTF8": "1"}
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [*LAUNCH, *SERVE, "--dir", str(directory), *argv],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **settings},
        )
        with process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, log.read_text(encoding="utf-8")
                yield Served(json.loads(line)["data"]["url"], directory, log)
            finally:
                process.kill()


@contextlib.asynccontextmanager
async def connected(url: str, key: str | None = None, **options: Any) -> AsyncIterator[Any]:
    """Give the official client of an address, with a key and the client's own options; it takes no proxy."""
    mcp, httpx2 = pytest.importorskip("mcp"), pytest.importorskip("httpx2")
    streams = pytest.importorskip("mcp.client.streamable_http")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
        mcp.Client(streams.streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


def offering(verb: str, *options: str) -> pytest.MarkDecorator:
    """Run a test on each surface that has a verb with these options."""
    names = [one.name for one in SURFACES if one.offers(verb, *options)]
    return pytest.mark.parametrize("surface", names, indirect=True)


def tell(surface: Surface, user: str) -> str:
    """Let a user tell the story, and return the user."""
    for session_id, messages in STORY.items():
        surface.add(user, session_id, messages)
    return user
