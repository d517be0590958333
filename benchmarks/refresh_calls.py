"""What does it cost to keep a tree's summaries true? Calls, time and speed-up by tree size (paper, Fig. 6a to 6c).

    python benchmarks/refresh_calls.py [--facts 10 30 100 300 1000] [--k 3 8 16] [--latency 0.02]

One person says so many things, one a session, so that they stand in one tree, that of the person. Everything goes
through the public verbs; only the model is a double, which counts and sleeps.

(a) *Calls*, by how often the tree is refreshed: after every fact, as an eager system does; after every 20, about what a
session holds; once. Counted twice: by a summariser for which every node is a call (*nodes*: the paper's measure), and
for memforest's own, which asks the chat model only where a text has to get shorter (*calls*).

(b) *Build time*: seconds to write the facts and their places, and to refresh the tree once with every node a call that
takes no time, so that what is left is the engine's own.

(c) *Speed-up*: the same refresh with calls that sleep, one in flight against many. The levels of a tree follow each
other, so its height bounds what parallelism can do; the bound is printed beside.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the doubles of the tests

from tests.doubles import local_reply

from memforest import Config, IngestResult, MemForest
from memforest.records import SummaryRequest
from memforest.testing import FunctionChat

USER = "u"
PERSON = "Ana"
SESSION_FACTS = 20
START = 1_700_000_000
HOUR = 3600
EAGER, BY_SESSION, ONCE = "after every fact", f"after every {SESSION_FACTS}", "once"

PLACES = ("Oslo", "Kyoto", "Lisbon", "Davis", "Miami", "Quito", "Perth", "Turin")
THINGS = (
    "tents",
    "kites",
    "lamps",
    "maps",
    "bikes",
    "flutes",
    "stoves",
    "boots",
    "chairs",
    "clocks",
    "drums",
)


def sentence(number: int) -> str:
    """Return what is said as number so; no two are the same."""
    place, thing = PLACES[number % len(PLACES)], THINGS[number % len(THINGS)]
    return f"In {place} I bought {number + 2} {thing} from a neighbour who was about to move abroad."


@dataclass(slots=True)
class EveryNode:
    """A summariser for which every node is a call: it counts them, and sleeps.

    `in_flight` is the most calls under way; `levels` are the nodes of each batch, of which the engine makes one per
    level.
    """

    latency_s: float = 0.0
    in_flight: int = 1
    name: str = "every-node-1"
    levels: list[int] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """Nodes summarised so far."""
        return sum(self.levels)

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return the beginnings of what is to be summarised."""
        self.levels.append(len(requests))
        gate = asyncio.Semaphore(self.in_flight)

        async def one(request: SummaryRequest) -> str:
            async with gate:
                if self.latency_s:
                    await asyncio.sleep(self.latency_s)
            return shortened(request.inputs, request.max_words)

        return await asyncio.gather(*(one(request) for request in requests))


