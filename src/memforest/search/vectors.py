"""Vectors by row, the texts that are embedded and the tokens that are indexed, and making vectors of texts.

The numbers of a `VectorTable` stand in one array that only ever grows at its end; a table says which place of it each of
its rows has. So a table that differs from another in a few rows costs those rows and one array of places, and whoever
still reads the older one is not disturbed. When more than half of the places are unused, or the array is full, the next
table gets an array of its own.

The date helps the lexical leg and hurts the dense one, so only the former has it (measured: a date prefix is +2.3
recall@10 for BM25 fusion and -1.9 for bge alone on LoCoMo).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.errors import EmbedderMismatchError, ModelError
from memforest.ports import Embedder
from memforest.search.scores import Scores, cosines
from memforest.store import derived, meta
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.derived import NUMBER
from memforest.text import lexical_tokens, long_numbers, shorten_runs, words
from memforest.times import MONTHS

T = TypeVar("T")
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

ROOM = 1.25
"""A new array has room for this many times what it must hold; pages that are not written to take no memory."""
SPARE = 1024


SIDE_BY_SIDE = 32_768
"""Rows from which two threads share a comparison. Below, starting one and waiting for it costs more than it saves."""


class Side(Generic[T]):
    """One piece of work in a thread of its own, which ends with its block: no thread outlives it into a fork or exit.

    Raises:
        Exception: from `result`, whatever the work raised.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(work,), name="memforest-side", daemon=True)

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - it is raised again where the result is asked for
            self._future.set_exception(exc)

    def __enter__(self) -> Side[T]:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._thread.join()

    def result(self) -> T:
        """Return the result of the work; to be called after the block."""
        return self._future.result(timeout=0)


class _Shared:
    """The growing array; place 0 is the zero vector, for rows that have none."""

    def __init__(self, capacity: int, dimension: int) -> None:
        self.array = np.empty((capacity, dimension), dtype=np.float32)
        self.array[0] = 0
        self.filled = 1
        self._lock = threading.Lock()

    def append(self, vectors: Floats) -> int | None:
        """Append vectors and return the place of the first; None when there is no room."""
        with self._lock:
            first, end = self.filled, self.filled + len(vectors)
            if end > len(self.array):
                return None
            self.array[first:end] = vectors
            self.filled = end
            return first


