"""The commands of docs/guide and the programs of examples/ run as they stand, and messages that are told are those of the package."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest.cli.app import main

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STAYS = {"serve", "mcp", "inspect", "demo"}
"""Commands that run until they are ended, or that have tests of their own."""


def _commands(body: str) -> list[list[str]]:
    """Return the commands of memforest in a block of a shell, without those that stay."""
    lines = (shlex.split(line, comments=True) for line in body.replace("\\\n", " ").splitlines())
    return [words[1:] for words in lines if words[:1] == ["memforest"] and not STAYS & {*words}]


WITH_COMMANDS = [
    page
    for page in GUIDES
    if any(kind == "console" and _commands(body) for kind, body in FENCE.findall(page.read_text("utf-8")))
]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_guide_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ends with 0, on what the Python blocks and the commands before it have made."""
    monkeypatch.chdir(tmp_path)
    for kind, body in FENCE.findall(page.read_text("utf-8")):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(body, str(page), "exec"), {"__name__": "__main__"})
        for command in _commands(body) if kind == "console" else ():
            done = CliRunner().invoke(main, command)
            assert done.exit_code == 0, f"{shlex.join(command)}: {done.output}"


def test_guides_are_short() -> None:
    """At most 1,000 words a page, its code with it; the README at most 120 lines."""
    words = {page.name: len(re.findall(r"\S*\w\S*", page.read_text("utf-8"))) for page in GUIDES}
    assert {name: count for name, count in words.items() if count > 1000} == {}
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_troubleshooting_has_the_messages_of_the_package() -> None:
    """Each message of its tables stands in a string of the code."""
    told = set()
    for file in (ROOT / "src" / "memforest").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                told.add(node.value)
    page = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text("utf-8")
    first = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    messages = [one for cell in first for one in re.findall(r"`([^`]+)`", cell) if " " in one]
    assert len(messages) > 25
    assert [one for one in messages if not any(one in text for text in told)] == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server with keys of all, of Ana and of Bo; the environment by which programs reach it."""
    pytest.importorskip("uvicorn", reason="the extra [server] is not installed")
    folder = str(tmp_path_factory.mktemp("served"))

    def key(name: str, *args: str) -> str:
        done = CliRunner().invoke(main, ["--dir", folder, "--json", "keys", "create", name, *args])
        return str(json.loads(done.stdout)["data"]["key"])

    keys = {
        "KEY": key("laptop", "--scope", "read,write,delete,admin"),
        "ANA_KEY": key("ana", "--user", "ana"),
        "BO_KEY": key("bo", "--user", "bo"),
    }
    command = [sys.executable, "-m", "memforest", "--dir", folder, "--json", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["data"]["url"]
            yield {**os.environ, **keys, "URL": url, "MEMFOREST_URL": url, "NO_PROXY": "127.0.0.1"}
        finally:
            process.terminate()


def test_the_requests_of_the_guide_are_answered(server: dict[str, str]) -> None:
    """By 200 and with what the page says is there; the address and the key are those of the server."""
    if not (curl := shutil.which("curl")):
        pytest.skip("curl is not installed")
    page = (ROOT / "docs" / "guide" / "serve.md").read_text("utf-8")
    [block] = [body for kind, body in FENCE.findall(page) if kind == "sh" and "curl" in body]
    calls = [shlex.split(line) for line in block.replace("\\\n", " ").splitlines() if line.startswith("curl")]
    assert len(calls) == 5
    for _, *words in calls:
        filled = [re.sub(r"\$(\w+)", lambda found: server[found[1]], word) for word in words]
        done = subprocess.run([curl, "--fail-with-body", *filled], env=server, capture_output=True, text=True)
        assert done.returncode == 0, (filled[:4], done.stdout)
        assert done.stdout.strip() in page or "/context" not in filled[5]
        assert "Miami" in done.stdout or "/messages" in filled[5]


EXAMPLES = {
    "agent_loop": "I'm allergic to peanuts.",
    "chat_history_import": "chatgpt, 1 sessions, 5 turns",
    "corrections": "timeline:  Davis until 2024-06-01",
    "time_travel": "known on 15 June 2024:     I live in Davis.",
    "two_users_server": "Bo asks for Ana: 404",
    "statements_from_your_model": "Leeds until 2024-05-06",
}
"""Program of examples/ -> what it prints, among other things."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each by itself, in an empty directory, and prints what it is about."""
    env = request.getfixturevalue("server") if name == "two_users_server" else dict(os.environ)
    args = [str(ROOT / "tests_long" / "data" / "imports" / "chatgpt.json")] if "import" in name else []
    said = "I'm allergic to peanuts.\nThanks!\nWhat am I allergic to?\n"
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *args],
        cwd=tmp_path,
        env=env,
        input=said,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert EXAMPLES[name] in done.stdout


def test_examples_are_short_and_all_tested() -> None:
    """Six programs of at most 40 lines."""
    programs = {
        file.stem: len(file.read_text("utf-8").splitlines())
        for file in (ROOT / "examples").glob("*.py")
        if file.stem not in ("__init__", "eval_systems")  # which `memforest eval` imports
    }
    assert programs.keys() == EXAMPLES.keys()
    assert max(programs.values()) <= 40
