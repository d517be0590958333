from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.doubles import ChatServer, Fault, Schedule
from tests.table import each

from memforest.errors import ConfigError

REPLY = '{"statements": [{"text": "Nora lives in Porto."}]}'


def ask(server: ChatServer, text: str = "hi") -> tuple[int, dict[str, str], Any]:
    """Send a chat request over a connection of its own."""
    body = {"model": "double", "messages": [{"role": "user", "content": text}]}
    return post(server, "chat/completions", body)


def post(server: ChatServer, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, str], Any]:
    """Send a request over a connection of its own; return status, headers and parsed body."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        connection.request("POST", f"/v1/{path}", json.dumps(body))
        reply = connection.getresponse()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, json.loads(reply.read())
    finally:
        connection.close()


def content(made: tuple[int, dict[str, str], Any]) -> tuple[str, str]:
    """Return text and finish of a reply."""
    assert made[0] == 200
    choice = made[2]["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def test_faults_of_the_content_spoil_the_text() -> None:
    """Each fault of the content leaves the reply in its own unusable way, with status 200."""
    faults = {
        1: Fault.malformed_json(),
        2: Fault.truncated(),
        3: Fault.empty(),
        4: Fault.wrong_schema(),
        5: Fault.prompt_echo(),
    }
    with ChatServer(reply=lambda body: REPLY, faults=faults) as server:
        malformed, truncated, empty, wrong, echo, fine = (content(ask(server)) for _ in range(6))
        assert [call.fault for call in server.calls] == [*(fault.name for fault in faults.values()), None]
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(malformed[0])
    assert truncated == (REPLY[: len(REPLY) // 2], "length")
    assert empty == ("", "stop")
    assert "statements" not in json.loads(wrong[0])
    assert echo == ("hi", "stop")
    assert fine == (REPLY, "stop")


@each("text", ["{}", "[1]", '"x"', "not JSON", ""])
def test_malformed_json_is_never_json(text: str) -> None:
    """Whatever the reply was, what is left of it does not parse."""
    with ChatServer(reply=lambda body: text, faults={1: Fault.malformed_json()}) as server:
        spoilt, _ = content(ask(server))
    with pytest.raises(ValueError, match=r"Expecting|Extra|Unterminated"):
        json.loads(spoilt)


def test_embeddings_are_spoilt_in_their_own_way() -> None:
    """Rows are missing, or too short; the body is broken."""
    faults = {1: Fault.truncated(), 2: Fault.empty(), 3: Fault.wrong_schema(), 4: Fault.malformed_json()}
    body = {"model": "double", "input": ["one", "two"]}
    with ChatServer(faults=faults, embedding_dimension=16) as server:
        rows = [post(server, "embeddings", body)[2]["data"] for _ in range(3)]
        with pytest.raises(ValueError, match="delimiter"):
            post(server, "embeddings", body)
    assert [len(one) for one in rows] == [1, 0, 2]
    assert len(rows[2][0]["embedding"]) == 15


def test_a_status_comes_with_its_wait() -> None:
    """A status is OpenAI's error; its wait is in milliseconds, and in whole seconds rounded up."""
    with ChatServer(faults={1: Fault.status(429, retry_after_s=0.2), 2: Fault.status(500)}) as server:
        status, headers, made = ask(server)
        assert (status, made["error"]["type"]) == (429, "rate_limit_error")
        assert (headers["retry-after-ms"], headers["retry-after"]) == ("200", "1")
        status, headers, made = ask(server)
        assert (status, made["error"]["type"], "retry-after" in headers) == (500, "server_error", False)


def test_a_timeout_holds_the_reply_back() -> None:
    """The reply comes after the seconds of the fault."""
    with ChatServer(reply=lambda body: REPLY, faults={1: Fault.timeout(0.3)}) as server:
        begun = time.perf_counter()
        assert content(ask(server)) == (REPLY, "stop")
        assert time.perf_counter() - begun >= 0.3


def test_a_dropped_connection_leaves_nothing_or_a_part() -> None:
    """Dropped at once there is no status line; dropped later a part of the body is missing, however small."""
    faults = {1: Fault.drop(), 2: Fault.drop(0.5), 3: Fault.drop(1.0)}
    with ChatServer(reply=lambda body: REPLY, faults=faults) as server:
        with pytest.raises(ConnectionError):
            ask(server)
        for _ in range(2):
            with pytest.raises(http.client.IncompleteRead):
                ask(server)
        assert [call.status for call in server.calls] == [None, 200, 200]


def test_a_killed_server_is_gone_until_it_is_revived() -> None:
    """The call that meets the fault breaks, later ones cannot connect, and `revive` ends it."""
    with ChatServer(reply=lambda body: REPLY, faults={2: Fault.kill()}) as server:
        ask(server)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                ask(server)
        server.revive()
        assert content(ask(server)) == (REPLY, "stop")
        assert [call.fault for call in server.calls] == [None, "kill", None]


def met(faults: Any, texts: list[str]) -> list[bool]:
    """Return which of several calls, one after the other, meet a fault."""
    with ChatServer(reply=lambda body: REPLY, faults=faults) as server:
        for text in texts:
            ask(server, text)
        return [call.fault is not None for call in server.calls]


def says(word: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a predicate on the body of a request."""
    return lambda body: word in body["messages"][0]["content"]


def test_schedules_choose_their_calls() -> None:
    """By number, every nth, by the first tries of each request, by what the body says."""
    empty, texts = Fault.empty(), ["a", "b", "a", "a", "b", "b"]
    assert met(Schedule.at({2: empty, 5: empty}), texts) == [False, True, False, False, True, False]
    assert met(Schedule.every(3, empty), texts) == [False, False, True, False, False, True]
    assert met(Schedule.first(2, empty), texts) == [True, True, True, False, True, False]
    assert met(Schedule.first(1, empty, when=says("b")), texts) == [False, True, False, False, False, False]
    assert met(Schedule.when(says("a"), empty), texts) == [True, False, True, True, False, False]


def test_the_first_schedule_with_a_fault_counts() -> None:
    """Several schedules are asked in order."""
    faults = [Schedule.at({1: Fault.empty()}), Schedule.every(1, Fault.prompt_echo())]
    with ChatServer(reply=lambda body: REPLY, faults=faults) as server:
        assert [content(ask(server))[0] for _ in range(2)] == ["", "hi"]


def test_dice_are_thrown_per_request_and_try() -> None:
    """The same seed meets the same requests in any order; the share is about right; another seed differs."""
    texts = [f"question {n}" for n in range(100)]
    rate = Schedule.rate(0.3, [Fault.empty(), Fault.truncated()], seed=7)
    forwards = dict(zip(texts, met(rate, texts), strict=True))
    backwards = dict(zip(texts[::-1], met(rate, texts[::-1]), strict=True))
    assert forwards == backwards
    assert 15 <= sum(forwards.values()) <= 45
    assert list(forwards.values()) != met(Schedule.rate(0.3, Fault.empty(), seed=8), texts)


def test_impossible_schedules_are_refused() -> None:
    """A share above 1, every 0th call, no fault and a status that is no error are errors."""
    for make in (
        lambda: Schedule.rate(1.5, Fault.empty()),
        lambda: Schedule.rate(0.5, []),
        lambda: Schedule.every(0, Fault.empty()),
        lambda: Fault.status(200),
    ):
        with pytest.raises(ConfigError):
            make()
