"""The life of a memory with settings of the timem index: whatever happens to it, tree and texts are those of one made anew.

Few lives by default; `make test-long` runs more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.living import Life
from tests_long.test_timem_tree import how
from tests_long.timems import NAME, sound, waiting
from tests_long.worlds import fast_folder

from memforest import MemForest

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"segment": 2, "history_of": "memories"},
    {"pass_through": False},
    {"levels": ("segment", "session", "week", "month"), "history": (1, 2, 1, 3)},
    {"levels": ("segment", "session", "day", "week", "month", "year"), "history_of": "memories"},
    {"levels": ("segment", "session"), "history": (0, 0)},
)
"""Settings of the index in lives."""


class TiMemLife(Life):
    """A life of a memory with settings of this index, with a look at its tree after each step."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.own = SETTINGS[seed % len(SETTINGS)]
        super().__init__(seed, folder)

    def _open(self, name: str, **settings: Any) -> MemForest:
        self.settings["index_settings"] = {NAME: self.own}
        return super()._open(name, **settings)

    def step(self) -> None:
        """Use one of the verbs, and look at the tree; some of the time all of it is written."""
        super().step()
        sound(self.memory, self.folder / "u", **how(self.own))
        if self.random.random() < 0.3:
            self.memory.advance(force=True)
            levels = self.own.get("levels", ("segment", "session", "day", "week", "month"))
            assert waiting(self.folder / "u", levels) == []


@pytest.mark.timeout(300)
def test_any_life_has_the_tree_and_the_texts_of_a_memory_made_anew(soak_seed: int) -> None:
    """At its end it is held to an import of its export, and to a memory of the turns that are left."""
    for at in range(2 if soak_seed < 3 else 7):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            TiMemLife(soak_seed * 2 + at if soak_seed < 3 else soak_seed * 7 + at, Path(folder)).run()
