"""Tests of `memforest serve` as a process: killed in the middle of an ingest, told to end, and where it cannot begin."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")

import httpx

from memforest import MemForest
from memforest.config import Config
from memforest.models import HashEmbedder

pytestmark = pytest.mark.timeout(180)  # processes with their imports, on a busy machine

START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from memforest.cli import main; main()"
)
EMBEDDER = "hash-words-1@64"


def begun(folder: Path, *args: str) -> subprocess.Popen[str]:
    """Start a server on a free port."""
    config = folder.with_suffix(".toml")
    config.write_text(f'embedder = "{EMBEDDER}"\n', encoding="utf-8")
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            START,
            "serve",
            "--dir",
            str(folder),
            "--config",
            str(config),
            "--port",
            "0",
            "--json",
            *args,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1"},
    )


@contextmanager
def serving(folder: Path, *args: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Give a server that accepts connections, and a client of it; it is killed in the end."""
    with begun(folder, *args) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            url = json.loads(line)["data"]["url"]
            with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
                yield process, client
        finally:
            process.kill()


def sessions(count: int, turns: int = 8) -> dict[str, Any]:
    """Return a request with many sessions of two users."""
    said = [
        {
            "role": "user",
            "content": f"I moved to city number {i} with {i + 2} cats.",
            "timestamp": f"2024-05-01T10:{i:02}:00Z",
        }
        for i in range(turns)
    ]
    return {
        "sessions": [
            {"user_id": ("ana", "bob")[i % 2], "session_id": f"s{i}", "turns": said} for i in range(count)
        ]
    }


def ended(client: Any, job_id: str) -> dict[str, Any]:
    """Return a job when it has ended."""
    while True:
        found: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
        if found["ended_at"]:
            return found
        time.sleep(0.05)


def test_killed_in_the_middle_of_an_ingest_nothing_is_lost_and_the_job_goes_on(tmp_path: Path) -> None:
    """After kill -9 the next server finishes the job; every session is whole, and the memories verify."""
    folder = tmp_path / "memories"
    with serving(folder) as (process, client):
        response = client.post("/v1/ingest", json=sessions(30))
        assert response.status_code == 202
        job = response.json()
        with client.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
            next(line for line in stream.iter_lines() if '"state": "running"' in line)
            process.kill()
            process.wait()
    with closing(sqlite3.connect(folder / "server" / "jobs.sqlite")) as db:
        assert db.execute("SELECT state FROM job").fetchall() == [("running",)]
    with serving(folder) as (process, client):
        found = ended(client, job["id"])
        assert (found["state"], found["received"], found["done"], found["refused"]) == (
            "finished",
            30,
            30,
            [],
        )
        kinds = [
            line
            for line in client.get(f"/v1/jobs/{job['id']}/events").text.splitlines()
            if line.startswith("event")
        ]
        assert kinds == ["event: ended"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with MemForest(folder, Config(embedder=HashEmbedder(64))) as forest:
        for user in ("ana", "bob"):
            memory = forest.user(user)
            assert memory.verify().ok
            assert len(memory.sessions()) == 15
            assert memory.stats().turns == 15 * 8


def test_told_to_end_it_says_so_parks_its_jobs_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """After SIGTERM /readyz is 503, connections end, the process ends with 0, and the job is finished by the next."""
    folder = tmp_path / "memories"
    with serving(folder) as (process, client):
        assert client.get("/readyz").status_code == 200
        job = client.post("/v1/ingest", json=sessions(30)).json()
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while client.get("/readyz").status_code != 503:
            assert time.monotonic() < deadline
        assert client.post("/v1/ingest", json=sessions(2)).status_code == 503
        began = time.monotonic()
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (0, ""), errors
        assert time.monotonic() - began < 30
        assert "Traceback" not in errors
        with pytest.raises(httpx.TransportError):
            client.get("/livez")
    with serving(folder) as (process, client):
        assert ended(client, job["id"])["done"] == 30


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_ctrl_c_ends_it_and_the_second_one_at_once(tmp_path: Path) -> None:
    """Ctrl-C is the ordinary end; a stream that somebody follows does not hold it up."""
    folder = tmp_path / "memories"
    with serving(folder) as (process, _client):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in errors) == (0, False), errors
    with serving(folder) as (process, client):
        process.send_signal(signal.SIGINT)
        while client.get("/readyz").status_code != 503:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, "at once" in errors, "Traceback" in errors) == (130, True, False)


def test_200_clients_at_once(tmp_path: Path) -> None:
    """Each of 200 clients that come at once gets its answer."""
    folder = tmp_path / "memories"
    statuses: list[int] = []
    with serving(folder) as (_process, client):
        client.put("/v1/users/ana/sessions/one", json={"turns": sessions(1)["sessions"][0]["turns"]})
        gate = threading.Barrier(200)
        url = str(client.base_url)

        def ask() -> None:
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as own:
                gate.wait()
                answer = own.post("/v1/users/ana/search", json={"question": "How many cats?"})
                statuses.append(answer.status_code)

        threads = [threading.Thread(target=ask) for _ in range(200)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert statuses == [200] * 200
        assert client.get("/readyz").status_code == 200


def test_without_a_key_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    """Another address is refused in one line, which names the fix."""
    with begun(tmp_path / "memories", "--host", "0.0.0.0") as process:
        output, errors = process.communicate(timeout=60)
    said = json.loads(output)
    assert (process.returncode, said["status"]) == (1, "error")
    assert "memforest keys create" in said["data"]["message"]
    assert errors == ""


def test_a_port_in_use_and_a_directory_that_is_a_file_are_one_line(tmp_path: Path) -> None:
    """What keeps the server from beginning is said in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with begun(tmp_path / "memories", "--port", str(taken.getsockname()[1])) as process:
            output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (1, "")
        assert "in use" in json.loads(output)["data"]["message"]
    (tmp_path / "file").write_text("a file")
    with begun(tmp_path / "file") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (2, "")
    assert "is a file" in json.loads(output)["data"]["message"]


def test_slow_and_cut_connections_leave_the_others_alone(tmp_path: Path) -> None:
    """A request that never ends, and one that is cut, do not keep others waiting, nor the end of the server."""
    with serving(tmp_path / "memories") as (process, client):
        host, port = client.base_url.host, client.base_url.port
        head = b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"
        slow = [socket.create_connection((host, port)) for _ in range(20)]
        for one in slow:
            one.sendall(head)
        for one in slow[:10]:
            one.close()
        assert client.get("/livez").status_code == 200
        assert client.get("/v1/jobs").json()["jobs"] == []
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        for one in slow[10:]:
            one.close()
