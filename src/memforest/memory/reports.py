"""What calls cost, and what `verify` and `repair` return: typed, frozen, ready to print or to serialise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memforest.memory.plain import Result
from memforest.text import cut
from memforest.types import StepUsage

__all__ = ["Problem", "RepairReport", "Usage", "VerifyReport"]


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


@dataclass(frozen=True, slots=True, repr=False)
class Problem(Result):
    """One thing that `verify` found wrong."""

    part: str
    message: str
    index: str | None = None
    """The index that it is wrong with; None for the memory itself."""


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Result):
    """The result of `verify`: `ok` when there are no problems; `checked` says what was looked at.

    `notes` says what there was not to look at, and why. Iterating gives the problems; the report is true when it is ok.
    """

    problems: tuple[Problem, ...]
    checked: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, and `ok`."""
        return {"ok": self.ok, **Result.to_dict(self)}

    def _line(self) -> str:
        first = f", first {cut(repr(self.problems[0].message), 120)}" if self.problems else ""
        return f"{'ok' if self.ok else f'{len(self)} problems'}{first}"


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(Result):
    """The result of `repair`: what was done, in words, and the problems that it left alone.

    Iterating gives those problems; the report is true when there are none.
    """

    did: tuple[str, ...]
    left: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong any more."""
        return not self.left

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.left)

    def __len__(self) -> int:
        return len(self.left)

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, and `ok`."""
        return {"ok": self.ok, **Result.to_dict(self)}

    def _line(self) -> str:
        return f"{len(self.did)} things done, {len(self.left)} problems left"
