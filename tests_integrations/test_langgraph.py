"""LangGraph: nodes and tools in a compiled graph, and a store that is like its own store in all but scores."""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, InvalidNamespaceError, PutOp
from langgraph.store.memory import InMemoryStore

from memforest import AsyncMemForest, Config, MemForest
from memforest.errors import InputError, StoreError
from memforest.integrations.langgraph import MemForestNodes, MemoryState
from memforest.integrations.langgraph_store import MemForestStore
from memforest.testing import FrozenClock, HashEmbedder


def graph_of(forest: AsyncMemForest, **how: Any) -> tuple[Any, MemForestNodes]:
    """Return a graph that recalls, answers with what was recalled, and remembers."""
    nodes = MemForestNodes(forest, **how)
    builder = StateGraph(MemoryState)
    builder.add_node("recall", nodes.recall)
    builder.add_node("model", lambda state: {"messages": [AIMessage("Noted.")]})
    builder.add_node("remember", nodes.remember)
    for one, other in ((START, "recall"), ("recall", "model"), ("model", "remember"), ("remember", END)):
        builder.add_edge(one, other)
    return builder.compile(), nodes


def run_of(user: str, thread: str = "t1") -> Any:
    """Return the configuration of a run."""
    return {"configurable": {"thread_id": thread, "user_id": user}}


