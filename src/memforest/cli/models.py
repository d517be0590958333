"""The checks of `memforest doctor` on models behind endpoints: which, where, and on request whether they answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from memforest.chat_steps import registered_steps
from memforest.config import Config
from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError, ModelError
from memforest.models import OpenAIChat, OpenAIEmbedder
from memforest.models.base import ChatRequest, Message
from memforest.models.openai_client import Target
from memforest.steps.llm.prompt import load_prompt

Status = Literal["ok", "note", "broken"]

TRIAL_TIMEOUT_S = 30.0
"""One try of at most so long: who asks whether a model answers wants to know it soon."""
TRIAL_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. ``"broken"`` stops work; ``"note"`` makes it worse."""

    name: str
    status: Status
    detail: str
    fix: str = ""


def chat_checks(config: Config, *, connect: bool) -> Iterator[Check]:
    """Say which chat models do which steps, never with a key; with `connect`, ask each of them for a word."""
    chat = config.chat
    if chat is None:
        yield Check("chat model", "ok", "none: every step is local")
    if not isinstance(chat, ChatEndpoint):
        return
    steps: dict[tuple[str | None, str], list[str]] = {}
    for step in config.chat_steps:
        own = chat.for_step(step)
        steps.setdefault((own.base_url, own.model), []).append(step)
    yield from _steps(config)
    for done in steps.values():
        endpoint = chat.for_step(done[0])
        work = "every step" if len(steps) == 1 else ", ".join(done)
        try:
            detail = f"{_described(endpoint, 'chat')}, for {work}"
            if connect:
                detail += f"; {asyncio.run(_reply(endpoint, done[0]))}"
        except ModelError as exc:
            yield Check("chat model", "broken", f"{endpoint.model}, for {work}", str(exc))
        else:
            yield Check("chat model", "ok", detail)


def _steps(config: Config) -> Iterator[Check]:
    """Say what the chat model does in each step and by which prompts, and whether these can be read."""
    for step in registered_steps():
        if step.name not in config.chat_steps:
            continue
        try:
            prompts = ", ".join(f"{id}@{load_prompt(id).version}" for id in step.prompts)
        except ConfigError as exc:
            yield Check("step", "broken", f"{step.name}: {step.does}", f"install its package again: {exc}")
        else:
            yield Check("step", "ok", f"{step.name}: {step.does} ({prompts})")


def embedding_checks(config: Config, *, connect: bool) -> Iterator[Check]:
    """Say which endpoint embeds, if one does; with `connect`, let it embed a word."""
    endpoint = config.embedder
    if not isinstance(endpoint, EmbeddingEndpoint):
        return
    try:
        detail = f"take {_described(endpoint, 'embeddings')}"
        if connect:
            detail += f"; {asyncio.run(_vector(endpoint))}"
    except ModelError as exc:
        yield Check("new memories", "broken", endpoint.model, str(exc))
    else:
        yield Check("new memories", "ok", detail)


def _described(endpoint: ChatEndpoint | EmbeddingEndpoint, section: str) -> str:
    target = Target.of(endpoint, section)
    key = "with a key" if endpoint.api_key else "without a key"
    if endpoint.base_url is None and not endpoint.api_key:
        key = "with the key of OPENAI_API_KEY"
    return f"{endpoint.model} at {target.address}, {key}"


async def _reply(endpoint: ChatEndpoint, step: str) -> str:
    chat = OpenAIChat(replace(endpoint, max_retries=0, timeout_s=min(endpoint.timeout_s, TRIAL_TIMEOUT_S)))
    ask = ChatRequest(step, (Message("user", "Reply with the word: ready"),), max_tokens=TRIAL_TOKENS)
    started = time.perf_counter()
    try:
        await chat.complete(ask)
    finally:
        await chat.close()
    return f"it answers ({time.perf_counter() - started:.1f} s)"


async def _vector(endpoint: EmbeddingEndpoint) -> str:
    embedder = OpenAIEmbedder(
        replace(endpoint, max_retries=0, timeout_s=min(endpoint.timeout_s, TRIAL_TIMEOUT_S))
    )
    started = time.perf_counter()
    try:
        await embedder.embed(["memory"])
    finally:
        await embedder.close()
    return f"it answers ({embedder.dimension} numbers a text, {time.perf_counter() - started:.1f} s)"
