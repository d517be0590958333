"""What the document shows of answers: one of each operation and status, and a problem of each status.

The answers are those of a run of the app; ``make docs`` writes them anew.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from memforest import errors
from memforest.rest.problems import MEDIA_TYPE, WrongField, answer_of, http_problem, problem_of

FILE = "examples.json"
EVENT = (
    "id: 1\r\nevent: received\r\n"
    'data: {"at": "2026-03-02T09:00:00+00:00", "turns": 1, "sessions": 1, "received": 1, "done": 0, "chunks": 0, '
    '"chunks_done": 0, "chunks_failed": 0}\r\n\r\n'
)
METRICS = 'memforest_http_requests_total{method="GET",route="/livez",status="200"} 1.0\n'
_TEXTS = {"text/event-stream": EVENT, "text/plain": METRICS}


def _problems() -> dict[int, dict[str, Any]]:
    """Return status -> a problem of it."""
    wrong = WrongField(pointer="/body/top_k", detail="Input should be less than or equal to 1000")
    made = (
        http_problem(400, "the connection ended before the body did"),
        answer_of(errors.UnauthenticatedError("no valid key or token came with the request")),
        answer_of(errors.ForbiddenError("this needs a key with the scope write")),
        answer_of(errors.NotFoundError("there is no session 'monday'")),
        answer_of(errors.SessionConflictError("turn 0 of session 'monday' is stored otherwise")),
        http_problem(408, "the body did not come in time"),
        http_problem(413, "the body has more than 10,000,000 bytes; send it in parts"),
        http_problem(415, "the body must be JSON, with Content-Type: application/json"),
        problem_of(errors.InputError, f"{wrong.pointer}: {wrong.detail}", [wrong]),
        answer_of(errors.StoreLockedError("")),
        answer_of(errors.RateLimitError("too many requests; try again in 5 s", retry_after_s=5.0)),
        http_problem(500, "the server met an error that it did not expect; its log says where"),
        answer_of(errors.ModelUnavailableError("")),
        answer_of(errors.StoreWriteError("database or disk is full")),
    )
    return {one.status_code: json.loads(bytes(one.body)) for one in made}


def add_examples(document: dict[str, Any]) -> None:
    """Add to a document what its operations answer."""
    answers = json.loads((files("memforest.rest") / FILE).read_text(encoding="utf-8"))
    problems = _problems()
    shown = document["components"].setdefault("examples", {})
    for methods in document["paths"].values():
        for operation in methods.values():
            own = answers.get(operation["operationId"], {})
            for status, response in operation["responses"].items():
                for kind, content in response.get("content", {}).items():
                    if kind == MEDIA_TYPE and int(status) in problems:
                        name = f"problem-{status}"
                        shown[name] = {"value": problems[int(status)]}
                        content["examples"] = {name: {"$ref": f"#/components/examples/{name}"}}
                    elif status in own and kind == "application/json":
                        content["examples"] = {"example": {"value": own[status]}}
                    elif kind in _TEXTS:
                        content["examples"] = {"example": {"value": _TEXTS[kind]}}
