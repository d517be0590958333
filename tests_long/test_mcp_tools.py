"""The tools of the MCP server, called by the official client in both eras of the protocol."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client
from tests_long.mcp_worlds import ERAS, call, serve, text_of
from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.progress import IngestProgress
from memforest.server.mcp import tools as writing
from memforest.server.mcp.shapes import NOTE

MOVED = {"content": "I moved to Lisbon in May 2024.", "session_id": "s", "timestamp": "2024-06-01T10:00:00Z"}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """How the client connects."""
    return str(request.param)


def test_what_is_added_is_found_with_its_source(tmp_path: Path, era: str) -> None:
    """Typed, and as a line of quoted text that names the ids that other tools take."""

    async def work(client: Client) -> tuple[str, dict[str, Any], dict[str, Any], str]:
        added = await call(client, "add_memory", **MOVED)
        result = await client.call_tool("search_memory", {"query": "Where do I live?"})
        assert result.structured_content is not None
        return client.protocol_version, added, result.structured_content, text_of(result)

    version, added, found, text = serve(tmp_path, work, era=era)
    assert version == ERAS[era]
    assert (added["session_id"], added["turns_added"], len(added["added"])) == ("s", 1, 1)
    (piece,) = found["evidence"]
    assert piece["quote"] == MOVED["content"]
    assert piece["sources"] == [{"session_id": "s", "turn_ids": ["0"]}]
    assert piece["said"] == "2024-06-01T10:00:00+00:00"
    note, line = text.splitlines()
    assert note == found["note"] == NOTE
    assert line.startswith(f'[1] 1 Jun 2024, "ana": "{MOVED["content"]}"')
    assert piece["fact_id"] in line
    assert 'session "s", turn "0"' in line


def test_memory_is_that_of_the_library(tmp_path: Path) -> None:
    """What comes by MCP is stored as what comes by Python, and the other way round."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.user("ana").add("I work at Acme.", session_id="t", timestamp="2024-06-02")

    async def work(client: Client) -> list[str]:
        await call(client, "add_memory", **MOVED)
        return [one["text"] for one in (await call(client, "list_facts"))["facts"]]

    texts = serve(tmp_path, work)
    assert sorted(texts) == ["I moved to Lisbon in May 2024.", "I work at Acme."]
    with MemForest(tmp_path, fast_config()) as forest:
        assert sorted(one.text for one in forest.user("ana").list()) == sorted(texts)


def test_an_answer_cites_and_an_abstention_says_why(tmp_path: Path) -> None:
    """And the options of a question reach the core: nothing was so before it was said to be."""

    async def work(client: Client) -> list[dict[str, Any]]:
        await call(client, "add_memory", **MOVED)
        return [
            await call(client, "ask_memory", question="Where do I live?"),
            await call(client, "ask_memory", question="What is the capital of Peru?"),
            await call(client, "search_memory", query="Where do I live?", as_of="2020-01-01"),
            await call(client, "search_memory", query="Where?", during=["2019-01-01", "2020-01-01"]),
        ]

    answered, abstained, before, during = serve(tmp_path, work)
    assert "Lisbon" in answered["answer"]
    assert answered["evidence"][0]["sources"] == [{"session_id": "s", "turn_ids": ["0"]}]
    assert (answered["abstained"], abstained["abstained"]) == (False, True)
    assert "answer" not in abstained
    assert abstained["reason"]
    assert (before["evidence"], during["evidence"]) == ([], [])


def test_a_timeline_tells_what_took_the_place_of_what(tmp_path: Path) -> None:
    """In time order, a page at a time."""

    async def work(client: Client) -> list[Any]:
        await call(client, "add_memory", content="I live in Davis.", timestamp="2023-05-01")
        await call(client, "add_memory", content="I moved to Miami.", timestamp="2023-06-01")
        whole = await call(client, "get_timeline", entity="ana", attribute="residence")
        first = await call(client, "get_timeline", entity="ana", attribute="residence", limit=1)
        second = await call(
            client, "get_timeline", entity="ana", attribute="residence", limit=1, cursor=first["next_cursor"]
        )
        return [whole, first, second]

    whole, first, second = serve(tmp_path, work)
    assert [(one["value"], "end" in one) for one in whole["entries"]] == [("Davis", True), ("Miami", False)]
    assert first["entries"] + second["entries"] == whole["entries"]
    assert "next_cursor" not in second


def test_facts_come_a_page_at_a_time(tmp_path: Path) -> None:
    """Each once, with how many there are."""

    async def work(client: Client) -> tuple[list[str], set[int]]:
        for day in range(1, 6):
            await call(
                client, "add_memory", content=f"I bought {day} red tents.", timestamp=f"2023-05-0{day}"
            )
        seen: list[str] = []
        totals: set[int] = set()
        cursor: Any = ""
        while True:
            page = await call(client, "list_facts", limit=2, cursor=cursor)
            seen += [one["fact_id"] for one in page["facts"]]
            totals.add(page["total"])
            cursor = page.get("next_cursor")
            if cursor is None:
                return seen, totals

    seen, totals = serve(tmp_path, work)
    assert len(seen) == len(set(seen)) == 5
    assert totals == {5}


def test_messages_are_added_and_a_key_adds_them_once(tmp_path: Path) -> None:
    """With role, speaker, time and id of each."""
    messages = [
        {
            "role": "user",
            "content": "I live in Davis.",
            "speaker": "Bob",
            "timestamp": "2023-05-01",
            "id": "m1",
        },
        {"role": "assistant", "content": "Noted."},
    ]

    async def work(client: Client) -> list[dict[str, Any]]:
        given = {"messages": messages, "session_id": "s", "idempotency_key": "k", "timestamp": "2023-05-02"}
        return [await call(client, "add_memory", **given) for _ in range(2)]

    first, again = serve(tmp_path, work)
    assert (first["turns_added"], first["replayed"], again["replayed"]) == (2, False, True)
    assert first["added"] == again["added"] != []
    with MemForest(tmp_path, fast_config()) as forest:
        one, other = forest.user("ana").turns("s")
    assert (one.id, one.speaker, one.said.day, other.role, other.said.day) == ("m1", "Bob", 1, "assistant", 2)


