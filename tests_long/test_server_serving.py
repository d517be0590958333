"""Tests of how a server ends: the order of its steps, the second signal, and what hangs. Without a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")

from fastapi import FastAPI
from tests_long.taking_in import Tenants, request

from memforest.config import Config
from memforest.errors import StoreWriteError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.together import Readiness
from memforest.models import HashEmbedder
from memforest.server.auth import Principal
from memforest.server.jobs import Intake
from memforest.server.rest import user_routes as routes
from memforest.server.rest.app import Health, operating
from memforest.server.serving import END_S, ServerSettings, Serving, _ending


class Timers:
    """Stands in for `threading.Timer`: what is begun, and when it would be done."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, after_s: float, work: Callable[[], None]) -> Any:
        """Note a timer."""
        self.begun.append((after_s, work))
        return SimpleNamespace(start=lambda: None, daemon=False)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    """No timer ends this process."""
    made = Timers()
    monkeypatch.setattr(threading, "Timer", made)
    return made


def test_errors_of_the_loop_are_logged_without_their_text(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By their class and place; asyncio's own words have the text of the error and its stack."""

    def fails() -> None:
        raise ValueError("what Ana said")

    async def main() -> None:
        server = Serving(app_with_jobs(folder), ServerSettings(), lambda: None)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            work = asyncio.create_task(server.serve([listening]))
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_soon(fails)
            asyncio.get_running_loop().call_exception_handler({"message": "what Ana said"})
            await asyncio.sleep(0)
            server.should_exit = True
            await work

    asyncio.run(main())
    told = [one.getMessage() for one in caplog.records if one.name == "memforest.server.serving"]
    assert sorted("ValueError" in one for one in told) == [False, True]
    assert "Ana" not in caplog.text
    assert "Traceback" not in caplog.text


def told_by(app: Any, *, ending: bool) -> list[Any]:
    """Return what an app sends behind what stands around it."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def run() -> None:
        await _ending(app, lambda: ending)({"type": "http"}, receive, send)

    asyncio.run(run())
    return sent


async def cut(_scope: Any, _receive: Any, _send: Any) -> None:
    """Be cancelled before anything is answered, as uvicorn does at the end of its patience."""
    raise asyncio.CancelledError


def test_a_request_that_the_end_cuts_off_is_told_so() -> None:
    """As a problem that says when to come back; uvicorn says 500 in plain text, and logs an error."""
    head, body = told_by(cut, ending=True)
    assert (head["status"], dict(head["headers"])[b"retry-after"]) == (503, b"5")
    assert json.loads(body["body"])["status"] == 503


def test_a_request_that_somebody_else_cuts_off_is_cut_off() -> None:
    """Without a signal a cancelled request stays cancelled; so does one whose answer has begun."""
    with pytest.raises(asyncio.CancelledError):
        told_by(cut, ending=False)

    async def begun(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await cut(scope, receive, send)

    with pytest.raises(asyncio.CancelledError):
        told_by(begun, ending=True)


@pytest.mark.parametrize(
    ("kind", "ending", "whole"),
    [
        (b"text/event-stream; charset=utf-8", True, True),
        (b"text/event-stream", False, False),
        (b"application/octet-stream", True, False),
    ],
)
def test_a_stream_of_events_ends_whole(kind: bytes, ending: bool, whole: bool) -> None:
    """At the end of the server; a file that is cut off is not made to look whole."""

    async def stream(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": b"id: 1", "more_body": True})

    sent = told_by(stream, ending=ending)
    assert (not sent[-1].get("more_body", False)) == whole


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def app_with_jobs(folder: Path) -> FastAPI:
    """Return an app with ingest jobs and nothing else."""
    access = Tenants(folder).access()
    app = FastAPI()
    app.state.access, app.state.intake, app.state.health = access, Intake(access), Health(access)
    return app


def test_the_first_signal_is_told_before_connections_are_refused(folder: Path, timers: Timers) -> None:
    """At once it is not ready and takes no jobs; it stops accepting when the grace is over."""

    async def main() -> None:
        app = app_with_jobs(folder)
        server = Serving(app, ServerSettings(grace_s=0.05), lambda: None)
        server.started, server._loop = True, asyncio.get_running_loop()
        server.handle_exit(signal.SIGTERM, None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await app.state.health.problem() == "draining"
        assert not server.should_exit
        while not server.should_exit:  # noqa: ASYNC110 - what uvicorn does is looked at
            await asyncio.sleep(0.01)
        assert not server._captured_signals  # else uvicorn would raise it once more, and end with its code

    asyncio.run(main())
    [(after_s, _)] = timers.begun
    assert 0 < after_s < END_S


def test_what_hangs_is_ended_by_force_in_time(folder: Path, timers: Timers, exits: list[int]) -> None:
    """The timer of the first signal ends the process; it says so."""
    server = Serving(app_with_jobs(folder), ServerSettings(), lambda: None)
    server.handle_exit(signal.SIGTERM, None)
    timers.begun[0][1]()
    assert exits == [1]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_it_at_once(
    folder: Path, timers: Timers, exits: list[int], sig: signal.Signals
) -> None:
    """The code is that of the signal, as shells report it."""
    server = Serving(app_with_jobs(folder), ServerSettings(), lambda: None)
    server.handle_exit(signal.SIGTERM, None)
    assert exits == []
    server.handle_exit(sig, None)
    assert exits == [128 + sig]


def test_a_signal_before_it_accepts_ends_it_as_well(folder: Path, timers: Timers) -> None:
    """Uvicorn sees it as soon as the start is over."""
    server = Serving(app_with_jobs(folder), ServerSettings(), lambda: None)
    server.handle_exit(signal.SIGINT, None)
    assert server.should_exit


def test_jobs_get_the_time_that_the_app_gives_them(folder: Path) -> None:
    """The lifespan of an app parks what is not done within its time, for the next start."""

    async def main() -> None:
        app = app_with_jobs(folder)
        app.state.drain_s = 0.05
        async with operating(app):
            job = await app.state.intake.submit(Principal(), [request("ana", "one")])
        with closing(sqlite3.connect(folder / "server" / "jobs.sqlite")) as db:
            state = "json_extract(data, '$.state')"
            assert db.execute(f"SELECT id, {state} FROM job").fetchall() == [(job.id, "queued")]

    asyncio.run(main())


async def still() -> Principal:
    """Say that the key still holds."""
    return Principal()


def test_a_stream_without_events_has_a_heartbeat_and_ends_with_its_client(folder: Path) -> None:
    """Comments come while nothing happens; a client that goes away leaves no watcher."""

    async def main() -> None:
        intake = Intake(Tenants(folder).access())
        job = await intake.submit(Principal(), [request("ana", "one")])
        response = await routes.watch_job(job.id, Principal(), intake, still)
        response.ping_interval = 0.02
        sent: list[bytes] = []
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))
            if sum(one.startswith(b": ping") for one in sent) == 2:
                assert intake.watchers == 1
                gone.set()

        await asyncio.wait_for(response({"type": "http", "method": "GET"}, receive, send), 20)
        assert any(b"event: progress" in one for one in sent)
        assert intake.watchers == 0
        await intake.close()

    asyncio.run(main())


def test_a_client_that_takes_nothing_is_cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that nobody reads does not stay open for ever, and leaves no watcher."""
    monkeypatch.setattr(routes, "SEND_S", 0.05)

    async def main() -> None:
        intake = Intake(Tenants(folder).access())
        job = await intake.submit(Principal(), [request("ana", "one")])
        response = await routes.watch_job(job.id, Principal(), intake, still)

        async def never() -> dict[str, Any]:
            await asyncio.Event().wait()
            return {}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response({"type": "http", "method": "GET"}, never, send), 20)
        assert intake.watchers == 0
        await intake.close()

    asyncio.run(main())


class Counting(HashEmbedder):
    """Counts the texts that it embeds."""

    asked = 0

    async def embed(self, texts: Any) -> Any:
        """Embed texts."""
        self.asked += len(texts)
        return await super().embed(texts)


def test_ready_is_looked_at_once_for_all_who_ask(folder: Path) -> None:
    """Many probes at once, and those that follow soon, are one check."""
    embedder = Counting()

    async def main() -> None:
        access = Tenants(folder)
        access.forests[None] = AsyncMemForest(folder, Config(embedder=embedder))  # type: ignore[assignment]
        health = Health(access.access())
        assert await asyncio.gather(*(health.problem() for _ in range(20))) == [None] * 20
        assert embedder.asked == 1
        await access.forests[None].close()  # type: ignore[attr-defined]

    asyncio.run(main())


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_not_ready(folder: Path) -> None:
    """Where no memory can be made, the server cannot serve."""
    folder.chmod(0o500)

    async def main() -> None:
        forest = AsyncMemForest(folder / "below", Config(embedder=HashEmbedder()))
        with pytest.raises(StoreWriteError):
            await Readiness().check(forest)

    asyncio.run(main())
