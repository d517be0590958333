"""What a memory does without its models: questions are answered from what is here, and what was paid for is kept."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.doubles import ChatServer, Fault, Reply, Schedule, local_reply

from memforest import ChatEndpoint, Config, EmbeddingEndpoint, MemForest
from memforest.cli import main
from memforest.errors import ConfigError, ModelError, ModelUnavailableError
from memforest.models import HashEmbedder
from memforest.testing import FunctionChat

TURNS = [
    {"speaker": "Ann", "text": "I live in Porto.", "timestamp": "2024-01-01"},
    {"speaker": "Ann", "text": "I moved to Lisbon.", "timestamp": "2024-03-01"},
]
QUESTION = "Where does Ann live?"


def embedding(server: ChatServer, **more: Any) -> EmbeddingEndpoint:
    """Return the embedding endpoint of a server, asked once."""
    return EmbeddingEndpoint("double", base_url=server.url, **{"max_retries": 0, **more})


def ingested(folder: Path, server: ChatServer, **settings: Any) -> MemForest:
    """Return a forest whose one memory was embedded at a server."""
    forest = MemForest(folder, Config(embedder=embedding(server), **settings))
    assert forest.ingest_session("u", "s", TURNS).added
    return forest


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.kill(), r"cannot be reached.*mend embeddings\.base_url"),
        (Fault.status(503), "says 503.*try again later"),
        (Fault.status(401), r"the key is wrong or missing: mend embeddings\.api_key"),
        (Fault.truncated(), "shape"),
        (Fault.malformed_json(), "broken"),
    ],
)
@pytest.mark.parametrize("chat", [None, FunctionChat(local_reply)])
def test_a_question_is_answered_without_the_embedding_model(
    folder: Path, fault: Fault, said: str, chat: Any
) -> None:
    """By words, time order and trees; a warning names the fault and what to mend."""
    down = {"now": False}
    server = ChatServer(faults=Schedule.when(lambda body: "input" in body and down["now"], fault))
    with server, ingested(folder, server, chat=chat) as forest:
        whole = forest.ask("u", QUESTION)
        down["now"] = True
        found, asked = forest.query("u", QUESTION), forest.ask("u", QUESTION)
    assert not whole.result.warnings
    assert {one.text for one in found.evidence} == {one.text for one in whole.result.evidence}
    assert asked.answer == whole.answer
    for warnings in (found.warnings, asked.result.warnings):
        told = [one for one in warnings if one.endswith("searched without vectors")]
        assert len(told) == 1
        assert re.search(said, told[0])


def test_a_session_is_stored_while_the_embedding_model_is_down(folder: Path) -> None:
    """The error says so, with the status; resume makes memory of the turns."""
    with ChatServer(faults={1: Fault.status(503)}) as server:
        endpoint = embedding(server, max_in_flight=1)
        with MemForest(folder, Config(embedder=endpoint)) as forest:
            with pytest.raises(ModelUnavailableError) as error:
                forest.ingest_session("u", "s", TURNS)
            assert error.value.status == 503
            assert forest.user("u").stats().turns == 2
            assert forest.resume("u")[0].added
            assert forest.query("u", QUESTION).evidence
            assert forest.user("u").verify().ok


def test_older_vectors_that_cannot_be_made_cost_no_session(folder: Path) -> None:
    """A memory gets its embedder late: the new session is written, the old one's vectors are left to resume."""
    with MemForest(folder, Config(embedder="none")) as forest:
        forest.ingest_session("u", "old", TURNS)
    down = {"now": True}
    faults = Schedule.when(
        lambda body: down["now"] and any("Porto" in text for text in body.get("input", ())), Fault.status(503)
    )
    with ChatServer(faults=faults) as server, MemForest(folder, Config(embedder=embedding(server))) as forest:
        turn = {"speaker": "Ben", "text": "I bought a tent.", "timestamp": "2024-04-01"}
        done = forest.ingest_session("u", "new", [turn])
        assert done.added
        assert any("vectors are left" in one and "resume()" in one for one in done.warnings)
        down["now"] = False
        forest.resume("u")
        assert forest.user("u").verify().ok


class Failing:
    """A reranker that cannot be used, or returns what it likes."""

    model_id = "failing"

    def __init__(self, told: Callable[[Sequence[str]], Any]) -> None:
        self.told = told

    async def score(self, question: str, texts: Sequence[str]) -> Any:
        """Return what it was told."""
        return self.told(texts)


