"""LangGraph's long-term store with a search that knows time: pip install memforest "langgraph>=1.1,<2"."""

import asyncio
import tempfile
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from memforest import Config, MemForest
from memforest.integrations.langgraph_store import MemForestStore
from memforest.ports import ChatRequest, Message
from memforest.testing import FrozenClock, ScriptedChat

chat = ScriptedChat(["Noted.", "Noted."])  # your model


async def model(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
    """Keep what was said, and answer."""
    text = str(state["messages"][-1].content)
    await store.aput(("bob", "said"), text, {"text": text})
    reply = await chat.complete(ChatRequest("answer", (Message("user", text),)))
    return {"messages": [("assistant", reply.text)]}


clock = FrozenClock("2023-01-09T09:00:00+00:00")
with tempfile.TemporaryDirectory() as folder, MemForest(folder, Config(clock=clock)) as forest:
    store = MemForestStore(forest)
    graph = StateGraph(MessagesState).add_node("model", model).add_edge(START, "model").compile(store=store)
    asyncio.run(graph.ainvoke({"messages": [("user", "I live in Porto.")]}))
    clock.advance(days=150)
    asyncio.run(graph.ainvoke({"messages": [("user", "I moved to Lisbon.")]}))
    question, then = "Where does bob live?", {"memforest": {"as_of": "2023-02-01", "evidence": True}}
    print("Now:", store.search(("bob",), query=question)[0].value["text"])
    [item] = store.search(("bob",), query=question, filter=then)
    print("Before:", item.value["text"], item.value["memforest"][0]["start"])
