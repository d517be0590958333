"""No endpoint can hold a call for longer than its time-out, or fill the memory: deadlines and bounds of replies."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pytest
from tests.table import each

from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ModelError, ModelRequestError, ModelUnavailableError
from memforest.models import OpenAIChat, OpenAIEmbedder
from memforest.ports import ChatReply, ChatRequest, Message

R = TypeVar("R")

PATIENCE_S = 20.0
"""A call that is not bounded ends here, and fails the test."""
LONG = 40 << 20
"""Bytes of a body that no model sends."""
ASK = ChatRequest("extract", (Message("user", "Where does Nora live?"),))
GOOD = json.dumps({"choices": [{"message": {"content": "In Porto."}}]}).encode()
VECTOR = json.dumps({"data": [{"index": 0, "embedding": [3.0, 4.0]}]}).encode()


@dataclass
class Raw:
    """A server that answers each request with what a function writes to the socket."""

    write: Callable[[Raw, asyncio.StreamWriter], Awaitable[None]]
    requests: int = 0
    sent: int = 0
    broken: int = 0
    """Connections that the client closed before the reply was whole."""
    open: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                )
                await reader.readexactly(length)
                self.requests += 1
                await self.write(self, writer)
        except ConnectionError:
            self.broken += 1
        except asyncio.IncompleteReadError:
            pass
        finally:
            self.open.discard(task)
            writer.close()

    async def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send bytes, as fast as they are taken."""
        writer.write(data)
        await writer.drain()
        self.sent += len(data)


def against(server: Raw, use: Callable[[str], Awaitable[R]]) -> R:
    """Run a coroutine against a server, and wait until the server has seen its connections end."""

    async def run() -> R:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        try:
            return await asyncio.wait_for(use(f"http://127.0.0.1:{port}/v1"), PATIENCE_S)
        finally:
            listening.close()
            if server.open:
                await asyncio.wait(set(server.open), timeout=PATIENCE_S)

    return asyncio.run(run())


async def chat(url: str, **settings: Any) -> ChatReply:
    """Ask the chat model at an address, once if nothing else is said."""
    model = OpenAIChat(ChatEndpoint("m", base_url=url, **{"max_retries": 0, **settings}))
    try:
        return await model.complete(ASK)
    finally:
        await model.close()


async def embed(url: str, **settings: Any) -> Any:
    """Embed a text at an address, once if nothing else is said."""
    model = OpenAIEmbedder(EmbeddingEndpoint("m", base_url=url, **{"max_retries": 0, **settings}))
    try:
        return await model.embed(["Nora lives in Porto."])
    finally:
        await model.close()


def head(status: str = "200 OK", **headers: str) -> bytes:
    """Return a status line and headers."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{lines}\r\n".encode()


def whole(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Return a reply with a body."""
    return head(status, content_length=str(len(body)), **headers) + body


async def _drip_headers(server: Raw, writer: asyncio.StreamWriter) -> None:
    await server.send(writer, b"HTTP/1.1 200 OK\r\n")
    while True:
        await server.send(writer, b"x-a: b\r\n")
        await asyncio.sleep(0.05)


async def _drip_body(server: Raw, writer: asyncio.StreamWriter) -> None:
    await server.send(writer, head(content_length="1000000"))
    while True:
        await server.send(writer, b" ")
        await asyncio.sleep(0.05)


@each("drip", [_drip_headers, _drip_body])
@each(("ask", "setting"), [(chat, "chat.timeout_s"), (embed, "embeddings.timeout_s")])
def test_a_server_that_drips_is_left_at_the_time_out(drip: Any, ask: Any, setting: str) -> None:
    """Every try has the whole time-out and no more; then the connection is closed and the setting named."""
    server = Raw(drip)
    with pytest.raises(ModelUnavailableError, match=rf"within 0\.3 s \(1 retry\).*raise {setting}") as error:
        against(server, lambda url: ask(url, timeout_s=0.3, max_retries=1))
    assert error.value.retries == 1
    assert server.broken == server.requests
    assert server.requests in (1, 2)  # on a busy machine the first try may end before it is sent


def test_a_try_after_a_slow_one_has_time_of_its_own() -> None:
    """The first try is given up, and the second one answers."""

    async def write(server: Raw, writer: asyncio.StreamWriter) -> None:
        if server.requests == 1:
            await _drip_body(server, writer)
        await server.send(writer, whole(GOOD))

    found = against(Raw(write), lambda url: chat(url, timeout_s=0.5, max_retries=1))
    assert (found.text, found.retries) == ("In Porto.", 1)


async def _endless(server: Raw, writer: asyncio.StreamWriter) -> None:
    await server.send(writer, head(content_length=str(LONG)))
    for _ in range(LONG >> 16):
        await server.send(writer, b" " * (1 << 16))


async def _bomb(server: Raw, writer: asyncio.StreamWriter) -> None:
    await server.send(writer, whole(gzip.compress(b" " * LONG), content_encoding="gzip"))


@each("write", [_endless, _bomb])
@each(("ask", "most"), [(chat, "8 MB"), (embed, "1 MB")])
def test_a_reply_that_is_too_long_is_not_read(write: Any, ask: Any, most: str) -> None:
    """Neither an endless body nor one that unpacks to one; the bound of vectors goes by their number and length."""
    server = Raw(write)
    sizes = {} if ask is chat else {"batch": 1, "dimensions": 2}
    with pytest.raises(ModelUnavailableError, match=f"more than {most}.*base_url"):
        against(server, lambda url: ask(url, **sizes))
    assert server.requests == 1
    assert server.sent < LONG // 2


def test_a_refusal_that_is_too_long_is_cut() -> None:
    """The beginning of what the server says is enough."""

    async def write(server: Raw, writer: asyncio.StreamWriter) -> None:
        await server.send(writer, head("400 Bad Request", content_length=str(LONG)) + b"you may not; ")
        for _ in range(LONG >> 16):
            await server.send(writer, b"no " * (1 << 14))

    server = Raw(write)
    with pytest.raises(ModelRequestError):
        against(server, chat)
    assert server.sent < LONG // 2


def test_replies_of_every_usual_packing_are_read() -> None:
    """Plain and gzip; what was not asked for is refused."""
    packings: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "identity": bytes,
        "br": bytes,
        "gzip, gzip": gzip.compress,
    }

    def asked(packing: str) -> Any:
        async def write(server: Raw, writer: asyncio.StreamWriter) -> None:
            await server.send(writer, whole(packings[packing](VECTOR), content_encoding=packing))

        return against(Raw(write), embed)

    for packing in ("gzip", "identity"):
        np.testing.assert_allclose(asked(packing), [[0.6, 0.8]])
    for packing in ("br", "gzip, gzip"):
        with pytest.raises(ModelError):
            asked(packing)
