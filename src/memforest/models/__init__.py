"""Models that run without a network or a key: embedders behind one port, `Embedder`.

    open_embedder(best_installed())   local weights, in threads, cached
    CallableEmbedder(fn, ...)         any function from texts to rows
    HashEmbedder(dimension)           word overlap, for tests

Importing this loads no weights and no runtime; that happens at the first `embed`.
"""

from memforest.models.base import Embedder, Vectors
from memforest.models.callable import CallableEmbedder
from memforest.models.catalog import (
    BGE_SMALL,
    MINILM,
    EmbedderStatus,
    available,
    best_installed,
    open_embedder,
)
from memforest.models.hashing import HashEmbedder
from memforest.models.local import EmbedderUsage, LocalEmbedder
from memforest.models.onnx import OnnxModel

__all__ = [
    "BGE_SMALL",
    "MINILM",
    "CallableEmbedder",
    "Embedder",
    "EmbedderStatus",
    "EmbedderUsage",
    "HashEmbedder",
    "LocalEmbedder",
    "OnnxModel",
    "Vectors",
    "available",
    "best_installed",
    "open_embedder",
]
