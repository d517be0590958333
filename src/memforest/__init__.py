"""Long-term memory for LLM agents: temporal trees over what was said, with no API key.

from memforest import MemForest

forest = MemForest("memory")
forest.ingest_session("alice", "s1", turns)
result = forest.query("alice", "Where did Bob live before Miami?")
"""

from memforest.config import Config, Ranking, load_default_config
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
from memforest.forest import AsyncMemForest, AsyncUserMemory, MemForest, UserMemory
from memforest.memory.results import AskResult, Evidence, IngestResult, QueryResult, Source
from memforest.models import CallableEmbedder, Embedder

__all__ = [
    "AskResult",
    "AsyncMemForest",
    "AsyncUserMemory",
    "CallableEmbedder",
    "Config",
    "ConfigError",
    "Embedder",
    "EmbedderMismatchError",
    "Evidence",
    "IngestResult",
    "InputError",
    "MemForest",
    "MemForestError",
    "NotFoundError",
    "QueryResult",
    "Ranking",
    "SessionConflictError",
    "Source",
    "StoreError",
    "TimestampError",
    "UserMemory",
    "load_default_config",
]

__version__ = "0.1.0"
