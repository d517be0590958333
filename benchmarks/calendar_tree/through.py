"""Calendar trees as the index makes them, with a double in the place of a chat model: its calls by level, chain and time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calendar_tree.build import INDEX
from calendar_tree.counts import Ways
from calendar_tree.double import Counting
from locomo import memories
from locomo.conversations import Conversation
from memforest import Config, MemForest
from memforest.models import HashEmbedder

__all__ = ["PROMPTS", "Made", "backfilled", "grown", "settings_of"]

PROMPTS = ("timem_segment", "timem_session", "timem_day", "timem_week", "timem_profile")
"""From L1 on."""


class Made(NamedTuple):
    """What one conversation has cost."""

    calls: tuple[int, ...]
    """By level, from L1 on."""
    others: int
    """Calls by other prompts."""
    again: int
    """Calls of a second `advance`."""
    chain: int
    """Calls of which each began when another had ended: as many as wait for one another, or more."""
    wall_s: float
    """Of what is measured: the backfill, or all writes."""
    cpu_s: float
    """Of this process meanwhile, the double's work included."""


def settings_of(ways: Ways) -> dict[str, Any]:
    """Return the settings with which the index makes a tree so.

    Raises:
        ValueError: if it cannot: it has no weeks that overlap, and leaves no turn out.
    """
    if ways.weeks != "in-month" or not ways.rest:
        raise ValueError("the index has no weeks that overlap, and leaves no turn out")
    return {
        "segment": ways.segment,
        "history": ways.history,
        "history_of": ways.history_of,
        "pass_through": ways.pass_through,
    }


def grown(conversation: Conversation, ways: Ways, double: Counting) -> Made:
    """Ingest a conversation session by session, and write what is left open then."""
    config = _config(double, (INDEX,), settings_of(ways))
    with tempfile.TemporaryDirectory(prefix="timem-") as folder, MemForest(Path(folder), config) as forest:
        watch = _Watch()
        _ingest(forest, conversation)
        return _advanced(forest, double, watch)


def backfilled(conversation: Conversation, ways: Ways, double: Counting) -> Made:
    """Ingest a conversation without the index, and add it then; the time is that of adding and writing it."""
    config = _config(double, ("memforest",), {})
    with tempfile.TemporaryDirectory(prefix="timem-") as folder, MemForest(Path(folder), config) as forest:
        _ingest(forest, conversation)
        double.calls.clear()
        double.chain = 0
        watch = _Watch()
        forest.user("u").add_index(INDEX, settings_of(ways))
        return _advanced(forest, double, watch)


class _Watch:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Return the seconds on the wall and of the processor."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def _ingest(forest: MemForest, conversation: Conversation) -> None:
    for one in memories.requests_of(conversation, "u", infer=False):
        forest.ingest_session(**one)


def _advanced(forest: MemForest, double: Counting, watch: _Watch) -> Made:
    forest.user("u").advance(force=True)
    wall_s, cpu_s = watch.read()
    calls, chain = dict(double.calls), double.chain
    forest.user("u").advance(force=True)
    return Made(
        calls=tuple(calls.get(one, 0) for one in PROMPTS),
        others=sum(count for name, count in calls.items() if name not in PROMPTS),
        again=double.calls.total() - sum(calls.values()),
        chain=chain,
        wall_s=wall_s,
        cpu_s=cpu_s,
    )


def _config(double: Counting, indexes: Sequence[str], settings: Mapping[str, Any]) -> Config:
    return Config(
        embedder=HashEmbedder(64),
        indexes=tuple(indexes),
        index_settings={INDEX: settings} if settings else {},
        chat=double,
        chat_steps=("summarise",),
        refresh="lazy",
    )
