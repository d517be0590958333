"""Shares of rows with their 95% intervals, for benchmarks that count rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Share"]

Z = 1.959964
"""The normal deviate of a two-sided 95% interval."""


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `n` rows, with its Wilson score interval.

    Wilson's and not a bootstrap's, as resampling 0 of 20 always gives 0 of 20.

    Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927).

    Example:
        >>> print(Share(0, 20))
        0.0 [0.0, 16.1]
    """

    count: int
    n: int

    @property
    def percent(self) -> float:
        """The share in percent; 0 without rows."""
        return 100 * self.count / self.n if self.n else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval in percent; 0 to 100 without rows."""
        if not self.n:
            return 0.0, 100.0
        share, weight = self.count / self.n, Z * Z / self.n
        middle = (share + weight / 2) / (1 + weight)
        half = math.sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
        return max(0.0, 100 * (middle - half)), min(100.0, 100 * (middle + half))

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.percent:.1f} [{low:.1f}, {high:.1f}]" if self.n else "-"

    def as_json(self) -> dict[str, float]:
        """Return count, n, percent and bounds."""
        low, high = self.bounds
        return {"count": self.count, "n": self.n, "percent": self.percent, "low": low, "high": high}
