"""What an operation spends on models: calls, tokens and seconds per step, against a budget.

One ledger belongs to one operation (an ingest, a query, a resume). It is found through a context variable, so
that a step writes to the ledger of whoever runs it, and no port needs an argument for it. Tasks and threads
that an operation starts inherit it.

"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memforest.concurrency import having
from memforest.endpoint import Budget
from memforest.errors import BudgetError, ModelRefusedError
from memforest.records import StepUsage

FIRST_REPLY_TOKENS = 200
"""What a reply is expected to take before any has come; then the mean of those that came."""
MOST_COUNTED = 10**9
"""Tokens, or retries, of one call: a server that tells of more does not count."""


def counted(reported: Any, estimate: int) -> int:
    """Return a usage count as the server reports it, or the estimate when that is implausible.

    Example:
        >>> counted(12, 5), counted(12.0, 5), counted(-1, 5), counted(10**30, 5), counted("12", 5), counted(True, 5)
        (12, 12, 5, 5, 5, 5)
    """
    whole = (isinstance(reported, int) and not isinstance(reported, bool)) or (
        isinstance(reported, float) and reported.is_integer()
    )
    return int(reported) if whole and 0 <= reported <= MOST_COUNTED else estimate


_UNBOUNDED = Budget()


@dataclass(slots=True)
class Ledger:
    """Counts what an operation spends, and refuses a call that its budget does not allow."""

    budget: Budget = _UNBOUNDED
    operation: str = ""
    """The verb, e.g. ``"ingest"``; shown in traces."""
    steps: dict[str, StepUsage] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    """Step -> calls that the budget did not allow."""
    most_in_flight: int = 0
    stopped: ModelRefusedError | None = None
    """Why no further call makes sense; every later one gets it at once."""
    whole: Ledger | None = None
    """The ledger that this one is a part of, which has the budget."""
    warnings: list[str] = field(default_factory=list)
    """Of the whole operation: failures that did no harm to its result."""
    _in_flight: int = 0
    _reserved_tokens: int = 0

    def part(self) -> Ledger:
        """Return a ledger for a part of the operation: it counts by itself, and here."""
        return Ledger(operation=self.operation, whole=self, warnings=self.warnings)

    @property
    def _chat(self) -> list[StepUsage]:
        """The usage that a budget bounds, without embeddings: they cost a hundredth, and a write needs its vectors."""
        return [used for step, used in self.steps.items() if step != "embed"]

    @property
    def calls(self) -> int:
        """Calls of a chat model that were begun."""
        return sum(used.calls for used in self._chat) + self._in_flight

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together, of calls of a chat model that have ended."""
        return sum(used.prompt_tokens + used.completion_tokens for used in self._chat)

    def admit(self, step: str, prompt_tokens: int) -> int:
        """Count a call as begun and return the tokens reserved for it.

        Raises:
            ModelRefusedError: if an earlier call was refused for good.
            BudgetError: if the call would exceed the budget. Tokens are expected ones, so that the sum may come
                out a little above it.
        """
        if self.whole is not None:
            reserved = self.whole.admit(step, prompt_tokens)
            self._begin(reserved)
            return reserved
        if self.stopped is not None:
            raise self.stopped
        reserved = prompt_tokens + self._expected_reply()
        most_calls, most_tokens = self.budget.max_calls, self.budget.max_tokens
        if most_calls is not None and self.calls >= most_calls:
            self._refuse(step, f"the budget of {most_calls} model calls is used up")
        if most_tokens is not None and self.tokens + self._reserved_tokens + reserved > most_tokens:
            self._refuse(step, f"the budget of {most_tokens} tokens is used up")
        self._begin(reserved)
        return reserved

    def _begin(self, reserved: int) -> None:
        self._in_flight += 1
        self._reserved_tokens += reserved
        self.most_in_flight = max(self.most_in_flight, self._in_flight)

    def warn(self, text: str) -> bool:
        """Add a warning to the operation's; return whether it is new."""
        if text in self.warnings:
            return False
        self.warnings.append(text)
        return True

    def stop(self, error: ModelRefusedError) -> None:
        """Let every further call of the operation get this error at once."""
        (self.whole or self).stopped = error

    def _refuse(self, step: str, why: str) -> None:
        self.refused[step] = self.refused.get(step, 0) + 1
        raise BudgetError(why)

    def _expected_reply(self) -> int:
        calls = sum(used.calls for used in self._chat)
        if not calls:
            return FIRST_REPLY_TOKENS
        return sum(used.completion_tokens for used in self._chat) // calls

    def record(self, step: str, reserved: int, used: StepUsage) -> None:
        """Count an admitted call as ended."""
        self._end(reserved)
        self.add(step, used)

    def _end(self, reserved: int) -> None:
        self._in_flight -= 1
        self._reserved_tokens -= reserved
        if self.whole is not None:
            self.whole._end(reserved)

    def add(self, step: str, used: StepUsage) -> None:
        """Add usage to a step."""
        self.steps[step] = self.steps.get(step, StepUsage()).plus(used)
        if self.whole is not None:
            self.whole.add(step, used)
        else:
            _tally(step, used)


_spent: dict[str, StepUsage] = {}


def _tally(step: str, used: StepUsage) -> None:
    """Count what was spent for the whole process. Without a lock: two threads at one instant may lose a count."""
    _spent[step] = _spent.get(step, StepUsage()).plus(used)


def spent_so_far() -> dict[str, StepUsage]:
    """Return step -> what all operations of this process have spent."""
    return dict(_spent)


_current: ContextVar[Ledger | None] = ContextVar("memforest_ledger", default=None)


def current_ledger() -> Ledger:
    """Return the ledger of the operation under way, or a new one outside of any."""
    return _current.get() or Ledger()


keeping = partial(having, _current)
"""Make a ledger the current one in the block."""
