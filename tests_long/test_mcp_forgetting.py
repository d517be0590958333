"""Forgetting by MCP: what goes, what can be taken back, and that a person is asked where the client can."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult
from tests_long.mcp_worlds import ERAS, call, serve, text_of
from tests_long.worlds import fast_config

from memforest import MemForest

SAID = [
    {"role": "user", "content": 'I live in Davis, near the "Obey" sign.', "id": "m1"},
    {"role": "user", "content": "I work at Acme.", "id": "m2"},
]


class Person:
    """Answers the forms that a client shows."""

    def __init__(self, action: str, content: dict[str, Any] | None) -> None:
        self.reply = ElicitResult(action=action, content=content)  # type: ignore[arg-type]  # one of three
        self.asked: list[str] = []

    async def __call__(self, _ctx: Any, params: ElicitRequestParams) -> ElicitResult:
        """Answer."""
        self.asked.append(params.message)
        return self.reply


async def prepared(client: Client) -> str:
    """Add what is to be forgotten, and return the id of its first fact."""
    await call(client, "add_memory", messages=SAID, session_id="s", timestamp="2024-06-01")
    return str((await call(client, "list_facts"))["facts"][0]["fact_id"])


def left(directory: Path) -> tuple[int, int]:
    """Return how many facts and turns there are."""
    with MemForest(directory, fast_config()) as forest:
        stats = forest.user("ana").stats()
        return forest.user("ana").list().total, stats.turns


@pytest.mark.parametrize("era", ERAS)
def test_a_person_is_asked_and_says_yes(tmp_path: Path, era: str) -> None:
    """Once, in words that quote what goes; the fact is hidden then, and its key takes that back."""
    person = Person("accept", {"forget": True})

    async def work(client: Client) -> dict[str, Any]:
        return await call(client, "forget_memory", fact_id=await prepared(client))

    receipt = serve(tmp_path, work, era=era, elicitation_callback=person)
    assert (receipt["done"], receipt["action"]) == (True, "forgotten")
    assert len(person.asked) == 1
    assert person.asked[0].startswith('Forget "')
    assert '"Obey"' not in person.asked[0]
    facts, turns = left(tmp_path)
    assert (facts, turns) == (1, 2)
    with MemForest(tmp_path, fast_config()) as forest:
        forest.user("ana").undo(receipt["undo_key"])
    assert left(tmp_path) == (2, 2)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("action", "content"), [("decline", None), ("cancel", None), ("accept", {"forget": False})]
)
def test_a_person_says_no(tmp_path: Path, era: str, action: str, content: dict[str, Any] | None) -> None:
    """In any of three ways: nothing goes, and the model is told that as a result, not as an error to try again."""
    person = Person(action, content)

    async def work(client: Client) -> dict[str, Any]:
        await prepared(client)
        return await call(client, "forget_memory", session_id="s")

    assert serve(tmp_path, work, era=era, elicitation_callback=person) == {"done": False, "action": "kept"}
    assert person.asked == ['Erase session "s" for good? 2 turns and 2 facts go.']
    assert left(tmp_path) == (2, 2)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_cannot_ask_is_not_asked(tmp_path: Path, era: str) -> None:
    """The host asks by the hint that the tool is destructive; a turn goes alone, a session whole."""

    async def work(client: Client) -> list[Any]:
        await prepared(client)
        turn = await call(client, "forget_memory", session_id="s", turn_id="m2")
        rest = await call(client, "list_facts")
        return [turn, rest["total"], await call(client, "forget_memory", session_id="s")]

    turn, facts, session = serve(tmp_path, work, era=era)
    assert (turn["done"], turn["action"], turn["gone"]["turns"], facts) == (True, "deleted", 1, 1)
    assert (session["gone"]["sessions"], session["gone"]["turns"]) == (1, 1)
    assert "undo_key" not in session
    assert left(tmp_path) == (0, 0)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "Give either fact_id, or session_id, or session_id with turn_id."),
        ({"turn_id": "m1"}, "Give either fact_id, or session_id, or session_id with turn_id."),
        (
            {"fact_id": "f", "session_id": "s"},
            "Give either fact_id, or session_id, or session_id with turn_id.",
        ),
        ({"fact_id": "f1:none"}, "no fact"),
        ({"session_id": "none"}, "no session"),
    ],
)
def test_what_is_not_there_is_not_asked_about(
    tmp_path: Path, era: str, arguments: dict[str, str], says: str
) -> None:
    """Nor what is not one thing: the model is told what to give."""
    person = Person("accept", {"forget": True})

    async def work(client: Client) -> Any:
        await prepared(client)
        return await client.call_tool("forget_memory", arguments)

    result = serve(tmp_path, work, era=era, elicitation_callback=person)
    assert result.is_error
    assert says in text_of(result)
    assert person.asked == []
    assert left(tmp_path) == (2, 2)
