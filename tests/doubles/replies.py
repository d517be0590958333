"""Replies to memforest's own model-guided steps, made by its local rules: valid, sensible and deterministic.

The step is known by the name of the schema that is asked for, else by how the prompt begins; the data is read out
of its blocks, and what a rule makes of it is written in the step's own schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tests.doubles import rules

from memforest.endpoint import STEPS
from memforest.ports import ChatRequest
from memforest.reading.prompts import Prompt, load_prompt

RULES: dict[str, Callable[[str], Any]] = {
    "extract": rules.extraction,
    "judge": rules.judgement,
    "summarise": rules.summary,
    "plan": rules.guide,
    "browse": rules.choice,
    "answer": rules.answer,
    "sift": rules.sifted,
}
"""Name of a step -> from the message with the data to a `Reply`. A test that registers a step puts its own here."""
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
    return NO_RULE if step not in RULES else _made(str(step), _data(request))


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
    starts = _starts(tuple(STEPS))
    return next((step for text in first for step, start in starts if text.startswith(start)), None)


def prompt_of(request: Mapping[str, Any] | ChatRequest) -> str | None:
    """Return the id of memforest's prompt that a request is made with ("extract", "timem_day", ...), None if with none.

    Example:
        >>> from memforest.reading.prompts import load_prompt
        >>> prompt_of(ChatRequest("judge", load_prompt("judge").messages(questions=[])))
        'judge'
    """
    first = (*_texts(request)[:1], "")[0]
    return _ids(tuple(STEPS)).get(first)


@lru_cache(maxsize=8192)
def _made(step: str, data: str) -> str:
    """Return the reply, remembered: benchmarks ask the same again and again, and a rule takes milliseconds."""
    return str(RULES[step](data).to_json())


def _data(request: Mapping[str, Any] | ChatRequest) -> str:
    """Return the message that holds the data: the second one; what follows it belongs to a repair."""
    return (*_texts(request)[1:2], "")[0]


def _texts(request: Mapping[str, Any] | ChatRequest) -> list[str]:
    if isinstance(request, ChatRequest):
        return [message.content for message in request.messages]
    return [str(message.get("content", "")) for message in request.get("messages", ())]


def all_prompts() -> list[Prompt[Any]]:
    """Return the prompts of all registered steps, in the order of the steps, then of their ids."""
    return [load_prompt(id) for step in STEPS.values() for id in sorted(step.prompts)]


@lru_cache(maxsize=4)
def _starts(steps: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the step and the first line of every prompt of some steps."""
    return tuple((one.step, one.system.strip().splitlines()[0]) for one in all_prompts() if one.step in steps)


@lru_cache(maxsize=4)
def _ids(steps: tuple[str, ...]) -> Mapping[str, str]:
    """Return the id of every prompt of some steps by its first message."""
    return {one.first.content: one.id for one in all_prompts() if one.step in steps}
