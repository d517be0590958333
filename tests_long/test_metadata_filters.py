"""Metadata of turns is what `search` and `list` filter by: that of a message, of a call of `add`, of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp")

from click.testing import CliRunner
from mcp import Client as MCPClient
from tests_long.mcp_worlds import call, serve
from tests_long.serving import app_of, served

from memforest import Config, InputError, MemForest
from memforest.cli import main
from memforest.testing import HashEmbedder

KAYAK, TENT, STOVE = "I sold the red kayak.", "I mended the green tent.", "I lent the small stove to Petra."


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[MemForest]:
    """Three statements: one with metadata of its own, one with that of its call, one with that of its session."""
    with MemForest(tmp_path / "mem", Config(embedder=HashEmbedder())) as made:
        fill(made)
        yield made


def fill(forest: MemForest, user: str = "ilka") -> None:
    """Store the statements."""
    me = forest.user(user)
    me.add(
        {"role": "user", "content": KAYAK, "place": "lake", "n": 1}, session_id="s", timestamp="2026-03-01"
    )
    me.add(TENT, session_id="s", timestamp="2026-03-02", metadata={"place": "shed", "tags": ["a", "b"]})
    turns = [{"role": "user", "content": STOVE, "timestamp": "2026-03-03"}]
    forest.ingest_session(user, "t", turns, metadata={"place": "hut"})


def listed(forest: MemForest, filters: Any, **more: Any) -> list[str]:
    """Return what is listed."""
    return [one.text for one in forest.user("ilka").list(filters=filters, **more)]


def found(forest: MemForest, filters: Any, **more: Any) -> set[str]:
    """Return what is found."""
    question = "What about the kayak, the tent and the stove?"
    return {one.quote for one in forest.user("ilka").search(question, filters=filters, **more).evidence}


@pytest.mark.parametrize(
    ("filters", "texts"),
    [
        (None, [KAYAK, TENT, STOVE]),
        ({}, [KAYAK, TENT, STOVE]),
        ({"place": "lake"}, [KAYAK]),
        ({"place": "lake", "n": 1}, [KAYAK]),
        ({"place": "lake", "n": 2}, []),
        ({"place": "shed"}, [TENT]),
        ({"tags": ["a", "b"]}, [TENT]),
        ({"place": "hut"}, [STOVE]),
        ({"place": "Lake"}, []),
    ],
)
def test_list_and_search_see_the_same_metadata(forest: MemForest, filters: Any, texts: list[str]) -> None:
    """Equality, all must match; what has other metadata, or none, is as if it were not there."""
    assert listed(forest, filters) == texts
    for index in ("memforest", "flat", "facts"):
        assert found(forest, filters, index=index) == set(texts)


def test_metadata_of_a_call_is_that_of_each_of_its_turns(forest: MemForest) -> None:
    """Not of the session: what the next call adds has none of it. What a message says itself goes first."""
    me = forest.user("ilka")
    me.add(
        [
            {"role": "user", "content": "I bought oars.", "place": "pier"},
            {"role": "user", "content": "I like rain."},
        ],
        session_id="u",
        metadata={"place": "shed", "name": "not a speaker"},
    )
    me.add("I like snow.", session_id="u")
    assert [(one.speaker, one.metadata.get("place")) for one in me.turns("u")] == [
        ("ilka", "pier"),
        ("ilka", "shed"),
        ("ilka", None),
    ]
    assert listed(forest, {"name": "not a speaker"}) == ["I bought oars.", "I like rain."]
    assert listed(forest, {"place": "shed"}, session_id="u") == ["I like rain."]


def test_ask_answers_from_what_passes(forest: MemForest) -> None:
    """What is left out is neither cited nor the answer."""
    answer = forest.user("ilka").ask("What did I sell?", filters={"place": "shed"})
    assert all(one.quote != KAYAK for one in answer.result.evidence)


def test_filters_go_together_with_times(forest: MemForest) -> None:
    """Each leaves out what it leaves out alone."""
    assert found(forest, {"place": "lake"}, said_by="2026-03-02") == {KAYAK}
    assert found(forest, {"place": "hut"}, said_by="2026-03-02") == set()
    assert listed(forest, {"place": "lake"}, known_at="2020-01-01") == []


def test_a_key_that_nothing_has_matches_nothing_and_is_named(forest: MemForest) -> None:
    """A typing error is no silence; a value that nothing has needs no warning."""
    me = forest.user("ilka")
    for result in (me.search("Where?", filters={"plaec": "lake"}), me.list(filters={"plaec": "lake"})):
        assert not result
        assert any("plaec" in one for one in result.warnings)
    assert not any("place" in one for one in me.list(filters={"place": "moon"}).warnings)


@pytest.mark.parametrize("filters", ["place=lake", ["place"], {1: "lake"}, {"place": object()}])
def test_filters_that_are_none_are_refused(forest: MemForest, filters: Any) -> None:
    """With an error that names the argument."""
    me = forest.user("ilka")
    with pytest.raises(InputError, match="filters"):
        me.search("Where?", filters=filters)
    with pytest.raises(InputError, match="filters"):
        me.list(filters=filters)


def test_forgotten_and_pinned_facts_are_filtered_alike(forest: MemForest) -> None:
    """By what a person has decided of them, too."""
    me = forest.user("ilka")
    [kayak] = me.list(filters={"place": "lake"})
    me.forget(kayak.fact_id)
    assert listed(forest, {"place": "lake"}) == []
    assert listed(forest, {"place": "lake"}, verdict="forgotten") == [KAYAK]
    assert listed(forest, {"place": "shed"}, verdict="forgotten") == []


def test_rest_mcp_and_the_command_line_filter_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by its own way to write it."""
    folder = tmp_path / "mem"
    with MemForest(folder, Config(embedder=HashEmbedder())) as forest:
        fill(forest, "ana")
    with served(app_of(folder)) as client:
        asked = {"question": "What about the tent?", "filters": {"place": "shed"}}
        hits = client("POST", "/v1/users/ana/search", 200, json=asked)["evidence"]
        assert {one.get("quote", one["text"]) for one in hits} == {TENT}
        client("POST", "/v1/users/ana/ask", 200, json=asked)
        client("POST", "/v1/users/ana/context", 200, json=asked)
        page = client("GET", "/v1/users/ana/facts", 200, params={"filters": '{"place": "shed"}'})
        assert [one["text"] for one in page["facts"]] == [TENT]
        said = {"content": "I own a canoe.", "session_id": "s", "metadata": {"place": "bay"}}
        client("POST", "/v1/users/ana/messages", 200, json=said)
        page = client("GET", "/v1/users/ana/facts", 200, params={"filters": '{"place": "bay"}'})
        assert page["total"] == 1

    async def work(client: MCPClient) -> None:
        hits = await call(client, "search_memory", query="What about the tent?", filters={"place": "shed"})
        assert {one["text"] for one in hits["evidence"]} == {TENT}
        assert (await call(client, "list_facts", filters={"place": "shed"}))["total"] == 1

    serve(folder, work, settings={"embedder": HashEmbedder()})
    with MemForest(tmp_path / "other", Config(embedder="none")) as forest:
        fill(forest)
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("MEMFOREST_EMBEDDER", "none")
    for command in (("search", "What about the tent?"), ("facts",)):
        done = CliRunner().invoke(main, [*command, "--filter", "place=shed"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert TENT in done.stdout
        assert KAYAK not in done.stdout
