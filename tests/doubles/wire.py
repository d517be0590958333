"""The shapes of OpenAI's HTTP interface, as far as memforest speaks it: requests read, replies written.

Source: https://platform.openai.com/docs/api-reference (chat completions, embeddings, models, errors).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.doubles.listener import HttpReply

from memforest.models.base import Vectors
from memforest.text import CHARS_PER_TOKEN, count_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What the endpoint answers to a chat request.

    `completion_tokens` overrides the estimate, for the usage and for the latency. With a `status` of 400 or more
    the reply is an error whose message is `text`. `headers` are added to the HTTP reply.
    """

    text: str
    finish: Literal["stop", "length", "content_filter"] = "stop"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered, as OpenAI says it."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None


_ERROR_TYPES = {
    401: "invalid_request_error",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
}


def json_reply(
    value: Any,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    sent_share: float | None = None,
) -> HttpReply:
    """Return a value as the JSON of an HTTP reply."""
    body = json.dumps(value, separators=(",", ":")).encode("ascii")
    return HttpReply(status, body, {"content-type": "application/json", **(headers or {})}, sent_share)


def refusal_reply(refusal: Refusal, headers: Mapping[str, str] | None = None) -> HttpReply:
    """Return a refusal in the shape of OpenAI's errors.

    A wait is sent as ``retry-after-ms`` and, rounded up as RFC 9110 §10.2.3 wants whole seconds, as
    ``retry-after``.
    """
    sent = dict(headers or {})
    if refusal.retry_after_s is not None:
        sent["retry-after-ms"] = str(math.ceil(refusal.retry_after_s * 1000))
        sent["retry-after"] = str(math.ceil(refusal.retry_after_s))
    kind = _ERROR_TYPES.get(
        refusal.status, "server_error" if refusal.status >= 500 else "invalid_request_error"
    )
    error = {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}
    return json_reply({"error": error}, status=refusal.status, headers=sent)


def prompt_text(body: Mapping[str, Any]) -> str:
    """Return all messages of a chat request as one text, in order, as a server's template would join them."""
    parts = []
    for message in body.get("messages", ()):
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
        parts.append(f"{message.get('role', '')}\n{content or ''}\n")
    return "".join(parts)


def cut_to_tokens(text: str, most: int) -> str:
    """Return the longest beginning of a text that is estimated at `most` tokens.

    Example:
        >>> cut_to_tokens("twelve chars", 2)
        'twelve c'
    """
    if count_tokens(text) <= most:
        return text
    low, high = 0, min(len(text), most * CHARS_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) <= most else (low, middle - 1)
    return text[:low]


def chat_body(
    number: int,
    model: str,
    text: str,
    finish: str,
    *,
    prompt_tokens: int,
    completion_tokens: int,
    cached_tokens: int,
) -> dict[str, Any]:
    """Return a chat completion; its id is made of the call's number, and its time is 0: replies are reproducible."""
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": finish,
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        },
    }


def embedding_body(
    model: str, rows: Sequence[Any] | Vectors, *, encoding: str, tokens: int
) -> dict[str, Any]:
    """Return vectors as lists of numbers, or as base64 of little-endian float32 if `encoding` is ``"base64"``."""
    if encoding == "base64":
        given = [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in rows]
    else:
        given = [row.tolist() for row in rows]
    return {
        "object": "list",
        "model": model,
        "data": [
            {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(given)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
