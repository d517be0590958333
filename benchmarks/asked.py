"""Is what answers a question found, and does `ask` give it, a value of another time, something else, or nothing?

Run ``python benchmarks/asked.py`` (``--help`` for options). `benchmarks/asked/*.toml` has conversations of several sessions
with questions: for a fact, for how something stands now, for a time, about what is denied, for a list, questions that the conversation does
not answer, and messages that ask nothing. Every conversation becomes one memory for each of its askers, through the public API, and
is asked at the time of its last turn.

- first, R@5: the first evidence, and the share of the turns that answer among the first five pieces; of what has no answer ``first`` is
  the share for which nothing was found;
- right, stale, wrong, abstained: what `ask` did. Right is an answer with a wanted text, of a list with all of them; stale one with a value of
  another time and none that is wanted. For what has no answer abstaining is right.

``--reliability`` prints, by bands of `Evidence.relevance`, how many of the first ten pieces are turns that answer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from memforest import Config, Evidence, MemForest, UserMemory
from proportions import Share

FOLDER = Path(__file__).parent / "asked"
BANDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.01)
Counts = defaultdict[str, list[float]]


def memory_of(forest: MemForest, conversation: Mapping[str, Any], asker: str) -> UserMemory:
    """Return a new memory of a conversation, whose user is the asker."""
    user_id = f"{conversation['id']}-{asker}".lower().replace(" ", "-").rstrip("-")
    forest.register_user(user_id, display_name=asker or None)
    for session, turns in groupby(enumerate(conversation["turn"], 1), key=lambda one: one[1]["session"]):
        said = [
            {
                "id": f"turn-{number}",
                "speaker": one["speaker"],
                "role": one["role"],
                "content": one["text"],
                "timestamp": one["at"],
            }
            for number, one in turns
        ]
        forest.ingest_session(user_id, f"session-{session}", said)
    return forest.user(user_id)


def turns_of(one: Evidence) -> set[int]:
    """Return the numbers of the turns that evidence rests on, from 1."""
    ids = (turn for source in one.sources for turn in source.turn_ids)
    return {int(turn.removeprefix("turn-")) for turn in ids}


def outcome(question: Mapping[str, Any], answer: str | None) -> str:
    """Return what an answer is: right, stale, wrong or abstained."""
    if answer is None:
        return "abstained"
    has = [value.casefold() in answer.casefold() for value in question["answer"]]
    if question["answer"] and (all(has) if question["kind"] == "list" else any(has)):
        return "right"
    return "stale" if any(value.casefold() in answer.casefold() for value in question["stale"]) else "wrong"


def run(
    conversations: Sequence[Mapping[str, Any]], config: Config
) -> tuple[dict[str, Counts], list[tuple[float, bool]]]:
    """Return the outcomes by kind of question, and (relevance, whether it answers) of the first ten pieces."""
    found: dict[str, Counts] = {}
    judged: list[tuple[float, bool]] = []
    with tempfile.TemporaryDirectory() as folder, MemForest(folder, config) as forest:
        for conversation in conversations:
            at, made = conversation["turn"][-1]["at"], dict[str, UserMemory]()
            for question in conversation["question"]:
                asker = question["asker"]
                if asker not in made:
                    made[asker] = memory_of(forest, conversation, asker)
                counts = found.setdefault(question["kind"], defaultdict(list))
                gold = set(question["turns"])
                text, memory = question["question"], made[asker]
                pieces = [turns_of(one) for one in memory.search(text, reference_date=at)]
                five = set[int]().union(*pieces[:5])
                counts["first"].append(bool(pieces[:1] and gold & pieces[0]) if gold else not pieces)
                counts["R@5"].append(len(gold & five) / len(gold) if gold else 0.0)
                judged += [
                    (one.relevance, bool(gold & turns_of(one)))
                    for one in memory.search(text, reference_date=at, min_relevance=0)
                    if one.relevance is not None
                ]
                told = outcome(question, memory.ask(text, reference_date=at).answer)
                for name in ("right", "stale", "wrong", "abstained"):
                    counts[name].append(told == name)
    return found, judged


def table(found: Mapping[str, Counts]) -> Iterator[str]:
    """Yield a line for each kind of question."""
    for kind, counts in found.items():
        shares = (
            f"{name} {Share(round(sum(values)), len(values))}"
            for name, values in counts.items()
            if name != "R@5"
        )
        recall = 100 * sum(counts["R@5"]) / len(counts["R@5"])
        yield f"{kind} (n={len(counts['first'])}):  R@5 {recall:.1f}  " + "  ".join(shares)


def reliability(judged: Sequence[tuple[float, bool]]) -> Iterator[str]:
    """Yield a line for each band of relevance: its mean, and the share that answers."""
    for least, most in pairwise(BANDS):
        band = [one for one in judged if least <= one[0] < most]
        if band:
            mean = sum(one[0] for one in band) / len(band)
            yield f"relevance {mean:.3f}: {Share(sum(one[1] for one in band), len(band))} answer (n={len(band)})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", nargs="+", type=Path, default=sorted(FOLDER.glob("*.toml")))
    parser.add_argument("--embedders", nargs="+", default=["minilm-l6-v2-int8", "bge-small-en-v1.5-int8"])
    parser.add_argument("--rerank", action="store_true", help="with the reranker too")
    parser.add_argument("--reliability", action="store_true")
    options = parser.parse_args()
    for path in options.files:
        conversations = tomllib.loads(path.read_text(encoding="utf-8"))["conversation"]
        for embedder in options.embedders:
            for reranker in (None, "local") if options.rerank else (None,):
                print(f"{path.stem}, {embedder}{', reranker' if reranker else ''}")
                found, judged = run(conversations, Config(embedder=embedder, reranker=reranker))
                for line in (*table(found), *(reliability(judged) if options.reliability else ())):
                    print(f"  {line}")


if __name__ == "__main__":
    main()
