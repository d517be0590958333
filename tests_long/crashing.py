"""Runs memories in forked processes and kills them, as `kill -9` does, at one chosen write or after some time.

A verb that is to be tried like this is entered in `VERBS` by a name of its own; `tests_long/killing.py` and `tests_long/test_faults.py`
do the rest.

Started as a program by `Crasher`, once; it imports everything, then forks for every job it reads
from its standard input (a line of JSON) and answers with the signal that ended the child and the number of
writes it had begun. The children call the public surface; only the moment of death is put into the store.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.recrypting import watch
from tests_long.shelf import ShelfIndex
from tests_long.worlds import KEYS, eager_config, fast_config, make_sessions, said
from tests_long.writing_double import Writer

from memforest import AsyncMemForest, MemForest
from memforest.errors import (
    ConfigError,
    EmbedderMismatchError,
    InputError,
    NotFoundError,
    StoreError,
    StoreKeyError,
)
from memforest.reading.extract_local import LocalExtractor
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.times import system_clock
from memforest.trees import attached, refresh
from memforest.write import merge as run
from memforest.write import rebuild

Call = tuple[str, list[dict[str, Any]], bool]
Run = Callable[[AsyncMemForest], Awaitable[object]]

LIVED, DOG = 'Ana: "I lived in Lisbon."', 'Ana: "I had a dog."'
"""What `tests.killing` lets the memory say in the session "changes"."""


class Crasher:
    """The process that forks and kills."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, folder: str, calls: list[Call], at: int, moment: str = "after", **settings: Any
    ) -> tuple[int, int, int]:
        """Make the calls in a child that dies at write `at`; return (signal, writes begun, calls acknowledged)."""
        return self._run({"folder": folder, "calls": calls, "at": at, "moment": moment, "settings": settings})

    def take_in(
        self, folder: str, source: str, at: int, moment: str = "after", within_s: float | None = None
    ) -> tuple[int, int]:
        """Import an export in a child that dies at a write or after a time; return (signal, writes begun)."""
        job = {"folder": folder, "source": source, "at": at, "moment": moment, "within_s": within_s}
        return self._run(job)[:2]

    def delete(self, folder: str, target: dict[str, Any], *, at: int, moment: str) -> tuple[int, int]:
        """Delete something in a child that dies at a write; return (signal, writes begun)."""
        return self._run({"folder": folder, "target": target, "at": at, "moment": moment})[:2]

    def verb(
        self,
        folder: str,
        name: str,
        *,
        at: int = -1,
        moment: str = "after",
        within_s: float | None = None,
        room: int | None = None,
    ) -> tuple[int, int]:
        """Run a verb of `VERBS` in a child that a fault befalls; return (signal, writes begun).

        An error of ours is -3 in the place of the signal.

        Args:
            folder: of the memory.
            name: of the verb.
            at: write at which it dies; -1 for none.
            moment: when it dies: "before" the commit of that write or "after" it; "returned", when the verb has come back
                and nothing is closed. With "unreadable" it lives on, and nothing more can be read of what it has opened.
            within_s: dies after this time.
            room: no file may be written behind so many bytes, as on a disk that is full then.
        """
        fault = {"at": at, "moment": moment, "within_s": within_s, "room": room}
        return self._run({"folder": folder, "verb": name, **fault})[:2]

    def merge(
        self, folder: str, source: str, target: str, *, turns: int, at: int = -1, moment: str = "after"
    ) -> tuple[int, int]:
        """Merge one user's memory into another's in a child that dies at a write; return (signal, writes begun).

        Args:
            folder: of both.
            source: whose memory.
            target: into whose.
            turns: most turns that are copied in one transaction, and leaves.
            at: number of the write; -1 for none.
            moment: before its commit, or after.
        """
        job = {"folder": folder, "merge": [source, target], "turns": turns, "at": at, "moment": moment}
        return self._run(job)[:2]

    def _run(self, job: dict[str, Any]) -> tuple[int, int, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        ended, writes, acknowledged = json.loads(self._process.stdout.readline())
        return ended, writes, acknowledged

    def close(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def die() -> None:
    """End this process without any clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail_reads(folder: str) -> None:
    """Let every read of what this process has opened in a directory fail, as on a disk with a bad sector.

    The open files are opened anew for writing alone under their numbers; SQLite's own copies of pages stay readable.
    """
    for link in list(Path("/proc/self/fd").iterdir()):
        try:
            path = str(link.readlink())
        except FileNotFoundError:
            continue  # that of the listing
        if path.startswith(folder) and path.endswith((".db", "-wal")):
            other = os.open(path, os.O_WRONLY)
            os.dup2(other, int(link.name))
            os.close(other)


def kill_at(number: int, moment: str, log: int, folder: str, *, files: bool = False) -> None:
    """Let the process die at its write with that number: just before its commit, or just after; or read no more after it.

    With `files` a write is a step in the file system, and just after it is before the next one.
    """
    write, numbers = Database.write, count()

    @contextmanager
    def counted(self: Database) -> Iterator[Tx]:
        mine = next(numbers)
        os.write(log, b"w")
        with write(self) as tx:
            yield tx
            if mine == number and moment == "before":
                die()
        if mine == number and moment == "unreadable":
            fail_reads(folder)
        elif mine == number:
            die()

    def step() -> None:
        mine = next(numbers)
        os.write(log, b"w")
        if number >= 0 and mine == number + (moment == "after"):
            die()

    if files:
        watch(Path(folder), step)
    else:
        Database.write = counted  # type: ignore[method-assign]


async def ingest(job: dict[str, Any], log: int) -> None:
    """Make the calls of a job, and note each one that came back."""
    async with AsyncMemForest(job["folder"], eager_config(**job["settings"])) as forest:
        for session_id, turns, replace in job["calls"]:
            await forest.ingest_session("u", session_id, turns, replace=replace)
            os.write(log, b"a")


async def take_in(job: dict[str, Any]) -> None:
    """Import an export."""
    async with AsyncMemForest(job["folder"], eager_config()) as forest:
        await forest.user("u").import_(job["source"])


async def delete(job: dict[str, Any]) -> None:
    """Delete something."""
    async with AsyncMemForest(job["folder"], fast_config()) as forest:
        await forest.user("u").delete(**job["target"])


async def _ingest(forest: AsyncMemForest) -> None:
    """Store a new session, a longer one, and one that overwrites another."""
    await forest.ingest_session("u", "new", said("I moved to Rome.", "I work at Globex.", day=7))
    await forest.ingest_session(
        "u", "grows", said("I live in Oslo.", "I like it here.", "Bob has a cat.", day=8)
    )
    await forest.ingest_session("u", "changes", said("I never lived in Lisbon.", day=9), replace=True)


async def _defer(forest: AsyncMemForest) -> None:
    """Receive a new session, a longer one, and one that overwrites another; then make memory of them."""
    given = [
        ("new", said("I moved to Rome.", "I work at Globex.", day=7), False),
        ("grows", said("I live in Oslo.", "I like it here.", "Bob has a cat.", day=8), False),
        ("changes", said("I never lived in Lisbon.", day=9), True),
    ]
    requests = [
        {"user_id": "u", "session_id": name, "turns": turns, "replace": replace}
        for name, turns, replace in given
    ]
    for result in await forest.ingest_parallel(requests, defer=True):
        if isinstance(result, Exception):
            raise result
    await forest.resume("u")


async def _rebuild(forest: AsyncMemForest) -> None:
    await forest.rebuild("u")


async def _reembed(forest: AsyncMemForest) -> None:
    with mock.patch.object(rebuild, "BLOCK", 8):
        await forest.rebuild("u", embedder=True)


async def _reextract(forest: AsyncMemForest) -> None:
    await forest.rebuild("u", stale=True)


def _delete(**target: Any) -> Run:
    """Return the deletion of something."""

    async def go(forest: AsyncMemForest) -> None:
        with suppress(NotFoundError):  # it is gone
            await forest.user("u").delete(**target)

    return go


async def _delete_fact(forest: AsyncMemForest) -> None:
    for fact in await _saying(forest, DOG):
        await forest.user("u").delete(fact)


async def _saying(forest: AsyncMemForest, text: str) -> list[str]:
    """Return the fact that is shown and says this; none when it was dealt with already."""
    shown = await forest.user("u").list(limit=1000)
    return [one.fact_id for one in shown if one.statement == text]


async def _update(forest: AsyncMemForest) -> None:
    for fact in await _saying(forest, LIVED):
        await forest.user("u").update(
            fact, "Ana lived in Porto.", valid_from="2021-01-01", valid_to="2023-01-01"
        )


async def _forget(forest: AsyncMemForest) -> None:
    for fact in await _saying(forest, DOG):
        await forest.user("u").forget(fact)


async def _expire(forest: AsyncMemForest) -> None:
    await forest.user("u").expire()


def _another(folder: str) -> None:
    """Make the memory of somebody else, who has a session of the same id, and corrections."""
    with MemForest(folder, eager_config()) as forest:
        for number, (session_id, turns) in enumerate(make_sessions(23, sessions=3, most_turns=5)):
            forest.ingest_session("other", session_id if number == 0 else f"other-{session_id}", turns)
        memory = forest.user("other")
        facts = memory.list(limit=1000).facts
        memory.forget(facts[0].fact_id)
        memory.update(facts[1].fact_id, "Ana lives in Bergen.")
        forest.flush("other")


async def _merge(forest: AsyncMemForest) -> None:
    """Merge, few turns and leaves at a time."""
    with mock.patch.object(run, "BATCH_TURNS", 2):
        await forest.user("u").merge("other")


def _taken_out(folder: str) -> None:
    """Put an export in the place of the memory, of which no more is left than that there is one."""
    with MemForest(folder, eager_config()) as forest:
        forest.user("u").export(Path(folder) / "export.jsonl")
        forest.delete_user("u")
        forest.register_user("u")


async def _import(forest: AsyncMemForest) -> None:
    with suppress(InputError):  # it holds something: the import was whole then, or what is compared says so
        await forest.user("u").import_(forest.directory / "export.jsonl")


def _chat_files(folder: str) -> None:
    """Write the messages of three days into a file each."""
    for day in (11, 13, 17):
        messages = [
            {"role": "user", "content": turn["content"], "timestamp": turn["timestamp"]}
            for turn in said(f"I moved to Kyoto {day} weeks ago.", f"I have {day} cats.", day=day)
        ]
        (Path(folder) / f"chat{day}.json").write_text(json.dumps(messages), encoding="utf-8")


async def _import_files(forest: AsyncMemForest) -> None:
    result = await forest.user("u").import_file(sorted(forest.directory.glob("chat*.json")))
    assert not result.problems


def _with_segments(folder: str) -> None:
    """Add the index "segtree" to the memory."""
    with MemForest(folder, eager_config()) as forest:
        forest.user("u").add_index("segtree")


async def _add_segments(forest: AsyncMemForest) -> None:
    """Add the index, and have its summaries made."""
    with suppress(ConfigError):  # it is there
        await forest.user("u").add_index("segtree")
    await forest.user("u").flush()


def _unwritten(folder: str) -> None:
    """Add the index "timem" at a time when nothing was due yet."""
    with MemForest(folder, eager_config(clock=lambda: datetime(1970, 1, 2, tzinfo=timezone.utc))) as forest:
        forest.user("u").add_index("timem", {"history_of": "memories"})


async def _advance(forest: AsyncMemForest) -> None:
    """Write all memories, few at a time."""
    with mock.patch.object(refresh, "WRITE_NODES", 4):
        await forest.user("u").advance(force=True)


async def _add_memories(forest: AsyncMemForest) -> None:
    """Add the index, and write few memories at a time."""
    with mock.patch.object(refresh, "WRITE_NODES", 4):
        with suppress(ConfigError):  # it is there
            await forest.user("u").add_index("timem")
        await forest.user("u").advance()


_WRITING: dict[str, Any] = {"summariser": Writer(), "clock": system_clock}
"""A model writes, and leases end."""


def _with_events(folder: str) -> None:
    """Add the index "hmem" to the memory."""
    with MemForest(folder, eager_config()) as forest:
        forest.user("u").add_index("hmem", {"schedule": "loose"})


def _young(folder: str) -> None:
    """Add it at a time when the memory had weeks alone."""
    with MemForest(folder, eager_config(clock=lambda: datetime(1970, 1, 2, tzinfo=timezone.utc))) as forest:
        forest.user("u").add_index("hmem", {"schedule": "loose"})


async def _raise_levels(forest: AsyncMemForest) -> None:
    """Build the levels that have become active, and what is above an event that comes then."""
    await forest.user("u").advance()
    await forest.ingest_session("u", "late", said("Bob moved to Rome.", day=8))
    await forest.user("u").flush()


async def _merge_entities(forest: AsyncMemForest) -> None:
    """Decide that two are one, store what names both, and decide that they are not; what was decided is not decided again."""
    memory = forest.user("u")
    decided = [one.verdict for one in await memory.entity_choices()]
    if not decided:
        await memory.merge_entities("Oslo", "Lisbon")
    await forest.ingest_session("u", "late", said("Bob moved from Oslo to Lisbon.", day=8))
    if decided != ["apart"]:
        await memory.split_entity("Oslo", "Lisbon")


def _encrypted(folder: str) -> None:
    with MemForest(folder, eager_config(key=KEYS[0])) as forest:
        forest.encrypt()


async def _encrypt(forest: AsyncMemForest) -> None:
    await forest.encrypt("u")


async def _decrypt(forest: AsyncMemForest) -> None:
    async with AsyncMemForest(forest.directory, eager_config(key=KEYS[0])) as with_key:
        await with_key.decrypt("u")


async def _rekey(forest: AsyncMemForest) -> None:
    async with AsyncMemForest(forest.directory, eager_config(key=KEYS[0])) as with_key:
        await with_key.rekey(KEYS[1], "u")


@dataclass(frozen=True)
class Verb:
    """A verb of the memory of "u" that `tests.killing` holds, and how it is run.

    It may be run again after it was interrupted, and after it was not: where a second run is an error of ours, as that of
    deleting what is gone, `run` suppresses just that one.
    """

    run: Run
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings other than `eager_config`'s, for the run and for whoever opens the memory after it."""
    before: dict[str, Any] = field(default_factory=dict)
    """Likewise for whoever opens it before."""
    prepare: Callable[[str], object] | None = None
    """Puts what it needs besides the memory, as another user's or a file to import, into the directory, or the memory into
    the state that it begins with."""
    refused: tuple[type[Exception], ...] = ()
    """With what a memory that it has, or has not, changed refuses the settings from before it, or its own."""
    changes: bool = True
    """Whether it changes what the memory holds."""
    files: bool = False
    """Whether its writes are steps in the file system, not transactions."""


_RECRYPTING: dict[str, Any] = {"refused": (StoreKeyError,), "changes": False, "files": True}
_ENCRYPTING = {
    "encrypt": Verb(_encrypt, {"key": KEYS[0]}, **_RECRYPTING),
    "decrypt": Verb(_decrypt, {}, {"key": KEYS[0]}, _encrypted, **_RECRYPTING),
    "rekey": Verb(_rekey, {"key": KEYS[1]}, {"key": KEYS[0]}, _encrypted, **_RECRYPTING),
}

VERBS: dict[str, Verb] = {
    "ingest": Verb(_ingest),
    "defer": Verb(_defer),
    "rebuild": Verb(_rebuild, changes=False),
    "rebuild with another embedder": Verb(
        _reembed, {"embedder": "hash-words-1@48"}, refused=(EmbedderMismatchError,)
    ),
    "rebuild of what is stale": Verb(_reextract, {"chunk_turns": 1}),
    "delete a turn": Verb(_delete(turn=("changes", "0"))),
    "delete a session": Verb(_delete(session_id="s1")),
    "delete a fact": Verb(_delete_fact),
    "delete an entity": Verb(_delete(entity="Bob")),
    "expire": Verb(_expire, {"retention": "390 days"}),
    "update": Verb(_update),
    "forget": Verb(_forget),
    "ingest into segments": Verb(_ingest, prepare=_with_segments),
    "add segments": Verb(_add_segments),
    "advance": Verb(_advance, _WRITING, _WRITING, _unwritten),
    "add memories": Verb(_add_memories, _WRITING, _WRITING),
    "ingest into events": Verb(_ingest, prepare=_with_events),
    "raise levels": Verb(_raise_levels, prepare=_young),
    "merge entities": Verb(_merge_entities),
    "merge": Verb(_merge, prepare=_another),
    "import": Verb(_import, prepare=_taken_out),
    "import chat files": Verb(_import_files, prepare=_chat_files),
    **(_ENCRYPTING if find_spec("sqlcipher3") else {}),
}
"""Name -> verb."""


def limit_room(room: int) -> None:
    """Let this process write no file behind so many bytes."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


async def run_verb(job: dict[str, Any]) -> None:
    """Run a verb; with less room than it needs, or when it cannot read, it ends with an error of ours."""
    verb = VERBS[job["verb"]]
    try:
        async with AsyncMemForest(job["folder"], eager_config(**verb.settings)) as forest:
            await verb.run(forest)
            if job["moment"] == "returned":
                die()
    except StoreError:
        os._exit(3)


async def merge(job: dict[str, Any]) -> None:
    """Merge one memory into another, few turns and leaves at a time."""
    run.BATCH_TURNS = job["turns"]
    source, target = job["merge"]
    async with AsyncMemForest(job["folder"], eager_config()) as forest:
        await forest.user(target).merge(source)


def notes_of(child: int, reading: int, within_s: float | None) -> bytes:
    """Return what a child noted; it is killed if it takes longer than that."""
    noted, deadline = b"", None if within_s is None else time.monotonic() + within_s
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], left)[0]:
            os.kill(child, signal.SIGKILL)
            deadline = None
        elif part := os.read(reading, 4096):
            noted += part
        else:
            return noted


async def work(job: dict[str, Any], log: int) -> None:
    """Do a job, which its own words tell from others."""
    if "calls" in job:
        await ingest(job, log)
    else:
        await next(do for word, do in JOBS.items() if word in job)(job)


JOBS = {"verb": run_verb, "merge": merge, "target": delete, "source": take_in}
"""Word that a job has -> what does it."""


def main() -> None:
    """Answer jobs until the input ends."""
    LocalExtractor(timezone=eager_config().zone)  # loads its tables before the first fork
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    for line in sys.stdin:
        job = json.loads(line)
        reading, log = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            if job.get("room") is not None:
                limit_room(job["room"])
            files = "verb" in job and VERBS[job["verb"]].files
            kill_at(job["at"], job["moment"], log, job["folder"], files=files)
            asyncio.run(work(job, log))
            os._exit(0)
        os.close(log)
        said = notes_of(child, reading, job.get("within_s"))
        os.close(reading)
        _, status = os.waitpid(child, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        sys.stdout.write(json.dumps([ended, said.count(b"w"), said.count(b"a")]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
