"""Resources and prompts of the MCP server: read by address, quoted, and each of one user."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client, MCPError
from mcp.types import ResourceTemplateReference
from tests_long.mcp_worlds import ERAS, call, serve

from memforest.server.mcp.shapes import MOST_CHARS, NOTE
from memforest.times import UNSAFE

SAID = {
    "content": 'I live in Davis. He said "go".',
    "session_id": "a/b c",
    "timestamp": "2024-06-01T10:00:00Z",
}


async def read(client: Client, uri: str) -> str:
    """Return the text of a resource."""
    (content,) = (await client.read_resource(uri)).contents
    return str(content.text)  # type: ignore[union-attr]  # of text


async def prompt(client: Client, name: str, **arguments: str) -> str:
    """Return the text of a prompt."""
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    return str(message.content.text)  # type: ignore[union-attr]  # of text


@pytest.mark.parametrize("era", ERAS)
def test_resources(tmp_path: Path, era: str) -> None:
    """Of a user whose id would be a path elsewhere; the profile is listed, as there is one user."""
    user = "../ana"

    async def work(client: Client) -> list[Any]:
        await call(client, "add_memory", **SAID)
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        templates = sorted(
            one.uri_template for one in (await client.list_resource_templates()).resource_templates
        )
        base = "memory://..%2Fana"
        return [
            listed,
            templates,
            await read(client, listed[0]),
            await read(client, f"{base}/timeline/..%2Fana"),
            await read(client, f"{base}/sessions/a%2Fb%20c"),
        ]

    listed, templates, profile, timeline, session = serve(tmp_path, work, era=era, user=user)
    assert listed == ["memory://..%2Fana/profile"]
    assert templates == [
        "memory://{user}/profile",
        "memory://{user}/sessions/{session_id}",
        "memory://{user}/sessions/{session_id}/from/{cursor}",
        "memory://{user}/timeline/{entity}",
    ]
    assert profile
    assert timeline.splitlines()[0] == NOTE
    assert 'residence "Davis"' in timeline
    assert session == (
        f'{NOTE}\nturn "0", 2024-06-01 10:00 UTC, "../ana": "I live in Davis. He said \\"go\\"."'
    )


@pytest.mark.parametrize("era", ERAS)
def test_a_profile_that_is_listed_can_be_read(tmp_path: Path, era: str) -> None:
    """Before anything is stored, too."""

    async def work(client: Client) -> str:
        (profile,) = (await client.list_resources()).resources
        return await read(client, str(profile.uri))

    assert serve(tmp_path, work, era=era) == "There is no profile yet."


@pytest.mark.parametrize("era", ERAS)
def test_completion(tmp_path: Path, era: str) -> None:
    """Of names and of ids of sessions, of the user that the address names; never of who the users are."""

    async def work(client: Client) -> list[list[str]]:
        await call(client, "add_memory", content="I met Carla in Davis.", session_id="Trip", user="u/1")
        await call(client, "add_memory", content="I met Bob.", session_id="t2", user="u/1")
        asked = [
            ("memory://{user}/timeline/{entity}", "entity", "ca", "u%2F1"),
            ("memory://{user}/sessions/{session_id}", "session_id", "t", "u%2F1"),
            ("memory://{user}/timeline/{entity}", "entity", "", "nobody"),
            ("memory://{user}/profile", "user", "", ""),
        ]
        return [
            (
                await client.complete(
                    ResourceTemplateReference(uri=uri), {"name": name, "value": value}, {"user": user}
                )
            ).completion.values
            for uri, name, value, user in asked
        ]

    names, ids, nobody, users = serve(tmp_path, work, era=era, user=None)
    assert names == ["Carla"]
    assert sorted(ids) == ["Trip", "t2"]
    assert (nobody, users) == ([], [])


@pytest.mark.parametrize("era", ERAS)
def test_prompts(tmp_path: Path, era: str) -> None:
    """They hold what memory recalls, quoted, below the note that it is data."""

    async def work(client: Client) -> list[Any]:
        await call(client, "add_memory", **SAID)
        listed = {one.name: one for one in (await client.list_prompts()).prompts}
        arguments = {
            name: [(each.name, each.required) for each in one.arguments or []] for name, one in listed.items()
        }
        return [
            arguments,
            await prompt(client, "recall", question='Where do I "live"?'),
            await prompt(client, "what_changed", since="2020-01-01"),
            await prompt(client, "what_changed", since="2030-01-01"),
        ]

    arguments, recalled, changed, nothing = serve(tmp_path, work, era=era)
    assert arguments == {
        "recall": [("question", True)],
        "what_changed": [("since", True), ("until", False)],
    }
    assert '"Where do I \\"live\\"?"' in recalled
    assert NOTE in recalled
    assert '"I live in Davis. He said \\"go\\"."' in recalled
    assert NOTE in changed
    assert 'stored "a/b c"' in changed
    assert nothing.endswith("Nothing has changed.")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("recall", {}, "prompts/list"),
        ("nothing", {}, "prompts/list"),
        ("what_changed", {"since": "soon"}, "ince"),
        ("recall", {"question": "Where?", "user": "bob"}, None),
    ],
)
def test_prompts_that_cannot_be(
    tmp_path: Path, era: str, name: str, arguments: dict[str, str], says: str | None
) -> None:
    """A protocol error in one sentence."""

    async def work(client: Client) -> str:
        await call(client, "add_memory", **SAID)
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)
        return str(caught.value)

    text = serve(tmp_path, work, era=era)
    assert says is None or says in text
    assert "\n" not in text
    assert "Error rendering" not in text


def test_a_user_is_an_argument_of_prompts_where_none_is_fixed(tmp_path: Path) -> None:
    """And no profile is listed there."""

    async def work(client: Client) -> list[Any]:
        await call(client, "add_memory", **SAID, user="ana")
        names = [each.name for each in (await client.list_prompts()).prompts[0].arguments or []]
        listed = (await client.list_resources()).resources
        return [names, listed, await prompt(client, "recall", question="Where do I live?", user="ana")]

    names, listed, recalled = serve(tmp_path, work, user=None)
    assert names == ["question", "user"]
    assert listed == []
    assert "Davis" in recalled


@pytest.mark.parametrize("era", ERAS)
def test_no_change_is_promised_to_be_told(tmp_path: Path, era: str) -> None:
    """As none is: lists stay as they are, and resources are read anew."""

    async def work(client: Client) -> list[object]:
        has = client.server_capabilities
        assert has.tools is not None
        assert has.prompts is not None
        assert has.resources is not None
        told = (has.tools.list_changed, has.prompts.list_changed, has.resources.list_changed)
        return [*told, has.resources.subscribe]

    assert not any(serve(tmp_path, work, era=era))


def test_a_long_session_says_where_it_goes_on(tmp_path: Path) -> None:
    """Its parts are bounded, and hold each turn once, in order; no id hides anything."""
    hidden = "s\u202e\U000e0041\u200b"
    count, size = 90, 6_000

    async def work(client: Client) -> tuple[list[str], Any]:
        messages = [{"content": f"turn{number:03} " + "x" * size} for number in range(count)]
        await call(client, "add_memory", messages=messages, session_id=hidden, timestamp="2024-06-01")
        parts, address = [], f"memory://ana/sessions/{quote(hidden)}"
        while address:
            parts.append(await read(client, address))
            address = parts[-1].partition("The session goes on: ")[2].strip()
        found = await client.call_tool("list_sessions", {})
        return parts, (found.structured_content, found.content[0])

    parts, sessions = serve(tmp_path, work, user="ana", tools="full")
    told = [int(word[5:8]) for part in parts for word in part.split() if word.startswith('"turn')]
    assert told == list(range(count))
    assert len(parts) > 1
    assert all(len(part) < MOST_CHARS + size for part in parts)
    assert not UNSAFE.search(str(sessions).replace("\n", ""))
