"""Usage of models, summed over a memory's life."""

from __future__ import annotations

from collections.abc import Mapping

from memforest.store.tx import Tx
from memforest.types import StepUsage

_COLUMNS = "calls, failures, retries, prompt_tokens, completion_tokens, cached_tokens, prefix_tokens, seconds"


def add(tx: Tx, operation: str, steps: Mapping[str, StepUsage]) -> None:
    """Add the usage of an operation, step by step."""
    tx.executemany(
        f"""INSERT INTO spent (operation, step, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, failures = failures + excluded.failures,
            retries = retries + excluded.retries, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
            completion_tokens = completion_tokens + excluded.completion_tokens,
            cached_tokens = cached_tokens + excluded.cached_tokens,
            prefix_tokens = prefix_tokens + excluded.prefix_tokens, seconds = seconds + excluded.seconds""",
        [
            (operation, step, *(getattr(used, name) for name in used.__slots__))
            for step, used in steps.items()
        ],
    )


def total(tx: Tx) -> dict[str, dict[str, StepUsage]]:
    """Return operation -> step -> usage."""
    found: dict[str, dict[str, StepUsage]] = {}
    for operation, step, *used in tx.execute(
        f"SELECT operation, step, {_COLUMNS} FROM spent ORDER BY operation, step"
    ):
        found.setdefault(operation, {})[step] = StepUsage(*used)
    return found
