"""The OpenAPI 3.1 document of the app: what FastAPI makes of the routes, and what it cannot know; and the same as a page.

It shows one answer of each operation, from a run of the app (``make docs`` writes them anew).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader

from memforest.read.results import Evidence
from memforest.server.auth import KEY_HEADER
from memforest.server.rest.problems import MEDIA_TYPE
from memforest.server.rest.routing import SCOPES, can_fail

FILE = "examples.json"
EVENT = (
    "id: 1\r\nevent: progress\r\n"
    'data: {"id": "5f2c9d3e8a7b4c1d9e0f1a2b3c4d5e6f", "state": "running", "sessions": 2, "done": 1}\r\n\r\n'
)
METRICS = 'memforest_http_requests_total{method="GET",route="/livez",status="200"} 1.0\n'
_TEXTS = {"text/event-stream": EVENT, "text/plain": METRICS}


def add_examples(document: dict[str, Any]) -> None:
    """Add examples of answers to the operations of a document."""
    answers = json.loads((files("memforest.server.rest") / FILE).read_text(encoding="utf-8"))
    for methods in document["paths"].values():
        for operation in methods.values():
            own = answers.get(operation["operationId"], {})
            for status, response in operation["responses"].items():
                for kind, content in response.get("content", {}).items():
                    if status in own and kind == "application/json":
                        content["examples"] = {"example": {"value": own[status]}}
                    elif kind in _TEXTS:
                        content["examples"] = {"example": {"value": _TEXTS[kind]}}


DESCRIPTION = """Long-term memory for LLM agents: turns, facts and their times.

Errors are problems (RFC 9457). Times are ISO 8601 with an offset. Percent-encode ids in paths, a slash as `%2F`."""

TAGS = {
    "users": "The users who have a memory.",
    "sessions": "Conversations and their turns.",
    "messages": "Add single messages.",
    "asking": "Evidence and answers.",
    "facts": "Facts, their history and their correction.",
    "timeline": "States and events in time order.",
    "trees": "Summaries, from the root down.",
    "entities": "People, places and things, and their relations.",
    "profiles": "Profiles of participants and other entities.",
    "changes": "What changed since a time, or between two times.",
    "upkeep": "Counts, checks and rebuilding.",
    "indexes": "The indexes of a memory.",
    "jobs": "Ingest many sessions in the background.",
    "health": "Health and metrics of the server.",
    "transfer": "Export and import of a whole memory.",
}

SECURITY: dict[str, dict[str, str]] = {
    "APIKeyHeader": {
        "type": "apiKey",
        "in": "header",
        "name": KEY_HEADER,
        "description": "a key from `memforest keys create`",
    },
    "HTTPBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "a key, or a token of the configured issuer",
    },
}
"""How a caller may authenticate; one of them is enough."""

_EXTRA = {
    "VerifyReport": {"ok": {"type": "boolean", "description": "nothing is wrong"}},
    "RepairReport": {"ok": {"type": "boolean", "description": "nothing is wrong now"}},
    "ForestMergeResult": {
        "source_user_ids": {"type": "array", "items": {"type": "string"}},
        **{name: {"type": "integer"} for name in ("sessions_added", "facts_inserted", "facts_merged")},
        "summaries_copied": {"type": "integer"},
        "elapsed_sec": {"type": "number"},
    },
}
"""What results say beside their fields; see their `to_dict`."""


_BRIEF: dict[str, Collection[str]] = {
    "Evidence": {one.name for one in fields(Evidence)}
    - {"text", "speaker", "kind", "score", "said", "start", "sources"},
    "QueryResult": {"plan", "trace"},
    "AskResult": {"result"},
}
"""What results leave out that were not asked to `explain`: see `Evidence.brief`."""


def install(app: FastAPI) -> None:
    """Make an app serve this document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI has it done


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an app."""
    made = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description=DESCRIPTION,
        routes=app.routes,
    )
    operations = [one for path in made["paths"].values() for one in path.values()]
    used = {tag for one in operations for tag in one.get("tags", ())}
    made["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in used]
    made["info"]["license"] = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, methods in made["paths"].items():
        for one in methods.values():
            _only_problems(path, one)
    made["components"]["securitySchemes"] = SECURITY
    for one in operations:
        _as_json(one)
        if "401" in one["responses"]:
            one["security"] = [{name: []} for name in SECURITY]
    asked = _reached((one.get("requestBody") for one in operations), schemas)
    told = _reached((one["responses"] for one in operations), schemas)
    for name in told - asked - {"ProblemDetails"}:
        _whole(name, schemas[name])
    add_examples(made)
    return made


def _only_problems(path: str, operation: dict[str, Any]) -> None:
    """Describe every error of an operation as a problem, and add those that every route may answer."""
    found = operation["responses"]
    if path.startswith("/v1"):
        for status, response in can_fail(body="requestBody" in operation).items():
            kept = {key: one for key, one in response.items() if key != "model"}
            found.setdefault(str(status), kept)
    for status, response in found.items():
        content = response.get("content", {})
        is_default = "HTTPValidationError" in str(content)
        if status[0] in "45" and (MEDIA_TYPE in content or is_default):
            schema = {"$ref": "#/components/schemas/ProblemDetails"}
            response["content"] = {MEDIA_TYPE: {"schema": schema}}


def _as_json(operation: dict[str, Any]) -> None:
    """Describe JSON parameters by their schema, and event streams by that of an event."""
    for response in operation["responses"].values():
        if "text/event-stream" in response.get("content", {}):
            response["content"]["text/event-stream"] = {
                "schema": {"description": "an event: id, event, data"}
            }
    for one in operation.get("parameters", ()):
        schema = one.get("schema", {})
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:  # nothing in a URL or a header is null: what may be is left out
            del schema["anyOf"]
            schema.update(kinds[0])
        kind = schema.pop("contentMediaType", None)
        if kind is not None:
            del one["schema"]
            one["content"] = {kind: {"schema": {"type": "object"}}}


def _reached(parts: Any, schemas: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that parts of the document refer to."""
    found: set[str] = set()
    queue = list(parts)
    while queue:
        part = queue.pop()
        if isinstance(part, list):
            queue += part
        elif isinstance(part, dict):
            queue += part.values()
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                queue.append(schemas[name])
    return found


