"""The benchmark of the timem index as a memory grows, in small: it measures what it says, and bounds that hold on any machine."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from memforest.models import HashEmbedder
from scaling import calendar
from scaling.memories import USER, copied, fill
from synthetic.turning import TurningTalk

TALK = TurningTalk(1)


def grown(folder: Path, turns: int) -> tuple[Path, Path]:
    """Return a memory without the index, and its copy with it, all memories written."""
    fill(folder, TALK, turns, 32)
    return folder, calendar.with_index(folder, 32)


def test_a_day_is_advanced_over_once(folder: Path) -> None:
    """A second `advance` writes nothing; every day of the bench adds the segments of its turns."""
    _, full = grown(folder / "talk", 60)
    with calendar.opened(copied(full, "look"), 32) as forest:
        before = forest.user(USER).stats().indexes["timem"]["levels"]["segment"]
    found = calendar.advanced(full, full, TALK, 1, 32)
    assert found.segments == before + (calendar.FIRST + 1) * calendar.TURNS // 2
    assert found.again_wrote == 0
    assert 0 < found.again < found.day


def test_the_index_is_stored_with_all_memories(folder: Path) -> None:
    """Nothing is left to write in the copy that is measured; the file and the arrays have more than vectors."""
    home, full = grown(folder / "talk", 60)
    with calendar.opened(copied(full, "look"), 32) as forest:
        memories = forest.user(USER).stats().indexes["timem"]["memories"]
    assert memories["waiting"] == 0 < memories["written"]
    found = calendar.stored(home, full)
    assert found.nodes > memories["written"]  # years, and the root
    assert found.in_memory > 1 < found.in_file
    assert found.file_a_node > 32 * 2


def test_both_indexes_are_asked(folder: Path) -> None:
    """A ratio is that of two times."""
    _, full = grown(folder / "talk", 60)
    found = calendar.asked(full, TALK, 2, 2, 32)
    assert found.turns >= 60
    assert 0 < found.ratio < 100
    assert min(found.memforest, found.timem) > 0


def test_writing_is_measured_beside_a_memory_without_the_index(folder: Path) -> None:
    """Tables have a row for each size."""
    text = calendar.report(
        folder, 1, [60, 90], dimension=32, questions=1, sessions=2, embedder=partial(HashEmbedder, 32)
    )
    assert [line for line in text.splitlines() if line and line[0] != "|"] == [
        "Writing",
        "Advancing",
        "Asking",
        "Storing",
    ]
    assert sum(line.startswith("| ") for line in text.splitlines()) == 4 + 1 + 2 + 2 + 2
