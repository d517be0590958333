"""When the timem index writes what: which memories a model is asked for, after what, how often, and what a failure costs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_timem_tree import START, said
from tests_long.timems import configured, nodes, sound, tree, waiting
from tests_long.worlds import fast_folder
from tests_long.writing_double import Writer, text_of

from memforest import MemForest
from memforest.errors import ModelError
from memforest.records import SummaryRequest

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
FIVE = ("segment", "session", "day", "week", "profile")


@pytest.fixture(name="folder")
def _folder() -> Any:
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        yield Path(made)


class Clock:
    """A clock that is set."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return what it is set to."""
        return self.now


def opened(
    folder: Path, writer: Writer, own: dict[str, Any] | None = None, clock: Clock | None = None
) -> MemForest:
    """Return a forest whose only index is timem, with a model that writes; a write itself makes what it can."""
    return MemForest(folder, configured(own, summariser=writer, clock=clock or Clock(), refresh="path"))


class Telling(Writer):
    """Writes a number that changes with anything it is shown."""

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the texts."""
        await super().summarise(requests)
        return [f"{text_of(one)} {crc32(repr(one).encode())}" for one in requests]


def told(forest: MemForest, days: list[int], turns: int = 4) -> None:
    """Store a session on each of some days after the start."""
    for day in days:
        forest.ingest_session("u", f"s{day:03}", said(START + timedelta(days=day), turns))


def test_a_year_is_written_once(folder: Path) -> None:
    """One call for each segment and session, and for each window with more than one below it; a second time none."""
    writer = Writer()
    with opened(folder, writer) as forest:
        told(forest, [0, 1, 3, 6, 40, 41])
        memory = forest.user("u")
        memory.advance()
        # 27-28 February are a week, 1 March one, 4 March one; 7 and 8 April lie in two weeks of one month.
        assert writer.counts() == {"segment": 12, "session": 6, "week": 1, "profile": 2}, (
            "a month of one week passes its text"
        )
        assert waiting(folder) == []
        for _ in range(2):
            memory.advance()
            assert not writer.counts()
        sound(memory, folder)


def test_without_passing_through_every_window_is_asked_for(folder: Path) -> None:
    """And as many calls wait for one another as there are levels, whatever the number of days."""
    writer = Writer()
    with opened(folder, writer, {"pass_through": False}) as forest:
        told(forest, [0, 1, 3, 6, 40, 41])
        forest.user("u").advance()
        assert writer.counts() == {"segment": 12, "session": 6, "day": 6, "week": 5, "profile": 3}


def test_what_is_written_with_a_write(folder: Path) -> None:
    """Segments at once; a session when the next one begins; windows when something is said behind them; the last at `advance`."""
    writer, clock = Writer(), Clock(START + timedelta(days=2))
    with opened(folder, writer, {"pass_through": False}, clock) as forest:
        told(forest, [0])
        assert writer.counts() == {"segment": 2}
        told(forest, [1])
        assert writer.counts() == {"segment": 2, "session": 1, "day": 1}
        told(forest, [3])
        assert writer.counts() == {"segment": 2, "session": 1, "day": 1, "week": 1, "profile": 1}
        clock.now = START + timedelta(days=3, minutes=5)
        forest.user("u").advance()
        assert not writer.counts()
        clock.now += timedelta(minutes=10)
        forest.user("u").advance()
        assert writer.counts() == {"session": 1}
        forest.user("u").advance(force=True)
        assert writer.counts() == {"day": 1, "week": 1, "profile": 1}
        forest.user("u").advance(as_of=START + timedelta(days=900))
        assert not writer.counts()


def test_an_earlier_time_closes_nothing_later(folder: Path) -> None:
    """`as_of` before the last time, and a clock that goes back, are no error."""
    writer, clock = Writer(), Clock()
    with opened(folder, writer, {"pass_through": False}, clock) as forest:
        told(forest, [0])
        writer.counts()
        forest.user("u").advance(as_of=START + timedelta(days=1))
        assert writer.counts() == {"session": 1, "day": 1}
        forest.user("u").advance(as_of=START - timedelta(days=99))
        assert not writer.counts()
        clock.now = START - timedelta(days=1)
        forest.user("u").advance()
        assert not writer.counts()
        clock.now = NOW
        forest.user("u").advance()
        assert writer.counts() == {"week": 1, "profile": 1}


@pytest.mark.parametrize("history_of", ["children", "memories"])
def test_history_comes_before(folder: Path, history_of: str) -> None:
    """At most three texts, all of what ended before the window; of a segment what was said before it in its session."""
    writer = Writer()
    with opened(folder, writer, {"history_of": history_of, "pass_through": False}) as forest:
        told(forest, [9, 0, 30, 1, 14, 2, 3, 60])
        forest.user("u").advance(force=True)
    segments = [one for one in writer.asked if one.prompt == "segment"]
    assert {len(one.history) for one in segments} == {0, 1}
    for one in writer.asked:
        assert len(one.history) <= 3
        for text in one.history if one.prompt != "segment" else ():
            when = text.split(" of ")[1]
            assert when < (one.window or one.start.isoformat()) or history_of == "children"
    last = {one.prompt: one for one in sorted(writer.asked, key=lambda one: one.start)}
    own = {"session": "segment", "day": "session", "week": "day", "profile": "week"}
    for prompt in FIVE[1:]:
        kind = own[prompt] if history_of == "children" else prompt
        assert last[prompt].history, prompt
        assert all(text.startswith(f"{kind} of") for text in last[prompt].history), prompt


def test_children_are_written_at_once_and_memories_one_after_the_other(folder: Path) -> None:
    """The longest chain of calls, by the request's own history: levels, or levels and the windows of each."""
    chains = {}
    for history_of in ("children", "memories"):
        writer = Writer()
        with opened(folder / history_of, writer, {"history_of": history_of, "pass_through": False}) as forest:
            told(forest, [0, 1, 2, 3, 7, 9], turns=8)
            forest.user("u").advance()
        deep: dict[str, int] = {}
        for one in writer.asked:
            before = (*one.inputs, *one.history)
            deep[text_of(one)] = 1 + max((deep.get(text, 0) for text in before), default=0)
        chains[history_of] = max(deep.values())
    assert chains["children"] == 5
    assert chains["memories"] > 10


