"""A LangGraph graph that recalls and remembers: pip install memforest "langgraph>=1.1,<2"."""

import tempfile

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph

from memforest import Config, MemForest
from memforest.integrations.langgraph import MemForestNodes, MemoryState
from memforest.testing import FrozenClock

clock = FrozenClock("2023-01-09T09:00:00+00:00")
with tempfile.TemporaryDirectory() as folder, MemForest(folder, Config(clock=clock)) as forest:
    nodes = MemForestNodes(forest)
    graph = StateGraph(MemoryState)
    graph.add_node("recall", nodes.recall)
    graph.add_node(
        "model", lambda state: {"messages": [AIMessage(state["memory"] or "Noted.")]}
    )  # your model
    graph.add_node("remember", nodes.remember)
    for one, other in ((START, "recall"), ("recall", "model"), ("model", "remember"), ("remember", END)):
        graph.add_edge(one, other)
    agent = graph.compile()

    def run(text: str, thread: str) -> str:
        """Say something in a thread, and return the answer."""
        config = {"configurable": {"thread_id": thread, "user_id": "bob"}}
        return str(agent.invoke({"messages": [("user", text)]}, config)["messages"][-1].content)

    run("I live in Porto.", "monday")
    clock.advance(days=150)
    run("I moved to Lisbon.", "tuesday")
    print("Now:", run("Where do I live?", "wednesday"))
    search, timeline = nodes.tools()
    config = {"configurable": {"user_id": "bob"}}
    print("Before:", search.invoke({"query": "Where does bob live?", "as_of": "2023-02-01"}, config))
    print("Timeline:", timeline.invoke({"entity": "bob"}, config))
