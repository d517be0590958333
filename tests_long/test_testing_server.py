from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
import warnings
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import openai
import pytest
from tests.doubles import ChatServer, Latency, RateLimit, Reply

from memforest.errors import ConfigError
from memforest.testing import HashEmbedder

HOST = "127.0.0.1"
CHAT, EMBED = "/v1/chat/completions", "/v1/embeddings"


def chat(text: str = "Where does Nora live?", **more: Any) -> dict[str, Any]:
    """Return the body of a chat request."""
    return {"model": "double", "messages": [{"role": "user", "content": text}], **more}


def send(
    url: str, path: str, body: Any = None, *, key: str | None = None, timeout: float = 10.0
) -> tuple[int, dict[str, str], Any]:
    """Send one request over a connection of its own; a body of bytes goes as it is."""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)
    try:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        connection.request("GET" if data is None else "POST", path, data, headers)
        reply = connection.getresponse()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, json.loads(reply.read())
    finally:
        connection.close()


def test_it_speaks_to_the_openai_client() -> None:
    """The official client reads a reply, its usage, the models and both forms of embeddings."""
    with (
        ChatServer(reply=lambda body: "In Porto.", embedding_dimension=32) as server,
        openai.OpenAI(base_url=server.url, api_key="any", max_retries=0) as client,
    ):
        said = client.chat.completions.create(**chat())
        assert (said.choices[0].message.content, said.choices[0].finish_reason) == ("In Porto.", "stop")
        assert said.usage is not None
        assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens > 0
        assert [model.id for model in client.models.list()] == ["double"]
        packed = client.embeddings.create(model="double", input=["a cat", "two dogs"])
        plain = client.embeddings.create(model="double", input=["a cat", "two dogs"], encoding_format="float")
    rows = asyncio.run(HashEmbedder(32).embed(["a cat", "two dogs"]))
    for made in (packed, plain):
        np.testing.assert_allclose([one.embedding for one in made.data], rows, rtol=1e-6)


def test_base64_is_little_endian_float32() -> None:
    """Embeddings in base64 hold the bytes of the embedder's rows, of the length that was asked for."""
    with ChatServer() as server:
        body = {"model": "double", "input": "a cat", "encoding_format": "base64", "dimensions": 8}
        _, _, made = send(server.url, EMBED, body)
    row = np.frombuffer(base64.b64decode(made["data"][0]["embedding"]), dtype="<f4")
    assert row.tolist() == asyncio.run(HashEmbedder(8).embed(["a cat"]))[0].tolist()


def test_calls_are_kept_in_order_of_arrival() -> None:
    """`calls` tells path, body, headers, times, status and tokens; only calls to a model have a number."""
    with ChatServer(reply=lambda body: "yes") as server:
        send(server.url, "/health")
        send(server.url, CHAT, chat("one"), key="k")
        send(server.url, EMBED, {"model": "double", "input": "two"})
        calls = server.calls
    assert [(call.path, call.number, call.status) for call in calls] == [
        ("/health", 0, 200),
        (CHAT, 1, 200),
        (EMBED, 2, 200),
    ]
    assert calls[1].body["messages"][0]["content"] == "one"
    assert calls[1].headers["authorization"] == "Bearer k"
    assert calls[1].ended_s is not None
    assert 0 <= calls[0].arrived_s <= calls[1].arrived_s <= calls[1].ended_s <= calls[2].arrived_s
    assert calls[1].completion_tokens == 1


def test_replies_may_be_async_and_detailed() -> None:
    """A `Reply` sets text, headers and token count; an error status makes it an error of OpenAI's shape."""

    async def reply(body: dict[str, Any]) -> Reply:
        await asyncio.sleep(0)
        if "bad" in body["messages"][0]["content"]:
            return Reply("too long", status=413)
        return Reply("fine", headers={"x-told": "yes"}, completion_tokens=77, finish="content_filter")

    with ChatServer(reply=reply) as server:
        status, headers, made = send(server.url, CHAT, chat("good"))
        assert (status, headers["x-told"], made["usage"]["completion_tokens"]) == (200, "yes", 77)
        assert made["choices"][0]["finish_reason"] == "content_filter"
        status, _, made = send(server.url, CHAT, chat("bad"))
        assert (status, made["error"]["message"]) == (413, "too long")


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_replies_are_cut_at_the_token_limit(limit: str) -> None:
    """A longer reply is cut and says so in `finish_reason`; one that fits is left alone."""
    with ChatServer(reply=lambda body: "0123456789") as server:
        _, _, cut = send(server.url, CHAT, chat() | {limit: 2})
        _, _, whole = send(server.url, CHAT, chat() | {limit: 3})
    assert (cut["choices"][0]["message"]["content"], cut["choices"][0]["finish_reason"]) == (
        "01234567",
        "length",
    )
    assert cut["usage"]["completion_tokens"] == 2
    assert whole["choices"][0]["finish_reason"] == "stop"