def test_what_is_said_late_is_written_again_with_what_is_above_it_and_what_had_it_as_history(
    folder: Path,
) -> None:
    """And nothing else: of ten days one is told again, and those behind it that were written after it."""
    writer = Writer()
    with opened(folder, writer, {"pass_through": False, "history": (0, 0, 0, 0, 0)}) as forest:
        told(forest, list(range(10)))
        memory = forest.user("u")
        memory.advance()
        writer.counts()
        memory.add(said(START + timedelta(days=2, hours=1), 1)[0], session_id="s002")
        memory.advance()
        assert writer.counts() == {"segment": 1, "session": 1, "day": 1, "week": 1, "profile": 1}
        sound(memory, folder)


def test_what_was_written_once_is_not_asked_for_again(folder: Path) -> None:
    """Not after `rebuild`, and not of a session that comes back as it was."""
    writer = Writer()
    with opened(folder, writer, {"pass_through": False}) as forest:
        told(forest, list(range(6)))
        memory = forest.user("u")
        memory.advance()
        before = tree(folder, texts=True)
        writer.counts()
        memory.rebuild(stale=True)
        memory.rebuild()
        memory.advance()
        assert not writer.counts()
        memory.add(said(START + timedelta(days=5, hours=1), 1)[0], session_id="s005")
        memory.delete(turn=("s005", memory.turns("s005")[-1].id))
        writer.counts()
        memory.advance()
        assert tree(folder, texts=True) == before
        assert "segment" not in writer.counts()


