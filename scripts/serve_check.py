"""`make serve-check`: does the real server keep to its OpenAPI document, for clients that were made from it?

Starts ``memforest serve`` on a free port with a key, and holds it to its document:

1. schemathesis sends at least 50 examples an operation, from a fixed seed, with all of its checks;
2. a client that openapi-python-client generates runs the quick start of docs/serving.md.

Neither is installed beside memforest: `--tools` names the environment that has them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
EXAMPLES = 50
SEED = 16
START_S = 60
END_S = 30
SCOPES = "read,write,delete,admin"

SAID = {
    "2024-05-01": [
        {"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01T10:00:00Z"},
        {"role": "assistant", "content": "Nice.", "timestamp": "2024-05-01T10:00:05Z"},
        {"role": "user", "content": "My cat is called Miso.", "timestamp": "2024-05-01T10:01:00Z"},
    ],
    "2024-05-20": [{"role": "user", "content": "I moved to Miami.", "timestamp": "2024-05-20T09:00:00Z"}],
}


def memforest(*arguments: str) -> list[str]:
    """Return the command line of a command of memforest."""
    return [sys.executable, "-m", "memforest", *arguments]


def make_key(folder: Path) -> str:
    """Make a key that may do everything, and return it."""
    made = subprocess.run(
        memforest("keys", "create", "check", "--scope", SCOPES, "--dir", str(folder), "--json"),
        check=True,
        capture_output=True,
        text=True,
    )
    return str(json.loads(made.stdout)["data"]["key"])


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Give the address of a server that runs, and end it as an operator would."""
    command = memforest(
        "serve", "--dir", str(folder), "--port", "0", "--rate", "none", "--tenant-rate", "none", "--json"
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            if not line:
                raise SystemExit("the server did not start")
            yield str(json.loads(line)["data"]["url"])
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(END_S)


def call(url: str, key: str, method: str = "GET", body: object = None) -> bytes:
    """Return the body of the response to a request."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    with urlopen(Request(url, data, headers, method=method), timeout=START_S) as response:  # noqa: S310 - our own
        return bytes(response.read())


def tell(url: str, key: str) -> None:
    """Let two users have said something, so that requests about them reach memories."""
    for user in ("ana", "bob"):
        for session, turns in SAID.items():
            call(f"{url}/v1/users/{user}/sessions/{session}", key, "PUT", {"turns": turns})


def run_schemathesis(tools: Path, url: str, key: str, examples: int, reports: Path) -> bool:
    """Run schemathesis, and return whether nothing failed."""
    command = [
        str(tools / "schemathesis"),
        "--config-file",
        str(HERE / "serve_check.toml"),
        "run",
        f"{url}/openapi.json",
        "--header",
        f"X-API-Key: {key}",
        "--checks",
        "all",
        "--max-examples",
        str(examples),
        "--seed",
        str(SEED),
        "--no-color",
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "serve_check_hooks", "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, cwd=reports, env={**os.environ, **hooks}, check=False)
    return done.returncode == 0


def run_client(tools: Path, url: str, key: str, folder: Path) -> bool:
    """Generate a client from the document, run the quick start with it, and return whether that went well."""
    document = folder / "openapi.json"
    document.write_bytes(call(f"{url}/openapi.json", key))
    generate = [str(tools / "openapi-python-client"), "generate", "--path", str(document), "--meta", "none"]
    made = subprocess.run(
        [*generate, "--output-path", str(folder / "memforest_client"), "--fail-on-warning"],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"},
        check=False,
        capture_output=True,
        text=True,
    )
    print(made.stdout[-2000:], made.stderr[-2000:])
    if made.returncode != 0:
        return False
    quick_start = [str(tools / "python"), str(HERE / "serve_check_quick_start.py"), url, key]
    return (
        subprocess.run(quick_start, env={**os.environ, "PYTHONPATH": str(folder)}, check=False).returncode
        == 0
    )


def main() -> int:
    """Run both checks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tools", type=Path, required=True, help="bin/ of the environment with the tools")
    parser.add_argument(
        "--examples", type=int, default=EXAMPLES, help="of each operation, at least 50 for the check"
    )
    parser.add_argument("--only", choices=("schemathesis", "client"), help="one of the two checks")
    given = parser.parse_args()
    tools = given.tools.absolute()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        memories = folder / "memories"
        memories.mkdir(mode=0o700)
        key = make_key(memories)
        outcome = {}
        with server(memories) as url:
            tell(url, key)
            if given.only != "schemathesis":
                outcome["generated client"] = run_client(tools, url, key, folder)
            if given.only != "client":
                outcome["schemathesis"] = run_schemathesis(tools, url, key, given.examples, folder)
    for name, passed in outcome.items():
        print(f"serve-check: {name}: {'passed' if passed else 'FAILED'}")
    return 0 if all(outcome.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