def test_what_is_wrong_with_a_request_is_said() -> None:
    """Key, model, address, format and body are checked, each with its own status, in OpenAI's shape of errors."""
    with ChatServer(key="right", strict=True, refuses=("json_schema",)) as server:
        assert send(server.url, CHAT, chat())[0] == 401
        assert send(server.url, CHAT, chat(), key="wrong")[2]["error"]["code"] == "invalid_api_key"
        assert send(server.url, CHAT, chat() | {"model": "other"}, key="right")[2]["error"]["code"] == (
            "model_not_found"
        )
        for path, body, status in (
            ("/v1/nothing", chat(), 404),
            (CHAT, None, 405),
            (CHAT, b"{", 400),
            (CHAT, [], 400),
            (CHAT, {"model": "double", "messages": []}, 400),
            (CHAT, {"messages": []}, 400),
            (CHAT, chat(stream=True), 400),
            (CHAT, chat(response_format={"type": "json_schema"}), 400),
            (CHAT, chat(response_format={"type": "json_object"}), 200),
            (EMBED, {"model": "double", "input": []}, 400),
        ):
            assert send(server.url, path, body, key="right")[0] == status, (path, body)


def test_bytes_that_are_no_http_are_refused() -> None:
    """A client that does not speak HTTP gets 400, and the server goes on."""
    with ChatServer() as server:
        host, port = urlsplit(server.url).hostname, urlsplit(server.url).port

        async def talk() -> bytes:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"\x00\x01 nonsense\r\n\r\n")
            got = await reader.read()
            writer.close()
            return got

        assert asyncio.run(talk()).startswith(b"HTTP/1.1 400 ")
        assert send(server.url, "/health")[0] == 200


def test_what_a_reply_function_raises_fails_the_test() -> None:
    """The call is answered with 400, and the error comes up where the server is left."""
    server = ChatServer(reply=lambda body: body["missing"]).start()
    status, _, made = send(server.url, CHAT, chat())
    assert (status, "KeyError('missing')" in made["error"]["message"]) == (400, True)
    with pytest.raises(KeyError, match="missing"):
        server.__exit__(None, None, None)


