"""The steps of a memory, chosen once from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memforest.config import Config
from memforest.errors import ConfigError
from memforest.models import CallableReranker, Reranker, open_reranker
from memforest.steps.base import (
    Answerer,
    BrowsePlanner,
    Browser,
    Extractor,
    Judge,
    Planner,
    Summariser,
)
from memforest.steps.local.answer import LocalAnswerer
from memforest.steps.local.extract import LocalExtractor
from memforest.steps.local.plan import RulePlanner
from memforest.steps.local.summarise import LocalSummariser

__all__ = ["Steps", "choose_steps"]

LOCAL_SUMMARY_WORDS = 60
CHAT_SUMMARY_WORDS = 200
"""Most words of a summary when the configuration does not say (reference configuration: 200)."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The model-shaped steps that a memory runs."""

    extractor: Extractor
    summariser: Summariser
    planner: Planner
    answerer: Answerer
    reranker: Reranker | None = None
    """None when the best candidates are not read again."""
    judge: Judge | None = None
    """None when near-duplicates are told by rules alone."""
    guide: BrowsePlanner | None = None
    """None when trees are browsed by the question itself."""
    browser: Browser | None = None
    """None when trees are browsed by embedding."""
    summary_words: int = LOCAL_SUMMARY_WORDS
    """Most words of a summary."""

    @property
    def extracts_apart(self) -> bool:
        """Whether the extractor asks a model for every chunk, so that all sessions of a call go to it at once."""
        return bool(getattr(self.extractor, "remote", False))


def choose_steps(config: Config) -> Steps:
    """Return the configured steps; what is not configured is local, and nothing reranks.

    Raises:
        ConfigError: if there is no such reranker.
        WeightsError: if the reranker is asked for and its weights are not installed.
    """
    return Steps(
        extractor=config.extractor or LocalExtractor(timezone=config.zone),
        summariser=config.summariser or LocalSummariser(),
        planner=config.planner or RulePlanner(zone=config.zone),
        answerer=config.answerer or LocalAnswerer(),
        reranker=_reranker(config.reranker),
    )


def _reranker(value: Any) -> Reranker | None:
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        return open_reranker(value)
    if hasattr(value, "score") and hasattr(value, "model_id"):
        return value  # type: ignore[no-any-return]  # has the port's attributes
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return CallableReranker(value, model_id=f"callable:{name}")
    raise ConfigError(
        f"reranker={value!r}: give 'local', 'none', a Reranker or a function of a question and texts"
    )
