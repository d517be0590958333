"""The segtree index as a memory grows: every part in turn, and one table for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

from memforest.models import Embedder
from scaling import asking, growing, ingesting, living
from scaling.memories import INDEX, USER, copied, fill, opened
from scaling.tables import shown, table
from synthetic.turning import TurningTalk

__all__ = ["Sizes", "report"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    turns: Sequence[int]
    dimension: int
    questions: int
    sessions: int
    """Of the memories that are written with `embedder`."""
    embedder: Callable[[], Embedder]


def report(directory: Path, seed: int, sizes: Sizes) -> str:
    """Return the tables of all parts.

    Args:
        directory: where the memories are made; one that is there is used again.
        seed: of the talk.
        sizes: how much is measured.
    """
    talk, ordered = TurningTalk(seed), sorted(sizes.turns)
    homes = {turns: directory / str(turns) for turns in ordered}
    sessions = {turns: fill(home, talk, turns, sizes.dimension) for turns, home in homes.items()}
    parts = [_grown([homes[turns] for turns in ordered])]
    asked = []
    for turns, home in homes.items():
        _say(f"{turns} turns")
        full, kept = copied(home, "full"), asking.file_bytes(home)
        began = process_time()
        with opened(full, sizes.dimension) as forest:
            forest.user(USER).add_index(INDEX)
            forest.save(USER)
        spent = process_time() - began
        more = {"added, s": spent, "bytes in the file a leaf": (asking.file_bytes(full) - kept) / turns}
        found = asking.asked(full, talk, sessions[turns], sizes.questions, sizes.dimension)
        asked.append((turns, more, found, asking.stored(full)))
        if turns == ordered[len(ordered) // 2]:
            lives = living.changed(full, talk, sessions[turns] + asking.WRITES, sizes.dimension)
    parts.append(_asked(asked))
    parts.append(table(f"Changes of {ordered[len(ordered) // 2]:,} turns", [asdict(one) for one in lives]))
    _say("writing")
    wrote = ingesting.ingested(directory / "writing", seed, sizes.sessions, sizes.embedder)
    parts.append(table("Writing", [asdict(one) for one in wrote]))
    return "\n\n".join(parts)


def _grown(homes: Sequence[Path]) -> str:
    rows = []
    for name in growing.INPUTS:
        _say(name)
        found = [growing.grown(home, name) for home in homes]
        rows += [{**asdict(one), "to_first": one.us_a_leaf / found[0].us_a_leaf} for one in found]
    return table("Growing", rows)


def _asked(found: Sequence[tuple[int, dict[str, float], asking.Asked, dict[str, float]]]) -> str:
    rows = []
    for turns, more, asked, stored in found:
        row: dict[str, Any] = {"turns": turns, **stored, **more, "floor, ms": asked.floor}
        for what in ("cold", "warm", "ratio", "written", "write"):
            row |= {f"{what}: {name}": value for name, value in getattr(asked, what).items()}
        rows.append(row)
    names = list(rows[0])
    lines = [
        f"Asking\n\n| {' | '.join(['', *(shown(row['turns']) for row in rows)])} |",
        "|---" * (len(rows) + 1) + "|",
    ]
    lines += [f"| {name} | {' | '.join(shown(row[name]) for row in rows)} |" for name in names[1:]]
    return "\n".join(lines)


def _say(what: str) -> None:
    print(f"  {what}", file=sys.stderr, flush=True)
