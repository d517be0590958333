"""How often is the first evidence for "what was so, when" the right turn?

Run ``python benchmarks/temporal_state.py`` (``--help`` for options). Worlds of four to six people are
generated from a seed: what each of them held (home, job, gym, ...) over one to three years, and the chats
in which two of them mention it, ingested out of order. At least 500 questions ask for a state now, on a
date, before or after another one, first, last, since when, and after a return.

The rule. An evidence item is correct iff at least one of the turns it is sourced from is *acceptable* and
its text, or its quote, names the answer (case and accents ignored). The score is the share of questions
whose first-ranked item is correct. A turn is acceptable if it states the answer's value for the right
person and for the right stretch of time:

- current, as-of, back: any turn that states the value in that stretch, or that states its end ("moved from
  A to B" for A). For *back* only the stretch after the return counts.
- predecessor, successor, first: the same, and a turn that looks back on the value ("when I lived in A"),
  because those are only written for values held once.
- since, last: the turns that tell the beginning: an announced change, or "... since March". If no turn
  does, the first mention of the value in that stretch, which is the earliest known date.

Never acceptable: other people with the same value, wishes, plans that came to nothing, visits, questions,
and the same value in another stretch of time.

A question is *stated* if the transition it turns on (into the answer; out of it for predecessor and for the
first value) is told as a change ("moved to B", "moved from A to B", "moved back to A"), else *unstated*
("lives in A", months later "lives in B"). Questions are asked in words only: no system is told the date,
the person or the attribute beside the text, except the day on which the question is asked.

Seeds. Whoever changes a system looks at failures of other seeds (``--seed 1 --show-failures 40``); the default
seed is for reporting. People, values and wordings are shared between seeds, so this guards against fitting a
draw, not against fitting the wordings in `temporal/phrasing.toml`, which are not to be consulted for that.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from temporal.phrasing import load_phrasing
from temporal.questions import KINDS, Question, make_questions
from temporal.score import Estimate, Evidence, bootstrap, first_correct
from temporal.systems import SYSTEMS, ForestSystem, open_systems
from temporal.worlds import World, make_worlds

SEED = 20250
WORLDS = 6
QUESTIONS = 640
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


def run(
    worlds: Sequence[World], questions: Sequence[Question], names: Sequence[str]
) -> tuple[Answers, dict[str, Any]]:
    """Ask every question of every system, world by world; return the answers and facts about the run."""
    found: dict[str, dict[int, Answered]] = {name: {} for name in names}
    about: dict[str, Any] = {"embedder": None, "ingest_seconds": 0.0}
    for world in worlds:
        asked = [(n, q) for n, q in enumerate(questions) if q.world == world.id]
        systems = open_systems(names, world)
        forests = [system for system in systems.values() if isinstance(system, ForestSystem)]
        if forests:
            about["embedder"] = embedder_name(forests[0])
            about["ingest_seconds"] += forests[0].forest.ingest_seconds
        try:
            for name, system in systems.items():
                for number, question in asked:
                    started = perf_counter()
                    ranked = system.rank(question.text, question.reference)
                    seconds = perf_counter() - started
                    found[name][number] = Answered(
                        first_correct(question, ranked), ranked[0] if ranked else None, seconds
                    )
        finally:
            for system in systems.values():
                system.close()
    return {name: [found[name][n] for n in range(len(questions))] for name in names}, about


def embedder_name(system: ForestSystem) -> str:
    """Return the id of the embedder that a forest's memory was made with, or "none (words only)"."""
    return system.forest.embedder or "none (words only)"


def groups(questions: Sequence[Question]) -> dict[str, list[int]]:
    """Return the rows of the table: question numbers by kind, by stated and unstated, and overall."""
    rows: dict[str, list[int]] = {}
    for kind in KINDS:
        for stated in (True, False):
            chosen = [n for n, q in enumerate(questions) if q.kind == kind and q.stated == stated]
            rows[f"{kind} {'stated' if stated else 'unstated'}"] = chosen
    for kind in KINDS:
        rows[kind] = [n for n, q in enumerate(questions) if q.kind == kind]
    rows["all stated"] = [n for n, q in enumerate(questions) if q.stated]
    rows["all unstated"] = [n for n, q in enumerate(questions) if not q.stated]
    rows["all"] = list(range(len(questions)))
    return rows


def summarise(questions: Sequence[Question], answers: Answers, seed: int) -> dict[str, Any]:
    """Return the table: per row and system an estimate in [0, 1], and paired differences to `flat`."""
    rows = groups(questions)
    table: dict[str, dict[str, Estimate]] = {}
    for row, numbers in rows.items():
        table[row] = {
            name: bootstrap([given[n].hit for n in numbers], seed=seed) for name, given in answers.items()
        }
        if "memforest" in answers and BASELINE in answers:
            table[row]["memforest - flat"] = bootstrap(
                [answers["memforest"][n].hit - answers[BASELINE][n].hit for n in numbers], seed=seed
            )
    in_ten = {name: sum(a.rank is not None for a in given) / len(given) for name, given in answers.items()}
    milliseconds = {
        name: 1000 * sum(a.seconds for a in given) / len(given) for name, given in answers.items()
    }
    return {"top1": table, "in_ten": in_ten, "ms_per_query": milliseconds}


