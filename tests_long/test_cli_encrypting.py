"""`memforest key set`, `remove` and `change`: keys come from the environment, a file or the terminal, and are never shown."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_encryption import HEX, OTHER, encrypted

from memforest.cli import main

CHAT = [
    {"role": "user", "content": "I moved to Lisbon.", "timestamp": "2024-01-02T10:00:00Z"},
    {"role": "assistant", "content": "How is it?", "timestamp": "2024-01-02T10:01:00Z"},
]
NEW = OTHER.hex()


class Run:
    """Runs the program on a directory of its own, with variables of the environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, stdin: str | None = None, **variables: str) -> Result:
        """Run it; nothing that it prints shows a key."""
        env = {"MEMFOREST_DIR": str(self.folder), "MEMFOREST_KEY": None, **variables}
        done = CliRunner().invoke(main, args, input=stdin, env=env, catch_exceptions=False)
        assert HEX not in done.output
        assert NEW not in done.output
        return done


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The program on a directory with the unencrypted memory of `me`."""
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    made = Run(tmp_path / "memories")
    assert made("ingest", str(chat), "--embedder", "none").exit_code == 0
    return made


@encrypted
def test_a_directory_is_encrypted_used_rekeyed_and_decrypted(run: Run, tmp_path: Path) -> None:
    """Each command says what it did; the others read the key from MEMFOREST_KEY; keys in files are read too."""
    own, new = tmp_path / "own.key", tmp_path / "new.key"
    own.write_text(HEX + "\n")
    new.write_text(NEW)
    assert "1 file encrypted, in " in run("key", "set", MEMFOREST_KEY=HEX).output
    assert "0 files encrypted, 1 already were" in run("key", "set", "--key-file", str(own)).output
    for command in (
        ("users",),
        ("facts",),
        ("search", "Lisbon"),
        ("maintain", "verify"),
        ("doctor",),
        ("stats",),
    ):
        assert run(*command, MEMFOREST_KEY=HEX).exit_code == 0, command
    assert run("users", MEMFOREST_KEY=HEX).output == "me\n"
    told = run("key", "change", "--key-file", str(own), "--new-key-file", str(new), "--json")
    assert json.loads(told.output)["data"]["done"] == [next(run.folder.glob("*.db")).name]
    assert run("key", "change", MEMFOREST_KEY=NEW, MEMFOREST_NEW_KEY=HEX).exit_code == 0
    assert "1 file decrypted" in run("key", "remove", "-u", "me", MEMFOREST_KEY=HEX).output
    assert run("users").output == "me\n"


@encrypted
def test_without_the_right_key_the_fix_is_named(run: Run) -> None:
    """By `users`, by a command that reads, and by doctor; none of them fails without a word."""
    assert run("key", "set", MEMFOREST_KEY=HEX).exit_code == 0
    for variables, said in (({}, "set MEMFOREST_KEY"), ({"MEMFOREST_KEY": NEW}, "another key")):
        listed = run("users", **variables)
        assert said in listed.stderr
        shown = run("facts", "--user", "me", **variables)
        assert (shown.exit_code, said in shown.stderr) == (1, True)
        looked = run("doctor", **variables)
        assert looked.exit_code == 1
        assert said in " ".join(looked.output.split())
    failed = run("key", "remove", MEMFOREST_KEY=NEW)
    assert failed.exit_code == 1
    assert "for all users but 1" in failed.stderr
    envelope = json.loads(run("key", "remove", "--json", MEMFOREST_KEY=NEW).output)
    assert envelope["status"] == "error"
    assert list(envelope["data"]["files"]) == [next(run.folder.glob("*.db")).name]


@encrypted
def test_doctor_says_whether_it_is_encrypted(run: Run) -> None:
    """And with what."""
    assert "no key is configured" in run("doctor").output
    assert run("key", "set", MEMFOREST_KEY=HEX).exit_code == 0
    assert "SQLCipher 4" in run("doctor", MEMFOREST_KEY=HEX).output


@pytest.mark.parametrize("command", ["set", "remove", "change"])
def test_no_key_is_an_argument(command: str) -> None:
    """What is typed on the command line can be read by others: the options name files alone."""
    group = main.get_command(click.Context(main), "key")
    assert isinstance(group, click.Group)
    shown = group.commands[command]
    options = [one for one in shown.params if isinstance(one, click.Option) and "key" in str(one.name)]
    assert options
    assert all(isinstance(one.type, click.Path) for one in options)
    assert not [one for one in shown.params if isinstance(one, click.Argument)]


def test_a_key_that_is_missing_or_wrong_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    """Nothing waits for a person where there is none."""
    short = tmp_path / "short.key"
    short.write_text("secret-words")
    for args, said in (
        (("key", "set"), "set MEMFOREST_KEY or give --key-file"),
        (("key", "set", "--key-file", str(short)), "'short.key' cannot be used: the key is a text"),
    ):
        told = run(*args)
        assert (told.exit_code, said in told.stderr) == (2, True)
        assert "secret-words" not in told.output
    told = run("users", MEMFOREST_KEY="secret-words")
    assert (told.exit_code, "MEMFOREST_KEY: " in told.stderr, "secret-words" in told.output) == (
        1,
        True,
        False,
    )


@encrypted
def test_the_terminal_is_asked_without_showing_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new key twice, so that a slip locks nobody out."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    assert run("key", "set", stdin=f"{HEX}\n").exit_code == 0
    assert run("key", "change", stdin=f"{HEX}\n{NEW}\n{NEW}\n").exit_code == 0
    assert run("users", MEMFOREST_KEY=NEW).output == "me\n"
    assert run("key", "remove", stdin="words\n").exit_code == 2


@encrypted
@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for a shell")
def test_the_commands_of_the_docs_run(run: Run, tmp_path: Path) -> None:
    """docs/encryption.md: encrypted, used, given another key and decrypted, as it stands there."""
    page = (Path(__file__).parent.parent / "docs" / "encryption.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(export.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = f'memforest() {{ "{sys.executable}" -m memforest "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n{block}'
    env = {**os.environ, "MEMFOREST_DIR": str(run.folder)}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = [line.partition(", in ")[0] for line in done.stdout.splitlines()]
    assert said == ["1 file encrypted", "me", "1 file encrypted with the new key", "1 file decrypted"]
    assert run("users").output == "me\n"
