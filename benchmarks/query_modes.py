"""What does a question cost in each mode? Seconds, calls and tokens (the columns of the paper's Table 3).

    python benchmarks/query_modes.py [FILE] [--conversation conv-26] [--questions 40] [--cost reference]

FILE is a LoCoMo file; without one, conversation and questions are those of the package's demo. The memory is written
once, by the double of `benchmarks/write_path.py` without waiting. Then every question is asked and answered in every mode,
one after the other, under a declared cost model (`benchmarks/writing/costs.py`). The double has seen every prompt before.

*retrieval* is all but the answer: reading and embedding the question, planning, browsing, search. Calls and tokens are
those of the chat model. *trees* are those that were recalled for a question, *fell back* those of all questions that a
model was to browse and that were browsed by embedding; the trace of a query has the reason. The last row spoils half of
the browser's replies.

The answers are the double's, made by local rules, so nothing here says how good a mode is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from memforest import AskResult, ChatEndpoint, Config, EmbeddingEndpoint, IngestResult, MemForest
from memforest.config import MODES
from memforest.records import StepUsage
from writing.costs import COSTS, EMBED, CostModel
from writing.server import Double
from writing.sessions import USER, Session, read_questions, read_sessions

SPOILED = {"browse": 0.5}
STEPS = ("plan", "browse", "answer")


@dataclass(slots=True)
class Asked:
    """What all questions of one row took."""

    row: str
    retrieval_s: list[float] = field(default_factory=list)
    answer_s: list[float] = field(default_factory=list)
    steps: dict[str, StepUsage] = field(default_factory=dict)
    trees: int = 0
    fell_back: int = 0
    answered: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, found: AskResult, took_s: float) -> None:
        """Add a question that took so many seconds."""
        answer_s = found.usage.ms.get("answer", 0.0) / 1000
        self.answer_s.append(answer_s)
        self.retrieval_s.append(took_s - answer_s)
        self.answered += found.answer is not None
        for step in STEPS:
            used = found.usage.steps.get(step, StepUsage())
            self.steps[step] = self.steps.get(step, StepUsage()).plus(used)
        browsed: Sequence[Mapping[str, Any]] = found.result.trace.get("browse", ())
        self.trees += len(browsed) or len(found.result.trace.get("trees", ()))
        for tree in browsed:
            if tree["fallback"] is not None:
                self.fell_back += 1
                self.reasons[tree["fallback"]] += 1


def open_forest(folder: Path, url: str) -> MemForest:
    """Return the forest of the run, with the double as its endpoint."""
    return MemForest(
        folder,
        Config(
            chat=ChatEndpoint(model="double", base_url=url),
            embedder=EmbeddingEndpoint(model="double", base_url=url),
        ),
    )


def build(folder: Path, double: Double, sessions: Sequence[Session]) -> None:
    """Write the memory, without waiting.

    Raises:
        MemForestError: if a session is refused.
    """
    with open_forest(folder, double.serve(None)) as forest:
        for result in forest.ingest_parallel([one.request() for one in sessions], refresh=True):
            if not isinstance(result, IngestResult):
                raise result


def ask_all(
    folder: Path,
    double: Double,
    questions: Sequence[tuple[str, Any]],
    mode: str,
    *,
    cost: CostModel | None,
    spoil: Mapping[str, float] | None = None,
) -> Asked:
    """Ask and answer every question in a mode."""
    row = Asked(mode if spoil is None else f"{mode}, spoiled")
    with open_forest(folder, double.serve(cost, spoil=spoil)) as forest:
        # The first question opens the memory and the connections.
        forest.ask(USER, "Is anybody there?", mode=mode)  # type: ignore[arg-type]
        for text, when in questions:
            started = perf_counter()
            found = forest.ask(USER, text, mode=mode, reference_date=when)  # type: ignore[arg-type]
            row.add(found, perf_counter() - started)
    return row


def line(row: Asked) -> str:
    """Return a row of the table: means per question, and percentiles of the seconds."""
    n = len(row.retrieval_s)
    retrieval, answer = np.array(row.retrieval_s), np.array(row.answer_s)
    total = retrieval + answer
    calls = "".join(f"{row.steps[step].calls / n:8.2f}" for step in STEPS)
    prompt = sum(used.prompt_tokens for used in row.steps.values()) / n
    completion = sum(used.completion_tokens for used in row.steps.values()) / n
    return (
        f"{row.row:22}{retrieval.mean():10.2f}{answer.mean():8.2f}{total.mean():8.2f}{np.percentile(total, 50):8.2f}"
        f"{np.percentile(total, 95):8.2f}{calls}{prompt:9.0f}{completion:8.0f}{row.trees / n:7.1f}{row.fell_back:11}"
        f"{row.answered:10}"
    )


HEAD = (
    f"{'mode':22}{'retrieval':>10}{'answer':>8}{'total':>8}{'p50':>8}{'p95':>8}"
    + "".join(f"{step:>8}" for step in STEPS)
    + f"{'prompt':>9}{'compl.':>8}{'trees':>7}{'fell back':>11}{'answered':>10}"
)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its table; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", help="a LoCoMo file; the demo's conversation without")
    parser.add_argument("--conversation", help="which one of the file; the first when not given")
    parser.add_argument("--sessions", type=int, help="how many of it; all when not given")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--cost", choices=tuple(COSTS), default="reference")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    options = parser.parse_args(arguments)
    name, sessions = read_sessions(options.file, options.conversation, options.sessions)
    questions = read_questions(options.file, name, options.questions)
    cost = COSTS[options.cost]
    turns = sum(len(one.turns) for one in sessions)
    print(f"{name}: {len(sessions)} sessions, {turns} turns, {len(questions)} questions")
    print(f"cost {options.cost}: {cost.declared}; a request for embeddings: {EMBED.declared}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="query-modes-") as work, Double() as double:
        folder = Path(work)
        build(folder, double, sessions)
        print(f"{'':22}{'seconds a question':>42}{'calls a question':>24}{'tokens a question':>17}")
        print(HEAD)
        plans = [(mode, None) for mode in options.modes]
        spoiled = [(mode, SPOILED) for mode in options.modes[-1:] if mode.startswith("llm")]
        for mode, spoil in (*plans, *spoiled):
            ask_all(folder, double, questions, mode, cost=None, spoil=spoil)
            rows.append(ask_all(folder, double, questions, mode, cost=cost, spoil=spoil))
            print(line(rows[-1]), flush=True)
    for row in rows:
        for reason, count in row.reasons.most_common(3):
            print(f"  {row.row}: {count} trees fell back: {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
