"""Counts of requests for the `limits` package: two windows a key, with a clock that is handed in. Imports `limits`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from limits.storage import Storage
from limits.storage.base import SlidingWindowCounterSupport

ROUNDING = 1e-6
"""Of a request or a second: who waits as long as was said is not refused for the last digit."""


class Windows(Storage, SlidingWindowCounterSupport):
    """Keeps of each key how often it came in the present window and in the one before. Not for several threads at once.

    Args:
        monotonic: says how late it is, in seconds.
        most: keys that are kept; of more, those seen longest ago are forgotten.
    """

    STORAGE_SCHEME = None

    def __init__(self, monotonic: Callable[[], float], most: int) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._most = most
        self._kept: OrderedDict[str, tuple[int, int, int]] = OrderedDict()
        """Key -> number of its present window, count in that, count in the one before."""

    def __len__(self) -> int:
        return len(self._kept)

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Return count and remaining seconds of the window before, and of the present one."""
        number, passed = divmod(self._monotonic(), expiry)
        kept, now, before = self._kept.get(key, (0, 0, 0))
        if kept != number:
            now, before = 0, now if kept == number - 1 else 0
        left = expiry - passed
        return before, left, now, left + expiry

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count, if the two windows, the one before by its part that still counts, stay within the limit."""
        before, left, now, _ = self.get_sliding_window(key, expiry)
        if before * left / expiry + now > limit - amount + ROUNDING:
            return False
        self._kept[key] = (int(self._monotonic() // expiry), now + amount, before)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return True

    def wait(self, key: str, limit: int, expiry: int) -> float:
        """Return the seconds until one more is within the limit, if none comes meanwhile."""
        before, left, now, _ = self.get_sliding_window(key, expiry)
        if now <= limit - 1:
            # The window before fades away: before * left / expiry has to go down to limit - 1 - now.
            wait = left - (limit - 1 - now) * expiry / before if before else 0.0
            return wait if wait > ROUNDING else 0.0
        # This window fills the limit alone: it has to end, and to fade as the one before.
        return left + expiry - (limit - 1) * expiry / now

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Forget a key."""
        self._kept.pop(key, None)

    # -- what other strategies of the package would need ------------------------------------------------

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Not used: windows slide here."""
        raise NotImplementedError

    def get(self, key: str) -> int:
        """Return how often a key came in its last window."""
        return self._kept.get(key, (0, 0, 0))[1]

    def get_expiry(self, key: str) -> float:
        """Not used: windows slide here."""
        raise NotImplementedError

    def check(self) -> bool:
        """Return True: there is nothing that could be out of reach."""
        return True

    def reset(self) -> int:
        """Forget all keys, and return how many there were."""
        count = len(self._kept)
        self._kept.clear()
        return count

    def clear(self, key: str) -> None:
        """Forget a key."""
        self._kept.pop(key, None)

    @property
    def base_exceptions(self) -> type[Exception]:
        """What a store of the package may raise that is out of reach; this one raises nothing."""
        return OSError
