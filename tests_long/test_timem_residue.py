"""Deleted words are in no text of any level: a model that repeats all it was ever told, in chains of history."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.deletions import KINDS, left_in, random_target, said_words, stored, word
from tests_long.test_timem_tree import how, said
from tests_long.timems import configured, nodes, sound, tree, waiting
from tests_long.worlds import fast_folder
from tests_long.writing_double import Writer

from memforest import MemForest
from memforest.errors import ModelError, SessionConflictError, StepError, TimestampError
from memforest.records import SummaryRequest
from memforest.store import derived
from memforest.trees.timem_grow import MEMORY_LEVELS

START = datetime(2024, 2, 20, 9, tzinfo=timezone.utc)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"history_of": "memories", "pass_through": False},
    {"history": (1, 1, 1, 1, 1), "pass_through": False},
    {"history_of": "memories", "history": (1, 1, 1, 1, 1), "segment": 2},
    {"history": (0, 3, 1, 2, 0, 1), "levels": ("segment", "session", "day", "week", "month", "year")},
    {"history": (2, 5, 5), "levels": ("segment", "session", "month")},
)


class Parrot:
    """Repeats every word it is told, in a text or in the reason why there is none.

    Args:
        random: of what fails.
    """

    name = "parrot"
    remote = True

    def __init__(self, random: Random) -> None:
        self.random, self.often = random, 0.0

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the words of inputs and history."""
        made: list[str | ModelError] = []
        for one in requests:
            text = " ".join(["told", *sorted(said_words([*one.inputs, *one.history]))])
            made.append(StepError(f"cannot tell {text}") if self.random.random() < self.often else text)
        return made


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store texts as they are: a compressed one would hide what is looked for in the files."""
    monkeypatch.setattr(derived, "LEVEL", 0)


@pytest.fixture(name="folder")
def _folder() -> Any:
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        yield Path(made)


class Talk:
    """A memory that is written, told again and deleted from, with a model that repeats everything."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random, self.folder = Random(f"residue {seed}"), folder
        self.now = START + timedelta(days=90)
        self.own = SETTINGS[seed % len(SETTINGS)]
        self.parrot, self.lost = Parrot(self.random), set[str]()
        self.forest = MemForest(folder, configured(self.own, summariser=self.parrot, clock=lambda: self.now))
        self.forest.register_user("u")

    def turns(self, start: datetime) -> list[dict[str, Any]]:
        """Return turns that each say a word which nobody else says; some sessions last into the next day."""
        apart = self.random.choice((1, 1, 700))
        return [
            {
                "speaker": ("Ana", "Bob")[at % 2],
                "content": f"I saw {word(self.random)}.",
                "timestamp": (start + timedelta(minutes=at * apart)).isoformat(),
            }
            for at in range(self.random.randint(1, 5))
        ]

    def write(self) -> None:
        """Store a session somewhere in time, replace one, or append to one."""
        number = self.random.randrange(10)
        start = START + timedelta(days=number * 1.4, hours=self.random.randint(-30, 30))
        kind = self.random.random()
        with suppress(SessionConflictError, TimestampError):  # it is there, or has a later turn
            if kind < 0.3:
                self.forest.user("u").add(self.turns(start)[0], session_id=f"s{number}", infer=False)
            else:
                turns = self.turns(start)
                self.forest.ingest_session("u", f"s{number}", turns, replace=kind < 0.5, infer=False)

    def advance(self) -> None:
        """Write what is due, all of it or some."""
        self.now = START + timedelta(days=self.random.choice((4, 9, 20, 90)))
        self.forest.user("u").advance(force=self.random.random() < 0.5)

    def delete(self) -> None:
        """Delete something; its words are in no file, whatever was written of them."""
        memory, kind = self.forest.user("u"), self.random.choice([one for one in KINDS if one != "fact"])
        target = random_target(self.random, memory, self.folder, kind)
        if target is not None:
            memory.delete(**target)

    def step(self) -> None:
        """Do one of them, and look for the words of what went."""
        self.parrot.often = self.random.choice((0.0, 0.0, 0.3))
        before = said_words(stored(self.folder).values())
        self.random.choice((self.write, self.write, self.advance, self.delete))()
        here = said_words(stored(self.folder).values())
        self.lost = (self.lost | before) - here
        left = left_in(self.folder, self.lost)
        assert not left, left


