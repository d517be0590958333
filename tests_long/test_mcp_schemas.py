"""What the MCP server lists: few tokens, typed results, a hint on every tool, and no argument that does not count."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client
from tests_long.mcp_worlds import ERAS, serve

from memforest.server.mcp.server import PROFILES, compact, without
from memforest.text import count_tokens

MOST_TOKENS = 2_150
"""What a default `tools/list` may cost every conversation of a host."""

READ = {"search_memory", "ask_memory", "get_timeline", "list_facts"}
DEFAULT = READ | {"add_memory", "remember", "forget_memory"}
NAMES = {
    "read": READ,
    "default": DEFAULT,
    "full": DEFAULT | {"correct_memory", "get_fact", "list_sessions", "browse_tree", "memory_stats"},
    "openai": DEFAULT | {"search", "fetch"},
}


def listed(directory: Path, **how: Any) -> dict[str, Any]:
    """Return what a server lists, as it comes over the wire."""

    async def work(client: Client) -> dict[str, Any]:
        return (await client.list_tools()).model_dump(by_alias=True, exclude_none=True, mode="json")

    return serve(directory, work, **how)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("user", ["ana", None])
def test_the_default_tools_cost_few_tokens(tmp_path: Path, user: str | None, era: str) -> None:
    """By our estimate, and with a margin of 2 % by four characters a token."""
    text = json.dumps(listed(tmp_path, user=user, era=era), separators=(",", ":"), ensure_ascii=False)
    assert count_tokens(text) <= MOST_TOKENS
    assert len(text) / 4 <= 0.98 * MOST_TOKENS


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(tmp_path: Path, profile: str) -> None:
    """Each lists its tools; what reads says so, what deletes says so, and nothing reaches beyond the memory."""
    tools = {one["name"]: one for one in listed(tmp_path, tools=profile)["tools"]}
    assert set(tools) == NAMES[profile]
    for name, tool in tools.items():
        hints = tool["annotations"]
        assert hints["openWorldHint"] is False
        writes = name in ("add_memory", "remember", "forget_memory", "correct_memory")
        assert hints["readOnlyHint"] is not writes
        if writes:
            assert hints["destructiveHint"] is (name == "forget_memory")
        assert tool["title"]
        assert tool["description"].endswith(".")


@pytest.mark.parametrize("user", ["ana", None])
def test_schemas_are_closed_and_typed(tmp_path: Path, user: str | None) -> None:
    """Of arguments and results; the user is an argument of every tool or of none, and never may be left out."""
    for tool in listed(tmp_path, user=user, tools="full")["tools"]:
        given, returned = tool["inputSchema"], tool["outputSchema"]
        assert given["type"] == returned["type"] == "object"
        assert given["additionalProperties"] is False
        assert ("user" in given["properties"]) is (user is None)
        assert ("user" in given.get("required", ())) is (user is None)
        assert "$ref" not in json.dumps(tool)
        assert set(returned["required"]) <= set(returned["properties"])


def test_an_unknown_profile_names_those_there_are(tmp_path: Path) -> None:
    """As a setting that is wrong."""
    from memforest import ConfigError

    with pytest.raises(ConfigError):
        serve(tmp_path, lambda _client: None, tools="all")  # type: ignore[arg-type, return-value]  # never called


def test_compact_says_the_same() -> None:
    """References in place, unions with null without it, and names of properties kept, whatever they are."""
    schema = {
        "$defs": {
            "One": {
                "type": "object",
                "title": "One",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            }
        },
        "title": "All",
        "type": "object",
        "properties": {
            "title": {"type": "string", "title": "Title", "maxLength": 9},
            "one": {"anyOf": [{"$ref": "#/$defs/One"}, {"type": "null"}], "default": None},
            "many": {"type": "array", "items": {"$ref": "#/$defs/One"}},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}], "default": 3},
        },
        "required": ["title"],
    }
    one = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "one": one,
            "many": {"type": "array", "items": one},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}], "default": 3},
        },
        "required": ["title"],
    }
    assert compact(schema) == wanted
    assert "required" not in compact(schema, nested=False)["properties"]["one"]


def test_a_function_without_an_argument() -> None:
    """It has the rest of the signature, evaluated, and passes the empty text."""
    import asyncio
    import inspect

    async def told(first: int, *, user: str, last: str = "z") -> tuple[int, str, str]:
        """Tell."""
        return first, user, last

    short = without(told, "user")
    assert asyncio.run(short(1, last="y")) == (1, "", "y")
    assert list(inspect.signature(short).parameters) == ["first", "last"]
    assert inspect.signature(short).parameters["first"].annotation is int
    assert (short.__doc__, short.__name__) == ("Tell.", "told")
