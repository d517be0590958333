"""What REST promises beside the verbs: problems, statuses, pages, keys, jobs, and a document that says it all."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from tests.contract.drivers import ROUTES, USER_ROUTE, CliSurface, Refused, RestSurface, route
from tests.contract.surfaces import STORY, Served, tell

httpx = pytest.importorskip("httpx")
jsonschema = pytest.importorskip("jsonschema")

pytestmark = pytest.mark.timeout(180)  # the first test of all waits for a server to start, on a busy machine

Keyed = tuple[Served, dict[str, str]]
PROBLEM = "application/problem+json"
TURN = {"role": "user", "content": "I live in Bergen.", "timestamp": "2024-03-04T09:00:00Z"}
MOST_BYTES = 10_000_000


def is_problem(response: Any, status: int, kind: str | None = None) -> bool:
    """Return whether a response is a whole problem of a status, and of an error where one is named."""
    if response.status_code != status or not response.headers["content-type"].startswith(PROBLEM):
        return False
    body = response.json()
    whole = body["status"] == status and all(body[name] for name in ("type", "title", "detail"))
    return bool(whole and (kind is None or body["type"] == f"urn:memforest:error:{kind}"))


@pytest.fixture(scope="session")
def mara(rest: RestSurface) -> str:
    """A user who has told the story."""
    return tell(rest, "mara of rest")


@pytest.fixture(scope="session")
def document(http: Any) -> Any:
    """What the server says of itself."""
    return http.get(route("document")).json()


def test_what_is_wrong_is_a_problem(http: Any, rest: RestSurface, mara: str) -> None:
    """Each refusal is application/problem+json with its status, names the error, and no path of the server."""
    json_type = {"Content-Type": "application/json"}
    search, messages, facts = (route(one, mara) for one in ("search", "add", "list_facts"))
    table: list[tuple[int, str | None, str, str, dict[str, Any]]] = [
        (404, None, "GET", "/v1/nosuch", {}),
        (405, None, "PUT", search, {"json": {}}),
        (415, None, "POST", search, {"content": b"question=x"}),
        (422, "InputError", "POST", search, {"content": b'{"question": ', "headers": json_type}),
        (422, "InputError", "POST", search, {"content": b'"\xff"', "headers": json_type}),
        (422, "InputError", "POST", search, {"json": {}}),
        (422, "InputError", "POST", search, {"json": {"question": "x", "nosuch": 1}}),
        (422, "InputError", "POST", search, {"json": {"question": ["x"]}}),
        (
            422,
            "InputError",
            "POST",
            search,
            {"content": b'{"question": "x", "question": "y"}', "headers": json_type},
        ),
        (422, "InputError", "GET", f"{facts}?nosuch=1", {}),
        (422, "InputError", "GET", f"{facts}?limit=1&limit=2", {}),
        (422, "InputError", "GET", f"{facts}?limit=0", {}),
        (422, "InputError", "GET", route("user", "\x00"), {}),
        (
            422,
            "InputError",
            "POST",
            messages,
            {"json": {"content": TURN}, "headers": {"Idempotency-Key": "k" * 1025}},
        ),
        (422, "TimestampError", "POST", messages, {"json": {"content": {**TURN, "timestamp": "the fair"}}}),
        (404, "NotFoundError", "GET", route("user", "nobody at all"), {}),
        (404, "NotFoundError", "DELETE", route("user", "nobody at all"), {}),
        (404, "NotFoundError", "GET", route("job", job_id="nosuch"), {}),
        (413, None, "POST", messages, {"content": b"x" * (MOST_BYTES + 1), "headers": json_type}),
    ]
    wrong = []
    for status, kind, method, url, more in table:
        response = http.request(method, url, **more)
        named = str(rest.directory) in response.text or "Traceback" in response.text
        if named or not is_problem(response, status, kind):
            wrong.append((method, url, status, response.status_code, response.text[:300]))
    assert not wrong


def test_a_wrong_field_is_pointed_at(http: Any, rest: RestSurface, mara: str) -> None:
    """A problem has a pointer for each field that is wrong."""
    body = {"question": 7, "top_k": 0, "as_of": "2024-01-01"}
    found = http.post(route("search", mara), json=body).json()["errors"]
    pointers = " ".join(json.dumps(one) for one in found)
    assert "question" in pointers
    assert "top_k" in pointers
    assert "as_of" not in pointers


def test_a_session_is_put(http: Any, rest: RestSurface, user: str) -> None:
    """New is 201, the same again 200, a longer one is added to, another one 409, and replace overwrites."""
    url = route("session", user, session_id="spring")
    other = {**TURN, "content": "I live in Narvik."}
    grown = [TURN, {**TURN, "content": "I own a boat.", "timestamp": "2024-03-04T09:05:00Z"}]
    assert http.put(url, json={"turns": [TURN]}).status_code == 201
    again = http.put(url, json={"turns": [TURN]})
    assert (again.status_code, again.json()["turns_added"]) == (200, 0)
    assert http.put(url, json={"turns": grown}).json()["turns_added"] == 1
    assert is_problem(http.put(url, json={"turns": [other]}), 409, "SessionConflictError")
    assert [one["text"] for one in rest.turns(user, "spring")["turns"]] == [one["content"] for one in grown]
    assert http.put(url, json={"turns": [other], "replace": True}).status_code == 200
    assert [one["text"] for one in rest.turns(user, "spring")["turns"]] == ["I live in Narvik."]


def test_a_body_that_is_too_large_stores_nothing(http: Any, rest: RestSurface, user: str) -> None:
    """It is refused also when it does not say how large it is."""

    def parts() -> Any:
        yield b'{"content": "'
        for _ in range(11):
            yield b"x" * 1_000_000
        yield b'"}'

    url = route("add", user)
    response = http.post(url, content=parts(), headers={"Content-Type": "application/json"})
    assert is_problem(response, 413)
    assert http.get(route("user", user)).status_code == 404


def test_a_memory_that_is_being_written_is_423(keyed: Keyed) -> None:
    """While another process holds it, a write is told when to come again; it is done afterwards, and reads go on."""
    served, keys = keyed
    [file] = served.directory.glob("ana-*.db")
    with httpx.Client(base_url=served.url, headers={"X-API-Key": keys["ana"]}, trust_env=False) as client:
        write = {"json": {"content": TURN, "session_id": "locked"}}
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            held = client.post(route("add", "ana"), **write)
            assert client.post(route("search", "ana"), json={"question": "Bergen"}).status_code == 200
            other.execute("ROLLBACK")
        assert is_problem(held, 423, "StoreLockedError")
        assert int(held.headers["Retry-After"]) > 0
        assert client.post(route("add", "ana"), **write).json()["turns_added"] == 1


def test_only_pages_of_this_machine(http: Any, rest: RestSurface, user: str) -> None:
    """Without keys a page of another site reads and writes nothing, and a name of its own for this machine is no help."""
    url, write = route("add", user), {"json": {"content": TURN}}
    foreign = http.post(url, headers={"Origin": "https://elsewhere.example"}, **write)
    rebound = http.post(url, headers={"Host": "elsewhere.example"}, **write)
    assert (foreign.status_code, rebound.status_code) == (403, 421)
    assert http.get(route("user", user)).status_code == 404
    response = http.get(route("users"))
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in response.headers["Cache-Control"]


def test_the_document_is_valid_and_names_every_route(document: Any) -> None:
    """OpenAPI 3.1: schemas are schemas, references lead somewhere, ids are unique, and what the driver calls is there."""
    assert document["openapi"].startswith("3.1")
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    said = json.dumps(document)
    names = {part.partition('"')[0] for part in said.split('"#/components/schemas/')[1:]}
    assert names <= set(document["components"]["schemas"])
    operations = {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    ids = [one["operationId"] for one in operations.values()]
    assert len(ids) == len(set(ids))
    wanted = {
        (one.name.partition(" ")[0], USER_ROUTE + one.name.partition(" ")[2]) for one in ROUTES.values()
    }
    assert not wanted - set(operations)
    for call in ROUTES.values():
        method, _, path = call.name.partition(" ")
        assert operations[method, USER_ROUTE + path]["responses"]["422"]["content"].keys() == {PROBLEM}


def test_answers_are_as_the_document_says(http: Any, rest: RestSurface, mara: str, document: Any) -> None:
    """Bodies of responses fit their schemas, and every time in them has an offset."""
    [fact, *_] = rest.list_facts(mara)["facts"]
    fill = {"entity": "Mara", "fact_id": fact["fact_id"], "session_id": "spring"}
    query = {"since": "2024-01-01", "a": "2024-04-01", "b": "2024-12-01"}
    body = {"question": "Where does Mara live?"}
    checked = 0
    for verb, call in ROUTES.items():
        method, _, path = call.name.partition(" ")
        if verb in ("export", "verify") or not (
            method == "GET" or verb in ("search", "ask", "context", "profile")
        ):
            continue
        where = route(verb, mara, **{key: one for key, one in fill.items() if f"{{{key}}}" in path})
        params = {name: one for name, one in query.items() if name in call.names}
        response = http.request(
            method, where, params=params, **({"json": body} if "question" in call.names else {})
        )
        operation = document["paths"][USER_ROUTE + path][method.lower()]
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        whole = {**schema, "components": document["components"]}
        assert response.status_code == 200, (verb, response.text)
        jsonschema.Draft202012Validator(whole).validate(response.json())
        assert not [one for one in times_in(response.json()) if one[-6] not in "+-" and one[-1] != "Z"], verb
        checked += 1
    assert checked > 10


def times_in(value: Any) -> list[str]:
    """Return the times in a body."""
    if isinstance(value, dict):
        named = [
            one for name, one in value.items() if name in ("said", "start", "end", "at", "stored") and one
        ]
        return [one for one in named if isinstance(one, str)] + times_in(list(value.values()))
    return [time for one in value for time in times_in(one)] if isinstance(value, list) else []


def test_pages_to_the_end_give_each_once(http: Any, rest: RestSurface, user: str) -> None:
    """Also while something is added; limits are kept, and a cursor of one list is refused by another."""
    turns = [
        {
            "role": "user",
            "speaker": f"Guest {n}",
            "content": f"I own {n + 2} boats.",
            "timestamp": f"2024-03-{n + 1:02}",
        }
        for n in range(7)
    ]
    for n, turn in enumerate(turns):
        rest.add(user, f"s{n}", [turn])
    rest.add(
        user, "s0", [{**one, "id": f"more {n}", "timestamp": "2024-03-09"} for n, one in enumerate(turns)]
    )
    at = route("user", user)
    for url, name in (
        (f"{at}/facts", "facts"),
        (f"{at}/sessions", "sessions"),
        (f"{at}/sessions/s0", "turns"),
        (f"{at}/entities", "entities"),
        ("/v1/users", "users"),
    ):
        found, cursor, pages = [], None, 0
        while cursor is not None or not pages:
            page = http.get(url, params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
            found += [json.dumps(one) for one in page[name]]
            assert len(page[name]) <= 3
            cursor, pages = page["next_cursor"], pages + 1
        whole = http.get(url, params={"limit": 1000}).json()
        assert found == [json.dumps(one) for one in whole[name]]
        assert len(set(found)) == len(found), name
        assert pages > 2 or name == "users", name  # of whom there are as many as other tests have made
    cursor = http.get(route("list_facts", user), params={"limit": 3}).json()["next_cursor"]
    assert is_problem(http.get(route("sessions", user), params={"cursor": cursor}), 422, "InputError")


def test_changes_go_on_behind_the_last_one(rest: RestSurface, mara: str) -> None:
    """The feed is read page by page, in order, each change once."""
    found, after = [], None
    while True:
        page = rest.changes(mara, "2024-01-01", limit=4, **({"after": after} if after else {}))
        found += page["changes"]
        after = page["next"]
        if after is None:
            break
    assert found == rest.changes(mara, "2024-01-01", limit=1000)["changes"]
    assert len(found) == 9  # three sessions, six facts
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)


def test_an_export_is_a_stream_of_records(http: Any, rest: RestSurface, mara: str) -> None:
    """It comes in parts, a record a line, and HEAD tells of it without a body."""
    with http.stream("GET", route("export", mara)) as response:
        assert response.status_code == 200
        lines = [json.loads(line) for line in response.iter_lines() if line]
    assert sum(one.get("record") == "turn" for one in lines) == sum(len(one) for one in STORY.values())
    head = http.head(route("list_facts", mara))
    assert (head.status_code, head.content) == (200, b"")
    allowed = http.options(route("list_facts", mara)).headers["Allow"]
    assert {"GET", "HEAD"} <= set(allowed.replace(" ", "").split(","))


def test_a_dry_run_counts_and_deletes_nothing(http: Any, rest: RestSurface, user: str) -> None:
    """The counts are those of the deletion that then follows."""
    tell(rest, user)
    before, url = rest.stats(user), route("session", user, session_id="spring")
    counted = http.delete(url, params={"dry_run": True}).json()
    assert rest.stats(user) == before
    done = http.delete(url).json()
    assert counted["gone"] == done["gone"]
    assert rest.stats(user)["turns"] == before["turns"] - done["gone"]["turns"]
    assert is_problem(http.delete(url), 404, "NotFoundError")


def test_an_ingest_job_ends(http: Any, user: str, rest: RestSurface) -> None:
    """Sessions are taken at once, what is wrong is named, the job tells how it goes, and what it made is found."""
    good = {"user_id": user, "session_id": "spring", "turns": STORY["spring"]}
    bad = {"user_id": user, "session_id": "bad", "turns": [{**TURN, "timestamp": "the fair"}]}
    request = {"json": {"sessions": [good, bad]}, "headers": {"Idempotency-Key": f"job of {user}"}}
    taken = http.post(route("ingest"), **request)
    assert taken.status_code == 202
    job = taken.json()
    with http.stream("GET", route("watch", job_id=job["id"])) as stream:
        events = [line.partition(": ")[2] for line in stream.iter_lines() if line.startswith("event: ")]
    assert [*{*events[:-1]}, events[-1]] in (["ended"], ["progress", "ended"])
    ended = http.get(taken.headers["Location"]).json()
    assert (ended["state"], ended["received"], ended["done"]) == ("finished", 1, 1)
    assert [one["error"] for one in ended["refused"]] == ["TimestampError"]
    assert rest.search(user, "Where does Mara live?")["evidence"][0]["text"] == "I live in Bergen."
    assert http.post(route("ingest"), **request).json()["id"] == job["id"]
    assert job["id"] in [one["id"] for one in http.get(route("jobs")).json()["jobs"]]
    assert http.post(route("cancel", job_id=job["id"])).json()["state"] == "finished"


def test_a_deferred_session_is_read_later(http: Any, rest: RestSurface, user: str) -> None:
    """It is stored and found by its words when the request is answered; what is to be learnt from it, `resume` makes."""
    url = route("session", user, session_id="spring")
    done = http.put(url, json={"turns": STORY["spring"], "defer": True}).json()
    assert (done["turns_added"], done["deferred"]) == (2, True)
    assert rest.search(user, "Bergen")["evidence"][0]["text"] == "I live in Bergen."
    assert rest.stats(user) == {"sessions": 1, "turns": 2, "facts": 0}
    assert http.post(route("resume", user)).status_code == 200
    assert rest.stats(user)["facts"] == 2


def test_health_and_numbers(http: Any, mara: str, user: str) -> None:
    """The process says that it lives and is ready; its numbers name routes and no user."""
    assert http.get(route("alive")).status_code == 200
    assert http.get(route("ready")).status_code == 200
    http.post(route("add", user), json={"content": TURN})
    numbers = http.get(route("numbers")).text
    assert USER_ROUTE in numbers
    assert not [one for one in (mara, user, "Bergen") if f'"{one}' in numbers]


def test_the_log_says_nothing_of_anybody(http: Any, rest: RestSurface, server: Served, user: str) -> None:
    """A line for each request, without users, texts, ids and keys."""
    rest.add(user, "plovermere", [{**TURN, "content": "I live in Gannetsby."}])
    with pytest.raises(Refused):
        rest.turns(user, "gannetsby")
    http.get(route("users"), headers={"X-API-Key": "mfk_sandpiper"})
    log = server.log.read_text(encoding="utf-8")
    assert USER_ROUTE in log
    words = (user, "plovermere", "gannetsby", "sandpiper", str(server.directory))
    assert not [one for one in words if one.lower() in log.lower()]


def test_commands_work_beside_the_server(rest: RestSurface, server: Served, user: str) -> None:
    """What a command writes, corrects or deletes in the server's directory, the server sees at once, and keeps no word of it."""
    cli, marker = CliSurface(server.directory), "plimbucket"
    rest.add(user, "one", [{**TURN, "content": f"I own a {marker}.", "speaker": "Mara"}])
    assert cli.list_facts(user) == rest.list_facts(user)
    cli.add(user, "two", STORY["summer"])
    assert rest.ask(user, "Where does Mara live?") == cli.ask(user, "Where does Mara live?")
    cli.delete_session(user, "one")
    assert [one["session_id"] for one in rest.sessions(user)["sessions"]] == ["two"]
    files = [one for one in server.directory.rglob("*") if one.is_file()]
    assert not [one.name for one in files if marker.encode() in one.read_bytes()]
    cli.delete_user(user)
    with pytest.raises(Refused):
        rest.turns(user, "two")


