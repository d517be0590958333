"""The steps of a memory, chosen once from its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from memforest.config import Config
from memforest.steps.base import Answerer, Extractor, Planner, Summariser
from memforest.steps.local.answer import LocalAnswerer
from memforest.steps.local.extract import LocalExtractor
from memforest.steps.local.plan import RulePlanner
from memforest.steps.local.summarise import LocalSummariser

__all__ = ["Steps", "choose_steps"]


@dataclass(frozen=True, slots=True)
class Steps:
    """The model-shaped steps that a memory runs."""

    extractor: Extractor
    summariser: Summariser
    planner: Planner
    answerer: Answerer


def choose_steps(config: Config) -> Steps:
    """Return the configured steps; what is not configured is local."""
    return Steps(
        extractor=config.extractor or LocalExtractor(timezone=config.zone),
        summariser=config.summariser or LocalSummariser(),
        planner=config.planner or RulePlanner(zone=config.zone),
        answerer=config.answerer or LocalAnswerer(),
    )
