"""REST, the document of the app and docs/serving.md: they say of every route what it is.

``MEMFOREST_WRITE_DOCS=1`` writes the tables of the page anew (`make docs`).
"""

from __future__ import annotations

import html
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from jsonschema import Draft202012Validator
from tests_long.serving import app_of, served

from memforest import AsyncMemForest, errors
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import options_of
from memforest.server.auth import told_of
from memforest.server.rest.openapi import _BRIEF
from memforest.server.rest.problems import title_of
from memforest.server.rest.routing import SCOPES
from memforest.settings import MAX_ID_CHARS, MAX_PAGE, MAX_TOP_K, ROLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "serving.md"
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ
METHODS = ("get", "put", "post", "patch", "delete")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of the app."""
    return app_of(tmp_path_factory.mktemp("forest")).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return path, method and operation of every route below ``/v1``."""
    for path, methods in document["paths"].items():
        if path.startswith("/v1/"):
            yield from ((path, method, methods[method]) for method in METHODS if method in methods)


def test_operations_are_named_as_in_python(document: dict[str, Any]) -> None:
    """After a verb of the forest or of a handle, each once; what is no verb is named here."""
    names = [one["operationId"] for _, _, one in operations(document)]
    assert len(names) == len(set(names))
    jobs = {"ingest", "list_jobs", "get_job", "cancel_job", "watch_job"}
    verbs = {name for kind in (AsyncMemForest, AsyncUserMemory) for name, _ in inspect.getmembers(kind)}
    assert set(names) - verbs == jobs | {"context", "delete_fact"}


def test_every_verb_has_a_route_or_a_reason(document: dict[str, Any]) -> None:
    """The page names those that have none."""
    names = {one["operationId"] for _, _, one in operations(document)}
    text = PAGE.read_text(encoding="utf-8")
    for kind in (AsyncMemForest, AsyncUserMemory):
        for verb, _ in inspect.getmembers(kind, inspect.iscoroutinefunction):
            if not verb.startswith("_") and verb not in names:
                same = {"query": "search", "users": "list_users", "delete_all": "delete_user"}
                told = same.get(verb) in names or f"`{verb}`" in text or verb == "ingest_parallel"
                assert told, f"{verb} has no route, and docs/serving.md does not say why"


ELSEWHERE = {
    "export": {"target", "overwrite"},  # the answer is the file
    "import_": {"source"},  # the body is
    "merge": {"directory"},  # a path of the server
    "add": {"idempotency_key"},  # a header
    "ingest_session": {"idempotency_key"},
}
"""Verb -> options that have another place than their name; functions have none at all."""


def test_every_option_is_there_by_its_name(document: dict[str, Any]) -> None:
    """With the default that it has in Python; pages are of 50 where Python gives all."""
    found = {one["operationId"]: _options(one, document) for _, _, one in operations(document)}
    for kind in (AsyncMemForest, AsyncUserMemory):
        for verb, one in inspect.getmembers(kind, inspect.iscoroutinefunction):
            functions = {"self", "progress", "on_progress", "options"}
            for name, option in inspect.signature(one).parameters.items() if verb in found else ():
                if name in functions | ELSEWHERE.get(verb, set()):
                    continue
                assert name in found[verb], f"{verb} has no option {name}"
                default = found[verb][name]
                if option.default not in (None, option.empty, ()) and (verb, name) != ("list", "offset"):
                    assert default == option.default, f"{verb}({name}=...) is {default!r} when not given"
    for verb in ("search", "ask", "context"):
        assert set(options_of(AsyncUserMemory.search).model_fields) - {"question"} <= set(found[verb])