ALLOWED: list[tuple[str, str, str, dict[str, Any] | None]] = [
    ("read", "POST", route("search", "ana"), {"question": "Where does Ana live?"}),
    ("read", "GET", route("list_facts", "ana"), None),
    ("read", "GET", route("export", "ana"), None),
    ("write", "POST", route("add", "ana"), {"content": TURN, "session_id": "by a key"}),
    ("write", "PUT", route("session", "ana", session_id="put"), {"turns": [TURN]}),
    ("delete", "DELETE", route("session", "ana", session_id="put"), None),
    ("admin", "GET", route("users"), None),
    ("admin", "POST", route("verify", "ana"), None),
]
"""The scope that a request needs."""


def test_each_scope_allows_its_own(keyed: Keyed) -> None:
    """What a key's scope allows is done, everything else is 403, and no scope includes another."""
    served, keys = keyed
    wrong = []
    with httpx.Client(base_url=served.url, trust_env=False, timeout=30) as client:
        for needed, method, url, body in ALLOWED:
            for scope in sorted(("read", "write", "delete", "admin"), key=lambda one: one == needed):
                headers = {"Authorization": f"Bearer {keys[scope]}"}
                response = client.request(method, url, headers=headers, json=body)
                if scope == needed and response.status_code >= 300:
                    wrong.append((method, url, scope, response.text))
                if scope != needed and not is_problem(response, 403, "ForbiddenError"):
                    wrong.append((method, url, scope, response.status_code))
    assert not wrong


