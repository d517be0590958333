"""Do the turns that answer a question come up, and how early? Evidence recall on a LoCoMo file.

Run ``python benchmarks/locomo_recall.py FILE`` (``--help`` for options). Every conversation becomes one memory,
made and asked through the public API in its one default configuration; the same configuration's latency and
ingest times are printed with it.

Counting. Questions of categories 1 to 4 with at least one existing evidence turn are asked, at the time of
the last session. The ranked evidence is walked from the top, each item's supporting turns are listed once,
and the list is cut at k. Recall is the mean share of supporting turns above the cut; ``all@20`` is the share
of questions with all of them in the first 20; ``SR@k`` is recall of their sessions.

Beside it in the same run, on single turns and with the same tokens and vectors: BM25 (k1 .9, b .4, turns
prefixed with their date), cosine, and their weighted z-score fusion (.35/.65); and the package's own
``index="flat"``, which has extracted facts but no trees.

The weights were chosen on five conversations of this data set (docs/research/ranking.md), so figures on those are
somewhat optimistic, and intervals do not show that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from locomo import leads, memories
from locomo.baselines import BASELINES, Turns, vectors_of
from locomo.conversations import CATEGORIES, Conversation, read_conversations
from locomo.measures import MEASURES, Matrix, interval, measure
from memforest import Config, MemForest
from memforest.models import BGE_SMALL, MINILM, MS_MARCO, open_embedder

SEED = 7
MODELS = {"minilm": MINILM, "bge": BGE_SMALL}
OURS = "memforest"
DIFFERENCES = ("R@10", "R@20", "nDCG@10")
RERANKED = "reranked"
RERANK_MEASURES = ("R@5", "R@10", "R@20", "nDCG@10")


class Scored:
    """Values of every measure for every question, per system, each of shape (questions, measures)."""

    def __init__(self, conversations: Sequence[Conversation], seed: int) -> None:
        self.seed = seed
        self._asked = [(one.turn_session, q.gold) for one in conversations for q in one.questions]
        self.category = np.array([q.category for one in conversations for q in one.questions])
        self.conversation = np.repeat(
            np.arange(len(conversations)), [len(one.questions) for one in conversations]
        )
        self.values: dict[str, Matrix] = {}

    def add(self, system: str, ranked: Sequence[Sequence[str]]) -> None:
        """Score a system's rankings, one per question."""
        self.values[system] = np.array(
            [measure(turns, gold, where) for turns, (where, gold) in zip(ranked, self._asked, strict=True)]
        )

    def chunk(self, values: Matrix, rows: Any = slice(None)) -> dict[str, Any]:
        """Return a mean in percent with its intervals over questions and over conversations.

        Args:
            values: one per question.
            rows: which questions those are, when not all.
        """
        return {
            "mean": float(values.mean()) * 100,
            "questions": [100 * x for x in interval(values, None, self.seed)],
            "conversations": [100 * x for x in interval(values, self.conversation[rows], self.seed)],
        }

    def overall(self, system: str) -> dict[str, Any]:
        """Return every measure's chunk over all questions."""
        return {name: self.chunk(self.values[system][:, i]) for i, name in enumerate(MEASURES)}

    def by_category(self, system: str) -> dict[int, dict[str, Any]]:
        """Return the means of each category, with the interval of recall over questions."""
        found = {}
        for category in CATEGORIES:
            rows = self.values[system][self.category == category]
            if len(rows):
                means = dict(zip(MEASURES, (100 * rows.mean(axis=0)).tolist(), strict=True))
                low, high = interval(rows[:, MEASURES.index("R@20")], None, self.seed)
                found[category] = {"n": len(rows), **means, "R@20 interval": [100 * low, 100 * high]}
        return found

    def difference(
        self, system: str, other: str, measures: Sequence[str] = DIFFERENCES, category: int | None = None
    ) -> dict[str, Any]:
        """Return the paired differences of two systems, over all questions or those of a category."""
        gap = self.values[system] - self.values[other]
        rows = slice(None) if category is None else self.category == category
        return {name: self.chunk(gap[rows, MEASURES.index(name)], rows) for name in measures}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {"p50": float(np.percentile(values, 50)), "p95": float(np.percentile(values, 95))}


