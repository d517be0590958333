"""Adds sessions to mem0 and says what that took; runs in an interpreter that has mem0ai and nothing of memforest.

    python -m venv v && v/bin/pip install mem0ai==2.2.1

It reads a job as a line of stdin, warms up, prints a line, waits for one, does the job and prints what came of it.
The job is an object with ``base_url``, ``dimensions`` (of the endpoint's vectors), ``sessions`` (lists of ``speaker``
and ``text``), ``turns_per_add`` (0: a session is one call of `Memory.add`), ``threads`` and ``gathered``. With one
thread, sessions come one by one; with more, each thread adds a session at a time, which is how mem0's synchronous class
is used for many at once. With ``gathered`` its asynchronous class adds all turns of a session at once, and in a batch
(more than one thread) all sessions at once, in so many threads of its own.

mem0 as it installs itself: its OpenAI provider for the model and for the embedder, its default store (Qdrant, embedded,
on disk), telemetry off, every file in a temporary directory. A session that fails is an error here, not a silence.
The embedded Qdrant is not made for threads (used as it is, it loses memories), so with several its calls are taken one
at a time; model calls, for which a client waits a hundred times longer, stay concurrent.
"""

import asyncio
import importlib
import inspect
import json
import os
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from time import perf_counter
from typing import Any

USER = "reader"


def open_memory(job: dict[str, Any], folder: str, kind: str = "Memory") -> Any:
    """Return a mem0 memory of a class that keeps everything in a folder and asks the endpoint of the job alone."""
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=folder)
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "OPENROUTER_"))]:
        del os.environ[name]
    model = {"model": "double", "api_key": "not-needed", "openai_base_url": job["base_url"]}
    # Imported here, as it reads the environment when it is imported.
    return getattr(importlib.import_module("mem0"), kind).from_config(
        {
            "llm": {"provider": "openai", "config": model},
            "embedder": {"provider": "openai", "config": model},
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": os.path.join(folder, "qdrant"),  # noqa: PTH118 - mem0 wants a string
                    "on_disk": True,
                    "collection_name": "memories",
                    "embedding_model_dims": job["dimensions"],
                },
            },
            "history_db_path": os.path.join(folder, "history.db"),  # noqa: PTH118
        }
    )


class OneAtATime:
    """Lets one thread at a time into an object's methods."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def alone(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                return found(*args, **kwargs)

        return alone


def messages_of(session: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return a session as chat messages: the first speaker is the user, each content begins with its speaker."""
    first = session[0]["speaker"]
    return [
        {
            "role": "user" if turn["speaker"] == first else "assistant",
            "content": f"{turn['speaker']}: {turn['text']}",
        }
        for turn in session
    ]


def add_session(memory: Any, session: list[dict[str, str]], turns_per_add: int) -> list[int]:
    """Add a session, and return how many memories each call reports."""
    messages = messages_of(session)
    size = turns_per_add or len(messages)
    return [
        len(memory.add(messages[first : first + size], user_id=USER)["results"])
        for first in range(0, len(messages), size)
    ]


async def add_gathered(memory: Any, session: list[dict[str, str]], turns_per_add: int) -> list[int]:
    """Add the parts of a session all at once, and return how many memories each call reports."""
    messages = messages_of(session)
    size = turns_per_add or len(messages)
    parts = [messages[first : first + size] for first in range(0, len(messages), size)]
    added = await asyncio.gather(*(memory.add(part, user_id=USER) for part in parts))
    return [len(one["results"]) for one in added]


async def run_gathered(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Do the job with the asynchronous class; its threads are the event loop's."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max(job["threads"], 6)))
    memory = open_memory(job, folder, "AsyncMemory")
    memory = await memory if inspect.isawaitable(memory) else memory
    await memory.add([{"role": "user", "content": "Someone: I have a red kite in Oslo."}], user_id="warm-up")
    memory.vector_store = OneAtATime(memory.vector_store)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    started = perf_counter()
    size = job["turns_per_add"]
    if job["threads"] > 1:
        added = await asyncio.gather(*(add_gathered(memory, one, size) for one in job["sessions"]))
    else:
        added = [await add_gathered(memory, one, size) for one in job["sessions"]]
    wall = perf_counter() - started
    stored = (await memory.get_all(filters={"user_id": USER}, top_k=1_000_000))["results"]
    return told(wall, added, stored)


def told(wall: float, added: list[list[int]], stored: list[Any]) -> dict[str, Any]:
    """Return the result of a job."""
    return {
        "version": version("mem0ai"),
        "wall_s": wall,
        "adds": sum(len(counts) for counts in added),
        "reported": sum(sum(counts) for counts in added),
        "stored": len(stored),
        "examples": [one["memory"] for one in stored[:3]],
    }


def run(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Do the job and return what it took and what is stored."""
    memory = open_memory(job, folder)
    # Connections and lazy imports are nobody's write path.
    memory.add([{"role": "user", "content": "Someone: I have a red kite in Oslo."}], user_id="warm-up")
    memory.vector_store = OneAtATime(memory.vector_store)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    started = perf_counter()
    with ThreadPoolExecutor(max(job["threads"], 1)) as pool:
        added = list(
            pool.map(lambda session: add_session(memory, session, job["turns_per_add"]), job["sessions"])
        )
    wall = perf_counter() - started
    stored = memory.get_all(filters={"user_id": USER}, top_k=1_000_000)["results"]
    return told(wall, added, stored)


def main() -> int:
    """Read the job from stdin and print the result."""
    job = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory(prefix="mem0-") as folder:
        result = asyncio.run(run_gathered(job, folder)) if job["gathered"] else run(job, folder)
    print(json.dumps(result), flush=True)
    # Its vector store complains on the way out of the interpreter.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
