"""What `verify` and `repair` return: typed, frozen, ready to print or to serialise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memforest.memory.plain import Result
from memforest.text import cut


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
