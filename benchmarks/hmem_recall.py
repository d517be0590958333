"""What the index hmem brings to a question: evidence recall in so many pieces and within equal context, switch by switch.

    python benchmarks/hmem_recall.py FILE [--embedder minilm|bge] [--work DIR] [--every N] [--only TABLE ...] [--show]

Every conversation of a LoCoMo file becomes one memory, without a model, with the indexes ``memforest`` and ``hmem`` and those of
``--others``, and all its memories are written. Its questions (categories 1 to 4 with evidence, asked at the time of the last session) are
asked of ``hmem`` with each switch of Table 5 of H-Mem (arXiv 2605.15701), in each scope, and as the paper has it where this
package does otherwise; and of the other indexes. Planner and follow-ups are rules.

- *@10*, *@20*: the share of the supporting turns that is found in so many pieces of evidence; *256* to *2048*: in so many tokens of
  context; *tokens* and *mem.*: the tokens of the first ten pieces, and how many of them are memories.
- A turn is found where it is shown, or where a memory has a whole sentence of it (`calendar_tree.told`), never for standing below one.

Intervals are 95 %, over questions in brackets and over conversations in parentheses; with five of those the latter are rough. The paper's
own figures are of answers by models, and are shown beside for their order alone.

``--only``: ablations, scopes, forms, others, missed. ``--show`` prints the way between the two who talk, and their profiles,
of two conversations, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from calendar_tree.table import Table
from calendar_tree.told import BUDGETS, PIECES, pieces_of, talked, walk
from exploring import missed
from exploring.apart import HEAD as APART
from exploring.apart import Apart
from exploring.shown import said_in, shown
from exploring.ways import ABLATIONS, BASE, DEFAULT, FORMS, PAPER, SCOPES, Way, named
from hmem_shape import memories
from kept import KeptVectors
from locomo.conversations import CATEGORIES, Conversation, Question, read_conversations
from memforest import MemForest, QueryResult
from memforest.config import Explore, Ranking
from memforest.models import BGE_SMALL, MINILM, open_embedder
from memforest.settings import MAX_TOP_K

__all__ = ["ask", "ask_ways", "main", "missed_turns", "rows"]

SEED = 7
MODELS = {"minilm": MINILM, "bge": BGE_SMALL}
DEPTH = 60
"""Evidence asked for: more than any budget has."""
DEEP = MAX_TOP_K
"""Evidence asked for where a missed turn is looked for: more than a conversation has turns."""
FIRST = 20
MULTI_HOP = 1
PLAIN = "flat"
TABLES = ("ablations", "scopes", "forms", "others", "missed")
HEAD = (
    "",
    *(f"{name} @20" for name in CATEGORIES.values()),
    "all @10",
    "@20",
    *map(str, BUDGETS),
    "tokens",
    "mem.",
    "paper",
)


def ask(
    forest: MemForest, conversation: Conversation, question: Question, way: Way, depth: int = DEPTH
) -> QueryResult:
    """Ask a question at the time of the last session."""
    return forest.query(
        conversation.id,
        question.text,
        reference_date=conversation.sessions[-1].timestamp,
        top_k=depth,
        index=way.index,
        ranking=Ranking() if way.explore is None else Ranking(explore=way.explore),
    )


def ask_ways(
    table: Table, ways: Mapping[str, Way], forest: MemForest, conversations: Sequence[Conversation]
) -> dict[int, Apart]:
    """Ask every question in some ways and add what comes of each; return how `DEFAULT` took them apart, by category."""
    apart: dict[int, Apart] = {}
    for conversation in conversations:
        note(f"{conversation.id}: {len(ways)} ways")
        said = talked(conversation)
        for question in conversation.questions:
            for name, way in ways.items():
                result = ask(forest, conversation, question, way)
                table.add(name, walk(pieces_of(result.evidence), question.gold, said))
                if name == DEFAULT:
                    apart.setdefault(question.category, Apart()).add(question.text, result.trace)
    return apart


def note(text: str) -> None:
    """Say on stderr what is being done; a run takes many minutes."""
    print(f"... {text}", file=sys.stderr, flush=True)


def line(chunks: Sequence[object]) -> str:
    """Return a line of a table; numbers have one decimal."""
    return f"| {' | '.join(f'{one:.1f}' if isinstance(one, float) else str(one) for one in chunks)} |"


def head(chunks: Sequence[str]) -> str:
    """Return the first two lines of a table."""
    return f"{line(chunks)}\n|---{'|--:' * (len(chunks) - 1)}|"


def rows(table: Table, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of ways."""
    parts = [table.of(category) if category in table.category else None for category in CATEGORIES]
    for name in names:
        chunks = ["" if part is None else part.mean(name, f"found@{FIRST}") for part in parts]
        chunks += [table.mean(name, measure) for measure in ("found@10", f"found@{FIRST}")]
        chunks += [table.mean(name, f"found {budget}") for budget in BUDGETS]
        counts = [f"{table.mean(name, 'tokens@10'):.0f}", table.mean(name, "memories@10")]
        yield line([name, *chunks, *counts, f"{PAPER[name]:.2f}" if name in PAPER else ""])


