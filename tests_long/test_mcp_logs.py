"""Log messages over MCP: to clients that ask, from a level on, how calls went, and nothing of what was said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client
from mcp.types import EmptyResult, LoggingMessageNotificationParams, SetLevelRequest, SetLevelRequestParams
from tests.table import each
from tests_long.mcp_worlds import ERAS, call, serve

from memforest.server.mcp.prompts import LEVELS, _went

SECRET = "I hide the key beneath the third stone."


def told(directory: Path, era: str, level: Any) -> list[tuple[str, str]]:
    """Return what a client is told that asks for a level and above, or does not ask."""
    heard: list[tuple[str, str]] = []

    async def hear(message: LoggingMessageNotificationParams) -> None:
        heard.append((message.level, str(message.data)))

    async def work(client: Client) -> None:
        if era == "legacy" and level is not None:
            request = SetLevelRequest(params=SetLevelRequestParams(level=level))
            await client.session.send_request(request, EmptyResult)
        await call(client, "add_memory", content=SECRET)
        await call(client, "search_memory", query="Where is the key?")
        await client.call_tool("search_memory", {})
        await client.call_tool("sec\nret" * 100, {})
        await client.list_tools()

    serve(directory, work, era=era, logging_callback=hear, log_level=level)
    return heard


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_asks_is_told_how_calls_went(tmp_path: Path, era: str) -> None:
    """Each call once, in one line, in order; and no line has what was said."""
    heard = told(tmp_path, era, "debug")
    assert [level for level, _ in heard] == ["info", "info", "warning", "warning"]
    assert [line for _, line in heard[:2]] == ["add_memory is done", "search_memory is done"]
    assert heard[2][1].startswith("search_memory was refused: The argument query is missing")
    assert all("\n" not in line and len(line) < 500 for _, line in heard)
    assert not [line for _, line in heard if "stone" in line]


@pytest.mark.parametrize("era", ERAS)
def test_from_a_level_on(tmp_path: Path, era: str) -> None:
    """What is less severe is not sent."""
    assert [level for level, _ in told(tmp_path / "a", era, "warning")] == ["warning", "warning"]
    assert told(tmp_path / "b", era, "error") == []


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_does_not_ask_hears_nothing(tmp_path: Path, era: str) -> None:
    """As the protocol of 2026-07-28 demands."""
    assert told(tmp_path, era, None) == []


def test_the_capability_is_declared(tmp_path: Path) -> None:
    """Else no client would ask."""

    async def work(client: Client) -> bool:
        return client.server_capabilities.logging is not None

    assert serve(tmp_path, work, era="legacy")


@each(
    ("result", "level", "says"),
    [
        ({"isError": True, "content": [{"text": "No."}]}, "warning", "t was refused: No."),
        ({"structuredContent": {"failed": 2}}, "warning", "t: 2 parts are stored and will be read later"),
        ({"structuredContent": {"warnings": ["a", "b"]}}, "warning", "t: a; b"),
        ({"structuredContent": {"failed": 0, "warnings": []}}, "info", "t is done"),
        ({}, "info", "t is done"),
    ],
)
def test_how_a_call_went(result: dict[str, Any], level: str, says: str) -> None:
    """Refused, in part, with a warning, or well."""
    assert _went("t", result) == (level, says)
    assert level in LEVELS
