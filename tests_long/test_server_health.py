"""Tests of what a server tells whoever runs it: alive, ready, numbers without names, and a log without words."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from tests_long.serving import TURNS, app_of, key_of, served

from memforest.config import Config
from memforest.errors import StoreWriteError, WeightsError
from memforest.memory import together
from memforest.models.ledger import Ledger, spent_so_far
from memforest.records import StepUsage
from memforest.server.auth import Principal
from memforest.server.rest import app as operations

SECRETS = ("zebedee", "wardrobe", "marmalade", "periwinkle")


def metrics(text: str) -> dict[str, float]:
    """Read Prometheus's text format."""
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_alive_and_ready(folder: Path) -> None:
    """An empty server is ready, and so is one with a memory, which it opens for that."""
    app = app_of(folder)
    with served(app) as client:
        assert client("GET", "/livez", 200) == {"status": "ok"}
        assert client("GET", "/readyz", 200) == {"status": "ok"}
        client("PUT", "/v1/users/ana/sessions/one", 201, json={"turns": TURNS})
    app = app_of(folder)
    with served(app) as client:
        assert client("GET", "/readyz", 200) == {"status": "ok"}
        assert app.state.access.open_files > 0


def test_ready_without_a_key(folder: Path) -> None:
    """Whoever starts and stops servers has no key for the memories."""
    with served(app_of(folder, {"key": key_of()})) as client:
        client("GET", "/readyz", 200)
        client("GET", "/livez", 200)
        client("GET", "/metrics", 401)


@pytest.mark.parametrize(
    ("fails", "name"),
    [
        (StoreWriteError("/srv/memories is full"), "StoreWriteError"),
        (WeightsError("/usr/lib/x"), "WeightsError"),
    ],
)
def test_not_ready_names_the_class_alone(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: Exception,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What keeps the server from serving is named without a path, in the answer and in the log."""

    def embedder_of(_config: Config) -> None:
        raise fails

    monkeypatch.setattr(together, "embedder_of", embedder_of)
    with served(app_of(folder)) as client:
        response = client._client.get("/readyz")
        assert (response.status_code, response.json()["reason"]) == (503, name)
        assert response.headers["Retry-After"]
        client("GET", "/livez", 200)
    assert name in caplog.text
    assert str(fails) not in caplog.text


def test_a_memory_that_is_none_makes_it_not_ready(folder: Path) -> None:
    """A file that is no memory in the place of one is found."""
    (folder / f"ana-{'0' * 20}.db").write_bytes(b"not a memory" * 500)
    with served(app_of(folder)) as client:
        assert client._client.get("/readyz").status_code == 503


def test_one_memory_that_is_damaged_does_not_make_a_server_unready(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts and stops servers would take it from all the others, whichever is looked at first."""
    with served(app_of(folder)) as client:
        client("PUT", "/v1/users/ana/sessions/one", 201, json={"turns": TURNS})
    damaged = f"ana-{'0' * 20}.db"
    (folder / damaged).write_bytes(b"not a memory" * 500)
    sound = next(one.name for one in folder.glob("ana-*.db") if one.name != damaged)
    for order in ([damaged, sound], [sound, damaged]):
        monkeypatch.setattr(together, "_some", lambda _directory, order=order: order)
        with served(app_of(folder)) as client:
            assert client("GET", "/readyz", 200) == {"status": "ok"}


def test_draining_is_told_at_once_and_takes_no_jobs(folder: Path) -> None:
    """When the server ends, it is not ready, and sessions are not taken in any more."""
    app = app_of(folder)
    with served(app) as client:
        client("GET", "/readyz", 200)
        operations.drain(app)
        assert client._client.get("/readyz").json()["reason"] == "draining"
        client("GET", "/livez", 200)
        client("GET", "/v1/users", 200)  # what is under way goes on
        body = {"sessions": [{"user_id": "ana", "session_id": "s", "turns": TURNS}]}
        client("POST", "/v1/ingest", 503, json=body)


def test_metrics_count_by_route_and_name_nobody(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Requests are counted by the template of their route; no id, path or word is in a metric or in the log."""
    caplog.set_level(logging.INFO, "memforest")
    user, session, word, missing = SECRETS
    with served(app_of(folder)) as client:
        turns = [{"role": "user", "content": f"I like {word}.", "timestamp": "2024-05-01T10:00:00Z"}]
        client("PUT", f"/v1/users/{user}/sessions/{session}", 201, json={"turns": turns})
        client("POST", f"/v1/users/{user}/search", 200, json={"question": f"Who likes {word}?"})
        client._client.get(f"/{missing}/{user}")
        client._client.get(f"/v1/{missing}")
        client._client.request("BREW", f"/v1/users/{user}")
        body = {"sessions": [{"user_id": user, "session_id": session, "turns": turns}]}
        client("POST", "/v1/ingest", 202, json=body)
        text = client._client.get("/metrics").text
        found = metrics(text)
    session_route = "/v1/users/{user_id}/sessions/{session_id}"
    assert found[f'memforest_http_requests_total{{method="PUT",route="{session_route}",status="201"}}'] == 1
    assert found[f'memforest_http_request_seconds_count{{route="{session_route}"}}'] == 1
    assert found['memforest_http_requests_total{method="GET",route="unmatched",status="404"}'] == 2
    assert not any("BREW" in name for name in found)
    assert found["memforest_open_files"] > 0
    assert (
        sum(value for name, value in found.items() if re.match(r"memforest_jobs(_ended_total)?\{", name)) >= 1
    )
    assert f"PUT {session_route} 201" in caplog.text
    for secret in (*SECRETS, str(folder)):
        assert secret not in text
        assert secret not in caplog.text


def test_metrics_take_a_key_of_the_server_itself(folder: Path) -> None:
    """Numbers of all tenants are for an admin of none of them."""
    keys = {
        "admin": key_of("admin"),
        "reads": key_of("read"),
        "tenant": Principal(tenant="t"),
        "user": key_of("admin", user="ana"),
    }
    with served(app_of(folder, keys)) as client:
        for key, status in (("admin", 200), ("reads", 403), ("tenant", 403), ("user", 403)):
            assert client._client.get("/metrics", headers={"X-API-Key": key}).status_code == status


def test_what_models_cost_is_counted_once_for_the_process(folder: Path) -> None:
    """A part's ledger counts in the whole one, and both count once in the metrics, by step."""
    before = spent_so_far().get("extract", StepUsage())
    whole = Ledger()
    part = whole.part()
    part.record("extract", part.admit("extract", 5), StepUsage(calls=1, prompt_tokens=5, completion_tokens=2))
    whole.add("extract", StepUsage(calls=1, prompt_tokens=10))
    spent = spent_so_far()["extract"].minus(before)
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens) == (2, 15, 2)
    with served(app_of(folder)) as client:
        found = metrics(client._client.get("/metrics").text)
    total = spent_so_far()["extract"]
    assert found['memforest_model_calls_total{step="extract"}'] == total.calls
    assert found['memforest_model_tokens_total{kind="prompt",step="extract"}'] == total.prompt_tokens


def test_each_app_has_numbers_of_its_own(folder: Path) -> None:
    """Two apps in one process count apart."""
    with served(app_of(folder / "a")) as one, served(app_of(folder / "b")) as two:
        one("GET", "/livez", 200)
        name = 'memforest_http_requests_total{method="GET",route="/livez",status="200"}'
        assert metrics(one._client.get("/metrics").text)[name] == 1
        assert name not in metrics(two._client.get("/metrics").text)
