"""Making vectors of texts, each text once: from the store by its digest, else from the embedder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.errors import EmbedderMismatchError, ModelError
from memforest.models import Embedder
from memforest.search.texts import digest
from memforest.store import derived, meta
from memforest.store.db import Database
from memforest.store.packing import as_stored
from memforest.store.tx import Tx
from memforest.text import shorten_runs

_GIVE_IT = "or give the memory this one: rebuild(embedder=True), `memforest rebuild --embedder`"


@dataclass(slots=True)
class VectorMaker:
    """Makes vectors for one memory and counts, by kind, the texts that the embedder was asked for."""

    db: Database
    embedder: Embedder
    ran: dict[str, int] = field(default_factory=dict)
    stored_dimension: int | None = None
    """Length of the memory's vectors when they were last looked up; None while it has none."""

    def anew(self) -> VectorMaker:
        """Return a maker for the same memory that counts for itself."""
        return replace(self, ran={})

    async def make(self, texts: Sequence[str], kind: str) -> Mapping[bytes, NDArray[np.float32]]:
        """Return digest -> unit vector for every text.

        Raises:
            ModelError: if the embedder fails or returns something else than finite rows of its dimension.
            EmbedderMismatchError: if the memory's vectors have another dimension.
        """
        by_digest = {digest(text): text for text in texts}
        found = await to_thread(self._stored, list(by_digest))
        missing = [key for key in by_digest if key not in found]
        if missing:
            rows = await self.embed([by_digest[key] for key in missing], kind)
            self.check_dimension()
            found.update(zip(missing, rows, strict=True))
        return found

    async def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        """Return a unit vector for every text, each made by the embedder, as it will be stored.

        Raises:
            ModelError: if the embedder fails or returns something else than finite rows of its dimension.
        """
        rows = await self.embedder.embed([shorten_runs(text) for text in texts])
        if rows.shape != (len(texts), self.embedder.dimension) or not np.isfinite(rows).all():
            raise ModelError(
                f"embedder {self.embedder.model_id!r} returned shape {rows.shape} for {len(texts)} texts; "
                f"expected finite rows of dimension {self.embedder.dimension}"
            )
        self.ran[kind] = self.ran.get(kind, 0) + len(texts)
        return as_stored(rows)

    def check_own(self, tx: Tx) -> None:
        """Raise if the memory has been given another embedder since it was opened, before a vector of this one is written.

        Raises:
            EmbedderMismatchError: if that is so.
        """
        check_own(tx, self.db.path, self.embedder.model_id)

    def check_dimension(self) -> None:
        """Raise if the embedder's dimension is not that of the memory's vectors, although the names agree.

        Raises:
            EmbedderMismatchError: if the memory's vectors have another dimension.
        """
        if self.stored_dimension not in (None, self.embedder.dimension):
            raise EmbedderMismatchError(
                f"embedder {self.embedder.model_id!r} returned {self.embedder.dimension} numbers per text and "
                f"{self.db.path.name!r} holds vectors of {self.stored_dimension}: it is another model under the "
                f"same name; configure the one the memory was made with, {_GIVE_IT}"
            )

    def _stored(self, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        with self.db.read() as tx:
            self.stored_dimension = derived.dimension(tx)
            return derived.vectors_by_digest(tx, digests)


def other_embedder(path: Path, have: str, given: str) -> EmbedderMismatchError:
    """Return the error of a memory that has vectors of another embedder."""
    return EmbedderMismatchError(
        f"{path.name!r} was made with the embedder {have!r} and {given!r} is configured; "
        f"open it with embedder={have!r} (or 'auto'), {_GIVE_IT}"
    )


def check_own(tx: Tx, path: Path, model: str) -> None:
    """Raise if a memory's vectors are of another embedder than the one that it was opened with.

    Raises:
        EmbedderMismatchError: if the memory was given another one since.
    """
    have = meta.get(tx, "embedder")
    if have not in (None, model):
        raise other_embedder(path, have, model)


def keep_embedder(tx: Tx, path: Path, embedder: Embedder | None) -> bool:
    """Note the embedder at the first write of a memory; return whether older texts still lack its vectors.

    Raises:
        EmbedderMismatchError: if another process has written with another embedder since the opening.
    """
    if embedder is None:
        return False
    have = meta.get(tx, "embedder")
    if have is None:
        meta.put(tx, "embedder", embedder.model_id)
        return bool(derived.missing_vectors(tx, "turn"))
    if have != embedder.model_id:
        raise other_embedder(path, have, embedder.model_id)
    return False
