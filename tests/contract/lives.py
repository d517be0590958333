"""Random lives of a memory: every verb that changes one, in any order, and what must be true of what is left.

Only public verbs are used, so the lives stay what they are when the inside is made anew. As a program it runs so many
and names the seeds that failed, with status 1 if any did:

    python -m tests.contract.lives 200
    python -m tests.contract.lives 1 --first 17
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

from tests.contract.children import started, writes
from tests.contract.talk import found_in_files, opened, picture, shown

from memforest import MemForest, UserMemory
from memforest.errors import CorrectionError, InputError, NotFoundError, SessionConflictError
from memforest.testing import FrozenClock

__all__ = ["VERBS", "Life", "live"]

STEPS = 14
START = datetime(2023, 1, 1, 9, tzinfo=timezone.utc)
INDEXES = ("memforest", "segtree", "timem", "hmem")
QUESTIONS = (
    "Where does Nora live?",
    "Where did Nora live before Oslo?",
    "Who works at Acme now?",
    "What did Tomas buy in Lisbon?",
    "Who adopted two cats?",
)
SAID = (
    "I live in {city}.",
    "I moved to {city}.",
    "I work at {firm}.",
    "{who} lives in {city}.",
    "{who} works at {firm}.",
    "{who} sold a {mark} to the school.",
    "{who} adopted two cats.",
    "I bought a {mark} in {city}.",
    "We saw a {mark} near the harbour.",
    "My {mark} is broken.",
)
"""One sentence a turn: what is deleted of a turn is then all of it. Marks are words that are said once."""
UPDATES = ("Fatima lives in Bergen.", "Gregor works at Hooli.", "Nora sold a boat in Turin.")

Turns = dict[str, list[tuple[Any, ...]]]
"""Session -> its turns: id, speaker, time, text."""


class Life:
    """One life of a memory, and of another one that is merged into it.

    Args:
        seed: of what happens.
        folder: an empty directory.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.random, self.folder = Random(f"life {seed}"), folder
        self.done: Counter[str] = Counter()
        self.told: list[str] = []
        """What was done, in order."""
        self.clock = FrozenClock("2024-06-01T12:00:00+00:00")
        self.index = self.random.choice(INDEXES)
        self.gone: dict[str, str] = {}
        """Marks that were deleted -> the session they were said in."""
        self._made, self._homes = 0, 0
        self._may_kill = self.random.random() < 0.3
        self.home = folder / "home 0"
        self.forest, self.other = self._open(self.home), self._open(folder / "other")

    def _open(self, place: Path) -> MemForest:
        # A chunk of one turn: what is read of a turn does not depend on its neighbours, of which some are deleted.
        return opened(place, self.clock, indexes=(self.index,), chunk_turns=1)

    @property
    def memory(self) -> UserMemory:
        """The memory."""
        return self.forest.user("u")

    def run(self) -> None:
        """Live, and check what is left."""
        try:
            for forest, name in ((self.forest, "a"), (self.other, "o")):
                forest.register_user("u", display_name="Nora")
                for _ in range(self.random.randint(2, 4)):
                    self._ingest(forest, name)
            for _ in range(STEPS):
                self.step()
            self.check()
        except BaseException as error:
            error.args = (f"{error.args[0] if error.args else ''} [after {', '.join(self.told)}]",)
            raise
        finally:
            self.forest.close()
            self.other.close()

    def step(self) -> None:
        """Use one of the verbs; afterwards `verify` finds nothing, and no deleted word has come back."""
        self.clock.advance(minutes=self.random.randint(1, 3000))
        verb = self.random.choice(list(VERBS))
        self.told.append(verb)
        if VERBS[verb](self):
            self.done[verb] += 1
        if len(self.told) % 3 == 0:
            self.sound()

    def _mark(self) -> str:
        pairs = (self.random.choice("bcdfgklmnprtvz") + self.random.choice("aeiou") for _ in range(4))
        return "".join(pairs) + self.random.choice("kmnprt")

    def _turn(self, said: datetime) -> dict[str, Any]:
        self._made += 1
        text = self.random.choice(SAID).format(
            city=self.random.choice(("Oslo", "Lisbon", "Davis")),
            firm=self.random.choice(("Acme", "Initech")),
            who=self.random.choice(("Gregor", "Fatima")),
            mark=self._mark(),
        )
        speaker = self.random.choice(("Nora", "Tomas"))
        return {"id": f"t{self._made}", "speaker": speaker, "content": text, "timestamp": said.isoformat()}

    def _session(self, number: int) -> list[dict[str, Any]]:
        first = START + timedelta(days=number)
        return [self._turn(first + timedelta(minutes=at)) for at in range(self.random.randint(1, 4))]

    def _ingest(self, forest: MemForest, name: str, *, replace: bool = False, defer: bool = False) -> bool:
        number = self.random.randrange(5)
        session = f"{self.random.choice((name, 's'))}{number}"
        turns, before = self._session(number), shown(forest.user("u"))
        try:
            forest.ingest_session("u", session, turns, replace=replace, defer=defer)
        except SessionConflictError:
            assert session in before
            assert not replace
            assert shown(forest.user("u")) == before
            return False
        kept = [
            (one["id"], one["speaker"], datetime.fromisoformat(one["timestamp"]), one["content"])
            for one in turns
        ]
        assert shown(forest.user("u")) == {**before, session: kept}
        return True

    def add(self) -> bool:
        """Store a session, if there is none of the id."""
        return self._ingest(self.forest, "a")

    def defer(self) -> bool:
        """Store a session and no more; it is made memory of now, or by and by."""
        if not self._ingest(self.forest, "a", defer=True):
            return False
        if self.random.random() < 0.5:
            self.forest.resume("u")
        return True

    def replace(self) -> bool:
        """Store another one in its place."""
        return self._ingest(self.forest, "a", replace=True)

    def late(self) -> bool:
        """Add a turn to a session, of a time before, among or behind those that it has."""
        before = shown(self.memory)
        if not before:
            return False
        session = self.random.choice(sorted(before))
        turn = self._turn(
            self.random.choice(before[session] or [(0, 0, START)])[2]
            + timedelta(seconds=self.random.randint(-90, 90))
        )
        assert self.memory.add(turn, session_id=session).turns_added == 1
        after = shown(self.memory)
        assert sorted(after[session]) == sorted(
            [*before[session], next(one for one in after[session] if one[0] == turn["id"])]
        )
        assert [one[2] for one in after[session]] == sorted(one[2] for one in after[session])
        assert self.memory.add(turn, session_id=session).unchanged
        return True

    def elsewhere(self) -> bool:
        """Do something to the memory that is merged."""
        kind = self.random.choice(("add", "replace", "delete", "correct"))
        if kind == "delete":
            target = self._target(self.other.user("u"), self.random.choice(KINDS))
            return bool(target and self.other.user("u").delete(**target))
        if kind == "correct":
            return self._correct(self.other.user("u"), self.random.choice(("update", "forget", "pin")))
        return self._ingest(self.other, "o", replace=kind == "replace")

    def _target(self, memory: UserMemory, kind: str) -> dict[str, Any] | None:
        """Return the arguments of a deletion of a kind, None if there is nothing to delete."""
        turns = [(session, turn[0]) for session, told in shown(memory).items() for turn in told]
        facts = sorted(one.fact_id for one in memory.list(limit=1000))
        names = sorted(one.name for one in memory.entities() if one.role != "speaker")
        if not turns or (kind == "fact" and not facts) or (kind == "entity" and not names):
            return None
        start = START + timedelta(days=self.random.randrange(6))
        found: dict[str, Callable[[], dict[str, Any]]] = {
            "turn": lambda: {"turn": self.random.choice(turns)},
            "session": lambda: {"session_id": self.random.choice(turns)[0]},
            "fact": lambda: {"fact_id": self.random.choice(facts)},
            "entity": lambda: {"entity": self.random.choice(names)},
            "before": lambda: {"during": (None, start)},
            "window": lambda: {
                "during": (start, start + timedelta(minutes=self.random.choice((1, 2, 3000))))
            },
        }
        return found[kind]()

    def delete(self, kind: str) -> bool:
        """Delete something of a kind: just what it names goes, as much as a dry run counts."""
        target = self._target(self.memory, kind)
        if target is None:
            return False
        before = shown(self.memory)
        expected = self._expected(before, target)
        counted = self.memory.delete(**target, dry_run=True)
        assert shown(self.memory) == before
        receipt = self.memory.delete(**target)
        assert receipt.counts() == counted.counts(), target
        after = shown(self.memory)
        assert after == expected, target
        kept = {turn[3] for told in after.values() for turn in told}
        for session, told in before.items():
            for turn in told:
                if turn[3] not in kept:
                    self.gone.update(dict.fromkeys(_marks(turn[3]), session))
        return bool(receipt)

    def _expected(self, before: Turns, target: dict[str, Any]) -> Turns:
        """Return what is left of the turns behind a deletion."""
        if "turn" in target:
            goes = {target["turn"]}
        elif "session_id" in target:
            goes = {(target["session_id"], turn[0]) for turn in before[target["session_id"]]}
        elif "during" in target:
            start, end = target["during"]
            goes = {
                (session, turn[0])
                for session, told in before.items()
                for turn in told
                if (start is None or start <= turn[2]) and turn[2] < end
            }
        else:
            facts = (
                [self.memory.get(target["fact_id"])]
                if "fact_id" in target
                else self.memory.list(limit=1000, entity=target["entity"])
            )
            goes = {
                (source.session_id, turn)
                for one in facts
                for source in one.sources
                for turn in source.turn_ids
            }
            if "entity" in target:
                name = target["entity"].casefold()
                goes |= {
                    (session, turn[0])
                    for session, told in before.items()
                    for turn in told
                    if name in turn[3].casefold()
                }
        left = {
            session: [turn for turn in told if (session, turn[0]) not in goes]
            for session, told in before.items()
        }
        return {session: told for session, told in left.items() if told}

    def correct(self, kind: str) -> bool:
        """Update, forget or pin a statement; what was said stays."""
        before = shown(self.memory)
        done = self._correct(self.memory, kind)
        assert shown(self.memory) == before
        return done

    def _correct(self, memory: UserMemory, kind: str) -> bool:
        facts = sorted(one.fact_id for one in memory.list(limit=1000))
        if not facts:
            return False
        one = self.random.choice(facts)
        with suppress(CorrectionError, InputError):  # it is pinned, or says that, already
            if kind == "update":
                memory.update(one, self.random.choice(UPDATES))
            else:
                {"forget": memory.forget, "pin": memory.pin}[kind](one)
            return True
        return False

    def _keys(self) -> list[str]:
        """Return the keys of the corrections that hold."""
        facts = [
            one.fact_id
            for verdict in (None, "pinned", "forgotten", "corrected")
            for one in self.memory.list(limit=1000, verdict=verdict)
        ]
        entries = [entry for one in facts for entry in self.memory.history(one) if entry.key]
        undone = {entry.key for entry in entries if entry.kind == "undone"}
        return sorted({str(entry.key) for entry in entries} - {str(key) for key in undone})

    def undo(self) -> bool:
        """Take a correction back."""
        keys = self._keys()
        with suppress(CorrectionError):  # what it made was corrected
            if keys:
                self.memory.undo(self.random.choice(keys))
                return True
        return False

    def undo_all(self) -> None:
        """Take all back; one on which another stands after that one."""
        while keys := self._keys():
            undone = 0
            for key in keys:
                with suppress(CorrectionError, NotFoundError):
                    self.memory.undo(key)
                    undone += 1
            assert undone, keys

    def merge(self) -> bool:
        """Merge the other memory into this one: nothing that is here goes, and at once again it brings nothing."""
        before, there = shown(self.memory), shown(self.other.user("u"))
        done = self.memory.merge("u", directory=self.folder / "other", same_person=True)
        after = shown(self.memory)
        for session, told in before.items():
            assert set(told) <= set(after[session]), session
        assert shown(self.other.user("u")) == there
        assert not self.memory.merge("u", directory=self.folder / "other", same_person=True).turns_added
        assert shown(self.memory) == after
        came = {mark for told in after.values() for turn in told for mark in _marks(turn[3])}
        for mark in came & set(self.gone):  # only a session that was deleted as a whole comes again
            assert self.gone.pop(mark) not in before, mark
        return bool(done.turns_added)

    def out_and_in(self) -> bool:
        """Export the memory, and go on with an import of it in a new directory."""
        self.forest.resume("u")
        before, target = self._picture(self.memory), self.folder / "memory.jsonl"
        self.memory.export(target, vectors=self.random.random() < 0.5, overwrite=True)
        self.forest.close()
        shutil.rmtree(self.home)
        self._homes += 1
        self.home = self.folder / f"home {self._homes}"
        self.forest = self._open(self.home)
        self.memory.import_(target)
        same(before, self._picture(self.memory))
        return True

    def rebuild(self) -> bool:
        """Make anew what is derived: all that is said and stated stays; vectors of what waits to be read are made, so that is read first."""
        self.forest.resume("u")
        before = self._picture(self.memory)
        self.memory.rebuild(stale=self.random.random() < 0.5)
        same(before, self._picture(self.memory))
        return True

    def reopen(self) -> bool:
        """Close the memory and open it: nothing is another one."""
        before = self._picture(self.memory)
        self.forest.close()
        self.forest = self._open(self.home)
        same(before, self._picture(self.memory))
        return True

    def kill(self) -> bool:
        """Let another process write and kill it, once in a life, and in some: what it told of is there."""
        if not self._may_kill:
            return False
        self._may_kill, before = False, shown(self.memory)
        self.forest.close()
        with started(writes, self.home, 40, (self.index,)) as writer:
            told = [writer.told() for _ in range(self.random.randint(1, 3))]
            time.sleep(self.random.random() / 50)
            told += writer.kill()
        self.forest = self._open(self.home)
        self.forest.resume("u")
        after = shown(self.memory)
        written = [turn[0] for session, turns in after.items() if session not in before for turn in turns]
        assert {f"b{at}" for at in told} <= set(written)
        assert len(written) in (len(told), len(told) + 1)
        assert {session: turns for session, turns in after.items() if session in before} == before
        return True

    def sound(self, memory: UserMemory | None = None) -> None:
        """Check that `verify` finds nothing, and no word that was deleted."""
        problems = [str(one.message) for one in (memory or self.memory).verify(deleted=sorted(self.gone))]
        assert problems == []

    def _picture(self, memory: UserMemory) -> dict[str, Any]:
        return picture(memory, QUESTIONS)

    def check(self) -> None:
        """Check the memory against an import of its export, itself made anew, and a memory of the turns that are left."""
        self.forest.resume("u")
        self.sound()
        self.rebuild()
        self.out_and_in()
        self.undo_all()
        assert [
            one for kind in ("pinned", "forgotten", "corrected") for one in self.memory.list(verdict=kind)
        ] == []
        self.sound()
        self.check_anew()
        self.forest.close()
        assert [mark for mark in self.gone if found_in_files(self.home, mark)] == []

    def check_anew(self) -> None:
        """It holds and finds what a memory does into which the turns that are left are put."""
        with self._open(self.folder / "anew") as forest:
            forest.register_user("u", display_name="Nora")
            for session, told in shown(self.memory).items():
                turns = [
                    {"id": id_, "speaker": who, "timestamp": said, "content": text}
                    for id_, who, said, text in told
                ]
                forest.ingest_session("u", session, turns)
            pictures: list[dict[str, Any]] = []
            for memory in (self.memory, forest.user("u")):
                memory.flush()
                memory.advance(force=True)
                pictures.append(self._picture(memory))
            same(pictures[0], pictures[1])


