"""An OpenAI-compatible endpoint on this machine, for tests and benchmarks: no model, no key, no network.

`ChatServer` runs in a thread with an event loop of its own, on the loopback address. What it answers is a function of
the request; how long it takes, how many calls it lets in and what goes wrong are settings. It answers
``POST /v1/chat/completions`` (not streaming), ``POST /v1/embeddings``, ``GET /v1/models`` and ``GET /health``.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from memforest.errors import ConfigError
from memforest.models.hashing import HashEmbedder
from memforest.testing.faults import Attempt, Fault, Faults, pick_fault, spoiled
from memforest.testing.listener import HttpReply, HttpRequest, Listener
from memforest.testing.pace import Latency, PrefixCache, RateLimit
from memforest.testing.replies import local_reply
from memforest.testing.wire import (
    Refusal,
    Reply,
    chat_body,
    cut_to_tokens,
    embedding_body,
    json_reply,
    prompt_text,
    refusal_reply,
)
from memforest.tokens import count_tokens

__all__ = ["ChatServer", "ReplyFunction", "ServedCall"]

STOP_TIMEOUT_S = 5.0

ReplyFunction = Callable[[dict[str, Any]], "str | Reply | Awaitable[str | Reply]"]
"""Gets the parsed body of a chat request and returns the reply's text, or a `Reply`; may be async."""

R = TypeVar("R")


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
class _Model:
    """What the endpoint is to be; the arguments of `ChatServer`."""

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
    tries: Counter[bytes] = field(default_factory=Counter)


