"""A clock for what expires: setting the system's clock back makes nothing valid again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from memforest.clock import Clock


def steady(clock: Clock, monotonic: Callable[[], float]) -> Clock:
    """Return a clock that is never behind the time that has passed since it was made.

    It follows a clock that is set forward, and back again from there; only behind where it would be without that it does not go.

    Args:
        clock: says what time it is.
        monotonic: says how much has passed, in seconds.
    """
    begun, since = clock(), monotonic()

    def now() -> datetime:
        return max(clock(), begun + timedelta(seconds=monotonic() - since))

    return now
