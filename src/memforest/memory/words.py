"""The rows of the lexical index, written from what was said; and written anew when words are cut otherwise than before."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from memforest.interval import from_ms
from memforest.search.texts import index_tokens
from memforest.store import checks, derived, meta
from memforest.store.digests import damaged_turns
from memforest.store.tx import Tx

KEY = "words"
WORDS = "2"
"""How words are cut, kept with a memory. 2: Cyrillic and Arabic words are stemmed; a memory without the key has them whole."""
_CUT_ANEW = re.compile("[\u0400-\u04ff\u0600-\u06ff]")

_Kind = Literal["turn", "fact"]
_KINDS: tuple[_Kind, ...] = ("turn", "fact")


def index_rows(tx: Tx, only: Collection[tuple[str, int]] | None = None) -> int:
    """Write word rows, of all turns and facts when `only` is None, and return how many; damaged turns get none."""
    damaged = damaged_turns(tx)
    made = 0
    for kind in _KINDS:
        for row, speaker, text, said_ms in checks.indexed_texts(tx, kind):
            if (only is None or (kind, row) in only) and not (kind == "turn" and row in damaged):
                derived.put_words(tx, kind, row, index_tokens(speaker, text, from_ms(said_ms)))
                made += 1
    return made


def renew_words(tx: Tx) -> None:
    """Write the word rows anew that an older version has cut otherwise, and note how words are cut now."""
    old = {
        (kind, row)
        for kind in _KINDS
        for row, speaker, text, _ in checks.indexed_texts(tx, kind)
        if _CUT_ANEW.search(text) or _CUT_ANEW.search(speaker)
    }
    if old:
        index_rows(tx, old)
        meta.bump(tx)
    meta.put(tx, KEY, WORDS)