def rank_everything(
    forest: MemForest, conversations: Sequence[Conversation], vectors: Mapping[str, Any], seed: int
) -> Scored:
    """Ask every question of every system."""
    scored = Scored(conversations, seed)
    ranked: dict[str, list[list[str]]] = {name: [] for name in BASELINES}
    for conversation in conversations:
        turns = Turns(conversation, vectors)
        for question in conversation.questions:
            for name, order in turns.rank(question.text).items():
                ranked[name].append(order)
    for name in BASELINES:
        scored.add(name, ranked[name])
    scored.add("flat", memories.ask_all(forest, conversations, index="flat"))
    scored.add(OURS, memories.ask_all(forest, conversations))
    return scored


def ablate(
    forest: MemForest, verbatim: MemForest, conversations: Sequence[Conversation], scored: Scored
) -> dict[str, dict[str, Any]]:
    """Switch one part off at a time, and return what that changes."""
    found = {}
    for row, weights in memories.ABLATIONS.items():
        note(f"without: {row.strip()}")
        scored.add(
            row,
            memories.ask_all(forest, conversations, depth=memories.DEPTH, ranking=memories.changed(weights)),
        )
        found[row] = scored.difference(row, OURS)
    note("without: extracted facts")
    scored.add("extracted facts", memories.ask_all(verbatim, conversations, depth=memories.DEPTH))
    found["extracted facts"] = scored.difference("extracted facts", OURS)
    return found


