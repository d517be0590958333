"""The embedder port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Embedder", "Vectors"]

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
