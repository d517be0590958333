"""What models said, kept in files, so that a second run of a benchmark does not ask them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest import Embedder
from memforest.models.local import LocalReranker

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
    """The local reranker, which remembers what it read, in a file too.

    Args:
        reranker: that reads what is not known yet.
        file: of what was read; made by `save`.
    """

    def __init__(self, reranker: LocalReranker, file: Path) -> None:
        self._reranker, self._file = reranker, file
        self.model_id = reranker.model_id
        self._known: dict[str, list[float]] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def __getattr__(self, name: str) -> Any:
        """Return what else is known of the reranker."""
        return getattr(self._reranker, name)

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return a score for each text, in order."""
        return (await self.read_states(question, texts))[:, 0]

    async def read_states(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return what is read of each text, in order."""
        keys = {text: _key(f"{question}\0{text}") for text in texts}
        missing = [text for text, key in keys.items() if key not in self._known]
        if missing:
            rows = await self._reranker.read_states(question, missing)
            self._known.update(zip((keys[text] for text in missing), rows.tolist(), strict=True))
        return np.array([self._known[keys[text]] for text in texts]).reshape(len(texts), -1)

    def save(self) -> None:
        """Write what was read to the file."""
        self._file.write_text(json.dumps(self._known), encoding="utf-8")


def _key(text: str) -> str:
    """Return what stands for a text in a file, however long the text is."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
