"""How fast the test endpoint is: what a reply takes, how many calls it lets in, what it has kept."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from memforest.errors import ConfigError
from memforest.text import count_tokens

BLOCK_TOKENS = 128
"""Cached tokens are counted in blocks of this many, as OpenAI does
(https://platform.openai.com/docs/guides/prompt-caching); the first block counts here, to keep tests small."""
_PIECE_CHARS = 512
"""As many ASCII characters as a block is estimated at."""
_MAX_PIECES = 100_000


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a reply takes, in seconds: a fixed part, and parts per token.

    Prompt tokens that the server has kept take no time. Calls do not slow each other down.

    Example:
        >>> Latency(base_s=0.15, prompt_token_s=0.00005, completion_token_s=0.008).seconds(2000, 100)
        1.05
    """

    base_s: float = 0.0
    prompt_token_s: float = 0.0
    completion_token_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ConfigError: if a part is negative or not finite.
        """
        for name in self.__slots__:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name}={value!r}: give seconds, 0 or more")

    def prompt_s(self, prompt_tokens: int, cached_tokens: int = 0) -> float:
        """Return the seconds until the prompt is read."""
        return self.base_s + self.prompt_token_s * (prompt_tokens - cached_tokens)

    def seconds(self, prompt_tokens: int, completion_tokens: int = 0, cached_tokens: int = 0) -> float:
        """Return the seconds of the whole call."""
        return self.prompt_s(prompt_tokens, cached_tokens) + self.completion_token_s * completion_tokens


@dataclass(slots=True)
class RateLimit:
    """Lets in `per_s` calls a second, and `burst` at once; the others are told when to come back (status 429).

    Example:
        >>> limit = RateLimit(per_s=10, burst=1)
        >>> limit.wait_s(now_s=0.0), limit.wait_s(now_s=0.0), limit.wait_s(now_s=0.1)
        (0.0, 0.1, 0.0)
    """

    per_s: float
    burst: int = 1
    _left: float = 0.0
    _at_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ConfigError: if `per_s` is not above 0, or `burst` is below 1.
        """
        if not (math.isfinite(self.per_s) and self.per_s > 0) or self.burst < 1:
            raise ConfigError(f"per_s={self.per_s!r}, burst={self.burst!r}: give more than 0, and at least 1")

    def wait_s(self, now_s: float) -> float:
        """Let a call in and return 0, or return the seconds after which one will be let in."""
        passed = 0.0 if self._at_s is None else now_s - self._at_s
        self._left = self.burst if self._at_s is None else min(self.burst, self._left + passed * self.per_s)
        self._at_s = now_s
        if self._left >= 1 - 1e-9:  # the sum of many small parts is not exact
            self._left -= 1
            return 0.0
        return (1 - self._left) / self.per_s


class PrefixCache:
    """Remembers the prompts that a server has read, to say how much of a new one it need not read again.

    Tokens are estimated, so prompts are compared by characters, in pieces, and what is alike is counted in whole
    blocks of 128 tokens. A bounded number of pieces is kept; those used longest ago go first.

    Example:
        >>> cache = PrefixCache()
        >>> cache.add("You are terse. " * 100)
        >>> cache.cached_tokens("You are terse. " * 100 + "And now?"), cache.cached_tokens("Be kind.")
        (256, 0)
    """

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[int | str, str], int] = OrderedDict()
        self._next = 1

    def add(self, prompt: str, *, model: str = "") -> None:
        """Remember a prompt that a model has read; every model has a memory of its own."""
        node: int | str = model
        for piece in _pieces(prompt):
            key = (node, piece)
            found = self._pieces.get(key)
            if found is None:
                found = self._pieces[key] = self._next
                self._next += 1
            else:
                self._pieces.move_to_end(key)
            node = found
        while len(self._pieces) > _MAX_PIECES:
            self._pieces.popitem(last=False)

    def cached_tokens(self, prompt: str, *, model: str = "") -> int:
        """Return how many tokens at the start of a prompt are those of an earlier one: a multiple of 128."""
        node: int | str = model
        chars = 0
        for piece in _pieces(prompt):
            found = self._pieces.get((node, piece))
            if found is None:
                break
            node, chars = found, chars + _PIECE_CHARS
        return count_tokens(prompt[:chars]) // BLOCK_TOKENS * BLOCK_TOKENS


def _pieces(prompt: str) -> list[str]:
    """Return the whole pieces of a prompt; what is left at its end is none."""
    return [prompt[at : at + _PIECE_CHARS] for at in range(0, len(prompt) - _PIECE_CHARS + 1, _PIECE_CHARS)]
