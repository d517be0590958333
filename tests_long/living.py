"""Random lives of a memory: every verb that changes one, in any order, and what must be true of what is left.

As a program it runs so many, counts what they did, and says which failed, with status 1 if any did:

    python tests_long/living.py 2000
    python tests_long/living.py 1 --first 1234
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.deletions import KINDS, random_target
from tests_long.test_delete_histories import START, remaining, session, what_is_held
from tests_long.worlds import differences, dump, fast_config, fast_folder, file_of, rows, summaries

from memforest import MemForest
from memforest.errors import CorrectionError, InputError, SessionConflictError
from memforest.memory.blocking import UserMemory

__all__ = ["VERBS", "Life"]

STEPS = 14
INDEXES = ("memforest", "segtree", "timem", "hmem")
QUESTIONS = ("Where does Gregor live?", "What did Nora buy?", "Who works at Acme?")
UPDATES = ("Fatima lives in Bergen.", "Gregor works at Hooli.", "Nora sold a boat in Turin.")


class Life:
    """One life of a memory, and of another one that is merged into it.

    Args:
        seed: of what happens.
        folder: an empty directory.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.random, self.folder = Random(f"life {seed}"), folder
        self.done: Counter[str] = Counter()
        self._made = 0
        retention = self.random.choice((None, None, timedelta(days=515)))  # the first three days are too old
        self.settings: dict[str, Any] = {"chunk_turns": 1, "retention": retention, "indexes": INDEXES}
        self.forest = self._open("u")
        self.other = self._open("other")

    def _open(self, name: str, **settings: Any) -> MemForest:
        return MemForest(self.folder / name, fast_config(**{**self.settings, **settings}))

    def run(self) -> None:
        """Live, and check what is left."""
        try:
            for name, forest in (("u", self.forest), ("other", self.other)):
                forest.register_user("u")
                for _ in range(self.random.randint(1, 3)):
                    self._ingest(forest, name)
            for _ in range(STEPS):
                self.step()
            self.check()
        finally:
            self.forest.close()
            self.other.close()

    @property
    def memory(self) -> UserMemory:
        """The memory."""
        return self.forest.user("u")

    @property
    def path(self) -> Path:
        """Its file."""
        return file_of(self.folder / "u")

    def step(self) -> None:
        """Use one of the verbs."""
        verb = self.random.choice(list(VERBS))
        if VERBS[verb](self):
            self.done[verb] += 1

    def _ingest(self, forest: MemForest, name: str, *, replace: bool = False) -> bool:
        number = self.random.randrange(5)
        with suppress(SessionConflictError):
            forest.ingest_session(
                "u", f"{self.random.choice((name, 's'))}{number}", told(self.random, number), replace=replace
            )
            return True
        return False

    def ingest(self) -> bool:
        """Store a session, if there is none of the id."""
        return self._ingest(self.forest, "u")

    def defer(self) -> bool:
        """Store a session and no more, if there is none of the id; it is made memory of at once, or by and by."""
        number = self.random.randrange(5)
        with suppress(SessionConflictError):
            deferred = self.forest.ingest_session("u", f"u{number}", told(self.random, number), defer=True)
            if self.random.random() < 0.5:
                assert len(self.forest.resume("u")) >= bool(deferred.left)
            return True
        return False

    def replace(self) -> bool:
        """Store another one in its place."""
        return self._ingest(self.forest, "u", replace=True)

    def elsewhere(self) -> bool:
        """Do something to the memory that is merged."""
        kind, memory = self.random.choice(("ingest", "replace", "delete", "correct")), self.other.user("u")
        if kind == "delete":
            return self._delete(self.other, "other", self.random.choice(KINDS))
        if kind == "correct":
            return self._correct(memory, self.random.choice(("update", "forget", "pin")))
        return self._ingest(self.other, "other", replace=kind == "replace")

    def grow(self) -> bool:
        """Append a turn to a session."""
        self._made += 1
        number = self.random.randrange(5)
        said = (START + timedelta(days=number + 9, minutes=self._made)).isoformat()
        turn = {
            "speaker": "Nora",
            "content": f"I like tent {self._made}.",
            "timestamp": said,
            "id": f"a{self._made}",
        }
        self.memory.add(turn, session_id=f"s{number}")
        return True

    def delete(self, kind: str) -> bool:
        """Delete something of a kind, as much as a dry run counts."""
        return self._delete(self.forest, "u", kind)

    def _delete(self, forest: MemForest, name: str, kind: str) -> bool:
        memory = forest.user("u")
        target = random_target(self.random, memory, self.folder / name, kind)
        if kind == "window":
            start = START + timedelta(days=self.random.randrange(15))
            target = {"during": (start, start + timedelta(minutes=self.random.choice((2, 1500))))}
        if target is None:
            return False
        counted = memory.delete(**target, dry_run=True)
        assert memory.delete(**target).counts() == counted.counts(), target
        return bool(counted.counts())

    def correct(self, kind: str) -> bool:
        """Update, forget or pin a statement."""
        return self._correct(self.memory, kind)

    def _correct(self, memory: UserMemory, kind: str) -> bool:
        shown = sorted(one.fact_id for one in memory.list(limit=1000))
        if not shown:
            return False
        fact = self.random.choice(shown)
        with suppress(CorrectionError, InputError):  # it is pinned, or says that, already
            if kind == "update":
                memory.update(fact, self.random.choice(UPDATES))
            elif kind == "forget":
                memory.forget(fact)
            else:
                memory.pin(fact)
            return True
        return False

    def corrections(self) -> list[str]:
        """Return the keys of what can be undone, the newest first."""
        found = rows(self.path, "SELECT id, key FROM correction WHERE undone_ms IS NULL")
        return [key for _, key in sorted(found, reverse=True)]

    def undo(self) -> bool:
        """Take a correction back."""
        keys = self.corrections()
        with suppress(CorrectionError):  # what it made was corrected
            if keys:
                self.memory.undo(self.random.choice(keys))
                return True
        return False

    def merge(self) -> bool:
        """Merge the other memory into this one; at once again, that brings nothing."""
        done = self.memory.merge("u", directory=self.folder / "other", same_person=True)
        again = self.memory.merge("u", directory=self.folder / "other", same_person=True)
        assert not again.facts_inserted, again
        return bool(done.facts_inserted)

    def out_and_in(self) -> bool:
        """Export the memory, delete it, and import it."""
        target = self.folder / "memory.jsonl"
        self.memory.export(target, vectors=self.random.random() < 0.5, overwrite=True)
        self.forest.delete_user("u")
        self.memory.import_(target)
        return True

    def rebuild(self) -> bool:
        """Make anew what is derived."""
        self.memory.rebuild(stale=self.random.random() < 0.5)
        return True

    def expire(self) -> bool:
        """Delete what is too old."""
        return self.settings["retention"] is not None and bool(self.memory.expire().counts())

    def flush(self) -> bool:
        """Make the summaries, and check the memory."""
        self.forest.flush()
        self.sound()
        return True

    def reopen(self) -> bool:
        """Close the memory, open it, and resume."""
        self.forest.close()
        self.forest = self._open("u")
        self.forest.resume("u")
        return True

    def sound(self, memory: UserMemory | None = None) -> None:
        """Check that `verify` finds nothing."""
        problems = (memory or self.memory).verify().problems
        assert not problems, [str(one) for one in problems]

    def evidence(self, memory: UserMemory, but: str = "") -> list[Any]:
        """Return what is found for each question by each index but one, with every score."""
        return [
            [
                (
                    one.text,
                    one.quote,
                    one.kind,
                    score_of(one, index),
                    one.sources,
                    one.start,
                    one.end,
                    one.corrected,
                )
                for one in memory.search(question, top_k=100, index=index)
            ]
            for question in QUESTIONS
            for index in (*INDEXES, "flat")
            if index != but
        ]

    def check(self) -> None:
        """Check the memory against an import of its export, itself made anew, and a memory of the turns that are left."""
        self.forest.resume("u")
        written(self.forest)
        self.sound()
        self.check_rebuild()
        self.check_import()
        for key in self.corrections():
            self.memory.undo(key)
        assert rows(self.path, "SELECT 1 FROM fact WHERE verdict") == []
        self.sound()
        self.check_anew()

    def check_import(self) -> None:
        """An import of an export holds the same and finds the same."""
        self.memory.export(self.folder / "end.jsonl", vectors=self.random.random() < 0.5)
        with self._open("copy") as forest:
            forest.user("u").import_(self.folder / "end.jsonl")
            written(forest)
            self.sound(forest.user("u"))
            equal(self.evidence(self.memory), self.evidence(forest.user("u")))
            assert differences(dump(self.path), dump(file_of(self.folder / "copy"))) == {}

    def check_rebuild(self) -> None:
        """Made anew, all is as it was."""
        before = {**dump(self.path), "summaries": summaries(self.path)}
        self.memory.rebuild()
        written(self.forest)
        self.sound()
        assert differences(before, {**dump(self.path), "summaries": summaries(self.path)}) == {}

    def check_anew(self) -> None:
        """With its corrections undone it holds and finds what a memory does into which the turns that are left are ingested.

        Not where a merge has put turns of one session behind each other as they came, which an ingest puts in order of time.
        """
        left = remaining(self.folder / "u")
        times = [[turn["timestamp"] for turn in turns] for turns in left.values()]
        if any(said != sorted(said) for said in times):
            self.done["merged out of order"] += 1
            return
        written(self.forest)
        with self._open("fresh", retention=None) as forest:
            forest.register_user("u")
            for session_id, turns in left.items():
                forest.ingest_session("u", session_id, turns)
            written(forest)
            fresh = file_of(self.folder / "fresh")
            held, anew = what_is_held(self.folder / "u"), what_is_held(self.folder / "fresh")
            for name in held:
                assert held[name] == anew[name], (name, set(held[name]) ^ set(anew[name]))
            own, other = ({**dump(path), "summaries": summaries(path)} for path in (self.path, fresh))
            assert differences(own, other, ("trees", "summaries")) == {}
            found = (self.evidence(memory, but="timem") for memory in (self.memory, forest.user("u")))
            equal(*map(rounded, found))