def test_who_has_no_key_is_told_nothing(keyed: Keyed) -> None:
    """The key comes first: without one every request is 401, whatever its body or address, in the same words."""
    served, keys = keyed
    large = b"x" * (MOST_BYTES - 1)
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", route("user", "ana"), {}),
        ("GET", route("user", "nobody"), {}),
        ("POST", route("search", "ana"), {"content": b"no JSON"}),
        ("POST", route("search", "ana"), {"json": {"nosuch": 1}}),
        (
            "POST",
            route("add", "ana"),
            {"content": large, "headers": {"Content-Type": "application/json"}},
        ),
        ("GET", route("list_facts", "ana") + "?limit=0", {}),
        ("GET", route("numbers"), {}),
    ]
    near = keys["all"][:-1] + ("0" if keys["all"][-1] != "0" else "1")
    said, wrong = set(), []
    with httpx.Client(base_url=served.url, trust_env=False, timeout=30) as client:
        for method, url, more in asked:
            response = client.request(method, url, **more)
            if not is_problem(response, 401, "UnauthenticatedError"):
                wrong.append((method, url, response.text))
        for headers in ({"X-API-Key": near}, {"Authorization": f"Bearer {near}"}, {"X-API-Key": "ana"}):
            response = client.get(route("user", "ana"), headers=headers)
            assert is_problem(response, 401, "UnauthenticatedError")
            said.add(response.text)
        assert client.get(route("alive")).status_code == 200
    assert not wrong
    assert len(said) == 1


