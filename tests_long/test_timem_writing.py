"""When the timem index writes what: which memories a model is asked for, after what, how often, and what a failure costs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_timem_tree import START, said
from tests_long.timems import configured, jobs, sound, tree
from tests_long.worlds import fast_folder
from tests_long.writing_double import Writer, text_of

from memforest import MemForest
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
    """Return a forest whose only index is timem, with a model that writes."""
    return MemForest(folder, configured(own, summariser=writer, clock=clock or Clock()))


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
        assert set(jobs(folder).values()) == {"done"}
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


def test_a_text_that_comes_out_the_same_is_not_asked_for_again(folder: Path) -> None:
    """What was marked and is made of the very same texts keeps its own, without a call."""
    writer = Writer()
    with opened(folder, writer, {"pass_through": False}) as forest:
        told(forest, list(range(6)))
        memory = forest.user("u")
        memory.advance()
        writer.counts()
        memory.rebuild(stale=True)
        memory.advance()
        assert not writer.counts()


def failing(*prompts: str) -> Callable[[SummaryRequest], str | None]:
    """Return what fails for some prompts."""
    return lambda one: f"no {one.prompt} today" if one.prompt in prompts else None


def test_a_window_that_fails_stays_due_and_stops_only_what_is_above_it(folder: Path) -> None:
    """The others are written, the reason is told, and the next call goes on; other levels are not asked again."""
    writer = Writer(lambda one: "no such day" if one.window == "2024-02-28" else None)
    clock = Clock()
    with opened(folder, writer, {"pass_through": False}, clock) as forest:
        told(forest, [0, 1, 8])
        memory = forest.user("u")
        memory.advance()
        found = writer.counts()
        assert found["day"] == 4  # that which fails with a write, and again when it is asked for
        assert found["week"] == found["profile"] == 1  # those of March
        assert "no such day" in " ".join(memory.stats().notes)
        assert memory.verify().ok
        writer.fails = lambda _: None
        memory.advance()
        # Those of March were written without the ones before them, and are told again.
        assert writer.counts() == {"day": 1, "week": 2, "profile": 2}
        assert not [one for one in memory.stats().notes if "written" in one]
        sound(memory, folder)


def test_a_window_is_not_tried_for_ever(folder: Path) -> None:
    """After some tries it is given up, and `advance` grants it one more each time it is asked."""
    writer, clock = Writer(failing("day")), Clock()
    with opened(folder, writer, {"pass_through": False}, clock) as forest:
        told(forest, [0])
        memory = forest.user("u")
        for _ in range(12):
            memory.advance()
            clock.now += timedelta(hours=2)
        assert writer.counts()["day"] == 12
        assert jobs(folder)["day:2024-02-27"] == "failed"
        for day in (100, 101, 102):
            told(forest, [day])  # a write alone does not try it again for ever
        assert writer.counts()["day"] == 2
        assert memory.verify().ok


def test_without_a_model_what_has_ended_is_written_when_it_is_read(folder: Path) -> None:
    """A write places segments and makes no text; `advance` does."""
    with MemForest(folder, configured(clock=Clock())) as forest:
        told(forest, [0, 1])
        assert all(one[-2] is None for one in _nodes(tree(folder, texts=True)))
        forest.user("u").advance()
        assert all(one[-2] for one in _nodes(tree(folder, texts=True)) if one[0] < 5)


def _nodes(found: Any) -> list[Any]:
    below = [one for one in found[4] if isinstance(one, tuple)]
    return [found, *(node for one in below for node in _nodes(one))]


@pytest.mark.parametrize("history_of", ["children", "memories"])
def test_after_any_change_nothing_is_stale(folder: Path, history_of: str, soak_seed: int) -> None:
    """Late turns, late sessions and deletions: what is written again is all whose children or history are others now."""
    random = Random(f"late {soak_seed} {history_of}")
    writer = Writer()
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
            assert "timem" not in str(memory.stale()), kind
            writer.counts()
            memory.rebuild(stale=True)
            memory.advance()
            assert not writer.counts(), kind
