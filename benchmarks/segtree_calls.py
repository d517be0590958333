"""What placing by what nodes say asks of a model: calls a leaf, how many of them wait for one another, and the wall time.

    python benchmarks/segtree_calls.py [--leaves 40] [--latency-ms 300] [--in-flight 8] [--seed 1]

A conversation with known turns of topic is placed in a new memory, a leaf a turn, by each placer that reads texts (cosine,
pointwise, batch) with each policy of `annotate`. Placing and summarising are done by a double that decides by tags in what is
said and takes a fixed time, also measured here. The embedder is the tests' word-overlap one: how good the trees are is not
what is measured.

- *a leaf*: calls by leaf, of the step "place" and "summarise". Those that a flush makes afterwards are not in it: they are
  shown as *later*.
- *bound*: 1, 2, or 1 and the mean number of candidates, for cosine, batch and pointwise; of "selected" (SegTreeMem,
  Table 5).
- *chain*: calls by leaf of which each began when the one before had ended; with "append" at most 1 and the questions, which is
  2 at most but for pointwise: its questions come one after the other.
- *wall*: seconds of the write, beside max(chain x latency, calls x latency / in flight); at most 1.25 of it.

A text that is short is kept as it is and costs no call, so that policies which make a path anew come out cheaper than the
number of levels says.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the doubles of the tests

from tests.doubles import placing_reply

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.models.base import ChatReply, ChatRequest
from memforest.steps.llm.prompt import read_data_block
from memforest.steps.llm.replies import Summary
from memforest.types import PlaceRequest

PLACERS = ("cosine", "batch", "pointwise")
POLICIES = ("selected", "append", "lazy", "path")
MOST_WALL = 1.25
SUMMARY_WORDS = 8
TOPICS = 12


def tags(text: str) -> list[str]:
    """Return the tags of a text, in the order of their first places."""
    return list(dict.fromkeys(re.findall(r"#\w+", text)))


def by_tag(request: PlaceRequest) -> int | None:
    """Return the narrowest candidate that shares a tag."""
    said = set(tags(request.text))
    return next((at for at, text in enumerate(request.candidates) if said & set(tags(text))), None)


@dataclass
class Double:
    """A chat model that answers by tags after a fixed time, and counts."""

    latency_s: float
    model_id: str = "double"
    depth: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    candidates: list[int] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer; a call depends on those that had ended when it began."""
        began, mine = time.perf_counter(), self.depth + 1
        self.calls[request.step] = self.calls.get(request.step, 0) + 1
        text = self._place(request) if request.step == "place" else self._summarise(request)
        await asyncio.sleep(max(0.0, began + self.latency_s - time.perf_counter()))
        self.depth = max(self.depth, mine)
        return ChatReply(text)

    def _place(self, request: ChatRequest) -> str:
        self.candidates.append(len(read_data_block(request.messages[1].content, "stretches")))
        return placing_reply(by_tag)(request)

    def _summarise(self, request: ChatRequest) -> str:
        data = request.messages[1].content
        rows = [*read_data_block(data, "history"), *read_data_block(data, "notes")]
        found = tags(" ".join(str(row["text"]) for row in rows))
        return str(Summary(summary=f"They talk about {' '.join(found)}.").to_json())


def talk(count: int, seed: int) -> list[dict[str, Any]]:
    """Return turns: a subject goes on for some of them, and old ones come back."""
    random, turns, at = Random(seed), [], 0
    for number in range(count):
        if random.random() < 0.3:
            at = random.randrange(TOPICS)
        text = (
            f"This is what there is to say on #topic{at}, in a remark of many words, which has number {number} "
            "of all, and goes on for a while without saying anything else that could be of use to somebody."
        )
        turns.append({"speaker": "AB"[number % 2], "content": text, "timestamp": 1_700_000_000 + 60 * number})
    return turns


@dataclass(frozen=True)
class Row:
    """What one placer with one policy has cost."""

    placer: str
    policy: str
    leaves: int
    height: int
    place: float
    summarise: float
    later: int
    bound: float
    chain: float
    wall_s: float
    least_s: float

    @property
    def is_kept(self) -> bool:
        """Whether all that is promised of it holds."""
        fair = self.policy != "selected" or self.place + self.summarise <= self.bound
        short = self.policy != "append" or self.chain <= 1.0 + self.place
        return fair and short and self.wall_s <= MOST_WALL * self.least_s

    def __str__(self) -> str:
        """A line of the table."""
        return (
            f"{self.placer:<10} {self.policy:<9} {self.leaves:>6} {self.height:>6} {self.place:>6.2f} {self.summarise:>9.2f}"
            f" {self.place + self.summarise:>6.2f} {self.bound:>6.2f} {self.later:>6} {self.chain:>6.2f} {self.wall_s:>7.2f}"
            f" {self.least_s:>7.2f} {self.wall_s / self.least_s:>6.2f}{'' if self.is_kept else '  !'}"
        )


def measured(placer: str, policy: str, args: argparse.Namespace, candidates: dict[str, float]) -> Row:
    """Place a conversation, and return what it has cost.

    Args:
        placer: of the index.
        policy: its setting `annotate`.
        args: of the command line.
        candidates: policy -> their mean number; noted of "batch", which is shown all of them, for "pointwise", whose tree is
            the same.
    """
    latency_s = args.latency_ms / 1000
    double, turns = Double(latency_s), talk(args.leaves, args.seed)
    config = Config(
        embedder=HashEmbedder(64),
        indexes=("segtree",),
        index_settings={"segtree": {"placer": placer, "annotate": policy, "leaves": "turns", "tau": 0.93}},
        chat=double,
        chat_steps=("place", "summarise"),
        summary_words=SUMMARY_WORDS,
        refresh="lazy",
    )
    with tempfile.TemporaryDirectory() as folder, MemForest(folder, config) as forest:
        forest.ingest_session("u", "first", turns[:2], infer=False)  # what is loaded once is not measured
        began = time.perf_counter()
        forest.ingest_session("u", "talk", turns[2:], infer=False)
        wall_s = time.perf_counter() - began
        calls, depth = dict(double.calls), double.depth
        forest.flush()
        shape = forest.user("u").stats().indexes["segtree"]
    total = sum(calls.values())
    if placer == "batch":
        candidates[policy] = sum(double.candidates) / len(double.candidates)
    return Row(
        placer=placer,
        policy=policy,
        leaves=shape["leaves"],
        height=shape["height"],
        place=calls.get("place", 0) / args.leaves,
        summarise=calls.get("summarise", 0) / args.leaves,
        later=sum(double.calls.values()) - total,
        bound={"cosine": 1.0, "batch": 2.0}.get(placer) or 1.0 + candidates[policy],
        chain=depth / args.leaves,
        wall_s=wall_s,
        least_s=max(depth, total / args.in_flight) * latency_s,
    )


def main() -> int:
    """Print the table; the exit code says whether what is promised holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--leaves", type=int, default=40)
    parser.add_argument("--latency-ms", type=float, default=300.0)
    parser.add_argument("--in-flight", type=int, default=8, help="calls that the endpoint takes at once")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{args.leaves} leaves, {args.latency_ms:g} ms a call, embedder hash-64, double by tags")
    print(
        "placer     policy    leaves height  place summarise  calls  bound  later  chain  wall s  least s  ratio"
    )
    good, candidates = True, dict[str, float]()
    for placer in PLACERS:
        for policy in POLICIES:
            row = measured(placer, policy, args, candidates)
            print(row, flush=True)
            good &= row.is_kept
    print("all promises hold" if good else "a promise is broken")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
