"""A chat model behind any endpoint that speaks OpenAI's chat completions.

The chat-request features that one model of one endpoint supports: learnt from its complaints, then kept.

Endpoints that speak "OpenAI" differ in three things: how JSON is asked for (a schema, JSON of any shape, or words
alone), what the bound of a reply is called, and whether a temperature may be named. A request that is refused for one
of these (400, 422) is put in other words and sent again.


An embedding model behind any endpoint that speaks OpenAI's embeddings.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from memforest.concurrency import PerLoop, all_of
from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ModelError, ModelRequestError, ModelUnavailableError
from memforest.models.base import Vectors, checked_texts, unit_rows
from memforest.models.ledger import counted, current_ledger
from memforest.models.openai_client import Clients, ModelAddress, RequestTarget
from memforest.ports import ChatReply, ChatRequest
from memforest.records import StepUsage
from memforest.spans import model_span
from memforest.text import count_tokens

Form = Literal["schema", "json", "text"]

_FORM = re.compile(
    r"response[_ ]format|json[_ ]schema|json[_ ]object|json mode|structured[_ ]output|guided|grammar"
)
_BOUND = re.compile(r"\bmax_(?:completion_)?tokens\b")
_TEMPERATURE = re.compile(r"\btemperature\b")
_REFUSED = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not available|deprecated|extra (?:input|field)"
)
"""Without one of these, a complaint that names a parameter is about its value."""
_LENGTH = re.compile(
    r"context[_ ](?:length|window|size)|maximum (?:context|input|sequence|model)|too (?:long|large|many tokens)"
    r"|token limit|max(?:imum)? (?:number of )?tokens|input length|exceeds? .{0,40}(?:tokens|length|limit)"
)


def is_about_length(complaint: str) -> bool:
    """Return whether a server's complaint, in lower case, is that the input is too long.

    Example:
        >>> is_about_length("this model's maximum context length is 8192 tokens"), is_about_length("no such field")
        (True, False)
    """
    return _LENGTH.search(complaint) is not None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests are put to one model.

    `bound` is the name of the field that bounds a reply, `swapped` says that it is the second one tried.
    """

    form: Form
    bound: Literal["max_tokens", "max_completion_tokens"]
    swapped: bool = False
    temperature: bool = True

    @classmethod
    def first(cls, endpoint: ChatEndpoint, *, openai: bool) -> Dialect:
        """Return the dialect to try first; OpenAI's own models accept only the newer name of the token bound."""
        form: Form = "schema" if endpoint.structured == "auto" else endpoint.structured
        return cls(form, "max_completion_tokens" if openai else "max_tokens")

    def body(self, endpoint: ChatEndpoint, request: ChatRequest) -> dict[str, Any]:
        """Return the fields of a request's body, `ChatEndpoint.extra_body` apart."""
        messages = [{"role": one.role, "content": _sendable(one.content)} for one in request.messages]
        body: dict[str, Any] = {
            "model": endpoint.model,
            "messages": messages,
            self.bound: endpoint.max_reply_tokens or request.max_tokens,
        }
        if endpoint.temperature is not None and self.temperature:
            body["temperature"] = endpoint.temperature
        if request.schema is None:
            return body
        if self.form == "schema":
            schema = strict(request.schema) if request.strict else request.schema
            shape = {"name": request.step, "schema": schema, "strict": request.strict}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
            return body
        if self.form == "json":
            body["response_format"] = {"type": "json_object"}
        if messages:
            # At the end, so that what all requests of a step begin with stays the same.
            messages[-1]["content"] += _in_words(request.schema)
        return body

    def without(self, complaint: str, body: Mapping[str, Any], *, may_reform: bool) -> Dialect | None:
        """Return what to try after a complaint, None when it is about something else.

        Args:
            complaint: what the server said, in lower case.
            body: what was sent.
            may_reform: whether JSON may be asked for in another way (``structured="auto"``).
        """
        refused = _REFUSED.search(complaint) is not None and not is_about_length(complaint)
        if refused and "temperature" in body and _TEMPERATURE.search(complaint):
            return replace(self, temperature=False)
        if refused and not self.swapped and _BOUND.search(complaint):
            other: Any = "max_tokens" if self.bound != "max_tokens" else "max_completion_tokens"
            return replace(self, bound=other, swapped=True)
        if may_reform and "response_format" in body and _FORM.search(complaint):
            return replace(self, form="json" if self.form == "schema" else "text")
        return None


