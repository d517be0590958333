"""Do the unmodified clients of mem0 and of OpenAI work with the facades? A part of `make serve-check`.

Runs the quick start of `mem0ai` (the blocking and the asynchronous client) and the search of `openai` against a real
server, and prints a table:

    python scripts/serve_check_clients.py                      # starts a server, and ends it
    python scripts/serve_check_clients.py --tools BIN  # of an environment with the clients; memforest need not be there
    python scripts/serve_check_clients.py --url URL --key KEY  # a server that runs; nothing of memforest is imported

A client that is not installed fails the check, unless `--skip-missing` is given.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

END_S = 30
SCOPES = "read,write,delete,admin"
Steps = list[tuple[str, Callable[[], str]]]

MESSAGES = [
    {"role": "user", "content": "I live in Lisbon, and my cat is called Miso."},
    {"role": "assistant", "content": "A fine name for a cat."},
]


class Mem0:
    """What `mem0ai` is asked to do; each step says what came of it, or raises."""

    STEPS = (
        *("add", "search", "get_all", "update", "history", "batch", "users", "delete"),
        *("refused", "unmapped", "delete_all", "awaited"),
    )

    def __init__(self, url: str, key: str) -> None:
        from mem0 import MemoryClient  # type: ignore[import-not-found, unused-ignore]
        from mem0.client import types  # type: ignore[import-not-found, unused-ignore]

        self.key, self.host, self.types = key, f"{url}/compat/mem0", types
        self.user, self.other = f"check-{uuid4().hex}", f"check/{uuid4().hex}"
        self.mine: dict[str, Any] = {"user_id": self.user}
        self.client = MemoryClient(api_key=key, host=self.host)
        self.id = ""

    def add(self) -> str:
        """Add a conversation, and a text with typed options."""
        whose = {"user_id": self.user, "run_id": "r1"}
        done = self.client.add(MESSAGES, **whose, metadata={"n": 1}, timestamp=1714521600)
        self.id = done["results"][0]["id"]
        typed = self.types.AddMemoryOptions(filters={**whose, "run_id": "r2"}, infer=False)
        self.client.add("The bicycle is red.", typed)
        return _same(done["status"], "SUCCEEDED")

    def search(self) -> str:
        """Search by a question, and by a filter and a day."""
        found = self.client.search("Where do I live?", filters=self.mine, top_k=3)["results"]
        _same(found[0]["created_at"][:10], "2024-05-01")
        wanted = {"AND": [self.mine, {"run_id": "r2"}]}
        typed = self.types.SearchMemoryOptions(filters=wanted, reference_date="2024-05-02")
        [only] = self.client.search("What colour is the bicycle?", typed)["results"]
        _same(only["run_id"], "r2")
        return _has(found[0]["memory"], "Lisbon")

    def get_all(self) -> str:
        """List page by page, and by metadata."""
        pages = [self.client.get_all(filters=self.mine, page=number, page_size=1) for number in (1, 2)]
        _same(len({one["id"] for page in pages for one in page["results"]}), 2)
        wanted = {**self.mine, "metadata": {"n": {"gte": 1}}}
        _same(len(self.client.get_all(filters=wanted)["results"]), 1)
        return _same(pages[0]["count"], 2)

    def update(self) -> str:
        """Correct, and read it back."""
        self.client.update(self.id, text="The user lives in Porto.")
        return _same(self.client.get(self.id)["memory"], "The user lives in Porto.")

    def history(self) -> str:
        """See the correction."""
        return _same([one["event"] for one in self.client.history(self.id)], ["ADD", "UPDATE"])

    def batch(self) -> str:
        """Correct in a batch."""
        self.client.batch_update([{"memory_id": self.id, "text": "The user lives in Faro."}])
        return _same(self.client.get(self.id)["memory"], "The user lives in Faro.")

    def users(self) -> str:
        """List users, and delete one."""
        self.client.add("I love pizza.", user_id=self.other)
        names = {one["name"] for one in self.client.users()["results"]}
        _same({self.user, self.other} <= names, True)
        self.client.delete_users(user_id=self.other)
        return _same(self.client.get_all(filters={"user_id": self.other})["count"], 0)

    def delete(self) -> str:
        """Delete one memory."""
        self.client.delete(self.id)
        return _raises("NotFound", lambda: self.client.get(self.id))

    def refused(self) -> str:
        """Fail to delete everything."""
        empty = self.types.DeleteAllMemoryOptions(filters={})
        _raises("without a filter", lambda: self.client.delete_all(empty))
        return _raises("without a filter", self.client.delete_all)

    def unmapped(self) -> str:
        """Be told of what is not mapped."""
        client = self.client
        calls: list[Callable[[], Any]] = [
            lambda: client.create_memory_export("{}", filters=self.mine),
            lambda: client.get_summary(self.mine),
            lambda: client.get_webhooks("p"),
            lambda: client.feedback(self.id, "POSITIVE"),
            lambda: client.get_profile(self.user),
            lambda: client.project.get(),
        ]
        return "; ".join(_raises("no counterpart", call) for call in calls)

    def delete_all(self) -> str:
        """Delete a run, and the user."""
        self.client.delete_all(self.types.DeleteAllMemoryOptions(filters={**self.mine, "run_id": "r1"}))
        self.client.delete_all(user_id=self.user)
        return _same(self.client.get_all(filters=self.mine)["count"], 0)

    def awaited(self) -> str:
        """Do the like with the asynchronous client."""
        from mem0 import AsyncMemoryClient

        async def run() -> str:
            client = AsyncMemoryClient(api_key=self.key, host=self.host)
            await client.add(MESSAGES, user_id=self.other)
            found = await client.search("Where do I live?", filters={"user_id": self.other})
            await client.batch_delete([{"memory_id": found["results"][0]["id"]}])
            await client.delete_all(user_id=self.other)
            await client.async_client.aclose()
            return _has(found["results"][0]["memory"], "Lisbon")

        return asyncio.run(run())


def mem0_steps(url: str, key: str) -> Steps:
    """Return the steps of `mem0ai`, in order."""
    made = Mem0(url, key)
    return [(f"mem0ai {name}", getattr(made, name)) for name in Mem0.STEPS]


def openai_steps(url: str, key: str) -> Steps:
    """Return what `openai` is asked to do; the memory is made by mem0's facade, without its client."""
    import openai
    from openai import OpenAI

    user = f"check/{uuid4().hex}"
    client = OpenAI(api_key=key, base_url=f"{url}/compat/openai/v1", max_retries=1)

    def search() -> str:
        OpenAI(api_key=key, base_url=f"{url}/compat/mem0").post(
            "/v3/memories/add/", body={"messages": MESSAGES, "user_id": user}, cast_to=object
        )
        page = client.vector_stores.search(
            user,
            query=["Where do I live?", "What is the cat called?"],
            filters={"type": "ne", "key": "kind", "value": "turn"},
            max_num_results=5,
            ranking_options={"ranker": "auto", "score_threshold": 0.0},
        )
        return _has(page.data[0].content[0].text, "Lisbon")

    def errors() -> str:
        found = client.vector_stores.search(f"{user}-nobody", query="x")
        if found.data:
            raise AssertionError("a user without a memory has something")
        try:
            client.vector_stores.search(user, query="")
        except openai.BadRequestError as error:
            return _has(str(error), "query")
        except openai.UnprocessableEntityError as error:
            return _has(str(error), "query")
        raise AssertionError("an empty query was answered")

    return [("openai vector_stores.search", search), ("openai errors", errors)]


