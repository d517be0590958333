"""The test endpoint on the wire: requests in any pieces, in order, over connections that live as HTTP/1.1 says."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from tests.doubles import ChatServer, Fault, RateLimit, Reply
from tests.doubles.__main__ import main
from tests.table import each

from memforest.errors import ConfigError

CHAT, EMBED = "/v1/chat/completions", "/v1/embeddings"


class Wire:
    """A connection to a server, over which bytes go as they are."""

    def __init__(self, server: ChatServer) -> None:
        parts = urlsplit(server.url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10)
        self._got = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def end(self) -> None:
        """Say that nothing more will come."""
        self._socket.shutdown(socket.SHUT_WR)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._got:
            more = self._socket.recv(65536)
            if not more:
                raise ConnectionError
            self._got += more
        head, self._got = self._got.split(mark, 1)
        return head

    def reply(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the next reply."""
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(self._got) < length:
            self._got += self._socket.recv(65536)
        body, self._got = self._got[:length], self._got[length:]
        return int(first.split(" ")[1]), headers, body

    def text(self) -> str:
        """Return the text of the next reply to a chat request."""
        status, _, body = self.reply()
        assert status == 200
        found: str = json.loads(body)["choices"][0]["message"]["content"]
        return found

    def is_closed(self) -> bool:
        """Wait until the server closes; return whether nothing came before that."""
        return self._got == b"" and self._socket.recv(1) == b""


def chat(text: str, **more: Any) -> dict[str, Any]:
    """Return the body of a chat request."""
    return {"model": "double", "messages": [{"role": "user", "content": text}], **more}


def post(body: Any, path: str = CHAT, *headers: str, version: str = "1.1") -> bytes:
    """Return a request as bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


def get(path: str, *headers: str) -> bytes:
    """Return a request without a body as bytes."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def last(body: dict[str, Any]) -> str:
    """Answer with the last message."""
    return str(body["messages"][-1]["content"])


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """A server that answers with what it was asked."""
    with ChatServer(reply=last) as made:
        yield made


def ask(server: ChatServer, body: Any, path: str = CHAT, *headers: str) -> tuple[int, Any]:
    """Return status and parsed body of one request over a connection of its own."""
    with Wire(server) as wire:
        wire.send(post(body, path, *headers))
        status, _, got = wire.reply()
        return status, json.loads(got)


def test_requests_that_come_together_are_answered_in_order(server: ChatServer) -> None:
    """Over one connection, each after the one before it."""
    with Wire(server) as wire:
        wire.send(b"".join(post(chat(f"number {n}")) for n in range(5)))
        assert [wire.text() for _ in range(5)] == [f"number {n}" for n in range(5)]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_request_may_come_in_pieces(server: ChatServer, size: int) -> None:
    """Cut anywhere, in the middle of a letter too."""
    whole = post(chat("niño 東京"))
    with Wire(server) as wire:
        for at in range(0, len(whole), size):
            wire.send(whole[at : at + size])
        assert wire.text() == "niño 東京"


def test_a_body_may_come_in_chunks(server: ChatServer) -> None:
    """Without a length in front."""
    data = json.dumps(chat("chunked")).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[:9], data[9:]))
    with Wire(server) as wire:
        wire.send(head + chunks + b"0\r\n\r\n")
        assert wire.text() == "chunked"


def test_who_waits_to_be_let_in_is_let_in(server: ChatServer) -> None:
    """`Expect: 100-continue` is answered before the body comes."""
    head, body = post(chat("may I?"), CHAT, "Expect: 100-continue").split(b"\r\n\r\n")
    with Wire(server) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.reply()[0] == 100
        wire.send(body)
        assert wire.text() == "may I?"


@pytest.mark.parametrize(
    "request_", [post(chat("bye"), CHAT, "Connection: close"), post(chat("bye"), version="1.0")]
)
def test_a_connection_ends_when_the_client_wants_it(server: ChatServer, request_: bytes) -> None:
    """After the reply; otherwise it is kept for the next request."""
    with Wire(server) as wire:
        wire.send(post(chat("hi")))
        assert wire.text() == "hi"
        wire.send(request_)
        assert wire.text() == "bye"
        assert wire.is_closed()


def test_half_a_request_is_no_call(server: ChatServer) -> None:
    """A client that goes in the middle gets 400 or nothing, and is not among the calls."""
    before = len(server.calls)
    with Wire(server) as wire:
        wire.send(post(chat("unfinished"))[:-5])
        wire.end()
        assert wire.reply()[0] == 400
        assert wire.is_closed()
    assert len(server.calls) == before


def test_a_path_is_told_without_its_query(server: ChatServer) -> None:
    """What stands behind the question mark changes nothing."""
    with Wire(server) as wire:
        wire.send(get("/health?verbose=1"))
        assert wire.reply()[2] == b'{"status":"ok"}'
        wire.send(get("/v1/models?limit=1", "X-Own: é"))
        assert json.loads(wire.reply()[2])["data"][0]["id"] == "double"
    assert [call.path for call in server.calls[-2:]] == ["/health", "/v1/models"]
    assert (server.calls[-1].number, server.calls[-1].body) == (0, {})


