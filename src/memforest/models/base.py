"""The model ports (see `memforest.ports`), and what embedders return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.ports import ChatModel, ChatReply, ChatRequest, Embedder, Message, Reranker

__all__ = ["ChatModel", "ChatReply", "ChatRequest", "Embedder", "Message", "Reranker", "Vectors"]

Vectors = NDArray[np.float32]
"""float32, shape (n, dimension), rows of unit length."""
