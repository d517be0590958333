"""The graph after any life of a memory is that of a memory into which what is left is ingested, in another order.

Whom it knows, by which names and how often, what relates them, which decisions made several names one, and what people decided.
Few lives by default; `make test-long` runs more.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.living import VERBS, Life, told, written
from tests_long.test_delete_histories import remaining
from tests_long.test_graph import plain, reading
from tests_long.worlds import fast_config, fast_folder, file_of, rows, said

from memforest import MemForest
from memforest.errors import InputError, NotFoundError, SessionConflictError
from memforest.graph.graph import names_of
from memforest.store import corrections, meta
from memforest.store.database import Database

STEPS = 9
SPELLED = {
    "Gregor": ("Gregor", "GREGOR", "Grégor", "Gregor Samson", "Greg"),
    "Fatima": ("Fatima", "Fátima", "Fatima Nour", "Fatima Nuor"),
    "Acme": ("Acme", "Acme Corp", "ACME", "the Acme team"),
    "Oslo": ("Oslo", "OSLO", "Oslo Fjord"),
}
"""Names of the talk -> how they are told here."""


class GraphLife(Life):
    """A life of a memory whose names are spelled in several ways, and where people decide who is who."""

    def _ingest(self, forest: MemForest, name: str, *, replace: bool = False) -> bool:
        number = self.random.randrange(5)
        turns = told(self.random, number)
        for turn in turns:
            for plain_name, spelled in SPELLED.items():
                turn["content"] = turn["content"].replace(plain_name, self.random.choice(spelled))
        # A sentence that somebody repeats goes with the first one's: what is left then has a turn without its statement.
        contents = [turn["content"] for turn in turns]
        turns = [turn for at, turn in enumerate(turns) if turn["content"] not in contents[:at]]
        with suppress(SessionConflictError):
            session = f"{self.random.choice((name, 's'))}{number}"
            forest.ingest_session("u", session, turns, replace=replace)
            return True
        return False

    def decide(self) -> bool:
        """Decide that two are one, or that a name is another one."""
        found = [one.name for one in self.memory.entities()]
        if len(found) < 2:
            return False
        with suppress(InputError, NotFoundError):  # they are one, or two, already
            one, other = self.random.sample(found, 2)
            if self.random.random() < 0.7:
                self.memory.merge_entities(one, other)
            else:
                entity = next(each for each in self.memory.entities() if each.name == one)
                self.memory.split_entity(one, self.random.choice(sorted(entity.names)))
            return True
        return False

    def run(self) -> None:
        """Live, and compare the graph in the end."""
        try:
            for name, forest in (("u", self.forest), ("other", self.other)):
                forest.register_user("u")
                for _ in range(self.random.randint(1, 3)):
                    self._ingest(forest, name)
            for _ in range(STEPS):
                verb = self.random.choice(list(OURS))
                self.done[verb] += bool(OURS[verb](self))
            self.sound()
            for key in self.corrections():
                self.memory.undo(key)
            self.check_order()
        finally:
            self.forest.close()
            self.other.close()

    def check_order(self) -> None:
        """Ingest what is left in another order, and decide what was decided."""
        with self._open("again", retention=None) as forest:
            forest.register_user("u")
            sessions = list(remaining(self.folder / "u").items())
            for session_id, turns in self.random.sample(sessions, len(sessions)):
                forest.ingest_session("u", session_id, turns)
            written(forest)
            decide_again(self.path, file_of(self.folder / "again"))
            known = [one.entities() for one in (self.memory, forest.user("u"))]
            assert known[0] == known[1], different([*known[0]], [*known[1]])
            mine, again = seen(self.folder / "u"), seen(self.folder / "again")
            for part, found in mine.items():
                assert found == again[part], (part, different(found, again[part]))


def decide_again(path: Path, other: Path) -> None:
    """Put the decisions that a file has, in their order, into another memory, by the keys of the entities.

    And what kind each is: a kind that is known stays when one of several statements that told it goes.
    """
    kinds = rows(path, "SELECT kind, key FROM entity WHERE kind != 'participant'")
    found = rows(
        path,
        """SELECT made_ms, c.id, verdict, e.key, o.key FROM choice c JOIN entity e ON e.id = c.entity
           JOIN entity o ON o.id = c.other""",
    )
    db = Database(other)
    with db.write() as tx:
        row_of = dict(tx.execute("SELECT key, id FROM entity").fetchall())
        for made_ms, _, verdict, one, two in sorted(found):
            first, second = sorted((row_of[one], row_of[two]))
            corrections.put(tx, verdict, first, second, made_ms)
        tx.executemany("UPDATE entity SET kind = ? WHERE key = ? AND kind != 'participant'", kinds)
        meta.bump(tx)
    db.close()


def seen(folder: Path) -> dict[str, Any]:
    """Return what the graph of a memory tells, by names alone."""
    with reading(folder) as (tx, snapshot, graph):
        counted = names_of(tx, snapshot, graph, range(len(graph)))
        key_of = {row: one.key for row, one in snapshot.entities.items()}
        found = plain(graph, snapshot)
        return {
            **found,
            "names": {graph.keys[place]: counted[place] for place in range(len(graph))},
            "decisions": sorted(
                (key_of[one.entity], key_of[one.into], one.rule, round(one.score, 9))
                for one in graph.resolution.decisions
            ),
            "overlaps": sorted(
                (key_of[one], key_of[other], how) for one, other, how in graph.resolution.overlaps
            ),
        }


def different(one: Any, other: Any) -> Any:
    """Return what is in only one of two values."""
    if isinstance(one, dict):
        return {
            key: (one.get(key), other.get(key)) for key in {**one, **other} if one.get(key) != other.get(key)
        }
    return [each for each in one if each not in other], [each for each in other if each not in one]


OURS: dict[str, Any] = {**VERBS, "decide": GraphLife.decide, "decide again": GraphLife.decide}
"""Name -> what it does; whether it did anything."""


TELLS = {
    "a": "I met Fatima Nour in Lisbon.",
    "b": "FATIMA lives in Lisbon.",
    "c": "Fatima works at Acme Corp.",
    "d": "Fatima adopted three cats in Lisbon.",
}


@pytest.mark.parametrize("order", [*permutations(TELLS)][::5], ids="".join)
def test_an_entity_and_its_decisions_do_not_say_what_came_first(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Whichever spelling was stored first, an entity is called as it is called most, in the decisions too."""
    with MemForest(tmp_path, fast_config()) as forest:
        for name in order:
            forest.ingest_session("u", name, said(TELLS[name], day=ord(name) - ord("a") + 1))
        found = {one.name: one for one in forest.user("u").entities()}
    fatima = next(one for one in found.values() if "Fatima Nour" in one.names)
    assert {each.name for each in fatima.decisions} | {each.into for each in fatima.decisions} == {
        "Fatima",
        "Fatima Nour",
    }


@pytest.mark.timeout(300)
def test_any_life_has_the_graph_of_what_is_left(soak_seed: int) -> None:
    """Names in several spellings, decisions about them, and every verb that changes a memory."""
    few = soak_seed < 3
    for at in range(2 if few else 6):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            life = GraphLife(soak_seed * (2 if few else 6) + at, Path(folder))

            life.run()
