"""Digests of what a memory of a real conversation ranks, answers and holds: to tell one version's from another's.

The conversations are evaluation data that may not be shipped, so nothing of their text is kept here: of each list of
evidence only a digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from locomo.conversations import Conversation, read_conversations
from locomo.memories import requests_of
from memforest import Config, MemForest
from memforest.models import HashEmbedder

GOLDENS = Path(__file__).parent / "data" / "rankings.json"
CONVERSATIONS = 2
TOP = 20
EMBEDDERS = ("none", "hash")


def locomo() -> Path | None:
    """Return the file that ``MEMFOREST_LOCOMO`` names, if it is there."""
    path = Path(os.environ.get("MEMFOREST_LOCOMO", ""))
    return path if path.is_file() else None


def conversations(path: Path) -> list[Conversation]:
    """Return the first conversations of a file."""
    return list(read_conversations(path))[:CONVERSATIONS]


def _digest(found: object) -> str:
    return hashlib.sha256(json.dumps(found, ensure_ascii=False).encode()).hexdigest()[:8]


def _counts(file: Path) -> Iterator[tuple[str, int]]:
    with sqlite3.connect(file) as db:
        yield from ((f"{table}s", db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
                    for table in ("turn", "chunk", "fact"))  # fmt: skip
    db.close()


def measured(conversation: Conversation, embedder: str, folder: Path, *, together: bool) -> dict[str, Any]:
    """Return the digests of one conversation: of its lists of evidence, of its answers, and how many rows it makes.

    Args:
        conversation: read from the file.
        embedder: one of `EMBEDDERS`; both give the same numbers on every machine.
        folder: an empty one.
        together: ingest all sessions in one call, else one after the other.
    """
    requests = requests_of(conversation, "u")
    config = Config(embedder=HashEmbedder() if embedder == "hash" else "none")
    with MemForest(folder, config) as forest:
        if together:
            forest.ingest_parallel(requests)
        else:
            for request in requests:
                forest.ingest_session(**request)
        found: dict[str, Any] = {"memforest": [], "flat": [], "ask": []}
        for question in conversation.questions:
            for index in ("memforest", "flat"):
                evidence = forest.query("u", question.text, top_k=TOP, index=index).evidence
                said = [
                    (
                        one.statement or one.text,
                        [(source.session_id, *source.turn_ids) for source in one.sources],
                    )
                    for one in evidence
                ]
                found[index].append(_digest(said))
            answer = forest.ask("u", question.text)
            found["ask"].append(
                _digest([answer.answer, [one.statement or one.text for one in answer.citations]])
            )
    [file] = folder.glob("*.db")
    return {**{name: " ".join(digests) for name, digests in found.items()}, "rows": dict(_counts(file))}


if __name__ == "__main__":  # writes the goldens of the version that is first on the path
    import tempfile

    goldens: dict[str, Any] = {}
    for at, one in enumerate(conversations(Path(sys.argv[1]))):
        for name in EMBEDDERS:
            with tempfile.TemporaryDirectory() as folder:
                goldens[f"{at} {name}"] = measured(one, name, Path(folder), together=at > 0)
    Path(sys.argv[2]).write_text(json.dumps(goldens, indent=1) + "\n", encoding="utf-8")
