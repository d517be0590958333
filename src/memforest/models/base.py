"""The model ports: embedders and rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Embedder", "Reranker", "Vectors"]

Vectors = NDArray[np.float32]
"""float32, shape (n, dimension), rows of unit length."""


class Embedder(Protocol):
    """Maps texts to unit vectors. A text's vector depends on the text alone, never on its company."""

    model_id: str
    """Identity stored beside every vector, e.g. ``"minilm-l6-v2-int8@8199be6f"``."""
    dimension: int

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order.

        Raises:
            ModelError: if the model cannot be used.
        """
        ...


class Reranker(Protocol):
    """Reads a question and a text together and says how well the text answers it."""

    model_id: str
    """Identity shown in traces, e.g. ``"ms-marco-minilm-l12-int8@1225ccd6"``."""

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one finite number per text, in order, higher is better; float64 of shape (n,).

        A text's score depends on the question and the text alone, never on its company. Only differences
        between the scores of one call are used, so any scale will do.

        Raises:
            ModelError: if the model cannot be used.
        """
        ...
