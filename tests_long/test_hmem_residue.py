"""Deleted names and words are nowhere: not in aliases, labels, spellings, relations, decisions, profiles or memories of any level.

A model repeats all that it is told, names are told in several spellings, and people decide who is who.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long import hmems
from tests_long.deletions import KINDS, left_in, random_target, said_words, stored, word
from tests_long.test_graph import reading
from tests_long.worlds import fast_folder, file_of, rows

from memforest import MemForest
from memforest.errors import InputError, ModelError, NotFoundError
from memforest.graph.profile import profile_of
from memforest.records import SummaryRequest
from memforest.store import derived

START = datetime(2024, 2, 20, 9, tzinfo=timezone.utc)
DELETIONS = 200 if "MEMFOREST_SOAK_SEEDS" in os.environ else 12
ALPHAS = (0.3, 0.2, 0.1)
SAID = (
    "{A} {b} works at {C}.",
    "{A} is my sister.",
    "{A} visited {C} with {D}.",
    "My cousin {A} {b} married {D} in {C}.",
    "I moved to {C}, where {A} lives.",
    "We met {SHOUTED} at {C}.",
    "I live in {C} now.",
)
"""What is said of names; {b} is a second name, and {SHOUTED} the first one in capitals."""


class Parrot:
    """Repeats every word that it is told."""

    name = "parrot"
    remote = True

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the words of the inputs."""
        return [" ".join(["told", *sorted(said_words([*one.inputs, *one.history]))]) for one in requests]


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store texts as they are: a compressed one would hide what is looked for in the files."""
    monkeypatch.setattr(derived, "LEVEL", 0)


class Talk:
    """A memory of people with names that nobody else has, from which things are deleted."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random, self.folder, self.lost = Random(f"names {seed}"), folder, set[str]()
        self.there: Counter[str] = Counter()
        own = {"schedule": ALPHAS}
        config = hmems.configured(own, summariser=Parrot(), indexes=("hmem", "memforest"))
        self.forest = MemForest(folder, config)
        self.people: list[tuple[str, str, str]] = []
        self.number = 0

    def session(self) -> list[dict[str, Any]]:
        """Return turns that name people who were named before, in other spellings, or new ones."""
        turns = []
        self.number += 1
        start = START + timedelta(days=self.random.randrange(60), minutes=self.number)
        speakers = ["Nora", "Tomas"]
        if self.people and self.random.random() < 0.5:  # short forms of who speaks are aliases
            speakers[0] = " ".join(self.random.choice(self.people[-3:])[:2]).title()
        for at in range(self.random.randint(1, 4)):
            if not self.people or self.random.random() < 0.6:
                self.people.append((word(self.random), word(self.random), word(self.random)))
            one, other = self.random.choice(self.people[-5:]), self.random.choice(self.people[-5:])
            names = {"A": one[0].title(), "b": one[1].title(), "C": other[2].title(), "D": other[0].title()}
            text = self.random.choice(SAID).format(**names, SHOUTED=one[0].upper())
            said = (start + timedelta(minutes=at)).isoformat()
            turns.append({"speaker": speakers[at % 2], "content": text, "timestamp": said})
        return turns

    def write(self) -> None:
        """Store a session, and have all memories told."""
        self.forest.ingest_session("u", word(self.random), self.session())
        if self.random.random() < 0.7:
            self.forest.flush()

    def decide(self) -> None:
        """Decide that two are one, or of one that it is two."""
        memory = self.forest.user("u")
        names = [one.name for one in memory.entities()]
        if len(names) > 1:
            with suppress(InputError, NotFoundError):  # they are one already, or two
                one, other = self.random.sample(names, 2)
                decide = memory.merge_entities if self.random.random() < 0.6 else memory.split_entity
                decide(one, other)

    def delete(self) -> bool:
        """Delete something; its words are in no file, whatever was made of them. Return whether there was something."""
        self.count()
        memory = self.forest.user("u")
        self.before = stored(self.folder)
        target = random_target(self.random, memory, self.folder, self.random.choice(KINDS))
        if target is None:
            return False
        before = self.words()
        done = memory.delete(**target)
        self.lost = (self.lost | before) - self.words()
        assert left_in(self.folder, self.lost) == [], target
        return bool(done)

    def words(self) -> set[str]:
        """Return the made-up words that turns say, and those of who speaks and of the names of sessions."""
        found = stored(self.folder)
        speakers = (name for (name,) in rows(file_of(self.folder), "SELECT DISTINCT speaker FROM turn"))
        return said_words([*found.values(), *speakers, *(session for session, _ in found)])

    def count(self) -> None:
        """Note where names stand that may be deleted next."""
        path = file_of(self.folder)
        for table in ("alias", "name_use", "relation", "choice", "state"):
            self.there[table] += rows(path, f"SELECT count(*) FROM {table}")[0][0]
        self.there["memory"] += len(hmems.texts(self.folder))

    def check(self) -> None:
        """Verify finds nothing of what was deleted; trees and profiles are of what is there."""
        memory = self.forest.user("u")
        report = memory.verify(deleted=sorted(self.lost)[:50])
        assert report.ok, report.problems
        hmems.sound(memory, self.folder, alphas=ALPHAS)
        with reading(self.folder) as (tx, snapshot, graph):
            for place in range(len(graph)):
                told = " ".join(map(str, profile_of(tx, snapshot, graph, place))).lower()
                assert not said_words([told, *graph.names(place)]) & self.lost


@pytest.mark.timeout(600)
def test_no_name_is_left_anywhere(soak_seed: int) -> None:
    """Turns, sessions, statements, entities and windows are deleted, one after the other, between writing and deciding."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        talk = Talk(soak_seed, Path(made))
        with talk.forest:
            deleted = 0
            while deleted < DELETIONS:
                for do, often in ((talk.write, 0.8), (talk.decide, 0.3)):
                    if talk.random.random() < often or deleted < 3:
                        do()
                deleted += talk.delete()
                if deleted % 10 == 0:
                    talk.check()
            talk.forest.flush()
            assert left_in(talk.folder, talk.lost) == []
            talk.check()
    assert talk.lost
    assert all(talk.there[one] for one in ("alias", "name_use", "relation", "choice", "state", "memory")), (
        talk.there
    )
