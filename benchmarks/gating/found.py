"""Whether what answers a question is found: evidence recall on a LoCoMo file, by two embedders, with and without a reranker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gating.rows import Row, of_questions
from kept import KeptScores, KeptVectors
from locomo import memories
from locomo.conversations import Conversation, read_conversations
from locomo.measures import MEASURES, measure
from memforest import Config, MemForest
from memforest.models import BGE_SMALL, MINILM, MS_MARCO, open_embedder
from memforest.models.local import LocalReranker

__all__ = ["rows"]

EMBEDDERS = {"MiniLM": MINILM, "bge": BGE_SMALL}
SHOWN = {
    "R@10": "turns that answer, in the first 10",
    "nDCG@10": "the same, early ones count more (nDCG@10)",
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
    conversations = read_conversations(file)
    return [row for name in EMBEDDERS for row in _of_embedder(name, conversations, work)]


def _of_embedder(name: str, conversations: Sequence[Conversation], work: Path) -> Iterator[Row]:
    model = EMBEDDERS[name]
    embedder = KeptVectors(open_embedder(model.model_id), work / f"vectors-{model.model_id}.npz")
    reranker = KeptScores(LocalReranker(MS_MARCO), work / f"scores-{MS_MARCO.model_id}.json")
    with tempfile.TemporaryDirectory(prefix="gates-locomo-") as folder:
        for label, config in {
            name: Config(embedder=embedder, reranker=None),
            f"{name} + reranker": Config(embedder=embedder, reranker=reranker),
        }.items():
            with MemForest(folder, config) as forest:
                memories.build(forest, conversations)
                yield from _scored(label, forest, conversations)
            embedder.save()
    reranker.save()


def _scored(label: str, forest: MemForest, conversations: Sequence[Conversation]) -> Iterator[Row]:
    values: list[list[float]] = []
    first: list[float] = []
    for conversation in conversations:
        for question in conversation.questions:
            ranked = memories.ranked_turns(forest, conversation, question.text, memories.DEPTH)
            values.append(measure(ranked, question.gold, conversation.turn_session))
            first.append(float(bool(question.gold.intersection(ranked[:1]))))
    for name, shown in SHOWN.items():
        at = MEASURES.index(name)
        yield of_questions(f"{label}: {shown}", [one[at] for one in values])
    yield of_questions(f"{label}: the first turn answers", first)
