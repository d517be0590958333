"""Whether numeric dates of a file have the day or the month first: decided by the file itself, or stated, never guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from memforest.errors import InputError

_NUMERIC = re.compile(r"\s*(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?(\d{4}|\d{2})(?!\d)")

Day = tuple[int, int, int]


@dataclass(slots=True)
class _Run:
    """Whether days in one reading only go on, or only go back."""

    last: Day | None = None
    rises: bool = True
    falls: bool = True

    def see(self, day: Day) -> None:
        if self.last is not None:
            self.rises &= self.last <= day
            self.falls &= self.last >= day
        self.last = day

    @property
    def is_steady(self) -> bool:
        return self.rises or self.falls


@dataclass(slots=True)
class DayOrder:
    """Sees the dates of a file and tells their order.

    A number above 12 proves it. Where there is none, the order in which the days of the file run one way does, if they do
    not in the other. Dates with dots have the day first.
    """

    proofs: dict[bool, str] = field(default_factory=dict)
    """The first date that can be read in one way only, with its place, for each of them."""
    runs: dict[bool, _Run] = field(default_factory=lambda: {True: _Run(), False: _Run()})
    example: str = ""
    """The first date that may be read in both ways."""

    def see(self, text: str, where: str) -> None:
        """Look at a date; one that is not written with a day, a month and a year in numbers tells nothing."""
        if (found := _NUMERIC.match(text)) is None:
            return
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        shown = f"{found[0].strip()} ({where})"
        if found[2] == ".":
            self.proofs.setdefault(True, shown)
        elif max(first, second) > 12:
            self.proofs.setdefault(first > 12, shown)
        elif first != second:
            self.example = self.example or shown
        self.runs[True].see((year, second, first))
        self.runs[False].see((year, first, second))

    def decide(self, name: str, stated: bool | None) -> bool | None:
        """Return whether the day comes first, as stated, else as the file tells; None when every date reads the same.

        Raises:
            InputError: if the file does not tell, or has dates of both orders.
        """
        if stated is not None:
            return stated
        if len(self.proofs) == 2:
            raise InputError(
                f"{name}: in {self.proofs[True]} the day comes first, in {self.proofs[False]} the month; say which with "
                "day_first (--day-first or --month-first), and lines of the other order are named"
            )
        if self.proofs or not self.example:
            return next(iter(self.proofs), None)
        steady = [order for order, run in self.runs.items() if run.is_steady]
        if len(steady) == 1:
            return steady[0]
        raise InputError(
            f"{name}: nothing tells whether the day or the month comes first in {self.example}; say so with day_first "
            "(--day-first or --month-first)"
        )
