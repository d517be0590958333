"""The composed server over memories that cannot be used: encrypted otherwise, on a full disk, in a directory to read only."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.attacking import JSON, PROBLEM, Answer, Wire, attacked
from tests_long.serving import TURNS

SENT = json.dumps({"turns": TURNS}).encode()
SEARCH = b'{"question": "Where do I live?"}'
JOB = json.dumps({"sessions": [{"user_id": "ana", "session_id": "job", "turns": TURNS}]}).encode()
KEYS = ("ab" * 32, "cd" * 32)


def over(folder: Path, asks: Callable[[Wire], Awaitable[None]], **config: Any) -> None:
    """Ask a server."""

    async def run() -> None:
        async with attacked(folder, **config) as wire:
            await asks(wire)

    asyncio.run(run())


def clear(answer: Answer, status: int, folder: Path) -> None:
    """Hold an answer to a problem that says nothing of the server's own."""
    assert (answer.status, answer.kind) == (status, PROBLEM), answer
    for hidden in (str(folder), *KEYS, "Traceback", "Davis", "sqlite"):
        assert hidden not in answer.body.decode()


def test_encrypted_memories_are_served_with_their_key_alone(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With another key, or none, every route says so; the memory stays as it is."""
    pytest.importorskip("sqlcipher3")

    async def tells(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 201
        assert (await wire("POST", "/v1/ingest", JOB, JSON)).status == 202
        assert (await wire("POST", "/v1/users/ana/search", SEARCH, JSON)).status == 200

    async def cannot(wire: Wire) -> None:
        for method, target, body in (
            ("POST", "/v1/users/ana/search", SEARCH),
            ("GET", "/v1/users/ana/stats", None),
            ("PUT", "/v1/users/ana/sessions/two", SENT),
        ):
            clear(await wire(method, target, body, JSON if body else ()), 503, folder)
        page = await wire("GET", "/ui/facts?user=ana")
        assert page.status == 503
        assert b"Davis" not in page.body

    over(folder, tells, key=KEYS[0])
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"Davis" not in path.read_bytes(), path.name
    over(folder, cannot, key=KEYS[1])
    over(folder, cannot)
    over(folder, tells_again, key=KEYS[0])
    assert not any(hidden in caplog.text for hidden in (*KEYS, str(folder), "Davis"))


async def tells_again(wire: Wire) -> None:
    """The same session once more changes nothing, and the memory is whole."""
    assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 200
    assert (await wire("POST", "/v1/users/ana/verify", b"{}", JSON)).json()["problems"] == []


def test_a_full_disk_is_507_and_what_was_there_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads go on; a write is refused whole, and done when there is room again."""

    async def asks(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 201
        with monkeypatch.context() as patch:
            patch.setattr("memforest.store.connections.Connection.executemany", _full)
            patch.setattr("memforest.store.connections.Connection.execute", _full_of_writes)
            clear(await wire("PUT", "/v1/users/ana/sessions/two", SENT, JSON), 507, folder)
        assert (await wire("POST", "/v1/users/ana/search", SEARCH, JSON)).status == 200
        assert (await wire("GET", "/v1/users/ana/stats")).json()["sessions"] == 1
        assert (await wire("PUT", "/v1/users/ana/sessions/two", SENT, JSON)).status == 201

    over(folder, asks)


def _full(*_: object) -> Any:
    raise sqlite3.OperationalError("database or disk is full")


def _full_of_writes(self: Any, sql: str, *args: Any) -> Any:
    if sql.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE", "REPLACE")):
        raise sqlite3.OperationalError("database or disk is full")
    return sqlite3.Connection.execute(self, sql, *args)


def test_a_full_disk_where_the_jobs_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is acknowledged that is not stored."""

    async def asks(wire: Wire) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("memforest.server.jobs.JobRows.add", _full_rows)
            clear(await wire("POST", "/v1/ingest", JOB, JSON), 507, folder)
        assert (await wire("GET", "/v1/jobs")).json()["jobs"] == []
        assert (await wire("POST", "/v1/ingest", JOB, JSON)).status == 202

    over(folder, asks)


def _full_rows(self: Any, *_: object, **__: object) -> Any:
    from memforest.store.connections import mapped_errors

    with mapped_errors(self.path):
        raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_to_read_only(folder: Path) -> None:
    """New users and jobs are refused; the server lives."""

    async def refused(wire: Wire) -> None:
        clear(await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON), 503, folder)
        clear(await wire("POST", "/v1/ingest", JOB, JSON), 503, folder)

    async def taken(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 201

    folder.chmod(0o500)
    try:
        over(folder, refused)
    finally:
        folder.chmod(0o700)
    over(folder, taken)
