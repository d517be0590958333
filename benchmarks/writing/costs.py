"""Declared cost models: how long a model takes for a call. Nothing is measured here; the double waits this long.

A call takes a fixed time, so much per prompt token and so much per completion token, however many calls are under
way: a server with room for all of them. What a client has to wait for in the end is then its own doing. Prompt tokens
that a server would have kept are counted, and charged like all others, so that the formula is as simple as it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.doubles import Latency

__all__ = ["COSTS", "EMBED", "CostModel"]


@dataclass(frozen=True, slots=True)
class CostModel(Latency):
    """What a call takes: a fixed time, and a time per token; tokens that were kept cost what others do.

    Example:
        >>> CostModel(base_s=0.15, prompt_token_s=0.00005, completion_token_s=0.008).seconds(1000, 100, 900)
        1.0
    """

    def prompt_s(self, prompt_tokens: int, cached_tokens: int = 0) -> float:
        """Return the seconds until the prompt is read, whether it was kept or not."""
        return self.base_s + self.prompt_token_s * prompt_tokens

    @property
    def declared(self) -> str:
        """The model in words."""
        return (
            f"{self.base_s * 1000:g} ms + {self.prompt_token_s * 1000:g} ms per prompt token"
            f" + {self.completion_token_s * 1000:g} ms per completion token"
        )


COSTS: Mapping[str, CostModel] = {
    "reference": CostModel(0.15, 0.00005, 0.008),
    "hosted": CostModel(0.6, 0.00001, 0.0025),
    "local": CostModel(0.02, 0.0005, 0.02),
}
"""``reference`` is the one for which the project states its targets. ``hosted`` is slow per call and fast per token;
``local`` is a small machine, which reads 2000 and writes 50 tokens a second."""

EMBED = CostModel(0.03, 0.000005)
"""A request to the embeddings endpoint, under every cost model."""
