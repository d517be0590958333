"""The places of statements: the sentences of turns that they were made from, by digests that stay when they are extracted anew."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b

from memforest.facts.entities import speaker_key
from memforest.language.sentences import split_sentences
from memforest.limits import MAX_ID_CHARS
from memforest.search.texts import digest
from memforest.store.corrections import NOW, corrections_at
from memforest.store.turns import StoredTurn
from memforest.store.tx import Tx
from memforest.text import fold, words

_DERIVED = re.compile("~[0-9a-f]{10}$")
_MOST_ROOT = MAX_ID_CHARS - 11


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


# -- places in all memories that were merged ------------------------------------------------------


def root_id(own_id: str) -> str:
    """Return the id that a session or a turn had before a merge gave it another one; its own where none did."""
    return _DERIVED.sub("", own_id)[:_MOST_ROOT]


def derived_id(own_id: str, *parts: str) -> str:
    """Return the id that a merge gives to what cannot keep its own: that with a digest of where it comes from.

    Example:
        >>> derived_id("s1", "memory", "bob")
        's1~4b6d1d7768'
    """
    root = root_id(own_id)
    digest = blake2b("\0".join((*parts, root)).encode(), digest_size=5).hexdigest()
    return f"{root}~{digest}"


def holds(text: str, sentence: str) -> bool:
    """Return whether a text has the words of a sentence, in a row."""
    return _within(_plain(sentence), _plain(text))


def copy_digests(turn: StoredTurn, text: str, speaker: str) -> tuple[bytes, bytes]:
    """Return the digests by which a text of a turn is known in whatever memory it was copied to.

    One is of who said it when, in which session; the other, for turns that a store stamped itself, of the turn's id instead.
    """
    place = (root_id(turn.session_id), speaker_key(speaker) or speaker, _plain(text))
    first, second = (
        blake2b("\0".join((*place, at)).encode(), digest_size=16).digest()
        for at in (str(turn.said_ms), f"turn {root_id(turn.turn_id)}")
    )
    return first, second


def gone_digests(turn: StoredTurn, left: str | None) -> Iterable[bytes]:
    """Yield the digests of what goes of a turn, and of the turn as it was; nothing if all of it is left."""
    if left == turn.text:
        return
    kept = {} if left is None else sentences_said(left)
    gone = [said for key, said in sentences_said(turn.text).items() if key not in kept]
    for text in (turn.text, *gone):
        yield from copy_digests(turn, text, turn.speaker)[: 2 if turn.time_source == "clock" else 1]
