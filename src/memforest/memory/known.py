"""How much of a memory's texts its embedder has words for, and what to say when that is little.

An English model knows few words of other scripts: of a Chinese chat the shipped ones know 28 % of the characters.
Vectors then tell little, and the ranking goes by words as far as they do not (`memforest.systems.speak.known_words`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from memforest.errors import ModelError
from memforest.ports import Embedder
from memforest.search.load import Known, all_known
from memforest.store import snapshot as rows
from memforest.store.tx import Tx

LITTLE = 0.5
"""Share of known words below which it is said that there are few."""
SAMPLE = 500
"""Turns of a memory that are looked at where all of them are not at hand."""
_FIX = "give Config(embedder=...) a multilingual model, and the memory that one: rebuild(embedder=True)"


def known_of(embedder: Embedder | None) -> Known:
    """Return what says which share of texts a memory's embedder has words for."""
    return all_known if embedder is None else partial(known_shares, embedder)


def known_shares(embedder: Embedder, texts: Sequence[str]) -> list[float]:
    """Return which share of each text an embedder has words for; 1 where it cannot say.

    Raises:
        ModelError: if what it says is not one number from 0 to 1 per text.
    """
    if not hasattr(embedder, "known_shares"):
        return [1.0] * len(texts)
    shares = [float(share) for share in embedder.known_shares(texts)]
    if len(shares) != len(texts) or not all(0.0 <= share <= 1.0 for share in shares):
        raise ModelError(
            f"embedder {embedder.model_id!r}: known_shares() of {len(texts)} texts must return as many numbers from 0 to 1"
        )
    return shares


def sampled_share(tx: Tx, known: Known) -> float:
    """Return the mean share of known words of a memory's first turns, `SAMPLE` at most; 1 if it has none."""
    texts = [row.text for row in islice(rows.turn_rows(tx, None), SAMPLE)]
    return mean_share(known(texts))


def mean_share(shares: Sequence[float]) -> float:
    """Return the mean of shares, 1 if there are none."""
    return sum(shares) / len(shares) if len(shares) else 1.0


def unknown_note(share: float, embedder: str, what: str = "this memory") -> str | None:
    """Say that an embedder knows few words of something; None when it knows enough."""
    if share >= LITTLE:
        return None
    return (
        f"the embedder {embedder!r} has words for {share:.0%} of {what}: its vectors tell little there, "
        f"and words decide; {_FIX}"
    )