def score_of(one: Any, index: str) -> float:
    """Return a score; that of a memory of a window without the last digits, which depend on the order of its vectors."""
    return round(one.score, 12) if index == "timem" else float(one.score)


def written(forest: MemForest) -> None:
    """Make all summaries, also those that are not due."""
    forest.flush()
    forest.user("u").advance(force=True)


def rounded(found: list[Any]) -> list[Any]:
    """Return evidence with scores that do not depend on the order in which numbers are added, nor on that of equal ones."""
    return [
        sorted((score.__round__(9), text, *other) for text, *other, score in one)
        for one in (
            [(*piece[:3], *map(repr, piece[4:]), piece[3]) for piece in found_there] for found_there in found
        )
    ]


def equal(one: list[Any], other: list[Any]) -> None:
    """Compare what was found, and name the first difference."""
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        if mine != theirs:
            raise AssertionError(
                f"search {number} differs: {[x for x in mine if x not in theirs]} | {[x for x in theirs if x not in mine]}"
            )


def told(random: Random, number: int) -> list[dict[str, Any]]:
    """Return turns of a sentence each.

    Where a statement is made of two of them and one is deleted, the other one is not read again, and would be by an ingest.
    """
    return [
        {**turn, "content": turn["content"].split(". ")[0].rstrip(".") + "."}
        for turn in session(random, number, 3)
    ]


