"""Questions: evidence, answers, and context for a prompt."""

from __future__ import annotations

from fastapi import Response

from memforest.memory.results import AskResult, QueryResult
from memforest.rest.answers import Context, answer
from memforest.rest.bodies import AskBody, ContextBody, SearchBody
from memforest.rest.params import Memory
from memforest.rest.routing import operation, strict_router

router = strict_router("asking", "/v1/users/{user_id}")


@router.post("/search", **operation("search", QueryResult, "read", body=True))
async def search(memory: Memory, body: SearchBody) -> Response:
    """Return ranked evidence for a question, best first; the same for the same state and arguments."""
    return answer(await memory.search(**body.options()))


@router.post("/ask", **operation("ask", AskResult, "read", body=True))
async def ask(memory: Memory, body: AskBody) -> Response:
    """Answer a question from the best evidence, with citations, or abstain: `answer` is null then, and `reason` says why."""
    return answer(await memory.ask(**body.options()))


@router.post("/context", **operation("context", Context, "read", body=True))
async def context(memory: Memory, body: ContextBody) -> Response:
    """Return evidence for a question as text for a prompt, as much as fits into `max_tokens`."""
    given = body.options()
    given.pop("max_tokens", None)
    given.pop("statements", None)
    found = await memory.search(**given)
    text = found.context(body.max_tokens, statements=body.statements)
    return answer({"context": text, "warnings": found.warnings})
