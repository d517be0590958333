"""Which indexes a memory has, which one is searched, and how they come, change and go."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shelf import ShelfIndex
from tests_long.stored import empty_memory
from tests_long.worlds import fast_config

from memforest import ConfigError, NotFoundError
from memforest.errors import CorruptStoreError
from memforest.settings import Settings
from memforest.store import meta
from memforest.store.connections import Connection, Tx
from memforest.trees import attached
from memforest.trees.attached import Attached, adopt_settings, outdated


@dataclass(frozen=True, slots=True)
class Depth(Settings):
    """Settings of which one is kept in the file."""

    KEPT: ClassVar[tuple[str, ...]] = ("depth",)
    depth: int = 2
    reads: int = 5


class Told(ShelfIndex):
    """The shelf with settings, and a note of its own."""

    name = "told"
    Settings = Depth

    def notes(self, tx: Tx) -> list[str]:
        """Say something."""
        return ["told says so"]


@pytest.fixture
def tx(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A memory with the memforest index; the index `told` is known."""
    monkeypatch.setitem(attached.INDEXES, "told", Told)
    made = empty_memory()
    Attached(fast_config()).begin(made)
    yield made
    made.close()


def names(tx: Tx) -> list[str]:
    """Return the names of the memory's indexes."""
    return [index.name for index in Attached(fast_config()).of(tx)]


def test_a_memory_begins_with_the_indexes_of_the_configuration(tx: Tx) -> None:
    """Once; what a configuration says later adds none."""
    Attached(fast_config(indexes=("flat", "told"))).begin(tx)
    assert names(tx) == ["memforest"]
    tx.execute("DELETE FROM index_")
    Attached(fast_config(indexes=("told", "flat"))).begin(tx)
    assert names(tx) == ["flat", "told"]


def test_without_a_name_the_first_index_is_searched(tx: Tx) -> None:
    """First those of the configuration in its order, then those of the memory by name."""
    wants = Attached(fast_config(indexes=("told", "memforest")))
    assert (
        wants.choose(meta.index_rows(tx), None).name == "memforest"
    )  # the memory does not have the other one
    wants.add(tx, "told")
    assert wants.choose(meta.index_rows(tx), None).name == "told"
    assert Attached(fast_config(indexes=("facts",))).choose(meta.index_rows(tx), None).name == "memforest"
    tx.execute("DELETE FROM index_")
    assert wants.choose(meta.index_rows(tx), None).name == "flat"


def test_a_name_gets_the_memory_s_index_or_says_how_to(tx: Tx) -> None:
    """One without trees needs no adding; another one is added; one that there is not is refused."""
    own = Attached(fast_config())
    assert own.get(meta.index_rows(tx), "flat").name == "flat"
    with pytest.raises(NotFoundError, match=r"add_index\('flat'\)"):
        own.get(meta.index_rows(tx), "flat", listed=True)
    with pytest.raises(NotFoundError, match=r"add_index\('told'\) makes it; it has: memforest"):
        own.get(meta.index_rows(tx), "told")
    with pytest.raises(ConfigError, match="unknown index 'nosuch'"):
        own.choose(meta.index_rows(tx), "nosuch")
    own.add(tx, "told")
    assert own.get(meta.index_rows(tx), "told") is own.get(meta.index_rows(tx), "told")
    with pytest.raises(ConfigError, match="already"):
        own.add(tx, "told")
    assert own.notes(tx) == [
        "no scene trees: scenes are made of vectors, and this memory has no embedder",
        "told says so",
    ]


def test_an_index_goes_unless_it_is_the_last_one(tx: Tx) -> None:
    """What is not there cannot go, either."""
    own = Attached(fast_config())
    with pytest.raises(NotFoundError, match="it has: memforest"):
        own.drop(tx, "told")
    with pytest.raises(ConfigError, match="only index"):
        own.drop(tx, "memforest")
    own.add(tx, "told")
    own.drop(tx, "memforest")
    assert names(tx) == ["told"]


def test_what_an_index_keeps_of_its_settings_is_in_the_file(tx: Tx) -> None:
    """Those in `KEPT` and those given; what is not kept is that of whoever opens it, and a rebuild takes what is configured."""
    own = Attached(fast_config())
    own.add(tx, "told")
    assert json.loads(meta.index_rows(tx)[1].settings) == {"depth": 2}
    own.drop(tx, "told")
    own.add(tx, "told", {"reads": 9})
    config = fast_config(index_settings={"told": {"depth": 4, "reads": 1}})
    other = Attached(config)
    assert other.get(meta.index_rows(tx), "told").settings == Depth(depth=2, reads=9)
    assert outdated(tx, config, other) == {"told": "depth is 2, and 4 is set; reads is 9, and 1 is set"}
    adopt_settings(tx, config, other, "told")
    assert (outdated(tx, config, other), own.get(meta.index_rows(tx), "told").settings) == (
        {},
        Depth(depth=4, reads=1),
    )


@pytest.mark.parametrize("damage", ["{", '{"depth": "deep"}', '{"wide": 1}', "[" * 9999])
def test_settings_that_cannot_be_read_are_named(tx: Tx, damage: str) -> None:
    """With the way out: to drop the index, and to add it again."""
    own = Attached(fast_config())
    own.add(tx, "told")
    meta.put_index(tx, meta.IndexRow("told", damage))
    with pytest.raises(CorruptStoreError, match=r"'told'.*drop_index\('told'\)"):
        own.get(meta.index_rows(tx), "told")
    own.drop(tx, "told")
    own.add(tx, "told")
    assert own.get(meta.index_rows(tx), "told").settings == Depth()
