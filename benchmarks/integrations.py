"""What the adapters of agent frameworks cost beside what they stand on: ratios within one run.

    .integrations/first-newest/bin/python benchmarks/integrations.py [--items 10000] [--questions 60] [--rounds 40]

*search*: questions that the memory was asked before, by `forest.query` and by adapters in turn, in a drawn order.

*store*: LangGraph's store of ours and its own `SqliteStore`, without vectors, filled with the same items that nobody searches by their
words (`index=False`), then the same calls on both in turn. Where Python's SQLite loads no extensions theirs has no vectors, and a query
of it looks at nothing.

*turn*: a turn of an agent with a scripted model, with and without a memory that keeps what is said and recalls nothing, and that write
by itself.

*hook*: the process of a hook that recalls for a prompt, with a running server, beside a Python that does nothing.

It needs the frameworks; `make integrations` makes their environment, and hooks need memforest[server] there. The embedder is the tests' word-overlap one, which costs nothing:
a real one makes every ratio nearer to 1. Medians of wall time and of CPU: where other programs run, only the second means anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from memforest import AsyncMemForest, Config, MemForest, __version__
from scaling.tables import table
from served.processes import serving
from synthetic.chat import Chat

USER, SEED = "Ana", 7
Way = Callable[[int], Awaitable[object]]
Row = dict[str, object]
Found = dict[str, tuple[float, float]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=40)
    return parser.parse_args()


def cpu() -> float:
    """Return the seconds of CPU that this process and those that it has waited for have used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


async def in_turn(ways: Mapping[str, Way], rounds: int) -> Found:
    """Return the median milliseconds of each way, and of CPU; they take turns in an order drawn anew for each round."""
    rng, took = random.Random(SEED), {name: list[tuple[float, float]]() for name in ways}
    for number in range(-3, rounds):
        for name in rng.sample(list(ways), len(ways)):
            began = time.perf_counter(), cpu()
            await ways[name](number % rounds)
            if number >= 0:
                took[name].append(((time.perf_counter() - began[0]) * 1e3, (cpu() - began[1]) * 1e3))
    return {
        name: (statistics.median(one[0] for one in each), statistics.median(one[1] for one in each))
        for name, each in took.items()
    }


def ratios(part: str, found: Found, base: str, target: str) -> list[Row]:
    """Return a row for each way but the base."""
    return [
        {
            **{"part": part, "what": name, "ms": ms, "of CPU": used},
            **{"beside": f"{base}: {found[base][0]:.3g}, CPU {found[base][1]:.3g}"},
            **{"ratio": ms / found[base][0], "of CPU ": used / found[base][1], "target": target},
        }
        for name, (ms, used) in found.items()
        if name != base
    ]


async def searches(forest: AsyncMemForest, questions: list[str]) -> list[Row]:
    """Measure searches by adapters beside `query`."""
    from langchain_core.messages import HumanMessage

    from memforest.integrations.langchain import MemForestRetriever
    from memforest.integrations.langgraph import MemForestNodes

    retriever, nodes = (
        MemForestRetriever(forest=forest, user=USER, k=10),
        MemForestNodes(forest, recall={"top_k": 10}),
    )
    config: Any = {"configurable": {"thread_id": "t", "user_id": USER}}
    for question in questions:
        await forest.query(USER, question, top_k=10)

    async def told(at: int) -> object:
        return (await forest.query(USER, questions[at], top_k=10)).context(2000)

    ways: dict[str, Way] = {
        "query": lambda at: forest.query(USER, questions[at], top_k=10),
        "LangChain retriever": lambda at: retriever.ainvoke(questions[at]),
        "LangGraph node": lambda at: nodes.recall.ainvoke(
            {"messages": [HumanMessage(questions[at])]}, config
        ),
    }
    found = await in_turn({**ways, "query and context": told}, len(questions))
    pairs = {"query": "LangChain retriever", "query and context": "LangGraph node"}
    return [
        row
        for base, name in pairs.items()
        for row in ratios("search", {one: found[one] for one in (base, name)}, base, "1.2")
    ]


