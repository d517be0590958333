"""The composed server and clients that go away, or come all at once; nothing is left of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.attacking import JSON, Wire, attacked
from tests_long.serving import TURNS

from memforest.server.jobs import TAKE_S, Intake

SENT = json.dumps({"turns": TURNS}).encode()
SEARCH = b'{"question": "Where do I live?"}'
JOB = {"sessions": [{"user_id": "ana", "session_id": f"s{n}", "turns": TURNS} for n in range(4)]}
RPC = {**JSON, "accept": "application/json, text/event-stream"}


def over(folder: Path, asks: Callable[[Wire], Awaitable[None]]) -> None:
    """Ask a server."""

    async def run() -> None:
        async with attacked(folder) as wire:
            await asks(wire)

    asyncio.run(run())


async def quiet(before: set[Any]) -> None:
    """Wait until no tasks run but those that ran before, and the one with which sse-starlette looks for the server's end."""
    for _ in range(500):
        left = [str(one.get_coro()) for one in asyncio.all_tasks() - before]
        if [one for one in left if "_shutdown_watcher" not in one] == [] and len(left) <= 1:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(left)


def test_cut_in_the_middle_of_a_body(folder: Path) -> None:
    """Nothing is stored, no task is left, at any door."""

    async def asks(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/whole", SENT, JSON)).status == 201
        before = asyncio.all_tasks()
        for method, target in (
            ("PUT", "/v1/users/ana/sessions/half"),
            ("POST", "/v1/users/ben/messages"),
            ("POST", "/v1/ingest"),
            ("POST", "/v1/users/ben/import"),
            ("POST", "/compat/mem0/v3/memories/add/"),
            ("POST", "/mcp"),
            ("POST", "/ui/forget"),
        ):
            kind = RPC if target == "/mcp" else JSON
            for at in (0, 1, len(SENT) - 1, len(SENT)):
                answer = await wire(method, target, [SENT[:at]], kind, cut=True)
                assert answer.status < 500 or target == "/mcp", (target, answer)  # the SDK's; nobody reads it
        await quiet(before)
        listed = await wire("GET", "/v1/users")
        assert listed.json()["users"] == ["ana"]
        assert (await wire("GET", "/v1/users/ana/stats")).json()["sessions"] == 1
        assert (await wire("GET", "/v1/jobs")).json()["jobs"] == []

    over(folder, asks)


def test_cut_while_it_is_answered(folder: Path) -> None:
    """A search, a stream, an export and an ingest go on or end by themselves; what was sent whole is stored whole."""

    async def asks(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 201
        job = (await wire("POST", "/v1/ingest", json.dumps(JOB).encode(), JSON)).json()["id"]
        await wire("GET", f"/v1/jobs/{job}/events")  # to its end
        before = asyncio.all_tasks()
        for method, target, body in (
            ("POST", "/v1/users/ana/search", SEARCH),
            ("POST", "/v1/users/ana/ask", SEARCH),
            ("GET", "/v1/users/ana/export", None),
            ("GET", f"/v1/jobs/{job}/events", None),
            ("PUT", "/v1/users/ben/sessions/one", SENT),
        ):
            for patience_s in (0.0, 0.01, 0.05):
                await wire(method, target, body, JSON if body else (), patience_s=patience_s)
        await quiet(before)
        found = await wire("GET", "/v1/users/ben/stats")
        assert found.status == 404 or found.json()["turns"] in (0, len(TURNS))
        assert (await wire("PUT", "/v1/users/ben/sessions/one", SENT, JSON)).status in (200, 201)
        assert (await wire("POST", "/v1/users/ben/verify", b"{}", JSON)).json()["problems"] == []
        assert wire.app.state.intake.watchers == 0

    over(folder, asks)


def test_a_stream_of_a_job_that_nobody_works_on_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leaves it frees its place; no task follows the job any more."""
    monkeypatch.setattr(Intake, "_work", lambda _: asyncio.sleep(600))

    async def asks(wire: Wire) -> None:
        job = (await wire("POST", "/v1/ingest", json.dumps(JOB).encode(), JSON)).json()["id"]
        before = asyncio.all_tasks()
        streams = (wire("GET", f"/v1/jobs/{job}/events", patience_s=0.3) for _ in range(20))
        answers = await asyncio.gather(*streams)
        assert all(b"event: progress" in one.body for one in answers)
        await quiet(before)
        assert wire.app.state.intake.watchers == 0

    over(folder, asks)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files")
def test_files_come_back(folder: Path) -> None:
    """However many users were asked about, and however the clients left."""

    def files() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    async def asks(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 201
        await wire("GET", "/v1/users/ana/export")
        before = files()
        for n in range(30):
            await wire("GET", f"/v1/users/none{n}/export")
            await wire("GET", "/v1/users/ana/export", patience_s=0.0)
            await wire("POST", "/v1/ingest", [b'{"sessions"'], JSON, cut=True)
        await asyncio.sleep(0.1)
        assert files() <= before + 6

    over(folder, asks)


def test_many_readers_and_writers_at_once(folder: Path) -> None:
    """Each gets its own answer, and every write that was answered is there."""

    async def asks(wire: Wire) -> None:
        assert (await wire("PUT", "/v1/users/ana/sessions/one", SENT, JSON)).status == 201

        async def one(n: int) -> int:
            if n % 3:
                return (await wire("POST", "/v1/users/ana/search", SEARCH, JSON)).status
            path = f"/v1/users/{'ana' if n % 2 else 'ben'}/sessions/s{n}"
            return (await wire("PUT", path, SENT, JSON)).status

        assert set(await asyncio.gather(*(one(n) for n in range(60)))) == {200, 201}
        counts = [
            (await wire("GET", f"/v1/users/{user}/stats")).json()["sessions"] for user in ("ana", "ben")
        ]
        assert counts == [11, 10]

    over(folder, asks)


def test_two_servers_of_one_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read and write; the jobs are worked on by one, and by the other when that has ended."""
    for name in ("TAKE_S", "LOOK_S"):
        monkeypatch.setattr(f"memforest.server.jobs.{name}", 0.05)
    assert TAKE_S <= 5.0
    sent = json.dumps(JOB).encode()

    async def first(begun: asyncio.Queue[str], over: asyncio.Event) -> None:
        async with attacked(folder) as wire:
            with monkeypatch.context() as patch:
                patch.setattr(Intake, "_read", lambda *_: asyncio.sleep(600))
                begun.put_nowait((await wire("POST", "/v1/ingest", sent, JSON)).json()["id"])
                await over.wait()
            assert (await wire("GET", "/v1/users/ben/stats")).json()["sessions"] == 1

    async def run() -> None:
        begun: asyncio.Queue[str] = asyncio.Queue()
        over = asyncio.Event()
        earlier = asyncio.create_task(first(begun, over))
        job = await begun.get()
        async with attacked(folder) as other:
            assert (await other("PUT", "/v1/users/ben/sessions/one", SENT, JSON)).status == 201
            second = (await other("POST", "/v1/ingest", sent, JSON)).json()["id"]
            cancelled = await other("POST", f"/v1/jobs/{second}/cancel", None, JSON)
            assert cancelled.json()["state"] == "cancelled"
            assert (await other("GET", f"/v1/jobs/{job}")).json()["state"] == "queued"
            over.set()
            await earlier
            ended = await other("GET", f"/v1/jobs/{job}/events")
            assert b"event: ended" in ended.body

    asyncio.run(run())


def test_a_lock_that_cannot_be_made_is_told(folder: Path) -> None:
    """Jobs are refused then, and the rest is served."""
    (folder / "server").write_text("a file")

    async def asks(wire: Wire) -> None:
        refused = await wire("POST", "/v1/ingest", json.dumps(JOB).encode(), JSON)
        assert refused.status == 503
        assert str(folder).encode() not in refused.body

    over(folder, asks)
    assert Intake.__doc__
