"""What the test endpoint answers to a request, without the carrying of bytes."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.faults import Attempt, Fault, Faults, pick_fault, spoiled
from tests.doubles.listener import HttpReply, HttpRequest
from tests.doubles.pace import Latency, PrefixCache, RateLimit
from tests.doubles.wire import (
    Refusal,
    Reply,
    chat_body,
    cut_to_tokens,
    embedding_body,
    json_reply,
    prompt_text,
    refusal_reply,
)

from memforest.testing import HashEmbedder
from memforest.text import count_tokens

ReplyFunction = Callable[[dict[str, Any]], "str | Reply | Awaitable[str | Reply]"]
"""Gets the parsed body of a chat request and returns the reply's text, or a `Reply`; may be async."""


@dataclass(slots=True)
class ServedCall:
    """One request as the server saw it.

    Times are seconds since the server was started. `status` and `ended_s` are None while the call is under way, and
    `status` stays None when nothing was sent, or the client went away. `number` counts the calls for replies and
    embeddings from 1, and is 0 for every other request.
    """

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    arrived_s: float
    number: int = 0
    ended_s: float | None = None
    status: int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    fault: str | None = None


@dataclass(slots=True)
class Endpoint:
    """Answers requests as it was set; see the arguments of `ChatServer`.

    `now_s` tells the seconds since the start, and `kill` makes the server go away.
    """

    reply: ReplyFunction
    latency: Latency
    embedding_latency: Latency
    faults: Faults
    rate_limit: RateLimit | None
    embedder: HashEmbedder
    models: Sequence[str]
    strict: bool
    key: str | None
    refuses: Sequence[str]
    prefixes: PrefixCache | None
    now_s: Callable[[], float]
    kill: Callable[[], None]
    numbered: int = 0
    tries: Counter[bytes] = field(default_factory=Counter)

    async def answer(self, request: HttpRequest, call: ServedCall) -> HttpReply:
        """Answer a request, and write into its call what there is to know of it."""
        if call.path == "/health":
            return json_reply({"status": "ok"})
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return refusal_reply(Refusal(401, "Incorrect API key provided.", code="invalid_api_key"))
        if (request.method, call.path) == ("GET", "/v1/models"):
            listed = [
                {"id": name, "object": "model", "created": 0, "owned_by": "memforest"} for name in self.models
            ]
            return json_reply({"object": "list", "data": listed})
        make = {"/v1/chat/completions": self._chat, "/v1/embeddings": self._embeddings}.get(call.path)
        if make is None:
            return refusal_reply(Refusal(404, f"Invalid URL ({request.method} {call.path})"))
        if request.method != "POST":
            return refusal_reply(Refusal(405, f"Not allowed to {request.method} on {call.path}"))
        return await self._model_call(make, request, call)

    async def _model_call(
        self,
        make: Callable[[ServedCall, Fault | None], Awaitable[HttpReply]],
        request: HttpRequest,
        call: ServedCall,
    ) -> HttpReply:
        """Answer a call for a reply or for embeddings: what holds for both."""
        self.numbered += 1
        call.number = self.numbered
        refusal = _read(request, call)
        limit = self.rate_limit
        if limit is not None and (wait_s := limit.wait_s(call.arrived_s)):
            return refusal_reply(
                Refusal(429, "Rate limit reached.", code="rate_limit_exceeded", retry_after_s=wait_s)
            )
        refusal = refusal or self._refusal(call)
        if refusal is not None:
            return refusal_reply(refusal)
        digest = hashlib.blake2b(request.body, digest_size=16).digest()
        self.tries[digest] += 1
        attempt = Attempt(call.number, self.tries[digest], call.body, digest)
        fault = pick_fault(self.faults, attempt)
        if fault is not None:
            call.fault = fault.name
            if fault.name == "kill":
                self.kill()
                return HttpReply(0, b"", sent_share=-1)
            if fault.code is not None:
                return refusal_reply(
                    Refusal(fault.code, "A fault of the test.", retry_after_s=fault.retry_after_s)
                )
            await asyncio.sleep(fault.seconds)
        reply = await make(call, fault)
        if fault is not None and fault.name == "drop":
            return HttpReply(reply.status, reply.body, reply.headers, fault.sent_share)
        return reply

    def _refusal(self, call: ServedCall) -> Refusal | None:
        """Return why a request that was read is not answered."""
        body, model = call.body, call.body.get("model")
        if not isinstance(model, str):
            return Refusal(400, "you must provide a model parameter", param="model")
        if self.strict and model not in self.models:
            return Refusal(404, f"The model `{model}` does not exist.", code="model_not_found", param="model")
        if body.get("stream"):
            return Refusal(400, "This endpoint does not stream.", param="stream")
        wanted = body.get("response_format")
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if kind in self.refuses:
            return Refusal(
                400,
                f"Invalid parameter: 'response_format' of type '{kind}' is not supported.",
                param="response_format",
            )
        return None

    async def _chat(self, call: ServedCall, fault: Fault | None) -> HttpReply:
        body = call.body
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
            return refusal_reply(Refusal(400, "messages: a list of messages is wanted", param="messages"))
        prompt, cache = prompt_text(body), self.prefixes
        call.prompt_tokens = count_tokens(prompt)
        call.cached_tokens = 0 if cache is None else cache.cached_tokens(prompt, model=body["model"])
        made = self.reply(body)
        reply = await made if inspect.isawaitable(made) else made
        if isinstance(reply, str):
            reply = Reply(reply)
        prompt_s = self.latency.prompt_s(call.prompt_tokens, call.cached_tokens)
        await self._sleep_until(call, prompt_s, fault)
        if cache is not None:
            cache.add(
                prompt, model=body["model"]
            )  # not before it is read: calls that come at once cannot share it
        if reply.status >= 400:
            return refusal_reply(Refusal(reply.status, reply.text), reply.headers)
        text, was_cut = spoiled(fault, reply.text, _last_text(body))
        finish = "length" if was_cut else reply.finish
        most = body.get("max_completion_tokens") or body.get("max_tokens")
        tokens = count_tokens(text) if reply.completion_tokens is None else reply.completion_tokens
        if isinstance(most, int) and tokens > most:
            text, tokens, finish = cut_to_tokens(text, most), most, "length"
        call.completion_tokens = tokens
        total_s = self.latency.seconds(call.prompt_tokens, tokens, call.cached_tokens)
        await self._sleep_until(call, total_s, fault)
        return json_reply(
            chat_body(
                call.number,
                body["model"],
                text,
                finish,
                prompt_tokens=call.prompt_tokens,
                completion_tokens=tokens,
                cached_tokens=call.cached_tokens,
            ),
            headers=reply.headers,
        )

    async def _embeddings(self, call: ServedCall, fault: Fault | None) -> HttpReply:
        given = call.body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
            return refusal_reply(Refusal(400, "input: a text, or a list of texts, is wanted", param="input"))
        call.prompt_tokens = sum(count_tokens(text) for text in texts)
        asked = call.body.get("dimensions")
        embedder = HashEmbedder(asked) if isinstance(asked, int) and asked > 0 else self.embedder
        rows = list(await embedder.embed(texts))
        await self._sleep_until(call, self.embedding_latency.seconds(call.prompt_tokens), fault)
        name = None if fault is None else fault.name
        if name in ("truncated", "empty"):
            rows = rows[: len(rows) // 2] if name == "truncated" else []
        if name == "wrong_schema":
            rows = [row[:-1] for row in rows]
        encoding = call.body.get("encoding_format", "float")
        made = json_reply(
            embedding_body(call.body["model"], rows, encoding=encoding, tokens=call.prompt_tokens)
        )
        return made if name != "malformed_json" else HttpReply(made.status, made.body[:-2], made.headers)

    async def _sleep_until(self, call: ServedCall, seconds: float, fault: Fault | None) -> None:
        """Sleep until so many seconds after the call has arrived: what was computed meanwhile is not added."""
        late_s = 0.0 if fault is None else fault.seconds
        left_s = call.arrived_s + seconds + late_s - self.now_s()
        if left_s > 0:
            await asyncio.sleep(left_s)


def _read(request: HttpRequest, call: ServedCall) -> Refusal | None:
    """Parse a request's body into its call, or return why that cannot be done."""
    try:
        body = json.loads(request.body)
    except ValueError as exc:
        return Refusal(400, f"We could not parse the JSON body of your request: {exc}")
    if not isinstance(body, dict):
        return Refusal(400, "The body of your request is no JSON object.")
    call.body = body
    return None


def _last_text(body: Mapping[str, Any]) -> str:
    return prompt_text({"messages": body["messages"][-1:]}).split("\n", 1)[-1].rstrip("\n")
