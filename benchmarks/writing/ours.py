"""memforest against the double: through its public verbs, with the endpoint and the embedder that a run asks for."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from memforest import ChatEndpoint, Config, EmbeddingEndpoint, IngestResult, MemForest
from memforest.config import Refresh
from memforest.read.results import Usage
from writing.bound import chain, floor_s, path_s, work_s
from writing.costs import CostModel
from writing.measured import BATCH, Measured, StepCost, load
from writing.server import Double
from writing.sessions import USER, Session
from writing.waves import Recorder, calls_of

__all__ = ["ENDPOINT", "LOCAL", "ours_name", "run_cold", "run_ours", "steps_of"]

ENDPOINT = "endpoint"
"""Vectors from the double's embeddings endpoint."""
LOCAL = "minilm"
"""Vectors from the MiniLM of the install, in this process."""

COLD = Path(__file__).with_name("cold_run.py")
_WARM = {"role": "user", "content": "I have a red kite in Oslo.", "timestamp": "2023-01-01T00:00:00Z"}

STEPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Extract": ("extract", ("extract",)),
    "Judge": ("judge", ("judge",)),
    "Summarise": ("summarise", ("refresh.summarise",)),
    "Route": ("", ("route",)),
    "Embed": ("embed", ("embed", "refresh.embed")),
    "Store": ("", ("store", "refresh.store")),
}
"""Row of the breakdown -> the step of the ledger, and the timers of the result. Turns and statements are embedded
while extraction is under way, so that the wall times overlap there."""


def config_of(
    url: str, embedder: str, in_flight: int, recorder: Recorder, folder: Path, refresh: Refresh | None
) -> Config:
    """Return the configuration of a run: the package's own, with the double as its endpoint."""
    return Config(
        chat=ChatEndpoint(model="double", base_url=url, max_in_flight=in_flight),
        embedder=EmbeddingEndpoint(model="double", base_url=url, max_in_flight=in_flight)
        if embedder == ENDPOINT
        else embedder,
        refresh=refresh,
        # The recorder takes every record and lets nothing through: no file is written.
        trace=folder / "never-written.jsonl",
        redact=recorder,
    )


def run_ours(
    double: Double,
    sessions: Sequence[Session],
    *,
    cost: CostModel | None,
    name: str,
    arrival: str,
    in_flight: int,
    embedder: str = ENDPOINT,
    refresh: Refresh | None = None,
) -> Measured:
    """Write the sessions into a new memory, and return what that took.

    The wall time ends when the last write has returned; then it is flushed, so that all summaries are made.

    Connections, imports and weights are warmed by another user's session first, as mem0's are.

    Raises:
        MemForestError: if a session is refused.
    """
    recorder, before = Recorder(), load()
    url = double.serve(cost)
    with tempfile.TemporaryDirectory(prefix="write-path-") as work:
        folder = Path(work)
        with MemForest(folder, config_of(url, embedder, in_flight, recorder, folder, refresh)) as forest:
            forest.ingest_session("warm-up", "s", [_WARM], refresh=True)
            forest.register_user(USER)
            double.forget()
            recorder.records.clear()
            results, wall = _write(forest, sessions, arrival, recorder)
            started = perf_counter()
            did = forest.flush(USER)
            flushed = wall + perf_counter() - started
            facts = forest.user(USER).stats().facts
    got = double.served()
    calls = calls_of(recorder.records)
    usage = _total(results).plus(did.usage)
    return Measured(
        system=ours_name(embedder, in_flight, refresh),
        cost=name,
        arrival=arrival,
        in_flight=in_flight,
        turns=sum(len(one.turns) for one in sessions),
        wall_s=wall,
        flushed_s=flushed,
        calls=got.chat_calls,
        prompt_tokens=got.prompt_tokens,
        completion_tokens=got.completion_tokens,
        cached_share=got.cached_tokens / max(got.prompt_tokens, 1),
        prefix_share=sum(call.prefix_tokens for call in calls) / max(sum(c.prompt_tokens for c in calls), 1),
        most_in_flight=got.most_in_flight,
        embedding_calls=got.embedding_calls,
        late_s=got.late_s,
        memories=facts,
        failed=got.refused + sum(len(one.failed) for one in results),
        chain=chain(calls),
        path_s=None if cost is None else path_s(calls, cost),
        work_s=None if cost is None else work_s(calls, cost),
        floor_s=None if cost is None else floor_s(calls, cost, in_flight),
        steps=steps_of(usage),
        load=before,
    )


def _write(
    forest: MemForest, sessions: Sequence[Session], arrival: str, recorder: Recorder
) -> tuple[list[IngestResult], float]:
    """Write the sessions, and return the results and the seconds."""
    results: list[Any] = []
    started = perf_counter()
    if arrival == BATCH:
        recorder.arrival = BATCH
        results = list(forest.ingest_parallel([one.request() for one in sessions]))
    else:
        for one in sessions:
            recorder.arrival = one.id
            results.append(forest.ingest_session(**one.request()))
    recorder.written_s = perf_counter()
    wall = recorder.written_s - started
    for result in results:
        if not isinstance(result, IngestResult):
            raise result
    return results, wall


def _total(results: Sequence[IngestResult]) -> Usage:
    total = Usage()
    for result in results:
        total = total.plus(result.usage)
    return total


def steps_of(usage: Usage) -> dict[str, StepCost]:
    """Return the rows of the breakdown from the usage of all results together."""
    found = {}
    for row, (step, timers) in STEPS.items():
        spent = usage.steps.get(step)
        wall = sum(usage.ms.get(timer, 0.0) for timer in timers) / 1000
        found[row] = (
            StepCost(wall_s=wall)
            if spent is None
            else StepCost(spent.calls, spent.prompt_tokens, spent.completion_tokens, spent.seconds, wall)
        )
    return found


def ours_name(embedder: str, in_flight: int, refresh: Refresh | None = None) -> str:
    """Return the name of a row."""
    parts = [
        "memforest",
        *([] if embedder == ENDPOINT else [embedder]),
        *([] if refresh is None else [refresh]),
        *(["concurrency 1"] if in_flight == 1 else []),
    ]
    return ", ".join(parts)


def run_cold(double: Double, session: Session, *, cost: CostModel | None) -> dict[str, float]:
    """Write one session in a new process, and return the seconds of its parts: imports, and the first two writes.

    The first one opens connections and compiles patterns; the second one, of another user, finds them made.

    Raises:
        RuntimeError: if the process failed.
    """
    job = {"base_url": double.serve(cost), "session": session.request("first")}
    done = subprocess.run(
        [sys.executable, COLD], input=json.dumps(job), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"a cold start ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found