def _delete(kind: str) -> Callable[[Life], bool]:
    return lambda life: life.delete(kind)


def _correct(kind: str) -> Callable[[Life], bool]:
    return lambda life: life.correct(kind)


VERBS: dict[str, Callable[[Life], bool]] = {
    "ingest": Life.ingest,
    "defer": Life.defer,
    "grow": Life.grow,
    "replace": Life.replace,
    **{f"delete {kind}": _delete(kind) for kind in KINDS},
    **{kind: _correct(kind) for kind in ("update", "forget", "pin")},
    "undo": Life.undo,
    "elsewhere": Life.elsewhere,
    "merge": Life.merge,
    "export and import": Life.out_and_in,
    "rebuild": Life.rebuild,
    "expire": Life.expire,
    "flush": Life.flush,
    "reopen": Life.reopen,
}
"""Name -> what it does; whether it did anything."""


def live(seed: int) -> Life:
    """Run one life and return it."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        life = Life(seed, Path(folder))
        life.run()
    return life


def main() -> int:
    """Run so many lives, and print what was done and what failed."""
    parser = argparse.ArgumentParser(description="Let memories live, and look at what is left.")
    parser.add_argument("lives", type=int, help="how many")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    args = parser.parse_args()
    done, failed, begun = Counter[str](), list[int](), time.monotonic()
    for seed in range(args.first, args.first + args.lives):
        try:
            done.update(live(seed).done)
        except Exception:  # noqa: BLE001 - named with its seed, and all others are run
            failed.append(seed)
            sys.stderr.write(f"seed {seed}:\n{traceback.format_exc()}\n")
    took = time.monotonic() - begun
    sys.stdout.write(
        f"{args.lives} histories in {took:.0f} s, {len(failed)} failed {failed[:20]}\n"
        + "".join(f"  {name}: {done[name]}\n" for name in VERBS)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
