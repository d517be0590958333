"""The one place that reads the system's clock; everything else is handed a `Clock`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

Clock = Callable[[], datetime]
"""A function without arguments that returns the present as an aware UTC datetime."""


def system_clock() -> datetime:
    """Return the present as an aware UTC datetime."""
    return datetime.now(timezone.utc)  # noqa: TID251 - this is the injected clock's default
