"""The embedding model behind an endpoint, against a server on this machine."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.doubles import ChatServer, Fault, Schedule
from tests.doubles.listener import HttpReply, HttpRequest, Listener
from tests.table import each

from memforest import Config, EmbeddingEndpoint, MemForest
from memforest.errors import (
    EmbedderMismatchError,
    InputError,
    ModelError,
    ModelRefusedError,
    ModelRequestError,
    ModelUnavailableError,
)
from memforest.models import HashEmbedder, OpenAIEmbedder
from memforest.models.base import Vectors
from memforest.models.ledger import Ledger, keeping
from memforest.models.openai import open_embedding_endpoint

SOON = 0.01
WRONG_INDICES: list[tuple[Any, Any]] = [
    (0, 0),
    (1, 2),
    ("0", "1"),
    (0.0, 1.0),
    (True, False),
    (-1, 0),
    (None, 0),
    ([0], 1),
]
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Bo", "content": "I moved to Miami yesterday.", "timestamp": "2024-03-02T10:00:00Z"},
]


def at(server: ChatServer, **more: Any) -> EmbeddingEndpoint:
    """Return the endpoint of a server."""
    return EmbeddingEndpoint("double", base_url=server.url, **more)


def embed(endpoint: EmbeddingEndpoint, texts: Sequence[str]) -> Vectors:
    """Embed in a loop of its own."""
    return asyncio.run(OpenAIEmbedder(endpoint).embed(texts))


def expected(texts: Sequence[str], dimension: int = 64) -> Vectors:
    """Return what the server's embedder makes of texts."""
    return asyncio.run(HashEmbedder(dimension).embed(texts))


def served(
    handler: Callable[[dict[str, Any]], HttpReply], texts: Sequence[str], **more: Any
) -> tuple[Vectors, list[dict[str, Any]]]:
    """Embed texts at a server that sends raw HTTP replies; return the rows and the bodies that came."""
    got: list[dict[str, Any]] = []

    async def serve(request: HttpRequest) -> HttpReply:
        got.append(json.loads(request.body))
        return handler(got[-1])

    async def run() -> Vectors:
        listener = Listener(serve, lambda error: HttpReply(500, repr(error).encode()))
        port = await listener.open()
        try:
            endpoint = EmbeddingEndpoint("m", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0, **more)
            return await OpenAIEmbedder(endpoint).embed(texts)
        finally:
            listener.close()

    return asyncio.run(run()), got


def as_json(value: Any, status: int = 200) -> HttpReply:
    """Return a raw reply of JSON."""
    return HttpReply(status, json.dumps(value).encode(), {"content-type": "application/json"})


def rows(*vectors: Any) -> HttpReply:
    """Return a raw reply of vectors."""
    return as_json({"data": [{"index": i, "embedding": one} for i, one in enumerate(vectors)]})


def refusal(message: str) -> HttpReply:
    """Return a raw reply of status 400."""
    return as_json({"error": {"message": message}}, 400)


def test_rows_come_in_the_order_of_the_texts() -> None:
    """Batches and repetitions do not show: one unit row per text, and each text is sent once."""
    texts = ["a cat", "two dogs", "a cat", "three birds", "two dogs"]
    with ChatServer() as server:
        found = embed(at(server, batch=2), texts)
        sent = [call.body["input"] for call in server.calls]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(texts), atol=1e-6)
    assert sorted(sent) == [["a cat", "two dogs"], ["three birds"]]


def test_the_dimension_is_learnt_from_the_first_reply() -> None:
    """It is 0 until then; no text makes no call."""

    async def run(server: ChatServer) -> list[int]:
        embedder = OpenAIEmbedder(at(server))
        seen = [embedder.dimension, (await embedder.embed([])).shape[1]]
        await embedder.embed(["a cat"])
        return [*seen, embedder.dimension]

    with ChatServer(embedding_dimension=48) as server:
        assert asyncio.run(run(server)) == [0, 0, 48]
        assert len(server.calls) == 1


def test_another_length_later_is_refused() -> None:
    """A model that is exchanged behind the endpoint is noticed, in one call and between calls."""
    lengths = iter([3, 4])

    def answer(body: dict[str, Any]) -> HttpReply:
        return rows([1.0] * next(lengths))

    with pytest.raises(ModelError):
        served(answer, ["one", "two"], batch=1, max_in_flight=1)


def test_a_length_can_be_asked_for() -> None:
    """`dimensions` is sent, is part of the model's id, and is checked."""
    with ChatServer() as server:
        endpoint = at(server, dimensions=16)
        assert embed(endpoint, ["a cat"]).shape == (1, 16)
        assert server.calls[0].body["dimensions"] == 16
    assert OpenAIEmbedder(endpoint).model_id == "openai:double@16"
    assert OpenAIEmbedder(at(server)).model_id == "openai:double"