def _whole(name: str, schema: dict[str, Any]) -> None:
    """Mark all fields of a result as required."""
    if "properties" in schema:
        schema["properties"].update(_EXTRA.get(name, {}))
        schema["required"] = [one for one in schema["properties"] if one not in _BRIEF.get(name, ())]
        for one in schema["properties"].values():
            one.pop("default", None)


POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Of the page, which holds nothing that anybody has sent."""

docs_routes = APIRouter(include_in_schema=False)


@docs_routes.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Show the document as a page, for people; nothing of it is loaded from elsewhere."""
    made = request.app.openapi()
    tags = {tag["name"]: {**tag, "operations": []} for tag in made["tags"]}
    for path, methods in made["paths"].items():
        for method, one in methods.items():
            tags[one["tags"][0]]["operations"].append(_shown(path, method, one, made))
    environment = Environment(loader=PackageLoader("memforest.server.rest", ""), autoescape=True)
    page = environment.get_template("docs.html").render(info=made["info"], tags=tags.values())
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})


def _shown(path: str, method: str, one: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation as the page has it."""
    about, _, more = one.get("description", "").partition("\n\n")
    parameters = [
        _field(each["name"], each.get("schema", {}), each.get("required", False), each.get("description", ""))
        for each in one.get("parameters", ())
    ]
    body = _resolved(_schema(one.get("requestBody", {})), document)
    options = [
        _field(name, schema, name in body.get("required", ()), schema.get("description", ""))
        for name, schema in body.get("properties", {}).items()
    ]
    examples = [
        each["value"]
        for status, response in one["responses"].items()
        for kind in response.get("content", {}).values()
        for each in kind.get("examples", {}).values()
        if status < "3"
    ]
    return {
        "id": one["operationId"],
        **{"method": method.upper(), "path": path, "about": about, "more": more, "scope": one.get(SCOPES)},
        "takes": [(name, some) for name, some in (("Parameters", parameters), ("Body", options)) if some],
        "example": json.dumps(examples[0], indent=1, ensure_ascii=False) if examples else "",
        "statuses": [(status, each["description"]) for status, each in one["responses"].items()],
    }


def _field(name: str, schema: Mapping[str, Any], required: bool, about: str) -> dict[str, Any]:
    return {"name": name, "type": _type(schema), "required": required, "about": about}


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if arms := [_type(one) for one in schema.get("anyOf", ()) if one != {"type": "null"}]:
        return " or ".join(dict.fromkeys(arms))
    kind = str(schema.get("format") or schema.get("type", "any"))
    return f"list of {_type(schema.get('items', {}))}" if kind == "array" else kind


def _schema(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((one.get("schema", {}) for one in holder.get("content", {}).values()), {})


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or the one that it refers to, alone or as the one that may be left out."""
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            found: Mapping[str, Any] = document["components"]["schemas"][one["$ref"].rpartition("/")[2]]
            return found
    return schema
