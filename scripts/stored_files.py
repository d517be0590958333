"""Make the small stored memories of each committed schema, by the code of its time: `tests_long/data/stored/*.db.gz`.

Run it in a clone with the whole history, with the packages that memforest needs:

    python scripts/stored_files.py

A file that is there already stays as it is, because it stands for what people have. For a new schema add its last commit
to `COMMITS` when the next migration begins. m0003_scale was never committed without m0004_changes, nor
m0009_indexes, as it is, without m0010_jobs.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests_long" / "data" / "stored"

COMMITS = {
    "m0001_initial": "ad065bc",
    "m0002_scenes": "49f6542",
    "m0004_changes": "057996b",
    "m0005_spent": "9204bfb",
    "m0006_integrity": "9e398f8",
    "m0007_compact": "1875e00",
    "m0008_lean": "1a3f712",
    "m0010_jobs": "63c8fc4",
    "m0011_dates": "3dfe0c4",
    "m0012_life": "3466731",
    "m0013_dirty": "f3ee0d6",
    "m0014_graph": "e5d96e7",
}
"""Last migration of a schema -> a commit whose code writes it."""

PROGRAM = """
import sys
from datetime import datetime, timezone
from memforest import Config, MemForest
from memforest.models import HashEmbedder

TALK = {
    "may": ["I moved from Davis to Miami last week.", "Zo\\u00eb works at Acme now.", "I bought a red car yesterday."],
    "june": ["I live in Oslo now.", "Me mud\\u00e9 a Madrid el mes pasado.", "I don't like the car any more.", "\\u6211\\u4f4f\\u5728\\u5317\\u4eac\\u3002"],
    "july": ["Zo\\u00eb and I adopted two cats.", "I work at Globex now. I live in Oslo."],
}
clock = lambda: datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
config = Config(embedder=HashEmbedder(32), clock=clock)
with MemForest(sys.argv[1], config) as forest:
    for month, (name, texts) in enumerate(TALK.items(), 5):
        turns = [
            {"speaker": "Ana" if at % 2 == 0 else "Bob", "content": text, "timestamp": f"2023-{month:02}-03T10:{at:02}:00Z"}
            for at, text in enumerate(texts)
        ]
        forest.ingest_session("u", name, turns)
"""


def code_of(commit: str, folder: Path) -> Path:
    """Write the sources of a commit into a folder, and return where they are."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder)  # noqa: S202 - of this repository
    return folder / "src"


def make(commit: str, target: Path) -> None:
    """Write the memory that a commit's code makes, compressed."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as code:
        environ = os.environ | {"PYTHONPATH": str(code_of(commit, Path(code)))}
        subprocess.run([sys.executable, "-c", PROGRAM, made], env=environ, cwd=made, check=True)
        (path,) = Path(made).glob("*.db")
        target.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


def main() -> None:
    """Make the files that are not there yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for schema, commit in COMMITS.items():
        target = FOLDER / f"{schema}.db.gz"
        if not target.exists():
            make(commit, target)
            print(f"{target.name}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