class VectorTable:
    """Unit vectors of shape (rows, dimension); immutable. A row without a vector is zero."""

    __slots__ = ("_places", "_plain", "_shared", "_used")
    __array_ufunc__ = None  # arithmetic with arrays is an error, not a slow loop over rows

    def __init__(self, shared: _Shared, places: Ints, used: int) -> None:
        self._shared = shared
        self._places = places
        self._used = used
        self._plain = bool(len(places) + 1 == used and (places == np.arange(1, used)).all())

    @classmethod
    def of(cls, vectors: Any) -> VectorTable:
        """Return a table of an array of shape (rows, dimension), which is copied."""
        rows = np.asarray(vectors, dtype=np.float32)
        made = cls.blank(len(rows), rows.shape[1])
        made.fill(np.arange(len(rows)), rows)
        return made

    @classmethod
    def blank(cls, rows: int, dimension: int) -> VectorTable:
        """Return a table of zero vectors; its maker may `fill` it before anybody reads it."""
        shared = _Shared(round((rows + SPARE) * ROOM), dimension)
        shared.array[1 : rows + 1] = 0
        shared.filled = rows + 1
        return cls(shared, np.arange(1, rows + 1, dtype=np.int64), rows + 1)

    def fill(self, rows: Ints, vectors: Floats) -> None:
        """Set the vectors of rows; for the maker of a blank table only."""
        self._shared.array[self._places[rows]] = vectors

    def __len__(self) -> int:
        return len(self._places)

    @property
    def dimension(self) -> int:
        """Length of the vectors, 0 while there are none."""
        return int(self._shared.array.shape[1])

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which rows have a vector, shape (rows,)."""
        return np.asarray(self._places > 0)

    @property
    def nbytes(self) -> int:
        """Bytes that are in use."""
        return int(self._shared.filled * self.dimension * 4 + self._places.nbytes)

    @property
    def rows(self) -> Floats:
        """The vectors as one array of shape (rows, dimension), read-only; copied when rows were changed."""
        if self._plain:
            view: Floats = self._shared.array[1 : self._used]
            view.flags.writeable = False
            return view
        return np.take(self._shared.array, self._places, axis=0)

    def __getitem__(self, rows: Any) -> Floats:
        """Return the vectors of some rows, copied."""
        return np.take(self._shared.array, np.asarray(self._places[rows]), axis=0)

    def cosines(self, vector: Floats) -> Scores:
        """Return the cosine of every row with a unit vector, shape (rows,).

        Each is summed by itself, so it does not depend on where the row stands.
        """
        return self.cosines_of(vector)[0]

    def cosines_of(self, *vectors: Floats) -> list[Scores]:
        """Return `cosines` with each of some unit vectors; the rows are read once."""
        array = self._shared.array[int(self._plain) : self._used]
        if len(array) < SIDE_BY_SIDE or (os.cpu_count() or 1) < 2:
            found = cosines(array, *vectors)
        else:  # rows are independent, so two halves may run in parallel
            middle = len(array) // 2
            with Side(partial(cosines, array[middle:], *vectors)) as side:
                head = cosines(array[:middle], *vectors)
            found = [np.concatenate(pair) for pair in zip(head, side.result(), strict=True)]
        return found if self._plain else [np.take(one, self._places) for one in found]

    def cosines_at(self, rows: Ints, vector: Floats) -> Scores:
        """Return `cosines` of some rows, shape (len(rows),), at the cost of those."""
        return cosines(self[rows], vector)[0]

    def changed(self, take: Ints, rows: Sequence[int] | Ints, vectors: Floats) -> VectorTable:
        """Return a table that differs from this one in some rows.

        Args:
            take: for each new row the old row whose vector it keeps, -1 for none.
            rows: new rows that get a vector.
            vectors: theirs, shape (len(rows), dimension).
        """
        places = np.zeros(len(take), dtype=np.int64)
        kept = take >= 0
        places[kept] = self._places[take[kept]]
        places[rows] = 0
        live = int(np.count_nonzero(places)) + len(rows)
        sparse = self._used + len(rows) > 2 * live + SPARE
        first = None if sparse else self._shared.append(vectors)
        if first is None:
            return self._moved(places, rows, vectors)
        places[rows] = np.arange(first, first + len(rows))
        return VectorTable(self._shared, places, first + len(rows))

    def _moved(self, places: Ints, rows: Sequence[int] | Ints, vectors: Floats) -> VectorTable:
        """Return a table with an array of its own."""
        made = VectorTable.blank(len(places), self.dimension)
        np.take(self._shared.array, places, axis=0, out=made._shared.array[1 : len(places) + 1])
        made.fill(np.asarray(rows, dtype=np.int64), vectors)
        return made


LONG_NUMBER = 7
"""Digits of a number that names one thing, as a telephone or an order."""

QUESTION_MARKS = ("?", "？", "؟", "՞")
"""Of Latin, East Asian, Arabic and Armenian script."""

_NOT_INDEXED = re.compile(r"[\W_]")


def turn_text(speaker: str, text: str) -> str:
    """Return the text by which a turn is embedded: speaker and text."""
    return f"{speaker}: {text}"


def read_text(text: str) -> str:
    """Return what an embedder reads of a text: long runs cut, and a statement without its quotation marks, as a turn has none.

    With the marks MiniLM put the right turn first two points less often (docs/research/ranking.md).

    >>> read_text('Ana: "I live in Leeds."')
    'Ana: I live in Leeds.'
    """
    return _QUOTED.sub(r"\g<who>\g<said>", shorten_runs(text))


_QUOTED = re.compile(r'\A(?P<who>[^:"\n]{1,80}: )"(?P<said>.*)"\Z', re.DOTALL)


def asks(text: str) -> bool:
    """Return whether a text ends by asking.

    Example:
        >>> asks("And you? "), asks("Yes.")
        (True, False)
    """
    return text.rstrip().endswith(QUESTION_MARKS)


def question_tokens(text: str) -> list[str]:
    """Return the tokens of a question as the lexical index spells them."""
    # Characters at which SQLite's tokeniser would cut a token ("3.5") are replaced.
    return [token if token.isalnum() else _NOT_INDEXED.sub("ˑ", token) for token in lexical_tokens(text)]


def index_tokens(speaker: str, text: str, when: datetime) -> list[str]:
    """Return the lexical tokens of a turn or fact: its day, who said it, and the text."""
    return question_tokens(f"{day_text(when)} {speaker} {text}")


def day_text(when: datetime) -> str:
    """Return a day as the lexical index spells it: ``"4 march 2024"``."""
    return f"{when.day} {MONTHS[when.month - 1].lower()} {when.year}"


def worded(question: str) -> float:
    """Return the share of a question's characters that are not in long numbers, which vectors cannot tell apart.

    Example:
        >>> worded("+44 20 7946 0958"), worded("Whose cat is it?")
        (0.0, 1.0)
    """
    alone = [word for word in words(question) if len(word) >= LONG_NUMBER and word.isdigit()]
    digits = sum(map(len, (*alone, *long_numbers(question))))
    return 1.0 - min(1.0, digits / max(1, sum(ch.isalnum() for ch in question)))


def digest(text: str) -> bytes:
    """Return the 8-byte digest that vectors are cached by."""
    return blake2b(text.encode(), digest_size=16).digest()[:8]


def without_names(question: str, speakers: Sequence[str]) -> str:
    """Return a question without participants' names, which say whose tree to look in but not for what.

    Example:
        >>> without_names("What did Ana's sister buy?", ["Ana"])
        'What did sister buy?'
    """
    parts = sorted({part for name in speakers for part in (name, *name.split())}, key=len, reverse=True)
    named = "|".join(re.escape(part) for part in parts if len(part) > 1)
    if not named:
        return question
    bare = re.sub(rf"(?<!\w)(?:{named})(?:['’]s)?(?!\w)", " ", question, flags=re.IGNORECASE)
    bare = " ".join(bare.split()).replace(" ?", "?")
    return bare if any(ch.isalnum() for ch in bare) else question


_GIVE_IT = "or give the memory this one: rebuild(embedder=True), `memforest maintain rebuild --embedder`"


@dataclass(slots=True)
class VectorMaker:
    """Makes vectors for one memory and counts, by kind, the texts that the embedder was asked for."""

    db: Database
    embedder: Embedder
    ran: dict[str, int] = field(default_factory=dict)
    stored_dimension: int | None = None
    """Length of the memory's vectors when they were last looked up; None while it has none."""

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
            found.update(zip(missing, rows, strict=True))
        return found

    async def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        """Return a unit vector for every text, each made by the embedder, as it will be stored.

        Raises:
            ModelError: if the embedder fails or returns something else than finite rows of its dimension.
        """
        rows = await self.embedder.embed([read_text(text) for text in texts])
        if rows.shape != (len(texts), self.embedder.dimension) or not np.isfinite(rows).all():
            raise ModelError(
                f"embedder {self.embedder.model_id!r} returned shape {rows.shape} for {len(texts)} texts; "
                f"expected finite rows of dimension {self.embedder.dimension}"
            )
        self.ran[kind] = self.ran.get(kind, 0) + len(texts)
        if self.stored_dimension not in (None, self.embedder.dimension):
            raise self.other_dimension()
        return rows.astype(NUMBER).astype(np.float32)  # the same now as after reading

    def check_own(self, tx: Tx) -> None:
        """Raise if the memory has been given another embedder since it was opened, before a vector of this one is written.

        Raises:
            EmbedderMismatchError: if that is so.
        """
        check_own(tx, self.db.path, self.embedder.model_id)

    def other_dimension(self) -> EmbedderMismatchError:
        """Return the error of an embedder whose vectors have another dimension than the memory's, although the names agree."""
        return EmbedderMismatchError(
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
