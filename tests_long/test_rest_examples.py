"""REST, the examples of the document: every operation has one of what it is sent and of what it answers, as it answers.

``MEMFOREST_WRITE_DOCS=1`` asks an app anew and writes what it says (`make docs`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from jsonschema import Draft202012Validator, FormatChecker
from tests_long.serving import LATER, TURNS, Client, app_of, as_text, served

from memforest.server.rest import openapi

FILE = Path(openapi.__file__).with_name(openapi.FILE)
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ
MOST = 2
"""Items of a list that an example shows."""
ANA = "/v1/users/ana"
SENT = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of the app."""
    return app_of(tmp_path_factory.mktemp("forest")).openapi()


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return every operation."""
    for methods in document["paths"].values():
        yield from methods.values()


def examples_of(content: dict[str, Any], document: dict[str, Any]) -> list[Any]:
    """Return the examples of a content, which are there or at its schema."""
    own = list(content.get("examples", {}).values())
    found = [
        document["components"]["examples"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for one in own
    ]
    values = [one["value"] for one in found]
    for schema in (content["schema"], *content["schema"].get("anyOf", ())):
        name = schema.get("$ref", "").rpartition("/")[2]
        values += document["components"]["schemas"].get(name, schema).get("examples", [])
    return values


def fits(example: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    """Fail unless an example fits its schema."""
    whole = {**schema, "components": document["components"]}
    Draft202012Validator(whole, format_checker=FormatChecker()).validate(example)


@pytest.mark.skipif(not WRITE, reason="`make docs` does it")
def test_examples_are_written(folder: Path) -> None:
    """From a run of the app, sorted by operation and status."""
    found: dict[str, dict[str, Any]] = {}
    with served(app_of(folder, retention="3650 days", indexes=("memforest", "timem"))) as client:
        for name, status, body in asked(client):
            found.setdefault(name, {}).setdefault(str(status), shortened(body))
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    """Which fits its schema; a file has none."""
    found = 0
    for one in operations(document):
        for kind, content in one.get("requestBody", {}).get("content", {}).items():
            if kind == "application/json":
                shown = examples_of(content, document)
                assert shown, one["operationId"]
                for example in shown:
                    fits(example, content["schema"], document)
                found += 1
    assert found > 20


def test_every_answer_has_an_example(document: dict[str, Any]) -> None:
    """Which fits its schema; a whole memory has none, and a problem is told by its schema."""
    found = 0
    for one in operations(document):
        for status, response in one["responses"].items():
            for kind, content in response.get("content", {}).items():
                if kind in ("application/octet-stream", "application/problem+json"):
                    continue
                shown = examples_of(content, document)
                assert shown, (one["operationId"], status, kind)
                if kind.endswith("json"):
                    for example in shown:
                        fits(example, content["schema"], document)
                found += 1
    assert found >= 60


def test_no_example_names_a_place(document: dict[str, Any]) -> None:
    """They are of a run of the app; nothing of where it ran is in them."""
    assert str(Path.home()) not in as_text(document)
    assert "/tmp" not in as_text(document)


def asked(client: Client) -> Iterator[tuple[str, int, Any]]:
    """Use a memory, and give what each operation answered: its name, the status, the body."""

    def ask(name: str, method: str, path: str, status: int, **more: Any) -> tuple[str, int, Any]:
        return name, status, client(method, path, status, **more)

    def post(
        name: str, path: str, body: Any = None, status: int = 200, method: str = "POST"
    ) -> tuple[str, int, Any]:
        return ask(name, method, path, status, **({} if body is None else {"json": body}))

    def get(name: str, path: str) -> tuple[str, int, Any]:
        return ask(name, "GET", path, 200)

    for status in (201, 200):
        yield post("register_user", "/v1/users/bob", {"display_name": "Bob"}, status, "PUT")
    for status in (201, 200):
        yield post("ingest_session", f"{ANA}/sessions/first", {"turns": TURNS}, status, "PUT")
    client("PUT", f"{ANA}/sessions/second", 201, json={"turns": LATER})
    yield post("add", f"{ANA}/messages", {"content": "My brother Bob works at Initech."})
    yield get("list_users", "/v1/users")
    yield get("has_user", ANA)
    yield get("sessions", f"{ANA}/sessions?limit=1")
    yield get("turns", f"{ANA}/sessions/first")
    for name in ("search", "ask", "context"):
        yield post(name, f"{ANA}/{name}", {"question": "Where does Ana live?", "top_k": 2})
    yield from over_time(get, post)
    yield from facts(client, ask, get, post)
    yield from upkeep(ask, get, post)
    yield from jobs(get, post)
    file = client.raw("GET", f"{ANA}/export").content
    yield ask("import_", "POST", "/v1/users/copy/import", 200, content=file, headers=SENT)
    told = {"turns": [{"speaker": "Bob", "content": "I work at Initech.", "timestamp": "2024-05-02"}]}
    client("PUT", "/v1/users/bob/sessions/own", 201, json=told)
    yield post("merge", f"{ANA}/merge", {"from_user": "bob", "same_person": False, "dry_run": True})
    both = {
        "source_user_ids": ["bob"],
        "target_user_id": "ana",
        "same_person": False,
        "dry_run": True,
    }
    yield post("merge_user_forests", "/v1/merge_user_forests", both)
    yield ask("delete_user", "DELETE", f"{ANA}?dry_run=true", 200)
    for name in ("livez", "readyz"):
        yield get(name, f"/{name}")
    yield "readyz", 503, {"status": "unavailable", "reason": "draining"}


def over_time(get: Any, post: Any) -> Iterator[tuple[str, int, Any]]:
    """What was so when."""
    yield get("timeline", f"{ANA}/timeline/ana?attribute=residence")
    yield get("tree", f"{ANA}/trees?scope=first&depth=1")
    yield get("entities", f"{ANA}/entities?limit=2")
    yield get("relations", f"{ANA}/relations/Bob")
    yield get("path", f"{ANA}/path?a=ana&b=Initech")
    yield get("graph", f"{ANA}/graph")
    yield post("profile", f"{ANA}/profile", {"participant": "ana"})
    yield get("changes", f"{ANA}/changes?since=2024-01-01&limit=2")
    yield get("diff", f"{ANA}/diff?a=2024-05-02&b=2024-05-30")


def facts(client: Client, ask: Any, get: Any, post: Any) -> Iterator[tuple[str, int, Any]]:
    """Statements, and their correction and deletion."""
    yield get("list", f"{ANA}/facts?limit=1")
    ids = [one["fact_id"] for one in client("GET", f"{ANA}/facts", 200)["facts"]]
    yield get("get", f"{ANA}/facts/{ids[0]}")
    yield ask("delete_fact", "DELETE", f"{ANA}/facts/{ids[0]}?dry_run=true", 200)
    made = post("update", f"{ANA}/facts/{ids[0]}", {"text": "Ana lives in Porto."}, method="PATCH")
    yield made
    yield get("history", f"{ANA}/facts/{ids[0]}/history")
    yield post("undo", f"{ANA}/corrections/{made[2]['key']}/undo")
    for name in ("pin", "forget"):
        yield post(name, f"{ANA}/facts/{ids[1]}/{name}")
    yield post("remember", f"{ANA}/facts", {"statement": "Ana's gym is Corehouse."})
    yield post("delete", f"{ANA}/delete", {"entity": "Bob", "dry_run": True})
    yield ask("delete_session", "DELETE", f"{ANA}/sessions/first?dry_run=true", 200)
    yield ask("delete_turn", "DELETE", f"{ANA}/sessions/first/turns/0?dry_run=true", 200)
    yield post("merge_entities", f"{ANA}/entities/merge", {"a": "Bob", "b": "Initech"})
    yield get("entity_choices", f"{ANA}/entities/choices")
    yield post("split_entity", f"{ANA}/entities/split", {"entity": "Bob", "name": "Initech"})


def upkeep(ask: Any, get: Any, post: Any) -> Iterator[tuple[str, int, Any]]:
    """The state of a memory, and what is made anew."""
    yield get("stats", f"{ANA}/stats")
    yield post("verify", f"{ANA}/verify", {"deleted": ["Springfield"]})
    yield post("repair", f"{ANA}/repair")
    client_body = {
        "turns": [{"role": "user", "content": "I play chess.", "timestamp": "2024-05-21"}],
        "defer": True,
    }
    post("ingest_session", f"{ANA}/sessions/late", client_body, 201, "PUT")
    yield post("resume", f"{ANA}/resume")
    yield post("flush", f"{ANA}/flush")
    yield post("rebuild", f"{ANA}/rebuild", {"stale": True})
    yield get("stale", f"{ANA}/stale")
    yield post("expire", f"{ANA}/expire", {"dry_run": True})
    yield post("add_index", f"{ANA}/indexes/flat", method="PUT")
    yield get("indexes", f"{ANA}/indexes")
    yield post("advance", f"{ANA}/advance")


def jobs(get: Any, post: Any) -> Iterator[tuple[str, int, Any]]:
    """Ingest jobs."""
    session = {"user_id": "ana", "session_id": "job", "turns": [{**TURNS[0], "content": "I have a boat."}]}
    made = post("ingest", "/v1/ingest", {"sessions": [session]}, 202)
    yield made
    yield get("get_job", f"/v1/jobs/{made[2]['id']}")
    yield get("list_jobs", "/v1/jobs")
    yield post("cancel_job", f"/v1/jobs/{made[2]['id']}/cancel")


def shortened(value: Any) -> Any:
    """Return a result with what differs between runs in round numbers, and of each list its first items."""
    if isinstance(value, list):
        return [shortened(one) for one in value[:MOST]]
    if isinstance(value, dict):
        return {
            key: {} if key == "ms" else 4096 if key == "bytes" else shortened(one)
            for key, one in value.items()
        }
    return round(value, 3) if isinstance(value, float) else value
