"""What changes cost in a memory that has the index: a message more, a session that comes late, an early turn less."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from memforest import MemForest
from memforest.store.connections import Tx
from scaling.memories import INDEX, USER, copied, look, opened, path_of
from synthetic.turning import TurningTalk

__all__ = ["Changed", "changed"]

ROUNDS = 5
LATE, EARLY = 0.9, 0.1
"""Where in the talk a session comes late, and a turn goes."""

Change = Callable[[MemForest, int], object]


@dataclass(frozen=True, slots=True)
class Changed:
    """Processor time of one change, in ms: medians with the index, and in a copy of the memory without."""

    what: str
    with_index: float
    without: float


def changed(directory: Path, talk: TurningTalk, sessions: int, dimension: int) -> list[Changed]:
    """Change a memory that has the index, and a copy that has not.

    Args:
        directory: of the memory.
        talk: what was said.
        sessions: of it that the memory has.
        dimension: of the vectors.
    """
    late, early = int(sessions * LATE), int(sessions * EARLY)
    first = look(path_of(directory), lambda tx: [_first_turn(tx, talk, early + n) for n in range(ROUNDS)])
    forests = [opened(copied(directory, name), dimension) for name in ("living", "living-alone")]

    def said(forest: MemForest, name: int, like: int, turns: int) -> None:
        forest.ingest_session(USER, talk.session(name)[0], talk.session(like)[1][:turns], infer=False)

    changes: dict[str, Change] = {
        "a session of one message": lambda forest, n: said(forest, sessions + n, sessions + n, 1),
        "one message more in a session": lambda forest, n: said(forest, sessions + n, sessions + n, 2),
        "a session late, behind nine tenths": lambda forest, n: said(forest, 2 * sessions + n, late + n, 1),
        "a turn less, behind a tenth": lambda forest, n: forest.user(USER).delete(turn=first[n]),
    }
    try:
        forests[1].user(USER).drop_index(INDEX)
        forests[0].load(USER)
        return [_changed(what, change, forests) for what, change in changes.items()]
    finally:
        for forest in forests:
            forest.close()


def _first_turn(tx: Tx, talk: TurningTalk, session: int) -> tuple[str, str]:
    name = talk.session(session)[0]
    row = tx.execute(
        """SELECT t.turn_id FROM turn t JOIN session s ON s.id = t.session WHERE s.session_id = ?
           ORDER BY t.ordinal LIMIT 1""",
        (name,),
    ).fetchone()
    return name, row[0]


def _changed(what: str, change: Change, forests: list[MemForest]) -> Changed:
    took: list[list[float]] = [[] for _ in forests]
    for n in range(ROUNDS):
        for forest, times in zip(forests, took, strict=True):
            began = process_time()
            change(forest, n)
            times.append((process_time() - began) * 1000)
    return Changed(what, *(statistics.median(times) for times in took))
