"""REST, users: registered, found, listed, merged and deleted."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.serving import Client, app_of, key_of, served, told

from memforest.server.rest.routing import SCOPES


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A client of an app without memories."""
    with served(app_of(folder)) as made:
        yield made


def test_a_user_is_registered_once(client: Client) -> None:
    """201 when it is new, 200 when it is there; 409 when the caller says that it must not be."""
    response = client.raw("PUT", "/v1/users/a%2Fb", json={"display_name": "Ana"})
    assert (response.status_code, response.json()) == (201, {"user_id": "a/b"})
    assert response.headers["location"] == "/v1/users/a%2Fb"
    client("PUT", "/v1/users/a%2Fb", 200)
    client("PUT", "/v1/users/a%2Fb", 409, json={"load_existing": False})
    client("PUT", "/v1/users/new", 201, json={"load_existing": False})


def test_the_name_of_a_user_is_who_speaks(client: Client) -> None:
    """An unnamed turn of theirs is by the display name."""
    client("PUT", "/v1/users/u1", 201, json={"display_name": "Ana"})
    told(client, "u1")
    assert client("GET", "/v1/users/u1/sessions/first", 200)["turns"][0]["speaker"] == "Ana"


def test_who_has_a_memory(client: Client) -> None:
    """They are listed by id; to ask makes nobody a memory."""
    assert client("GET", "/v1/users", 200)["users"] == []
    problem = client("GET", "/v1/users/ana", 404)
    assert problem["type"] == "urn:memforest:error:NotFoundError"
    assert client("GET", "/v1/users", 200)["users"] == []
    for user in ("bob", "ana"):
        client("PUT", f"/v1/users/{user}", 201)
    assert sorted(client("GET", "/v1/users", 200)["users"]) == ["ana", "bob"]
    assert client("GET", "/v1/users/ana", 200) == {"user_id": "ana"}


def test_a_user_is_deleted(client: Client) -> None:
    """With all files; a dry run counts them, and the user may begin anew."""
    told(client)
    dry = client("DELETE", "/v1/users/ana?dry_run=true", 200)
    assert (dry["dry_run"], dry["gone"]["turns"]) == (True, 4)
    client("GET", "/v1/users/ana", 200)
    assert client("DELETE", "/v1/users/ana", 200)["gone"]["files"] >= 1
    client("GET", "/v1/users/ana", 404)
    client("DELETE", "/v1/users/ana", 404)
    told(client)


def test_a_user_is_merged_into_another(client: Client) -> None:
    """The other stays; a dry run only says what would be done."""
    told(client, "ana")
    told(client, "anna")
    body = {"from_user": "anna", "same_person": True}
    dry = client("POST", "/v1/users/ana/merge", 200, json={**body, "dry_run": True})
    assert dry["dry_run"] is True
    done = client("POST", "/v1/users/ana/merge", 200, json=body)
    assert done["user_id"] == "anna"
    assert done["sessions_same"] + done["sessions_added"] == 2
    client("GET", "/v1/users/anna", 200)
    client("POST", "/v1/users/ana/merge", 404, json={"from_user": "nobody"})
    client("POST", "/v1/users/ana/merge", 422, json={"from_user": "ana"})


def test_no_directory_of_the_server_is_named(client: Client) -> None:
    """The option of `merge` that is a path is none here."""
    problem = client("POST", "/v1/users/ana/merge", 422, json={"from_user": "bob", "directory": "/tmp"})
    assert problem["errors"][0]["pointer"] == "/body/directory"


def test_users_are_merged_into_a_new_one(client: Client) -> None:
    """The sums are told, and what each brought."""
    told(client, "ana")
    told(client, "bob")
    body = {"source_user_ids": ["ana", "bob"], "target_user_id": "both", "same_person": False}
    done = client("POST", "/v1/merge_user_forests", 200, json=body)
    assert done["source_user_ids"] == ["ana", "bob"]
    assert done["sessions_added"] == sum(one["sessions_added"] for one in done["merged"])
    assert client("GET", "/v1/users/both/stats", 200)["turns"] >= 4
    client("POST", "/v1/merge_user_forests", 422, json={**body, "source_user_ids": ["ana", "ana"]})


