"""Memories of conversations with a calendar tree whose windows are all written, and their variants."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kept import KeptVectors
from locomo import memories
from locomo.conversations import Conversation
from memforest import Config, MemForest
from memforest.models import Embedder

__all__ = ["INDEX", "build", "build_variant", "config_of"]

INDEX = "timem"


def config_of(embedder: Embedder, settings: Mapping[str, Any] | None = None) -> Config:
    """Return the configuration of the memories: the default index, and a calendar tree."""
    return Config(
        embedder=embedder, indexes=("memforest", INDEX), index_settings={INDEX: dict(settings or {})}
    )


def build(directory: Path, conversations: Sequence[Conversation], embedder: KeptVectors) -> None:
    """Make the memories that are not there yet, and write all windows, also those that have not ended."""
    directory.mkdir(parents=True, exist_ok=True)
    with MemForest(directory, config_of(embedder)) as forest:
        made = memories.build(forest, conversations)
        for name in made:
            forest.user(name).advance(force=True)
        if made:
            embedder.save()


def build_variant(
    directory: Path,
    base: Path,
    conversations: Sequence[Conversation],
    embedder: KeptVectors,
    settings: Mapping[str, Any],
) -> None:
    """Make copies of memories with another calendar tree, where they are not there yet."""
    if directory.exists():
        return
    making = directory.with_name(f"{directory.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    shutil.copytree(base, making)
    with MemForest(making, config_of(embedder, settings)) as forest:
        for conversation in conversations:
            user = forest.user(conversation.id)
            user.drop_index(INDEX)
            user.add_index(INDEX, dict(settings))
            user.advance(force=True)
    embedder.save()
    making.rename(directory)