async def stores(folder: Path, items: int, rounds: int) -> list[Row]:
    """Measure LangGraph's store of ours beside its own."""
    from langgraph.store.base import PutOp
    from langgraph.store.sqlite import SqliteStore

    from memforest.integrations.langgraph_store import MemForestStore

    rows: list[Row] = []
    own = Config(embedder="hash-words-1@256")
    with (
        MemForest(folder / "store", own) as forest,
        SqliteStore.from_conn_string(str(folder / "theirs.db")) as theirs,
    ):
        theirs.setup()
        ours, place = MemForestStore(forest), ("bob", "notes")
        for store in (theirs, ours):
            for first in range(0, items, 1000):
                last = min(items, first + 1000)
                store.batch(
                    [PutOp(place, str(n), {"n": n, "text": f"Note {n}."}, False) for n in range(first, last)]
                )
        calls: dict[str, tuple[str, Callable[[Any, int], object]]] = {
            "put": ("2", lambda store, at: store.put(place, f"new {at}", {"n": at}, False)),
            "get": ("2", lambda store, at: store.get(place, str(at))),
            "page of a namespace": ("1", lambda store, at: store.search(place, offset=at, limit=10)),
            "search with a filter": ("1", lambda store, at: store.search(place, filter={"n": at}, limit=10)),
        }
        for name, (target, call) in calls.items():
            ways = {
                which: lambda at, call=call, store=store: asyncio.to_thread(call, store, at)
                for which, store in (("SqliteStore", theirs), (f"LangGraph store: {name}", ours))
            }
            rows += ratios(f"store, {items:,} items", await in_turn(ways, rounds), "SqliteStore", target)
    return rows


async def turns(folder: Path, rounds: int) -> list[Row]:
    """Measure the turn of an agent with and without a memory that recalls nothing."""
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from memforest.integrations.adapter import Bridge
    from memforest.integrations.pydantic_ai import MemForestMemory

    class Keeping(MemForestMemory):
        """Recalls nothing."""

        def get_instructions(self) -> Any:
            """Return none."""

    async with AsyncMemForest(folder / "turn", Config(embedder="hash-words-1@256")) as forest:
        memory = Keeping(forest, user="bob")
        model = TestModel(call_tools=[], custom_output_text="Noted.")
        bare, kept, bridge = Agent(model), Agent(model, capabilities=[memory]), Bridge(forest)
        said = [{"role": "user", "content": "I like tree."}, {"role": "assistant", "content": "Noted."}]
        ways: dict[str, Way] = {
            "without": lambda at: bare.run(f"I like tree {at}."),
            "with": lambda at: kept.run(f"I like tree {at}.", conversation_id=f"t{time.monotonic_ns()}"),
            "write alone": lambda at: bridge.remember("bob", f"w{time.monotonic_ns()}", said),
        }
        found = await in_turn(ways, rounds)
    over, used = (found["with"][at] - found["without"][at] - found["write alone"][at] for at in (0, 1))
    rows = ratios("turn of pydantic-ai", found, "without", "")
    return [
        *rows,
        {**dict.fromkeys(rows[0], ""), "what": "beyond both", "ms": over, "of CPU": used, "target": "5 ms"},
    ]


async def hooks(directory: Path, rounds: int) -> list[Row]:
    """Measure the processes of hooks beside one that does nothing."""
    sent = json.dumps({"session_id": "s", "prompt": "Where does Ana live?"}).encode()
    with serving(directory, MEMFOREST_EMBEDDER="hash-words-1@256") as server:
        options = ["--dir", str(directory), "--user", USER]
        address = ["--server", f"http://{server.host}:{server.port}"]
        lines = {
            "python -c pass": ["-c", "pass"],
            "plugin's hook": ["-m", "memforest.integrations.claude_code", "prompt", *options, *address],
            "memforest hook": ["-m", "memforest", *options, "hook", "prompt", *address],
        }

        def way(line: list[str]) -> Way:
            call = partial(
                subprocess.run, [sys.executable, *line], input=sent, capture_output=True, check=True
            )
            return lambda _at: asyncio.to_thread(call)

        ways = {name: way(line) for name, line in lines.items()}
        found = await in_turn(ways, rounds)
    return ratios("hook with a server", found, "python -c pass", "150 ms")


async def main() -> None:
    """Measure all parts, and print the table."""
    options, chat = _options(), Chat(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with AsyncMemForest(folder / "talk", Config(embedder="hash-words-1@256")) as forest:
            for number in range(options.sessions):
                await forest.ingest_session(USER, *chat.session(number))
            rows = await searches(forest, list(chat.questions(options.questions)))
        rows += await stores(folder, options.items, options.rounds)
        rows += await turns(folder, options.rounds)
        rows += await hooks(folder / "talk", options.rounds)
    title = f"memforest {__version__}, seed {SEED}, {options.questions} questions, {options.rounds} rounds"
    print(table(title, rows))


if __name__ == "__main__":
    asyncio.run(main())
