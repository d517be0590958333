"""Replies to memforest's own model-guided steps, made by its local rules: valid, sensible and deterministic.

The step is known by the name of the schema that is asked for, else by how the prompt begins; the data is read out
of its blocks, and what a rule makes of it is written in the step's own schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from memforest.endpoint import STEPS
from memforest.models.base import ChatRequest
from memforest.steps.llm.prompt import prompt_data
from memforest.testing.rules import RULES

__all__ = ["local_reply", "step_of"]

NO_RULE = "There is no rule here for what you ask."


def local_reply(request: Mapping[str, Any] | ChatRequest) -> str:
    """Return the reply to a request of one of memforest's steps; a sentence of regret to any other request.

    Args:
        request: the parsed body of a chat request, for `ChatServer`, or a `ChatRequest`, for `FunctionChat`.

    Example:
        >>> local_reply({"messages": [{"role": "user", "content": "Hello!"}]})
        'There is no rule here for what you ask.'
    """
    step = step_of(request)
    return NO_RULE if step not in RULES else _made(step, _data(request))


def step_of(request: Mapping[str, Any] | ChatRequest) -> str | None:
    """Return which of memforest's steps a request comes from ("extract", "judge", ...), None if from none."""
    if isinstance(request, ChatRequest):
        return request.step
    wanted = request.get("response_format")
    schema = wanted.get("json_schema") if isinstance(wanted, Mapping) else None
    name = schema.get("name") if isinstance(schema, Mapping) else None
    if name in STEPS:
        return str(name)
    first = _texts(request)[:1]
    return next((step for text in first for step, start in _starts() if text.startswith(start)), None)


@lru_cache(maxsize=8192)
def _made(step: str, data: str) -> str:
    """Return the reply, remembered: benchmarks ask the same again and again, and a rule takes milliseconds."""
    return RULES[step](data).to_json()


def _data(request: Mapping[str, Any] | ChatRequest) -> str:
    """Return the message that holds the data: the second one; what follows it belongs to a repair."""
    return (*_texts(request)[1:2], "")[0]


def _texts(request: Mapping[str, Any] | ChatRequest) -> list[str]:
    if isinstance(request, ChatRequest):
        return [message.content for message in request.messages]
    return [str(message.get("content", "")) for message in request.get("messages", ())]


@lru_cache(maxsize=1)
def _starts() -> tuple[tuple[str, str], ...]:
    """Return every prompt's step and how it begins: its first line."""
    names = (file.name for file in (resources.files("memforest") / "prompts").iterdir())
    prompts = [prompt_data(name.removesuffix(".toml")) for name in sorted(names) if name.endswith(".toml")]
    return tuple(
        (str(prompt["step"]), str(prompt["system"]).strip().splitlines()[0])
        for prompt in prompts
        if "system" in prompt
    )