def print_rows(title: str, table: Table, names: Sequence[str]) -> None:
    """Print a table of ways."""
    print(f"\n{title}\n\n{head(HEAD)}")
    for text in rows(table, names):
        print(text, flush=True)


def print_gaps(table: Table, names: Sequence[str], other: str, measures: Sequence[str]) -> None:
    """Print the paired differences of ways to another one, of questions of several hops and of all."""
    print(f"\ndifferences to {other}, paired, in points\n")
    print(head(("", *(f"{which}, {measure}" for measure in measures for which in ("multi-hop", "all")))))
    hops = table.of(MULTI_HOP)
    for name in names:
        print(
            line(
                [
                    name,
                    *(
                        one.gap(name, other, measure).line("+")
                        for measure in measures
                        for one in (hops, table)
                    ),
                ]
            )
        )


def print_spreads(table: Table, names: Sequence[str]) -> None:
    """Print the intervals of some ways by category."""
    print(f"\nintervals of recall in the first {FIRST} pieces\n")
    known = [category for category in CATEGORIES if category in table.category]
    print(head(("", *(f"{CATEGORIES[one]} ({sum(table.category == one)})" for one in known), "all")))
    parts = [*(table.of(one) for one in known), table]
    for name in names:
        print(line([name, *(part.spread(name, f"found@{FIRST}").line() for part in parts)]))


def print_sizes(table: Table, names: Sequence[str]) -> None:
    """Print recall by the number of pieces, k."""
    print("\nrecall in the first k pieces (multi-hop, all) and their tokens\n")
    print(head(("", *(f"k={count}" for count in PIECES))))
    hops = table.of(MULTI_HOP)
    for name in names:
        chunks = [
            f"{hops.mean(name, f'found@{count}'):.1f}, {table.mean(name, f'found@{count}'):.1f}; "
            f"{table.mean(name, f'tokens@{count}'):.0f}"
            for count in PIECES
        ]
        print(line([name, *chunks]))


def print_apart(apart: Mapping[int, Apart]) -> None:
    """Print how questions were taken apart. The paper's are a model's (Table 9)."""
    print(f"\nhow rules take questions apart\n\n{head(APART)}")
    everything = Apart()
    for category in sorted(apart):
        print(apart[category].row(CATEGORIES[category]))
        everything += apart[category]
    print(everything.row("all"))
    print("| paper (a model's) | 1540 | 1777 | 1.15 |  |  |  |  | 6.36 |  |")
    for question, text in everything.followed:
        print(f"follow-up: {question} > {text}")
    for why, count in everything.why.most_common(5):
        print(f"refused {count} times: {why}")


def missed_turns(
    forest: MemForest, conversations: Sequence[Conversation], way: Way
) -> tuple[list[missed.Missed], int]:
    """Return the turns that are missed in the first pieces for questions of several hops, and how many there were to find.

    Args:
        forest: with a memory for each conversation.
        conversations: with the questions.
        way: that misses them.
    """
    found, wanted = [], 0
    for conversation in conversations:
        note(f"{conversation.id}: missed turns")
        said, texts = talked(conversation), said_in(conversation)
        names = {str(turn["speaker"]) for one in conversation.sessions for turn in one.turns}
        beside: dict[str, frozenset[str]] = {}
        for session in conversation.sessions:
            beside.update(missed.neighbours([str(turn["dia_id"]) for turn in session.turns]))
        for question in conversation.questions:
            if question.category != MULTI_HOP:
                continue
            wanted += len(question.gold)
            deep = ask(forest, conversation, question, way, DEEP).evidence
            pieces = pieces_of(deep)
            ranks = {turn: missed.first_found(pieces, turn, said) for turn in sorted(question.gold)}
            lost = [turn for turn, rank in ranks.items() if not 0 < rank <= FIRST]
            if not lost:
                continue
            base = pieces_of(ask(forest, conversation, question, Way(BASE), DEEP).evidence)
            led = pieces_of(
                ask(forest, conversation, question, Way(DEFAULT, Explore(reach="graph")), DEEP).evidence
            )
            first = {turn for one in pieces[:FIRST] for turn in one.turns}
            of_turn = {turn: one for one, piece in zip(deep, pieces, strict=True) for turn in piece.turns}
            for turn in lost:
                own = of_turn.get(turn)
                found.append(
                    missed.Missed(
                        rank=ranks[turn],
                        base=missed.first_found(base, turn, said),
                        led=any(turn in one.turns for one in led),
                        near=own is not None
                        and any(part.endswith("entity") and x > 0 for part, x in own.scores.items()),
                        word=missed.shares_a_word(question.text, texts[turn], names),
                        beside=bool(beside[turn] & first),
                        event=own is not None and own.fact_id is not None,
                    )
                )
    return found, wanted