def _down(_: Sequence[str]) -> Any:
    raise ModelError("the reranker 'failing' is down; start it")


@pytest.mark.parametrize("told", [_down, lambda texts: [1.0], lambda texts: [float("nan")] * len(texts)])
def test_a_question_is_answered_without_the_reranker(folder: Path, told: Any) -> None:
    """In the order that it would have got, with a warning."""
    with MemForest(folder, Config(embedder=HashEmbedder())) as forest:
        forest.ingest_session("u", "s", TURNS)
        plain = forest.query("u", QUESTION)
    with MemForest(folder, Config(embedder=HashEmbedder(), reranker=Failing(told))) as forest:
        found = forest.query("u", QUESTION)
    assert found.evidence == plain.evidence
    assert [one for one in found.warnings if "'failing'" in one and "without the reranker" in one]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_trace_on_a_full_disk_costs_neither_a_session_nor_an_answer(folder: Path) -> None:
    """Each operation says once that it could not be written."""
    config = Config(chat=FunctionChat(local_reply), embedder=HashEmbedder(), trace="/dev/full")
    with MemForest(folder, config) as forest:
        done = forest.ingest_session("u", "s", TURNS)
        found, asked = forest.query("u", QUESTION), forest.ask("u", QUESTION)
    assert done.added
    assert asked.answer
    for warnings in (done.warnings, found.warnings, asked.result.warnings):
        assert len([one for one in warnings if "cannot write the trace" in one]) == 1


def test_a_trace_that_can_never_be_is_refused_before_a_model_is_asked(folder: Path) -> None:
    """The memory is not opened with it."""
    chat = FunctionChat(local_reply)
    config = Config(chat=chat, embedder=HashEmbedder(), trace=str(folder / "none" / "trace.jsonl"))
    with MemForest(folder / "memory", config) as forest, pytest.raises(ConfigError):
        forest.ingest_session("u", "s", TURNS)
    assert not chat.requests


def test_no_secret_is_in_any_line_that_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Keys, headers and further fields are in no log of any package, message, trace, statistic or line of doctor."""
    secrets = {
        "api_key": "sk-3f9a1c77d2e8",
        "headers": "tenant-55b0e9a4c1",
        "extra_body": "cache-salt-81d2f6aa",
    }
    told = " ".join(secrets.values())
    refused = {"now": False}

    def reply(body: dict[str, Any]) -> Any:
        return Reply(f"you sent {told}", status=401) if refused["now"] else local_reply(body)

    with ChatServer(reply=reply) as server, caplog.at_level(logging.DEBUG):
        settings = tmp_path / "memforest.toml"
        lines = [
            "[chat]",
            'model = "double"',
            f'base_url = "{server.url}"',
            f'api_key = "{secrets["api_key"]}"',
            f'headers = {{ X-Tenant = "{secrets["headers"]}" }}',
            f'extra_body = {{ cache = {{ salt = "{secrets["extra_body"]}" }} }}',
            "max_retries = 0",
        ]
        settings.write_text("\n".join(lines), encoding="utf-8")
        chat = ChatEndpoint(
            "double",
            base_url=server.url,
            api_key=secrets["api_key"],
            headers={"X-Tenant": secrets["headers"]},
            extra_body={"cache": {"salt": secrets["extra_body"]}},
            max_retries=0,
        )
        trace = tmp_path / "trace.jsonl"
        with MemForest(
            tmp_path / "m", Config(chat=chat, embedder=HashEmbedder(), trace=str(trace))
        ) as forest:
            shown = [repr(forest.ingest_session("u", "s", TURNS))]
            refused["now"] = True
            shown.append(repr(forest.ask("u", QUESTION)))
            shown.append(repr(forest.user("u").stats()))
        assert server.calls[0].body["cache"]["salt"] == secrets["extra_body"]
        for options in ([], ["--connect"], ["--json"]):
            args = ["doctor", *options, "--config", str(settings), "--dir", str(tmp_path / "m")]
            shown.append(CliRunner().invoke(main, args).output)
    written = "\n".join([*shown, caplog.text, trace.read_text(encoding="utf-8")])
    assert "***" in written
    assert not [name for name, secret in secrets.items() if secret in written]