def print_report(head: dict[str, Any], summary: dict[str, Any]) -> None:
    """Print the table in percent, 95% intervals in brackets."""
    for key, value in head.items():
        print(f"{key}: {value}")
    table = summary["top1"]
    columns = list(table["all"])
    print("\ntop-1 evidence correct, % [95% bootstrap interval over questions]")
    print(f"{'':22}{'n':>5}" + "".join(f"{name:>24}" for name in columns))
    for row, cells in table.items():
        if row in (KINDS[0], "all stated"):
            print()
        shown = "".join(f"{_percent(cells[name], signed='-' in name):>24}" for name in columns)
        print(f"{row:22}{next(iter(cells.values())).n:>5}{shown}")
    print()
    for name, share in summary["in_ten"].items():
        print(
            f"{name}: correct within ten {100 * share:.1f}%, {summary['ms_per_query'][name]:.2f} ms per query"
        )


def _percent(cell: Estimate, *, signed: bool) -> str:
    if not cell.n:
        return "-"
    sign = "+" if signed else ""
    return f"{100 * cell.mean:{sign}.1f} [{100 * cell.low:{sign}.1f}, {100 * cell.high:{sign}.1f}]"


def print_failures(
    worlds: Sequence[World], questions: Sequence[Question], answers: Answers, name: str, most: int
) -> None:
    """Print the first failures of one system, round-robin over the kinds."""
    turns = {
        (s.id, t.id): f"{t.said:%Y-%m-%d} {t.speaker}: {t.text}"
        for w in worlds
        for s in w.sessions
        for t in s.turns
    }
    failed = [n for n, answered in enumerate(answers[name]) if not answered.hit]
    seen: dict[tuple[str, bool], int] = {}
    turn_in_bucket = {}
    for n in failed:
        bucket = (questions[n].kind, questions[n].stated)
        turn_in_bucket[n] = seen[bucket] = seen.get(bucket, 0) + 1
    for n in sorted(failed, key=lambda n: (turn_in_bucket[n], n))[:most]:
        question, answered = questions[n], answers[name][n]
        print(
            f"\n[{name}] {question.kind} ({'stated' if question.stated else 'unstated'}) {question.world}: {question.text}"
        )
        print(f"  expected {question.answer!r} from")
        for ref in sorted(question.acceptable):
            print(f"    {turns[ref]}")
        print(f"  got (first correct at {answered.rank}): {answered.top.text if answered.top else None}")
        for ref in sorted(answered.top.turns) if answered.top else ():
            print(f"    {turns[ref]}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED, help="seed of worlds, questions and resampling")
    parser.add_argument("--worlds", type=int, default=WORLDS, help="number of generated worlds")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="questions to draw, balanced")
    parser.add_argument(
        "--systems", default=",".join(SYSTEMS), help=f"comma-separated, of {', '.join(SYSTEMS)}"
    )
    parser.add_argument("--show-failures", type=int, default=0, metavar="N", help="print N failures a system")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table and every answer")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its table; return the exit code."""
    options = parse(arguments)
    names = [name.strip() for name in options.systems.split(",") if name.strip()]
    phrasing = load_phrasing()
    worlds = make_worlds(phrasing, options.worlds, options.seed)
    questions = make_questions(phrasing, worlds, options.questions, options.seed)
    answers, about = run(worlds, questions, names)
    summary = summarise(questions, answers, options.seed)
    head = {
        "seed": options.seed,
        "worlds": len(worlds),
        "sessions": sum(len(w.sessions) for w in worlds),
        "turns": sum(len(s.turns) for w in worlds for s in w.sessions),
        "questions": len(questions),
        "embedder": about["embedder"] or "none (no system with one)",
        "ingest seconds": round(about["ingest_seconds"], 1),
    }
    print_report(head, summary)
    for name in names:
        print_failures(worlds, questions, answers, name, options.show_failures)
    if options.json:
        write_json(options.json, head, summary, questions, answers)
    return 0


def write_json(
    path: Path, head: dict[str, Any], summary: dict[str, Any], questions: Sequence[Question], answers: Answers
) -> None:
    """Write the run: its head, its table and per question what each system ranked where."""
    table = {
        row: {name: asdict(cell) for name, cell in cells.items()} for row, cells in summary["top1"].items()
    }
    asked = [
        {
            "world": q.world,
            "kind": q.kind,
            "stated": q.stated,
            "question": q.text,
            "answer": q.answer,
            "acceptable": sorted(q.acceptable),
            "rank": {name: given[n].rank for name, given in answers.items()},
        }
        for n, q in enumerate(questions)
    ]
    report = {**head, **summary, "top1": table, "asked": asked}
    path.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
