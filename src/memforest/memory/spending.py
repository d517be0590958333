"""What a call has cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memforest.memory.plain import Result
from memforest.types import StepUsage


@dataclass(frozen=True, slots=True, repr=False)
class Usage(Result):
    """What a call cost. `ms` is wall time per step; `embeds` counts texts the model really ran, by kind.

    `steps` has what each step spent on models behind an endpoint; the counts beside it are their sums, those of
    embeddings included. `most_in_flight` is the most requests to a chat model that were under way at once.
    """

    embeds: Mapping[str, int] = field(default_factory=dict)
    ms: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, StepUsage] = field(default_factory=dict)
    most_in_flight: int = 0

    @property
    def model_calls(self) -> int:
        """Requests that were begun."""
        return sum(used.calls for used in self.steps.values())

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the requests."""
        return sum(used.prompt_tokens for used in self.steps.values())

    @property
    def completion_tokens(self) -> int:
        """Tokens of the replies."""
        return sum(used.completion_tokens for used in self.steps.values())

    @property
    def cached_tokens(self) -> int:
        """Tokens of the requests that the server had kept."""
        return sum(used.cached_tokens for used in self.steps.values())

    @property
    def failures(self) -> int:
        """Requests without a usable reply."""
        return sum(used.failures for used in self.steps.values())

    def plus(self, other: Usage) -> Usage:
        """Return the cost of both calls together."""
        none, names = StepUsage(), {**self.steps, **other.steps}
        return Usage(
            {k: self.embeds.get(k, 0) + other.embeds.get(k, 0) for k in {**self.embeds, **other.embeds}},
            {k: self.ms.get(k, 0.0) + other.ms.get(k, 0.0) for k in {**self.ms, **other.ms}},
            {k: self.steps.get(k, none).plus(other.steps.get(k, none)) for k in names},
            max(self.most_in_flight, other.most_in_flight),
        )
