"""`memforest inspect`: a process that prints an address, which opens once, on this machine alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

sys.path.insert(0, str(Path(__file__).parent.parent))

from click.testing import CliRunner
from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.cli.app import COMMANDS
from memforest.server import commands
from memforest.server.commands import inspect
from memforest.server.serving import listen


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start the command on a directory."""
    environment = {**os.environ, "MEMFOREST_EMBEDDER": "none"}
    return subprocess.Popen(
        [sys.executable, "-m", "memforest", "inspect", "--dir", str(folder), "--json", "--no-open", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_the_printed_address_opens_once_and_ctrl_c_ends_it(folder: Path) -> None:
    """The pages are there behind it; without it there is the login; the process ends with 0 and leaves no trace."""
    with MemForest(folder, fast_config()) as forest:
        forest.register_user("ann")
    process = start(folder)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["data"]["url"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ui/enter\?ticket=[\w-]{43}", url)
        person, other = build_opener(HTTPCookieProcessor()), build_opener(HTTPCookieProcessor())
        with person.open(url, timeout=20) as answer:
            assert "ann" in answer.read().decode()
        with other.open(url, timeout=20) as answer:
            assert answer.url.endswith("/ui/login")
        with pytest.raises(HTTPError, match="404") as missing:
            person.open(url.partition("/enter")[0] + "/session?user=ann&id=none", timeout=20)
        missing.value.close()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def test_a_user_who_is_not_there_is_said_at_once(folder: Path) -> None:
    """In one line, and nothing is served."""
    process = start(folder, "--user", "nobody")
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "nobody" in output + errors
    assert "Traceback" not in errors


def test_a_port_in_use_is_said_with_what_to_do(folder: Path) -> None:
    """In one line, and it ends."""
    with listen("127.0.0.1", 0) as taken:
        process = start(folder, "--port", str(taken.getsockname()[1]))
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 1
        assert "--port 0" in output + errors
        assert "Traceback" not in errors


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.delitem(sys.modules, "memforest.server.serving")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(inspect, [], standalone_mode=False)
    assert "pip install 'memforest[server]'" in str(result.exception)


@pytest.mark.parametrize(
    ("there", "seen"), [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "w"}, True)]
)
def test_a_browser_is_opened_where_there_is_a_screen(
    monkeypatch: pytest.MonkeyPatch, there: dict[str, str], seen: bool
) -> None:
    """A browser of the terminal would take its place."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    assert commands._has_screen() is seen


def test_help_imports_nothing_of_it() -> None:
    """The command is named by its module, which is imported at its use."""
    assert COMMANDS["inspect"][0] == "server.commands"
    code = "import sys, memforest.cli.app; print('starlette' in sys.modules, 'memforest.server.ui' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
