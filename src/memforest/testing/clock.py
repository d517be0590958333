"""A clock that stands still until it is told otherwise."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from memforest.errors import ConfigError


class FrozenClock:
    """A `Clock` for `Config(clock=...)` that says the same time until it is moved.

    Args:
        at: the time it says, aware, or ISO 8601 text with an offset.

    Raises:
        ConfigError: if the time is naive, or no time.

    Example:
        >>> clock = FrozenClock("2024-06-01T12:00:00+00:00")
        >>> clock.advance(days=1, seconds=30).isoformat()
        '2024-06-02T12:00:30+00:00'
        >>> clock() == clock()
        True
    """

    def __init__(self, at: datetime | str) -> None:
        self._now = _aware(at)

    def __call__(self) -> datetime:
        """Return the time, in UTC."""
        return self._now

    def advance(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> datetime:
        """Move on by so much, or back if it is negative, and return the new time."""
        self._now += timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        return self._now

    def set(self, at: datetime | str) -> None:
        """Say another time from now on.

        Raises:
            ConfigError: if the time is naive, or no time.
        """
        self._now = _aware(at)


def _aware(at: datetime | str) -> datetime:
    try:
        # Python 3.10 does not read a Z.
        value = datetime.fromisoformat(at.replace("Z", "+00:00")) if isinstance(at, str) else at
    except ValueError as exc:
        raise ConfigError(f"{at!r} is no time; give one such as '2024-06-01T12:00:00+00:00'") from exc
    if value.tzinfo is None:
        raise ConfigError(f"{at!r} has no time zone; give an aware time, e.g. with tzinfo=timezone.utc")
    return value.astimezone(timezone.utc)
