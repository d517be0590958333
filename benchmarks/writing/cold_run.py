"""Writes one session in a new process and prints what that took; started by `writing.ours.run_cold`.

It reads a job as JSON from stdin: ``base_url`` of the double, and ``session``, the arguments of `ingest_session`.
"""

import json
import sys
import tempfile
from time import perf_counter

started = perf_counter()

from memforest import (  # noqa: E402
    ChatEndpoint,
    Config,
    EmbeddingEndpoint,
    MemForest,
)

imported = perf_counter()


def main() -> int:
    """Write the session twice, for two users, and print the seconds."""
    job = json.loads(sys.stdin.read())
    url, seconds = job["base_url"], []
    config = Config(
        chat=ChatEndpoint(model="double", base_url=url),
        embedder=EmbeddingEndpoint(model="double", base_url=url),
    )
    with tempfile.TemporaryDirectory(prefix="cold-") as folder, MemForest(folder, config) as forest:
        for user in ("first", "second"):
            begun = perf_counter()
            forest.ingest_session(**{**job["session"], "user_id": user})
            seconds.append(perf_counter() - begun)
    print(json.dumps({"imports": imported - started, "first": seconds[0], "second": seconds[1]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
