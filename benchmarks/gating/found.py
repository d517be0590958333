"""Whether what answers a question is found: evidence recall on a LoCoMo file, by two embedders, with and without a reranker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from math import isnan
from pathlib import Path

from gating.rows import Row, of_questions
from kept import KeptScores, KeptVectors
from memforest import Config
from memforest.evaluation.retrieval import Plan, run_retrieval
from memforest.models import BGE_SMALL, MINILM, MS_MARCO, open_embedder
from memforest.models.local import LocalReranker

__all__ = ["rows"]

EMBEDDERS = {"MiniLM": MINILM, "bge": BGE_SMALL}
SHOWN = {
    "R@10": "turns that answer, in the first 10",
    "nDCG@10": "the same, early ones count more (nDCG@10)",
    "first": "the first turn answers",
}
"""Measure -> its name in the table."""


def rows(file: Path, work: Path) -> list[Row]:
    """Return the rows of a LoCoMo file.

    Args:
        file: the conversations, and the questions about them.
        work: a folder that keeps what models said, for the next run.

    Raises:
        WeightsError: if the extra `[minilm]` is not installed.
    """
    return [row for name in EMBEDDERS for row in _of_embedder(name, file, work)]


def _of_embedder(name: str, file: Path, work: Path) -> Iterator[Row]:
    model = EMBEDDERS[name]
    embedder = KeptVectors(open_embedder(model.model_id), work / f"vectors-{model.model_id}.npz")
    reranker = KeptScores(LocalReranker(MS_MARCO), work / f"scores-{MS_MARCO.model_id}.json")
    for label, config in {
        name: Config(embedder=embedder, reranker=None),
        f"{name} + reranker": Config(embedder=embedder, reranker=reranker),
    }.items():
        with tempfile.TemporaryDirectory(prefix="gates-locomo-") as folder:
            plan = Plan("locomo", [file], ["memforest"], config, types=["-adversarial"])
            results = run_retrieval(plan, Path(folder))
        for measure, shown in SHOWN.items():
            values, _ = results.values("memforest", measure)
            yield of_questions(f"{label}: {shown}", [one for one in values if not isnan(one)])
        embedder.save()
    reranker.save()
