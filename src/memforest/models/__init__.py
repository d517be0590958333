"""Models behind three ports: `Embedder`, `Reranker` and `ChatModel`.

    open_embedder(best_installed())   local weights, in threads, cached
    CallableEmbedder(fn, ...)         any function from texts to rows
    HashEmbedder(dimension)           word overlap, for tests
    open_reranker("local")            a local cross-encoder, in threads
    CallableReranker(fn, ...)         any function from a question and texts to numbers
    OpenAIChat(ChatEndpoint(...))     a chat model behind an OpenAI-compatible endpoint
    OpenAIEmbedder(EmbeddingEndpoint(...))

All but the last two run without a network or a key. Importing this loads no weights, no runtime and no client; that
happens at the first `embed`, `score` or `complete`.
"""

from memforest.models.base import CallableEmbedder, HashEmbedder, Vectors
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
from memforest.models.local import CallableReranker, LocalEmbedder, LocalReranker
from memforest.models.onnx import OnnxModel
from memforest.models.openai import OpenAIChat, OpenAIEmbedder
from memforest.ports import ChatModel, Embedder, Reranker

__all__ = [
    "BGE_SMALL",
    "MINILM",
    "MS_MARCO",
    "CallableEmbedder",
    "CallableReranker",
    "ChatModel",
    "Embedder",
    "HashEmbedder",
    "LocalEmbedder",
    "LocalReranker",
    "ModelStatus",
    "OnnxModel",
    "OpenAIChat",
    "OpenAIEmbedder",
    "Reranker",
    "Vectors",
    "available",
    "best_installed",
    "open_embedder",
    "open_reranker",
    "reranker_status",
]