@pytest.mark.parametrize(
    ("scope", "method", "path", "body"),
    [
        ("read", "GET", "", None),
        ("read", "GET", "/facts", None),
        ("read", "POST", "/search", {"question": "Where?"}),
        ("write", "POST", "/messages", {"content": "Hello there."}),
        ("write", "PUT", "", {}),
        ("write", "POST", "/flush", {}),
        ("delete", "DELETE", "/sessions/first", None),
        ("delete", "POST", "/delete", {"session_id": "second"}),
        ("delete", "DELETE", "", None),
        ("admin", "POST", "/verify", {}),
        ("admin", "POST", "/repair", None),
        ("admin", "POST", "/rebuild", {}),
        ("admin", "PUT", "/indexes/flat", {}),
    ],
)
def test_what_a_key_allows(folder: Path, scope: str, method: str, path: str, body: object) -> None:
    """Each route needs its scope, and no other one will do."""
    scopes = ("read", "write", "delete", "admin")
    keys = {
        "all": key_of(),
        "one": key_of(scope),  # type: ignore[arg-type]  # one of them
        "others": key_of(*(one for one in scopes if one != scope)),  # type: ignore[arg-type]  # likewise
    }
    with served(app_of(folder, keys)) as client:
        client("PUT", "/v1/users/ana", 201, headers={"X-API-Key": "all"})
        turns = [{"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01"}]
        for name in ("first", "second"):
            url = f"/v1/users/ana/sessions/{name}"
            client("PUT", url, 201, json={"turns": turns}, headers={"X-API-Key": "all"})
        more = {} if body is None else {"json": body}
        client(method, f"/v1/users/ana{path}", 403, headers={"X-API-Key": "others"}, **more)
        client(method, f"/v1/users/ana{path}", 200, headers={"X-API-Key": "one"}, **more)


def test_every_operation_needs_the_scope_that_the_document_names(folder: Path) -> None:
    """And no other one will do; what needs none says nothing of anybody."""
    every = ("read", "write", "delete", "admin")
    keys = {scope: key_of(scope) for scope in every}  # type: ignore[arg-type]  # each is one
    open_to_all, asked = set(), 0
    with served(app_of(folder, keys)) as client:
        for path, methods in client.document["paths"].items():
            for method, one in methods.items():
                if SCOPES not in one:
                    open_to_all.add(one["operationId"])
                    continue
                enough = set(every) & set(re.split(r"\W+", one[SCOPES].partition(", of a key")[0]))
                url = (
                    path.replace("{job_id}", "0" * 32)
                    .replace("{name}", "flat")
                    .replace("{user_id}", "nobody")
                )
                more: dict[str, Any] = {"json": {}} if "requestBody" in one else {}
                for scope in every:
                    headers = {"X-API-Key": scope}
                    answer = client.raw(method.upper(), url, headers=headers, **more)
                    assert (answer.status_code == 403) is (scope not in enough), (one["operationId"], scope)
                    asked += 1
    assert open_to_all == {"livez", "readyz"}
    assert asked > 200


def test_users_come_in_pages(client: Client) -> None:
    """By a cursor, each once; a cursor of another list is refused."""
    for n in range(5):
        client("PUT", f"/v1/users/u{n}", 201)
    found, cursor = [], ""
    while True:
        page = client("GET", f"/v1/users?limit=2{cursor}", 200)
        found += page["users"]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(found) == [f"u{n}" for n in range(5)]
    told(client)
    other = client("GET", "/v1/users/ana/facts?limit=1", 200)["next_cursor"]
    client("GET", f"/v1/users?cursor={other}", 422)
    client("GET", "/v1/users?cursor=nonsense", 422)


def test_who_the_users_are_takes_the_scope_admin(folder: Path) -> None:
    """A key that may read one who is named does not learn who there is; a key of one user sees that one."""
    keys = {
        "reads": key_of("read"),
        "runs": key_of("admin"),
        "ana": key_of("read", user="ana"),
        "writes": key_of("write"),
    }
    with served(app_of(folder, keys)) as client:
        client("PUT", "/v1/users/ana", 201, headers={"X-API-Key": "writes"})
        client("GET", "/v1/users/ana", 200, headers={"X-API-Key": "reads"})
        problem = client("GET", "/v1/users", 403, headers={"X-API-Key": "reads"})
        assert "'admin'" in problem["detail"]
        for name in ("runs", "ana"):
            assert client("GET", "/v1/users", 200, headers={"X-API-Key": name})["users"] == ["ana"]