def test_a_fact_is_corrected_shown_and_taken_back(tmp_path: Path) -> None:
    """By the tools of the profile "full"; the key that a correction returns undoes it."""

    async def work(client: Client) -> list[Any]:
        await call(client, "add_memory", **MOVED)
        fact_id = (await call(client, "list_facts"))["facts"][0]["fact_id"]
        corrected = await call(client, "correct_memory", fact_id=fact_id, text="Ana moved to Porto.")
        facts = [one["text"] for one in (await call(client, "list_facts"))["facts"]]
        shown = await call(client, "get_fact", fact_id=corrected["new_fact_id"])
        undone = await call(client, "correct_memory", undo=corrected["key"])
        after = [one["text"] for one in (await call(client, "list_facts"))["facts"]]
        return [facts, shown, undone, after]

    facts, shown, undone, after = serve(tmp_path, work, tools="full")
    assert facts == ["Ana moved to Porto."]
    assert [one["kind"] for one in shown["history"]] == ["said", "corrected"]
    assert undone["undone"] is True
    assert after == [MOVED["content"]]


def test_sessions_trees_and_counts(tmp_path: Path) -> None:
    """The other tools of the profile "full"."""

    async def work(client: Client) -> list[Any]:
        for name in ("s", "t", "u"):
            await call(client, "add_memory", **{**MOVED, "session_id": name})
        first = await call(client, "list_sessions", limit=2)
        rest = await call(client, "list_sessions", limit=2, cursor=first["next_cursor"])
        trees = await call(client, "browse_tree", scope="s", depth=2)
        return [first, rest, trees, await call(client, "memory_stats")]

    first, rest, trees, stats = serve(tmp_path, work, tools="full")
    assert sorted(one["session_id"] for page in (first, rest) for one in page["sessions"]) == ["s", "t", "u"]
    assert (first["total"], "next_cursor" in rest) == (3, False)
    assert {one["depth"] for one in trees["nodes"]} >= {0}
    assert (stats["sessions"], stats["turns"]) == (3, 3)


def test_connectors_search_and_fetch(tmp_path: Path) -> None:
    """In the shape of ChatGPT's connectors: the text is the same JSON as the structured content, and every id can be fetched."""
    import json

    async def work(client: Client) -> list[Any]:
        await call(client, "add_memory", **{**MOVED, "session_id": "a:b/c"})
        await call(client, "add_memory", content="ok", session_id="d")
        found = await client.call_tool("search", {"query": "Where do I live?"})
        assert found.structured_content is not None
        fetched = [
            await client.call_tool("fetch", {"id": one["id"]}) for one in found.structured_content["results"]
        ]
        return [found, *fetched]

    found, *fetched = serve(tmp_path, work, tools="openai")
    assert json.loads(text_of(found)) == found.structured_content
    assert set(found.structured_content["results"][0]) == {"id", "title", "url"}
    assert len(fetched) >= 1
    for one in fetched:
        assert json.loads(text_of(one)) == one.structured_content
        assert set(one.structured_content) == {"id", "title", "text", "url", "metadata"}
    assert MOVED["content"] in fetched[0].structured_content["text"]
    assert fetched[0].structured_content["url"] == "memory://ana/sessions/a%3Ab%2Fc"


def test_progress_is_told_where_the_core_tells_it(tmp_path: Path) -> None:
    """In order, each more than the one before; the result comes behind all of it."""
    told: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def work(client: Client) -> None:
        await client.call_tool("add_memory", dict(MOVED), progress_callback=hear)

    serve(tmp_path, work)
    assert [one for one, _ in told] == sorted({one for one, _ in told})
    assert told[0][1] == "received: 1 of 1"
    assert (told[-1][1] or "").startswith("finished")


@pytest.mark.parametrize("user", ["ana", None])
def test_a_user_is_an_argument_only_where_none_is_fixed(tmp_path: Path, user: str | None) -> None:
    """And then the memory of one is not that of another."""

    async def work(client: Client) -> list[Any]:
        whose = {} if user else {"user": "ana"}
        await call(client, "add_memory", **MOVED, **whose)
        mine = await call(client, "list_facts", **whose)
        other = await client.call_tool("list_facts", {"user": "bob"})
        return [len(mine["facts"]), other.is_error, text_of(other)]

    count, failed, text = serve(tmp_path, work, user=user)
    assert (count, failed) == (1, user is not None)
    assert text.startswith("There is no argument 'user'" if user else "There are no such facts.")


def test_a_client_that_takes_no_progress_keeps_no_write_from_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Telling may fail, or hang: what was stored is stored, the write ends, and nothing is left running."""
    monkeypatch.setattr(writing, "TELL_S", 0.05)

    class Deaf:
        def __init__(self, *, hangs: bool) -> None:
            self.hangs = hangs

        async def report_progress(self, *_told: object) -> None:
            if self.hangs:
                await asyncio.sleep(3600)
            raise ConnectionError("gone")

    async def write(ctx: Any) -> str:
        async with writing._progress(ctx) as tell:
            tell(IngestProgress("received", "ana", "s", 1, 0, 1))
            tell(IngestProgress("finished", "ana", "s", 1, 0, 1))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return "stored"

    for hangs in (False, True):
        assert asyncio.run(write(Deaf(hangs=hangs))) == "stored"
