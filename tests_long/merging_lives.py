"""Random lives of three memories that are merged in any direction: what must hold after each merge, by the public API alone."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder

from memforest import MemForest

NAMES = ("a", "b", "c")
SESSIONS = ("live", "talk", "trip")
SPEAKERS = ("Otto", "Mia", "Ida")
_SAID = (
    "I bought a {0} in Porto.",
    "My sister {0} is a nurse.",
    "I work at {0} now.",
    "{0} adopted two dogs.",
    "I moved to {0} last week.",
    "I like {0} and long walks.",
    "Did you see {0}?",
)
_OFTEN = ("Yes.", "I live in Oslo.", "She told me about it.", "She works there now.", "Hello!")
_MARKED = re.compile(r"\bzq(?:[a-y][aeiou]){3}k\b")
STEPS = 40


def marked(text: str) -> list[str]:
    """Return the made-up words of a text."""
    return _MARKED.findall(text.lower())


class Lives:
    """Three memories, and what is known of each: the words that were said and those that were deleted."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.deleted: dict[str, set[str]] = {name: set() for name in NAMES}
        self.minute = self.words = 0
        self.done: list[str] = []
        self.forest = self._open()

    def _open(self) -> MemForest:
        return MemForest(self.folder / "m", fast_config(embedder="none"))

    def run(self, steps: int = STEPS) -> None:
        """Live; the memories are closed in the end."""
        try:
            for _ in range(steps):
                kinds = [*["add"] * 6, *["session"] * 2, "replace", *["delete"] * 4, *["correct"] * 3]
                kind = self.random.choice([*kinds, *["merge"] * 7, "reopen"])
                name = self.random.choice(NAMES)
                self.done.append(f"{kind} {name}")
                getattr(self, kind)(name)
            for name in NAMES:
                self.merge(name)
        finally:
            self.forest.close()

    def _word(self) -> str:
        self.words += 1
        draw = Random(self.words * 7919)
        return "zq" + "".join(draw.choice("bcdfglmnprtv") + draw.choice("aeiou") for _ in range(3)) + "k"

    def _turn(self) -> dict[str, Any]:
        self.minute += 1
        pieces = [
            self.random.choice(_OFTEN)
            if self.random.random() < 0.3
            else self.random.choice(_SAID).format(self._word().title())
            for _ in range(self.random.randint(1, 3))
        ]
        at = f"2024-03-{1 + self.minute // 600:02}T{10 + self.minute % 600 // 60}:{self.minute % 60:02}:00Z"
        return {
            "speaker": self.random.choice(SPEAKERS),
            "content": " ".join(pieces),
            "timestamp": at,
            "metadata": {"note": pieces[-1]} if self.random.random() < 0.2 else {},
        }

    def add(self, name: str) -> None:
        """Say something, sometimes to two memories alike."""
        session = self.random.choice(SESSIONS)
        turns = [self._turn() for _ in range(self.random.randint(1, 3))]
        for other in {name, self.random.choice(NAMES)} if self.random.random() < 0.2 else {name}:
            self.forest.user(other).add(turns, session_id=session)

    def session(self, name: str) -> None:
        """Say a session of its own."""
        self.minute += 1
        turns = [self._turn() for _ in range(self.random.randint(1, 6))]
        self.forest.ingest_session(name, f"{name}{self.minute}", turns)

    def replace(self, name: str) -> None:
        """Say a session anew, all of it or with some turns as they were."""
        if not self.forest.has_user(name):
            return
        memory = self.forest.user(name)
        before = self.held(name)
        for one in memory.sessions():
            if self.random.random() < 0.3:
                kept = memory.turns(one.session_id)[: self.random.randint(0, 2)]
                turns = [
                    {"speaker": turn.speaker, "content": turn.text, "timestamp": turn.said.isoformat()}
                    for turn in kept
                ]
                turns.append(self._turn())
                self.forest.ingest_session(name, one.session_id, turns, replace=True)
                break
        self._note(name, before)

    def delete(self, name: str) -> None:
        """Delete a turn, a session, a fact, a speaker or a time."""
        if not self.forest.has_user(name) or not self.forest.user(name).sessions():
            return
        memory, before = self.forest.user(name), self.held(name)
        kind = self.random.choice(("turn", "turn", "fact", "fact", "session", "entity", "during"))
        session = self.random.choice(memory.sessions()).session_id
        turn = self.random.choice(memory.turns(session))
        facts = memory.list(limit=1000)
        if kind == "turn":
            memory.delete(turn=(session, turn.id))
        elif kind == "session" and self.random.random() < 0.5:
            memory.delete(session_id=session)
        elif kind == "fact" and len(facts):
            memory.delete(self.random.choice(list(facts)).fact_id)
        elif kind == "entity" and self.random.random() < 0.3:
            memory.delete(entity=self.random.choice([turn.speaker, *map(str.title, marked(turn.text))]))
        elif kind == "during" and self.random.random() < 0.3:
            memory.delete(during=(None, turn.said))
        self.done[-1] += f" {kind}"
        self._note(name, before)

    def correct(self, name: str) -> None:
        """Pin, forget or update a statement, or take that back."""
        if not self.forest.has_user(name) or not len(self.forest.user(name).list(limit=1000)):
            return
        memory = self.forest.user(name)
        one = self.random.choice(list(memory.list(limit=1000)))
        kind = self.random.choice(
            ("forget" if one.verdict == "pinned" else "pin", "forget", "update", "update")
        )
        word = next(iter(marked(one.text)), "it")
        made = (
            memory.update(
                one.fact_id, f"I saw {word.title()} in Rome {len(self.done)} times. Mia works at Acme."
            )
            if kind == "update"
            else getattr(memory, kind)(one.fact_id)
        )
        if self.random.random() < 0.3:
            memory.undo(made.key)

    def reopen(self, name: str) -> None:
        """Close all memories and open them again."""
        self.forest.close()
        self.forest = self._open()

    def merge(self, name: str) -> None:
        """Merge another memory into one, twice, and look at what came of it."""
        there = self.random.choice([one for one in NAMES if one != name])
        if not self.forest.has_user(there):
            return
        self.done[-1] += f" <- {there}"
        wanted = (self.held(name) | self.held(there)) - self.deleted[name]
        for again in range(2):
            before = self.export(name) if again else []
            self.forest.user(name).merge(there, same_person=False)
            after = self.export(name)
            if again:
                assert before == after, [one for one in after if one not in before][:3]
            self.check(name, after, wanted)

    def held(self, name: str) -> set[str]:
        """Return the made-up words of all turns of a memory."""
        return set(self.counted(name))

    def counted(self, name: str) -> Counter[str]:
        """Return how often a memory has each made-up word."""
        if not self.forest.has_user(name):
            return Counter()
        memory = self.forest.user(name)
        said = (turn.text for one in memory.sessions() for turn in memory.turns(one.session_id))
        return Counter(word for text in said for word in marked(text))

    def _note(self, name: str, before: set[str]) -> None:
        self.deleted[name] |= before - self.held(name)

    def export(self, name: str) -> list[str]:
        """Return the lines of a memory's export, but those that tell of calls and of the file."""
        path = self.folder / "out.jsonl"
        self.forest.user(name).export(path, overwrite=True)
        lines = path.read_text(encoding="utf-8").splitlines()[1:-1]
        return [line for line in lines if '"record":"spent"' not in line.replace(" ", "")]

    def check(self, name: str, exported: list[str], wanted: set[str]) -> None:
        """Check a memory that another one was just merged into."""
        memory, gone = self.forest.user(name), self.deleted[name]
        counted = self.counted(name)
        assert counted.keys() == wanted, (wanted - counted.keys(), counted.keys() - wanted)
        assert max(counted.values(), default=1) == 1, counted.most_common(3)
        assert memory.verify().problems == ()
        assert memory.verify(deleted=sorted(gone)).problems == ()
        told = [*exported, *(one.text for one in memory.list(limit=1000))]
        told += [one.text or "" for fact in memory.list(limit=1000) for one in memory.history(fact.fact_id)]
        told += [one.text for one in memory.search(f"Who or what is {min(gone, default='it')}?").evidence]
        assert not [text for text in told if not gone.isdisjoint(marked(text))]


def live(seed: int, steps: int = STEPS) -> None:
    """Run one life."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        lives = Lives(seed, Path(made))
        try:
            lives.run(steps)
        except BaseException as exc:
            exc.args = (*exc.args, f"seed {seed}", lives.done)
            raise
