"""Where texts are in a memory's file: in its raw bytes, and in its rows when they are decoded."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from memforest.store.gaps import MAGIC, raw_files
from memforest.store.packing import unpack_text
from memforest.store.tx import Tx
from memforest.text import fold

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
CHANCE_BYTES = 8
"""What takes less stands in the random bytes of an encrypted file by chance: a word of four letters in one of 700 files of 400 kB."""


def forms(text: str) -> frozenset[str]:
    """Return how a text may be written: as it is, in other cases and normal forms, folded, and as JSON escapes it."""
    made = {text, fold(text)}
    made |= {unicodedata.normalize(form, one) for form in ("NFC", "NFD", "NFKC") for one in tuple(made)}
    made |= {
        changed for one in tuple(made) for changed in (one.lower(), one.upper(), one.title(), one.casefold())
    }
    made |= {json.dumps(one)[1:-1] for one in tuple(made)}
    return frozenset(one for one in made if one)


def bytes_with(path: Path, texts: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield (which text, file name, byte) of the first place of each text in each file of a memory, in any form and encoding.

    An encrypted file shows nothing but by chance: what takes less than 8 bytes is not looked for in it.

    Raises:
        OSError: if a file cannot be read.
    """
    wanted = [{one.encode(name).lower() for one in forms(text) for name in ENCODINGS} for text in texts]
    for name, raw in raw_files(path):
        if name == path.name and not raw.startswith(MAGIC):  # it comes first
            wanted = [{needle for needle in needles if len(needle) >= CHANCE_BYTES} for needles in wanted]
        lower = raw.lower()
        for at, needles in enumerate(wanted):
            places = [place for needle in needles if (place := lower.find(needle)) >= 0]
            if places:
                yield at, name, min(places)


def rows_with(tx: Tx, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (which text, table and column) of the columns in which a text stands: also in summaries, which are compressed, and JSON."""
    folded = [fold(text) for text in texts]
    for place, values in _columns(tx):
        left = dict(enumerate(folded))
        for value in values:
            said = fold(value)
            for at in [at for at, text in left.items() if text and text in said]:
                del left[at]
                yield at, place
            if not left:
                break


def _columns(tx: Tx) -> Iterator[tuple[str, Iterator[str]]]:
    tables = [
        row[0]
        for row in tx.execute(
            """SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict ORDER BY name"""
        )
    ]
    for table in tables:
        for _, column, kind, *_ in tx.execute(f'PRAGMA table_info("{table}")').fetchall():
            if kind == "TEXT":
                rows = tx.execute(f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL').fetchall()
                yield f"{table}.{column}", (_plain(row[0]) for row in rows)
    rows = tx.execute("SELECT text FROM derived_summary").fetchall()
    yield "derived_summary.text", (unpack_text(row[0]) for row in rows)


def _plain(value: str) -> str:
    """Return a text; of JSON with escapes, what it says."""
    if value[:1] not in "[{" or "\\u" not in value:
        return value
    try:
        return json.dumps(json.loads(value), ensure_ascii=False)
    except ValueError:
        return value