async def _together(url: str, calls: int, each: int) -> list[float]:
    """Send `each` calls over each of many connections at once; return the seconds that every call took."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    body = json.dumps(chat()).encode()
    request = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body

    async def one() -> list[float]:
        reader, writer = await asyncio.open_connection(host, port)
        took = []
        with contextlib.closing(writer):
            for _ in range(each):
                begun = time.perf_counter()
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert head.startswith(b"http/1.1 200")
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                took.append(time.perf_counter() - begun)
        return took

    return [seconds for took in await asyncio.gather(*(one() for _ in range(calls))) for seconds in took]


def test_two_hundred_calls_take_as_long_as_one() -> None:
    """200 connections with three calls each are served together, and kept alive."""
    with ChatServer(reply=lambda body: "yes", latency=Latency(base_s=0.5)) as server:
        begun = time.perf_counter()
        took = asyncio.run(_together(server.url, 200, 3))
        seconds = time.perf_counter() - begun
        assert server.most_in_flight == 200
        assert len(server.calls) == len(took) == 600
    assert min(took) >= 0.5
    assert seconds < 6  # one after the other they would take 300


def test_latency_is_the_sum_of_its_parts() -> None:
    """A call takes the fixed seconds, those of its prompt and those of its reply, and little more."""
    latency = Latency(base_s=0.1, prompt_token_s=0.001, completion_token_s=0.01)
    with ChatServer(reply=lambda body: Reply("yes", completion_tokens=10), latency=latency) as server:
        send(server.url, CHAT, chat("x" * 388))
        (call,) = server.calls
    assert call.ended_s is not None
    assert latency.seconds(call.prompt_tokens, 10) == pytest.approx(0.3, abs=0.01)
    assert latency.seconds(call.prompt_tokens, 10) <= call.ended_s - call.arrived_s < 0.6


def test_embeddings_have_a_latency_of_their_own() -> None:
    """The latency of replies does not slow embeddings, and theirs does."""
    with ChatServer(latency=Latency(5), embedding_latency=Latency(0.2)) as server:
        send(server.url, EMBED, {"model": "double", "input": "a"})
        (call,) = server.calls
    assert call.ended_s is not None
    assert 0.2 <= call.ended_s - call.arrived_s < 2


def test_beyond_the_rate_limit_calls_are_told_when_to_come_back() -> None:
    """The burst is let in, the next call gets 429 with its wait, and after that wait it is let in."""
    with ChatServer(reply=lambda body: "yes", rate_limit=RateLimit(per_s=2, burst=2)) as server:
        assert [send(server.url, CHAT, chat())[0] for _ in range(2)] == [200, 200]
        status, headers, made = send(server.url, CHAT, chat())
        assert (status, made["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 0 < int(headers["retry-after-ms"]) <= 500
        assert headers["retry-after"] == "1"
        time.sleep(int(headers["retry-after-ms"]) / 1000)
        assert send(server.url, CHAT, chat())[0] == 200


def test_prompts_that_begin_alike_have_cached_tokens() -> None:
    """Whole blocks of 128 tokens that an earlier prompt of the model began with are cached; others are not."""
    with ChatServer(reply=lambda body: "yes") as server:

        def cached(text: str, model: str = "double") -> int:
            _, _, made = send(server.url, CHAT, chat(text) | {"model": model})
            found: int = made["usage"]["prompt_tokens_details"]["cached_tokens"]
            return found

        assert [cached("x" * 2000), cached("x" * 1500 + "y"), cached("z" + "x" * 2000)] == [0, 256, 0]
        assert cached("x" * 2000, model="other") == 0
    with ChatServer(reply=lambda body: "yes", prefix_cache=False) as server:
        assert [cached("x" * 2000), cached("x" * 2000)] == [0, 0]


def test_it_comes_back_at_the_same_address() -> None:
    """After `kill` nobody is let in and calls under way break; after `revive` the same address answers."""
    with ChatServer(reply=lambda body: "yes") as server:
        url = server.url
        assert send(url, "/health")[0] == 200
        server.kill()
        with pytest.raises(ConnectionError):
            send(url, "/health")
        server.revive()
        assert server.url == url
        assert send(url, "/health")[0] == 200


def test_a_call_under_way_breaks_with_the_server() -> None:
    """`kill` ends a call that is being answered; it has ended without a status."""
    with ChatServer(latency=Latency(30)) as server:

        async def call_and_kill() -> None:
            call = asyncio.create_task(_together(server.url, 1, 1))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.kill)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await call

        asyncio.run(call_and_kill())
        assert server.calls[0].status is None
        assert server.calls[0].ended_s is not None


def test_a_client_that_goes_away_ends_its_call() -> None:
    """A call whose client has given up is cancelled, and counts as ended."""
    with ChatServer(latency=Latency(30)) as server:
        with pytest.raises(TimeoutError):
            send(server.url, CHAT, chat(), timeout=0.2)
        until = time.perf_counter() + 5
        while server.calls[0].ended_s is None and time.perf_counter() < until:
            time.sleep(0.01)
        assert server.calls[0].ended_s is not None
        assert server.calls[0].status is None


def test_stopping_while_clients_connect_leaves_no_socket_open() -> None:
    """What was being accepted when the server stopped is closed with it."""

    def connect(url: str) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HOST, urlsplit(url).port), timeout=5) as one,
        ):
            one.recv(1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(20):
            server = ChatServer().start()
            clients = [threading.Thread(target=connect, args=(server.url,)) for _ in range(10)]
            for client in clients:
                client.start()
            server.stop()
            for client in clients:
                client.join()
        gc.collect()
    assert [str(one.message) for one in caught] == []


def test_a_taken_port_is_an_error() -> None:
    """A port that something else listens at is refused by name."""
    with ChatServer() as server:
        port = urlsplit(server.url).port
        assert port is not None
        with pytest.raises(ConfigError, match=str(port)):
            ChatServer(port=port).start()


def test_before_the_start_there_is_no_address() -> None:
    """Asking for the address, or to be killed, says to start the server first; stopping it twice is harmless."""
    server = ChatServer()
    with pytest.raises(ConfigError, match="start"):
        _ = server.url
    with pytest.raises(ConfigError, match="start"):
        server.kill()
    server.start()
    with pytest.raises(ConfigError, match="already"):
        server.start()
    server.stop()
    server.stop()


def test_the_command_prints_its_address_and_what_it_served() -> None:
    """`python -m tests.doubles` serves in a process of its own until its input ends."""
    command = [sys.executable, "-m", "tests.doubles", "--latency", "0.01,0,0", "--model", "m", "--strict"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert send(url, "/health")[0] == 200  # no call to a model: it is not counted
        assert send(url, CHAT, chat() | {"model": "m"})[0] == 200
        assert send(url, CHAT, chat())[0] == 404
        process.stdin.close()
        served = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert (served["calls"], served["most_in_flight"]) == (2, 1)