class ChatServer:
    """An OpenAI-compatible endpoint in a background thread; use it as a context manager.

    It listens at the loopback address alone, and never connects to anything.

    Args:
        reply: what to answer to a chat request, from its parsed body; `local_reply` answers memforest's own steps
            by local rules. It runs on the server's loop. What it raises is answered with status 400 and raised
            again when the server is left.
        latency: how long a reply takes.
        embedding_latency: how long embeddings take; None is none.
        faults: which calls go wrong, and how.
        rate_limit: answers 429 beyond it; None lets all in.
        embedding_dimension: length of the vectors, which are those of `HashEmbedder`.
        models: the names that ``/v1/models`` lists.
        strict: whether a model that is not listed gets 404.
        key: the bearer token that is asked for; None asks for none.
        refuses: types of `response_format` that get 400: ``"json_schema"``, ``"json_object"``.
        prefix_cache: whether prompt tokens that an earlier prompt began with count as cached.
        keep_bodies: whether `calls` keep the bodies of requests that have ended; without, long runs take less
            memory.
        port: where to listen; 0 takes a free one.

    Example:
        >>> with ChatServer(reply=lambda body: "Paris.") as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        reply: ReplyFunction = local_reply,
        *,
        latency: Latency | None = None,
        embedding_latency: Latency | None = None,
        faults: Faults = (),
        rate_limit: RateLimit | None = None,
        embedding_dimension: int = 64,
        models: Sequence[str] = ("double",),
        strict: bool = False,
        key: str | None = None,
        refuses: Sequence[str] = (),
        prefix_cache: bool = True,
        keep_bodies: bool = True,
        port: int = 0,
    ) -> None:
        self._model = _Model(
            reply,
            latency or Latency(),
            embedding_latency or Latency(),
            faults,
            rate_limit,
            HashEmbedder(embedding_dimension),
            models,
            strict,
            key,
            refuses,
            PrefixCache() if prefix_cache else None,
        )
        self.calls: list[ServedCall] = []
        """Every request so far, in order of arrival."""
        self.most_in_flight = 0
        """The most calls that were under way at once."""
        self._port = port
        self._keep_bodies = keep_bodies
        self._in_flight = 0
        self._numbered = 0
        self._raised: list[BaseException] = []
        self._listener = Listener(self._serve, self._raised.append)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started = 0.0

    # -- from the thread of the test ---------------------------------------------------------------

    @property
    def url(self) -> str:
        """The endpoint's address, e.g. ``"http://127.0.0.1:40123/v1"``; it stays the same over `revive`."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> ChatServer:
        """Begin to listen, and return the server.

        Raises:
            ConfigError: if the port cannot be had, or the server runs already.
        """
        if self._loop is not None:
            raise ConfigError("the server runs already; make another one")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="memforest-endpoint", daemon=True)
        self._thread.start()
        self._started = time.perf_counter()
        try:
            self._port = self._run(self._listener.open(self._port))
        except ConfigError:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Break every connection and end the thread; stopping twice is harmless."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._run(self._close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_TIMEOUT_S)
        loop.close()
        self._loop = self._thread = None

    def kill(self) -> None:
        """Break every connection and accept no more, as a server that crashed; `revive` brings it back."""
        self._run(self._close())

    def revive(self) -> None:
        """Listen again, at the same port.

        Raises:
            ConfigError: if something else has taken the port meanwhile.
        """
        if not self._listener.is_open:
            self._run(self._listener.open(self._port))

    def __enter__(self) -> ChatServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and self._raised:
            raise self._raised[0]

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        if self._loop is None:
            coroutine.close()
            raise ConfigError("the server does not run; use it in a with statement, or call start()")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    # -- on the server's loop ----------------------------------------------------------------------

    async def _close(self) -> None:
        self._listener.close()
        # Once round the loop, so that connections are told, and once more for the calls that this cancels.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _serve(self, request: HttpRequest) -> HttpReply:
        call = ServedCall(
            urlsplit(request.path).path, {}, request.headers, time.perf_counter() - self._started
        )
        self.calls.append(call)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            reply = await self._answer(request, call)
            if reply.sent_share is None or reply.sent_share >= 0:
                call.status = reply.status
            return reply
        finally:
            self._in_flight -= 1
            if not self._keep_bodies:
                call.body = {}
            call.ended_s = time.perf_counter() - self._started

    async def _answer(self, request: HttpRequest, call: ServedCall) -> HttpReply:
        if call.path == "/health":
            return json_reply({"status": "ok"})
        if (
            self._model.key is not None
            and request.headers.get("authorization") != f"Bearer {self._model.key}"
        ):
            return refusal_reply(Refusal(401, "Incorrect API key provided.", code="invalid_api_key"))
        if (request.method, call.path) == ("GET", "/v1/models"):
            listed = [
                {"id": name, "object": "model", "created": 0, "owned_by": "memforest"}
                for name in self._model.models
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
        self._numbered += 1
        call.number = self._numbered
        limit = self._model.rate_limit
        if limit is not None and (wait_s := limit.wait_s(call.arrived_s)):
            return refusal_reply(
                Refusal(429, "Rate limit reached.", code="rate_limit_exceeded", retry_after_s=wait_s)
            )
        refusal = _read(request, call) or self._refusal(call)
        if refusal is not None:
            return refusal_reply(refusal)
        digest = hashlib.blake2b(request.body, digest_size=16).digest()
        self._model.tries[digest] += 1
        attempt = Attempt(call.number, self._model.tries[digest], call.body, digest)
        fault = pick_fault(self._model.faults, attempt)
        if fault is not None:
            call.fault = fault.name
            if fault.name == "kill":
                self._listener.close()
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
        if self._model.strict and model not in self._model.models:
            return Refusal(404, f"The model `{model}` does not exist.", code="model_not_found", param="model")
        if body.get("stream"):
            return Refusal(400, "This endpoint does not stream.", param="stream")
        wanted = body.get("response_format")
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if kind in self._model.refuses:
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
        prompt, cache = prompt_text(body), self._model.prefixes
        call.prompt_tokens = count_tokens(prompt)
        call.cached_tokens = 0 if cache is None else cache.cached_tokens(prompt)
        made = self._model.reply(body)
        reply = await made if inspect.isawaitable(made) else made
        if isinstance(reply, str):
            reply = Reply(reply)
        prompt_s = self._model.latency.prompt_s(call.prompt_tokens, call.cached_tokens)
        await self._sleep_until(call, prompt_s, fault)
        if cache is not None:
            cache.add(prompt)  # not before it is read: calls that come at once cannot share it
        if reply.status >= 400:
            return refusal_reply(Refusal(reply.status, reply.text), reply.headers)
        text, was_cut = spoiled(fault, reply.text, _last_text(body))
        finish = "length" if was_cut else reply.finish
        most = body.get("max_completion_tokens") or body.get("max_tokens")
        tokens = count_tokens(text) if reply.completion_tokens is None else reply.completion_tokens
        if isinstance(most, int) and tokens > most:
            text, tokens, finish = cut_to_tokens(text, most), most, "length"
        call.completion_tokens = tokens
        total_s = self._model.latency.seconds(call.prompt_tokens, tokens, call.cached_tokens)
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
        rows = list(await self._model.embedder.embed(texts))
        await self._sleep_until(call, self._model.embedding_latency.seconds(call.prompt_tokens), fault)
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
        left_s = call.arrived_s + seconds + late_s - (time.perf_counter() - self._started)
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
