"""Whose memory a call of MCP is about, and that a connector is led nowhere by an id that leads nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client
from tests_long.mcp_worlds import call, serve, text_of
from tests_long.worlds import fast_config

from memforest import AsyncMemForest
from memforest.errors import NotFoundError
from memforest.server.auth import OpenAccess, Principal
from memforest.server.mcp.shapes import NOBODY, ToolContext

ALL, ANA = Principal(), Principal(user="ana")


@pytest.mark.parametrize(
    ("user", "who", "given", "found"),
    [
        (None, ALL, "ana", "ana"),
        (None, ANA, "ana", "ana"),
        (None, ANA, "", "ana"),
        (None, ANA, "bob", None),
        ("ana", ALL, "", "ana"),
        ("ana", ALL, "ana", "ana"),
        ("ana", ALL, "bob", None),
        ("ana", ANA, "", "ana"),
        ("bob", ANA, "", None),
        ("bob", ANA, "bob", None),
        ("bob", ANA, "ana", None),
    ],
)
def test_the_server_and_the_key_decide_and_a_name_only_where_they_do_not(
    tmp_path: Path, user: str | None, who: Principal, given: str, found: str | None
) -> None:
    """A user whom the caller may not see is as one who has no memory, in the same words."""
    desk = ToolContext(OpenAccess(AsyncMemForest(tmp_path, fast_config())), user, fixed=user is not None)
    if found is not None:
        assert desk.user_id(who, given) == found
        return
    with pytest.raises(NotFoundError) as caught:
        desk.user_id(who, given)
    assert str(caught.value) == NOBODY


@pytest.mark.parametrize(
    "wrong",
    ["", "fact:", "fact:f1%3Anone", "turn:s", "turn:s:9", "turn:none:0", "turn:s:0:0", "node:1", "../x"],
)
def test_an_id_that_leads_nowhere_is_a_sentence(tmp_path: Path, wrong: str) -> None:
    """And no crash, whatever its form."""

    async def work(client: Client) -> Any:
        await call(client, "add_memory", content="I live in Davis.", session_id="s", timestamp="2024-06-01")
        return await client.call_tool("fetch", {"id": wrong})

    result = serve(tmp_path, work, tools="openai")
    assert result.is_error
    assert "failed inside" not in text_of(result)
    assert len(text_of(result).splitlines()) == 1


def test_a_turn_is_fetched_with_those_around_it_quoted(tmp_path: Path) -> None:
    """Two before and two behind, in order; an id may hold what separates its parts."""
    said = [{"role": "user", "content": f"Line {number}.", "id": f"{number}:x"} for number in range(9)]

    async def work(client: Client) -> dict[str, Any]:
        await call(client, "add_memory", messages=said, session_id="a:b", timestamp="2024-06-01")
        return await call(client, "fetch", id="turn:a%3Ab:4%3Ax")

    fetched = serve(tmp_path, work, tools="openai")
    _, *lines = fetched["text"].splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == [f'"Line {number}."' for number in range(2, 7)]
    assert (fetched["title"], fetched["url"]) == ("Line 4.", "memory://ana/sessions/a%3Ab")
    assert fetched["metadata"]["said"].startswith("2024-06-01")