async def test_a_graph_recalls_and_remembers(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """What was said in one thread is recalled in another, of this user alone, and each message is kept once."""
    graph, nodes = graph_of(forest, strict=True)
    await graph.ainvoke({"messages": [("user", "I live in Porto.")]}, run_of("app/bob"))
    clock.advance(days=150)
    said = await graph.ainvoke({"messages": [("user", "I moved to Lisbon.")]}, run_of("app/bob", "t2"))
    await nodes.remember.ainvoke(said, run_of("app/bob", "t2"))
    asked = {"messages": [("user", "Where do I live?")]}
    found = (await graph.ainvoke(asked, run_of("app/bob", "t3")))["memory"]
    assert "Lisbon" in found
    assert "t2/" in found
    assert (await graph.ainvoke(asked, run_of("app/eve")))["memory"] == ""
    assert [len(await forest.user("app/bob").turns(name)) for name in ("t1", "t2", "t3")] == [2, 2, 2]
    [search, timeline] = nodes.tools()
    then = await search.ainvoke({"query": "Where does bob live?", "as_of": "2023-02-01"}, run_of("app/bob"))
    assert "Porto" in then
    assert "Lisbon" not in then
    assert "2023-06-08" in await asyncio.to_thread(timeline.invoke, {"entity": "bob"}, run_of("app/bob"))


def test_a_graph_may_block(tmp_path: Any) -> None:
    """The blocking calls of a graph do the same, over a blocking forest."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        graph, _ = graph_of(forest, strict=True)  # type: ignore[arg-type]
        graph.invoke({"messages": [("user", "I live in Porto.")]}, run_of("bob"))
        assert "Porto" in graph.invoke({"messages": [("user", "Where do I live?")]}, run_of("bob"))["memory"]


async def test_a_run_without_user_or_thread_is_an_error(forest: AsyncMemForest) -> None:
    """There is no shared user and no shared thread."""
    graph, _ = graph_of(forest)
    for wrong in ({"thread_id": "t1"}, {"user_id": "bob"}, {"user_id": " ", "thread_id": "t1"}):
        with pytest.raises(InputError):
            await graph.ainvoke({"messages": [("user", "Hello.")]}, {"configurable": wrong})


async def test_a_damaged_memory_does_not_end_a_run(forest: AsyncMemForest) -> None:
    """The graph answers without memory; it counts."""
    graph, nodes = graph_of(forest)
    await graph.ainvoke({"messages": [("user", "I live in Porto.")]}, run_of("bob"))
    await forest.close()
    for path in forest.directory.glob("*.db"):
        path.write_bytes(b"no database " * 999)
    out = await graph.ainvoke({"messages": [("user", "Where do I live?")]}, run_of("bob"))
    assert out["memory"] == ""
    assert nodes.bridge.failures == 2


async def test_calls_of_tools_are_nobodys_statements(forest: AsyncMemForest) -> None:
    """A tool that says where somebody lives tells nothing of the user."""
    _, nodes = graph_of(forest, strict=True)
    call = {"name": "lookup", "args": {"q": "I live in Rome."}, "id": "c1"}
    said = [AIMessage("", tool_calls=[call]), ToolMessage("I live in Rome.", tool_call_id="c1")]
    await nodes.remember.ainvoke({"messages": said}, run_of("bob"))
    assert [turn.role for turn in await forest.user("bob").turns("t1")] == ["tool", "tool"]
    assert (await forest.user("bob").list()).total == 0


async def test_a_store_of_a_compiled_graph(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """A graph with our store puts, and finds with facts, times and sources, as of any time."""
    store = MemForestStore(forest)

    async def model(state: MemoryState, *, store: BaseStore) -> dict[str, Any]:
        await store.aput(
            ("bob", "said"), f"m{len(state['messages'])}", {"text": state["messages"][-1].content}
        )
        return {"messages": [AIMessage("Noted.")]}

    builder = StateGraph(MemoryState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    graph = builder.compile(store=store)
    before = await graph.ainvoke({"messages": [("user", "I live in Porto.")]})
    clock.advance(days=150)
    await graph.ainvoke({"messages": [*before["messages"], ("user", "I moved to Lisbon.")]})
    now = await store.asearch(
        ("bob",), query="Where does bob live?", filter={"memforest": {"evidence": True}}
    )
    assert now[0].value["text"] == "I moved to Lisbon."
    assert now[0].value["memforest"][0]["fact_id"]
    assert now[0].value["memforest"][0]["sources"]
    then = await store.asearch(
        ("bob",), query="Where does bob live?", filter={"memforest": {"as_of": "2023-02-01"}}
    )
    assert [one.value["text"] for one in then] == ["I live in Porto."]


async def test_a_store_keeps_what_was_so(forest: AsyncMemForest, clock: FrozenClock) -> None:
    """A key that is put again has its older value as of then, with and without a query, and the newest one else."""
    store = MemForestStore(forest)
    for text in ("My favourite colour is red.", "My favourite colour is blue."):
        await store.aput(("bob",), "colour", {"text": text})
        clock.advance(days=100)
    ways: list[tuple[dict[str, Any] | None, str]] = [(None, "blue"), ({}, "blue"), ({"as_of": "2023-02-01"}, "red"), ({"known_at": "2023-02-01"}, "red"),
        ({"said_by": "2023-02-01"}, "red"), ({"during": ("2023-01-01", "2023-02-01")}, "red"), ({"as_of": "2023-05-01"}, "blue")]  # fmt: skip
    for asked, colour in ways:
        how: Any = {"filter": {"memforest": asked} if asked is not None else None}
        [item] = await store.asearch(("bob",), query="Which colour?", **how)
        assert colour in item.value["text"], asked
        [item] = await store.asearch(("bob",), **how)
        assert colour in item.value["text"], asked
    assert await store.asearch(("bob",), filter={"memforest": {"as_of": "2022-01-01"}}) == []
    item = await store.aget(("bob",), "colour")
    item.value["text"] = "changed by a caller"
    assert "blue" in (await store.aget(("bob",), "colour")).value["text"]
    await store.adelete(("bob",), "colour")
    assert (await forest.user("bob").verify(deleted=["colour is red", "colour is blue"])).ok


@pytest.mark.parametrize(
    "key", ["a.b", "a/b", "../x", "'; DROP TABLE turn; --", '"', "\0", "ключ", "x" * 3000, " "]
)
async def test_any_key_is_a_key(forest: AsyncMemForest, key: str) -> None:
    """Dots, slashes, quotes, NUL, SQL and long keys come back, each as itself."""
    store = MemForestStore(forest)
    await store.aput(("bob", "日本"), key, {"v": key})
    await store.aput(("bob", "日本"), "other", {"v": 1})
    found = await store.aget(("bob", "日本"), key)
    assert (found.key, found.value) == (key, {"v": key})
    await store.adelete(("bob", "日本"), key)
    assert [one.key for one in await store.asearch(("bob",))] == ["other"]


async def test_bad_input_of_the_store(forest: AsyncMemForest) -> None:
    """What cannot be a user, a value or an operator is an error of the framework's kind; nothing is written."""
    store = MemForestStore(forest)
    for namespace in ((), ("",), ("a.b",), (" ",), ("x" * 2000,), ("langgraph",)):
        with pytest.raises(InvalidNamespaceError):
            await store.aput(namespace, "k", {"a": 1})
    for value in ({"a": object()}, {"a": float("nan")}, {"a": {1: 2}}):
        with pytest.raises(ValueError, match="JSON"):
            await store.aput(("bob",), "k", value)
    await store.aput(("bob",), "fine", {"a": 1})
    with pytest.raises(ValueError, match="operator"):
        await store.asearch(("bob",), filter={"a": {"$like": "%"}})
    assert await store.asearch(("bob",), query="  ", filter={"a') OR 1=1 --": 1}) == []
    with pytest.raises(NotImplementedError):
        await store.aput(("bob",), "k", {"a": 1}, ttl=5)
    assert [one.key for one in await store.asearch(())] == ["fine"]
    await forest.close()
    assert (await store.aget(("bob",), "fine")).value == {"a": 1}  # a closed forest opens again
    await forest.close()
    for path in forest.directory.glob("*.db"):
        path.write_bytes(b"no database " * 999)
    with pytest.raises(StoreError):
        await store.aget(("bob",), "fine")


async def test_long_values_many_operations_and_users_apart(forest: AsyncMemForest) -> None:
    """A value of 100,000 characters, and 1,000 operations of two users in one batch, of which the last on an item wins."""
    store = MemForestStore(forest)
    long = {"text": "word " * 20_000}
    await store.aput(("eve",), "long", long, index=False)
    assert (await store.aget(("eve",), "long")).value == long
    ops = [PutOp((user, "n"), str(n % 50), {"n": n}, False) for n in range(500) for user in ("bob", "eve")]
    await store.abatch(ops)
    for user in ("bob", "eve"):
        found = await store.asearch((user, "n"), limit=100)
        assert sorted(one.value["n"] for one in found) == list(range(450, 500))
        assert {one.namespace for one in found} == {(user, "n")}


async def test_cancelled_in_the_middle_and_two_loops(forest: AsyncMemForest) -> None:
    """A cancelled batch leaves whole items; another loop in another thread writes to the same store meanwhile."""
    store = MemForestStore(forest)
    batch = asyncio.create_task(store.abatch([PutOp(("bob",), str(n), {"n": n}, False) for n in range(600)]))
    other = asyncio.create_task(asyncio.to_thread(store.put, ("eve",), "k", {"n": -1}, False))
    await asyncio.sleep(0.2)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    await other
    kept = await store.asearch(("bob",), limit=1000)
    assert [one.value["n"] for one in kept] == list(range(len(kept)))
    assert (await store.aget(("eve",), "k")).value == {"n": -1}
    assert (await forest.user("eve").verify()).ok


NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b", "a")])
KEYS = st.sampled_from(["k", "k2", "a/b"])
VALUES = st.dictionaries(
    st.sampled_from(["n", "s", "in"]),
    st.one_of(st.integers(-3, 3), st.sampled_from(["1", "x"]), st.just({"n": 1}), st.just([1, "x"])),
    max_size=3,
)
FILTERS = st.one_of(
    st.none(),
    VALUES,
    st.builds(lambda op, n: {"n": {op: n}}, st.sampled_from(["$eq", "$ne"]), st.integers(-3, 3)),
)


class StoreMachine(RuleBasedStateMachine):
    """Ours and LangGraph's own store get the same operations, and answer alike."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.forest = MemForest(self.folder.name, Config(embedder=HashEmbedder()))
        self.ours, self.theirs = MemForestStore(self.forest), InMemoryStore()

    def teardown(self) -> None:
        """Close."""
        self.forest.close()
        self.folder.cleanup()

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES, index=st.sampled_from([None, False, ["n", "s"]]))
    def put(self, namespace: Any, key: str, value: Any, index: Any) -> None:
        """Write an item."""
        for store in (self.ours, self.theirs):
            store.put(namespace, key, value, index)

    @rule(ops=st.lists(st.tuples(NAMESPACES, KEYS, st.one_of(st.none(), VALUES)), max_size=6))
    def batch(self, ops: Any) -> None:
        """Write and delete several at once."""
        for store in (self.ours, self.theirs):
            store.batch([PutOp(*one) for one in ops])

    @rule(namespace=NAMESPACES, key=KEYS)
    def delete(self, namespace: Any, key: str) -> None:
        """Delete an item, there or not."""
        for store in (self.ours, self.theirs):
            store.delete(namespace, key)

    @rule(namespace=NAMESPACES, key=KEYS)
    def get(self, namespace: Any, key: str) -> None:
        """Read an item."""
        one, other = self.ours.get(namespace, key), self.theirs.get(namespace, key)
        assert (one and (one.key, one.namespace, one.value)) == (
            other and (other.key, other.namespace, other.value)
        )

    @rule(prefix=st.one_of(st.just(()), NAMESPACES), asked=FILTERS, query=st.sampled_from([None, "x"]))
    def search(self, prefix: Any, asked: Any, query: Any) -> None:
        """Read all items below a prefix."""
        found = [
            sorted(
                (one.namespace, one.key, json.dumps(one.value))
                for one in store.search(prefix, query=query, filter=asked, limit=99)
            )
            for store in (self.ours, self.theirs)
        ]
        assert found[0] == found[1]

    @rule(offset=st.integers(0, 3), limit=st.integers(0, 3))
    def page(self, offset: int, limit: int) -> None:
        """Read a page of one namespace, in the order the items were made in."""
        pages = [
            [one.key for one in store.search(("ab",), offset=offset, limit=limit)]
            for store in (self.ours, self.theirs)
        ]
        assert pages[0] == pages[1]

    @rule(
        prefix=st.sampled_from([None, ("a",), ("*", "b"), ("a", "*")]),
        suffix=st.sampled_from([None, ("b",), ("*", "c")]),
        depth=st.sampled_from([None, 1, 2]),
    )
    def namespaces(self, prefix: Any, suffix: Any, depth: Any) -> None:
        """List namespaces; theirs keeps empty ones, which are left out."""
        for empty in [name for name, held in self.theirs._data.items() if not held]:
            del self.theirs._data[empty]
        ours = self.ours.list_namespaces(prefix=prefix, suffix=suffix, max_depth=depth)
        theirs = self.theirs.list_namespaces(prefix=prefix, suffix=suffix, max_depth=depth)
        assert ours == theirs


TestStoreMachine = StoreMachine.TestCase
