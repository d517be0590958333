"""Texts to vectors, each text once: from the store by its digest, else from the embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError
from memforest.models import Embedder
from memforest.search.texts import digest
from memforest.store import derived
from memforest.store.db import Database

__all__ = ["VectorMaker"]


@dataclass(slots=True)
class VectorMaker:
    """Makes vectors for one memory and counts, by kind, the texts that the embedder was asked for."""

    db: Database
    embedder: Embedder
    ran: dict[str, int] = field(default_factory=dict)

    async def make(self, texts: Sequence[str], kind: str) -> Mapping[bytes, NDArray[np.float32]]:
        """Return digest -> unit vector for every text.

        Raises:
            ModelError: if the embedder fails or returns something else than finite rows of its dimension.
        """
        by_digest = {digest(text): text for text in texts}
        found = await asyncio.to_thread(self._stored, list(by_digest))
        missing = [key for key in by_digest if key not in found]
        if missing:
            rows = await self.embedder.embed([by_digest[key] for key in missing])
            if rows.shape != (len(missing), self.embedder.dimension) or not np.isfinite(rows).all():
                raise ModelError(
                    f"embedder {self.embedder.model_id!r} returned shape {rows.shape} for {len(missing)} texts; "
                    f"expected finite rows of dimension {self.embedder.dimension}"
                )
            found.update(zip(missing, rows, strict=True))
            self.ran[kind] = self.ran.get(kind, 0) + len(missing)
        return found

    def _stored(self, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        with self.db.read() as tx:
            return derived.vectors_by_digest(tx, self.embedder.model_id, digests)