def _same(found: Any, expected: Any) -> str:
    if found != expected:
        raise AssertionError(f"{found!r}, not {expected!r}")
    return str(found)


def _has(text: str, part: str) -> str:
    if part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")
    return text


def _raises(part: str, call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever class a client has for it
        return _has(f"{type(error).__name__}: {error}", part)
    raise AssertionError(f"nothing was raised; expected {part!r}")


def check(url: str, key: str, *, skip_missing: bool = False) -> int:
    """Run all quick starts against a server, print a table, and return how many steps failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = folder  # its settings; nothing is written into the home directory
        for name, module, made in (("mem0ai", "mem0", mem0_steps), ("openai", "openai", openai_steps)):
            if importlib.util.find_spec(module) is None:
                failed += not skip_missing
                _row("SKIPPED" if skip_missing else "FAILED", name, "the client is not installed")
                continue
            for step, call in made(url, key):
                try:
                    _row("ok", step, call())
                except Exception as error:  # noqa: BLE001 - a failed step is a row of the table
                    failed += 1
                    _row("FAILED", step, f"{type(error).__name__}: {error}")
    return failed


def _row(state: str, step: str, told: str) -> None:
    line = " ".join(told.split())
    print(f"{state:8} {step:28} {line[:100]}", flush=True)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the address of a server of this memforest, and a key that may do everything there."""
    command = [sys.executable, "-m", "memforest"]
    made = subprocess.run(
        [*command, "keys", "create", "check", "--scope", SCOPES, "--dir", str(folder), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    serve = [*command, "serve", "--dir", str(folder), "--port", "0", "--json"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            if not line:
                raise SystemExit("the server did not start")
            yield json.loads(line)["data"]["url"].rstrip("/"), json.loads(made.stdout)["data"]["key"]
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(END_S)


def main(arguments: list[str] | None = None) -> int:
    """Run the check, and return 1 if a step failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--url", help="of a server that runs")
    parser.add_argument(
        "--key", default=os.environ.get("MEMFOREST_CHECK_KEY", "none"), help="for that server"
    )
    parser.add_argument("--tools", type=Path, help="bin/ of the environment with the clients")
    parser.add_argument(
        "--skip-missing", action="store_true", help="pass over clients that are not installed"
    )
    given = parser.parse_args(arguments)
    if given.url is not None:
        return min(1, check(given.url.rstrip("/"), given.key, skip_missing=given.skip_missing))
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as (url, key):
        if given.tools is None:
            return min(1, check(url, key, skip_missing=given.skip_missing))
        again = [str(given.tools.absolute() / "python"), __file__, "--url", url]
        again += ["--skip-missing"] if given.skip_missing else []
        # The key goes by the environment, where no list of processes shows it.
        return subprocess.run(again, check=False, env={**os.environ, "MEMFOREST_CHECK_KEY": key}).returncode


if __name__ == "__main__":
    sys.exit(main())
