"""The tables of the temporal-state benchmark, printed and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from temporal.phrasing import OWN
from temporal.questions import KINDS, Question
from temporal.score import Estimate, Evidence, bootstrap
from temporal.worlds import World

__all__ = ["Answered", "Run", "as_json", "print_failures", "print_report", "print_sets"]

BASELINE = "flat"


@dataclass(frozen=True, slots=True)
class Answered:
    """What one system made of one question: rank of the first correct item, its first item, the time."""

    rank: int | None
    top: Evidence | None
    seconds: float

    @property
    def hit(self) -> float:
        """1.0 if the first item is correct, else 0.0."""
        return 1.0 if self.rank == 1 else 0.0


Answers = dict[str, list[Answered]]
"""Per system, aligned with the questions."""


@dataclass(frozen=True)
class Run:
    """What was asked of one set of wordings, and what the systems made of it; `head` says by what."""

    which: str
    worlds: Sequence[World]
    questions: Sequence[Question]
    answers: Answers
    head: Mapping[str, Any]
    seed: int

    def groups(self) -> dict[str, list[int]]:
        """Return the rows of the table: question numbers by kind, by stated and unstated, and overall."""
        rows: dict[str, list[int]] = {}
        for kind in KINDS:
            for stated in (True, False):
                chosen = [n for n, q in enumerate(self.questions) if q.kind == kind and q.stated == stated]
                rows[f"{kind} {'stated' if stated else 'unstated'}"] = chosen
        for kind in KINDS:
            rows[kind] = [n for n, q in enumerate(self.questions) if q.kind == kind]
        rows["all stated"] = [n for n, q in enumerate(self.questions) if q.stated]
        rows["all unstated"] = [n for n, q in enumerate(self.questions) if not q.stated]
        rows["all"] = list(range(len(self.questions)))
        return rows

    @cached_property
    def top1(self) -> dict[str, dict[str, Estimate]]:
        """Return per row and system the share in [0, 1] of first items that are correct, and paired differences."""
        table: dict[str, dict[str, Estimate]] = {}
        for row, numbers in self.groups().items():
            table[row] = {
                name: bootstrap([given[n].hit for n in numbers], seed=self.seed)
                for name, given in self.answers.items()
            }
            if "memforest" in self.answers and BASELINE in self.answers:
                ours, base = self.answers["memforest"], self.answers[BASELINE]
                table[row]["memforest - flat"] = bootstrap(
                    [ours[n].hit - base[n].hit for n in numbers], seed=self.seed
                )
        return table

    def in_ten(self) -> dict[str, float]:
        """Return per system the share of questions with a correct item among the ten returned."""
        return {
            name: sum(a.rank is not None for a in given) / len(given) for name, given in self.answers.items()
        }

    def ms_per_query(self) -> dict[str, float]:
        """Return per system the mean time of a question."""
        return {
            name: 1000 * sum(a.seconds for a in given) / len(given) for name, given in self.answers.items()
        }


def print_report(run: Run) -> None:
    """Print the table of one set in percent, 95% intervals in brackets."""
    for key, value in run.head.items():
        print(f"{key}: {value}")
    table = run.top1
    columns = list(table["all"])
    print("\ntop-1 evidence correct, % [95% bootstrap interval over questions]")
    print(f"{'':22}{'n':>5}" + "".join(f"{name:>24}" for name in columns))
    for row, chunks in table.items():
        if row in (KINDS[0], "all stated"):
            print()
        shown = "".join(f"{_percent(chunks[name], signed='-' in name):>24}" for name in columns)
        print(f"{row:22}{next(iter(chunks.values())).n:>5}{shown}")
    print()
    milliseconds = run.ms_per_query()
    for name, share in run.in_ten().items():
        print(f"{name}: correct within ten {100 * share:.1f}%, {milliseconds[name]:.2f} ms per query")


def print_sets(runs: Sequence[Run]) -> None:
    """Print the sets beside each other, a table for each system."""
    for name in runs[0].answers:
        tables = [run.top1 for run in runs]
        print(f"\n{name}: top-1 evidence correct, % [95% bootstrap interval over questions], n")
        print(f"{'':22}" + "".join(f"{run.which:>28}" for run in runs))
        for row in tables[0]:
            if row in (KINDS[0], "all stated"):
                print()
            chunks = [table[row][name] for table in tables]
            print(f"{row:22}" + "".join(f"{_percent(chunk):>22}{chunk.n:>6}" for chunk in chunks))
        within = [run.in_ten()[name] for run in runs]
        print(f"{'within ten':22}" + "".join(f"{100 * share:>21.1f} {'':>6}" for share in within))


def _percent(chunk: Estimate, *, signed: bool = False) -> str:
    if not chunk.n:
        return "-"
    sign = "+" if signed else ""
    return f"{100 * chunk.mean:{sign}.1f} [{100 * chunk.low:{sign}.1f}, {100 * chunk.high:{sign}.1f}]"


def print_failures(run: Run, name: str, most: int) -> None:
    """Print the first failures of one system, round-robin over the kinds."""
    turns = {
        (s.id, t.id): f"{t.said:%Y-%m-%d} {t.speaker}: {t.text}"
        for w in run.worlds
        for s in w.sessions
        for t in s.turns
    }
    failed = [n for n, answered in enumerate(run.answers[name]) if not answered.hit]
    seen: dict[tuple[str, bool], int] = {}
    turn_in_bucket = {}
    for n in failed:
        bucket = (run.questions[n].kind, run.questions[n].stated)
        turn_in_bucket[n] = seen[bucket] = seen.get(bucket, 0) + 1
    for n in sorted(failed, key=lambda n: (turn_in_bucket[n], n))[:most]:
        question, answered = run.questions[n], run.answers[name][n]
        stated = "stated" if question.stated else "unstated"
        print(f"\n[{name}] {question.kind} ({stated}) {question.world}: {question.text}")
        print(f"  expected {question.answer!r} from")
        for ref in sorted(question.acceptable):
            print(f"    {turns[ref]}")
        print(f"  got (first correct at {answered.rank}): {answered.top.text if answered.top else None}")
        for ref in sorted(answered.top.turns) if answered.top else ():
            print(f"    {turns[ref]}")


def as_json(run: Run) -> dict[str, Any]:
    """Return the run: its head, its table, and per question what each system ranked where.

    Questions and answers stand in it for the own set only: nobody is to read the others.
    """
    table = {row: {name: asdict(chunk) for name, chunk in chunks.items()} for row, chunks in run.top1.items()}
    asked = []
    for n, q in enumerate(run.questions):
        rank = {name: given[n].rank for name, given in run.answers.items()}
        line: dict[str, Any] = {"world": q.world, "kind": q.kind, "stated": q.stated}
        if run.which == OWN:
            line |= {"question": q.text, "answer": q.answer, "acceptable": sorted(q.acceptable)}
        asked.append({**line, "rank": rank})
    return {
        **run.head,
        "top1": table,
        "in_ten": run.in_ten(),
        "ms_per_query": run.ms_per_query(),
        "asked": asked,
    }
