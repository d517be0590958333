"""A word-overlap embedder for tests: no weights, microseconds per text, the same bytes everywhere.

It knows spelling, not meaning: texts are near each other when they share words. Use it to test and time what
is built on embeddings; do not use it to judge retrieval, and do not give it to users as a default.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError
from memforest.models.base import Vectors
from memforest.models.inputs import checked_texts
from memforest.text import snowball_stem

_WORD = re.compile(r"\w+")
_SHORT = 3
"""ASCII words of at most this many letters ("the", "and") mostly carry no content."""
_SHORT_WEIGHT, _WEIGHT = 1, 4


class HashEmbedder:
    """Embeds a text as the sum of fixed pseudo-random vectors of its words. For tests and benchmarks.

    ASCII words are stemmed as English; a word with any other character counts as itself and as its pairs of
    neighbouring characters, so that scripts without spaces and other languages' endings overlap too. Word
    order is ignored. Sums are whole numbers, hence exact: the same text has the same bytes in every process
    and on every machine.

    Args:
        dimension: length of the vectors; at least 1. Unrelated texts have a cosine of about 0, with a
            standard deviation of about 1 / sqrt(dimension).

    Raises:
        ConfigError: if the dimension is out of range.

    Example:
        >>> import asyncio
        >>> rows = asyncio.run(HashEmbedder(256).embed(["Ann adopted two cats", "a cat was adopted", "tax"]))
        >>> bool(rows[0] @ rows[1] > rows[0] @ rows[2])
        True
    """

    def __init__(self, dimension: int = 64) -> None:
        if dimension < 1:
            raise ConfigError(f"dimension must be at least 1, got {dimension!r}")
        self.model_id = f"hash-words-1@{dimension}"
        self.dimension = dimension

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order. A text without words gets a fixed row.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
        """
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for index, text in enumerate(checked_texts(texts)):
            rows[index] = self._vector(text)
        return rows

    def _vector(self, text: str) -> NDArray[np.float64]:
        total = np.zeros(self.dimension, dtype=np.int64)
        for term, weight in _terms(text):
            total += weight * _signs(term, self.dimension)
        if not total.any():
            total[0] = 1
        unit: NDArray[np.float64] = total / np.sqrt(np.float64(total @ total))
        return unit


def _terms(text: str) -> Iterator[tuple[str, int]]:
    """Yield the text's terms with their weights, once per occurrence."""
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word.isascii():
            yield _stem(word), _SHORT_WEIGHT if len(word) <= _SHORT else _WEIGHT
        else:
            yield word, _WEIGHT
            yield from ((word[at : at + 2], _WEIGHT) for at in range(len(word) - 1))


@functools.lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    return snowball_stem(word, "english")


@functools.lru_cache(maxsize=8192)
def _signs(term: str, dimension: int) -> NDArray[np.int64]:
    """Return the term's fixed vector of +1 and -1, read off the bits of a hash."""
    data = b""
    while len(data) * 8 < dimension:
        block = len(data).to_bytes(4, "little")
        data += hashlib.blake2b(term.encode("utf-8", "surrogatepass"), salt=block).digest()
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=dimension)
    signs = bits.astype(np.int64) * 2 - 1
    signs.flags.writeable = False
    return signs