def print_missed(forest: MemForest, conversations: Sequence[Conversation], name: str, way: Way) -> None:
    """Print where the missed turns of a way are."""
    found, wanted = missed_turns(forest, conversations, way)
    print(
        f"\nmulti-hop turns that {name} misses in its first {FIRST} pieces: {len(found)} of {wanted}; in %\n"
    )
    titles = (
        "rank",
        "turns",
        "entities led",
        "entity near",
        "word shared",
        "beside a found one",
        "statement",
    )
    print(head((*titles, f"found by {BASE}")))
    for text in missed.table(found, FIRST):
        print(text)


def run(options: argparse.Namespace, work: Path | None) -> None:
    """Make the memories, ask, and print."""
    conversations = read_conversations(options.file)
    asked = [replace(one, questions=one.questions[:: options.every]) for one in conversations]
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    model = open_embedder(MODELS[options.embedder].model_id)
    with contextlib.ExitStack() as stack:
        kept = work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hmem-vectors-")))
        embedder = KeptVectors(model, kept / "vectors.npz")
        if options.show:  # of memories without an index that keeps profiles: what the graph has
            first = conversations[:2]
            forest, _ = stack.enter_context(memories(first, embedder, work and work / "shown"))
            for conversation in first:
                print("\n".join(shown(forest, conversation)))
            return
        forest, _ = stack.enter_context(memories(conversations, embedder, work and work / "memories"))
        indexes = prepared(forest, conversations, options.others)
        count = sum(len(one.questions) for one in asked)
        print(
            f"conversations: {len(asked)}, n = {count}; embedder {embedder.model_id}; no model; seed {options.seed} of the draws"
        )
        report(forest, asked, indexes, options)
        embedder.save()


def prepared(forest: MemForest, conversations: Sequence[Conversation], others: Sequence[str]) -> list[str]:
    """Give every memory the indexes, with all they tell up to date; return the names that all carry."""
    carried: list[set[str]] = []
    for one in conversations:
        memory = forest.user(one.id)
        for name in (BASE, DEFAULT, *others):
            if all(name != index.name for index in memory.indexes()):
                note(f"{one.id}: adding {name}")
                memory.add_index(name)
        memory.advance(force=True)
        memory.flush()
        carried.append({index.name for index in memory.indexes()})
    return sorted(set.intersection(*carried) | {PLAIN})


def report(
    forest: MemForest, asked: Sequence[Conversation], indexes: Sequence[str], options: argparse.Namespace
) -> None:
    """Ask and print table by table, so that a run that is stopped has shown something."""
    wanted = options.only or TABLES
    table = Table(asked, options.seed)
    alone = [BASE, PLAIN, DEFAULT]
    apart = ask_ways(table, named(alone), forest, asked)
    print_rows("indexes by themselves", table, alone)
    print_apart(apart)
    for title, ways in (("ablations", ABLATIONS), ("scopes", SCOPES), ("forms", FORMS)):
        if title in wanted:
            ask_ways(table, ways, forest, asked)
            print_rows(title, table, [DEFAULT, *ways])
            print_gaps(table, list(ways), DEFAULT, (f"found@{FIRST}", "found 1024"))
    if "others" in wanted:
        ways = named(one for one in indexes if one not in alone)
        ask_ways(table, ways, forest, asked)
        print_rows("other indexes", table, list(ways))
        print_gaps(table, [DEFAULT, PLAIN, *ways], BASE, (f"found@{FIRST}", "found 1024"))
    shown_ways = [BASE, PLAIN, DEFAULT, *(["always mixed"] if "scopes" in wanted else [])]
    print_spreads(table, shown_ways)
    print_sizes(table, shown_ways)
    if "missed" in wanted:
        print_missed(forest, asked, DEFAULT, Way(DEFAULT))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep memories here, so that a rerun is fast"
    )
    parser.add_argument("--others", nargs="*", default=["timem", "segtree"], help="more indexes to combine")
    parser.add_argument("--seed", type=int, default=SEED, help="of the bootstrap's draws")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every Nth question alone")
    parser.add_argument("--only", nargs="+", choices=TABLES, help="some of the tables")
    parser.add_argument("--show", action="store_true", help="print ways and profiles, and no table")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    print(f"command: python benchmarks/hmem_recall.py {shlex.join([options.file.name, *arguments[1:]])}")
    run(options, options.work and options.work / options.embedder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
