"""The places of statements: the sentences of turns that they were made from, by digests that stay when they are extracted anew."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from memforest.language.sentences import split_sentences
from memforest.search.texts import digest
from memforest.store.corrections import NOW, corrections_at
from memforest.store.tx import Tx
from memforest.text import fold, words

__all__ = ["hidden_sentences", "sentences_of", "sentences_said"]


@lru_cache(maxsize=4096)
def sentences_said(text: str) -> dict[bytes, str]:
    """Return digest -> sentence for the sentences of a turn, in order; of a text without any, the text itself."""
    pieces = [piece.text for piece in split_sentences(text)] or [text]
    return {digest(_plain(piece)): piece for piece in pieces}


def sentences_of(text: str, quote: str | None) -> frozenset[bytes]:
    """Return the digests of those sentences of a turn that a quote holds, or is a part of; none if it is of another turn.

    Args:
        text: of the turn.
        quote: as it is stored, on lines where its pieces stand apart; None for all of the turn.
    """
    said = sentences_said(text)
    if quote is None:
        return frozenset(said)
    lines = [_plain(line) for line in quote.split("\n") if line.strip()]
    return frozenset(
        key
        for key, sentence in said.items()
        if (plain := _plain(sentence)) and any(_within(plain, line) or _within(line, plain) for line in lines)
    )


def hidden_sentences(tx: Tx, turns: Collection[int], at_ms: int = NOW) -> dict[int, frozenset[bytes]]:
    """Return turn -> the digests of its sentences that corrections hid at a moment."""
    made, places = corrections_at(tx, turns, at_ms)
    found: dict[int, set[bytes]] = {}
    for place in places:
        if made[place.correction].hides:
            found.setdefault(place.turn, set()).add(place.quote)
    return {turn: frozenset(digests) for turn, digests in found.items()}


def _plain(text: str) -> str:
    """Return the words of a text, folded; the text itself where it has none."""
    return " ".join(words(fold(text))) or text.strip()


def _within(part: str, whole: str) -> bool:
    """Return whether words stand together in others."""
    return f" {part} " in f" {whole} "
