"""What models said, kept in files, so that a second run of a benchmark does not ask them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest import Embedder, Reranker

__all__ = ["KeptScores", "KeptVectors"]


class KeptVectors:
    """An embedder that remembers what it embedded, in a file too, as one text stands in many trees.

    Args:
        embedder: that embeds what is not known yet.
        file: of the vectors; made by `save`.
    """

    def __init__(self, embedder: Embedder, file: Path) -> None:
        self._embedder, self._file = embedder, file
        self._known: dict[str, NDArray[np.float32]] = {}
        self.model_id, self.dimension = embedder.model_id, embedder.dimension
        if file.exists():
            with np.load(file) as stored:
                self._known = dict(zip(stored["texts"].tolist(), stored["rows"], strict=True))

    def __getattr__(self, name: str) -> Any:
        """Return what else the embedder can do."""
        return getattr(self._embedder, name)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row for each text, in order."""
        keys = {text: _key(text) for text in texts}
        missing = [text for text, key in keys.items() if key not in self._known]
        if missing:
            rows = await self._embedder.embed(missing)
            self._known.update(zip((keys[text] for text in missing), rows, strict=True))
        return (
            np.stack([self._known[keys[text]] for text in texts])
            if texts
            else np.zeros((0, self.dimension), np.float32)
        )

    def save(self) -> None:
        """Write the vectors to the file."""
        np.savez(self._file, texts=np.array(list(self._known)), rows=np.stack(list(self._known.values())))


class KeptScores:
    """A reranker that remembers what it scored, in a file too.

    Args:
        reranker: that scores what is not known yet.
        file: of the scores; made by `save`.
    """

    def __init__(self, reranker: Reranker, file: Path) -> None:
        self._reranker, self._file = reranker, file
        self.model_id = reranker.model_id
        self._known: dict[str, float] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def __getattr__(self, name: str) -> Any:
        """Return what else is known of the reranker, as that its scores are logits."""
        return getattr(self._reranker, name)

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return a score for each text, in order."""
        keys = {text: _key(f"{question}\0{text}") for text in texts}
        missing = [text for text, key in keys.items() if key not in self._known]
        if missing:
            scores = await self._reranker.score(question, missing)
            self._known.update(zip((keys[text] for text in missing), scores.tolist(), strict=True))
        return np.array([self._known[keys[text]] for text in texts], dtype=np.float64)

    def save(self) -> None:
        """Write the scores to the file."""
        self._file.write_text(json.dumps(self._known), encoding="utf-8")


def _key(text: str) -> str:
    """Return what stands for a text in a file, however long the text is."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