def rerank(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Ask everything by default and with the local reranker, and return what that changes and what it costs.

    Raises:
        WeightsError: if the reranker's weights are not installed.
    """
    conversations = read_conversations(options.file)
    directory, config = work / "memories", Config(embedder=options.embedder, reranker=None)
    largest = max(conversations, key=lambda one: len(one.turn_session))
    scored, ms = Scored(conversations, options.seed), {}
    for system, settings in ((OURS, config), (RERANKED, replace(config, reranker="local"))):
        with MemForest(directory, settings) as forest:
            memories.build(forest, conversations)
            note(f"asking: {system}")
            # Timed first, while the embedder has not seen the questions.
            ms[system] = memories.warm_ms(forest, largest)
            scored.add(system, memories.ask_all(forest, conversations, depth=memories.DEPTH))
    return {
        "reranker": MS_MARCO.model_id,
        "candidates": config.rerank_top,
        "weight": config.ranking.rerank,
        "overall": {name: scored.overall(name) for name in ms},
        "difference": scored.difference(RERANKED, OURS, RERANK_MEASURES),
        "categories": {
            CATEGORIES[category]: scored.difference(RERANKED, OURS, RERANK_MEASURES, category)
            for category in CATEGORIES
            if (scored.category == category).any()
        },
        "conversation": largest.id,
        "ms": {name: {step: percentiles(took) for step, took in steps.items()} for name, steps in ms.items()},
    }


def latency(forest: MemForest, directory: Path, embedder: str, conversation: Conversation) -> dict[str, Any]:
    """Return the latency of default queries to one conversation, warm and cold, in ms."""
    cold = memories.cold_ms(directory, embedder, conversation)
    return {
        "conversation": conversation.id,
        "turns": len(conversation.turn_session),
        "queries": len(conversation.questions),
        "warm": {step: percentiles(ms) for step, ms in memories.warm_ms(forest, conversation).items()},
        "reopened": percentiles(memories.reopened_ms(forest, conversation)),
        **{f"new process, {what}": percentiles(ms) for what, ms in cold.items()},
    }


def ingest(config: Config, conversation: Conversation) -> list[dict[str, Any]]:
    """Return what the ingest of one conversation takes, both ways."""
    found = []
    for batch in (True, False):
        with tempfile.TemporaryDirectory(prefix="locomo-ingest-") as folder:
            cost = memories.ingest_cost(Path(folder), config, conversation, batch=batch)
        found.append(
            {
                **asdict(cost),
                "embed_total": cost.embed,
                "other_ms_per_turn": cost.other_ms_per_turn,
                "texts_per_turn": cost.texts_per_turn,
            }
        )
    return found


def note(text: str) -> None:
    """Say on stderr what is being done; a run takes minutes."""
    print(f"... {text}", file=sys.stderr, flush=True)


def print_report(report: Mapping[str, Any]) -> None:
    """Print all tables."""
    head = report["head"]
    for key, value in head.items():
        print(f"{key}: {value}")
    tag = f"n = {head['questions']}, {head['embedder']}"
    if report.get("overall"):
        _print_overall(report["overall"], tag)
        _print_categories(report["categories"], tag)
        _print_differences(f"{OURS} minus each, paired, points", report["differences"], tag)
    if report.get("ablation"):
        _print_differences("each part off, minus all on, paired, points", report["ablation"], tag)
    if report.get("rerank"):
        _print_rerank(report["rerank"], tag)
    if report.get("latency"):
        _print_latency(report["latency"], head["embedder"])
    for one in report.get("ingest", ()):
        _print_ingest(one, head["embedder"])


def _print_overall(table: Mapping[str, Any], tag: str) -> None:
    print(f"\nevidence recall, % ({tag})")
    print(f"{'':16}" + "".join(f"{name:>9}" for name in MEASURES))
    for system, chunks in table.items():
        print(f"{system:16}" + "".join(f"{chunks[name]['mean']:9.1f}" for name in MEASURES))
    print(f"\n95% intervals of {OURS}: over questions (over conversations)")
    for name in MEASURES:
        chunk = table[OURS][name]
        low, high = chunk["questions"]
        wide = chunk["conversations"]
        print(f"  {name:9}{chunk['mean']:5.1f} [{low:.1f}, {high:.1f}]  ({wide[0]:.1f}, {wide[1]:.1f})")


def _print_categories(table: Mapping[str, Any], tag: str) -> None:
    print(f"\nby category, % ({tag})")
    print(f"{'':27}{'n':>5}" + "".join(f"{name:>9}" for name in MEASURES) + "   R@20 interval")
    for category, name in CATEGORIES.items():
        for system, found in table.items():
            if category in found:
                chunks = found[category]
                low, high = chunks["R@20 interval"]
                row = "".join(f"{chunks[column]:9.1f}" for column in MEASURES)
                print(f"{name:13}{system:14}{chunks['n']:5}{row}   [{low:.1f}, {high:.1f}]")


def _print_differences(title: str, table: Mapping[str, Any], tag: str) -> None:
    print(f"\n{title}: [95% over questions] (over conversations) ({tag})")
    print(f"{'':18}" + "".join(f"{name:>36}" for name in DIFFERENCES))
    for row, chunks in table.items():
        print(f"{row:18}" + "".join(f"{_signed(chunks[name]):>36}" for name in DIFFERENCES))


def _print_rerank(found: Mapping[str, Any], tag: str) -> None:
    print(
        f"\ndefault without and with {found['reranker']} over the first {found['candidates']}, "
        f"weight {found['weight']} ({tag})"
    )
    print(f"{'':13}{'without':>9}{'with':>9}   difference: [95% over questions] (over conversations)")
    for name in RERANK_MEASURES:
        chunks = [found["overall"][system][name]["mean"] for system in (OURS, RERANKED)]
        print(f"{name:13}{chunks[0]:9.1f}{chunks[1]:9.1f}   {_signed(found['difference'][name])}")
    for category, chunks in found["categories"].items():
        row = ", ".join(f"{name} {_signed(chunks[name]).partition(' (')[0]}" for name in RERANK_MEASURES)
        print(f"  {category:13}{row}")
    print(f"  warm query of {found['conversation']}, ms:")
    for system, steps in found["ms"].items():
        row = "   ".join(f"{step} {took['p50']:.0f} / {took['p95']:.0f}" for step, took in steps.items())
        print(f"    {system:11}p50 / p95: {row}")


def _signed(chunk: Mapping[str, Any]) -> str:
    (low, high), wide = chunk["questions"], chunk["conversations"]
    return f"{chunk['mean']:+.1f} [{low:+.1f}, {high:+.1f}] ({wide[0]:+.1f}, {wide[1]:+.1f})"


def _print_latency(found: Mapping[str, Any], embedder: str) -> None:
    print(
        f"\nquery latency, ms: {found['conversation']}, {found['turns']} turns, {found['queries']} queries, "
        f"default configuration ({embedder})"
    )
    rows = {f"warm, {step}": chunk for step, chunk in found["warm"].items()}
    rows |= {name: chunk for name, chunk in found.items() if name.startswith(("reopened", "new process"))}
    for name, chunk in rows.items():
        print(f"  {name:28}p50 {chunk['p50']:8.1f}   p95 {chunk['p95']:8.1f}")


def _print_ingest(one: Mapping[str, Any], embedder: str) -> None:
    print(f"\ningest of {one['turns']} turns as {one['how']} ({embedder})")
    steps = "  ".join(f"{step} {value:.2f}" for step, value in sorted(one["seconds"].items()))
    print(f"  seconds: {one['wall']:.2f}; {steps}")
    print(
        f"  everything but embedding: {one['other_ms_per_turn']:.2f} ms a turn, and "
        f"{(one['wall'] - one['embed_total']) / max(one['embed_total'], 1e-9):.2f} of the embedding time"
    )
    print(f"  texts embedded: {one['texts_per_turn']:.2f} a turn; {dict(sorted(one['texts'].items()))}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file: a list of samples with conversation and qa")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep memories here, so that a rerun is fast"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the bootstrap's draws")
    parser.add_argument("--ablation", action="store_true", help="switch each part off in turn")
    parser.add_argument(
        "--rerank", action="store_true", help="only compare the default without and with the reranker"
    )
    parser.add_argument(
        "--leads", action="store_true", help="only list what time order leads with, and its effect"
    )
    cost = parser.add_mutually_exclusive_group()
    cost.add_argument("--no-cost", action="store_true", help="leave latency and ingest times out")
    cost.add_argument("--only-cost", action="store_true", help="measure latency and ingest times alone")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Make the memories, ask, and return the report."""
    conversations = read_conversations(options.file)
    config = Config(embedder=options.embedder, reranker=None)
    report: dict[str, Any] = {"head": head(options, conversations, MODELS[options.embedder].model_id)}
    if options.rerank:
        (work / options.embedder / "memories").mkdir(parents=True, exist_ok=True)
        report["rerank"] = rerank(options, work / options.embedder)
        return report
    if not options.only_cost:
        report |= recall(options, work / options.embedder, config, conversations)
    if not options.no_cost:
        note("measuring latency and ingest")
        largest = max(conversations, key=lambda one: len(one.turn_session))
        directory = work / options.embedder / "memories"
        # A forest of its own: its embedder has not seen the questions.
        with MemForest(directory, config) as forest:
            memories.build(forest, [largest])
            report["latency"] = latency(forest, directory, options.embedder, largest)
        report["ingest"] = ingest(config, largest)
    return report


def recall(
    options: argparse.Namespace, work: Path, config: Config, conversations: Sequence[Conversation]
) -> dict[str, Any]:
    """Ask everything of every system and return the tables of recall."""
    directory, digest = work / "memories", work / "made-by"
    directory.mkdir(parents=True, exist_ok=True)
    with MemForest(directory, config) as forest:
        note("ingesting what is not there yet")
        made = memories.build(forest, conversations)
        if made or not digest.exists():
            digest.write_text(memories.source_digest(), encoding="utf-8")
        elif digest.read_text(encoding="utf-8") != memories.source_digest():
            note(f"the memories in {directory} were made by other code; delete them to measure this one's")
        note("asking")
        embedder = open_embedder(MODELS[options.embedder].model_id)
        vectors = vectors_of(conversations, embedder, work / "vectors.npz")
        scored = rank_everything(forest, conversations, vectors, options.seed)
        report: dict[str, Any] = {
            "overall": {name: scored.overall(name) for name in (*BASELINES, "flat", OURS)},
            "categories": {name: scored.by_category(name) for name in ("z-fusion", "flat", OURS)},
            "differences": {name: scored.difference(OURS, name) for name in (*BASELINES, "flat")},
        }
        if options.ablation:
            with MemForest(work / "verbatim", config) as verbatim:
                memories.build(verbatim, conversations, infer=False)
                report["ablation"] = ablate(forest, verbatim, conversations, scored)
    return report


def print_leads(options: argparse.Namespace, work: Path) -> None:
    """List what time order leads with, in the memories kept in `work` (made when they are not there)."""
    conversations = read_conversations(options.file)
    directory = work / options.embedder / "memories"
    directory.mkdir(parents=True, exist_ok=True)
    with MemForest(directory, Config(embedder=options.embedder, reranker=None)) as forest:
        memories.build(forest, conversations)
        found = leads.find_leads(forest, conversations)
    leads.print_leads(found, sum(len(one.questions) for one in conversations))


def head(options: argparse.Namespace, conversations: Sequence[Conversation], embedder: str) -> dict[str, Any]:
    """Return what was measured by what: the file, its size, the embedder, the seed and the versions."""
    packages = ("memforest", "numpy", "onnxruntime", "snowballstemmer")
    return {
        "file": options.file.name,
        "conversations": len(conversations),
        "turns": sum(len(one.turn_session) for one in conversations),
        "questions": sum(len(one.questions) for one in conversations),
        "embedder": embedder,
        "configuration": "default",
        "seed": options.seed,
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]
        ),
    }


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    with contextlib.ExitStack() as stack:
        work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="locomo-")))
        if options.leads:
            print_leads(options, work)
            return 0
        report = run(options, work)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print_report(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