def test_a_model_that_cannot_be_shortened_is_asked_without() -> None:
    """Its rows are taken when they have the length that was asked for, and refused when not."""

    def answer(body: dict[str, Any]) -> HttpReply:
        if "dimensions" in body:
            return refusal('Model "m" does not support matryoshka representation')
        return rows([3.0, 4.0])

    found, got = served(answer, ["one"], dimensions=2)
    np.testing.assert_allclose(found, [[0.6, 0.8]])
    assert [body.get("dimensions") for body in got] == [2, None]
    with pytest.raises(ModelError):
        served(answer, ["one"], dimensions=5)


def test_numbers_are_taken_where_base64_is_not_offered() -> None:
    """Rows are asked for in base64, and as numbers when the endpoint does not know it; both are read."""
    packed = base64.b64encode(struct.pack("<2f", 3, 4)).decode()
    found, got = served(lambda body: rows(packed), ["one"])
    np.testing.assert_allclose(found, [[0.6, 0.8]])
    assert got[0]["encoding_format"] == "base64"

    def answer(body: dict[str, Any]) -> HttpReply:
        return rows([3, 4]) if body["encoding_format"] == "float" else refusal("unknown encoding_format")

    found, got = served(answer, ["one", "two"], batch=1, max_in_flight=1)
    np.testing.assert_allclose(found, [[0.6, 0.8]] * 2)
    assert [body["encoding_format"] for body in got] == ["base64", "float", "float"]


