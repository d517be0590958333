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

Three sets of wordings (``--set``). *own* lies in `temporal/phrasing.toml`, and the rules of the package were written
beside it. *swapped* has its sentences with other values and people. *second* has other attributes, values, people and
sentences. The last two were written by another hand without sight of the rules; they are measured and never
consulted, so this prints no failures of theirs. Four more (home, work, leisure, services) lie in `data/timelines`, by four hands
that saw neither rules nor each other; they are for fitting, so what is fitted to them is not measured on them.

Seeds. Whoever changes a system looks at failures of other seeds (``--seed 1 --show-failures 40``); the default
seed is for reporting. People, values and wordings of a set are shared between its seeds, so this guards against
fitting a draw, not against fitting wordings; for that there are the other sets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from temporal.phrasing import AUTHORED, OWN, SETS, load_phrasing
from temporal.questions import Question, make_questions
from temporal.report import Answered, Answers, Run, as_json, print_failures, print_report, print_sets
from temporal.score import first_correct
from temporal.systems import SYSTEMS, ForestSystem, open_systems
from temporal.worlds import World, make_worlds

SEED = 20250
WORLDS = 6
QUESTIONS = 640
ALL = "all"


def measure(
    which: str, sizes: tuple[int, int], seed: int, names: Sequence[str], settings: Mapping[str, Any]
) -> Run:
    """Make the worlds and questions of one set, and ask every question of every system.

    Args:
        which: one of `SETS` or `AUTHORED`.
        sizes: how many worlds, and how many questions to draw.
        seed: of worlds, questions and resampling.
        names: the systems.
        settings: fields of `memforest.Config`, for the systems of this package.
    """
    phrasing = load_phrasing(which)
    worlds = make_worlds(phrasing, sizes[0], seed)
    questions = make_questions(phrasing, worlds, sizes[1], seed)
    answers, about = ask(worlds, questions, names, settings)
    head = {
        "set": which,
        "seed": seed,
        "worlds": len(worlds),
        "sessions": sum(len(w.sessions) for w in worlds),
        "turns": sum(len(s.turns) for w in worlds for s in w.sessions),
        "questions": len(questions),
        "embedder": about["embedder"] or "none (no system with one)",
        "reranker": settings["reranker"],
        "ingest seconds": round(about["ingest_seconds"], 1),
    }
    return Run(which, worlds, questions, answers, head, seed)


def ask(
    worlds: Sequence[World], questions: Sequence[Question], names: Sequence[str], settings: Mapping[str, Any]
) -> tuple[Answers, dict[str, Any]]:
    """Ask every question of every system, world by world; return the answers and facts about the run."""
    found: dict[str, dict[int, Answered]] = {name: {} for name in names}
    about: dict[str, Any] = {"embedder": None, "ingest_seconds": 0.0}
    for world in worlds:
        asked = [(n, q) for n, q in enumerate(questions) if q.world == world.id]
        systems = open_systems(names, world, settings)
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


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--set",
        default=OWN,
        choices=(*SETS, *AUTHORED, ALL),
        help="wordings and values; all prints the sets side by side",
    )
    parser.add_argument("--seed", type=int, default=SEED, help="seed of worlds, questions and resampling")
    parser.add_argument("--worlds", type=int, default=WORLDS, help="number of generated worlds")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="questions to draw, balanced")
    parser.add_argument(
        "--systems", default=",".join(SYSTEMS), help=f"comma-separated, of {', '.join(SYSTEMS)}"
    )
    parser.add_argument("--rerank", action="store_true", help="with the local reranker")
    parser.add_argument("--show-failures", type=int, default=0, metavar="N", help="print N failures a system")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table and every rank")
    options = parser.parse_args(arguments)
    if options.show_failures and options.set not in (OWN, *AUTHORED):
        parser.error(
            f"--show-failures is for {', '.join((OWN, *AUTHORED))}: the other sets are not to be consulted"
        )
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its table; return the exit code."""
    options = parse(arguments)
    names = [name.strip() for name in options.systems.split(",") if name.strip()]
    settings = {"reranker": "local" if options.rerank else "none"}
    sizes = (options.worlds, options.questions)
    chosen = SETS if options.set == ALL else (options.set,)
    runs = [measure(which, sizes, options.seed, names, settings) for which in chosen]
    for run in runs:
        print_report(run)
        print()
    if len(runs) > 1:
        print_sets(runs)
    if options.show_failures:
        for name in names:
            print_failures(runs[0], name, options.show_failures)
    if options.json:
        report = as_json(runs[0]) if len(runs) == 1 else {run.which: as_json(run) for run in runs}
        options.json.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
