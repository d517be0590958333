"""How likely each of some pieces of evidence is a right answer, or none of them: a softmax over them and "none".

The weight of a piece is the exponential of a weighted sum of what is known of it (`memforest.steps.local.relevance`), that
of "none" is 1. So pieces compete: of two that look alike neither is sure. The weights come from
`scripts/calibrate_answers.py`, fitted to which pieces were right answers in conversations written for it; the chance of a
piece is the share of such pieces that were right there, and no promise for other talk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

NAMES = ("place", "said", "hits", "heard", "replied", "lacks", "new", "leads")
"""What counts, beside the logit of a cross-encoder."""

Weights = Mapping[str, float]


def weights_for(model: str | None) -> Weights | None:
    """Return the weights for a cross-encoder, None if it was not calibrated; for None those of words alone."""
    return _table().get(model or "words")


@cache
def _table() -> Mapping[str, Weights]:
    text = files("memforest.data").joinpath("answer_scores.json").read_text(encoding="utf-8")
    return {name: one["weights"] for name, one in json.loads(text)["scorers"].items()}


def chances(known: Sequence[Mapping[str, float]], weights: Weights) -> list[float]:
    """Return the chance of each piece to be a right answer, in [0, 1]; their sum is that any of them is.

    >>> [round(one, 2) for one in chances([{"said": 1.0}, {"said": 0.0}], {"said": 2.0, "bias": -1.0})]
    [0.67, 0.09]
    """
    sums = [
        weights["bias"] + sum(weights.get(name, 0.0) * value for name, value in one.items()) for one in known
    ]
    top = max([0.0, *sums])
    parts = [math.exp(one - top) for one in sums]
    total = sum(parts) + math.exp(-top)
    return [part / total for part in parts]
