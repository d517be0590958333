"""What came of taking questions apart: sub-queries and scopes, follow-ups asked and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SCOPES", "Apart", "share"]

SCOPES = ("short", "long", "mixed")


def share(part: float, whole: float) -> float:
    """Return a share in percent; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


@dataclass
class Apart:
    """Counts over questions."""

    questions: int = 0
    taken_apart: int = 0
    """Those with more than one sub-query."""
    scopes: Counter[str] = field(default_factory=Counter)
    """Sub-queries by scope, follow-ups left out."""
    timed: int = 0
    """Sub-queries that are about a time."""
    asked: int = 0
    refused: int = 0
    followed: list[tuple[str, str]] = field(default_factory=list)
    """Question and follow-up."""
    why: Counter[str] = field(default_factory=Counter)
    """Of those that were refused."""

    def add(self, question: str, trace: Mapping[str, Any]) -> None:
        """Add what the trace of a question has."""
        explored = trace["explore"]
        parts = [one for one in explored["sub_queries"] if "follows" not in one]
        self.questions += 1
        self.taken_apart += len(parts) > 1
        self.scopes.update(one["scope"] for one in parts)
        self.timed += sum("interval" in one for one in parts)
        self.asked += explored["follow_ups"]["asked"]
        self.refused += len(explored["follow_ups"]["refused"])
        self.why.update(explored["follow_ups"]["refused"])
        self.followed += [(question, one["text"]) for one in explored["sub_queries"] if one.get("follows")]

    def __add__(self, other: Apart) -> Apart:
        """Return the counts of both."""
        return Apart(
            self.questions + other.questions,
            self.taken_apart + other.taken_apart,
            self.scopes + other.scopes,
            self.timed + other.timed,
            self.asked + other.asked,
            self.refused + other.refused,
            [*self.followed, *other.followed],
            self.why + other.why,
        )

    def row(self, name: str) -> str:
        """Return a line of the table; shares are of sub-queries."""
        parts = self.scopes.total()
        chunks = [self.questions, parts, f"{parts / max(self.questions, 1):.2f}"]
        chunks += [f"{share(self.scopes[scope], parts):.1f}" for scope in SCOPES]
        chunks += [f"{share(self.timed, parts):.1f}", f"{share(self.asked, parts):.2f}", self.refused]
        return f"| {name} | {' | '.join(map(str, chunks))} |"


HEAD: Sequence[str] = (
    "",
    "questions",
    "sub-queries",
    "a question",
    *(f"{scope} %" for scope in SCOPES),
    "with a time %",
    "follow-ups %",
    "refused",
)
