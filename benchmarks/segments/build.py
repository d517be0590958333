"""Memories of conversations with a segment tree, their variants by how the tree is made, and conversations out of order."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kept import KeptVectors
from locomo import memories
from locomo.conversations import Conversation
from memforest import Config, MemForest
from memforest.exchanges import leaf_exchanges

__all__ = ["SHARE", "VARIANTS", "build", "build_variant", "swapped"]

SHARE = 0.30
"""Share of the exchanges that trade places (paper, Table 3)."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "leaf_vector=text": {"leaf_vector": "text"},
    "leaves=pairs": {"leaves": "pairs"},
    "leaves=turns": {"leaves": "turns"},
    "placer=cosine": {"placer": "cosine"},
    "text and cosine": {"leaf_vector": "text", "placer": "cosine"},
}
"""Name of a tree that is made otherwise -> the settings in which it differs. The last is the paper's with cosines."""

READ = {"scorer": "cosine"}
"""With these settings every summary gets a vector, so that one tree can be ranked in every way."""


def config_of(embedder: KeptVectors, settings: Mapping[str, Any] = READ) -> Config:
    """Return the configuration of the memories: two indexes, and vectors for all summaries."""
    return Config(
        embedder=embedder, indexes=("memforest", "segtree"), index_settings={"segtree": {**READ, **settings}}
    )


def build(
    directory: Path, conversations: Sequence[Conversation], embedder: KeptVectors, **options: Any
) -> None:
    """Make the memories that are not there yet, and finish what was left."""
    directory.mkdir(parents=True, exist_ok=True)
    with MemForest(directory, config_of(embedder)) as forest:
        if memories.build(forest, conversations, **options):
            embedder.save()
        forest.resume()


def build_variant(
    directory: Path,
    base: Path,
    conversations: Sequence[Conversation],
    embedder: KeptVectors,
    settings: Mapping[str, Any],
) -> None:
    """Make copies of memories with another segment tree, where they are not there yet."""
    if directory.exists():
        return
    making = directory.with_name(f"{directory.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    shutil.copytree(base, making)
    with MemForest(making, config_of(embedder)) as forest:
        for conversation in conversations:
            forest.user(conversation.id).drop_index("segtree")
            forest.user(conversation.id).add_index("segtree", dict(settings))
        forest.resume()
    embedder.save()
    making.rename(directory)


# -- out of order -----------------------------------------------------------------------------------


def swapped(conversation: Conversation, share: float, seed: int) -> Conversation:
    """Return a conversation in which a share of all exchanges have traded places by twos, each with a random other one.

    Exchanges are the leaves of the tree (`memforest.exchanges.leaf_exchanges`), what the paper calls turn pairs. Those that
    trade are two turns long and have the same speakers in the same order, so that the leaves of the tree are the same as before
    and only their order is another; turns keep their ids. A session keeps its time, and so gets turns of other times.

    Args:
        conversation: in the order of its sessions.
        share: of all exchanges, the nearest even number.
        seed: of the choice.

    Raises:
        ValueError: if too few exchanges can trade.
    """
    sessions = [list(session.turns) for session in conversation.sessions]
    opener = sessions[0][0]["speaker"]
    found = [
        (at, one.first, one.last)
        for at, turns in enumerate(sessions)
        for one in leaf_exchanges([turn["speaker"] for turn in turns], opener=opener)
    ]
    plain: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for at, first, last in found:
        if last == first + 1:
            key = (sessions[at][first]["speaker"], sessions[at][last]["speaker"])
            plain.setdefault(key, []).append((at, first))
    alike = max(plain.values(), key=len, default=[])
    wanted = 2 * round(share * len(found) / 2)
    if wanted > len(alike):
        raise ValueError(f"{wanted} of {len(found)} exchanges are to trade places, and {len(alike)} can")
    chosen = random.Random(seed).sample(alike, wanted)
    for (at, a), (other, b) in zip(chosen[::2], chosen[1::2], strict=True):
        one, two = sessions[at][a : a + 2], sessions[other][b : b + 2]
        sessions[at][a : a + 2], sessions[other][b : b + 2] = two, one
    return replace(
        conversation,
        sessions=tuple(
            replace(session, turns=tuple(turns))
            for session, turns in zip(conversation.sessions, sessions, strict=True)
        ),
    )
