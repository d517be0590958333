"""Tests of the commands that serve, before they serve: what they import, and what they say to wrong arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.table import each

from memforest.cli import main
from memforest.server.commands import TOOLS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXTRAS: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
)["project"]["optional-dependencies"]
IMPORTED_AS = {"prometheus-client": "prometheus_client", "pyjwt": "jwt", "python-multipart": "multipart"}
PACKAGES = {
    IMPORTED_AS.get(name, name.replace("-", "_"))
    for one in EXTRAS["server"] + EXTRAS["mcp"]
    if (name := re.split(r"[^\w-]", one, maxsplit=1)[0])
} | {"starlette", "opentelemetry"}


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "d"))
    monkeypatch.delenv("MEMFOREST_USER", raising=False)


def run(*args: str) -> Result:
    """Run the program."""
    return CliRunner().invoke(main, args)


@each(
    "command",
    ["--help", "keys list", "keys create k", "serve --help", "mcp --help", "inspect --help", "users"],
)
def test_what_needs_no_extra_imports_none(command: str) -> None:
    """Help, keys and the commands of the core import nothing that an extra brings, also where it is installed."""
    script = (
        "import sys\nfrom memforest.cli import main\n"
        f"try:\n    main({command.split()!r})\nexcept SystemExit:\n    pass\n"
        "print('loaded', *sorted({one.partition('.')[0] for one in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {"click", "memforest"} <= loaded
    assert loaded & PACKAGES == set()


def test_importing_the_library_imports_no_extra_and_no_room_of_a_server() -> None:
    """`import memforest`, every name of it, and a memory that is used leave them alone."""
    script = (
        "import sys, tempfile, memforest\n[getattr(memforest, one) for one in memforest.__all__]\n"
        "with memforest.MemForest(tempfile.mkdtemp()) as forest: forest.register_user('ana')\n"
        "print(*(one for one in sys.modules if one.startswith('memforest.')), *{one.partition('.')[0] for one in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "memforest.memory" in loaded
    rooms = {f"memforest.{one}" for one in ("access", "intake", "rest", "mcp", "ui", "server")}
    assert loaded & (PACKAGES - {"opentelemetry"} | rooms) == set()


@pytest.mark.parametrize("command", ["keys", "index"])
def test_a_group_without_its_command_says_so_in_one_line(command: str) -> None:
    """Not with its whole help as the text of an error."""
    told = run(command)
    assert (told.exit_code, told.stderr) == (
        2,
        f"Error: Missing command. (see `memforest {command} --help`)\n",
    )


@each(
    ("args", "says"),
    [
        (["--user", "ana"], "memforest keys create NAME --user USER"),
        (["--tools", "all"], "'read', 'default', 'full', 'openai'"),
        (["--port", "65536"], "0<=x<=65535"),
        (["--host", "0.0.0.0"], "make a key first (memforest keys create NAME)"),
        (["--address", "memory.example"], "such as 'https://memory.example'"),
        (["--address", "https://m.example/?a"], "is not an address"),
        (["--rate", "many"], "such as '600/minute'"),
        (["--oidc-issuer", "https://id.example"], "give both"),
        (["extra"], "unexpected extra argument"),
    ],
)
def test_serve_says_in_one_line_what_is_wrong(args: list[str], says: str) -> None:
    """And does not begin to serve."""
    pytest.importorskip("fastapi")
    pytest.importorskip("mcp.server.mcpserver")
    pytest.importorskip("jinja2")
    told = run("serve", "--port", "0", *args)
    assert told.exit_code in (1, 2)
    assert told.stderr.count("\n") == 1
    assert says in told.stderr


@pytest.mark.parametrize(
    ("command", "extra", "module"),
    [("serve", "server", "fastapi"), ("inspect", "server", "uvicorn"), ("mcp", "mcp", "mcp.server")],
)
def test_a_missing_extra_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, command: str, extra: str, module: str
) -> None:
    """One line, whether anything of it is there or nothing."""
    for name in [
        one for one in sys.modules if one.startswith(("memforest.server.serving", "memforest.server.rest"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    told = run(command)
    assert told.stderr == (
        f"Error: memforest {command} needs the extra [{extra}]: pip install 'memforest[{extra}]'\n"
    )


def test_serve_gives_mcp_the_tools_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--tools` names them for `/mcp`; the names are those that MCP has."""
    pytest.importorskip("fastapi")
    pytest.importorskip("jinja2")
    pytest.importorskip("mcp.server.mcpserver")
    from memforest.server import serving
    from memforest.server import serving as app
    from memforest.server.mcp.http import http_app
    from memforest.server.mcp.server import PROFILES

    assert tuple(PROFILES) == TOOLS
    seen: dict[str, Any] = {}

    monkeypatch.setattr(
        app, "http_app", lambda *args, **options: seen.update(options) or http_app(*args, **options)
    )
    monkeypatch.setattr(serving, "run", lambda _app, _settings, listening, _ready: listening.close() or True)
    assert run("serve", "--port", "0", "--tools", "openai").exit_code == 0
    assert seen["tools"] == "openai"