@pytest.mark.timeout(300)
def test_no_level_tells_what_was_deleted(soak_seed: int) -> None:
    """Of turns, sessions and windows, in any order of writing, with failures, whatever was history when a text was made."""
    lost = set[str]()
    for at in range(1 if soak_seed < 3 else 10):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
            talk = Talk(soak_seed * 10 + at + 1, Path(made))
            with talk.forest:
                for _ in range(18 if soak_seed < 3 else 30):
                    talk.step()
                talk.parrot.often = 0.0
                memory = talk.forest.user("u")
                memory.advance(force=True)
                sound(memory, talk.folder, **how(talk.own))
                assert waiting(talk.folder, talk.own.get("levels", MEMORY_LEVELS[:5])) == []
                assert memory.verify(deleted=sorted(talk.lost)[:50]).ok
                lost |= talk.lost
    assert lost


def test_what_follows_a_memory_that_fails_waits_for_it(folder: Path) -> None:
    """Nothing is written without its history; when that is made, each is written once."""
    writer = Writer(lambda one: "no" if one.prompt == "session" and one.start == START else None)
    with MemForest(
        folder, configured({"pass_through": False, "history_of": "memories"}, summariser=writer)
    ) as forest:
        for day in (0, 1):
            forest.ingest_session("u", f"s{day}", said(START + timedelta(days=day), 4), infer=False)
        memory = forest.user("u")
        memory.advance()
        assert writer.counts().keys() == {"segment", "session"}
        writer.fails = lambda _: None
        memory.advance()
        assert writer.counts() == {"session": 2, "day": 2, "week": 1, "profile": 1}
        assert not memory.stale().summaries


def test_a_session_that_grows_into_the_next_leaves_no_word_there(folder: Path) -> None:
    """It was the history of the next, and is not any more; what is deleted of it is told in no text behind it."""
    random = Random("grows")
    parrot, words = Parrot(random), [word(random) for _ in range(4)]
    with MemForest(folder, configured({"pass_through": False}, summariser=parrot)) as forest:
        memory = forest.user("u")
        for name, hour, own in (("a", 0, words[0]), ("b", 2, words[1]), ("c", 9, words[2])):
            turn = {**said(START + timedelta(hours=hour), 1)[0], "content": f"I saw {own}."}
            memory.add(turn, session_id=name, infer=False)
            memory.advance(force=True)
        assert words[0] in texts_of(folder, "b")
        turn = {**said(START + timedelta(hours=5), 1)[0], "content": f"I saw {words[3]}."}
        memory.add(turn, session_id="a", infer=False)
        memory.delete(session_id="a")
        assert left_in(folder, [words[0], words[3]]) == []
        memory.advance(force=True)
        assert left_in(folder, [words[0], words[3]]) == []
        assert words[1] in texts_of(folder, "b")


def texts_of(folder: Path, session: str) -> str:
    """Return what is written of a session and its segments."""
    found = [node for one in nodes(tree(folder, texts=True)) if one[1] == session for node in nodes(one)]
    return " ".join(one[5] or "" for one in found)


def test_settings_of_several_values_are_not_taken_for_others(folder: Path) -> None:
    """They are kept as lists, and given as tuples."""
    with MemForest(folder, configured({"history": (1, 2, 3, 1, 1)})) as forest:
        forest.ingest_session("u", "s", said(START, 2), infer=False)
        assert not forest.user("u").stale().indexes
    with MemForest(folder, configured({"history": (1, 2, 3, 1, 2)})) as forest:
        assert "history" in forest.user("u").stale().indexes["timem"]


def test_a_segment_names_who_speaks_in_it(folder: Path) -> None:
    """Somebody who joins a session later has no segment written again in which they say nothing."""
    writer = Writer()
    with MemForest(folder, configured({}, summariser=writer)) as forest:
        forest.ingest_session("u", "s", said(START, 4), infer=False)
        memory = forest.user("u")
        memory.advance()
        writer.counts()
        memory.add({**said(START + timedelta(hours=1), 1)[0], "speaker": "Carl"}, session_id="s", infer=False)
        memory.advance()
        assert [one.participants for one in writer.asked if one.prompt == "segment"] == [("Carl",)]