def _sendable(text: str) -> str:
    """Return a text without lone surrogates, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _in_words(schema: Mapping[str, Any]) -> str:
    written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return f"\n\nReply with one JSON object and nothing else. It must fit this JSON schema:\n{written}"


def strict(schema: Any) -> Any:
    """Return a JSON schema as strict servers want it: every property required, no others, no defaults.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas

    Example:
        >>> strict({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}})["required"]
        ['a']
    """
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            made[key] = {name: strict(one) for name, one in value.items()}  # names, not keywords
        elif key in ("enum", "const"):
            made[key] = value
        elif key != "default":
            made[key] = strict(value)
    if isinstance(schema.get("properties"), Mapping):
        made["required"] = list(schema["properties"])
        made["additionalProperties"] = False
    return made


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
        endpoint = self.endpoint.for_step(request.step)
        target = RequestTarget.of(endpoint, "chat")
        place = ModelAddress(target, endpoint.model, "chat", endpoint.timeout_s, _texts(endpoint.extra_body))
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

    async def _try(
        self, place: ModelAddress, endpoint: ChatEndpoint, spoken: Dialect, request: ChatRequest
    ) -> ChatReply | Dialect:
        """Return the reply, or how to ask instead."""
        body = spoken.body(endpoint, request)

        def reworded(status: int, said: str) -> Dialect | None:
            may_reform = endpoint.structured == "auto"
            return spoken.without(said, body, may_reform=may_reform) if status in _UNFIT else None

        sent = {**body, "extra_body": dict(endpoint.extra_body) or None}
        got = await self._clients.ask(place, "chat.completions", sent, reworded)
        return got if isinstance(got, Dialect) else _reply(got[0], request, got[1], place)


def _reply(body: Mapping[str, Any], request: ChatRequest, retries: int, place: ModelAddress) -> ChatReply:
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


STEP = "embed"
"""What the calls are counted under."""
LEAST_CHARS = 200
"""A text is not cut below this; a server that refuses it still refuses it for another reason."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What the server takes: rows as base64 (shorter than numbers), and a length to cut them to."""

    base64: bool = True
    dimensions: bool = True

    def without(self, said: str, body: Mapping[str, Any]) -> _Dialect | None:
        """Return what to try after a complaint, None when it is about something else."""
        if "encoding_format" in said and body["encoding_format"] == "base64":
            return replace(self, base64=False)
        if ("dimension" in said or "matryoshka" in said) and "dimensions" in body:
            return replace(self, dimensions=False)
        return None


class _TooLong(Exception):
    """The server takes less text at once."""

    def __init__(self, error: ModelRequestError) -> None:
        super().__init__(str(error))
        self.error = error


