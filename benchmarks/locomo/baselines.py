"""Rankings of single turns that know no trees and no facts: BM25, dense, and their weighted fusion.

They read the turns with the package's own tokeniser and embedder, so what differs is the ranking alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locomo.conversations import Conversation
from memforest.models import Embedder
from memforest.reading.timestamps import parse_timestamp
from memforest.search.vectors import index_tokens, question_tokens, turn_text

__all__ = ["BASELINES", "Turns", "vectors_of"]

BASELINES = ("BM25", "dense", "z-fusion")
K1 = 0.9
B = 0.4
"""The usual values for short passages."""
LEXICAL = 0.35
"""Weight of BM25 in the fusion; the cosine has the rest."""

Scores = NDArray[np.float64]


class Turns:
    """The turns of one conversation, ranked by three baselines.

    Args:
        conversation: whose turns.
        vectors: text -> unit vector, of the turns and of the questions.
    """

    def __init__(self, conversation: Conversation, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors
        self.ids = list(conversation.turn_session)
        self._postings: dict[str, list[tuple[int, int]]] = {}
        self._lengths: list[int] = []
        rows: list[NDArray[np.float32]] = []
        for session in conversation.sessions:
            when = parse_timestamp(session.timestamp, timezone=timezone.utc, field=session.session_id)[0]
            for turn in session.turns:
                text = turn_said(turn)
                tokens = Counter(index_tokens(turn["speaker"], text, when))
                for token, count in tokens.items():
                    self._postings.setdefault(token, []).append((len(rows), count))
                self._lengths.append(tokens.total())
                rows.append(vectors[turn_text(turn["speaker"], text)])
        self._rows = np.stack(rows)

    def rank(self, question: str) -> dict[str, list[str]]:
        """Return, per baseline, all turn ids, best first; ties by turn order."""
        lexical = self._bm25(question)
        dense = (self._rows @ self._vectors[question]).astype(np.float64)
        fused = LEXICAL * _standard(lexical) + (1 - LEXICAL) * _standard(dense)
        scores = dict(zip(BASELINES, (lexical, dense, fused), strict=True))
        return {name: [self.ids[i] for i in np.argsort(-one, kind="stable")] for name, one in scores.items()}

    def _bm25(self, question: str) -> Scores:
        scores = np.zeros(len(self.ids))
        total, mean = len(self.ids), sum(self._lengths) / len(self._lengths)
        for token in set(question_tokens(question)):
            found = self._postings.get(token, [])
            weight = math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for row, count in found:
                norm = K1 * (1 - B + B * self._lengths[row] / mean)
                scores[row] += weight * count * (K1 + 1) / (count + norm)
        return scores


def turn_said(turn: Mapping[str, Any]) -> str:
    """Return a turn's text with its caption, as the memory stores it."""
    caption = turn.get("blip_caption")
    return f"{turn['text']} [image: {caption}]".strip() if caption else str(turn["text"])


def _standard(values: Scores) -> Scores:
    spread = values.std()
    return (values - values.mean()) / spread if spread > 1e-12 else np.zeros_like(values)


def vectors_of(
    conversations: Sequence[Conversation], embedder: Embedder, cache: Path
) -> dict[str, NDArray[np.float32]]:
    """Return the unit vectors of all turns and questions, kept in `cache` from run to run."""
    texts = {
        turn_text(turn["speaker"], turn_said(turn))
        for one in conversations
        for session in one.sessions
        for turn in session.turns
    } | {question.text for one in conversations for question in one.questions}
    kept: dict[str, NDArray[np.float32]] = {}
    if cache.exists():
        with np.load(cache) as stored:
            kept = dict(zip(stored["texts"].tolist(), stored["rows"], strict=True))
    missing = sorted(texts - kept.keys())
    if missing:
        kept.update(zip(missing, asyncio.run(embedder.embed(missing)), strict=True))
        np.savez(cache, texts=np.array(list(kept)), rows=np.stack(list(kept.values())))
    return kept
