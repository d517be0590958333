"""What an operation spent, as a result tells it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from memforest.memory.results import Usage
from memforest.models.ledger import Ledger

__all__ = ["spent"]

_NONE: Mapping[str, int] = MappingProxyType({})


def spent(ledger: Ledger, ms: Mapping[str, float], embeds: Mapping[str, int] = _NONE) -> Usage:
    """Return what an operation cost: its calls and tokens so far, and the wall time of its steps in ms."""
    steps = ledger.steps.values()
    return Usage(
        model_calls=ledger.calls,
        prompt_tokens=sum(one.prompt_tokens for one in steps),
        completion_tokens=sum(one.completion_tokens for one in steps),
        embeds=dict(embeds),
        ms={step: round(took, 3) for step, took in ms.items()},
    )
