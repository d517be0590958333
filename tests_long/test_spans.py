"""Spans of OpenTelemetry: one for each verb and model call, with no text and no user's id unless asked for."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.table import each

from memforest import AsyncMemForest, Config, MemForest
from memforest.errors import ConfigError, InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.models import MINILM
from memforest.models.local import LocalEmbedder
from memforest.spans import CAPTURE, span, store_id
from memforest.store.directory import file_name
from memforest.testing import FunctionChat

trace = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

USER = "Zerlina Quodling"
SECRET = "the harpsichord is kept in Oranmore"
TURNS = [{"role": "user", "content": f"My neighbour says {SECRET}.", "timestamp": "2025-03-01T10:00:00Z"}]


@pytest.fixture(scope="module")
def provider() -> Any:
    """OpenTelemetry takes one provider for the whole process: another file's tests may have set it."""
    from opentelemetry import trace as api

    if not isinstance(api.get_tracer_provider(), trace.TracerProvider):
        api.set_tracer_provider(trace.TracerProvider())
    return api.get_tracer_provider()


@pytest.fixture
def exporter(provider: Any) -> Iterator[Any]:
    """What keeps the spans of one test."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    kept = export.InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    yield kept
    kept.shutdown()


def config(**settings: Any) -> Config:
    """Settings of a cheap memory."""
    return Config(embedder="hash-words-1@64", **settings)


def named(exporter: Any, name: str) -> Any:
    """The one span of a name."""
    found = [one for one in exporter.get_finished_spans() if one.name == name]
    assert len(found) == 1, [one.name for one in exporter.get_finished_spans()]
    return found[0]


def everything(exporter: Any) -> str:
    """All that the spans hold."""
    return "\n".join(one.to_json() for one in exporter.get_finished_spans())


@each(
    ("kind", "elsewhere"),
    [
        (AsyncUserMemory, set()),
        (AsyncMemForest, {"query", "ask", "query_parallel", "ingest_parallel", "close"}),
    ],
)
def test_each_verb_has_a_span_of_its_own_or_of_the_handle(kind: type, elsewhere: set[str]) -> None:
    """Those of a forest that go through a handle have its, or one for each user."""
    verbs = dict(inspect.getmembers(kind, inspect.iscoroutinefunction))
    bare = {name for name, one in verbs.items() if name[0] != "_" and not hasattr(one, "__wrapped__")}
    assert bare == elsewhere


def test_verbs_for_one_user_or_all_have_a_span(tmp_path: Path, exporter: Any) -> None:
    """With the store where one user is named, and without where none is; what they embed is below it."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS, defer=True)
        exporter.clear()
        forest.resume(USER)
        forest.flush()
    resumed, flushed = named(exporter, "memforest.resume"), named(exporter, "memforest.flush")
    assert resumed.attributes["gen_ai.memory.store.id"] == store_id(USER)
    assert resumed.attributes["gen_ai.memory.record.count"] == 1
    assert "gen_ai.memory.store.id" not in flushed.attributes
    assert [one.name for one in exporter.get_finished_spans() if one.parent is None] == [
        "memforest.resume",
        "memforest.flush",
    ]


def test_users_that_are_merged_are_told_by_the_one_they_become(tmp_path: Path, exporter: Any) -> None:
    """The store is that of the target."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS)
        exporter.clear()
        forest.merge_user_forests([USER], "both", same_person=True)
    assert named(exporter, "upsert_memory").attributes["gen_ai.memory.store.id"] == store_id("both")


def test_an_ingest_and_a_search_have_the_names_of_the_conventions(tmp_path: Path, exporter: Any) -> None:
    """An ingest and a search have the names of the conventions."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS)
        found = forest.query(USER, "where is the harpsichord?")
    ingest, search = named(exporter, "upsert_memory"), named(exporter, "search_memory")
    assert ingest.attributes["gen_ai.operation.name"] == "upsert_memory"
    assert ingest.attributes["gen_ai.provider.name"] == "memforest"
    assert ingest.attributes["memforest.verb"] == "ingest_session"
    assert ingest.attributes["gen_ai.memory.record.count"] >= 1
    assert search.attributes["gen_ai.memory.record.count"] == len(found)
    assert search.attributes["gen_ai.memory.store.id"] == store_id(USER)
    assert search.kind.name == "INTERNAL"


def test_the_id_of_a_store_is_in_the_name_of_its_file() -> None:
    """The id of a store is in the name of its file."""
    assert store_id(USER) in file_name(USER)


def test_a_fact_that_a_verb_names_is_the_record(tmp_path: Path, exporter: Any) -> None:
    """Its id is a hash, and no text."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS)
        memory = forest.user(USER)
        fact = memory.list().facts[0].fact_id
        memory.pin(fact)
    assert named(exporter, "update_memory").attributes["gen_ai.memory.record.id"] == fact


def test_a_verb_that_the_conventions_do_not_know_is_named_by_itself(tmp_path: Path, exporter: Any) -> None:
    """A verb that the conventions do not know is named by itself."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS)
        forest.user(USER).stats()
    stats = named(exporter, "memforest.stats")
    assert "gen_ai.operation.name" not in stats.attributes


