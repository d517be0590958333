"""Derived rows: vectors and word rows. Every one can be made again from the persistent tables.

Values are BLOBs, the same on every machine: vectors, and compressed texts.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.store.connections import AMONG, Tx, listed, parts

NUMBER = np.dtype("<f2")
"""Of vectors: half precision (IEEE 754 binary16), which keeps 11 bits of each number and moves a cosine by some 1e-5."""

LEVEL = 6
"""Of compression: a summary of a few sentences takes half its bytes. 0 stores texts as they are."""


def pack_vector(vector: NDArray[np.float32]) -> bytes:
    """Return a vector as bytes, a `NUMBER` each."""
    return vector.astype(NUMBER).tobytes()


def unpack_vectors(*blobs: bytes) -> NDArray[np.float32]:
    """Return the vectors of BLOBs of one length, shape (number of BLOBs, d).

    Raises:
        ValueError: if they are not of one length.
    """
    return np.frombuffer(b"".join(blobs), dtype=NUMBER).reshape(len(blobs), -1).astype(np.float32)


def pack_text(text: str) -> bytes:
    """Return a text compressed, with a checksum, so that damage is found (RFC 1950)."""
    return zlib.compress(text.encode(), LEVEL)


def unpack_text(blob: bytes) -> str:
    """Return a text that was compressed.

    Example:
        >>> unpack_text(pack_text("Ann lives in Porto."))
        'Ann lives in Porto.'

    Raises:
        ValueError: if the bytes are no compressed text, or not as they were.
    """
    try:
        return zlib.decompress(blob).decode()
    except zlib.error as exc:
        raise ValueError(f"{len(blob)} bytes are no compressed text: {exc}") from None


ItemKind = Literal["turn", "fact"]
ITEM_KINDS: tuple[ItemKind, ...] = get_args(ItemKind)

VectorRow = tuple[int, bytes, NDArray[np.float32]]
"""(item, digest of the text, unit vector)."""

_BLOCK = 1024
"""Vectors read at a time: few enough that their bytes beside the array are no matter."""

IN_PLACE = (3, 42, 0)
"""SQLite from which FTS5 can delete tokens where they stand."""

CHANGES_KEPT = 2_048
"""Word rows that may change between two questions before all postings are read anew; a power of two."""

VECTOR_TABLES = {"turn": "derived_turn_vector", "fact": "derived_fact_vector"}

_TEXTS = {
    "turn": "SELECT id, speaker, text FROM turn",
    "fact": "SELECT id, '' AS speaker, text FROM fact",
}

_NOTE_WORDS = f"INSERT INTO derived_word_change (kind, item) SELECT ?, value FROM {listed('?')}"

_WORDS: dict[ItemKind, str] = {"turn": "derived_turn_words", "fact": "derived_fact_words"}
_TERMS = {"turn": "derived_turn_terms", "fact": "derived_fact_terms"}


def put_vectors(tx: Tx, kind: ItemKind, rows: Iterable[VectorRow]) -> None:
    """Store vectors (see `memforest.store.derived`) beside the digest of their text; they are of the memory's embedder."""
    tx.executemany(
        f"""INSERT INTO {VECTOR_TABLES[kind]} VALUES (?, ?, ?) ON CONFLICT (item) DO UPDATE
            SET digest = excluded.digest, vector = excluded.vector""",
        [(item, digest, pack_vector(vector)) for item, digest, vector in rows],
    )