def test_a_dropped_reply_says_how_long_it_would_have_been() -> None:
    """A part of the body comes, never all of it; or nothing, not even a status."""
    faults = {1: Fault.drop(0.0), 2: Fault.drop(0.5), 3: Fault.drop(1.0), 4: Fault.drop()}
    shares = []
    with ChatServer(reply=last, faults=faults) as server:
        for _ in range(3):
            with Wire(server) as wire:
                wire.send(post(chat("x" * 300)))
                head = wire._until(b"\r\n\r\n").lower()
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                got = len(wire._got)
                while more := wire._socket.recv(65536):
                    got += len(more)
                shares.append((got, length))
        with Wire(server) as wire:
            wire.send(post(chat("x")))
            assert wire.is_closed()
    assert [got for got, _ in shares] == [0, round(shares[1][1] / 2), shares[2][1] - 1]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        (CHAT, b"", 400, "could not parse the JSON body"),
        (CHAT, b"\xff", 400, "could not parse the JSON body"),
        (CHAT, "text", 400, "no JSON object"),
        (CHAT, {"messages": [{}]}, 400, "model parameter"),
        (CHAT, {"model": 3, "messages": [{}]}, 400, "model parameter"),
        (CHAT, {"model": "double"}, 400, "a list of messages"),
        (CHAT, {"model": "double", "messages": "hi"}, 400, "a list of messages"),
        (CHAT, {"model": "double", "messages": ["hi"]}, 400, "a list of messages"),
        (CHAT, chat("hi", stream=True), 400, "does not stream"),
        (EMBED, {"model": "double"}, 400, "a list of texts"),
        (EMBED, {"model": "double", "input": ["a", ""]}, 400, "a list of texts"),
        (EMBED, {"model": "double", "input": [1, 2]}, 400, "a list of texts"),
        (EMBED, {"model": "double", "input": ""}, 400, "a list of texts"),
        ("/v1/models", {}, 404, "POST /v1/models"),
        ("/v2/embeddings", {}, 404, "POST /v2/embeddings"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(
    server: ChatServer, path: str, body: Any, status: int, said: str
) -> None:
    """In OpenAI's shape of errors."""
    got, made = ask(server, body, path)
    assert (got, made["error"]["code"]) == (status, None)
    assert said in made["error"]["message"]


def test_embeddings_are_of_the_asked_length(server: ChatServer) -> None:
    """One that is none is passed over; a single text is a list of one; usage counts all texts."""
    for asked, length in ((8, 8), (1, 1), (0, 64), (-3, 64), ("8", 64), (None, 64)):
        _, made = ask(server, {"model": "m", "input": ["abcd", "efghi"], "dimensions": asked}, EMBED)
        assert [len(one["embedding"]) for one in made["data"]] == [length] * 2
        assert made["usage"]["prompt_tokens"] == 3
    assert [one["index"] for one in ask(server, {"model": "m", "input": "a"}, EMBED)[1]["data"]] == [0]


@each(
    ("header", "status"),
    [
        ("Authorization: Bearer right", 200),
        ("Authorization: Bearer wrong", 401),
        ("Authorization: bearer right", 401),
        ("Authorization: right", 401),
        ("X-Key: right", 401),
    ],
)
def test_a_key_is_asked_for_everywhere_but_at_the_door(header: str, status: int) -> None:
    """Calls and the list of models need it, health does not; a call that is refused has no number."""
    with ChatServer(reply=last, key="right") as server:
        assert ask(server, chat("hi"), CHAT, header)[0] == status
        with Wire(server) as wire:
            wire.send(get("/v1/models", header) + get("/health"))
            assert [wire.reply()[0] for _ in range(2)] == [status, 200]
        assert [call.number for call in server.calls] == [int(status == 200), 0, 0]


@pytest.mark.parametrize(("strict", "status"), [(True, 404), (False, 200)])
def test_models_are_listed_and_may_be_all_there_are(strict: bool, status: int) -> None:
    """In the order given; another one is answered unless the server is strict, of embeddings too."""
    with ChatServer(reply=last, models=("b", "a"), strict=strict) as server:
        with Wire(server) as wire:
            wire.send(get("/v1/models"))
            assert [one["id"] for one in json.loads(wire.reply()[2])["data"]] == ["b", "a"]
        assert ask(server, chat("hi", model="a"))[0] == 200
        assert ask(server, chat("hi", model="c"))[0] == status
        assert ask(server, {"model": "c", "input": "x"}, EMBED)[0] == status


def test_forms_that_are_refused_are_named() -> None:
    """Only those that the server was told to refuse."""
    with ChatServer(reply=last, refuses=("json_object",)) as server:
        status, made = ask(server, chat("hi", response_format={"type": "json_object"}))
        assert (status, made["error"]["param"]) == (400, "response_format")
        assert "'json_object'" in made["error"]["message"]
        for form in ({"type": "json_schema"}, {"type": "text"}, None, "json_object"):
            assert ask(server, chat("hi", response_format=form))[0] == 200


def test_a_call_that_is_refused_counts_for_the_rate_and_meets_no_fault() -> None:
    """It has a number; tries are counted of calls that can be answered, by their whole body."""
    faults = {3: Fault.status(418)}
    with ChatServer(reply=last, faults=faults, rate_limit=RateLimit(per_s=0.001, burst=3)) as server:
        assert [ask(server, body)[0] for body in (b"{", chat("a"), chat("a"), chat("a"))] == [
            400,
            200,
            418,
            429,
        ]
        assert [(call.number, call.fault, call.status) for call in server.calls] == [
            (1, None, 400),
            (2, None, 200),
            (3, "status", 418),
            (4, None, 429),
        ]


@pytest.mark.parametrize("most", [None, "2", 3, 50])
def test_a_limit_that_is_none_cuts_nothing(server: ChatServer, most: Any) -> None:
    """No number, or as many tokens as there are, or more."""
    _, made = ask(server, chat("0123456789", max_tokens=most))
    assert made["choices"][0]["finish_reason"] == "stop"
    assert made["usage"]["completion_tokens"] == 3


def test_a_reply_keeps_its_own_count_and_end() -> None:
    """A count that was given is cut like an estimated one; an error is sent with its headers."""

    def reply(body: dict[str, Any]) -> Reply:
        if last(body) == "busy":
            return Reply("later", status=503, headers={"x-why": "busy"})
        return Reply("0123456789", finish="content_filter", completion_tokens=50)

    with ChatServer(reply=reply) as server:
        whole = ask(server, chat("hi", max_tokens=50))[1]
        choice = whole["choices"][0]
        assert whole["usage"]["completion_tokens"] == 50
        assert (choice["message"]["content"], choice["finish_reason"]) == ("0123456789", "content_filter")
        cut = ask(server, chat("hi", max_completion_tokens=2, max_tokens=50))[1]
        assert (cut["choices"][0]["message"]["content"], cut["usage"]["completion_tokens"]) == ("01234567", 2)
        with Wire(server) as wire:
            wire.send(post(chat("busy")))
            status, headers, body = wire.reply()
        assert (status, headers["x-why"], json.loads(body)["error"]["message"]) == (503, "busy", "later")


@pytest.mark.parametrize("kept", [True, False])
def test_bodies_are_kept_if_that_is_wanted(kept: bool) -> None:
    """Everything else of a call is there either way."""
    with ChatServer(reply=last, keep_bodies=kept) as server:
        ask(server, chat("hi"))
        (call,) = server.calls
    assert (bool(call.body), call.status, call.completion_tokens, server.most_in_flight) == (kept, 200, 1, 1)


def test_reviving_what_lives_changes_nothing() -> None:
    """The same port, and no second listener; after the end there is none to revive or to kill."""
    server = ChatServer(reply=last).start()
    url = server.url
    server.revive()
    assert ask(server, chat("hi"))[0] == 200
    server.kill()
    server.kill()
    server.revive()
    assert (ask(server, chat("hi"))[0], server.url) == (200, url)
    server.stop()
    for late in (server.kill, server.revive):
        with pytest.raises(ConfigError):
            late()


def test_the_command_says_what_it_served_when_its_input_ends() -> None:
    """An address first, and numbers last; nobody has called meanwhile."""
    done = CliRunner().invoke(
        main, ["--latency", "0.5,0.1,0.2,9", "--rate-limit", "3", "--key", "k"], input=""
    )
    url, served = done.stdout.splitlines()
    assert (done.exit_code, url.startswith("http://127.0.0.1:"), url.endswith("/v1")) == (0, True, True)
    counts = json.loads(served)
    assert counts.pop("processor_s") > 0
    assert set(counts.values()) == {0}
    assert counts.keys() == {"calls", "most_in_flight", "prompt_tokens", "completion_tokens", "cached_tokens"}


@each(
    ("args", "code", "said"),
    [
        (["--latency", "fast"], 2, "'fast': give numbers with commas"),
        (["--latency", "-1"], 1, "base_s=-1.0"),
        (["--rate-limit", "0"], 1, "per_s=0.0"),
        (["--rate-limit", "1,0"], 1, "burst=0"),
        (["--embedding-latency", "0,-2"], 1, "prompt_token_s=-2.0"),
        (["--port", "many"], 2, "'many'"),
    ],
)
def test_the_command_refuses_what_cannot_be(args: list[str], code: int, said: str) -> None:
    """In one line, with an exit code that is none of success."""
    done = CliRunner().invoke(main, args, input="")
    assert done.exit_code == code
    assert said in done.output
    assert "Traceback" not in done.output


def test_the_command_names_a_port_that_is_taken(server: ChatServer) -> None:
    """Nothing is served then."""
    port = str(urlsplit(server.url).port)
    done = CliRunner().invoke(main, ["--port", port], input="")
    assert (done.exit_code, port in done.output, "http://" in done.output) == (1, True, False)
