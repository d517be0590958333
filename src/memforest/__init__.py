"""Long-term memory for LLM agents: temporal trees over what was said, with no API key.

from memforest import MemForest

forest = MemForest("memory")
forest.ingest_session("alice", "s1", turns)
result = forest.query("alice", "Where did Bob live before Miami?")
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from memforest.config import Config, Ranking, load_default_config
    from memforest.endpoint import Budget, ChatEndpoint, EmbeddingEndpoint
    from memforest.errors import (
        ConfigError,
        EmbedderMismatchError,
        InputError,
        MemForestError,
        NotFoundError,
        SessionConflictError,
        StoreError,
        TimestampError,
    )
    from memforest.memory.blocking import MemForest, UserMemory
    from memforest.memory.forest import AsyncMemForest
    from memforest.memory.user import AsyncUserMemory
    from memforest.models import CallableEmbedder, CallableReranker, Embedder, Reranker
    from memforest.progress import IngestProgress
    from memforest.read.receipts import ImportResult
    from memforest.read.results import AskResult, Evidence, IngestResult, QueryResult
    from memforest.read.stored import Source

__all__ = [
    "AskResult",
    "AsyncMemForest",
    "AsyncUserMemory",
    "Budget",
    "CallableEmbedder",
    "CallableReranker",
    "ChatEndpoint",
    "Config",
    "ConfigError",
    "Embedder",
    "EmbedderMismatchError",
    "EmbeddingEndpoint",
    "Evidence",
    "ImportResult",
    "IngestProgress",
    "IngestResult",
    "InputError",
    "MemForest",
    "MemForestError",
    "NotFoundError",
    "QueryResult",
    "Ranking",
    "Reranker",
    "SessionConflictError",
    "Source",
    "StoreError",
    "TimestampError",
    "UserMemory",
    "load_default_config",
]

__version__ = "0.1.0"

_HOMES = {
    "memforest.config": ("Config", "Ranking", "load_default_config"),
    "memforest.endpoint": ("Budget", "ChatEndpoint", "EmbeddingEndpoint"),
    "memforest.errors": (
        "ConfigError",
        "EmbedderMismatchError",
        "InputError",
        "MemForestError",
        "NotFoundError",
        "SessionConflictError",
        "StoreError",
        "TimestampError",
    ),
    "memforest.memory.forest": ("AsyncMemForest",),
    "memforest.memory.user": ("AsyncUserMemory",),
    "memforest.memory.blocking": ("MemForest", "UserMemory"),
    "memforest.read.receipts": ("ImportResult",),
    "memforest.progress": ("IngestProgress",),
    "memforest.read.results": ("AskResult", "Evidence", "IngestResult", "QueryResult", "Source"),
    "memforest.models": ("CallableEmbedder", "CallableReranker", "Embedder", "Reranker"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> typing.Any:
    """Import a public name at its first use, so that the command line's help need not wait for numpy (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
