"""mem0, from memforest's side: runs `mem0_run.py` in mem0's own interpreter against the double."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from writing.costs import CostModel
from writing.measured import BATCH, Measured, StepCost, load
from writing.server import DIMENSION, Double
from writing.sessions import Session

__all__ = ["mem0_name", "run_mem0"]

SCRIPT = Path(__file__).with_name("mem0_run.py")


def run_mem0(
    python: Path,
    double: Double,
    sessions: Sequence[Session],
    *,
    cost: CostModel | None,
    name: str,
    arrival: str,
    in_flight: int,
    turns_per_add: int,
    gathered: bool = False,
) -> Measured:
    """Add the sessions to a new mem0, and return what that took.

    In a batch, as many sessions at once as there may be calls in flight; one by one, one. mem0 has one chat call in a
    call of `add`, which reads what earlier ones stored, so its chain per session is its calls of `add` per session.
    `gathered` makes all of them at once, through its asynchronous class.

    Raises:
        RuntimeError: if mem0 failed, or reported another number of memories than it stored.
    """
    before = load()
    threads = min(in_flight, len(sessions)) if arrival == BATCH else 1
    job = {
        "base_url": double.serve(cost),
        "dimensions": DIMENSION,
        "sessions": [one.spoken() for one in sessions],
        "turns_per_add": turns_per_add,
        "threads": threads,
        "gathered": gathered,
    }
    found = _run(python, job, double)
    if found["stored"] != found["reported"] or not found["stored"]:
        raise RuntimeError(f"mem0 reported {found['reported']} memories and stored {found['stored']}")
    got = double.served()
    size = turns_per_add or max(len(one.turns) for one in sessions)
    return Measured(
        system=mem0_name(turns_per_add, gathered=gathered),
        cost=name,
        arrival=arrival,
        in_flight=in_flight,
        turns=sum(len(one.turns) for one in sessions),
        wall_s=found["wall_s"],
        calls=got.chat_calls,
        prompt_tokens=got.prompt_tokens,
        completion_tokens=got.completion_tokens,
        cached_share=got.cached_tokens / max(got.prompt_tokens, 1),
        most_in_flight=got.most_in_flight,
        embedding_calls=got.embedding_calls,
        late_s=got.late_s,
        memories=found["stored"],
        failed=got.refused,
        chain=1 if gathered else max(-(-len(one.turns) // size) for one in sessions),
        steps={
            "Extract": StepCost(got.chat_calls, got.prompt_tokens, got.completion_tokens, got.chat_s),
            "Embed": StepCost(got.embedding_calls, got.embedding_tokens, 0, got.embedding_s),
        },
        load=before,
        note=found["version"] + (f", {threads} sessions at once" if threads > 1 else ""),
    )


def mem0_name(turns_per_add: int, *, gathered: bool = False) -> str:
    """Return the name of a row."""
    size = f"{turns_per_add} turns a call" if turns_per_add else "a session a call"
    return f"mem0ai{' async' if gathered else ''}, {size}"


def _run(python: Path, job: Mapping[str, Any], double: Double) -> dict[str, Any]:
    """Run mem0 on a job; the double counts from the end of the warm-up."""
    with subprocess.Popen(
        [python, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        if process.stdout.readline():
            double.forget()
        result, errors = process.communicate("go\n")
    if process.returncode or not result.strip():
        raise RuntimeError(f"mem0 ended with {process.returncode}: {errors.strip()[-800:]}")
    found: dict[str, Any] = json.loads(result)
    return found
