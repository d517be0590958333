"""Memory for LangGraph: the nodes `recall` and `remember`, two tools, and what LangChain's retriever shares with them.

The thread is the session, and the user comes from the configuration of the run::

    memory = MemForestNodes(forest)
    builder.add_node("recall", memory.recall)
    builder.add_node("remember", memory.remember)
    graph.invoke(state, {"configurable": {"thread_id": "t1", "user_id": "bob"}})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memforest.errors import InputError
from memforest.integrations.adapter import Bridge, last_said, needs, session_of, told, waiting
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.write.turns import check_id

with needs(("langgraph", "1.1", "2"), ("langchain-core", "1.7", "2")):
    from langchain_core.runnables import RunnableConfig, RunnableLambda
    from langchain_core.tools import BaseTool, StructuredTool
    from langgraph.graph import MessagesState

__all__ = ["MemForestNodes", "MemoryState"]


class MemoryState(MessagesState):
    """The messages of a thread, and what was recalled for the last of them."""

    memory: str


class MemForestNodes:
    """The nodes and tools of a graph that remembers.

    Args:
        forest: the memories.
        user: names the user of a run; ``config["configurable"]["user_id"]`` when not given.
        key: the field of the state that recalled text is put into, marked; "" where nothing was found.
        options: of `Bridge`.
    """

    def __init__(
        self,
        forest: AsyncMemForest | MemForest,
        *,
        user: Callable[[RunnableConfig], str] | None = None,
        key: str = "memory",
        **options: Any,
    ) -> None:
        self.bridge, self.key = Bridge(forest, **options), key
        self._user = user or (lambda config: _configured(config, "user_id"))
        self.recall = RunnableLambda(waiting(self._recall), afunc=self._recall, name="recall")
        self.remember = RunnableLambda(waiting(self._remember), afunc=self._remember, name="remember")

    async def _recall(self, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, str]:
        """Recall what answers the last message of the user."""
        user = check_id(self._user(config), "user_id")
        return {self.key: await self.bridge.recall(user, last_said(state["messages"]))}

    async def _remember(self, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """Keep the messages of the thread that are not kept yet."""
        user = check_id(self._user(config), "user_id")
        await self.bridge.remember(user, session_of(_configured(config, "thread_id")), state["messages"])
        return {}

    def tools(self) -> list[BaseTool]:
        """Return the tools `search_memory` and `timeline`, for the user of the run."""

        async def search_memory(
            query: str, config: RunnableConfig, as_of: str | None = None, during: list[str] | None = None,
            top_k: int | None = None, max_tokens: int | None = None,
        ) -> str:  # fmt: skip
            """Search what the user said in earlier conversations; as_of and during (two dates) say when it was so."""
            how = {"as_of": as_of, "during": during, "top_k": top_k, "max_tokens": max_tokens}
            return await told(self.bridge.recall(check_id(self._user(config), "user_id"), query, **how))

        async def timeline(entity: str, config: RunnableConfig, attribute: str | None = None) -> str:
            """Tell what is known of a person or thing in time order, with what was so before."""
            return await told(
                self.bridge.timeline(check_id(self._user(config), "user_id"), entity, attribute)
            )

        return [
            StructuredTool.from_function(func=waiting(each), coroutine=each)
            for each in (search_memory, timeline)
        ]


def _configured(config: Mapping[str, Any], name: str) -> str:
    found = (config.get("configurable") or {}).get(name)
    if not found:
        raise InputError(f'the run names no {name}; give config={{"configurable": {{"{name}": "…"}}}}')
    return str(found)