def stored_vectors(tx: Tx, kind: ItemKind, items: Collection[int]) -> dict[int, tuple[bytes, bytes]]:
    """Return item -> (digest, vector as it is stored) of those items that have one."""
    rows = tx.execute(
        f"SELECT item, digest, vector FROM {VECTOR_TABLES[kind]} WHERE item {AMONG}", (tx.ids(items),)
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def dimension(tx: Tx) -> int | None:
    """Return the length of the memory's vectors, None while it has none."""
    for table in VECTOR_TABLES.values():
        row = tx.execute(f"SELECT length(vector) FROM {table} LIMIT 1").fetchone()
        if row is not None:
            return int(row[0]) // NUMBER.itemsize
    return None


def vectors_by_digest(tx: Tx, digests: Collection[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """Return the vectors that some item with the same text has already."""
    found: dict[bytes, bytes] = {}
    for part, marks in parts(digests):
        # One of each: thousands of turns may say the same.
        one = map("(SELECT vector FROM {} WHERE digest = w.digest LIMIT 1)".format, VECTOR_TABLES.values())
        sql = f"WITH w (digest) AS (VALUES {marks.replace('?', '(?)')}) SELECT digest, coalesce({', '.join(one)}) AS v FROM w"
        found |= tx.pairs(f"{sql} WHERE v NOTNULL", part)
    return {key: unpack_vectors(vector)[0] for key, vector in found.items()}


def vectors_of_items(tx: Tx, kind: ItemKind, items: Collection[int]) -> dict[int, NDArray[np.float32]]:
    """Return the vectors of those items that have one."""
    return {item: unpack_vectors(vector)[0] for item, (_, vector) in stored_vectors(tx, kind, items).items()}


def vector_blocks(
    tx: Tx, kind: ItemKind, only: Collection[int] | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the items of a kind that have a vector, by id, in blocks: ids of shape (b,), vectors of shape (b, d)."""
    sql = f"SELECT item, vector FROM {VECTOR_TABLES[kind]}"
    args: tuple[object, ...] = ()
    if only is not None:
        sql, args = f"{sql} WHERE item {AMONG}", (tx.ids(only),)
    found = tx.execute(f"{sql} ORDER BY item", args)
    while rows := found.fetchmany(_BLOCK):
        ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
        yield ids, unpack_vectors(*(row[1] for row in rows))


def drop_vectors(tx: Tx, kind: ItemKind, items: Iterable[int]) -> None:
    """Delete the vectors of items."""
    tx.executemany(f"DELETE FROM {VECTOR_TABLES[kind]} WHERE item = ?", [(item,) for item in items])


def embedded_texts(kind: ItemKind) -> str:
    """Return a query of (id, speaker, text) of everything of a kind that is embedded."""
    return _TEXTS[kind]


def missing_vectors(tx: Tx, kind: ItemKind) -> list[tuple[int, str, str]]:
    """Return (item, speaker, text) of items without a vector; only a turn has a speaker."""
    return tx.execute(
        f"""SELECT s.* FROM ({_TEXTS[kind]}) s LEFT JOIN {VECTOR_TABLES[kind]} v ON v.item = s.id
            WHERE v.item IS NULL ORDER BY s.id"""
    ).fetchall()


def put_words(tx: Tx, kind: ItemKind, rows: Sequence[tuple[int, str]]) -> None:
    """Index the tokens of items, whatever was indexed of them, as `words_of` has them."""
    tx.executemany(f"DELETE FROM {_WORDS[kind]} WHERE rowid = ?", [(item,) for item, _ in rows])
    add_words(tx, kind, rows)


def words_of(tx: Tx, kind: ItemKind, items: Collection[int]) -> dict[int, str]:
    """Return the indexed tokens of items, between spaces."""
    return tx.pairs(f"SELECT rowid, words FROM {_WORDS[kind]} WHERE rowid {AMONG}", (tx.ids(items),))


def add_words(tx: Tx, kind: ItemKind, rows: Sequence[tuple[int, str]]) -> None:
    """Index the tokens of items that are not indexed yet, as `words_of` has them."""
    tx.executemany(f"INSERT INTO {_WORDS[kind]} (rowid, words) VALUES (?, ?)", rows)
    _note_words(tx, kind, [item for item, _ in rows])


def clear_words(tx: Tx, kind: ItemKind, items: Collection[int]) -> None:
    """Take items out of the lexical index."""
    tx.executemany(f"DELETE FROM {_WORDS[kind]} WHERE rowid = ?", [(item,) for item in items])
    _note_words(tx, kind, items)


def _note_words(tx: Tx, kind: ItemKind, items: Collection[int]) -> None:
    """Note that the words of items have changed; the oldest notes go."""
    tx.execute(_NOTE_WORDS, (kind, tx.ids(items)))
    newest = "SELECT max(seq) FROM derived_word_change"
    tx.execute(f"DELETE FROM derived_word_change WHERE seq <= ({newest}) - ?", (CHANGES_KEPT,))


def last_word_change(tx: Tx) -> int:
    """Return the number of the last change of a word row; it only grows."""
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'derived_word_change'").fetchone()
    return 0 if row is None else int(row[0])


def changed_words(tx: Tx, kind: ItemKind, after: int) -> dict[int, tuple[str, ...] | None] | None:
    """Return what was indexed or taken out after a change: item -> its tokens now, None when it has no row.

    Returns:
        None when it is no longer known what has changed since.
    """
    known = tx.value("SELECT count(*) FROM derived_word_change WHERE seq > ?", (after,))
    if known != last_word_change(tx) - after:
        return None
    items = tx.execute(
        "SELECT DISTINCT item FROM derived_word_change WHERE seq > ? AND kind = ? ORDER BY item",
        (after, kind),
    ).fetchall()
    read = f"SELECT words FROM {_WORDS[kind]} WHERE rowid = ?"
    rows = {item: tx.execute(read, (item,)).fetchone() for (item,) in items}
    return {item: None if row is None else tuple(row[0].split()) for item, row in rows.items()}


def all_words(tx: Tx, kind: ItemKind) -> Iterator[tuple[int, str]]:
    """Yield every indexed item with its tokens, which stand between spaces."""
    return iter(tx.execute(f"SELECT rowid, words FROM {_WORDS[kind]} ORDER BY rowid"))


def reindex_words(tx: Tx) -> None:
    """Make the lexical index anew from its rows, whatever state it is in; postings in memory are read anew.

    Source: https://www.sqlite.org/fts5.html#the_rebuild_command.
    """
    for table in _WORDS.values():
        tx.execute(f"INSERT INTO {table} ({table}) VALUES ('rebuild')")
    forget_word_changes(tx)


def forget_word_changes(tx: Tx) -> None:
    """Break the log of word changes, so that every reader reads all words anew."""
    tx.execute("INSERT INTO derived_word_change (kind, item) VALUES ('all', 0)")  # the gap says so
    tx.execute("DELETE FROM derived_word_change")


def purge_words(tx: Tx, lost: Collection[str] = ()) -> None:
    """Purge deleted tokens from the lexical index: FTS5 keeps them until segments merge.

    The first time the index is rewritten. From then on FTS5 deletes tokens where they stand, so that it takes no longer
    in a large memory; the index is then rewritten only if one of the `lost` tokens is where a page begins. SQLite before
    3.42 cannot do that: there the index is rewritten each time, and it cannot read such an index either (`foreign_words`).
    Source: https://www.sqlite.org/fts5.html#the_secure_delete_configuration_option, #the_optimize_command.

    Args:
        tx: the write transaction.
        lost: tokens that were in rows which are deleted now.
    """
    for table in _WORDS.values():
        if not _deletes_in_place(tx, table) or _begins_a_page(tx, table, lost):
            how = "rebuild" if _levels(tx, table) > MOST_LEVELS else "optimize"
            tx.execute(f"INSERT INTO {table} ({table}) VALUES ('{how}')")
        if sqlite3.sqlite_version_info >= IN_PLACE and not _deletes_in_place(tx, table):
            tx.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)")


MOST_LEVELS = 1_000
"""Levels of an FTS5 index at which it is made anew. SQLite 3.40 adds some with every 'optimize', and takes an index of 2,001 for damaged."""


def _levels(tx: Tx, table: str) -> int:
    """Return the levels of an index: the first number of its structure record, behind a cookie of four bytes.

    Source: https://www.sqlite.org/src/file/ext/fts5/fts5_index.c, "Structure Record".
    """
    first, second = tx.value(f"SELECT substr(block, 5, 2) FROM {table}_data WHERE id = 10")
    return int(
        first if first < 0x80 else (first & 0x7F) << 7 | second & 0x7F
    )  # of two bytes at most: up to 16,383


def _deletes_in_place(tx: Tx, table: str) -> bool:
    return (
        tx.execute(f"SELECT 1 FROM {table}_config WHERE k = 'secure-delete' AND v = 1").fetchone() is not None
    )


def _begins_a_page(tx: Tx, table: str, lost: Collection[str]) -> bool:
    """Return whether a page of the index begins with a token that no row holds any more."""
    terms = {f"0{token}".encode(): token for token in lost}  # "0" marks the terms of the main index
    found = [terms[term] for (term,) in tx.execute(f"SELECT term FROM {table}_idx") if term in terms]
    kind = next(kind for kind, name in _WORDS.items() if name == table)
    return any(not postings(tx, kind, token) for token in found)


def foreign_words(tx: Tx) -> bool:
    """Return whether this SQLite cannot read the lexical index, because a newer one has deleted in it."""
    return sqlite3.sqlite_version_info < IN_PLACE and any(
        _deletes_in_place(tx, table) for table in _WORDS.values()
    )


def plain_words(tx: Tx) -> None:
    """Make the lexical index anew from its rows, in the form that every SQLite can read.

    Its version is set first, as nothing can be done with an index of another one.
    """
    for table in _WORDS.values():
        tx.execute(f"DELETE FROM {table}_config WHERE k = 'secure-delete'")
        tx.execute(f"UPDATE {table}_config SET v = 4 WHERE k = 'version'")
    reindex_words(tx)


def word_counts(tx: Tx, kind: ItemKind, only: Collection[int] | None = None) -> dict[int, int]:
    """Return the number of tokens of indexed items."""
    sql = f"SELECT rowid, length(words) - length(replace(words, ' ', '')) + (words != '') FROM {_WORDS[kind]}"
    if only is None:
        return tx.pairs(sql)
    return dict(row for item in only for row in tx.execute(f"{sql} WHERE rowid = ?", (item,)))


def postings(tx: Tx, kind: ItemKind, term: str) -> list[tuple[int, int]]:
    """Return (item, occurrences) of a token, by item."""
    sql = f"SELECT doc, count(*) FROM {_TERMS[kind]} WHERE term = ? GROUP BY doc ORDER BY doc"
    return tx.execute(sql, (term,)).fetchall()