def _marks(text: str) -> list[str]:
    """Return the words of a turn that nobody else says."""
    return [word for word in text.rstrip(".").split() if len(word) == 9 and word.islower()]


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare two pictures, and name the first part that differs."""
    for part in one:
        mine, theirs = one[part], other[part]
        if part == "found":  # of equal scores the order may be any
            mine, theirs = (
                {q: sorted(rows, key=_by_score) for q, rows in found.items()} for found in (mine, theirs)
            )
        if mine != theirs:
            pairs = (
                [(mine.get(key), theirs.get(key)) for key in mine.keys() | theirs.keys()]
                if isinstance(mine, dict)
                else [(mine, theirs)]
            )
            for left, right in pairs:
                if left != right:
                    raise AssertionError(
                        f"{part} differ: {[x for x in left or () if x not in (right or ())]} | {[x for x in right or () if x not in (left or ())]}"
                    )


def _by_score(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return -row[3], row[0]


def _deletes(kind: str) -> Callable[[Life], bool]:
    return lambda life: life.delete(kind)


def _corrects(kind: str) -> Callable[[Life], bool]:
    return lambda life: life.correct(kind)


KINDS = ("turn", "session", "fact", "entity", "before", "window")
VERBS: dict[str, Callable[[Life], bool]] = {
    "add": Life.add,
    "add again": Life.add,
    "late turn": Life.late,
    "defer": Life.defer,
    "replace": Life.replace,
    **{f"delete {kind}": _deletes(kind) for kind in KINDS},
    **{kind: _corrects(kind) for kind in ("update", "forget", "pin")},
    "undo": Life.undo,
    "elsewhere": Life.elsewhere,
    "merge": Life.merge,
    "export and import": Life.out_and_in,
    "rebuild": Life.rebuild,
    "reopen": Life.reopen,
    "kill": Life.kill,
}
"""Name -> what it does; whether it did anything."""


def live(seed: int) -> Life:
    """Run one life and return it."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None) as folder:
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
        f"{args.lives} lives in {took:.0f} s, {len(failed)} failed {failed[:50]}\n"
        + "".join(f"  {name}: {done[name]}\n" for name in VERBS)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
