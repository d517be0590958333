"""Whatever JSON an endpoint sends, it is read right or becomes an error of ours; nothing of it harms a memory."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doubles import local_reply
from tests.doubles.listener import HttpReply, HttpRequest, Listener

from memforest import ChatEndpoint, Config, EmbeddingEndpoint, IngestResult, MemForest
from memforest.errors import ModelError, ModelUnavailableError
from memforest.models import HashEmbedder, OpenAIChat, OpenAIEmbedder
from memforest.models.ledger import MOST_COUNTED
from memforest.ports import ChatReply, ChatRequest, Message
from memforest.testing import FunctionChat

TURN = [{"speaker": "Ann", "text": "I live in Porto.", "timestamp": "2024-01-01"}]
ASK = ChatRequest("extract", (Message("user", "Where does Ann live?"),))
TEXTS = ("one", "two", "three")
DEEP = "[" * 50_000 + "]" * 50_000

PACKED = [base64.b64encode(struct.pack("<2f", *row)).decode() for row in ((1, 0), (0, 1), (3, 4))]
CHAT = {
    "id": "x",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
}
VECTORS = {
    "data": [{"index": 2 - at, "embedding": PACKED[2 - at]} for at in range(3)],
    "usage": {"prompt_tokens": 9},
}
REFUSAL = {"error": {"message": "no", "type": "t", "param": "p", "code": "c"}}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**63, 10**30, -1, 0, 1, 2])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\0", "\ud800", "0", "insufficient_quota", PACKED[0], PACKED[0][:-3], "@deep@"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to every part of a JSON value."""
    yield here
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from paths(part, (*here, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of a JSON value with another part in one place."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutated(draw: st.DrawFn, base: Any) -> bytes:
    """Return the text of a JSON value in which one to three parts were exchanged."""
    value = base
    for _ in range(draw(st.integers(1, 3))):
        value = put(value, draw(st.sampled_from(list(paths(value)))), draw(values))
    return json.dumps(value).replace('"@deep@"', DEEP).encode()


class Odd:
    """Models behind a server that sends what it is told to, all in one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.reply = HttpReply(200, b"")
        self._listener = Listener(self._serve, lambda error: HttpReply(500, repr(error).encode()))
        url = f"http://127.0.0.1:{self.loop.run_until_complete(self._listener.open())}/v1"
        self.chat = OpenAIChat(ChatEndpoint("m", base_url=url, max_retries=0, structured="text"))
        self._url = url

    async def _serve(self, request: HttpRequest) -> HttpReply:
        return self.reply

    def complete(self) -> ChatReply:
        """Ask the chat model."""
        return self.loop.run_until_complete(self.chat.complete(ASK))

    def embed(self) -> Any:
        """Embed the texts, with an embedder that has learnt nothing yet."""

        async def run() -> Any:
            model = OpenAIEmbedder(EmbeddingEndpoint("m", base_url=self._url, max_retries=0))
            try:
                return await model.embed(TEXTS)
            finally:
                await model.close()

        return self.loop.run_until_complete(run())

    def close(self) -> None:
        """End the loop with its connections."""

        async def wind_up() -> None:
            await self.chat.close()
            self._listener.close()
            for _ in range(3):  # so that connections are told
                await asyncio.sleep(0)

        self.loop.run_until_complete(wind_up())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture(scope="module")
def odd() -> Iterator[Odd]:
    """One server and one client for many replies."""
    made = Odd()
    yield made
    made.close()


LONG = "MEMFOREST_SOAK_SEEDS" in os.environ
fuzzed = settings(
    max_examples=300 if LONG else 100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
statuses = st.sampled_from([200, 200, 200, 400, 429, 500])


@pytest.mark.soak
@fuzzed
@given(body=mutated(CHAT) | mutated(REFUSAL), status=statuses)
def test_a_chat_reply_is_read_or_refused(odd: Odd, body: bytes, status: int) -> None:
    """What comes out is a text with counts that can be stored, or an error of ours with a message."""
    odd.reply = HttpReply(status, body)
    try:
        found = odd.complete()
    except ModelError as exc:
        str(exc).encode()
        return
    counts = (found.prompt_tokens, found.completion_tokens, found.cached_tokens)
    assert all(type(one) is int and 0 <= one <= MOST_COUNTED for one in counts)
    assert isinstance(found.text, str)


@pytest.mark.soak
@fuzzed
@given(body=mutated(VECTORS) | mutated(REFUSAL), status=statuses)
def test_vectors_are_read_or_refused(odd: Odd, body: bytes, status: int) -> None:
    """What comes out is one unit row per text, or an error of ours with a message."""
    odd.reply = HttpReply(status, body)
    try:
        found = odd.embed()
    except ModelError as exc:
        str(exc).encode()
        return
    assert found.shape[0] == len(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_vectors_in_another_order_are_put_right(odd: Odd) -> None:
    """By their indices, if these are right."""
    odd.reply = HttpReply(200, json.dumps(VECTORS).encode())
    np.testing.assert_allclose(odd.embed(), np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), atol=1e-6)


@pytest.mark.parametrize("body", [f'{{"choices":{DEEP}}}', f'{{"data":{DEEP}}}', f'{{"error":{DEEP}}}'])
def test_json_that_is_nested_too_deep_is_broken(odd: Odd, body: str) -> None:
    """Whatever it would have told."""
    odd.reply = HttpReply(200, body.encode())
    for ask in (odd.complete, odd.embed):
        with pytest.raises(ModelUnavailableError, match="broken"):
            ask()


class Boasting(FunctionChat):
    """Says that every call took more tokens than SQLite can hold."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer by local rules."""
        return replace(await super().complete(request), prompt_tokens=10**30, retries=2**70)


def test_usage_that_no_integer_holds_costs_nothing(folder: Path) -> None:
    """Sessions are ingested, what was spent is kept as far as it can be believed, and questions are answered."""
    config = Config(chat=Boasting(local_reply), embedder=HashEmbedder())
    with MemForest(folder, config) as forest:
        work = [{"user_id": user, "session_id": "s", "turns": TURN} for user in "ab"]
        report = forest.ingest_parallel(work)
        assert [isinstance(one, IngestResult) and len(one.added) for one in report] == [1, 1]
        assert forest.query("a", "Where does Ann live?").evidence
        assert forest.user("a").verify().ok


NUL_REPLIES = {
    "extract": {
        "statements": [{"quote": "Por\0to", "text": "Ann lives in\0 Por\ud800to\x1b.", "turns": [0]}]
    },
    "summarise": {"summary": "Ann\0 lives in Porto\ud800."},
    "answer": {"reason": "\0", "answer": "Por\0to\ud800", "cited": [0]},
}


def test_what_no_file_can_hold_is_taken_out_of_replies(folder: Path) -> None:
    """NUL, other control characters and lone surrogates, of statements, summaries and answers."""

    def reply(request: ChatRequest) -> str:
        made = NUL_REPLIES.get(request.step)
        return local_reply(request) if made is None else json.dumps(made)

    with MemForest(folder, Config(chat=FunctionChat(reply), embedder=HashEmbedder())) as forest:
        done = forest.ingest_session("u", "s", TURN)
        assert done.added == ("Ann lives in Porto.",)
        said = repr((done, forest.ask("u", "Where does Ann live?"), forest.user("u").tree("s")))
    assert not any(bad in said for bad in (r"\x00", r"\x1b", r"\ud800"))
