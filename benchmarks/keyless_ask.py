"""How often does `ask` answer rightly, wrongly or not at all without a model?

Run ``python benchmarks/keyless_ask.py`` (``--help`` for options). Three conversations (a family, a customer's support, a
coach) become a memory each, through the public API; 80 questions have an answer in them and 20 have none. A question that
is asked as of a day is asked when the sessions up to that day have been told and no later one, and the others at the end.

- right: the answer, or a quote it cites, names one of the question's answers (case, accents and punctuation ignored; every
  element of a list), and one of the cited turns is one that says it;
- partly: one of the two; the two are also counted apart, as *text* and *turn*;
- wrong: answered, and neither;
- abstained: not answered, which is right for the 20 questions without an answer.

A quote never says "yes" or "no", so questions of the kind *yesno* count as partly where the right turn is quoted.
The conversations were written by another hand without sight of the rules. Nobody consults them: no question is ever printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from asking.questions import Conversation, Given, Question, Scored, read_conversations, score
from memforest import AskResult, MemForest, load_default_config
from proportions import Share

OUTCOMES: Mapping[str, Callable[[Scored], bool]] = {
    "right": lambda one: one.right,
    "partly": lambda one: one.partly,
    "wrong": lambda one: one.wrong,
    "abstained": lambda one: not one.answered,
    "text": lambda one: one.text,
    "turn": lambda one: one.turn,
}
Asked = tuple[Conversation, Question, Scored]


def read(result: AskResult) -> Given:
    """Return what a memory answered; the one place that knows the shape of the result."""
    return Given(
        result.answer,
        [one.quote or one.text for one in result.citations],
        frozenset(
            (source.session_id, turn)
            for one in result.citations
            for source in one.sources
            for turn in source.turn_ids
        ),
    )


def run(conversation: Conversation, work: Path, settings: Mapping[str, Any], most: int | None) -> list[Asked]:
    """Tell a conversation to a memory session by session, and ask its questions when they are due."""
    waiting = sorted(conversation.questions[:most], key=lambda one: one.reference)
    found: list[Asked] = []
    with MemForest(work / conversation.id, load_default_config(**settings)) as forest:
        for session in conversation.sessions:
            while waiting and waiting[0].reference < session.time:
                found.append((conversation, waiting[0], _ask(forest, conversation, waiting.pop(0))))
            forest.ingest_session(conversation.id, session.id, session.turns, timestamp=session.time)
        found += [(conversation, one, _ask(forest, conversation, one)) for one in waiting]
    return found


def _ask(forest: MemForest, conversation: Conversation, question: Question) -> Scored:
    result = forest.ask(conversation.id, question.text, reference_date=question.reference)
    return score(question, read(result))


def table(found: Sequence[Asked]) -> dict[str, dict[str, Share]]:
    """Return shares of the outcomes of answerable questions: all, by conversation and by kind; and of the others."""
    rows: dict[str, list[Scored]] = {"answerable": [one for _, q, one in found if q.answerable]}
    for name in dict.fromkeys(c.id for c, _, _ in found):
        rows[name] = [one for c, q, one in found if c.id == name and q.answerable]
    for kind in dict.fromkeys(q.kind for _, q, _ in found if q.answerable):
        rows[kind] = [one for _, q, one in found if q.kind == kind]
    rows["unanswerable"] = [one for _, q, one in found if not q.answerable]
    return {
        row: {name: Share(sum(map(holds, scored)), len(scored)) for name, holds in OUTCOMES.items()}
        for row, scored in rows.items()
    }


def print_table(shares: Mapping[str, Mapping[str, Share]]) -> None:
    """Print the shares in percent with 95% intervals."""
    print("\n% of questions [95% Wilson interval]")
    print(f"{'':14}{'n':>4}" + "".join(f"{name:>21}" for name in OUTCOMES))
    for row, chunks in shares.items():
        if row == "unanswerable":
            n, share = chunks["abstained"].n, chunks["abstained"]
            print(f"{row:14}{n:>4}  answered {Share(n - share.count, n)}")
        else:
            print(f"{row:14}{chunks['right'].n:>4}" + "".join(f"{chunks[name]!s:>21}" for name in OUTCOMES))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--embedder", default="minilm", help="none, minilm (extra [minilm]) or bge")
    parser.add_argument("--rerank", action="store_true", help="with the local reranker")
    parser.add_argument(
        "--questions", type=int, metavar="N", help="the first N questions a conversation only"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the shares, and the outcomes by question id"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    settings = {"embedder": options.embedder, "reranker": "local" if options.rerank else None}
    started = process_time()
    with tempfile.TemporaryDirectory(prefix="keyless-ask-") as work:
        found = [
            asked
            for conversation in read_conversations()
            for asked in run(conversation, Path(work), settings, options.questions)
        ]
    head = {
        "embedder": options.embedder,
        "reranker": settings["reranker"] or "none",
        "questions": len(found),
        "processor seconds": round(process_time() - started, 1),
    }
    for key, value in head.items():
        print(f"{key}: {value}")
    shares = table(found)
    print_table(shares)
    if options.json:
        report = {
            **head,
            "shares": {row: {name: chunk.as_json() for name, chunk in chunks.items()} for row, chunks in shares.items()},
            "asked": {
                q.id: {name: holds(one) for name, holds in OUTCOMES.items()} for _, q, one in found
            },
        }  # fmt: skip
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
