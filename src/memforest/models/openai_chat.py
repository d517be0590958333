"""A chat model behind any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memforest.endpoint import ChatEndpoint
from memforest.errors import ModelUnavailableError
from memforest.models.base import ChatReply, ChatRequest
from memforest.models.ledger import counted
from memforest.models.openai_client import Clients, Target, timeouts
from memforest.models.openai_dialect import Dialect
from memforest.models.openai_errors import Place, complaint, mapped, read_json
from memforest.tokens import count_tokens

_UNFIT = (400, 422)
"""What servers answer to a request that they do not understand."""
SECRET_CHARS = 8
"""A shorter text in `ChatEndpoint.extra_body` is taken for the name of an option ("high"), which a message may hold."""


class OpenAIChat:
    """Asks the chat model of an endpoint. Use it from any thread or event loop.

    Making one imports and connects nothing. It sends as many requests at once as it is asked for; `Calls` bounds
    them. What the model does not understand of a request is found out once: see `Dialect`.

    Args:
        endpoint: the model, and how to reach it.
    """

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.endpoint = endpoint
        self.model_id = endpoint.model
        self.provider_name = "openai"  # what the endpoint speaks; it need not be theirs
        self._clients = Clients()
        self._steps: dict[str, ChatEndpoint] = {}
        self._dialects: dict[tuple[str | None, str], Dialect] = {}

    def __repr__(self) -> str:
        return f"OpenAIChat({self.endpoint!r})"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Tokens that the endpoint does not count are estimated. A reply without content is an empty text; the
        model's thoughts are left out.

        Raises:
            ModelUnavailableError: if the model cannot be reached, after retries.
            ModelRefusedError: if the key, the permission, the address or the model's name is wrong.
            ModelRequestError: if this request is not accepted, for it is too long, for one.
        """
        endpoint = self._for_step(request.step)
        target = Target.of(endpoint, "chat")
        place = Place(target, endpoint.model, "chat", endpoint.timeout_s, _texts(endpoint.extra_body))
        key = (endpoint.base_url, endpoint.model)
        first = Dialect.first(endpoint, openai=target.is_openai)
        while True:
            spoken = self._dialects.get(key, first)
            got = await self._try(place, endpoint, spoken, request)
            if isinstance(got, ChatReply):
                return got
            # Requests under way together complain together: the first one to do so moves the dialect on.
            if self._dialects.get(key, first) == spoken:
                self._dialects[key] = got

    async def close(self) -> None:
        """Close the connections; a later `complete` opens new ones."""
        await self._clients.close()

    def _for_step(self, step: str) -> ChatEndpoint:
        if step not in self._steps:
            self._steps[step] = self.endpoint.for_step(step)
        return self._steps[step]

    async def _try(
        self, place: Place, endpoint: ChatEndpoint, spoken: Dialect, request: ChatRequest
    ) -> ChatReply | Dialect:
        """Return the reply, or how to ask instead."""
        body = spoken.body(endpoint, request)
        client = await self._clients.get(place.target)
        from openai import APIStatusError

        with mapped(place):
            try:
                raw = await client.chat.completions.with_raw_response.create(
                    **body,
                    extra_body=dict(endpoint.extra_body) or None,
                    timeout=timeouts(endpoint.timeout_s),
                )
            except APIStatusError as exc:
                other = None
                if exc.status_code in _UNFIT:
                    may_reform = endpoint.structured == "auto"
                    other = spoken.without(complaint(exc), body, may_reform=may_reform)
                if other is None:
                    raise
                return other
        reply = read_json(raw.http_response, place)
        return _reply(reply, request, raw.retries_taken, place)


def _reply(body: Mapping[str, Any], request: ChatRequest, retries: int, place: Place) -> ChatReply:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise ModelUnavailableError(f"{place} sent a reply without a message", status=200, retries=retries)
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    usage = body.get("usage")
    used: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    asked = sum(count_tokens(one.content) for one in request.messages)
    return ChatReply(
        text=text,
        prompt_tokens=counted(used.get("prompt_tokens"), asked),
        completion_tokens=counted(used.get("completion_tokens"), count_tokens(text)),
        cached_tokens=_cached(used),
        finish="length" if choice.get("finish_reason") == "length" else "stop",
        retries=retries,
    )


def _cached(used: Mapping[str, Any]) -> int:
    """Return the prompt tokens that the server had kept; OpenAI and vLLM tell it in one place, DeepSeek in another."""
    details = used.get("prompt_tokens_details")
    reported = (
        details.get("cached_tokens") if isinstance(details, Mapping) else used.get("prompt_cache_hit_tokens")
    )
    return counted(reported, 0)


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts in a request's further fields that may be secret, at any depth."""
    if isinstance(value, str):
        return (value,) if len(value) >= SECRET_CHARS else ()
    parts = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    )
    return tuple(text for part in parts for text in _texts(part))
