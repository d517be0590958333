"""The model ports: embedders, rerankers and chat models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["ChatModel", "ChatReply", "ChatRequest", "Embedder", "Message", "Reranker", "Vectors"]

Vectors = NDArray[np.float32]
"""float32, shape (n, dimension), rows of unit length."""


class Embedder(Protocol):
    """Maps texts to unit vectors. A text's vector depends on the text alone, never on its company."""

    model_id: str
    """Identity stored beside every vector, e.g. ``"minilm-l6-v2-int8@8199be6f"``."""
    dimension: int

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order.

        Raises:
            ModelError: if the model cannot be used.
        """
        ...


class Reranker(Protocol):
    """Reads a question and a text together and says how well the text answers it."""

    model_id: str
    """Identity shown in traces, e.g. ``"ms-marco-minilm-l12-int8@1225ccd6"``."""

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one finite number per text, in order, higher is better; float64 of shape (n,).

        A text's score depends on the question and the text alone, never on its company. Only differences
        between the scores of one call are used, so any scale will do.

        Raises:
            ModelError: if the model cannot be used.
        """
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a step asks a chat model.

    `step` names the step ("extract", "judge", "summarise", "plan", "browse", "answer"). The first message is
    the same for all requests of a step, so that servers can keep its prefix. `schema` is the JSON schema of the
    reply, None when plain text is wanted; `max_tokens` bounds the reply.
    """

    step: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a chat model returned.

    `finish` is ``"length"`` when the reply was cut at `max_tokens`. `cached_tokens` are those prompt tokens
    that the server had kept. `retries` counts how often the call was tried again before it succeeded.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    finish: Literal["stop", "length"] = "stop"
    retries: int = 0


class ChatModel(Protocol):
    """Answers chat requests; safe to call many times at once, from any event loop."""

    model_id: str
    """Recorded with everything that is made with its replies, e.g. ``"qwen3-30b"``."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Raises:
            ModelUnavailableError: if the model cannot be reached, after retries.
            ModelRefusedError: if no call to the model can succeed until a setting is mended.
            ModelRequestError: if this request is not accepted.
        """
        ...
