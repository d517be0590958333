"""An OpenAI-compatible endpoint on this machine, for tests and benchmarks: no model, no key, no network.

`ChatServer` runs in a thread with an event loop of its own, on the loopback address. What it answers is a function of
the request; how long it takes, how many calls it lets in and what goes wrong are settings. It answers
``POST /v1/chat/completions`` (not streaming), ``POST /v1/embeddings``, ``GET /v1/models`` and ``GET /health``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.doubles.answering import Endpoint, ReplyFunction, ServedCall
from tests.doubles.faults import Faults
from tests.doubles.listener import HttpReply, HttpRequest, Listener
from tests.doubles.pace import Latency, PrefixCache, RateLimit
from tests.doubles.replies import local_reply
from tests.doubles.wire import Refusal, refusal_reply

from memforest.errors import ConfigError
from memforest.testing import HashEmbedder

STOP_TIMEOUT_S = 5.0
"""How long `stop` waits for calls, and then for the thread."""

R = TypeVar("R")


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
        self._raised: list[BaseException] = []
        self._listener = Listener(self._serve, self._failed)
        self._endpoint = Endpoint(
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
            self._now_s,
            self._listener.close,
        )
        self.calls: list[ServedCall] = []
        """Every request so far, in order of arrival."""
        self.most_in_flight = 0
        """The most calls that were under way at once."""
        self._port = port
        self._keep_bodies = keep_bodies
        self._in_flight = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started = 0.0

    @property
    def url(self) -> str:
        """The endpoint's address, e.g. ``"http://127.0.0.1:40123/v1"``; it stays the same over `revive`.

        Raises:
            ConfigError: if the server was not started yet.
        """
        if not self._port:
            raise ConfigError("the server has no address yet; use it in a with statement, or call start()")
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
        self._run(self._wind_up())
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

    def _now_s(self) -> float:
        return time.perf_counter() - self._started

    async def _close(self) -> None:
        self._listener.close()
        # Once round the loop, so that connections are told, and once more for the calls that this cancels.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _wind_up(self) -> None:
        """Close, and end whatever still runs: connections that are being accepted, and calls."""
        await self._close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        await self._close()

    def _failed(self, error: BaseException) -> HttpReply:
        """Answer a call whose reply function has raised: with a status that no client tries again."""
        self._raised.append(error)
        return refusal_reply(Refusal(400, f"the reply function of ChatServer raised {error!r}"))

    async def _serve(self, request: HttpRequest) -> HttpReply:
        call = ServedCall(urlsplit(request.path).path, {}, request.headers, self._now_s())
        self.calls.append(call)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            reply = await self._endpoint.answer(request, call)
            if reply.sent_share is None or reply.sent_share >= 0:
                call.status = reply.status
            return reply
        finally:
            self._in_flight -= 1
            if not self._keep_bodies:
                call.body = {}
            call.ended_s = self._now_s()
