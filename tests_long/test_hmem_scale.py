"""The benchmark of the hmem index as a memory grows, in small: it measures what it says, and bounds that hold on any machine."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long import hmems

from memforest.models import HashEmbedder
from scaling import events
from scaling.memories import copied
from synthetic.chat import Chat

CHAT = Chat(1)


def grown(folder: Path) -> Path:
    """Return a memory of some sessions with the index."""
    events.filled(folder / "chat", CHAT, 50, 384)
    return events.with_index(folder / "chat", 384)


def test_trees_are_grown_after_each_write(folder: Path) -> None:
    """Each write adds a fact, and both ways to grow take their time."""
    full = grown(folder)
    before = len(hmems.events(full))
    found = events.grown(full, CHAT, 1, 384)
    assert len(hmems.events(full)) > before
    assert min(found.anew, found.after_a_write) > 0
    assert found.facts >= 50


def test_both_indexes_are_asked(folder: Path) -> None:
    """A ratio is that of two times, also right after a write, which adds a fact each time."""
    full = copied(grown(folder), "asked")
    before = len(hmems.events(full))
    found = events.asked(full, CHAT, 2, 1, 384)
    assert len(hmems.events(full)) > before
    assert 0 < found.ratio < 100
    assert 0 < found.ratio_written < 1000


def test_tables_have_a_row_for_each_size(folder: Path) -> None:
    """Growing, asking and storing of every size, and writing beside a memory without the index."""
    text = events.report(
        folder, 1, [30, 60], dimension=384, questions=1, sessions=2, embedder=partial(HashEmbedder, 384)
    )
    titles = [line for line in text.splitlines() if line and line[0] != "|"]
    assert titles == ["Growing", "Asking", "Storing", "Writing"]
    assert sum(line.startswith("| ") for line in text.splitlines()) == 4 + 2 + 2 + 2 + 1
