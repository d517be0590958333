"""Making the `Usage` of a result from the ledger of its operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memforest.memory.results import Usage
from memforest.models.ledger import Ledger


def usage(spent: Ledger, ms: Mapping[str, float], embeds: Mapping[str, int] | None = None) -> Usage:
    """Return what an operation cost.

    Args:
        spent: what it asked of models behind endpoints.
        ms: wall time per step.
        embeds: texts that the embedder really ran, by kind.
    """
    return Usage(
        embeds=dict(embeds or {}),
        ms={step: round(value, 3) for step, value in ms.items()},
        steps=dict(spent.steps),
        most_in_flight=spent.most_in_flight,
    )


def shared(whole: Ledger, parts: Iterable[Ledger]) -> Ledger:
    """Return what an operation spent beside what its parts did."""
    rest = dict(whole.steps)
    for part in parts:
        for step, used in part.steps.items():
            rest[step] = rest[step].minus(used)
    kept = {step: used for step, used in rest.items() if used.calls or used.failures}
    return Ledger(operation=whole.operation, steps=kept, most_in_flight=whole.most_in_flight)