def test_spans_hold_no_text_and_no_user(tmp_path: Path, exporter: Any) -> None:
    """Spans hold no text and no user."""
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS)
        memory = forest.user(USER)
        memory.ask("where is the harpsichord in Oranmore?")
        memory.delete(session_id="s")
        with pytest.raises(InputError):
            memory.add({"role": "user", "content": "fine", "timestamp": SECRET})
        with pytest.raises(NotFoundError):
            memory.get(SECRET)  # what is no id of a fact may be any text
    told = everything(exporter)
    assert "upsert_memory" in told
    for word in ("harpsichord", "Oranmore", "Zerlina", "Quodling", str(tmp_path)):
        assert word not in told


def test_texts_are_there_when_they_are_asked_for(
    tmp_path: Path, exporter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are there when they are asked for."""
    monkeypatch.setenv(CAPTURE, "true")
    with MemForest(tmp_path, config()) as forest:
        forest.ingest_session(USER, "s", TURNS)
        forest.query(USER, "where is the harpsichord?")
    search = named(exporter, "search_memory")
    assert search.attributes["gen_ai.memory.query.text"] == "where is the harpsichord?"
    records = json.loads(search.attributes["gen_ai.memory.records"])
    assert any("harpsichord" in one["content"] for one in records)


def test_an_error_is_told_by_its_class_alone(tmp_path: Path, exporter: Any) -> None:
    """An error is told by its class alone."""
    with MemForest(tmp_path, config()) as forest, pytest.raises(ConfigError):
        forest.query(USER, "anything?", index="elsewhere")
    search = named(exporter, "search_memory")
    assert search.attributes["error.type"] == "ConfigError"
    assert search.status.status_code.name == "ERROR"
    assert not search.status.description
    assert not search.events


def test_a_call_with_wrong_arguments_raises_what_it_raises_without_spans(
    tmp_path: Path, exporter: Any
) -> None:
    """A call with wrong arguments raises what it raises without spans."""
    with MemForest(tmp_path, config()) as forest, pytest.raises(InputError, match="nonsense"):
        forest.user(USER).stats(nonsense=1)  # type: ignore[call-arg]
    assert named(exporter, "memforest.stats").attributes["error.type"] == "InputError"


def test_a_span_of_the_caller_is_the_parent_also_through_the_blocking_classes(
    tmp_path: Path, exporter: Any
) -> None:
    """A span of the caller is the parent also through the blocking classes."""
    with MemForest(tmp_path, config()) as forest, span("caller", {}):
        forest.ingest_session(USER, "s", TURNS)
    assert named(exporter, "upsert_memory").parent.span_id == named(exporter, "caller").context.span_id


async def _both(tmp_path: Path) -> None:
    async with AsyncMemForest(tmp_path, config()) as forest:
        await forest.ingest_parallel(
            [{"user_id": user, "session_id": "s", "turns": TURNS} for user in (USER, "Other")]
        )


def test_an_ingest_of_several_users_has_a_span_for_each(tmp_path: Path, exporter: Any) -> None:
    """An ingest of several users has a span for each."""
    import asyncio

    asyncio.run(_both(tmp_path))
    found = [one for one in exporter.get_finished_spans() if one.name == "upsert_memory"]
    assert {one.attributes["gen_ai.memory.store.id"] for one in found} == {store_id(USER), store_id("Other")}
    assert all(one.attributes["gen_ai.memory.record.count"] >= 1 for one in found)


def test_calls_of_a_chat_model_are_below_the_verb(tmp_path: Path, exporter: Any) -> None:
    """Calls of a chat model are below the verb."""
    chat = FunctionChat(lambda _request: "no JSON at all")
    with MemForest(tmp_path, config(chat=chat)) as forest:
        forest.ingest_session(USER, "s", TURNS)
    ingest = named(exporter, "upsert_memory")
    calls = [one for one in exporter.get_finished_spans() if one.name.startswith("chat ")]
    assert calls
    assert all(one.context.trace_id == ingest.context.trace_id for one in calls)
    assert {one.attributes["memforest.step"] for one in calls} >= {"extract"}
    assert all(one.attributes["gen_ai.usage.input_tokens"] > 0 for one in calls)
    assert calls[0].kind.name == "CLIENT"
    assert "harpsichord" not in everything(exporter)


def test_runs_of_the_local_embedder_are_recorded(exporter: Any) -> None:
    """Runs of the local embedder are recorded."""
    import asyncio

    embedder = LocalEmbedder(MINILM)
    asyncio.run(embedder.embed([SECRET]))
    asyncio.run(embedder.embed([SECRET]))
    embedder.close()
    run = named(exporter, f"embeddings {embedder.model_id}")  # the second was in the cache
    assert run.attributes["gen_ai.operation.name"] == "embeddings"


def test_without_opentelemetry_nothing_changes(tmp_path: Path) -> None:
    """Without opentelemetry nothing changes."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['opentelemetry'] = None\n"
            "from memforest import MemForest, Config\n"
            "with MemForest(sys.argv[1], Config(embedder='hash-words-1@64')) as forest:\n"
            "    forest.user('a').add('I live in Cork.'); print(len(forest.query('a', 'Cork?')))\n",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(told.stdout) >= 1


def test_importing_memforest_imports_no_opentelemetry() -> None:
    """Importing memforest imports no opentelemetry."""
    told = subprocess.run(
        [sys.executable, "-c", "import memforest, sys; print('opentelemetry' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "False"