def test_a_window_that_fails_stops_what_is_above_it_and_what_follows_it(folder: Path) -> None:
    """The others are written, and the next call goes on; other levels are not asked again."""
    writer = Writer(lambda one: "no such day" if one.window == "2024-02-28" else None)
    with opened(folder, writer, {"pass_through": False}) as forest:
        told(forest, [0, 1, 8, 60])
        memory = forest.user("u")
        memory.advance()
        found = writer.counts()
        assert found["segment"] == 8
        assert found["session"] == 4
        assert (
            found["day"] == 3 + 3
        )  # that which fails does with each write behind it, and when it is asked for
        assert waiting(folder) == [
            ("month", "2024-02"), ("week", "2024-02/2024-W09"), ("day", "2024-02-28"),
            ("month", "2024-03"), ("week", "2024-03/2024-W10"), ("month", "2024-04"), ("week", "2024-04/2024-W17"),
        ]  # fmt: skip
        assert memory.verify().ok
        assert any("no such day" in one for one in forest.flush().warnings)
        writer.counts()
        writer.fails = lambda _: None
        memory.advance()
        assert writer.counts() == {"day": 1, "week": 3, "profile": 3}
        assert waiting(folder) == []
        sound(memory, folder)


def test_advance_says_why_a_window_is_not_written(folder: Path) -> None:
    """The reason is a note in `stats` until it is written."""
    writer = Writer(lambda one: "no such day" if one.prompt == "day" else None)
    with opened(folder, writer, {"pass_through": False}) as forest:
        told(forest, [0])
        memory = forest.user("u")
        memory.advance()
        assert "no such day" in " ".join(memory.stats().notes)
        writer.fails = lambda _: None
        memory.advance()
        assert "no such day" not in " ".join(memory.stats().notes)


def test_without_a_model_what_has_ended_is_written_when_it_is_read(folder: Path) -> None:
    """A write makes no text; `advance` does."""
    with MemForest(folder, configured(clock=Clock())) as forest:
        told(forest, [0, 1])
        assert all(one[5] is None for one in nodes(tree(folder, texts=True)))
        forest.user("u").advance()
        assert waiting(folder) == []


@pytest.mark.parametrize("history_of", ["children", "memories"])
def test_after_any_change_it_is_written_as_if_it_had_always_been_so(
    folder: Path, history_of: str, soak_seed: int
) -> None:
    """Late turns, late sessions and deletions, by a model that tells all it is shown: texts are those of a memory of what is left."""
    random = Random(f"late {soak_seed} {history_of}")
    writer = Telling()
    own = {"history_of": history_of, "pass_through": random.random() < 0.5, "segment": random.choice((1, 2))}
    with opened(folder, writer, own) as forest:
        told(forest, random.sample(range(40), 8), turns=random.randint(3, 9))
        memory = forest.user("u")
        for step in range(8 if soak_seed < 3 else 20):
            sessions = [one.session_id for one in memory.sessions()]
            name = random.choice(sessions)
            kind = random.choice(("late session", "late turn", "delete a turn", "delete a session"))
            if kind == "late session":
                day = random.randrange(60)
                start = START + timedelta(days=day, minutes=random.randrange(1200))
                forest.ingest_session("u", f"late{step}", said(start, random.randint(1, 5)))
            elif kind == "late turn":
                last = memory.turns(name)[-1].said
                memory.add(said(last + timedelta(minutes=1), 1)[0], session_id=name)
            elif kind == "delete a turn":
                memory.delete(turn=(name, random.choice(memory.turns(name)).id))
            elif len(sessions) > 2:
                forest.delete_session("u", name)
            memory.advance()
            sound(memory, folder, segment=own["segment"])
            assert waiting(folder) == []
        left = {one.session_id: memory.turns(one.session_id) for one in memory.sessions()}
    with opened(folder / "fresh", Telling(), own) as forest:
        for name, turns in random.sample(sorted(left.items()), len(left)):
            spoken = [
                {"id": one.id, "speaker": one.speaker, "content": one.text, "timestamp": one.said}
                for one in turns
            ]
            forest.ingest_session("u", name, spoken)
        forest.user("u").advance()
    assert tree(folder / "fresh", texts=True) == tree(folder, texts=True)
