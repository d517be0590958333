"""Models that run without a network or a key, behind two ports, `Embedder` and `Reranker`.

    open_embedder(best_installed())   local weights, in threads, cached
    CallableEmbedder(fn, ...)         any function from texts to rows
    HashEmbedder(dimension)           word overlap, for tests
    open_reranker("local")            a local cross-encoder, in threads
    CallableReranker(fn, ...)         any function from a question and texts to numbers

Importing this loads no weights and no runtime; that happens at the first `embed` or `score`.
"""

from memforest.models.base import Embedder, Reranker, Vectors
from memforest.models.callable import CallableEmbedder
from memforest.models.catalog import (
    BGE_SMALL,
    MINILM,
    MS_MARCO,
    ModelStatus,
    available,
    best_installed,
    open_embedder,
    open_reranker,
    reranker_status,
)
from memforest.models.hashing import HashEmbedder
from memforest.models.local import EmbedderUsage, LocalEmbedder
from memforest.models.onnx import OnnxModel
from memforest.models.rerank import CallableReranker, LocalReranker

__all__ = [
    "BGE_SMALL",
    "MINILM",
    "MS_MARCO",
    "CallableEmbedder",
    "CallableReranker",
    "Embedder",
    "EmbedderUsage",
    "HashEmbedder",
    "LocalEmbedder",
    "LocalReranker",
    "ModelStatus",
    "OnnxModel",
    "Reranker",
    "Vectors",
    "available",
    "best_installed",
    "open_embedder",
    "open_reranker",
    "reranker_status",
]