def shortened(texts: Sequence[str], words: int) -> str:
    """Return the first words of each text, `words` in all."""
    each = max(words // max(len(texts), 1), 1)
    return " ".join(" ".join(text.split()[:each]) for text in texts)


def requests(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return sessions of one turn each as arguments of `ingest_session`."""
    return [
        {
            "user_id": USER,
            "session_id": f"s{number}",
            "turns": [{"speaker": PERSON, "text": sentence(number), "timestamp": START + number * HOUR}],
            "infer": False,
        }
        for number in range(first, first + count)
    ]


def write(forest: MemForest, facts: int, at_once: int) -> None:
    """Write so many facts, and refresh after every `at_once` of them.

    Raises:
        MemForestError: if a session is refused.
    """
    for first in range(0, facts, at_once):
        for result in forest.ingest_parallel(requests(min(at_once, facts - first), first), refresh=True):
            if not isinstance(result, IngestResult):
                raise result


def config_of(k: int, **settings: Any) -> Config:
    """Return a configuration whose trees of persons have a fan-out of k as in the paper, without vectors and hence without scenes."""
    return Config(
        embedder="none", index_settings={"memforest": {"entity_k": k, "packing": "paper"}}, **settings
    )


def count_calls(facts: int, k: int, at_once: int) -> tuple[int, int]:
    """Return the nodes summarised, and the calls that memforest's own summariser makes, for facts written so."""
    nodes, chat = EveryNode(), FunctionChat(local_reply)
    for settings in ({"summariser": nodes}, {"chat": chat, "chat_steps": ("summarise",)}):
        with tempfile.TemporaryDirectory() as folder, MemForest(folder, config_of(k, **settings)) as forest:
            write(forest, facts, at_once)
    return nodes.calls, len(chat.requests)


@dataclass(frozen=True, slots=True)
class Built:
    """One line of (b) and (c). `bound` is the speed-up that the sizes of the levels allow."""

    facts: int
    k: int
    nodes: int
    height: int
    write_s: float
    refresh_s: float
    serial_s: float
    parallel_s: float
    bound: float


def build(facts: int, k: int, *, latency_s: float, in_flight: int) -> Built:
    """Write the facts once, and refresh the tree at no latency, one by one, and in parallel."""
    model = EveryNode(in_flight=in_flight)
    with (
        tempfile.TemporaryDirectory() as folder,
        MemForest(folder, config_of(k, summariser=model)) as forest,
    ):
        started = perf_counter()
        for one in requests(facts):
            forest.ingest_session(**one, refresh=False)
        write_s = perf_counter() - started
        refresh_s = _refresh(forest, model, 0.0, in_flight)
        levels = list(model.levels)
        parallel_s = _refresh(forest, model, latency_s, in_flight)
        serial_s = _refresh(forest, model, latency_s, 1)
    rounds = sum(-(-nodes // in_flight) for nodes in levels)
    return Built(
        facts, k, sum(levels), len(levels), write_s, refresh_s, serial_s, parallel_s,
        sum(levels) / max(rounds, 1),
    )  # fmt: skip


def _refresh(forest: MemForest, model: EveryNode, latency_s: float, in_flight: int) -> float:
    model.latency_s, model.in_flight = latency_s, in_flight
    model.levels.clear()
    model.name += "'"  # what another one has made is stale
    return forest.user(USER).rebuild(stale=True).ms["refresh"] / 1000


def print_calls(sizes: Sequence[int], fan_outs: Sequence[int]) -> None:
    """Print part (a)."""
    print(
        "(a) summaries of one tree, by how often it is refreshed: nodes (paper's measure), calls (memforest's)"
    )
    print(
        f"{'k':>4}{'facts':>7}"
        + "".join(f"{name:>22}" for name in (EAGER, BY_SESSION, ONCE))
        + f"{'saved':>16}"
    )
    print(f"{'':11}" + f"{'nodes':>13}{'calls':>9}" * 3 + f"{'nodes':>8}{'calls':>8}")
    for k in fan_outs:
        for facts in sizes:
            found = [count_calls(facts, k, at_once) for at_once in (1, SESSION_FACTS, facts)]
            chunks = "".join(f"{nodes:13}{calls:9}" for nodes, calls in found)
            (eager, asked), (once, less) = found[0], found[-1]
            saved = f"{_times(eager, once):>8}{_times(asked, less):>8}"
            print(f"{k:4}{facts:7}{chunks}{saved}", flush=True)


def _times(many: int, few: int) -> str:
    return f"{many / few:.1f}x" if few else "-"


def print_built(sizes: Sequence[int], fan_outs: Sequence[int], latency_s: float, in_flight: int) -> None:
    """Print parts (b) and (c)."""
    print("\n(b) build time: writing the facts, and one refresh with calls that take no time")
    print(f"(c) one refresh with calls of {latency_s * 1000:g} ms, 1 and {in_flight} in flight")
    print(
        f"{'k':>4}{'facts':>7}{'nodes':>7}{'levels':>8}{'write s':>9}{'refresh s':>11}{'1: s':>9}"
        f"{f'{in_flight}: s':>9}{'speed-up':>10}{'bound':>8}"
    )
    for k in fan_outs:
        for facts in sizes:
            one = build(facts, k, latency_s=latency_s, in_flight=in_flight)
            print(
                f"{k:4}{facts:7}{one.nodes:7}{one.height:8}{one.write_s:9.2f}{one.refresh_s:11.3f}"
                f"{one.serial_s:9.2f}{one.parallel_s:9.3f}{one.serial_s / one.parallel_s:9.1f}x{one.bound:7.1f}x",
                flush=True,
            )


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, nargs="+", default=(10, 30, 100, 300, 1000))
    parser.add_argument("--k", type=int, nargs="+", default=(3, 8, 16))
    parser.add_argument("--latency", type=float, default=0.02, help="of a call in (c), in seconds")
    parser.add_argument("--in-flight", type=int, default=128, help="in (c)")
    options = parser.parse_args(arguments)
    print_calls(options.facts, options.k)
    print_built(options.facts, options.k, options.latency, options.in_flight)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