def _options(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the names of what an operation takes, each with what it is when it is not given."""
    made = {one["name"]: one.get("schema", {}).get("default") for one in operation.get("parameters", ())}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        for schema in (content["schema"], *content["schema"].get("anyOf", ())):
            name = schema.get("$ref", "").rpartition("/")[2]
            for field, told in document["components"]["schemas"].get(name, {}).get("properties", {}).items():
                made[field] = told.get("default")
    return made


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    """It has one tag that is explained, words of its own, and a key that it needs."""
    tags = {one["name"] for one in document["tags"]}
    for path, method, one in operations(document):
        assert len(one["tags"]) == 1, (method, path)
        assert set(one["tags"]) <= tags
        assert one["description"].endswith("."), (method, path)
        assert one["security"], (method, path)


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    """Of its media type and schema; what every route may answer is there."""
    for path, method, one in operations(document):
        found = one["responses"]
        assert {"401", "403", "404", "422", "423", "429", "500", "503"} <= set(found), (method, path)
        assert ("415" in found) == ("requestBody" in one), (method, path)
        for status, response in found.items():
            if status[0] in "45":
                assert list(response["content"]) == ["application/problem+json"], (method, path, status)
        assert "Retry-After" in found["429"]["headers"]
        assert "WWW-Authenticate" in found["401"]["headers"]


def test_schemas_have_the_limits_of_the_core(document: dict[str, Any]) -> None:
    """From the one place where they are."""
    schemas = document["components"]["schemas"]
    [top_k] = [one for one in schemas["SearchBody"]["properties"]["top_k"]["anyOf"] if one["type"] != "null"]
    assert (top_k["minimum"], top_k["maximum"]) == (1, MAX_TOP_K)
    [role] = [one for one in schemas["Message"]["properties"]["role"]["anyOf"] if one["type"] != "null"]
    assert role["enum"] == sorted(ROLES)
    listed = document["paths"]["/v1/users/{user_id}/facts"]["get"]["parameters"]
    limits = {one["name"]: one.get("schema", {}) for one in listed}
    assert limits["limit"]["maximum"] == MAX_PAGE
    assert limits["user_id"]["maxLength"] == MAX_ID_CHARS


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    """Every one that the document shows."""
    found = 0
    for schema in document["components"]["schemas"].values():
        for example in schema.get("examples", ()):
            whole = {**schema, "components": document["components"]}
            Draft202012Validator(whole).validate(example)
            found += 1
    assert found >= 6


def test_results_are_whole(document: dict[str, Any]) -> None:
    """A result always has all of its fields, and the schema says so; but what only explains an answer is left out of it."""
    schemas = document["components"]["schemas"]
    for name in ("IngestResult", "FactPage", "Stats", "VerifyReport"):
        assert schemas[name]["required"] == list(schemas[name]["properties"]), name
    optional = {name: set(schemas[name]["properties"]) - {*schemas[name]["required"]} for name in _BRIEF}
    assert optional["QueryResult"] == {"plan", "trace"}
    assert {"scores", "path", "end", "relevance"} < optional["Evidence"]


def test_nothing_of_fastapi_is_left(document: dict[str, Any]) -> None:
    """Its own form of errors is not ours."""
    assert "HTTPValidationError" not in str(document)
    assert document["openapi"].startswith("3.1")


def test_the_routes_have_a_page(tmp_path: Path, document: dict[str, Any]) -> None:
    """`/docs` names every operation with its parameters, runs no script, and loads nothing."""
    with served(app_of(tmp_path)) as client:
        response = client.raw("GET", "/docs")
    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    page = response.text
    for path, _, one in operations(document):
        assert f'<details id="{one["operationId"]}">' in page
        assert html.escape(path) in page
        for parameter in one.get("parameters", ()):
            assert f"<code>{parameter['name']}</code>" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert "<code>min_relevance</code>" in page, "options of bodies too"


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *rest = ("| " + " | ".join(row) + " |\n" for row in rows)
    return head + "|" + " --- |" * len(rows[0]) + "\n" + "".join(rest)


def _routes(document: dict[str, Any]) -> str:
    rows: list[tuple[str, ...]] = [("route", "operation", "scope", "what it does")]
    for path, method, one in sorted(operations(document), key=lambda found: (found[2]["tags"], found[0])):
        words = one["description"].split("\n")[0]
        shown = path.replace("/v1/users/{user_id}", "…")
        rows.append((f"`{method.upper()} {shown}`", f"`{one['operationId']}`", one[SCOPES], words))
    return "`…` is `/v1/users/{user_id}`.\n\n" + _table(rows)


def _errors() -> str:
    rows: list[tuple[str, ...]] = [("type", "status", "what it means")]
    for name in errors.__all__:
        kind = getattr(errors, name)
        status, _ = told_of(kind)
        shown = f"{status}, 507 of a full disk" if name == "StoreWriteError" else str(status)
        rows.append((f"`{name}`", shown, f"{title_of(kind)}."))
    return _table(rows)


@pytest.mark.parametrize("name", ["routes", "errors"])
def test_the_page_has_the_tables(document: dict[str, Any], name: str) -> None:
    """Every route and every error; `make docs` writes them anew."""
    expected = _routes(document) if name == "routes" else _errors()
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name}: .*? -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)
    assert found is not None
    if WRITE and found[1] != expected:
        PAGE.write_text(text[: found.start(1)] + expected + text[found.end(1) :], encoding="utf-8")
    else:
        assert found[1] == expected, "run `make docs`"
