"""`memforest keys`, and the options of commands that serve."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.table import each

from memforest.cli import main
from memforest.errors import ConfigError
from memforest.server.auth import AccessSettings, IssuerSettings
from memforest.server.commands import access_options, read_access
from memforest.server.keys import KeyStore, id_of


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's directory, for every command of a test."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "d"))
    return tmp_path / "d"


def run(*args: str) -> Result:
    """Run the program."""
    return CliRunner().invoke(main, ["keys", *args])


def data(result: Result) -> Any:
    """Return the data of the envelope."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["data"]


def test_a_pipe_gets_the_key_and_nothing_else() -> None:
    """What there is to say about it goes to standard error, without the key."""
    made = run("create", "agent", "--tenant", "acme", "--user", "ann", "--expires", "90d")
    key = made.stdout.removesuffix("\n")
    assert id_of(key)
    assert "For tenant acme, user ann alone: read, write, until 20" in made.stderr
    assert "not shown again" in made.stderr
    assert key not in made.stderr


def test_json_has_the_key_and_what_it_is_for() -> None:
    """All fields, once; a later list has them without the key."""
    made = data(
        run("create", "agent", "--tenant", "acme", "--scope", "read,admin", "--expires", "2w", "--json")
    )
    key = made.pop("key")
    assert id_of(key) == made["id"]
    assert (made["tenant"], made["user"], made["scopes"]) == ("acme", None, ["read", "admin"])
    lives = datetime.fromisoformat(made["expires"]) - datetime.fromisoformat(made["created"])
    assert lives == timedelta(weeks=2)
    listed = run("list", "--json")
    assert data(listed) == {"keys": [{**made, "state": "active"}]}
    assert key[-64:] not in listed.stdout


def test_a_key_is_bound_to_the_user_that_is_named_and_not_to_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A forgotten variable makes no key that sees one user alone."""
    monkeypatch.setenv("MEMFOREST_USER", "somebody")
    assert data(run("create", "one", "--json"))["user"] is None
    assert data(run("create", "two", "--user", "ann", "--json"))["user"] == "ann"


@each(
    ("args", "says"),
    [
        (("create",), "NAME"),
        (("create", "a", "--scope", "read,root"), "unknown scope 'root'"),
        (("create", "a", "--expires", "soon"), "12h, 90d, 4w"),
        (("create", "a", "--tenant", ""), "tenant must be"),
        (("create", "a\x1b[31m"), "printable"),
        (("revoke", "nobody"), "no such key"),
        (("lost",), "No such command"),
    ],
)
def test_wrong_usage_is_one_line(args: tuple[str, ...], says: str) -> None:
    """It says what to write, and stores nothing."""
    result = run(*args)
    assert result.exit_code in (1, 2)
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert run("list").stdout.startswith("There are no keys yet")


def test_a_list_says_what_became_of_each_key(directory: Path) -> None:
    """In the order in which they were made; what others wrote into names is shown as text."""
    run("create", "agent", "--tenant", "../a b", "--user", "\u202eann")
    run("create", "old")
    assert run("revoke", "old").stdout.startswith("Revoked ")
    lines = [line.split("\t") for line in run("list").stdout.splitlines()]
    assert [line[1:3] for line in lines] == [["agent", "active"], ["old", "revoked"]]
    assert lines[0][3] == "../a b"
    assert "\u202e" not in lines[0][4]
    assert lines[0][5:] == ["read,write", "never used"]
    assert [one.name for one in KeyStore(directory).all()] == ["agent", "old"]


def test_a_key_is_revoked_by_its_name_its_id_or_itself() -> None:
    """And once is enough."""
    keys = {name: run("create", name).stdout.strip() for name in ("a", "b", "c")}
    for which in ("a", id_of(keys["b"]), keys["c"], "a"):
        assert data(run("revoke", str(which), "--json"))["revoked"]
    assert {one["state"] for one in data(run("list", "--json"))["keys"]} == {"revoked"}


def test_what_is_erased_is_in_no_file(directory: Path) -> None:
    """Of a user who is deleted the key's row keeps no name, only that there was a key."""
    made = run("create", "for zebediah", "--tenant", "quagga", "--user", "zebediah").stdout.strip()
    assert data(run("revoke", "for zebediah", "--erase", "--json"))["user"] is None
    left = b"".join(path.read_bytes() for path in (directory / "server").iterdir())
    assert b"zebediah" not in left
    assert b"quagga" not in left
    assert [one["id"] for one in data(run("list", "--json"))["keys"]] == [id_of(made)]


def test_keys_need_no_extra() -> None:
    """Where the extra is not installed they are made all the same: nothing of it is imported."""
    script = (
        "import sys\n"
        "for name in ('fastapi', 'limits', 'jwt', 'uvicorn', 'mcp', 'starlette', 'prometheus_client'):\n"
        "    sys.modules[name] = None\n"
        "from memforest.cli import main\n"
        "main(['keys', 'create', 'a'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, bool(id_of(done.stdout.strip()))) == (0, True), done.stderr


def served(*args: str) -> AccessSettings | BaseException:
    """Return the settings that a command reads from its options, or the error that they are."""

    @click.command()
    @access_options
    def command(**given: Any) -> AccessSettings:
        return read_access(given)

    try:
        read: AccessSettings = command.main(list(args), standalone_mode=False)
    except (click.UsageError, ConfigError) as exc:
        return exc
    return read


def test_options_without_a_word_are_the_defaults() -> None:
    """Those of the settings, written down once more for the help."""
    assert served() == AccessSettings()
    issuer = served("--oidc-issuer", "https://id.example", "--oidc-audience", "memforest")
    assert issuer == AccessSettings(issuer=IssuerSettings("https://id.example", "memforest"))


def test_options_are_read() -> None:
    """Each under its name; none takes a limit or a claim away."""
    assert served("--rate", "5/second", "--tenant-rate", "none", "--tenant-ingests", "2") == AccessSettings(
        key_rate="5/second", tenant_rate=None, ingests_per_tenant=2
    )
    read = served(
        *("--oidc-issuer", "https://id.example", "--oidc-audience", "a", "--oidc-tenant-claim", "none"),
        *("--oidc-user-claim", "email", "--oidc-scope-claim", "scp"),
    )
    assert isinstance(read, AccessSettings)
    assert read.issuer == IssuerSettings(
        "https://id.example", "a", tenant_claim=None, user_claim="email", scope_claim="scp"
    )


@each(
    ("args", "says"),
    [
        (("--oidc-issuer", "https://id.example"), "give both"),
        (("--oidc-audience", "a"), "give both"),
        (("--oidc-issuer", "http://id.example", "--oidc-audience", "a"), "https"),
        (("--rate", "fast"), "600/minute"),
        (("--tenant-ingests", "0"), "ingests_per_tenant"),
    ],
)
def test_options_that_cannot_be_are_refused(args: tuple[str, ...], says: str) -> None:
    """With what to write."""
    assert says in str(served(*args))
