"""Is anything left of what was deleted? Deletions of each kind on a LoCoMo file, and what the bytes of all files hold then.

    python benchmarks/deleted_bytes.py FILE [--deletions 200] [--kinds turn session ...] [--insecure] [--indexes memforest ...]

For each kind every conversation becomes one memory, made through the public API with its summaries; then things drawn at
random are deleted, in all memories in turn. A memory of which nothing is left is ingested again. Of kind *user*, each
session is a memory of its own. With `--insecure`, SQLite is told to overwrite nothing (`secure_delete` off), as some
builds do.

The scanner (`deleted/scanner.py`) shares no code with the package. After every tenth deletion of a memory and at the end
it looks in all of the memory's files, log included, in UTF-8 and UTF-16, for what only deleted turns said: words of five letters or more,
and runs of three words. Summaries are stored without compression here, so that it can read them. It decodes the pages of the
lexical index too, and looks for terms that no row has.

- *looked for*: the words and runs. *found*: those that are somewhere; *of the rest*: of those, the ones that a memory
  made of what remains alone has too ("wants", where "I want" remains). *left* is the difference.
- *terms*: terms in the lexical index that no row has.
- *receipts*: layers of receipts that differ from a count of rows before and after, or from the dry run's.
- *reported*: problems that `verify` has found in the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any
from unittest.mock import patch

from deleted import scanner
from locomo.conversations import Conversation, read_conversations
from locomo.memories import requests_of
from memforest import Config, MemForest, UserMemory
from memforest.models import HashEmbedder
from memforest.store import connections, derived
from memforest.store.directory import file_name

KINDS = ("turn", "session", "fact", "entity", "window", "user")
SCAN_EVERY = 10
KEPT = ("dia_id", "speaker", "timestamp")
"""Of a turn that remains, beside its text, which has the caption of an image already."""
COLUMNS = [
    "deletions",
    "turns",
    "cut",
    "facts",
    "looked_for",
    "found",
    "of_the_rest",
    "left",
    "terms",
    "receipts",
    "reported",
    "ms",
]


class Kind:
    """The deletions of one kind in the memories of one directory, and what was found of them."""

    def __init__(self, folder: Path, kind: str, config: Config, seed: int) -> None:
        self.folder, self.kind, self.config = folder, kind, config
        self.random = Random(f"{kind} {seed}")
        self.found: Counter[str] = Counter()
        self.gone: dict[str, list[str]] = {}
        self.spent: list[float] = []

    def path(self, user: str) -> Path:
        """Return the file of a user's memory."""
        return self.folder / file_name(user)

    def target(self, memory: UserMemory) -> dict[str, Any]:
        """Return the arguments of a deletion."""
        random = self.random
        if self.kind == "session":
            return {"session_id": random.choice([one.session_id for one in memory.sessions()])}
        if self.kind == "fact":
            total = memory.stats().facts
            [fact] = memory.list(offset=random.randrange(total), limit=1)
            return {"fact_id": fact.fact_id}
        sql = {
            "entity": "SELECT label, 0 FROM entity ORDER BY id",
            "turn": "SELECT s.session_id, t.turn_id FROM turn t JOIN session s ON s.id = t.session ORDER BY t.id",
            "window": "SELECT said_ms, 0 FROM turn ORDER BY id",
        }[self.kind]
        one, other = random.choice(scanner.rows(self.path(memory.user_id), sql))
        if self.kind == "entity":
            return {"entity": one}
        if self.kind == "turn":
            return {"turn": (one, other)}
        start = scanner.moment(one)
        return {"during": (start, start + timedelta(seconds=random.choice((1, 60, 300, 86_400))))}

    def delete(self, forest: MemForest, user: str) -> None:
        """Delete something of a memory, and compare its receipt with the rows that went."""
        memory, path = forest.user(user), self.path(user)
        said, before = scanner.said(path), scanner.count(path)
        target = {} if self.kind == "user" else self.target(memory)
        verb = memory.delete_all if self.kind == "user" else memory.delete
        expected = verb(**target, dry_run=True)
        started = time.perf_counter()
        receipt = verb(**target)
        self.spent.append((time.perf_counter() - started) * 1000)
        there = path.exists()
        left = Counter(scanner.said(path)) if there else Counter[str]()
        self.gone.setdefault(user, []).extend((Counter(said) - left).elements())
        if there:
            differ = scanner.differences(before, scanner.count(path), receipt.gone)
            self.found["receipts"] += len(differ) + (receipt.counts() != expected.counts())
        else:
            self.found["receipts"] += receipt.counts() != expected.counts()
            self.found["receipts"] += receipt.gone["turns"] != before["turns"]
        self.found["deletions"] += 1
        self.found["turns"] += receipt.gone["turns"]
        self.found["cut"] += receipt.changed.get("turns", 0)
        self.found["facts"] += receipt.gone["facts"]
        assert not receipt.wal_pending

    def scan(self, user: str, again: Sequence[Mapping[str, Any]]) -> int:
        """Look for what was deleted of a memory in its files; return how much was looked for."""
        path = self.path(user)
        there = path.exists()
        wanted = scanner.needles(self.gone.get(user, ()), scanner.said(path) if there else ())
        found = scanner.found_in(scanner.content(self.folder, path.name), wanted)
        if there:
            self.found["terms"] += len(scanner.dead_terms(path))
        if found:
            excused = scanner.found_in(self._of_the_rest(user, again), found)
            self.found["found"] += len(found)
            self.found["of_the_rest"] += len(excused)
            self.found["left"] += len(found - excused)
            for one in sorted(found - excused):
                print(f"left of {self.kind} in {user}: {one!r}", file=sys.stderr)
        return len(wanted)

    def _of_the_rest(self, user: str, again: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the bytes of a memory that was only ever told what remains; without any turn, of one that has none."""
        left = {
            (session_id, turn_id): text
            for session_id, turn_id, text in (
                scanner.rows(
                    self.path(user),
                    "SELECT s.session_id, t.turn_id, t.text FROM turn t JOIN session s ON s.id = t.session",
                )
                if self.path(user).exists()
                else ()
            )
        }
        with tempfile.TemporaryDirectory() as folder, MemForest(folder, self.config) as forest:
            forest.register_user(user)
            for one in again:
                places = [(one["session_id"], str(turn["dia_id"])) for turn in one["turns"]]
                kept = [
                    {name: turn[name] for name in turn if name in KEPT} | {"text": left[place]}
                    for turn, place in zip(one["turns"], places, strict=True)
                    if place in left
                ]
                if kept:
                    forest.ingest_session(**{**one, "turns": kept})
            forest.flush()
            forest.save()
            return scanner.content(Path(folder))


def run(conversations: Sequence[Conversation], kind: str, config: Config, deletions: int) -> list[str]:
    """Delete things of one kind, and return the row of the table."""
    memories = {conversation.id: requests_of(conversation, conversation.id) for conversation in conversations}
    if kind == "user":
        memories = {
            f"{user} {number}": [{**one, "user_id": f"{user} {number}"}]
            for user, requests in memories.items()
            for number, one in enumerate(requests)
        }
    looked_for: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, MemForest(folder, config) as forest:
        this = Kind(Path(folder), kind, config, 1)
        users = list(memories)
        for number in range(deletions):
            user = users[number % len(users)]
            if not this.path(user).exists() or not forest.user(user).stats().facts:
                forest.ingest_parallel(memories[user])
                forest.user(user).flush()
            this.delete(forest, user)
            if number // len(users) % SCAN_EVERY == 0 or number >= deletions - len(users):
                looked_for[user] = max(looked_for.get(user, 0), this.scan(user, memories[user]))
        for user in users:
            if this.path(user).exists():
                gone = sorted(scanner.needles(this.gone.get(user, ()), scanner.said(this.path(user))))
                report = forest.user(user).verify()
                this.found["reported"] += len(report.problems)
                looked_for[user] = max(looked_for.get(user, 0), len(gone))
        forest.close()
        for user in users:  # as the files are when nobody has them open
            this.scan(user, memories[user])
    row = {
        **{name: f"{this.found[name]:,}" for name in COLUMNS},
        "looked_for": f"{sum(looked_for.values()):,}",
        "ms": f"{median(this.spent):.0f}",
    }
    return [kind, *row.values()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--indexes", nargs="+", default=["memforest"])
    asked = parser.parse_args()
    config = Config(embedder=HashEmbedder(32), indexes=tuple(asked.indexes))
    off = [one if one[0] != "secure_delete" else ("secure_delete", "off", 0) for one in connections.PRAGMAS]
    with ExitStack() as stack:
        stack.enter_context(patch.object(derived, "LEVEL", 0))
        if asked.insecure:
            stack.enter_context(patch.object(connections, "PRAGMAS", tuple(off)))
        conversations = read_conversations(asked.file)
        print("| kind | " + " | ".join(name.replace("_", " ") for name in COLUMNS) + " |")
        print("|---" * (len(COLUMNS) + 1) + "|")
        for kind in asked.kinds:
            print("| " + " | ".join(run(conversations, kind, config, asked.deletions)) + " |", flush=True)


if __name__ == "__main__":
    main()
