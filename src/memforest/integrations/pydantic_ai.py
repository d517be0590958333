"""Memory for pydantic-ai: a capability with tools, instructions that recall, and what was said kept behind each run.

::

    agent = Agent("openai:gpt-5", capabilities=[MemForestMemory(forest, user="bob")])
    await agent.run("Where do I live?", conversation_id="t1")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from memforest.importers.messages import typed
from memforest.integrations.adapter import Bridge, needs, session_of
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.write.turns import check_id

with needs(("pydantic-ai-slim", "2.66", "3")):
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_ai.run import AgentRunResult

__all__ = ["MemForestMemory"]

Named = str | Callable[[RunContext[Any]], str]


@dataclass
class MemForestMemory(AbstractCapability[Any]):
    """One user's memory as a capability of an agent.

    A run that comes again with its id keeps nothing twice. What a failed run said is not kept.

    Args:
        forest: the memories.
        user: whose memory, or a function of the run's context that says so.
        session: the session, or such a function; the conversation of the run when not given.
        writes: keep what was said, and give the model the tool `remember`.
        options: of `Bridge`.
    """

    forest: AsyncMemForest | MemForest
    user: Named
    session: Named | None = None
    writes: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the user, and make ready."""
        self.bridge = Bridge(self.forest, **self.options)
        if not callable(self.user):
            check_id(self.user, "user")

    def _user(self, ctx: RunContext[Any]) -> str:
        return check_id(self.user(ctx) if callable(self.user) else self.user, "user")

    def get_toolset(self) -> Any:
        """Return the tools, for the user of the run; those of a user are made once, as reading their signatures takes a while."""
        made = lru_cache(64)(lambda user: FunctionToolset(self.bridge.tools(user, writes=self.writes)))

        def of_run(ctx: RunContext[Any]) -> FunctionToolset[Any]:
            return made(self._user(ctx))

        return of_run

    def get_instructions(self) -> Callable[[RunContext[Any]], Awaitable[str | None]]:
        """Return a function that recalls what answers the prompt of the run."""

        async def recalled(ctx: RunContext[Any]) -> str | None:
            prompt = [ctx.prompt] if isinstance(ctx.prompt, str) else ctx.prompt or ()
            asked = "\n".join(part for part in prompt if isinstance(part, str))
            return await self.bridge.recall(self._user(ctx), asked) or None

        return recalled

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Keep the messages of the run that are not kept yet."""
        if self.writes:
            named = self.session(ctx) if callable(self.session) else self.session or ctx.conversation_id
            messages = list(_messages(result.new_messages(), str(ctx.run_id)))
            await self.bridge.remember(self._user(ctx), session_of(named), messages)
        return result


def _messages(found: list[ModelMessage], run_id: str) -> Iterator[dict[str, Any]]:
    """Yield messages as those of chat protocols; their ids are the run and their number in it."""
    for number, message in enumerate(ModelMessagesTypeAdapter.dump_python(found, mode="json")):
        parts: list[Any] = []
        for part in message["parts"]:
            content = part.get("content")
            if part["part_kind"] == "user-prompt" and isinstance(content, list):
                parts += [it if isinstance(it, str) else {**it, "type": it.get("kind")} for it in content]
            elif part["part_kind"] != "retry-prompt":
                parts += typed(part)
        role = "user" if message["kind"] == "request" else "assistant"
        yield {"id": f"{run_id}/{number}", "role": role, "content": parts}
