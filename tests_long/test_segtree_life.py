"""The life of a memory with a segment tree: whatever happens to it, the tree is that of a memory made from scratch.

Few lives by default; `make test-long` runs more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.living import VERBS, Life
from tests_long.segtrees import NAME, anew, configured, sound, tree
from tests_long.worlds import fast_folder, file_of, rows

from memforest import MemForest

SETTINGS: tuple[dict[str, Any], ...] = (
    {"tau": 0.3, "fan_out_max": 8},
    {"tau": -1.0, "fan_out_max": 8, "leaves": "turns", "leaf_vector": "text"},
    {"tau": 1.0, "height_max": 3, "fan_out_max": 8, "leaves": "turns"},
    {"tau": 0.3, "leaves": "pairs", "placer": "cosine"},
    {"tau": 0.2, "leaf_vector": "text"},
    {},
)
"""Settings of the index in lives."""
STEPS = 9


class SegTreeLife(Life):
    """A life of a memory with this index, with a look at its tree after each step."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.own = SETTINGS[seed % len(SETTINGS)]
        super().__init__(seed, folder)

    def _open(self, name: str, **settings: Any) -> MemForest:
        return MemForest(self.folder / name, configured(self.own, **{**self.settings, **settings}))

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
            before = tree(self.folder / "u")
            self.memory.rebuild(index=NAME)
            assert tree(self.folder / "u") == before
        finally:
            self.forest.close()
            self.other.close()

    def look(self, after: str) -> None:
        """The tree is sound, nothing waits, and it is that of a memory made from scratch."""
        folder = self.folder / "u"
        self.forest.resume("u")
        sound(self.memory, folder)
        hidden = rows(file_of(folder), "SELECT 1 FROM correction WHERE kind != 'pin' AND undone_ms IS NULL")
        if not (
            hidden and self.own.keys() & {"placer", "leaf_vector"}
        ):  # leaves go where what may be told is
            assert tree(folder) == anew(folder, configured(self.own)), after

    def add_later(self) -> bool:
        """Drop the index, and add it again."""
        self.memory.add_index("flat")
        self.memory.drop_index(NAME)
        self.memory.add_index(NAME, self.own)
        self.memory.drop_index("flat")
        return True


OURS: dict[str, Any] = {**VERBS, "add later": SegTreeLife.add_later}
"""Name -> what it does; whether it did anything."""


@pytest.mark.timeout(300)
def test_any_life_has_the_tree_of_a_memory_from_scratch(soak_seed: int) -> None:
    """Ingest, growth, replacement, deletion, correction, merging, export and import, rebuild, expiry, dropped and added again.

    After each of them every turn is in one exchange, every exchange in the tree, and the tree has the
    nodes of one that is grown of the turns that are left.
    """
    for at in range(1 if soak_seed < 3 else 7):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            SegTreeLife(soak_seed if soak_seed < 3 else soak_seed * 7 + at, Path(folder)).run()