def test_rows_are_put_in_the_order_of_their_index() -> None:
    """A server may send them in any order."""
    reply = as_json({"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]})
    found, _ = served(lambda body: reply, ["one", "two"])
    np.testing.assert_allclose(found, np.eye(2))


def indexed(*indices: Any) -> HttpReply:
    """Return a raw reply of one vector per index."""
    return as_json({"data": [{"index": index, "embedding": [1.0, 0.0]} for index in indices]})


BAD: list[tuple[HttpReply, str]] = [
    *((indexed(*wrong), "indices are not 0 to 1") for wrong in WRONG_INDICES),
    (rows([0.0, 0.0]), "zeros"),
    (rows([1.0, float("nan")]), "not finite"),
    (rows([1.0], [1.0]), "shape"),
    (rows(), "shape"),
    (rows([]), "shape"),
    (rows(None), "instead of real numbers|no matrix|shape"),
    (rows("!!"), "neither numbers nor base64"),
    (rows("abc="), "neither numbers nor base64"),
    (as_json({"data": None}), "without vectors"),
    (as_json({"data": [1]}), "without vectors"),
    (HttpReply(200, b'{"data": [', {}), "broken"),
    (HttpReply(200, b"<html>", {}), "embeddings.base_url"),
]


@each(("reply", "said"), BAD)
def test_rows_that_are_no_vectors_are_refused(reply: HttpReply, said: str) -> None:
    """Zeros, numbers that are not finite, missing rows and broken replies are errors of ours."""
    with pytest.raises(ModelError, match=said):
        served(lambda body: reply, ["one"])


def test_one_string_is_refused() -> None:
    """Its characters would pass for texts."""
    endpoint = EmbeddingEndpoint("m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(InputError):
        embed(endpoint, "one")
    with pytest.raises(InputError):
        asyncio.run(OpenAIEmbedder(endpoint).embed_questions("one"))


def test_lone_surrogates_are_replaced() -> None:
    """Text that cannot be encoded is sent all the same."""
    with ChatServer() as server:
        assert embed(at(server), ["a \ud800 cat"]).shape == (1, 64)
        assert server.calls[0].body["input"] == ["a ? cat"]


def test_questions_have_the_prefix() -> None:
    """`embed_questions` puts `query_prefix` in front; `embed` does not."""

    async def run(server: ChatServer) -> tuple[Vectors, Vectors]:
        embedder = OpenAIEmbedder(at(server, query_prefix="Instruct: find.\nQuery: "))
        return await embedder.embed_questions(["Where?"]), await embedder.embed(["Where?"])

    with ChatServer() as server:
        asyncio.run(run(server))
        sent = [call.body["input"] for call in server.calls]
    assert sent == [["Instruct: find.\nQuery: Where?"], ["Where?"]]


def limited(most_chars: int, most_texts: int = 1000) -> Callable[[dict[str, Any]], HttpReply]:
    """Return a handler that takes texts of some length; a row tells the length of its text."""

    def answer(body: dict[str, Any]) -> HttpReply:
        if len(body["input"]) > most_texts or max(map(len, body["input"])) > most_chars:
            return refusal("This model's maximum context length is 8192 tokens, however you requested more.")
        return rows(*([1.0, float(len(text))] for text in body["input"]))

    return answer


def test_a_text_that_is_too_long_is_cut_until_it_fits() -> None:
    """Its neighbours keep their whole text, and a ledger counts no failure."""
    ledger = Ledger()
    with keeping(ledger):
        found, _ = served(limited(300), ["short", "x" * 1000, "also short"])
    np.testing.assert_allclose(found[:, 1] / found[:, 0], [5, 250, 10], rtol=1e-5)
    assert ledger.steps["embed"].failures == 0


def test_a_batch_that_is_too_long_is_halved() -> None:
    """Texts that fit one by one are not cut."""
    texts = [f"text {i:03}" for i in range(10)]
    found, got = served(limited(300, most_texts=3), texts)
    np.testing.assert_allclose(found[:, 1] / found[:, 0], [8] * 10, rtol=1e-5)
    assert max(len(body["input"]) for body in got) == 10


def test_a_server_that_takes_nothing_is_not_asked_for_ever() -> None:
    """A short text that is too long ends with the server's words."""
    with pytest.raises(ModelRequestError):
        served(limited(0), ["x" * 500])


def test_a_key_is_not_in_what_is_said_of_a_long_text() -> None:
    """The server's complaint is told, its echo of the key is not, in small letters either."""
    said = "The input of sk-SECRET is too long."
    with pytest.raises(ModelRequestError) as caught:
        served(lambda _body: refusal(said), ["x"], api_key="sk-SECRET")
    assert "secret" not in str(caught.value).lower()


def test_every_request_is_written_to_the_ledger() -> None:
    """Calls, tokens, retries and seconds of an operation's embeddings stand under "embed"."""
    ledger = Ledger()
    faults = Schedule.first(1, Fault.status(503, retry_after_s=SOON), when=lambda body: "b" in body["input"])
    with ChatServer(faults=faults) as server, keeping(ledger):
        embed(at(server, batch=1), ["a", "b"])
        tokens = sum(call.prompt_tokens for call in server.calls)
    used = ledger.steps["embed"]
    assert (used.calls, used.retries, used.failures, used.prompt_tokens) == (2, 1, 0, tokens)
    assert used.seconds > 0


def test_a_failure_is_written_too_and_ends_the_others() -> None:
    """The first batch that fails is the call's error; batches that wait are not sent."""
    ledger = Ledger()
    with ChatServer(faults={1: Fault.status(500)}) as server, keeping(ledger):
        with pytest.raises(ModelUnavailableError):
            embed(at(server, batch=1, max_in_flight=1, max_retries=0), list("abcdefgh"))
        assert len(server.calls) <= 2
    assert ledger.steps["embed"].failures == 1


def test_several_batches_are_under_way_at_once() -> None:
    """As many as `max_in_flight`, and no more, over all calls in a loop."""

    async def run(server: ChatServer) -> None:
        embedder = OpenAIEmbedder(at(server, batch=1, max_in_flight=3))
        await asyncio.gather(*(embedder.embed([f"{i} {j}" for j in range(6)]) for i in range(3)))

    slow = Schedule.every(1, Fault.timeout(0.1))
    with ChatServer(faults=slow) as server:
        asyncio.run(run(server))
        assert (server.most_in_flight, len(server.calls)) == (3, 18)


def test_a_refusal_names_the_setting_to_mend() -> None:
    """Errors are those of the chat model, with this section's settings."""
    with ChatServer(key="right") as server:
        with pytest.raises(ModelRefusedError):
            embed(at(server, api_key="sk-wrong-key"), ["a"])
        assert embed(at(server, api_key="right"), ["a"]).shape == (1, 64)
    with pytest.raises(ModelRefusedError):
        embed(EmbeddingEndpoint("text-embedding-3-small"), ["a"])


def test_a_memory_is_embedded_at_an_endpoint(folder: Path) -> None:
    """Turns, facts and summaries are; a question is, with its prefix; another model is refused afterwards."""
    with ChatServer() as server:
        endpoint = at(server, query_prefix="Q: ")
        with MemForest(folder, Config(embedder=endpoint)) as forest:
            forest.ingest_session("bo", "s1", CHAT)
            before = len(server.calls)
            assert forest.query("bo", "Where did Bo move to?").evidence
            asked = [text for call in server.calls[before:] for text in call.body["input"]]
            assert forest.user("bo").stats().embedder == "openai:double"
            assert forest.user("bo").verify().ok
        assert asked
        assert all(text.startswith("Q: ") for text in asked)
        other = EmbeddingEndpoint("other", base_url=server.url)
        with MemForest(folder, Config(embedder=other)) as forest, pytest.raises(EmbedderMismatchError):
            forest.query("bo", "Where?")


def test_a_model_that_changed_behind_its_name_is_refused(folder: Path) -> None:
    """Vectors of another length are not mixed with those of the memory."""
    with (
        ChatServer(embedding_dimension=64) as server,
        MemForest(folder, Config(embedder=at(server))) as forest,
    ):
        forest.ingest_session("bo", "s1", CHAT)
    with (
        ChatServer(embedding_dimension=32) as server,
        MemForest(folder, Config(embedder=at(server))) as forest,
        pytest.raises(EmbedderMismatchError),
    ):
        forest.query("bo", "Where?")


def test_memories_share_the_embedder_of_an_endpoint() -> None:
    """Equal settings are one embedder while it is used; others are another."""
    endpoint = EmbeddingEndpoint("m", base_url="http://127.0.0.1:1/v1", headers={"a": "b"})
    one = open_embedding_endpoint(endpoint)
    assert (
        open_embedding_endpoint(EmbeddingEndpoint("m", base_url="http://127.0.0.1:1/v1", headers={"a": "b"}))
        is one
    )
    assert open_embedding_endpoint(EmbeddingEndpoint("m", base_url="http://127.0.0.1:1/v1")) is not one
