"""Many users' memories in one directory: the public verbs, async and blocking."""

from memforest.forest.blocking import MemForest
from memforest.forest.forest import AsyncMemForest
from memforest.forest.handle import AsyncUserMemory, UserMemory
from memforest.forest.imported import ImportedFile, ImportedMemory, ImportProgress, ImportResult

__all__ = [
    "AsyncMemForest",
    "AsyncUserMemory",
    "ImportProgress",
    "ImportResult",
    "ImportedFile",
    "ImportedMemory",
    "MemForest",
    "UserMemory",
]
