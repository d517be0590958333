"""`memforest serve` killed at any moment: what it had answered is there, nothing is half there, and the next one goes on.

Few seeds here, many in `make test-long`; the full number of clients at once too.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("mcp")

import httpx
from tests_long.test_server_process import ended, serving, sessions

from memforest import MemForest
from memforest.config import Config
from memforest.models import HashEmbedder

pytestmark = pytest.mark.timeout(240)  # processes with their imports, on a busy machine

TURNS = sessions(1)["sessions"][0]["turns"]


class Writers:
    """Clients that put, delete and ingest until the server is gone, and note what was answered.

    Args:
        url: of the server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.put: dict[str, bool] = {}
        """Session -> whether it is there; only those of which the last answer came."""
        self.asked: set[str] = set()
        """Sessions of which the last request was sent and not answered: there whole, or not at all."""
        self.jobs: list[str] = []
        self._threads = [threading.Thread(target=one) for one in (self._puts, self._deletes, self._ingests)]

    def start(self) -> None:
        """Begin."""
        for one in self._threads:
            one.start()

    def join(self) -> None:
        """Wait until each has seen that the server is gone."""
        for one in self._threads:
            one.join()

    def _puts(self) -> None:
        self._until_gone(lambda client, n: self._change(client, "put", f"p{n}"))

    def _deletes(self) -> None:
        def both(client: httpx.Client, n: int) -> None:
            self._change(client, "put", f"d{n}")
            self._change(client, "delete", f"d{n}")

        self._until_gone(both)

    def _ingests(self) -> None:
        def one(client: httpx.Client, n: int) -> None:
            answer = client.post("/v1/ingest", json=sessions(4), headers={"Idempotency-Key": f"job{n}"})
            if answer.status_code == 202:
                self.jobs.append(answer.json()["id"])

        self._until_gone(one)

    def _change(self, client: httpx.Client, what: str, session: str) -> None:
        self.asked.add(session)
        path = f"/v1/users/carl/sessions/{session}"
        answer = client.put(path, json={"turns": TURNS}) if what == "put" else client.delete(path)
        if answer.status_code < 300:
            self.put[session] = what == "put"
            self.asked.discard(session)

    def _until_gone(self, does: Any) -> None:
        with httpx.Client(base_url=self._url, timeout=30, trust_env=False) as client:
            for n in range(10_000):
                try:
                    does(client, n)
                except httpx.TransportError:
                    return


def test_killed_at_any_moment(tmp_path: Path, soak_seed: int) -> None:
    """Sessions that were answered are as they were left, the others whole or absent; jobs end; every memory verifies."""
    folder, random = tmp_path / "memories", Random(soak_seed)
    with serving(folder) as (process, client):
        writers = Writers(str(client.base_url))
        writers.start()
        time.sleep(random.uniform(0.1, 2.0))
        process.kill()
        process.wait()
        writers.join()
    with serving(folder) as (process, client):
        for job in writers.jobs:
            assert ended(client, job)["state"] == "finished"
        for user in client.get("/v1/users").json()["users"]:
            assert client.post(f"/v1/users/{user}/resume").status_code == 200
        process.terminate()
        assert process.wait(60) == 0
    with MemForest(folder, Config(embedder=HashEmbedder(64))) as forest:
        for user in forest.list_users():
            memory = forest.user(user)
            assert memory.verify().ok, user
            assert {one.turns for one in memory.sessions()} <= {len(TURNS)}
        if not writers.put:
            return
        there = {one.session_id for one in forest.user("carl").sessions()}
        for session, is_there in writers.put.items():
            assert session in writers.asked or (session in there) == is_there, session
        assert there <= {*writers.put, *writers.asked}


@pytest.mark.soak
def test_200_clients_that_read_and_write_at_once(tmp_path: Path) -> None:
    """Each gets its own answer, ten times over, and every write that was answered is there."""
    statuses: list[int] = []
    with serving(tmp_path / "memories") as (_process, client):
        client.put("/v1/users/ana/sessions/one", json={"turns": TURNS})
        gate, url = threading.Barrier(200), str(client.base_url)

        def one(n: int) -> None:
            with httpx.Client(base_url=url, timeout=120, trust_env=False) as own:
                gate.wait()
                for at in range(10):
                    if n % 4:
                        answer = own.post("/v1/users/ana/search", json={"question": "How many cats?"})
                    else:
                        answer = own.put(f"/v1/users/u{n % 20}/sessions/{n}-{at}", json={"turns": TURNS})
                    statuses.append(answer.status_code)

        threads = [threading.Thread(target=one, args=(n,)) for n in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (statuses.count(200), statuses.count(201)) == (1500, 500)
        stored = [client.get(f"/v1/users/u{n}/stats").json()["sessions"] for n in range(0, 20, 4)]
        assert sum(stored) == 500
