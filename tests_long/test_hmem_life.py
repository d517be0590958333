"""The life of a memory with the hmem index: whatever happens to it, trees, texts and graph are those of a memory made anew.

Few lives by default; `make test-long` runs more.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long import hmems
from tests_long.living import VERBS, Life
from tests_long.worlds import fast_folder, rows

from memforest import Config, MemForest
from memforest.trees.hmem_grow import SCHEDULES

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"cap": 3},
    {"schedule": "strict"},
    {"events": "turns", "schedule": (0.4, 0.3, 0.2)},
    {"schedule": (0.5, 0.4, 0.3)},
    {"cap": 3, "schedule": (0.3, 0.2, 0.1), "events": "turns"},
)
"""Settings of the index in lives."""
STEPS = 8


class HMemLife(Life):
    """A life of a memory with this index, with a look at its trees after each step, and at its texts."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.own = {"schedule": "loose", **SETTINGS[seed % len(SETTINGS)]}
        super().__init__(seed, folder)

    def _open(self, name: str, **settings: Any) -> MemForest:
        return MemForest(self.folder / name, self.configured(**settings))

    def configured(self, **settings: Any) -> Config:
        """Return the configuration of the life's memories."""
        return hmems.configured(self.own, **{**self.settings, "indexes": (hmems.NAME,), **settings})

    def run(self) -> None:
        """Live, and look at the trees after each step."""
        try:
            for name, forest in (("u", self.forest), ("other", self.other)):
                forest.register_user("u")
                for _ in range(self.random.randint(1, 3)):
                    self._ingest(forest, name)
            for _ in range(STEPS):
                verb = self.random.choice(list(OURS))
                self.done[verb] += bool(OURS[verb](self))
                self.look(verb)
        finally:
            self.forest.close()
            self.other.close()

    def shape(self) -> hmems.Shape:
        """Check the trees and return them."""
        schedule = self.own["schedule"]
        return hmems.sound(
            self.memory,
            self.folder / "u",
            zone_of(self.path),
            alphas=tuple(SCHEDULES[schedule] if isinstance(schedule, str) else schedule),
            kind=self.own.get("events", "facts"),
            cap=self.own.get("cap", hmems.CAP),
        )

    def look(self, after: str) -> None:
        """The trees are those of the events that are left; some of the time all is told, as it is in an index made anew."""
        self.shape()
        if self.random.random() < 0.4:
            return
        self.forest.resume("u")  # what was deferred is made memory of by a rebuild, too
        before = self.shape()
        self.forest.flush()
        assert self.shape() == before, after
        told = hmems.texts(self.folder / "u")
        assert told.keys() == {node for node in before if 1 <= node[0] <= 3}, after
        assert told == self.made_anew(), (after, self.own)

    def made_anew(self) -> dict[hmems.Node, str]:
        """Return the texts of an index that is made anew of a copy of the memory."""
        with tempfile.TemporaryDirectory(dir=fast_folder()) as fresh:
            folder = Path(fresh)
            with (
                closing(sqlite3.connect(self.path)) as conn,
                closing(sqlite3.connect(folder / self.path.name)) as copy,
            ):
                conn.backup(copy)
            with MemForest(folder, self.configured()) as forest:
                forest.user("u").rebuild(index=hmems.NAME)
                forest.flush()
            return hmems.texts(folder)

    def add_later(self) -> bool:
        """Drop the index, and add it again."""
        self.memory.add_index("flat")
        self.memory.drop_index(hmems.NAME)
        self.memory.add_index(hmems.NAME, self.own)
        self.memory.drop_index("flat")
        return True


def zone_of(path: Path) -> str:
    """Return the zone of a memory."""
    found = rows(path, "SELECT value FROM meta WHERE key = 'timezone'")
    return str(found[0][0]) if found else "UTC"


OURS: dict[str, Any] = {
    **VERBS,
    "add later": HMemLife.add_later,
}
"""Name -> what it does; whether it did anything."""


@pytest.mark.timeout(300)
def test_any_life_has_the_trees_and_the_texts_of_an_index_made_anew(soak_seed: int) -> None:
    """Ingest, growth, replacement, deletion, correction, merging, export and import, rebuild, expiry, added again.

    After each of them the trees are those of the events that are left, and what is told is what an index made anew tells.
    """
    few = soak_seed < 3
    for at in range(2 if few else 6):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            HMemLife(soak_seed * (2 if few else 6) + at, Path(folder)).run()
