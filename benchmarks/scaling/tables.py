"""Rows of figures as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["shown", "table"]


def table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows that have the same names as a table under its title."""
    lines = [f"{title}\n\n| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(shown, row.values()))} |" for row in rows)])


def shown(value: object) -> str:
    """Return a figure with three digits that count, a whole number with all of them."""
    if isinstance(value, float):
        return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