def test_what_is_somebody_elses_is_not_there(keyed: Keyed) -> None:
    """A key of one user, or of another tenant, is answered as if there were no such memory, in the same words."""
    served, keys = keyed
    asked = [(method, name) for name in ("session", "user") for method in ("GET", "DELETE")]
    with httpx.Client(base_url=served.url, trust_env=False, timeout=30) as client:
        mine = {"headers": {"X-API-Key": keys["all"]}}
        for user in ("ana", "kept"):
            client.post(route("add", user), json={"content": TURN, "session_id": "first"}, **mine)
        for key, whose in (("tenant", "kept"), ("ana", "kept")):
            headers = {"X-API-Key": keys[key]}
            for method, name in asked:
                part = {"session_id": "first"} if name == "session" else {}
                there = client.request(method, route(name, whose, **part), headers=headers)
                nowhere = client.request(method, route(name, "xyz", **part), headers=headers)
                assert is_problem(there, 404, "NotFoundError"), (key, name, there.text)
                assert there.text.replace(f"'{whose}'", "'xyz'") == nowhere.text, (key, name)
            found = client.post(route("search", whose), json={"question": "Bergen"}, headers=headers)
            assert "Bergen" not in json.dumps(found.json().get("evidence", []))
        listed = client.get(route("users"), headers={"X-API-Key": keys["tenant"]}).json()["users"]
        assert "kept" not in listed
        assert client.get(route("users"), headers={"X-API-Key": keys["ana"]}).json()["users"] == ["ana"]
        assert client.get(route("list_facts", "ana"), **mine).json()["facts"]
        assert client.get(route("list_facts", "kept"), **mine).json()["facts"]
