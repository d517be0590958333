"""The two formulas of H-Mem that rank besides meaning: how well a memory has held, and how well its time fits.

    python benchmarks/hmem_score.py

*R* (eq. 2 of arXiv 2605.15701) at an age of a year, by how often a memory was consolidated. *T* (eq. 1) of pairs of intervals: by the whole time from the first to the last of both, at least a day wide,
clipped to [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memforest.search.scores import robustness, time_overlap
from memforest.times import DAY_MS

__all__ = ["AGES", "PAIRS", "TIMES", "Pair", "main", "r_of", "t_of"]

TIMES = (0, 1, 5, 10, 50)
"""How often a memory was consolidated."""
AGES = (0, 30, 180, 365, 730)
"""Days since it last was."""
HOUR = 1 / 24


class Pair(NamedTuple):
    """Two intervals in days from some moment: of a memory, and of a question."""

    name: str
    memory: tuple[float, float]
    asked: tuple[float, float]


PAIRS = (
    Pair("the same day", (0, 1), (0, 1)),
    Pair("an hour of the day that is asked about", (0.5, 0.5 + HOUR), (0, 1)),
    Pair("a moment of that day", (0.5, 0.5), (0, 1)),
    Pair("the day after", (1, 2), (0, 1)),
    Pair("a week later", (7, 8), (0, 1)),
    Pair("a month later", (30, 31), (0, 1)),
    Pair("a year later", (365, 366), (0, 1)),
    Pair("a month later, two moments", (30, 30), (0, 0)),
    Pair("a day, of its month", (10, 11), (0, 30)),
    Pair("a month, of its year", (0, 30), (0, 365)),
    Pair("two weeks, half of each shared", (0, 14), (7, 21)),
    Pair("two months, one behind the other", (0, 30), (30, 60)),
    Pair("two years apart, of a year each", (0, 365), (1095, 1460)),
)


def r_of(age_days: float, times: Sequence[int]) -> list[float]:
    """Return R at an age, by how often a memory was consolidated."""
    last = np.zeros(len(times), dtype=np.int64)
    return [float(one) for one in robustness(last, np.array(times), int(age_days * DAY_MS))]


def t_of(pair: Pair) -> float:
    """Return T of a pair."""
    start, end = (np.array([round(one * DAY_MS)]) for one in pair.memory)
    asked = (round(pair.asked[0] * DAY_MS), round(pair.asked[1] * DAY_MS))
    return float(time_overlap(start, end, asked)[0])


def main() -> None:
    """Print both tables."""
    print(f"| age, days | {' | '.join(f'n={n}' for n in TIMES)} |\n|---{'|--:' * len(TIMES)}|")
    for age in AGES:
        print(f"| {age} | {' | '.join(f'{one:.4f}' for one in r_of(age, TIMES))} |")
    print("\n| memory and question | T |\n|---|--:|")
    for pair in PAIRS:
        print(f"| {pair.name} | {t_of(pair):.3f} |")


if __name__ == "__main__":
    main()