class OpenAIEmbedder:
    """Embeds texts at an endpoint, in batches, several under way at once. Use it from any thread or event loop.

    Making one imports and connects nothing. A text that is longer than the model takes is cut to a half, a quarter
    and so on until it fits: the rest has no part in the vector. Every request is written to the current ledger, as
    step ``"embed"``. A key is sent as `ChatEndpoint.api_key` says.

    Args:
        endpoint: the model, and how to reach it.
    """

    remote = True
    """Many texts in one call cost less than many calls."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self.endpoint = endpoint
        shortened = "" if endpoint.dimensions is None else f"@{endpoint.dimensions}"
        self.model_id = f"openai:{endpoint.model}{shortened}"
        self.dimension = endpoint.dimensions or 0
        """Length of the rows; 0 until the first reply, unless `EmbeddingEndpoint.dimensions` asks for one."""
        self.query_prefix = endpoint.query_prefix
        self._clients = Clients()
        self._dialect = _Dialect()
        self._gates = PerLoop(partial(asyncio.Semaphore, endpoint.max_in_flight))

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.endpoint!r})"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order; float32, shape (n, dimension). No text, no call.

        Texts that are the same are sent once.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            ModelUnavailableError: if the model cannot be reached, after retries.
            ModelRefusedError: if the key, the permission, the address or the model's name is wrong.
            ModelRequestError: if a text is not accepted.
            ModelError: if the reply is no matrix of finite rows of one length.
        """
        places: dict[str, int] = {}
        rows_of = [
            places.setdefault(text.encode("utf-8", "replace").decode("utf-8"), len(places))
            for text in checked_texts(texts)
        ]
        if not rows_of:
            return np.empty((0, self.dimension), dtype=np.float32)
        unique, size = list(places), self.endpoint.batch
        batches = [unique[at : at + size] for at in range(0, len(unique), size)]
        parts = await all_of(map(self._embed_batch, batches))
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelError(f"embedder {self.model_id!r} returned vectors of different lengths")
        rows: Vectors = np.concatenate(parts)[rows_of]
        return rows

    async def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of questions: `query_prefix` is put in front of each. Otherwise as `embed`."""
        return await self.embed([self.query_prefix + text for text in checked_texts(texts)])

    async def close(self) -> None:
        """Close the connections; a later `embed` opens new ones."""
        await self._clients.close()

    async def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        """Embed texts in one request; in smaller ones when the server finds it too long."""
        try:
            reply = await self._ask(texts)
        except _TooLong as exc:
            half = len(texts) // 2
            if half:
                parts = [await self._embed_batch(part) for part in (texts[:half], texts[half:])]
                return np.concatenate(parts)
            if len(texts[0]) <= LEAST_CHARS:
                raise exc.error from None
            return await self._embed_batch([texts[0][: max(len(texts[0]) // 2, LEAST_CHARS)]])
        return self._unit_rows(reply, len(texts))

    def _unit_rows(self, reply: list[Any], count: int) -> Vectors:
        """Return the rows of a reply as unit vectors of the length that is known, or learnt from it."""
        who = f"embedder {self.model_id!r}"
        rows = unit_rows(reply, count, self.endpoint.dimensions or 0, who)
        known, self.dimension = self.dimension, rows.shape[1]
        if known not in (0, self.dimension):
            # Which of the two is odd is not known: the memory, which has vectors, refuses the one that is not its.
            raise ModelError(f"{who} returned {self.dimension} numbers per text; expected {known}")
        return rows

    async def _ask(self, texts: Sequence[str]) -> list[Any]:
        """Send one request, again where the server does not understand it, and return the rows of its reply."""
        target = RequestTarget.of(self.endpoint, "embeddings")
        place = ModelAddress(target, self.endpoint.model, "embeddings", self.endpoint.timeout_s)
        used = StepUsage(calls=1)
        started = time.perf_counter()
        try:
            async with self._gates.get():
                started = time.perf_counter()
                while True:
                    spoken = self._dialect
                    with model_span("embeddings", "openai", self.endpoint.model, kind="client") as current:
                        got = await self._try(place, spoken, texts)
                        if not isinstance(got, _Dialect):
                            current.set("gen_ai.usage.input_tokens", got[1])
                    if not isinstance(got, _Dialect):
                        break
                    # Requests under way together complain of different things.
                    now = self._dialect
                    self._dialect = _Dialect(now.base64 and got.base64, now.dimensions and got.dimensions)
                    used = replace(used, retries=used.retries + 1)
            rows, tokens, retries = got
            used = replace(used, prompt_tokens=tokens, retries=used.retries + retries)
        except _TooLong:
            used = StepUsage(retries=1)  # it is sent again, in parts
            raise
        except ModelError as exc:
            tried = exc.retries if isinstance(exc, ModelUnavailableError) else 0
            used = replace(used, failures=1, retries=used.retries + tried)
            raise
        finally:
            current_ledger().add(STEP, replace(used, seconds=time.perf_counter() - started))
        return rows

    async def _try(
        self, place: ModelAddress, spoken: _Dialect, texts: Sequence[str]
    ) -> tuple[list[Any], int, int] | _Dialect:
        """Return rows, tokens and retries, or how to ask instead."""
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "input": list(texts),
            "encoding_format": "base64" if spoken.base64 else "float",
        }
        if self.endpoint.dimensions is not None and spoken.dimensions:
            body["dimensions"] = self.endpoint.dimensions

        def reworded(status: int, said: str) -> _Dialect | None:
            other = spoken.without(said, body) if status in _UNFIT else None
            if other is None and (status == 413 or (status in _UNFIT and is_about_length(said))):
                what = f"{place} says {status}: {place.clean(said)}"
                raise _TooLong(ModelRequestError(what, status=status))
            return other

        got = await self._clients.ask(place, "embeddings", body, reworded)
        if isinstance(got, _Dialect):
            return got
        reply, retries = got
        usage = reply.get("usage")
        reported = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
        tokens = counted(reported, sum(count_tokens(text) for text in texts))
        return _rows(reply.get("data"), place), tokens, retries


def _rows(data: Any, place: ModelAddress) -> list[Any]:
    """Return the rows of a reply in the order of the texts."""
    if not isinstance(data, list) or not all(isinstance(one, Mapping) for one in data):
        raise ModelError(f"{place} sent a reply without vectors")
    indices = [one.get("index") for one in data]
    if any(index is not None for index in indices):
        places = {index: at for at, index in enumerate(indices) if type(index) is int}
        if set(places) != set(range(len(data))):
            raise ModelError(
                f"{place} sent vectors whose indices are not 0 to {len(data) - 1}, each once: it cannot be told which "
                "text each belongs to"
            )
        data = [data[places[at]] for at in range(len(data))]
    return [_row(one.get("embedding"), place) for one in data]


def _row(value: Any, place: ModelAddress) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except (binascii.Error, ValueError) as exc:
        raise ModelError(f"{place} sent a vector that is neither numbers nor base64 of them") from exc


_opened: weakref.WeakValueDictionary[tuple[Any, ...], OpenAIEmbedder] = weakref.WeakValueDictionary()


def open_embedding_endpoint(endpoint: EmbeddingEndpoint) -> OpenAIEmbedder:
    """Return the embedder of an endpoint; memories that are open with one endpoint share it, and its connections."""
    named = ((name, getattr(endpoint, name)) for name in EmbeddingEndpoint.__dataclass_fields__)
    key = tuple((name, tuple(sorted(v.items())) if isinstance(v, Mapping) else v) for name, v in named)
    embedder = _opened.get(key)
    if embedder is None:
        embedder = _opened[key] = OpenAIEmbedder(endpoint)
    return embedder
