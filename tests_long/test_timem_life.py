"""The life of a memory with the timem index: whatever happens to it, tree and texts are those of an index made anew.

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

from tests_long.living import VERBS, Life
from tests_long.test_timem_tree import how
from tests_long.timems import NAME, configured, jobs, sound, tree
from tests_long.worlds import fast_folder, file_of

from memforest import Config, MemForest

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"segment": 2, "history_of": "memories"},
    {"pass_through": False},
    {"levels": ("segment", "session", "week", "month"), "history": (1, 2, 1, 3)},
    {"levels": ("segment", "session", "day", "week", "month", "year"), "history_of": "memories"},
    {"levels": ("segment", "session"), "history": (0, 0)},
)
"""Settings of the index in lives."""
STEPS = 8


class TiMemLife(Life):
    """A life of a memory with this index, with a look at its tree after each step, and at its texts."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.own = SETTINGS[seed % len(SETTINGS)]
        super().__init__(seed, folder)

    def _open(self, name: str, **settings: Any) -> MemForest:
        return MemForest(self.folder / name, self.configured(**settings))

    def configured(self, **settings: Any) -> Config:
        """Return the configuration of the life's memories."""
        return configured(self.own, **{**self.settings, "indexes": (NAME,), **settings})

    def run(self) -> None:
        """Live, and look at the tree after each step."""
        try:
            for name, forest in (("u", self.forest), ("other", self.other)):
                forest.register_user("u")
                for _ in range(self.random.randint(1, 3)):
                    self._ingest(forest, name)
            for _ in range(STEPS):
                verb = self.random.choice(list(OURS))
                self.done[verb] += OURS[verb](self)
                self.look(verb)
        finally:
            self.forest.close()
            self.other.close()

    def look(self, after: str) -> None:
        """The tree is that of the turns that are left; some of the time all is written, as it is in an index made anew."""
        folder = self.folder / "u"
        sound(self.memory, folder, **how(self.own))
        if self.random.random() < 0.4:
            return
        force = self.random.random() < 0.5
        self.memory.advance(force=force)
        sound(self.memory, folder, **how(self.own))
        assert {one.name: one.lag for one in self.memory.indexes()}[NAME] == 0, after
        assert not [key for key, state in jobs(folder).items() if state != "done"] or not force, after
        mine, made = tree(folder, texts=True), self.made_anew(force=force)
        assert written(mine) == written(made), (after, self.own)

    def made_anew(self, *, force: bool) -> Any:
        """Return the tree with its texts as an index has them that is made anew of a copy of the memory."""
        with tempfile.TemporaryDirectory(dir=fast_folder()) as fresh:
            with (
                closing(sqlite3.connect(self.path)) as conn,
                closing(sqlite3.connect(Path(fresh) / self.path.name)) as copy,
            ):
                conn.backup(copy)
            with MemForest(fresh, self.configured()) as forest:
                forest.user("u").rebuild(index=NAME)
                forest.user("u").advance(force=force)
            assert file_of(Path(fresh)).name == self.path.name
            return tree(Path(fresh), texts=True)

    def add_later(self) -> bool:
        """Drop the index, and add it again."""
        self.memory.add_index("flat")
        self.memory.drop_index(NAME)
        self.memory.add_index(NAME, self.own)
        self.memory.drop_index("flat")
        return True


def written(found: Any) -> list[Any]:
    """Return the nodes of a tree, from the top, with their texts; of what is out of date, none."""
    if not found:
        return []
    *shape, below, text, dirty = found
    children = [child for child in below if isinstance(child, tuple)]
    return [(*shape, None if dirty else text, dirty), *(one for child in children for one in written(child))]


OURS: dict[str, Any] = {**VERBS, "add later": TiMemLife.add_later}
"""Name -> what it does; whether it did anything."""


@pytest.mark.timeout(300)
def test_any_life_has_the_tree_and_the_texts_of_an_index_made_anew(soak_seed: int) -> None:
    """Ingest, growth, replacement, deletion, correction, merging, export and import, rebuild, expiry, dropped and added again.

    After each of them the tree is that of the turns that are left, and what is written is what an index made anew writes.
    """
    for at in range(2 if soak_seed < 3 else 7):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            TiMemLife(soak_seed * 2 + at if soak_seed < 3 else soak_seed * 7 + at, Path(folder)).run()
