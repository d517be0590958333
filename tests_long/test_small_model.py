"""A real chat model drives the whole write and query path once: SmolLM2-135M behind llama.cpp's server.

`make live` installs what it needs and runs it; see `scripts/small_model.py`. Nothing here asks whether a statement
is right: a model of this size invents. What is asked is the contract: nothing said is lost, every failure is
recorded, and every state is one that the memory may be in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, MemForest
from memforest.endpoint import Budget, ChatEndpoint
from memforest.models import HashEmbedder
from memforest.ports import ChatRequest, Message

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.skipif("MEMFOREST_LIVE" not in os.environ, reason="a real model is run by `make live` alone"),
]

ROOT = Path(__file__).parent.parent
SESSIONS = {
    "moving": [
        ("Ana", "2023-05-07T10:00:00Z", "I moved to Porto yesterday. My new flat is near the river."),
        ("Tom", "2023-05-07T10:01:00Z", "Great! I still work at Initech, and I have a dog named Rex."),
    ],
    "work": [
        ("Tom", "2023-06-10T09:00:00Z", "I left Initech last week. I am a teacher now."),
        ("Ana", "2023-06-10T09:01:00Z", "Congratulations! I adopted a grey cat, Miso."),
    ],
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatEndpoint]:
    """The model's endpoint, in a process of its own."""
    log = tmp_path_factory.mktemp("model") / "log.txt"
    with log.open("w", encoding="utf-8") as errors:  # llama.cpp logs every request
        server = subprocess.Popen(
            [sys.executable, str(ROOT / "scripts" / "small_model.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        why = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
        pytest.skip(f"THE REAL MODEL WAS NOT RUN: {' '.join(why) or 'its server did not start'}")
    said = json.loads(line)
    yield ChatEndpoint(
        model=said["model"],
        base_url=said["url"],
        structured="schema",
        timeout_s=300,
        max_retries=1,
        max_in_flight=2,
        max_reply_tokens=200,
        extra_body={"cache_prompt": False},
    )
    server.stdin.close()
    server.wait(20)
    server.stdout.close()


def turns(session: str) -> list[dict[str, Any]]:
    """Return a session's turns."""
    return [{"speaker": who, "timestamp": when, "content": text} for who, when, text in SESSIONS[session]]


def test_the_endpoint_is_a_chat_model(endpoint: ChatEndpoint) -> None:
    """A reply comes through the client, with its tokens counted; a cut one says so."""
    import asyncio

    from memforest.models.openai import OpenAIChat

    async def ask() -> Any:
        chat = OpenAIChat(replace(endpoint, max_reply_tokens=None))
        try:
            request = ChatRequest("answer", (Message("user", "Count from one to fifty."),), max_tokens=12)
            return await chat.complete(request)
        finally:
            await chat.close()

    reply = asyncio.run(ask())
    assert (reply.finish, reply.completion_tokens) == ("length", 12)
    assert reply.prompt_tokens > 5


def test_the_whole_path(endpoint: ChatEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions go in, chunks end in a known state, every mode of a query answers, and the file is whole."""
    trace = tmp_path / "trace.jsonl"
    settings = Config(chat=endpoint, embedder=HashEmbedder(), summary_words=8, trace=trace)
    with MemForest(tmp_path / "forest", settings) as forest:
        results = forest.ingest_parallel(
            [{"user_id": "u", "session_id": name, "turns": turns(name)} for name in SESSIONS]
        )
        ana = forest.user("u")
        for result in results:
            assert not isinstance(result, Exception), result
            assert {chunk.status for chunk in result.chunks} <= {"extracted", "failed"}
            assert all(chunk.failure for chunk in result.failed)
        stats = ana.stats()
        assert (stats.sessions, stats.turns, stats.unfinished) == (2, 4, 0)
        assert stats.failed_chunks == sum(len(result.failed) for result in results)  # type: ignore[union-attr, misc]
        assert ana.verify().ok
        answers = {}
        for mode in ("emb", "llm+planner"):
            found = ana.search("Where does Ana live?", mode=mode)
            known = {"moving", "work"}
            assert found.evidence
            assert {source.session_id for one in found.evidence for source in one.sources} <= known
        answers["ask"] = ana.ask("Where does Ana live?", mode="emb", budget=Budget(max_calls=6))
        assert answers["ask"].answer is None or answers["ask"].citations
        spent = ana.stats().spent
        assert spent["ingest"]["extract"].calls >= 2
        assert spent["ingest"]["extract"].prompt_tokens > 0
    records = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    asked = [record for record in records if "refused" not in record]
    assert len(asked) == sum(used.calls for steps in spent.values() for used in steps.values())
    with capsys.disabled():
        counts = {
            f"{operation}.{step}": f"{used.calls} calls, {used.failures} unusable"
            for operation, steps in spent.items()
            for step, used in steps.items()
        }
        print(  # noqa: T201 - the figures of the run are what it is for
            f"\nSmolLM2-135M: {json.dumps(counts)}; facts {stats.facts}, failed chunks {stats.failed_chunks}"
        )
