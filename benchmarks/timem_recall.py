"""What the levels of a calendar tree bring to a question: evidence recall at 20 segments and within equal context.

    python benchmarks/timem_recall.py FILE [--embedder minilm|bge] [--work DIR] [--every N] [--only TABLE ...]

Every conversation of a LoCoMo file becomes one memory with the indexes ``memforest`` and ``timem``, without a model, and all its
windows are written. Its questions (categories 1 to 4 with evidence, asked at the time of the last session) are asked in every
way of TiMem's Tables 3 and 4 (arXiv 2601.02845), with segments of 1 to 8 exchanges (Table 9), with weights of the cosine
(Table 10), and of ``memforest`` and ``flat`` on the same memory. Planner and gate are the rules of the package, not a model.

- *L1@20*: the share of the supporting turns in the first 20 segments that the evidence names.
- *256* to *2048*: the share that is found in so many tokens of context; *all*: in everything that is recalled. *told*: the
  share that is told in 512 and 2,048 tokens, and in everything.
- *tokens*: of everything that is recalled, mean, median and 95th percentile; *paper*: its mean there, where it says one.

`calendar_tree.told` says what is found. Intervals are 95 %, over questions and (in parentheses) over conversations; with five of
those the latter are rough.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from calendar_tree.build import INDEX, build, build_variant, config_of
from calendar_tree.counts import Ways
from calendar_tree.table import Table
from calendar_tree.told import BUDGETS, MEASURES, Talked, pieces_of, talked, walk
from calendar_tree.ways import COMPLEXITIES, DEFAULT, PAPER_TOKENS, SEGMENTS, TABLES
from kept import KeptVectors
from locomo.conversations import CATEGORIES, Conversation, Question, read_conversations
from memforest import MemForest, QueryResult
from memforest.config import Ranking, Recall
from memforest.models import BGE_SMALL, MINILM, open_embedder

__all__ = ["ask", "ask_ways", "main", "row"]

SEED = 7
MODELS = {"minilm": MINILM, "bge": BGE_SMALL}
DEPTH = 200
"""Evidence asked for: more than any budget has."""
OTHERS = ("memforest", "flat")
_SHOWN = (MEASURES[0], *(f"found {budget}" for budget in BUDGETS), "told 512", "told 2048", "found", "told")
_UNBOUNDED = len(_SHOWN) - 2
"""Those that are shown of an index that brings as much as it is asked for."""
Mix = Counter[tuple[int, str]]


def ask(
    forest: MemForest, conversation: Conversation, question: Question, recall: Recall | None, index: str
) -> QueryResult:
    """Ask a question at the time of the last session."""
    ranking = Ranking() if recall is None else Ranking(recall=recall)
    now = conversation.sessions[-1].timestamp
    return forest.query(
        conversation.id,
        question.text,
        reference_date=now,
        top_k=DEPTH,
        index=index,
        ranking=ranking,
    )


def ask_ways(
    table: Table,
    mix: Mix,
    ways: Mapping[str, tuple[Recall | None, str]],
    forest: MemForest,
    conversations: Sequence[Conversation],
    cut: Ways,
) -> None:
    """Ask every question in some ways, and add what comes of each.

    Args:
        table: gets the measures.
        mix: gets what the planner said, by category, where the default is asked.
        ways: name -> the recall, and the index that is asked.
        forest: with a memory for each conversation.
        conversations: with the questions.
        cut: how segments are cut.
    """
    for conversation in conversations:
        note(f"{conversation.id}: {len(ways)} ways")
        said = talked(conversation, cut)
        for question in conversation.questions:
            for name, (recall, index) in ways.items():
                result = ask(forest, conversation, question, recall, index)
                table.add(name, measured(result, question, said))
                if name == DEFAULT:
                    mix[question.category, result.plan.complexity or "?"] += 1


def measured(result: QueryResult, question: Question, said: Talked) -> list[float]:
    """Return the measures of a result."""
    return walk(pieces_of(result.evidence), question.gold, said)


def note(text: str) -> None:
    """Say on stderr what is being done; a run takes many minutes."""
    print(f"... {text}", file=sys.stderr, flush=True)


HEAD = (
    f"{'':<40}"
    + "".join(f"{name:>7}" for name in ("L1@20", *map(str, BUDGETS), "t 512", "t 2048", "all", "told"))
    + (f"{'tokens':>8}{'P50':>7}{'P95':>7}{'paper':>7}")
)


def row(table: Table, name: str, *, bounded: bool = True) -> str:
    """Return a line of a table; what is recalled in all is left out of an index that brings as much as it is asked for."""
    shares = [table.mean(name, one) for one in _SHOWN]
    chunks = "".join(f"{one:>7.1f}" for one in (shares if bounded else shares[:_UNBOUNDED]))
    if not bounded:
        return f"{name:<40}{chunks}"
    counts = (table.mean(name, "tokens"), *(table.percentile(name, "tokens", one) for one in (50, 95)))
    paper = f"{PAPER_TOKENS[name]:>7.0f}" if name in PAPER_TOKENS else ""
    return f"{name:<40}{chunks}{counts[0]:>8.0f}{counts[1]:>7.0f}{counts[2]:>7.0f}{paper}"


def print_rows(title: str, table: Table, names: Sequence[str]) -> None:
    """Print a table."""
    print(f"\n{title}\n{HEAD}")
    for name in names:
        print(row(table, name, bounded=name not in OTHERS))


def print_gaps(table: Table) -> None:
    """Print the intervals of the default, and the differences that are claimed."""
    print("\nintervals, over questions (over conversations)")
    for name in (DEFAULT, *OTHERS):
        for measure in (MEASURES[0], "found 512"):
            print(f"  {name:<16} {measure:<11} {table.spread(name, measure).line()}")
    print("differences, paired, in points")
    pairs = [(DEFAULT, other) for other in OTHERS]
    pairs += [
        (f"{one}, hierarchical{tail}", f"{one}, flat{tail}")
        for tail in ("", ", no gate")
        for one in ("L1-L5", "L2-L5", "L1")
    ]
    pairs += [
        (DEFAULT, "paper's leaves, 0.9"),
        ("paper's leaves, 0.9", "paper's leaves, 1"),
    ]
    known = set(table.names())
    for name, other in pairs:
        if name in known and other in known:
            for budget in BUDGETS:
                gap = table.gap(name, other, f"found {budget}").line("+")
                print(f"  {name} - {other}, {budget} tokens: {gap}")


def print_mix(mix: Mix) -> None:
    """Print what the planner took the questions for."""
    print("\nwhat the keyless planner takes questions for, %")
    print(f"{'':<14}{'n':>6}" + "".join(f"{name:>9}" for name in COMPLEXITIES))
    categories = sorted({category for category, _ in mix})
    for name, those in [*((CATEGORIES[one], [one]) for one in categories), ("all", categories)]:
        counts = [sum(mix[one, level] for one in those) for level in COMPLEXITIES]
        total = sum(n for (category, _), n in mix.items() if category in those)
        print(f"{name:<14}{total:>6}" + "".join(f"{100 * one / total:>9.1f}" for one in counts))


def run(options: argparse.Namespace, work: Path) -> None:
    """Make the memories, ask, and print."""
    conversations = read_conversations(options.file)
    asked = [replace(one, questions=one.questions[:: options.every]) for one in conversations]
    work.mkdir(parents=True, exist_ok=True)
    embedder = KeptVectors(open_embedder(MODELS[options.embedder].model_id), work / "vectors.npz")
    note("making what is not there yet")
    build(work / "memories", conversations, embedder)
    print(
        f"conversations: {len(asked)}, n = {sum(len(one.questions) for one in asked)}; embedder {embedder.model_id}; "
        f"no model; seed {options.seed} of the draws"
    )
    wanted = {
        title: ways
        for title, ways in TABLES.items()
        if not options.only or title.split(":")[0] in options.only
    }
    table, mix = Table(asked, options.seed), Mix()
    every: dict[str, tuple[Recall | None, str]] = {name: (None, name) for name in OTHERS}
    every |= {DEFAULT: (Recall(), INDEX)}
    every |= {name: (recall, INDEX) for ways in wanted.values() for name, recall in ways.items()}
    with MemForest(work / "memories", config_of(embedder)) as forest:
        ask_ways(table, mix, every, forest, asked, Ways())
    print_rows("beside the other indexes", table, [*OTHERS, DEFAULT])
    for title, ways in wanted.items():
        print_rows(title, table, list(ways))
    print_gaps(table)
    print_mix(mix)
    if not options.only or "Table 9" in options.only:
        sizes = Table(asked, options.seed)
        for size in SEGMENTS:
            _ask_size(sizes, size, work, asked, embedder)
        print_rows("Table 9: exchanges of a segment", sizes, sizes.names())


def _ask_size(
    table: Table, size: int, work: Path, asked: Sequence[Conversation], embedder: KeptVectors
) -> None:
    directory, settings = work / f"segment-{size}", {"segment": size}
    build_variant(directory, work / "memories", asked, embedder, settings)
    with MemForest(directory, config_of(embedder, settings)) as forest:
        ways: dict[str, tuple[Recall | None, str]] = {f"segment={size}": (Recall(), INDEX)}
        ask_ways(table, Mix(), ways, forest, asked, Ways(segment=size))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep memories here, so that a rerun is fast"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the bootstrap's draws")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every Nth question alone")
    parser.add_argument(
        "--only", nargs="+", metavar="TABLE", help="some of the tables, by the first words of their titles"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    print(f"command: python benchmarks/timem_recall.py {shlex.join([options.file.name, *arguments[1:]])}")
    with contextlib.ExitStack() as stack:
        work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="timem-")))
        run(options, work / options.embedder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
