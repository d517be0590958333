"""The OpenAI Agents SDK: a session whose items come back as they were, and what is learnt from them."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession
from agents.memory import Session
from agents.testing import ScriptedModel
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memforest import AsyncMemForest, Config
from memforest.errors import InputError
from memforest.integrations.openai_agents import MemForestSession, memory_tools
from memforest.testing import HashEmbedder

ITEMS: list[Any] = [
    {"role": "user", "content": "I live in Porto."},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "I live in Rome."}]},
    {"type": "function_call", "call_id": "c1", "name": "book", "arguments": '{"day": 3}', "id": "f1"},
    {"type": "function_call_output", "call_id": "c1", "output": "I live in Rome."},
    {"type": "message", "role": "assistant", "id": "m1", "status": "completed",
     "content": [{"type": "output_text", "text": "Booked.", "annotations": []}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBO"}, {"type": "input_text", "text": "\0"}]},
    {"role": "user", "content": ""},
]  # fmt: skip


async def test_items_come_back_and_only_the_user_states(forest: AsyncMemForest) -> None:
    """Calls, results, reasoning and empty items come back as they were; facts are of what the user said."""
    session = MemForestSession(forest, "app/bob", "t1")
    assert isinstance(session, Session)
    await session.add_items(ITEMS)
    await session.add_items([])
    assert await session.get_items() == ITEMS
    assert await session.get_items(2) == ITEMS[-2:]
    assert await session.get_items(0) == []
    facts = await forest.user("app/bob").list()
    assert [(fact.speaker, fact.text) for fact in facts if "live" in fact.text] == [
        ("bob", "I live in Porto.")
    ]


async def test_what_is_popped_or_cleared_is_not_known(forest: AsyncMemForest) -> None:
    """Nothing is left of an item that was taken away, nor of a cleared session."""
    session = MemForestSession(forest, "bob", "t1")
    await session.add_items(
        [{"role": "user", "content": "I live in Porto."}, {"role": "user", "content": "I like Sagres."}]
    )
    assert await session.pop_item() == {"role": "user", "content": "I like Sagres."}
    assert (await forest.user("bob").verify(deleted=["Sagres"])).ok
    await session.clear_session()
    await session.clear_session()
    assert await session.pop_item() is None
    assert await session.get_items() == []
    assert (await forest.user("bob").verify(deleted=["Porto"])).ok


async def test_concurrent_runs_on_one_session(forest: AsyncMemForest) -> None:
    """Batches that are added at once stay whole, and no item is popped twice."""
    sessions = [MemForestSession(forest, "bob", "t1") for _ in range(4)]
    batches = [[{"role": "user", "content": f"Item {n} of {at}."} for n in range(3)] for at in range(4)]
    await asyncio.gather(*(one.add_items(batch) for one, batch in zip(sessions, batches, strict=True)))
    items = await sessions[0].get_items()
    assert sorted(str(items[at : at + 3]) for at in range(0, 12, 3)) == sorted(map(str, batches))
    popped = await asyncio.gather(*(one.pop_item() for one in sessions))
    assert len({str(one) for one in popped}) == 4
    assert len(await sessions[0].get_items()) == 8


async def test_an_agent_recalls(forest: AsyncMemForest) -> None:
    """The model sees what was said in another session; what was recalled is in no session."""
    text = ResponseOutputText(text="In Porto.", type="output_text", annotations=[], logprobs=[])
    reply = ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[text]
    )
    model = ScriptedModel()
    model.enqueue([reply])
    await MemForestSession(forest, "bob", "t1").add_items(ITEMS[:1])
    session = MemForestSession(forest, "bob", "t2")
    seen: list[str] = []

    async def instructions(context: Any, agent: Any) -> str:
        seen.append(await session.instructions("Help.")(context, agent))
        return seen[-1]

    agent = Agent("helper", instructions=instructions, model=model, tools=[*memory_tools(forest, "bob")])
    result = await Runner.run(agent, "Where do I live?", session=session)
    assert result.final_output == "In Porto."
    assert "Porto" in seen[0]
    assert [tool.name for tool in agent.tools] == ["search_memory", "timeline", "remember"]
    assert not any("memforest-memory" in turn.text for turn in await forest.user("bob").turns("t2"))


@pytest.mark.parametrize(
    "item", [7, "x", {"role": "user", "content": object()}, {"role": "user", "content": "\ud800"}]
)
async def test_an_item_that_cannot_be_kept_is_refused(forest: AsyncMemForest, item: Any) -> None:
    """All items of the call or none."""
    session = MemForestSession(forest, "bob", "t1")
    with pytest.raises(InputError):
        await session.add_items([ITEMS[0], item])
    assert await session.get_items() == []
    for wrong in ("", " ", None):
        with pytest.raises(InputError):
            MemForestSession(forest, wrong, "t1")  # type: ignore[arg-type]
        with pytest.raises(InputError):
            MemForestSession(forest, "bob", wrong)  # type: ignore[arg-type]


class SessionMachine(RuleBasedStateMachine):
    """Two sessions of ours and two of the SDK get the same calls, and answer alike."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.forest = AsyncMemForest(self.folder.name, Config(embedder=HashEmbedder()))
        self.pairs = [
            (MemForestSession(self.forest, "bob", name), SQLiteSession(name)) for name in ("t1", "t2")
        ]

    def teardown(self) -> None:
        """Close."""
        self.loop.run_until_complete(self.forest.close())
        self.loop.close()
        self.folder.cleanup()

    def both(self, at: int, call: Any) -> None:
        """Check one call."""
        one, other = (self.loop.run_until_complete(call(session)) for session in self.pairs[at])
        assert one == other

    @rule(at=st.integers(0, 1), items=st.lists(st.sampled_from(ITEMS), max_size=4))
    def add(self, at: int, items: Any) -> None:
        """Add."""
        self.both(at, lambda session: session.add_items(items))

    @rule(at=st.integers(0, 1), limit=st.sampled_from([None, 0, 1, 3, 99]))
    def get(self, at: int, limit: Any) -> None:
        """Read."""
        self.both(at, lambda session: session.get_items(limit))

    @rule(at=st.integers(0, 1))
    def pop(self, at: int) -> None:
        """Take the last."""
        self.both(at, lambda session: session.pop_item())

    @rule(at=st.integers(0, 1))
    def clear(self, at: int) -> None:
        """Delete all."""
        self.both(at, lambda session: session.clear_session())


TestSessionMachine = SessionMachine.TestCase
